//! Abort (Base 5.1) and Async Event Request (Base 5.2).
//!
//! **Invariants**: a command that waits for a buffer is aborted at once; one whose data is on its way is aborted when
//! the data is here, because the host is owed the R2T; one that the backend has runs to its end. Commands of other
//! queues live on other shards: they are asked to do the same, and the reply says "not aborted". An identifier names
//! one command at a time: a request for events whose identifier a property command reuses is dropped first.

use crate::controller::association::Controller;
use crate::controller::connection::Core;
use crate::controller::limits::ASYNC_EVENTS_MAX;
use crate::controller::status::Completion;
use crate::controller::transfer::Stage;
use crate::wire::command::{Cid, Sqe};
use crate::wire::opcode::{FABRICS, fabrics};
use crate::wire::status::Status;
use std::sync::Arc;

/// DW0 bit 0: the command was not aborted.
const NOT_ABORTED: u64 = 1;

impl Core {
    /// Abort (Base 5.1).
    pub(super) fn abort(&mut self, sqe: &Sqe, controller: &Arc<Controller>) {
        let (sqid, cid) = (sqe.cdw10.get() as u16, Cid((sqe.cdw10.get() >> 16) as u16));
        let current = self.current.aside();
        let aborted = if sqid == 0 {
            self.abort_own(cid)
        } else if let Some(queue) = controller.state().queues.get(&sqid).cloned() {
            queue.abort(cid);
            false
        } else {
            return self.complete(Completion::failed(sqe.cid(), Status::INVALID_FIELD.dnr()));
        };
        self.current = current;
        self.complete(Completion::with_result(
            sqe.cid(),
            if aborted { 0 } else { NOT_ABORTED },
        ));
    }

    /// The admin queue of the controller wants commands of this queue aborted.
    pub(crate) fn abort_requested(&mut self) {
        let Some(q) = &self.queue else { return };
        for cid in q.handle.take_aborts() {
            self.abort_own(cid);
        }
    }

    fn abort_own(&mut self, cid: Cid) -> bool {
        if let Some(at) = self.async_events.iter().position(|c| *c == cid) {
            self.async_events.remove(at);
            self.cids.remove(cid);
            self.current.hold = None;
            self.complete(Completion::failed(cid, Status::ABORT_REQUESTED));
            return true;
        }
        let found = self.commands.iter_mut().find(|(_, c)| c.sqe.cid() == cid);
        let Some((slot, command)) = found else {
            return false;
        };
        match command.stage {
            Stage::Transfer(_) => {
                command.aborted = Some(Status::ABORT_REQUESTED);
                true
            }
            Stage::Deferred { .. } => {
                self.deferred.remove(slot);
                self.end_aborted(slot, Status::ABORT_REQUESTED);
                true
            }
            Stage::Fused | Stage::Executing => false,
        }
    }

    /// Async Event Request (Base 5.2): answered when there is an event.
    pub(super) fn async_event_request(&mut self, cid: Cid) {
        if self.async_events.len() >= ASYNC_EVENTS_MAX {
            return self.complete(Completion::failed(
                cid,
                Status::ASYNC_EVENT_LIMIT_EXCEEDED.dnr(),
            ));
        }
        self.async_events.push_back(cid);
        self.cids.insert(cid);
        self.deliver_events();
    }

    /// Drops the outstanding Async Event Request whose identifier a Property Get or Set reuses; returns whether it did.
    ///
    /// SPDK's client detaches so: it forgets its requests, which no controller would answer without an event, and then
    /// shuts down by property commands under the identifier of one of them (decision 0203).
    pub(crate) fn take_over_event_request(&mut self, sqe: &Sqe) -> bool {
        let property = sqe.opcode == FABRICS
            && matches!(
                sqe.fabrics_type(),
                fabrics::PROPERTY_GET | fabrics::PROPERTY_SET
            );
        let cid = sqe.cid();
        let Some(at) = self.async_events.iter().position(|c| *c == cid) else {
            return false;
        };
        if property {
            self.async_events.remove(at);
            self.cids.remove(cid);
        }
        property
    }

    /// Answers requests with the events that wait.
    pub(crate) fn deliver_events(&mut self) {
        let Some(q) = self.queue.as_ref().filter(|q| q.qid == 0) else {
            return;
        };
        let controller = q.controller.clone();
        while !self.async_events.is_empty() {
            let mut state = controller.state();
            let state = &mut *state;
            let Some(event) = state.events.take(&state.features) else {
                return;
            };
            let Some(cid) = self.async_events.pop_front() else {
                return;
            };
            self.cids.remove(cid);
            self.current.started = self.now();
            self.current.hold = None;
            self.complete(Completion::with_result(cid, u64::from(event.to_dword())));
        }
    }
}
