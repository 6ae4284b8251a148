//! Being written.
use super::*;
use crate::cdb::Reporting;
use crate::device::Device;
use crate::nexus::{Nexus, NexusId};
use std::sync::Arc;
fn none() -> Result<Payload> {
    Err(Sense::illegal(Asc::INVALID_OPCODE).into())
}
pub(super) fn luns(_: &Task, _: u8, _: u32) -> Result<Payload> {
    none()
}
pub(super) fn opcodes(_: bool, _: Reporting, _: u32) -> Result<Payload> {
    none()
}
pub(super) fn task_management(_: bool, _: u32) -> Result<Payload> {
    none()
}
pub(super) fn target_port_groups(_: &Device, _: bool, _: u32) -> Result<Payload> {
    none()
}
pub(super) fn set_target_port_groups(_: &Task, _: &[u8]) -> Result<Payload> {
    none()
}
