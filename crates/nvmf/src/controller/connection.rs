//! One TCP connection: one queue of one controller.
//!
//! **Owns** the order in which a connection works: act on signals, receive and dispatch everything that arrived, start
//! deferred commands, send everything that became ready with one system call. **Called by** [`super::Target::serve`], once per
//! connection, on the shard that owns it.
//!
//! **Invariants**: one task per connection polls receiver, sender and timer, so that a turn is one wake-up. Every wait for the
//! peer has a deadline. The bytes that a connection may hold of the buffer pool are bounded by its budget.
//!
//! Sections: TCP 3.3 (queue model), 3.4 (connection states), 3.5 (errors).

use super::common::Common;
use super::config::PortRole;
use super::counters::{CloseReason, ConnectionState};
use super::limits::PEER_PROBE_AFTER;
use super::phase::{Connection, Core};
use super::queue_handle::{EVENTS, NAMESPACES, TIMER};
use super::receive::receive;
use super::shared::TargetShared;
use io::net::{TcpInfo, TcpStream};
use io::time::Instant;
use session::link::Link;
use session::turn::{self, Turns};
use std::sync::Arc;

impl Core {
    /// Without a keep alive timer a host that vanished without a word would keep its controller for ever: then the
    /// kernel probes the host.
    fn probe_peer(&self, stream: &TcpStream) {
        let leads = self.queue().filter(|q| q.is_admin());
        if leads.is_some_and(|q| q.controller().silence_max().is_none()) {
            let options = io::net::TcpOptions {
                keep_alive: Some(PEER_PROBE_AFTER),
                ..io::net::TcpOptions::default()
            };
            // Without the option a vanished host is found with the next reply to it.
            let _ = stream.set_options(&options);
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

    fn signalled(&mut self, flags: u32, stream: &TcpStream) {
        if let Some(mut ready) = self.ready() {
            if flags & NAMESPACES != 0 {
                ready.refresh_namespaces();
            }
            if flags & EVENTS != 0 {
                ready.deliver_events();
            }
        }
        if flags & TIMER != 0 {
            self.probe_peer(stream);
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

    fn publish_info(&mut self, info: TcpInfo) {
        if let Some(q) = self.queue() {
            q.handle().totals().tcp = info;
        }
    }

    fn over(&mut self) -> Option<CloseReason> {
        if self.state() == ConnectionState::Draining && self.is_idle() {
            Core::end(self, CloseReason::Drained);
        }
        match self.common.link.ending()? {
            // The reply to Disconnect goes out first.
            CloseReason::Disconnect if !self.common.link.output().is_empty() => None,
            CloseReason::Peer | CloseReason::Network if self.is_terminating() => {
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

/// Serves one connection until it ends.
pub(super) async fn serve(target: Arc<TargetShared>, stream: TcpStream, role: PortRole) {
    let all = &target.connections;
    let stall = target.config.stall_timeout;
    let Some(admitted) = all.admit(&stream, ConnectionState::AwaitIcReq, stall).await else {
        return;
    };
    let (link, key) = admitted.into_link(&stream, target.config.connection_budget);
    let conn = Connection::new(stream, Common::new(target.clone(), role, link));
    let why = turn::run(conn.core(), conn.stream(), receive(&conn)).await;
    conn.stream().shutdown();
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
