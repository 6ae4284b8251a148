//! Being written.
use super::*;
use crate::cdb::Reporting;
use crate::device::Device;
use crate::nexus::{Nexus, NexusId};
use std::sync::Arc;
fn none() -> Result<Payload> {
    Err(Sense::illegal(Asc::INVALID_OPCODE).into())
}
pub(super) fn page(_: &Task, _: &Unit, _: u8, _: u32) -> Result<Payload> {
    none()
}
