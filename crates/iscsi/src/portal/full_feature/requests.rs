//! Requests other than SCSI commands, in the order of CmdSN; SNACK (§11.16).
//!
//! **Called by** the receiver with each whole request, and when held requests and commands can follow.

use super::FullFeature;
use super::command::Progress;
use super::next::Next;
use crate::portal::member::Held;
use crate::portal::retained::Run;
use crate::portal::transport::PortalTransport;
use crate::wire::request::{Request, Snack, SnackKind};
use crate::wire::response::RejectReason;
use crate::wire::{Bhs, Sn};

impl FullFeature {
    /// Takes a request that has arrived whole, with its data.
    pub(crate) fn request(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        request: Request,
        data: Vec<u8>,
    ) -> Next {
        if self.is_draining() {
            return Next::Idle;
        }
        match self.member.admit(transport, bhs, request, data) {
            Some((request, data)) => self.perform(transport, bhs, &request, &data),
            None => Next::Idle,
        }
    }

    /// Delivers the held request or command with this CmdSN, whose turn has come.
    pub(crate) fn release(&mut self, transport: &mut PortalTransport, sn: Sn) -> Next {
        match self.member.release(sn) {
            Some(Held::Command(slot)) => {
                // The command may have been aborted, and its slot may have another one.
                let held = self.commands.get(slot);
                match held.is_some_and(|c| c.progress == Progress::Held && c.request.cmd_sn == sn) {
                    true => self.deliver(transport, slot),
                    false => Next::Idle,
                }
            }
            Some(Held::Request(bhs, request, data)) => {
                self.perform(transport, &bhs, &request, &data)
            }
            None => Next::Idle,
        }
    }

    fn perform(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        request: &Request,
        data: &[u8],
    ) -> Next {
        self.member.acknowledged_by(request);
        match request {
            Request::TaskManagement(r) => return self.task_management(transport, bhs, r),
            Request::Snack(r) => self.snack(transport, bhs, r),
            _ => self.member.perform(transport, bhs, request, data),
        }
        Next::Idle
    }

    /// SNACK (§11.16).
    fn snack(&mut self, transport: &mut PortalTransport, bhs: &Bhs, snack: &Snack) {
        if !self.member.recovers() {
            return self
                .member
                .reject(transport, RejectReason::PROTOCOL_ERROR, bhs);
        }
        let run = Run {
            begin: snack.begin,
            count: snack.run,
        };
        let found = match snack.kind() {
            Some(SnackKind::Status) => self.member.repeat_statuses(transport, run),
            Some(SnackKind::Data) => {
                let slot = self.commands.find(snack.itt);
                slot.is_some_and(|slot| self.repeat_r2ts(transport, slot, run))
                    || self.member.repeat_data(transport, snack.itt, run)
            }
            // We never ask for an acknowledgment of data (A bit).
            Some(SnackKind::DataAck) => true,
            Some(SnackKind::ResegmentedData) | None => false,
        };
        if !found {
            self.member
                .reject(transport, RejectReason::SNACK_REJECT, bhs);
        }
    }
}
