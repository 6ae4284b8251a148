//! Deadlines of a connection: each wait for the peer has one.
//!
//! **Called by** the connection at the end of every turn, and when its timer has fired. **Invariants**: looking for the next
//! deadline costs no search; a peer that passes a deadline is ended with the reason that names it.

use super::association::Controller;
use super::counters::{CloseReason, ConnectionState};
use super::phase::{Core, Phase};
use io::time::Instant;
use std::sync::Arc;
use std::time::Duration;

impl Core {
    /// When the deadlines must be checked again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let config = &self.common.target().config;
        let link = &self.common.link;
        let keep_alive = self.queue().filter(|q| q.is_admin()).and_then(|q| {
            let controller = q.controller();
            let silent = Duration::from_nanos(
                link.now()
                    .as_nanos()
                    .saturating_sub(controller.heard_at_ns()),
            );
            let longest = controller.silence_max();
            longest.map(|d| link.now() + d.saturating_sub(silent))
        });
        let phase = match self.phase() {
            Phase::Terminating(t) => Some(t.since() + config.linger),
            Phase::AwaitIcReq | Phase::AwaitConnect(_) if !self.is_draining() => {
                Some(link.accepted_at() + config.establish_timeout)
            }
            Phase::AwaitIcReq | Phase::AwaitConnect(_) | Phase::Ready(_) => None,
        };
        let common = link.next_deadline();
        [keep_alive, phase, common].into_iter().flatten().min()
    }

    /// Ends the connection if a deadline has passed.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.common.now();
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        let establish = self.common.target().config.establish_timeout;
        let is_late = self.common.link.accepted_at() + establish <= now;
        match self.state() {
            ConnectionState::AwaitIcReq if is_late => self.end(CloseReason::IcReqTimeout),
            ConnectionState::AwaitConnect if is_late => self.end(CloseReason::ConnectTimeout),
            ConnectionState::Terminating => self.end(CloseReason::Protocol),
            _ => {}
        }
        if self.common.link.is_send_late() {
            self.end(CloseReason::SendStall);
        }
        let due = self.exchange().and_then(|x| x.table().first_due());
        self.common.link.set_transfer_due(due);
        if due.is_some_and(|t| t <= now) {
            self.end(CloseReason::DataTimeout);
        }
        self.common.link.reclaim_if_due();
        if let Some(controller) = self.silent_controller(now) {
            // Base 3.9: the whole association ends.
            controller.close_all(CloseReason::KeepAlive);
            self.end(CloseReason::KeepAlive);
        }
    }

    /// The controller of an admin queue whose host has been silent for too long.
    fn silent_controller(&self, now: Instant) -> Option<Arc<Controller>> {
        let queue = self.queue().filter(|q| q.is_admin())?;
        let controller = queue.controller();
        let longest = controller.silence_max()?;
        let silent_ns = now.as_nanos().saturating_sub(controller.heard_at_ns());
        (u128::from(silent_ns) >= longest.as_nanos()).then(|| controller.clone())
    }
}
