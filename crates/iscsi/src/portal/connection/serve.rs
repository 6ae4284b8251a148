//! A connection from its begin to its end, and the order of its turns.
//!
//! **Called by** [`crate::portal::Target::serve`], and by `iser` for connections over RDMA.

use super::receive::receive;
use super::{Connection, Core, Phase};
use crate::portal::counters::{CloseReason, ConnectionState};
use crate::portal::framing::AnyFraming;
use crate::portal::session::RELEASE;
use crate::portal::shared::PortalShared;
use crate::portal::transport::PortalTransport;
use io::net::TcpStream;
use io::sync::lock;
use io::time::Instant;
use session::carrier::{Carrier, CarrierInfo};
use session::link::Link;
use session::stream::transmit;
use session::tally::Export;
use session::turn::{self, Turns};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Turns for Core {
    type Reason = CloseReason;

    fn link(&mut self) -> &mut Link<CloseReason> {
        self.transport.link_mut()
    }

    fn end(&mut self, why: CloseReason) {
        Core::end(self, why);
    }

    fn close_requested(&mut self, why: CloseReason) {
        self.told_to_close(why);
    }

    fn abort_requested(&mut self) {
        self.abort_ordered();
    }

    fn drain_requested(&mut self) {
        self.drain();
    }

    fn signalled(&mut self, flags: u32, _: &impl Carrier) {
        if flags & RELEASE != 0 {
            self.release_held();
        }
    }

    fn dispatched(&mut self) {
        self.run_waiting();
    }

    fn run_deferred(&mut self) {
        Core::run_deferred(self);
    }

    fn can_resume(&self) -> bool {
        match &self.phase {
            Phase::FullFeature(f) => !self.transport.is_closing() && f.can_resume(&self.transport),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Discovery(_) | Phase::Over => false,
        }
    }

    fn is_congested(&self) -> bool {
        self.transport.is_congested()
    }

    fn publish(&mut self) {
        let shared = self.transport.shared().clone();
        let in_flight = self.phase.in_flight() as u64;
        let heard_at = self.transport.heard_at();
        let (peer, turn) = (self.transport.link().peer(), self.transport.now());
        let tally = self.transport.link_mut().tally();
        let commands = tally.count_in(&shared.connections.counters);
        shared
            .counters
            .commands
            .fetch_add(commands, Ordering::Relaxed);
        if let Some(m) = self.phase.member() {
            let entry = m.session().entry();
            let stages = entry.map(|entry| &*entry.stages);
            let export = Export { stages, peer, turn };
            let mut totals = lock(&m.handle().totals);
            totals.heard_at = Some(heard_at);
            totals.shared.in_flight = in_flight;
            tally.publish(&mut totals.shared, &export, |_, _, _| {});
        }
    }

    fn publish_info(&mut self, info: CarrierInfo) {
        if let Some(m) = self.phase.member() {
            lock(&m.handle().totals).shared.carrier = info;
        }
    }

    fn over(&mut self) -> Option<CloseReason> {
        let all_sent = self.transport.link().output().is_empty();
        match (self.transport.closing(), &self.phase) {
            // A refused initiator is given the linger time to read the reason.
            (Some((why, _)), _) if all_sent && !why.is_trouble() => self.end(why),
            (None, Phase::FullFeature(f)) if f.is_draining() && all_sent && f.in_flight() == 0 => {
                self.end(CloseReason::Drained);
            }
            _ => {}
        }
        self.transport.link().ending()
    }

    fn next_deadline(&self) -> Option<Instant> {
        Core::next_deadline(self)
    }

    fn check_deadlines(&mut self) {
        Core::check_deadlines(self);
    }
}

impl Core {
    fn log(&self, why: CloseReason) {
        let initiator = self.phase.initiator().map_or("unknown", |n| n.as_str());
        let link = self.transport.link();
        let error = self.transport.complaint();
        if !why.is_trouble() {
            tracing::debug!(peer = %link.peer(), initiator, "connection ended: {why:?}");
        } else if self.may_log() {
            tracing::warn!(peer = %link.peer(), initiator, error, "connection ended: {why:?}");
        }
    }

    /// Whether a line about this peer may be logged now.
    fn may_log(&self) -> bool {
        let log = &self.transport.shared().connections.counters.log;
        log.may_log(self.transport.now())
    }

    /// Leaves the session and gives everything back; commands at the backend end by themselves.
    fn dissolve(&mut self) {
        drop(self.transport.take_position());
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::FullFeature(f) => f.leave(&mut self.transport),
            Phase::Discovery(mut d) => d.member_mut().leave(&self.transport),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Over => {}
        }
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve(shared: Arc<PortalShared>, stream: TcpStream) {
    let all = &shared.connections;
    let stall = shared.config.stall_timeout;
    let Some(admitted) = all.admit(&stream, ConnectionState::Login, stall).await else {
        return;
    };
    let (link, key) = admitted.into_link(&stream, shared.config.connection_budget);
    let conn = Connection::new(PortalTransport::new(shared.clone(), link, AnyFraming::Tcp));
    let sent = transmit(&conn.core, &stream);
    let why = turn::run(&conn.core, &stream, receive(&conn, &stream), sent).await;
    stream.shutdown();
    conn.ended(&shared, key, why);
}

impl Connection {
    /// A connection that waits for a login.
    pub(super) fn new(transport: PortalTransport) -> Rc<Connection> {
        Rc::new_cyclic(|me| Connection {
            core: RefCell::new(Core::new(me.clone(), transport)),
        })
    }

    /// The connection has ended because of `why`; `key` is its place in the register.
    pub(super) fn ended(&self, shared: &PortalShared, key: usize, why: CloseReason) {
        let all = &shared.connections;
        let mut core = self.core.borrow_mut();
        core.end(why);
        core.log(why);
        all.ended(key, core.transport.counted(), why);
        core.dissolve();
        drop(core);
        all.closed();
    }
}
