//! Link: the state that connections of every protocol have.
//!
//! **Owns** place, signal, waker, clock, account, output and counts of one connection, and the reason of its end. **Called by**
//! the protocol's connection, which has one link, and by [`crate::turn`]. **Invariants**: the first reason to end stays.

use crate::admission::Place;
use crate::carrier::{Carrier, CarrierInfo};
use crate::connections::Admitted;
use crate::latency::CommandKind;
use crate::output::Output;
use crate::signal::{CloseReason, Ended, Signal};
use crate::tally::{INFO_AGE_MAX, Tally};
use crate::{Account, Hold, HostKey, Ledger};
use io::SendBatch;
use io::buf::BufPool;
use io::stage::Trail;
use io::time::Instant;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// The state that connections of every protocol have.
pub struct Link<R> {
    peer: SocketAddr,
    local: SocketAddr,
    /// Its place among the connections of its phase.
    place: Place,
    /// Close reason and flags that other connections and the control plane set.
    signal: Arc<Signal<R>>,
    /// The shard's buffers.
    pool: BufPool,
    /// The part of the shard's buffers that this connection holds.
    account: Account,
    /// Replies and data that wait for the transport.
    output: Output,
    /// Counts since the last publication.
    tally: Tally,
    /// When the transport's own numbers were read last.
    info_at: Instant,
    /// When the first awaited data must be here, or a check for it is due; `None` while no data is awaited.
    transfer_due: Option<Instant>,
    /// How long a send may take before its size counts.
    stall: Duration,
    waker: Waker,
    turn: Instant,
    accepted_at: Instant,
    ending: Option<R>,
}

impl<R: CloseReason> Link<R> {
    /// The link of an admitted connection, which may hold `budget` bytes of buffers.
    fn new(carrier: &impl Carrier, admitted: Admitted<R>, budget: usize) -> Link<R> {
        let now = io::time::now();
        let evicted = admitted.signal.clone();
        let account = Account::new(
            &Ledger::of_shard(),
            HostKey::unnamed(carrier.peer_addr().ip()),
            budget,
            now,
            move || evicted.close(R::from(Ended::Reclaimed)),
        );
        Link {
            peer: carrier.peer_addr(),
            local: carrier.local_addr(),
            place: admitted.place,
            signal: admitted.signal,
            pool: io::pool(),
            account,
            output: Output::default(),
            tally: Tally::default(),
            info_at: now,
            transfer_due: None,
            stall: admitted.stall,
            waker: Waker::noop().clone(),
            turn: now,
            accepted_at: now,
            ending: None,
        }
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The connection's place among the connections of its phase.
    pub fn place(&mut self) -> &mut Place {
        &mut self.place
    }

    /// The signal by which other connections and the control plane reach this one.
    pub fn signal(&self) -> &Arc<Signal<R>> {
        &self.signal
    }

    /// The shard's buffers.
    #[inline]
    pub fn pool(&self) -> &BufPool {
        &self.pool
    }

    /// The part of the shard's buffers that this connection holds.
    #[inline]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Replies and data that wait for the transport.
    #[inline]
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Replies and data that wait for the transport, to add to.
    #[inline]
    pub fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Replies and data that wait for the transport, to add to, and the shard's buffers.
    #[inline]
    pub fn output_and_pool(&mut self) -> (&mut Output, &BufPool) {
        (&mut self.output, &self.pool)
    }

    /// Counts since the last publication.
    #[inline]
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
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

    /// Ends the connection; the first reason stays. A broken connection whose send has not ended within the stall timeout was
    /// stalled: the transport gives up unacknowledged data by itself (over TCP by TCP_USER_TIMEOUT), and the receiver may hear it first.
    pub fn end(&mut self, mut why: R) {
        if is_broken(why) && self.output.is_stalled(self.turn, self.stall) {
            why = R::from(Ended::SendStall);
        }
        self.ending.get_or_insert(why);
    }

    /// Bytes of buffers for the connection's next request. `None` while there are none: then the request waits in the ledger
    /// and the connection is woken when it is granted.
    pub fn hold(&mut self, bytes: usize) -> Option<Hold> {
        self.account.hold(bytes, self.turn, &self.waker)
    }

    /// Withdraws the request for buffers that waits in the ledger, if there is one.
    pub fn forget_request(&mut self) {
        self.account.forget();
    }

    /// Counts a command that has ended now, with its reply next in the output.
    #[inline]
    pub fn command_ended(&mut self, kind: CommandKind, trail: Trail) {
        let at = self.tally.ended(kind, trail, self.turn);
        self.output.reply_due(kind, at);
    }

    /// `bytes` bytes of awaited data have arrived.
    #[inline]
    pub fn data_received(&self, bytes: usize) {
        self.account.received(bytes, self.turn);
    }

    /// The buffers of the payload that is added next are held until it has left.
    #[inline]
    pub fn hold_until_sent(&mut self, hold: Option<Hold>) {
        self.output.hold_until_sent(hold, self.turn);
    }

    /// When the first awaited data must be here, or a check for it is due; `None` while no data is awaited.
    #[inline]
    pub fn transfer_due(&self) -> Option<Instant> {
        self.transfer_due
    }

    /// Data is awaited that must be here by `due`. An earlier deadline stays.
    #[inline]
    pub fn await_transfer(&mut self, due: Instant) {
        self.transfer_due.get_or_insert(due);
    }

    /// Sets the deadline of the first awaited data.
    #[inline]
    pub fn set_transfer_due(&mut self, due: Option<Instant>) {
        self.transfer_due = due;
    }

    /// The earliest of the deadlines that every protocol has: of awaited data, of the send in flight, and of a request that
    /// waits for buffers.
    pub fn next_deadline(&self) -> Option<Instant> {
        let send = self.output.deadline(self.stall);
        [self.transfer_due, send, self.account.reclaim_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the send in flight has taken too long.
    pub fn is_send_late(&self) -> bool {
        let deadline = self.output.deadline(self.stall);
        deadline.is_some_and(|at| at <= self.turn)
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

    /// Takes the output for a send, and leaves `spare` to be filled.
    pub(crate) fn take_output(&mut self, spare: &mut SendBatch) -> Option<SendBatch> {
        self.output.take(spare, self.turn)
    }

    /// The transport sends the messages that were counted in the output. False if there were none.
    pub fn take_messages(&mut self) -> bool {
        self.output.take_messages(self.turn)
    }

    /// The oldest send in flight has ended.
    pub fn sent(&mut self) {
        if let Some((bytes, replies)) = self.output.sent(&self.account, self.turn) {
            self.tally.sent(bytes, &replies);
        }
    }

    /// Whether the transport's own numbers are so old that they are to be read again.
    pub(crate) fn is_info_due(&self) -> bool {
        self.turn.since(self.info_at) >= INFO_AGE_MAX
    }

    /// Reads the transport's own numbers of the connection.
    pub(crate) fn read_info(&mut self, carrier: &impl Carrier) -> io::Result<CarrierInfo> {
        self.info_at = self.turn;
        carrier.info()
    }
}

/// Whether a reason says only that the connection broke.
pub fn is_broken<R: CloseReason>(why: R) -> bool {
    why == R::from(Ended::Peer) || why == R::from(Ended::Network)
}

impl<R: CloseReason> Admitted<R> {
    /// The link of a connection that may hold `budget` bytes of buffers, and the key for
    /// [`crate::connections::Connections::ended`].
    pub fn into_link(self, carrier: &impl Carrier, budget: usize) -> (Link<R>, usize) {
        let key = self.key;
        (Link::new(carrier, self, budget), key)
    }
}
