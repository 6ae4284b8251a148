//! Everything a connection waits for the peer with has a deadline; this is where they are.
//!
//! **Called by** the connection at the end of every turn, and when its timer has fired. **Invariants**: looking for the
//! next deadline costs no search; whoever passes one is ended with the reason that names it.

use super::connection::Core;
use super::counters::{CloseReason, ConnectionState};
use io::time::Instant;

impl Core {
    /// When somebody must look whether a deadline has passed.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let config = &self.target().config;
        let phase = match self.state() {
            ConnectionState::Login | ConnectionState::Reinstating => {
                Some(self.link.accepted_at() + config.login_timeout)
            }
            ConnectionState::LogoutRequested => self.logout_asked_at.map(|t| t + config.linger),
            ConnectionState::Closing => self.closing.map(|(_, t)| t + config.linger),
            ConnectionState::FullFeature
            | ConnectionState::Discovery
            | ConnectionState::Draining => None,
        };
        let common = self.link.next_deadline();
        [self.nop_deadline(), phase, common]
            .into_iter()
            .flatten()
            .min()
    }

    /// When to ask a silent initiator, or to give it up.
    fn nop_deadline(&self) -> Option<Instant> {
        let config = &self.target().config;
        if config.nop_interval.is_zero() || self.member.is_none() {
            return None;
        }
        Some(match self.nop_sent_at {
            Some(t) => t + config.nop_timeout,
            None => self.heard_at + config.nop_interval,
        })
    }

    /// Does what is due: ends the connection, or asks whether the initiator is there.
    pub(super) fn check_deadlines(&mut self) {
        self.link.refresh_now();
        // Output that a deadline made ready is sent in the next turn.
        self.link.waker().wake_by_ref();
        let now = self.now();
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        let target = self.target().clone();
        let config = &target.config;
        match self.state() {
            ConnectionState::Login | ConnectionState::Reinstating
                if self.link.accepted_at() + config.login_timeout <= now =>
            {
                self.end(CloseReason::LoginTimeout);
            }
            ConnectionState::LogoutRequested
                if self
                    .logout_asked_at
                    .is_some_and(|t| t + config.linger <= now) =>
            {
                self.enter(ConnectionState::Draining);
            }
            ConnectionState::Closing => {
                if let Some((why, t)) = self.closing
                    && t + config.linger <= now
                {
                    self.end(why);
                }
            }
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
        if self.nop_deadline().is_some_and(|at| at <= now) {
            if self.nop_sent_at.is_some() {
                self.end(CloseReason::Silent);
            } else {
                self.ping();
            }
        }
    }
}
