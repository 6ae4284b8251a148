//! Being written.
use super::*;
use crate::cdb::Reporting;
use crate::device::Device;
use crate::nexus::{Nexus, NexusId};
use std::sync::Arc;
fn none() -> Result<Payload> {
    Err(Sense::illegal(Asc::INVALID_OPCODE).into())
}
#[derive(Clone)]
pub(crate) struct CopyResult {
    pub(crate) nexus: NexusId,
    pub(crate) list: u32,
}
impl CopyResult {
    pub(crate) fn is_of(&self, o: &CopyResult) -> bool {
        self.nexus == o.nexus && self.list == o.list
    }
}
pub(super) async fn extended_copy(
    _: &Task,
    _: &Unit,
    _: bool,
    _: &[u8],
    _: &Cancel,
) -> Result<Payload> {
    none()
}
pub(super) fn results(_: &Task, _: &Unit, _: u8, _: u32, _: u32) -> Result<Payload> {
    none()
}
