//! Being written.
use super::*;
use crate::cdb::Reporting;
use crate::device::Device;
use crate::nexus::{Nexus, NexusId};
use std::sync::Arc;
fn none() -> Result<Payload> {
    Err(Sense::illegal(Asc::INVALID_OPCODE).into())
}
pub(super) fn report(_: &Unit, _: u8, _: u32) -> Result<Payload> {
    none()
}
pub(super) async fn change(_: &Task, _: &Arc<Unit>, _: &[u8]) -> Result<Payload> {
    none()
}
pub(super) fn reserve(_: &Unit, _: &Nexus) -> Result<Payload> {
    none()
}
pub(super) fn release(_: &Unit, _: &Nexus) -> Result<Payload> {
    none()
}
