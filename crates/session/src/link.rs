//! Link: the part of a connection's state that is the same for every protocol.
//!
//! **Owns** place, signal, waker, clock, account, output and counts of one connection, and the reason of its end. **Called
//! by** the protocol's connection, which has one, and by [`crate::turn`]. **Invariants**: the first reason to end stays.

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

/// The part of a connection's state that is the same for every protocol.
pub struct Link<R> {
    /// The peer's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// Place among the connections of its phase.
    pub place: Place,
    /// Flags that other tasks raise.
    pub signal: Arc<Signal<R>>,
    /// The shard's buffer pool.
    pub pool: BufPool,
    /// Bytes of the shard's buffers that the connection holds.
    pub account: Account,
    /// Output batch.
    pub output: Output,
    /// Counts since the last publication.
    pub tally: Tally,
    /// When TCP statistics were published last.
    pub info_at: Instant,
    /// Deadline of awaited data, or of the next check for it; `None` if no data is awaited.
    pub transfer_due: Option<Instant>,
    waker: Waker,
    turn: Instant,
    accepted_at: Instant,
    ending: Option<R>,
}

impl<R: CloseReason> Link<R> {
    /// Creates the link of an admitted connection, which may hold `budget` bytes of buffers.
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

    /// The reason for which the connection ends; `None` while it goes on.
    #[inline]
    pub fn ending(&self) -> Option<R> {
        self.ending
    }

    /// Ends the connection; the first reason stays. If the connection broke and the send in flight is older than `stall`, the
    /// reason is a stalled send: the kernel gives up unacknowledged data (TCP_USER_TIMEOUT), and the receiver may see this
    /// first.
    pub fn end(&mut self, mut why: R, stall: Duration) {
        if is_broken(why) && self.output.is_stalled(self.turn, stall) {
            why = R::from(Ended::SendStall);
        }
        self.ending.get_or_insert(why);
    }

    /// Takes `bytes` of buffers for the connection's next request. If the ledger cannot grant them, returns `None`: the
    /// request waits, and the grant wakes the connection.
    pub fn hold(&mut self, bytes: usize) -> Option<Hold> {
        self.account.hold(bytes, self.turn, &self.waker)
    }

    /// The earliest of three deadlines: of awaited data, of the send in flight, and of a request that waits for buffers.
    pub fn next_deadline(&self, stall: Duration) -> Option<Instant> {
        let send = self.output.deadline(stall);
        [self.transfer_due, send, self.account.reclaim_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the deadline of the send in flight has passed.
    pub fn is_send_late(&self, stall: Duration) -> bool {
        self.output
            .deadline(stall)
            .is_some_and(|at| at <= self.turn)
    }

    /// Closes connections that are behind, if this connection's request has waited long enough for buffers.
    pub fn reclaim_if_due(&mut self) {
        let now = self.turn;
        if self.account.reclaim_at().is_some_and(|t| t <= now) {
            self.account.reclaim(now);
        }
    }

    /// Reads the clock again. Called when deadlines have passed since the turn began.
    pub fn refresh_now(&mut self) {
        self.turn = io::time::now();
    }

    /// Begins a turn. Returns the raised signal flags.
    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>) -> u32 {
        self.turn = io::time::now();
        if !self.waker.will_wake(cx.waker()) {
            self.waker = cx.waker().clone();
            self.signal.set_waker(cx.waker());
        }
        self.signal.take()
    }
}

/// Whether the reason says only that the TCP connection broke.
pub fn is_broken<R: CloseReason>(why: R) -> bool {
    why == R::from(Ended::Peer) || why == R::from(Ended::Network)
}

/// Makes a link of the result of [`crate::connections::Connections::admit`].
impl<R: CloseReason> Admitted<R> {
    /// The link, and the key for [`crate::connections::Connections::ended`].
    pub fn into_link(self, stream: &TcpStream, budget: usize) -> (Link<R>, usize) {
        (Link::new(stream, self.place, self.signal, budget), self.key)
    }
}
