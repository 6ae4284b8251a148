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
use super::session::{Alive, ConnectionHandle, RELEASE, Session, lock};
use crate::login::{Login, Parameters};
use crate::wire::decode::Rules;
use crate::wire::{Itt, Sn};
use io::net::{TcpInfo, TcpStream};
use io::time::Instant;
use session::deferred::Deferred;
use session::link::{Link, is_broken};
use session::turn::{self, Turns};
use slab::Slab;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::sync::Arc;

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
    pub(super) link: Link<CloseReason>,
    state: ConnectionState,
    pub(super) rules: Rules,
    pub(super) parameters: Parameters,
    pub(super) rx: RxState,
    /// The last PDU brought more than is to be copied.
    pub(super) bulk: bool,
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
    pub(super) deferred: Deferred,
    /// Commands that wait for others of their logical unit.
    pub(super) waiting: Vec<usize>,
    /// Room for data that comes unasked.
    pub(super) early: EarlyRoom,
    pub(super) next_ttt: u32,
    pub(super) text: TextExchange,
    pub(super) retained: Retained,
    pub(super) heard_at: Instant,
    /// When a NOP-In went out that was not answered yet.
    pub(super) nop_sent_at: Option<Instant>,
    pub(super) logout_asked_at: Option<Instant>,
    pub(super) closing: Option<(CloseReason, Instant)>,
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
        self.link.now()
    }

    /// Bytes arrived.
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.link.tally().received(bytes);
        self.heard_at = self.link.now();
        self.nop_sent_at = None;
    }

    /// Ends the connection; the first reason stays. One that breaks while it is closing ends for the reason that it is closed
    /// for.
    pub(super) fn end(&mut self, why: CloseReason) {
        let closing = self.closing.filter(|_| is_broken(why));
        let why = closing.map_or(why, |(real, _)| real);
        self.link.end(why);
    }

    pub(super) fn ending(&self) -> Option<CloseReason> {
        self.link.ending()
    }

    /// Whether nothing is left to do for a connection that ends in good order.
    fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.link.output().is_empty()
    }

    /// Whether a line about this peer may be logged now.
    fn may_log(&self) -> bool {
        let log = &self.target.connections.counters.log;
        log.may_log(self.link.now())
    }

    fn log(&self, why: CloseReason) {
        let initiator = match (&self.member, &self.login) {
            (Some(m), _) => m.session.initiator.as_str(),
            (None, Some(l)) => l.initiator().map_or("unknown", |n| n.as_str()),
            (None, None) => "unknown",
        };
        let error = self.complaint.unwrap_or("");
        if !why.is_trouble() {
            tracing::debug!(peer = %self.link.peer(), initiator, "connection ended: {why:?}");
        } else if self.may_log() {
            tracing::warn!(peer = %self.link.peer(), initiator, error, "connection ended: {why:?}");
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
        self.link.forget_request();
        self.early = EarlyRoom::default();
        self.commands.clear();
        self.by_itt.clear();
        self.retained = Retained::default();
        self.text = TextExchange::default();
        self.rx = RxState::Header;
    }
}

impl Turns for Core {
    type Reason = CloseReason;

    fn link(&mut self) -> &mut Link<CloseReason> {
        &mut self.link
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

    fn signalled(&mut self, flags: u32, _: &TcpStream) {
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
        Core::can_resume(self)
    }

    fn is_congested(&self) -> bool {
        Core::is_congested(self)
    }

    fn publish(&mut self) {
        Core::publish(self);
    }

    fn publish_info(&mut self, info: TcpInfo) {
        if let Some(m) = &self.member {
            lock(&m.handle.totals).shared.tcp = info;
        }
    }

    fn over(&mut self) -> Option<CloseReason> {
        match self.state {
            ConnectionState::Draining if self.is_idle() => self.end(CloseReason::Drained),
            // A refused peer is given the linger time to read why.
            ConnectionState::Closing if self.link.output().is_empty() => {
                if let Some((why, _)) = self.closing
                    && !why.is_trouble()
                {
                    self.end(why);
                }
            }
            _ => {}
        }
        self.link.ending()
    }

    fn next_deadline(&self) -> Option<Instant> {
        Core::next_deadline(self)
    }

    fn check_deadlines(&mut self) {
        Core::check_deadlines(self);
    }
}

impl Connection {
    fn new(target: Arc<Shared>, stream: TcpStream, link: Link<CloseReason>) -> Rc<Connection> {
        Rc::new_cyclic(|me| {
            let now = io::time::now();
            let core = Core {
                me: me.clone(),
                link,
                state: ConnectionState::Login,
                rules: Rules::LOGIN,
                parameters: Parameters::default(),
                rx: RxState::Header,
                bulk: false,
                login: Some(Box::new(Login::new(target.config.offer.clone()))),
                login_window: (Sn(0), Sn(0)),
                member: None,
                stat_sn: Sn(io::rng::u64() as u32),
                commands: Slab::new(),
                by_itt: HashMap::new(),
                immediates: 0,
                held: BTreeMap::new(),
                deferred: Deferred::default(),
                waiting: Vec::new(),
                early: EarlyRoom::default(),
                next_ttt: 0,
                text: TextExchange::default(),
                retained: Retained::default(),
                heard_at: now,
                nop_sent_at: None,
                logout_asked_at: None,
                closing: None,
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
pub(super) async fn serve(target: Arc<Shared>, stream: TcpStream) {
    let all = &target.connections;
    let stall = target.config.stall_timeout;
    let Some(admitted) = all.admit(&stream, ConnectionState::Login, stall) else {
        return;
    };
    let (link, key) = admitted.into_link(&stream, target.config.connection_budget);
    let conn = Connection::new(target.clone(), stream, link);
    let why = turn::run(&conn.core, &conn.stream, receive(&conn)).await;
    conn.stream.shutdown();
    let mut core = conn.core.borrow_mut();
    core.end(why);
    core.log(why);
    all.ended(key, core.state, why);
    core.dissolve();
    drop(core);
    all.closed();
}
