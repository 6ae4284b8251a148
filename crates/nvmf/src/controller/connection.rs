//! One TCP connection: one queue of one controller.
//!
//! **Owns** the connection's whole state ([`Core`]) and the order in which it works: look at signals, receive and
//! dispatch everything that arrived, start what had to wait, send everything that became ready with one system call.
//! **Called by** [`super::Target::serve`], once per connection, on the shard that owns it.
//!
//! **Invariants**: one task per connection polls receiver, sender and timer, so that a turn is one wake-up; the core is
//! borrowed only between awaits. A command whose answer is known at once costs no allocation and no task. Every wait
//! for the peer has a deadline. What a connection may hold of the buffer pool is bounded by its budget.
//!
//! Sections: TCP 3.3 (queue model), 3.4 (connection states), 3.5 (errors).

use super::Shared;
use super::association::{Controller, EVENTS, NAMESPACES, QueueHandle, TIMER};
use super::config::PortRole;
use super::counters::{CloseReason, ConnectionState};
use super::fused::Pair;
use super::limits::{COPIES_MAX, PEER_PROBE_AFTER};
use super::namespace::NamespaceView;
use super::receive::{RxState, receive};
use super::tally::NvmeTally;
use super::transfer::Command;
use crate::wire::command::{Cid, Nsid};
use crate::wire::pdu::{Digests, Encoder, Pda, PduError, Receiver, RxRules};
use crate::wire::status::Status;
use io::IoBuf;
use io::net::{TcpInfo, TcpStream};
use io::sync::Semaphore;
use io::time::Instant;
use session::Hold;
use session::deferred::Deferred;
use session::latency::CommandKind;
use session::link::Link;
use session::turn::{self, Turns};
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A connection: its stream, and everything else.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) core: RefCell<Core>,
}

/// The queue that a connection became with its Connect.
pub(super) struct Queue {
    pub(super) controller: Arc<Controller>,
    pub(super) handle: Arc<QueueHandle>,
    pub(super) qid: u16,
    /// Entries.
    pub(super) size: u16,
    /// The host wants to see SQHD move.
    pub(super) flow_control: bool,
    /// Head of the submission queue: commands taken, modulo its size.
    pub(super) head: u16,
}

/// The command being worked on.
pub(super) struct Current {
    pub(super) kind: CommandKind,
    pub(super) started: Instant,
    /// What it holds of the shard's buffers.
    pub(super) hold: Option<Hold>,
}

impl Current {
    /// The same, to be put aside: this one holds nothing any more.
    pub(super) fn aside(&mut self) -> Current {
        Current {
            hold: self.hold.take(),
            ..*self
        }
    }
}

/// The identifiers of commands that have no reply yet.
#[derive(Default)]
pub(super) struct CidSet(Option<Box<[u64; 1024]>>);

impl CidSet {
    pub(super) fn contains(&self, cid: Cid) -> bool {
        let at = usize::from(cid.0);
        self.0
            .as_ref()
            .is_some_and(|bits| bits[at / 64] >> (at % 64) & 1 == 1)
    }

    pub(super) fn insert(&mut self, cid: Cid) {
        let at = usize::from(cid.0);
        self.0.get_or_insert_with(|| Box::new([0; 1024]))[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn remove(&mut self, cid: Cid) {
        let at = usize::from(cid.0);
        if let Some(bits) = &mut self.0 {
            bits[at / 64] &= !(1 << (at % 64));
        }
    }
}

/// Tells a command of several steps whether its connection is still there. After its end it must start nothing: the
/// host may have repeated the command, and written newer data.
pub(super) struct Lifeline(Weak<Connection>);

impl Lifeline {
    /// Errors: `Aborted` once the connection has ended.
    pub(super) fn check(&self) -> backend::Result<()> {
        match self.0.strong_count() {
            0 => Err(backend::StorageError::Aborted),
            _ => Ok(()),
        }
    }
}

/// The state of a connection.
pub(super) struct Core {
    target: Arc<Shared>,
    pub(super) me: Weak<Connection>,
    pub(super) link: Link<CloseReason>,
    pub(super) role: PortRole,
    state: ConnectionState,
    pub(super) rules: RxRules,
    pub(super) encoder: Encoder,
    pub(super) rx: RxState,
    pub(super) queue: Option<Queue>,
    pub(super) commands: Slab<Command>,
    pub(super) cids: CidSet,
    /// Async Event Requests that wait for an event.
    pub(super) async_events: VecDeque<Cid>,
    /// Commands that wait for the budget or for a buffer, first come, first served.
    pub(super) deferred: Deferred,
    /// A buffer for the next in-capsule data.
    pub(super) spare: Option<IoBuf>,
    /// Copies that may read and write.
    pub(super) copies: Semaphore,
    /// Fused pairs that have not been executed.
    pub(super) pairs: Vec<Pair>,
    views: Vec<Option<Rc<NamespaceView>>>,
    views_generation: u64,
    pub(super) current: Current,
    pub(super) own_tally: NvmeTally,
    /// Bytes that R2Ts asked for and that are not here whole.
    pub(super) awaited: usize,
    pub(super) terminated_at: Option<Instant>,
    complaint: Option<PduError>,
}

impl Core {
    pub(super) fn target(&self) -> &Arc<Shared> {
        &self.target
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.state
    }

    pub(super) fn enter(&mut self, state: ConnectionState) {
        self.target
            .connections
            .counters
            .moved(Some(self.state), Some(state));
        self.state = state;
    }

    pub(super) fn lifeline(&self) -> Lifeline {
        Lifeline(self.me.clone())
    }

    /// When this turn began.
    pub(super) fn now(&self) -> Instant {
        self.link.now()
    }

    /// Bytes arrived.
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.link.tally().received(bytes);
        self.refresh_namespaces();
        if let Some(q) = &self.queue {
            q.controller.heard(self.link.now().as_nanos());
        }
    }

    /// Ends the connection; the first reason stays.
    pub(super) fn end(&mut self, why: CloseReason) {
        self.link.end(why);
    }

    pub(super) fn ending(&self) -> Option<CloseReason> {
        self.link.ending()
    }

    /// Ends the connection because of what the host sent: a termination request goes out, then the host has the
    /// linger time to close (TCP 3.5).
    pub(super) fn fatal(&mut self, error: PduError, header: &[u8]) {
        if self.state == ConnectionState::Terminating {
            return;
        }
        self.target.counters.pdu_error(error.fes);
        self.complaint = Some(error);
        self.put_term_req(&error, header);
        self.terminated_at = Some(self.link.now());
        self.enter(ConnectionState::Terminating);
    }

    /// The namespace of an I/O controller, as this connection sees it. Errors: Invalid Namespace.
    pub(super) fn namespace(&self, nsid: Nsid) -> Result<Rc<NamespaceView>, Status> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        match self.views.get(index) {
            Some(Some(view)) => Ok(view.clone()),
            _ => Err(Status::INVALID_NAMESPACE.dnr()),
        }
    }

    pub(super) fn nsids(&self) -> impl Iterator<Item = u32> + '_ {
        self.views.iter().flatten().map(|v| v.ns.nsid.0)
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &Rc<NamespaceView>> {
        self.views.iter().flatten()
    }

    /// Makes the view of the namespaces what the subsystem has now. One atomic when nothing changed.
    pub(super) fn refresh_namespaces(&mut self) {
        let Some(q) = &self.queue else { return };
        let Some(subsystem) = q.controller.subsystem() else {
            return;
        };
        let generation = subsystem.generation();
        if generation == self.views_generation {
            return;
        }
        let now = subsystem.namespaces();
        let len = now.keys().next_back().map_or(0, |id| *id as usize);
        let mut views: Vec<Option<Rc<NamespaceView>>> = vec![None; len];
        for (id, ns) in now.iter() {
            let slot = &mut views[*id as usize - 1];
            let known = self.views.get(*id as usize - 1).and_then(Option::as_ref);
            *slot = match known {
                Some(v) if Arc::ptr_eq(&v.ns, ns) => Some(v.clone()),
                _ => Some(Rc::new(NamespaceView::new(
                    ns.clone(),
                    q.controller.host_id,
                ))),
            };
        }
        self.views = views;
        self.views_generation = generation;
    }

    /// Without a keep alive timer a host that vanished without a word would keep its controller for ever: then the
    /// kernel looks for it.
    fn probe_peer(&self, stream: &TcpStream) {
        let leads = self.queue.as_ref().filter(|q| q.qid == 0);
        if leads.is_some_and(|q| q.controller.silence_max().is_none()) {
            let options = io::net::TcpOptions {
                keep_alive: Some(PEER_PROBE_AFTER),
                ..io::net::TcpOptions::default()
            };
            // Without the option a vanished host is found with the next reply to it.
            let _ = stream.set_options(&options);
        }
    }

    /// Whether nothing is left to do for a connection that ends in good order.
    fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.link.output().is_empty()
    }

    /// Whether a line about this peer may be logged now.
    pub(super) fn may_log(&self) -> bool {
        let log = &self.target.connections.counters.log;
        log.may_log(self.link.now())
    }

    fn log(&self, why: CloseReason) {
        let host = self
            .queue
            .as_ref()
            .map_or("unknown", |q| q.controller.host_nqn.as_str());
        let queue = self.queue.as_ref().map_or(-1, |q| i32::from(q.qid));
        if !why.is_trouble() {
            tracing::debug!(peer = %self.link.peer(), host, queue, "connection ended: {why:?}");
            return;
        }
        if !self.may_log() {
            return;
        }
        match &self.complaint {
            Some(e) => {
                tracing::warn!(peer = %self.link.peer(), host, queue, error = %e, "connection ended: {why:?}")
            }
            None => {
                tracing::warn!(peer = %self.link.peer(), host, queue, "connection ended: {why:?}")
            }
        }
    }
}

impl Turns for Core {
    type Reason = CloseReason;

    fn link(&mut self) -> &mut Link<CloseReason> {
        &mut self.link
    }

    fn abort_requested(&mut self) {
        Core::abort_requested(self);
    }

    fn drain_requested(&mut self) {
        if self.state != ConnectionState::Terminating {
            self.enter(ConnectionState::Draining);
        }
    }

    fn signalled(&mut self, flags: u32, stream: &TcpStream) {
        if flags & NAMESPACES != 0 {
            self.refresh_namespaces();
        }
        if flags & EVENTS != 0 {
            self.deliver_events();
        }
        if flags & TIMER != 0 {
            self.probe_peer(stream);
        }
    }

    fn run_deferred(&mut self) {
        Core::run_deferred(self);
    }

    fn can_resume(&self) -> bool {
        Core::can_resume(self)
    }

    fn is_congested(&self) -> bool {
        Core::is_congested(self)
    }

    fn publish(&mut self) {
        Core::publish(self);
    }

    fn publish_info(&mut self, info: TcpInfo) {
        if let Some(q) = &self.queue {
            q.handle.totals().tcp = info;
        }
    }

    fn over(&mut self) -> Option<CloseReason> {
        if self.state == ConnectionState::Draining && self.is_idle() {
            self.end(CloseReason::Drained);
        }
        match self.link.ending()? {
            // The reply to Disconnect goes out first.
            CloseReason::Disconnect if !self.link.output().is_empty() => None,
            CloseReason::Peer | CloseReason::Network
                if self.state == ConnectionState::Terminating =>
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

impl Connection {
    fn new(
        target: Arc<Shared>,
        stream: TcpStream,
        role: PortRole,
        link: Link<CloseReason>,
    ) -> Rc<Connection> {
        Rc::new_cyclic(|me| {
            let now = io::time::now();
            let core = Core {
                me: me.clone(),
                link,
                role,
                state: ConnectionState::AwaitIcReq,
                rules: RxRules::connecting(Receiver::Controller),
                encoder: Encoder {
                    digests: Digests::default(),
                    pda: Pda::DWORD,
                },
                rx: RxState::Header,
                queue: None,
                commands: Slab::new(),
                cids: CidSet::default(),
                async_events: VecDeque::new(),
                deferred: Deferred::default(),
                spare: None,
                copies: Semaphore::new(COPIES_MAX),
                pairs: Vec::new(),
                views: Vec::new(),
                views_generation: 0,
                current: Current {
                    kind: CommandKind::Other,
                    started: now,
                    hold: None,
                },
                own_tally: NvmeTally::default(),
                awaited: 0,
                terminated_at: None,
                complaint: None,
                target,
            };
            Connection {
                stream,
                core: RefCell::new(core),
            }
        })
    }
}

/// Serves one connection until it ends.
pub(super) async fn serve(target: Arc<Shared>, stream: TcpStream, role: PortRole) {
    let all = &target.connections;
    let stall = target.config.stall_timeout;
    let Some(admitted) = all.admit(&stream, ConnectionState::AwaitIcReq, stall) else {
        return;
    };
    let (link, key) = admitted.into_link(&stream, target.config.connection_budget);
    let conn = Connection::new(target.clone(), stream, role, link);
    let why = turn::run(&conn.core, &conn.stream, receive(&conn)).await;
    conn.stream.shutdown();
    let mut core = conn.core.borrow_mut();
    core.end(why);
    core.log(why);
    all.ended(key, core.state, why);
    if let Some(q) = core.queue.take() {
        target.queue_closed(&q, why);
    }
    core.deferred.clear();
    core.link.forget_request();
    core.views.clear();
    drop(core);
    all.closed();
}
