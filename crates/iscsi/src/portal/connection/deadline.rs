//! Deadlines of a connection: login, linger time, pings, awaited data, sends.
//!
//! **Called by** the connection at the end of every turn, and when its timer has fired. **Invariants**: finding the next deadline
//! needs no search; a connection that misses a deadline ends with the reason that names it.

use super::{Core, Phase};
use crate::portal::counters::CloseReason;
use io::time::Instant;

impl Core {
    /// When deadlines must be checked next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let common = self.transport.link().next_deadline();
        [self.ping_deadline(), self.phase_deadline(), common]
            .into_iter()
            .flatten()
            .min()
    }

    /// Until when the connection may stay in its phase, or closing.
    fn phase_deadline(&self) -> Option<Instant> {
        let config = &self.transport.shared().config;
        if let Some((_, since)) = self.transport.closing() {
            return Some(since + config.linger);
        }
        match &self.phase {
            Phase::Login(_) | Phase::Reinstating(_) => {
                Some(self.transport.link().accepted_at() + config.login_timeout)
            }
            Phase::FullFeature(f) => f.logout_requested_at().map(|t| t + config.linger),
            Phase::Discovery(_) | Phase::Over => None,
        }
    }

    /// When to ping a silent initiator, or to give it up.
    fn ping_deadline(&self) -> Option<Instant> {
        let config = &self.transport.shared().config;
        let member = self.phase.member()?;
        if config.nop_interval.is_zero() {
            return None;
        }
        Some(match member.ping_sent_at() {
            Some(t) => t + config.nop_timeout,
            None => self.transport.heard_at() + config.nop_interval,
        })
    }

    /// Does the due work: ends the connection, moves it on, or pings the initiator.
    pub(super) fn check_deadlines(&mut self) {
        let now = self.transport.now();
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        if self.phase_deadline().is_some_and(|at| at <= now) {
            self.phase_is_late();
        }
        if self.transport.link().is_send_late() {
            self.end(CloseReason::SendStall);
        }
        let first_due = match &self.phase {
            Phase::FullFeature(f) => f.first_due(),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Discovery(_) | Phase::Over => None,
        };
        self.transport.link_mut().set_transfer_due(first_due);
        if first_due.is_some_and(|t| t <= now) {
            self.end(CloseReason::DataTimeout);
        }
        self.transport.link_mut().reclaim_if_due();
        if self.ping_deadline().is_some_and(|at| at <= now)
            && let Some(member) = self.phase.member_mut()
        {
            if member.ping_sent_at().is_some() {
                self.end(CloseReason::Silent);
            } else {
                member.send_ping(&mut self.transport);
            }
        }
    }

    /// The deadline of the phase, or of closing, has passed.
    fn phase_is_late(&mut self) {
        if let Some((why, _)) = self.transport.closing() {
            return self.end(why);
        }
        match &mut self.phase {
            Phase::Login(_) | Phase::Reinstating(_) => self.end(CloseReason::LoginTimeout),
            Phase::FullFeature(f) => f.drain(&mut self.transport),
            Phase::Discovery(_) | Phase::Over => {}
        }
    }
}
