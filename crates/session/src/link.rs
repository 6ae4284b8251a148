//! Link: the state that a connection has whatever its protocol.
//!
//! **Owns** place, signal, waker, clock, account, output and counts of one connection, and the reason of its end. **Called by**
//! the protocol's connection, which has one, and by [`crate::turn`]. **Invariants**: the first reason to end stays.

use crate::admission::Place;
use crate::connections::Admitted;
use crate::output::Output;
use crate::signal::{CloseReason, Ended, Signal};
use crate::tally::Tally;
use crate::{Account, Hold, HostKey, Ledger};
use io::buf::BufPool;
use io::net::TcpStream;
use io::time::Instant;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// The state that a connection has whatever its protocol.
pub struct Link<R> {
    /// The peer's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// Its place among the connections of its phase.
    pub place: Place,
    /// How others reach it.
    pub signal: Arc<Signal<R>>,
    /// The shard's buffers.
    pub pool: BufPool,
    /// Its part of the shard's buffers.
    pub account: Account,
    /// Replies and data that wait for the socket.
    pub output: Output,
    /// Counts since the last publication.
    pub tally: Tally,
    /// When the kernel's numbers were published last.
    pub info_at: Instant,
    /// When the first awaited data must be here, or a check for it is due; none is awaited without.
    pub transfer_due: Option<Instant>,
    waker: Waker,
    turn: Instant,
    accepted_at: Instant,
    ending: Option<R>,
}

impl<R: CloseReason> Link<R> {
    /// The link of an admitted connection, which may hold `budget` bytes of buffers.
    pub fn new(stream: &TcpStream, place: Place, signal: Arc<Signal<R>>, budget: usize) -> Link<R> {
        let now = io::time::now();
        let evicted = signal.clone();
        let account = Account::new(
            &Ledger::of_shard(),
            HostKey::unnamed(stream.peer_addr().ip()),
            budget,
            now,
            move || evicted.close(R::from(Ended::Reclaimed)),
        );
        Link {
            peer: stream.peer_addr(),
            local: stream.local_addr(),
            place,
            signal,
            pool: io::pool(),
            account,
            output: Output::default(),
            tally: Tally::default(),
            info_at: now,
            transfer_due: None,
            waker: Waker::noop().clone(),
            turn: now,
            accepted_at: now,
            ending: None,
        }
    }

    /// When this turn began.
    #[inline]
    pub fn now(&self) -> Instant {
        self.turn
    }

    /// When the connection was accepted.
    pub fn accepted_at(&self) -> Instant {
        self.accepted_at
    }

    /// The waker of the connection's task.
    #[inline]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Why the connection ends, if it does.
    #[inline]
    pub fn ending(&self) -> Option<R> {
        self.ending
    }

    /// Ends the connection; the first reason stays. A broken connection whose send has not ended within `stall` was stalled:
    /// the kernel gives up unacknowledged data by itself (TCP_USER_TIMEOUT), and the receiver may hear it first.
    pub fn end(&mut self, mut why: R, stall: Duration) {
        if is_broken(why) && self.output.is_stalled(self.turn, stall) {
            why = R::from(Ended::SendStall);
        }
        self.ending.get_or_insert(why);
    }

    /// Bytes of buffers for the connection's next request; without, the request waits in the ledger and the connection is
    /// woken when it is granted.
    pub fn hold(&mut self, bytes: usize) -> Option<Hold> {
        self.account.hold(bytes, self.turn, &self.waker)
    }

    /// The earliest of the deadlines that every protocol has: of awaited data, of the send in flight, and of a request that
    /// waits for buffers.
    pub fn next_deadline(&self, stall: Duration) -> Option<Instant> {
        let send = self.output.deadline(stall);
        [self.transfer_due, send, self.account.reclaim_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the send in flight has taken too long.
    pub fn is_send_late(&self, stall: Duration) -> bool {
        self.output
            .deadline(stall)
            .is_some_and(|at| at <= self.turn)
    }

    /// Closes connections that are behind, if a request of this one has waited for buffers long enough.
    pub fn reclaim_if_due(&mut self) {
        let now = self.turn;
        if self.account.reclaim_at().is_some_and(|t| t <= now) {
            self.account.reclaim(now);
        }
    }

    /// Reads the clock again: deadlines have passed since the turn began.
    pub fn refresh_now(&mut self) {
        self.turn = io::time::now();
    }

    /// A turn begins. Returns the flags that others raised.
    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>) -> u32 {
        self.turn = io::time::now();
        if !self.waker.will_wake(cx.waker()) {
            self.waker = cx.waker().clone();
            self.signal.set_waker(cx.waker());
        }
        self.signal.take()
    }
}

/// Whether a reason says only that the connection broke.
pub fn is_broken<R: CloseReason>(why: R) -> bool {
    why == R::from(Ended::Peer) || why == R::from(Ended::Network)
}

/// Convenience for protocols: a link of what [`crate::connections::Connections::admit`] returned.
impl<R: CloseReason> Admitted<R> {
    /// The link, and the key for [`crate::connections::Connections::ended`].
    pub fn into_link(self, stream: &TcpStream, budget: usize) -> (Link<R>, usize) {
        (Link::new(stream, self.place, self.signal, budget), self.key)
    }
}
