//! A connection from its begin to its end, and its turns.
//!
//! **Called by** [`crate::service::Service::serve`].

use super::receive::receive;
use super::{Connection, Core};
use crate::client::CallbackPath;
use crate::export::Protection;
use crate::limits::UNSENT_REPLIES_MAX;
use crate::shared::Shared;
use crate::shared::counters::{CloseReason, ConnectionState};
use crate::shared::peers::Peer;
use io::net::TcpStream;
use io::sync::lock;
use io::time::Instant;
use session::HostKey;
use session::carrier::{Carrier, CarrierInfo};
use session::link::Link;
use session::signal;
use session::stream::transmit;
use session::tally::Export;
use session::turn::{self, Turns};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tls::Stream;

impl Turns for Core {
    type Reason = CloseReason;

    fn link(&mut self) -> &mut Link<CloseReason> {
        &mut self.link
    }

    /// Requests run to their end: their replies belong to slots, which outlive the connection.
    fn abort_requested(&mut self) {}

    fn drain_requested(&mut self) {
        self.is_draining = true;
    }

    /// Callbacks were added.
    fn signalled(&mut self, _flags: u32, _: &impl Carrier) {
        self.send_callbacks();
    }

    /// The receiver itself waits for buffers, and it is polled in every turn.
    fn run_deferred(&mut self) {}

    fn can_resume(&self) -> bool {
        false
    }

    fn is_congested(&self) -> bool {
        let output = self.link.output();
        // TLS begins behind the reply to the probe.
        let must_drain = self.state == ConnectionState::Handshaking && !output.is_empty();
        must_drain
            || output.replies() >= UNSENT_REPLIES_MAX
            || output.payload() > self.shared.config.connection_budget / 2
    }

    fn publish(&mut self) {
        let counters = &self.shared.connections.counters;
        let export = Export {
            stages: Some(&self.shared.stages),
            peer: self.link.peer(),
            turn: self.link.now(),
        };
        let tally = self.link.tally();
        tally.count_in(counters);
        let mut totals = lock(&self.register.totals);
        totals.in_flight = self.running as u64;
        tally.publish(&mut totals, &export, |_, _, _| {});
    }

    fn publish_info(&mut self, info: CarrierInfo) {
        lock(&self.register.totals).carrier = info;
    }

    fn over(&mut self) -> Option<CloseReason> {
        if self.is_draining && self.running == 0 && self.link.output().is_empty() {
            self.link.end(CloseReason::Drained);
        }
        self.link.ending()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let common = self.link.next_deadline();
        [self.phase_deadline(), common].into_iter().flatten().min()
    }

    fn check_deadlines(&mut self) {
        let now = self.link.now();
        if self.phase_deadline().is_some_and(|at| at <= now) {
            self.end_phase();
        }
        if self.link.is_send_late() {
            self.link.end(CloseReason::SendStall);
        }
        if self.link.transfer_due().is_some_and(|at| at <= now) {
            self.link.end(CloseReason::DataTimeout);
        }
        self.link.reclaim_if_due();
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let all = &shared.connections;
    let stall = shared.config.stall_timeout;
    let Some(admitted) = all.admit(&stream, ConnectionState::Connecting, stall).await else {
        return;
    };
    let (link, key) = admitted.into_link(&stream, shared.config.connection_budget);
    let ends = (link.local(), link.peer());
    // Hosts of one address share it by connection until a client is known, and version 3 names none.
    let ip = link.peer().ip();
    link.account()
        .belongs_to(HostKey::named(&link.peer().to_string(), ip));
    let register = Arc::new(Peer::new(ends, link.signal().clone()));
    shared.peers.insert(key, register.clone());
    let signal = link.signal().clone();
    let path = Arc::new(CallbackPath::new(move || signal.raise(signal::OWN)));
    let state_since = link.accepted_at();
    let connection = Rc::new_cyclic(|me| Connection {
        stream: Stream::new(stream),
        core: RefCell::new(Core {
            me: me.clone(),
            shared: shared.clone(),
            link,
            register,
            path: path.clone(),
            state: ConnectionState::Connecting,
            state_since,
            protection: Protection::default(),
            running: 0,
            is_draining: false,
            complaint: None,
        }),
    });
    let (core, stream) = (&connection.core, &connection.stream);
    let why = turn::run(core, stream, receive(&connection), transmit(core, stream)).await;
    path.close();
    let state = {
        let mut core = connection.core.borrow_mut();
        core.link.end(why);
        core.log(why);
        core.state
    };
    if state == ConnectionState::Handshaking {
        let failures = &shared.counters.handshake_failures;
        failures.fetch_add(1, Ordering::Relaxed);
    }
    shared.peers.remove(key);
    all.ended(key, state, why);
    connection.stream.close().await;
    all.closed();
}
