//! Full feature phase of a normal session: SCSI commands, their data, task management, error recovery.
//!
//! **Owns** the commands of one connection that have no response, and the queues that they wait in. **Called by** the connection,
//! with each PDU, each end of a step at the device and each signal. **Invariants**: a command is accepted by the device once, in
//! the order of CmdSN; a command at the device stays in the table until its step has ended; a command gives its ledger bytes back
//! when it leaves the table. Calls of the device are the connection's: the phase returns them as [`Next`].
//!
//! | module | owns |
//! |---|---|
//! | `command` | one command, and the table of commands |
//! | `next` | work that the connection does for the phase |
//! | `deliver` | a command from its header to the device, and its end |
//! | `sequence`, `write_data`, `transfer` | data from the initiator: what one command awaits; R2T, Data-Out |
//! | `device` | steps at the device, queues for buffers and for a turn |
//! | `respond` | read data and responses |
//! | `requests` | other requests in the order of CmdSN; SNACK |
//! | `task_management` | task management functions |

mod command;
mod deliver;
mod device;
mod next;
mod requests;
mod respond;
mod sequence;
mod task_management;
mod transfer;
mod write_data;

pub(crate) use device::DeviceStep;
pub(crate) use next::{Aborting, Next};

use super::counters::{CloseReason, ConnectionState};
use super::early::EarlyBuffers;
use super::entry::TargetEntry;
use super::member::Member;
use super::transport::PortalTransport;
use crate::wire::response::AsyncEvent;
use command::CommandTable;
use io::time::Instant;
use session::deferred::Deferred;
use std::sync::Arc;

/// Full feature phase of a normal session.
pub(crate) struct FullFeature {
    member: Member,
    entry: Arc<TargetEntry>,
    nexus: Arc<scsi::Nexus>,
    service: Service,
    commands: CommandTable,
    /// Commands that wait for ledger bytes or for a buffer, in order of arrival.
    deferred: Deferred,
    /// Commands that wait for older commands of their logical unit.
    waiting: Vec<usize>,
    early: EarlyBuffers,
}

/// How far the end of the service has come for this connection.
enum Service {
    /// The service goes on.
    Served,
    /// The initiator was asked to log out at this time, and is served until it does.
    LogoutRequested(Instant),
    /// Commands that arrive are ignored; the connection ends with the last command in flight.
    Draining,
}

impl FullFeature {
    /// The phase of a connection that has joined a session with `entry`.
    pub(crate) fn new(
        member: Member,
        entry: Arc<TargetEntry>,
        nexus: Arc<scsi::Nexus>,
    ) -> FullFeature {
        FullFeature {
            member,
            entry,
            nexus,
            service: Service::Served,
            commands: CommandTable::default(),
            deferred: Deferred::default(),
            waiting: Vec::new(),
            early: EarlyBuffers::default(),
        }
    }

    /// The connection's part in its session.
    #[inline]
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn member_mut(&mut self) -> &mut Member {
        &mut self.member
    }

    /// Count of commands without a response.
    pub(crate) fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// When the first data that is awaited must be here; `None` if no data is awaited.
    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.commands.first_due()
    }

    /// Whether the service goes on.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self.service, Service::Served)
    }

    /// Whether commands that arrive are ignored.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.service, Service::Draining)
    }

    /// When the initiator was asked to log out, until commands are ignored.
    pub(crate) fn logout_requested_at(&self) -> Option<Instant> {
        match self.service {
            Service::LogoutRequested(at) => Some(at),
            Service::Served | Service::Draining => None,
        }
    }

    /// The service ends: asks the initiator to log out (§11.9).
    pub(crate) fn request_logout(&mut self, transport: &mut PortalTransport) {
        if self.is_served() {
            let linger = transport.shared().config.linger.as_secs();
            let event = AsyncEvent::LogoutRequest(linger.clamp(1, 65535) as u16);
            self.member.tell(transport, event);
            self.service = Service::LogoutRequested(transport.now());
            transport.enter(ConnectionState::LogoutRequested);
        }
    }

    /// The initiator did not log out in time: commands are ignored from now on.
    pub(crate) fn drain(&mut self, transport: &mut PortalTransport) {
        self.service = Service::Draining;
        transport.enter(ConnectionState::Draining);
    }

    /// Refuses a PDU and ends the connection.
    fn reject_and_close(
        &mut self,
        transport: &mut PortalTransport,
        reason: crate::wire::response::RejectReason,
        bad: &crate::wire::Bhs,
    ) {
        self.member.reject(transport, reason, bad);
        transport.close_after_output(CloseReason::Protocol);
    }

    /// The connection has ended: its commands are abandoned. Commands at the backend end by themselves.
    pub(crate) fn leave(mut self, transport: &mut PortalTransport) {
        for (_, c) in self.commands.iter() {
            c.cancel.cancel();
            if !c.request.immediate && !c.is_before_its_turn() {
                self.member.session().command_ended();
            }
        }
        self.member.leave(transport);
        self.deferred.clear();
        transport.link_mut().forget_request();
    }
}
