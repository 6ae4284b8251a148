//! Everything a connection waits for the peer with has a deadline; this is where they are.
//!
//! **Called by** the connection at the end of every turn, and when its timer has fired. **Invariants**: looking for the
//! next deadline costs no search; whoever passes one is ended with the reason that names it.

use super::connection::Core;
use super::counters::{CloseReason, ConnectionState};
use io::time::Instant;
use std::time::Duration;

impl Core {
    /// When somebody must look whether a deadline has passed.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let config = &self.target().config;
        let keep_alive = self.queue.as_ref().filter(|q| q.qid == 0).and_then(|q| {
            let silent = Duration::from_nanos(
                self.link
                    .now()
                    .as_nanos()
                    .saturating_sub(q.controller.heard_at_ns()),
            );
            q.controller
                .silence_max()
                .map(|d| self.link.now() + d.saturating_sub(silent))
        });
        let phase = match self.state() {
            ConnectionState::AwaitIcReq | ConnectionState::AwaitConnect => {
                Some(self.link.accepted_at() + config.establish_timeout)
            }
            ConnectionState::Terminating => self.terminated_at.map(|t| t + config.linger),
            _ => None,
        };
        let common = self.link.next_deadline();
        [keep_alive, phase, common].into_iter().flatten().min()
    }

    /// Ends the connection if a deadline has passed.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.link.now();
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        let target = self.target().clone();
        let config = &target.config;
        match self.state() {
            ConnectionState::AwaitIcReq
                if self.link.accepted_at() + config.establish_timeout <= now =>
            {
                self.end(CloseReason::IcReqTimeout);
            }
            ConnectionState::AwaitConnect
                if self.link.accepted_at() + config.establish_timeout <= now =>
            {
                self.end(CloseReason::ConnectTimeout);
            }
            ConnectionState::Terminating => self.end(CloseReason::Protocol),
            _ => {}
        }
        if self.link.is_send_late() {
            self.end(CloseReason::SendStall);
        }
        self.link.set_transfer_due(self.first_due());
        if self.link.transfer_due().is_some_and(|t| t <= now) {
            self.end(CloseReason::DataTimeout);
        }
        self.link.reclaim_if_due();
        if let Some(q) = self.queue.as_ref().filter(|q| q.qid == 0)
            && let Some(max) = q.controller.silence_max()
            && u128::from(now.as_nanos().saturating_sub(q.controller.heard_at_ns()))
                >= max.as_nanos()
        {
            // Base 3.9: the whole association ends.
            q.controller.close_all(CloseReason::KeepAlive);
            self.end(CloseReason::KeepAlive);
        }
    }
}
