//! One connection and its phases: login, then full feature phase of a discovery or a normal session.
//!
//! **Owns** the phase and its transport, and does the work that phases leave to it. **Called by** [`super::Target`], once per
//! connection, on the shard that owns it. **Invariants**: one task per connection polls receiver, sender and timer, so that a turn
//! is one wake-up; the core is borrowed only between awaits. A command whose answer is known at once costs no task. Every wait for
//! the peer has a deadline. A connection's part of the buffer pool is bounded by its budget.
//!
//! State that belongs to one phase lives in the type of that phase ([0313](../../../../docs/decisions/0313-a-phase-is-a-type.md)).
//! Closing is no phase: a connection closes from any phase, and commands in flight still answer meanwhile.
//!
//! | module | owns |
//! |---|---|
//! | `serve` | a connection from its begin to its end, and its turns |
//! | `receive` | PDUs from the staging area to the phase |
//! | `iser` | connections over RDMA: their begin, and PDUs from messages to the phase |
//! | `login` | PDUs of a login, and the step to full feature phase |
//! | `device` | steps of commands at the device, task management functions that wait |
//! | `deadline` | deadlines |

mod deadline;
mod device;
mod iser;
mod login;
mod receive;
mod serve;

pub(crate) use iser::serve_rdma;
pub(crate) use serve::serve;

use super::counters::{CloseReason, ConnectionState};
use super::discovery::Discovery;
use super::full_feature::{FullFeature, Next};
use super::member::Member;
use super::transport::PortalTransport;
use crate::login::{LoggedIn, Login};
use crate::wire::request::LoginRequest;
use crate::wire::response::{AsyncEvent, LoginResponse, RejectReason};
use crate::wire::{Bhs, IscsiName};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A connection, which its tasks refer to.
struct Connection {
    core: RefCell<Core>,
}

/// The state of a connection.
struct Core {
    /// For tasks that come back to the connection.
    me: Weak<Connection>,
    transport: PortalTransport,
    phase: Phase,
}

/// Phase of a connection.
enum Phase {
    /// Login requests arrive.
    Login(Box<Login>),
    /// The login is accepted. The session or connection that it replaces is ending.
    Reinstating(Rc<Accepted>),
    /// Full feature phase of a discovery session.
    Discovery(Box<Discovery>),
    /// Full feature phase of a normal session.
    FullFeature(Box<FullFeature>),
    /// The connection has ended.
    Over,
}

/// An accepted login: its last request, and the response that is sent when the session exists.
struct Accepted {
    request: LoginRequest,
    response: LoginResponse,
    text: Vec<u8>,
    who: Box<LoggedIn>,
}

impl Phase {
    /// The connection's part in its session, in full feature phase.
    fn member(&self) -> Option<&Member> {
        match self {
            Phase::Discovery(d) => Some(d.member()),
            Phase::FullFeature(f) => Some(f.member()),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Over => None,
        }
    }

    /// The same, to change it.
    fn member_mut(&mut self) -> Option<&mut Member> {
        match self {
            Phase::Discovery(d) => Some(d.member_mut()),
            Phase::FullFeature(f) => Some(f.member_mut()),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Over => None,
        }
    }

    /// The initiator's name, once it is known.
    fn initiator(&self) -> Option<&IscsiName> {
        match self {
            Phase::Login(login) => login.initiator(),
            Phase::Reinstating(accepted) => Some(&accepted.who.applicant.initiator),
            Phase::Discovery(_) | Phase::FullFeature(_) | Phase::Over => {
                self.member().map(|m| &m.session().initiator)
            }
        }
    }

    /// Commands without a response.
    fn in_flight(&self) -> usize {
        match self {
            Phase::FullFeature(f) => f.in_flight(),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Discovery(_) | Phase::Over => 0,
        }
    }
}

impl Core {
    fn new(me: Weak<Connection>, transport: PortalTransport) -> Core {
        let login = Login::new(transport.offer());
        Core {
            me,
            transport,
            phase: Phase::Login(Box::new(login)),
        }
    }

    /// Whether the receiver must wait for the end of a replaced session or connection.
    fn is_reinstating(&self) -> bool {
        !self.transport.is_closing() && matches!(self.phase, Phase::Reinstating(_))
    }

    fn end(&mut self, why: CloseReason) {
        self.transport.end(why);
    }

    /// Makes the connection's task take a turn.
    fn wake(&self) {
        self.transport.link().waker().wake_by_ref();
    }

    /// Bytes arrived.
    fn arrived(&mut self, bytes: usize) {
        self.transport.arrived(bytes);
        if let Some(member) = self.phase.member_mut() {
            member.heard();
        }
    }

    /// Refuses a PDU in full feature phase. Before, there is no such answer.
    fn reject(&mut self, reason: RejectReason, bad: &Bhs) {
        if let Some(member) = self.phase.member_mut() {
            member.reject(&mut self.transport, reason, bad);
        }
    }

    /// Does what a full feature phase leaves to its connection.
    fn go_on(&mut self, next: Next) {
        match next {
            Next::Idle => {}
            Next::Execute(slot) => self.execute(slot),
            Next::RunDeferred => self.run_deferred(),
            Next::AwaitTasks(aborting) => self.await_tasks(*aborting),
        }
    }

    /// Starts deferred commands until one must wait.
    fn run_deferred(&mut self) {
        while let Phase::FullFeature(f) = &mut self.phase
            && let Some(next) = f.next_deferred(&mut self.transport)
        {
            self.go_on(next);
        }
    }

    /// Tries again to begin the commands that wait for older commands of their logical unit.
    fn run_waiting(&mut self) {
        let Phase::FullFeature(f) = &mut self.phase else {
            return;
        };
        for slot in f.take_waiting() {
            if let Phase::FullFeature(f) = &mut self.phase {
                let next = f.retry(&mut self.transport, slot);
                self.go_on(next);
            }
        }
    }

    /// Delivers held requests and commands whose turn has come.
    fn release_held(&mut self) {
        match &mut self.phase {
            Phase::Discovery(d) => d.release_held(&mut self.transport),
            Phase::FullFeature(f) => {
                for sn in f.member().due() {
                    if let Phase::FullFeature(f) = &mut self.phase {
                        let next = f.release(&mut self.transport, sn);
                        self.go_on(next);
                    }
                }
            }
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Over => {}
        }
    }

    /// Aborts the commands that other connections or the device asked to abort.
    fn abort_ordered(&mut self) {
        if let Phase::FullFeature(f) = &mut self.phase {
            f.abort_ordered(&mut self.transport);
        }
    }

    /// The service ends: an initiator with a normal session is asked to log out; other connections end.
    fn drain(&mut self) {
        if self.transport.is_closing() {
            return;
        }
        match &mut self.phase {
            Phase::FullFeature(f) => f.request_logout(&mut self.transport),
            Phase::Login(_) | Phase::Reinstating(_) | Phase::Discovery(_) | Phase::Over => {
                self.transport.end(CloseReason::Drained);
            }
        }
    }

    /// Another connection or the administrator ends this one. The initiator is told unless it is the cause.
    fn told_to_close(&mut self, why: CloseReason) {
        // An evicted connection is not waited for.
        if self.transport.is_closing() && why != CloseReason::Limit {
            return;
        }
        let tells = matches!(why, CloseReason::Administrator | CloseReason::Reset);
        match self.phase.member_mut() {
            Some(member) if tells => {
                member.tell(&mut self.transport, AsyncEvent::SessionDropped);
                self.transport.close_after_output(why);
            }
            _ => self.transport.end(why),
        }
    }

    /// Counts the connection in the state of a normal or discovery session.
    fn established(&mut self, phase: Phase) {
        let state = match phase {
            Phase::Discovery(_) => ConnectionState::Discovery,
            _ => ConnectionState::FullFeature,
        };
        self.phase = phase;
        self.transport.enter(state);
    }
}
