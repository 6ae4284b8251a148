//! Abort (Base 5.1) and Async Event Request (Base 5.2).
//!
//! **Called by** the admin dispatcher, and by the turns of a connection for signals of other connections. **Invariants**: a
//! command that waits for a buffer is aborted at once; a command whose data is on its way is aborted when the data is here,
//! because the host was sent the R2T; a command that the backend has runs to its end. Commands of other queues live on other
//! shards: their connections are asked to abort them, and the reply says "not aborted". An identifier names one command at a
//! time: a request for events whose identifier a property command reuses is dropped first.

use crate::controller::association::Controller;
use crate::controller::command::Command;
use crate::controller::event_requests::EventRequests;
use crate::controller::phase::{QueueKind, Ready};
use crate::controller::request::{FabricsRequest, Request};
use crate::controller::status::Completion;
use crate::controller::table::Awaiting;
use crate::wire::command::Cid;
use crate::wire::status::Status;

/// DW0 bit 0: the command was not aborted.
const NOT_ABORTED: u64 = 1;

impl Ready<'_> {
    fn event_requests(&mut self) -> Option<&mut EventRequests> {
        match self.kind {
            QueueKind::Admin(requests) => Some(requests),
            QueueKind::Io { .. } => None,
        }
    }

    /// Abort (Base 5.1) of command `cid` of queue `sqid`.
    pub(super) fn abort(&mut self, command: Command, sqid: u16, cid: Cid, controller: &Controller) {
        let is_aborted = if sqid == 0 {
            self.abort_own(cid)
        } else if let Some(queue) = controller.state().queues.get(&sqid).cloned() {
            queue.abort(cid);
            false
        } else {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        };
        let result = if is_aborted { 0 } else { NOT_ABORTED };
        self.complete(command, Completion::with_result(result));
    }

    /// The admin queue of the controller wants commands of this queue aborted.
    pub(in crate::controller) fn abort_requested(&mut self) {
        for cid in self.queue.handle().take_aborts() {
            self.abort_own(cid);
        }
    }

    fn abort_own(&mut self, cid: Cid) -> bool {
        if let Some(mut request) = self.event_requests().and_then(|all| all.remove(cid)) {
            self.exchange.table_mut().remove_cid(cid);
            request.restart(self.now());
            self.fail(request, Status::ABORT_REQUESTED);
            return true;
        }
        let Some((slot, parked)) = self.exchange.table_mut().find(cid) else {
            return false;
        };
        match parked.awaiting {
            Awaiting::Transfer(_) => {
                parked.aborted = Some(Status::ABORT_REQUESTED);
                true
            }
            Awaiting::Deferred { .. } => {
                if let Some(command) = self.exchange.take_deferred(slot) {
                    self.refuse_command(command, Status::ABORT_REQUESTED);
                }
                true
            }
            Awaiting::Fused | Awaiting::Executing => false,
        }
    }

    /// Async Event Request (Base 5.2): answered when there is an event.
    pub(super) fn async_event_request(&mut self, command: Command) {
        let cid = command.cid();
        let QueueKind::Admin(requests) = &mut *self.kind else {
            return self.fail(command, Status::INVALID_OPCODE.dnr());
        };
        if let Some(refused) = requests.push(command) {
            return self.fail(refused, Status::ASYNC_EVENT_LIMIT_EXCEEDED.dnr());
        }
        self.exchange.table_mut().insert_cid(cid);
        self.deliver_events();
    }

    /// Drops the outstanding Async Event Request whose identifier a Property Get or Set reuses; returns whether there was one.
    ///
    /// SPDK's client detaches so: it forgets its requests, which no controller would answer without an event, and then
    /// shuts down by property commands under the identifier of one of them (decision 0203).
    pub(in crate::controller) fn take_over_event_request(&mut self, command: &Command) -> bool {
        let is_property = matches!(
            command.request(),
            Request::Fabrics(FabricsRequest::PropertyGet(_) | FabricsRequest::PropertySet(_))
        );
        if !is_property {
            return false;
        }
        let cid = command.cid();
        let Some(request) = self.event_requests().and_then(|all| all.remove(cid)) else {
            return false;
        };
        self.exchange.table_mut().remove_cid(cid);
        request.abandon();
        true
    }

    /// Drops all outstanding Async Event Requests: the controller was reset (Base 3.7.2).
    pub(in crate::controller) fn forget_event_requests(&mut self) {
        while let Some(request) = self.event_requests().and_then(EventRequests::pop) {
            self.exchange.table_mut().remove_cid(request.cid());
            request.abandon();
        }
    }

    /// Answers requests with the events that are pending.
    pub(in crate::controller) fn deliver_events(&mut self) {
        let controller = self.queue.controller();
        while self.event_requests().is_some_and(|all| all.len() > 0) {
            let mut state = controller.state();
            let wanted = state.features.wanted_events();
            let Some(event) = state.events.take(wanted) else {
                return;
            };
            drop(state);
            let Some(mut request) = self.event_requests().and_then(EventRequests::pop) else {
                return;
            };
            self.exchange.table_mut().remove_cid(request.cid());
            request.restart(self.now());
            let result = u64::from(event.to_dword());
            self.complete(request, Completion::with_result(result));
        }
    }
}
