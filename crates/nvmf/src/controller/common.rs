//! The parts of a connection that every phase has.
//!
//! **Owns** the link, the counts that only this protocol has, and the error that ends the connection. **Called by** all phases.
//! **Invariants**: within a turn only plain fields are counted.

use super::config::{PortRole, Transport};
use super::counters::{CloseReason, OPCODES};
use super::shared::TargetShared;
use super::status::Completion;
use crate::wire::pdu::PduError;
use io::time::Instant;
use session::link::Link;
use std::sync::Arc;

/// The parts of a connection that every phase has.
pub(super) struct Common {
    target: Arc<TargetShared>,
    transport: Transport,
    role: PortRole,
    pub(super) link: Link<CloseReason>,
    pub(super) tally: NvmeTally,
    complaint: Option<PduError>,
}

/// Counts since the last publication that only this protocol has.
#[derive(Default)]
pub(super) struct NvmeTally {
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) admin: u32,
    pub(super) fabrics: u32,
    pub(super) opcodes: [u32; OPCODES],
}

impl NvmeTally {
    /// Counts an I/O command by its opcode.
    #[inline]
    pub(super) fn io_command(&mut self, opcode: u8) {
        self.opcodes[usize::from(opcode).min(OPCODES - 1)] += 1;
    }
}

impl Common {
    /// The parts of a connection that was accepted at a port with this transport and role.
    pub(super) fn new(
        target: Arc<TargetShared>,
        (transport, role): (Transport, PortRole),
        link: Link<CloseReason>,
    ) -> Common {
        Common {
            target,
            transport,
            role,
            link,
            tally: NvmeTally::default(),
            complaint: None,
        }
    }

    /// The target that the connection belongs to.
    #[inline]
    pub(super) fn target(&self) -> &Arc<TargetShared> {
        &self.target
    }

    /// The transport that the connection came over.
    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    /// The role of the port that the connection came to.
    pub(super) fn role(&self) -> PortRole {
        self.role
    }

    /// When this turn began.
    #[inline]
    pub(super) fn now(&self) -> Instant {
        self.link.now()
    }

    /// The error that ends the connection, for the log.
    pub(super) fn complaint(&self) -> Option<&PduError> {
        self.complaint.as_ref()
    }

    /// The host broke the protocol: the error is counted, and kept for the log.
    pub(super) fn complain(&mut self, error: PduError) {
        self.target.counters.pdu_error(error.fes);
        self.complaint = Some(error);
    }

    /// Counts a failure of a command.
    pub(super) fn count_failure(&mut self, done: &Completion) {
        if !done.status.is_success() {
            self.link.tally().error();
            self.target().counters.error(done.status);
        }
    }

    /// Whether a line about this peer may be logged now.
    pub(super) fn may_log(&self) -> bool {
        self.target
            .connections
            .counters
            .log
            .may_log(self.link.now())
    }
}
