//! One connection: one queue of one controller, over any transport.
//!
//! **Owns** what a connection does within a turn, and its end. **Called by** [`session::turn`] and by the transports
//! (`tcp`, `rdma`), on the shard that owns the connection. **Invariants**: every wait for the peer has a deadline; the bytes that a
//! connection may hold of the buffer pool are bounded by its budget.

use super::counters::{CloseReason, ConnectionState};
use super::limits::PEER_PROBE_AFTER;
use super::phase::{Connection, Core};
use super::queue_handle::{EVENTS, NAMESPACES, TIMER};
use super::shared::TargetShared;
use io::time::Instant;
use session::carrier::{Carrier, CarrierInfo};
use session::link::Link;
use session::turn::Turns;
use std::sync::Arc;

impl Core {
    /// Bytes arrived.
    #[inline]
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.common.link.tally().received(bytes);
        if let Some(mut ready) = self.ready() {
            ready.refresh_namespaces();
        }
        if let Some(q) = self.queue() {
            q.controller().heard(self.common.now().as_nanos());
        }
    }

    /// Without a keep alive timer a host that vanished without a word would keep its controller for ever: then the
    /// transport probes the host.
    fn probe_host(&self, carrier: &impl Carrier) {
        let leads = self.queue().filter(|q| q.is_admin());
        if leads.is_some_and(|q| q.controller().silence_max().is_none()) {
            carrier.probe_silent(PEER_PROBE_AFTER);
        }
    }

    /// Whether no command and no reply remains.
    fn is_idle(&self) -> bool {
        self.exchange().is_none_or(|x| x.table().len() == 0) && self.common.link.output().is_empty()
    }

    fn log(&self, why: CloseReason) {
        let queue = self.queue();
        let host = queue.map_or("unknown", |q| q.controller().host_nqn.as_str());
        let queue = queue.map_or(-1, |q| i32::from(q.qid()));
        let peer = self.common.link.peer();
        if !why.is_trouble() {
            tracing::debug!(%peer, host, queue, "connection ended: {why:?}");
            return;
        }
        if !self.common.may_log() {
            return;
        }
        match self.common.complaint() {
            Some(e) => tracing::warn!(%peer, host, queue, error = %e, "connection ended: {why:?}"),
            None => tracing::warn!(%peer, host, queue, "connection ended: {why:?}"),
        }
    }
}

impl Turns for Core {
    type Reason = CloseReason;

    fn link(&mut self) -> &mut Link<CloseReason> {
        &mut self.common.link
    }

    fn abort_requested(&mut self) {
        if let Some(mut ready) = self.ready() {
            ready.abort_requested();
        }
    }

    fn drain_requested(&mut self) {
        self.drain();
    }

    fn signalled(&mut self, flags: u32, carrier: &impl Carrier) {
        if let Some(mut ready) = self.ready() {
            if flags & NAMESPACES != 0 {
                ready.refresh_namespaces();
            }
            if flags & EVENTS != 0 {
                ready.deliver_events();
            }
        }
        if flags & TIMER != 0 {
            self.probe_host(carrier);
        }
    }

    fn run_deferred(&mut self) {
        Core::run_deferred(self);
    }

    fn can_resume(&self) -> bool {
        self.exchange().is_some_and(|x| x.can_resume(&self.common))
    }

    fn is_congested(&self) -> bool {
        Core::is_congested(self)
    }

    fn publish(&mut self) {
        Core::publish(self);
    }

    fn publish_info(&mut self, info: CarrierInfo) {
        if let Some(q) = self.queue() {
            q.handle().totals().carrier = info;
        }
    }

    fn over(&mut self) -> Option<CloseReason> {
        if self.state() == ConnectionState::Draining && self.is_idle() {
            Core::end(self, CloseReason::Drained);
        }
        match self.common.link.ending()? {
            // The reply to Disconnect goes out first.
            CloseReason::Disconnect if !self.common.link.output().is_empty() => None,
            CloseReason::Peer | CloseReason::Network | CloseReason::Device
                if self.is_terminating() =>
            {
                Some(CloseReason::Protocol)
            }
            why => Some(why),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Core::next_deadline(self)
    }

    fn check_deadlines(&mut self) {
        Core::check_deadlines(self);
    }
}

/// A connection of `target` has ended because of `why`; `key` is its place in the register.
pub(super) fn ended(target: &Arc<TargetShared>, conn: &Connection, key: usize, why: CloseReason) {
    let all = &target.connections;
    let mut core = conn.core().borrow_mut();
    Core::end(&mut core, why);
    core.log(why);
    all.ended(key, core.state(), why);
    if let Some(q) = core.dissolve() {
        target.queue_closed(&q, why);
    }
    drop(core);
    all.closed();
}
