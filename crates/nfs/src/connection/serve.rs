//! A connection from its begin to its end, and its turns.
//!
//! **Called by** [`crate::service::Service::serve`].

use super::framing::AnyFraming;
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
        let is_idle = self.running == 0 && self.framing.is_idle();
        if self.is_draining && is_idle && self.link.output().is_empty() {
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
    let core = Core::new(shared.clone(), (link, key), AnyFraming::Stream);
    let connection = Rc::new(Connection {
        carrier: Stream::new(stream),
        core: RefCell::new(core),
    });
    let (core, stream) = (&connection.core, &connection.carrier);
    let why = turn::run(core, stream, receive(&connection), transmit(core, stream)).await;
    if core.borrow_mut().ended(key, why) == ConnectionState::Handshaking {
        let failures = &shared.counters.handshake_failures;
        failures.fetch_add(1, Ordering::Relaxed);
    }
    connection.carrier.close().await;
    all.closed();
}

impl Core {
    /// The state of an admitted connection, which is in the register from now on under the key of its link.
    pub(super) fn new(
        shared: Arc<Shared>,
        (link, key): (Link<CloseReason>, usize),
        framing: AnyFraming,
    ) -> Core {
        let ends = (link.local(), link.peer());
        // Hosts of one address share it by connection until a client is known, and version 3 names none.
        let ip = link.peer().ip();
        link.account()
            .belongs_to(HostKey::named(&link.peer().to_string(), ip));
        let register = Arc::new(Peer::new(ends, framing.transport(), link.signal().clone()));
        shared.peers.insert(key, register.clone());
        let signal = link.signal().clone();
        let path = CallbackPath::new(move || signal.raise(signal::OWN));
        Core {
            state_since: link.accepted_at(),
            shared,
            link,
            register,
            path: Arc::new(path.with_calls_up_to(framing.call_max())),
            framing,
            state: ConnectionState::Connecting,
            protection: Protection::default(),
            running: 0,
            is_draining: false,
            complaint: None,
        }
    }

    /// The connection has ended: it leaves the register, and no callback of it gets a reply. Returns its last state.
    pub(super) fn ended(&mut self, key: usize, why: CloseReason) -> ConnectionState {
        self.path.close();
        self.link.end(why);
        self.log(why);
        self.shared.peers.remove(key);
        self.shared.connections.ended(key, self.state, why);
        self.state
    }
}
