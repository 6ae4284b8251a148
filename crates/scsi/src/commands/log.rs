//! Being written.
use super::*;
use crate::cdb::Reporting;
use crate::device::Device;
use crate::nexus::{Nexus, NexusId};
use std::sync::Arc;
fn none() -> Result<Payload> {
    Err(Sense::illegal(Asc::INVALID_OPCODE).into())
}
pub(super) fn request_sense(_: &Task, _: &Unit, _: bool, _: u32) -> Result<Payload> {
    none()
}
pub(super) fn defect_data(_: bool, _: u8, _: u32) -> Result<Payload> {
    none()
}
pub(super) async fn sense(_: &Unit, _: &Command) -> Result<Payload> {
    none()
}
pub(super) async fn start_stop(_: &Unit, _: &Command) -> Result<Payload> {
    none()
}
pub(super) fn prevent(_: &Unit, _: &Nexus, _: u8) -> Result<Payload> {
    none()
}
pub(super) fn diagnostic_results(_: Option<u8>, _: u32) -> Result<Payload> {
    none()
}
pub(super) fn send_diagnostic(_: bool, _: u8, _: &[u8]) -> Result<Payload> {
    none()
}
