//! One TCP connection: login, then its part of a session.
//!
//! **Owns** the connection's whole state ([`Core`]) and the order in which it works: look at signals, receive and
//! dispatch everything that arrived, start what had to wait, send everything that became ready with one system call.
//! **Called by** [`super::Target::serve`], once per connection, on the shard that owns it.
//!
//! **Invariants**: one task per connection polls receiver, sender and timer, so that a turn is one wake-up; the core is
//! borrowed only between awaits. A command whose answer is known at once costs no task. Every wait for the peer has a
//! deadline. What a connection may hold of the buffer pool is bounded by its budget.

use super::Shared;
use super::command::Command;
use super::counters::{CloseReason, ConnectionState};
use super::early::EarlyRoom;
use super::full_feature::{Held, TextExchange};
use super::receive::{RxState, receive};
use super::recovery::Retained;
use super::session::{Alive, ConnectionHandle, RELEASE, Session, Signal};
use super::transmit::{Output, transmit};
use crate::login::{Login, Parameters};
use crate::wire::decode::Rules;
use crate::wire::{Itt, Sn};
use io::buf::BufPool;
use io::net::TcpStream;
use io::time::{Instant, Sleep};
use session::admission::Place;
use session::signal::{ABORT, CLOSE, DRAIN, INFO};
use session::tally::Tally;
use session::{Account, Hold, HostKey, Ledger};
use slab::Slab;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A connection: its stream, and everything else.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) core: RefCell<Core>,
}

/// The session that a connection became part of with its login.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) session: Arc<Session>,
    pub(super) handle: Arc<ConnectionHandle>,
    /// Held until the connection and what it handed to the backend have ended.
    pub(super) alive: Arc<Alive>,
}

/// The state of a connection.
pub(super) struct Core {
    target: Arc<Shared>,
    pub(super) me: Weak<Connection>,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    state: ConnectionState,
    /// Among the connections of its phase.
    pub(super) place: Place,
    pub(super) signal: Arc<Signal>,
    pub(super) waker: Waker,
    pub(super) pool: BufPool,
    pub(super) rules: Rules,
    pub(super) parameters: Parameters,
    pub(super) rx: RxState,
    /// The last PDU brought more than is to be copied.
    pub(super) bulk: bool,
    pub(super) output: Output,
    pub(super) login: Option<Box<Login>>,
    /// ExpCmdSN and MaxCmdSN before there is a session.
    pub(super) login_window: (Sn, Sn),
    pub(super) member: Option<Member>,
    /// StatSN of the next status.
    pub(super) stat_sn: Sn,
    pub(super) commands: Slab<Command>,
    pub(super) by_itt: HashMap<Itt, usize>,
    /// Immediate commands without a reply.
    pub(super) immediates: usize,
    /// What came before its turn, by CmdSN.
    pub(super) held: BTreeMap<u32, Held>,
    /// Commands that wait for the budget or for a buffer, first come, first served.
    pub(super) deferred: VecDeque<usize>,
    /// Commands that wait for others of their logical unit.
    pub(super) waiting: Vec<usize>,
    /// The buffer that the first of them waits for, of which the ledger has granted the bytes.
    pub(super) alloc: Option<(Hold, io::buf::Alloc)>,
    pub(super) account: Account,
    /// Room for data that comes unasked.
    pub(super) early: EarlyRoom,
    pub(super) next_ttt: u32,
    pub(super) text: TextExchange,
    pub(super) retained: Retained,
    pub(super) tally: Tally,
    /// When this turn began.
    pub(super) turn: Instant,
    pub(super) accepted_at: Instant,
    pub(super) heard_at: Instant,
    /// When a NOP-In went out that was not answered yet.
    pub(super) nop_sent_at: Option<Instant>,
    /// No data that is awaited must be here before this; none is awaited without.
    pub(super) transfer_due: Option<Instant>,
    pub(super) logout_asked_at: Option<Instant>,
    pub(super) closing: Option<(CloseReason, Instant)>,
    pub(super) info_at: Instant,
    ending: Option<CloseReason>,
    /// What was wrong, for the log.
    pub(super) complaint: Option<&'static str>,
}

impl Core {
    pub(super) fn target(&self) -> &Arc<Shared> {
        &self.target
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.state
    }

    pub(super) fn enter(&mut self, state: ConnectionState) {
        let counters = &self.target.connections.counters;
        counters.moved(Some(self.state), Some(state));
        self.state = state;
    }

    /// When this turn began.
    pub(super) fn now(&self) -> Instant {
        self.turn
    }

    /// Bytes arrived.
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.tally.received(bytes);
        self.heard_at = self.turn;
        self.nop_sent_at = None;
    }

    /// Ends the connection; the first reason stays.
    pub(super) fn end(&mut self, mut why: CloseReason) {
        // The kernel gives up unacknowledged data by itself (TCP_USER_TIMEOUT), and the receiver may hear it first.
        let broken = matches!(why, CloseReason::Peer | CloseReason::Network);
        if broken
            && self
                .output
                .stalled_since(self.turn, self.target.config.stall_timeout)
        {
            why = CloseReason::SendStall;
        }
        if let (true, Some((real, _))) = (broken, self.closing) {
            why = real;
        }
        self.ending.get_or_insert(why);
    }

    pub(super) fn ending(&self) -> Option<CloseReason> {
        self.ending
    }

    fn signalled(&mut self, flags: u32, stream: &TcpStream) {
        if flags & CLOSE != 0
            && let Some(why) = self.signal.close_reason()
        {
            self.told_to_close(why);
        }
        if flags & ABORT != 0 {
            self.abort_ordered();
        }
        if flags & RELEASE != 0 {
            self.release_held();
        }
        if flags & DRAIN != 0 {
            self.drain();
        }
        if flags & INFO != 0 {
            self.publish_info(stream);
        }
    }

    /// Whether nothing is left to do for a connection that ends in good order.
    fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.output.is_empty()
    }

    /// Whether the connection is over now, and why.
    fn over(&mut self) -> Option<CloseReason> {
        match self.state {
            ConnectionState::Draining if self.is_idle() => self.end(CloseReason::Drained),
            // A refused peer is given the linger time to read why.
            ConnectionState::Closing if self.output.is_empty() => {
                if let Some((why, _)) = self.closing
                    && !why.is_trouble()
                {
                    self.end(why);
                }
            }
            _ => {}
        }
        self.ending
    }

    /// Whether a line about this peer may be logged now.
    fn may_log(&self) -> bool {
        let second = self.turn.as_nanos() / 1_000_000_000;
        self.target.connections.counters.log.may_log(second)
    }

    fn log(&self, why: CloseReason) {
        let initiator = match (&self.member, &self.login) {
            (Some(m), _) => m.session.initiator.as_str(),
            (None, Some(l)) => l.initiator().map_or("unknown", |n| n.as_str()),
            (None, None) => "unknown",
        };
        let error = self.complaint.unwrap_or("");
        if !why.is_trouble() {
            tracing::debug!(peer = %self.peer, initiator, "connection ended: {why:?}");
        } else if self.may_log() {
            tracing::warn!(peer = %self.peer, initiator, error, "connection ended: {why:?}");
        }
    }

    /// Lets go of everything at the end; commands at the backend end by themselves.
    fn dissolve(&mut self) {
        if let Some(m) = self.member.take() {
            for (_, c) in &self.commands {
                c.cancel.cancel();
                if !c.immediate && !c.is_before_its_turn() {
                    m.session.command_ended();
                }
            }
            for sn in self.held.keys() {
                tracing::trace!(sn, "a command that came early goes with its connection");
                m.session.command_ended();
            }
            self.target.left(&m);
        }
        self.held.clear();
        self.deferred.clear();
        self.waiting.clear();
        self.alloc = None;
        self.account.forget();
        self.early = EarlyRoom::default();
        self.commands.clear();
        self.by_itt.clear();
        self.retained = Retained::default();
        self.text = TextExchange::default();
        self.rx = RxState::Header;
    }
}

impl Connection {
    fn new(
        target: Arc<Shared>,
        stream: TcpStream,
        signal: Arc<Signal>,
        place: Place,
    ) -> Rc<Connection> {
        Rc::new_cyclic(|me| {
            let now = io::time::now();
            let evicted = signal.clone();
            let account = Account::new(
                &Ledger::of_shard(),
                HostKey::unnamed(stream.peer_addr().ip()),
                target.config.connection_budget,
                now,
                move || evicted.close(CloseReason::Reclaimed),
            );
            let core = Core {
                me: me.clone(),
                peer: stream.peer_addr(),
                local: stream.local_addr(),
                state: ConnectionState::Login,
                place,
                signal,
                waker: Waker::noop().clone(),
                pool: io::pool(),
                rules: Rules::LOGIN,
                parameters: Parameters::default(),
                rx: RxState::Header,
                bulk: false,
                output: Output::default(),
                login: Some(Box::new(Login::new(target.config.offer.clone()))),
                login_window: (Sn(0), Sn(0)),
                member: None,
                stat_sn: Sn(io::rng::u64() as u32),
                commands: Slab::new(),
                by_itt: HashMap::new(),
                immediates: 0,
                held: BTreeMap::new(),
                deferred: VecDeque::new(),
                waiting: Vec::new(),
                alloc: None,
                account,
                early: EarlyRoom::default(),
                next_ttt: 0,
                text: TextExchange::default(),
                retained: Retained::default(),
                tally: Tally::default(),
                turn: now,
                accepted_at: now,
                heard_at: now,
                nop_sent_at: None,
                transfer_due: None,
                logout_asked_at: None,
                closing: None,
                info_at: now,
                ending: None,
                complaint: None,
                target,
            };
            Connection {
                stream,
                core: RefCell::new(core),
            }
        })
    }

    /// One turn.
    fn poll(
        &self,
        cx: &mut Context<'_>,
        rx: Pin<&mut impl Future<Output = CloseReason>>,
        mut tx: Pin<&mut impl Future<Output = CloseReason>>,
        timer: &mut Option<(Instant, Sleep)>,
    ) -> Poll<CloseReason> {
        {
            let mut core = self.core.borrow_mut();
            core.turn = io::time::now();
            if !core.waker.will_wake(cx.waker()) {
                core.waker = cx.waker().clone();
                core.signal.set_waker(cx.waker());
            }
            let flags = core.signal.take();
            if flags != 0 {
                core.signalled(flags, &self.stream);
            }
        }
        if let Poll::Ready(why) = rx.poll(cx) {
            self.core.borrow_mut().end(why);
        }
        self.core.borrow_mut().run_waiting();
        loop {
            self.core.borrow_mut().run_deferred();
            if let Poll::Ready(why) = tx.as_mut().poll(cx) {
                self.core.borrow_mut().end(why);
            }
            let core = self.core.borrow_mut();
            if core.ending.is_some() || !core.can_resume() {
                break;
            }
        }
        let mut core = self.core.borrow_mut();
        core.publish(&self.stream);
        loop {
            if let Some(why) = core.over() {
                return Poll::Ready(why);
            }
            let next = core.next_deadline();
            match (&mut *timer, next) {
                (Some((at, sleep)), Some(next)) if *at <= next => match Pin::new(sleep).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => {
                        *timer = None;
                        core.turn = io::time::now();
                        core.check_deadlines();
                        // What a deadline made ready is sent in the next turn.
                        cx.waker().wake_by_ref();
                    }
                },
                (_, Some(next)) => *timer = Some((next, io::time::sleep_until(next))),
                (_, None) => {
                    *timer = None;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Turns until the end.
    async fn run(&self) -> CloseReason {
        let mut rx = pin!(receive(self));
        let mut tx = pin!(transmit(self));
        let mut timer = None;
        // Finished futures must not be polled again.
        let mut rx_done = false;
        let mut tx_done = false;
        poll_fn(|cx| {
            let mut rx = pin!(poll_fn(|cx| {
                if rx_done {
                    return Poll::Pending;
                }
                let p = rx.as_mut().poll(cx);
                rx_done = p.is_ready();
                p
            }));
            let mut tx = pin!(poll_fn(|cx| {
                if tx_done {
                    return Poll::Pending;
                }
                let p = tx.as_mut().poll(cx);
                tx_done = p.is_ready();
                p
            }));
            self.poll(cx, rx.as_mut(), tx.as_mut(), &mut timer)
        })
        .await
    }
}

/// Serves one connection until it ends.
pub(super) async fn serve(target: Arc<Shared>, stream: TcpStream) {
    let all = &target.connections;
    let stall = target.config.stall_timeout;
    let Some(admitted) = all.admit(&stream, ConnectionState::Login, stall) else {
        return;
    };
    let (place, signal, key) = (admitted.place, admitted.signal, admitted.key);
    let conn = Connection::new(target.clone(), stream, signal, place);
    let why = conn.run().await;
    conn.stream.shutdown();
    let mut core = conn.core.borrow_mut();
    core.end(why);
    core.log(why);
    all.ended(key, core.state, why);
    core.dissolve();
    drop(core);
    all.closed();
}
