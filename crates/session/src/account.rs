//! Account of one connection: the bytes of the shard's buffers that it holds.
//!
//! **Owns** the sum of the connection's [`Hold`]s, the part of it that the peer has to move, and the time by which the peer
//! is behind. **Called by** connections. **Invariants**: bytes are given back exactly once, when their hold is dropped, even
//! if the connection has ended before; at most one request of a connection waits in the ledger.
//!
//! The peer is *behind* by the time that has passed since it should have moved the bytes that it owes. Each byte that it
//! moves is worth [`TURNOVER`] divided by the bytes that it owes: a peer that owes much must move much, and a fragment of
//! four bytes is worth nothing. Bytes in the hands of the backend do not count.

use crate::ledger::{Book, Claim, Holder, Host, HostKey, Ledger, Waiter};
use crate::limits::{BEHIND_MAX, RATE_MIN, RECLAIM_EVERY, SOCKETS_HOLD, TURNOVER};
use io::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;

/// The account of one connection.
pub struct Account {
    inner: Rc<Inner>,
    /// Bytes that the connection may hold.
    limit: usize,
    waiting: Option<Rc<Request>>,
    waiting_since: Option<Instant>,
}

struct Inner {
    book: Rc<Book>,
    host: RefCell<Rc<Host>>,
    held: Cell<usize>,
    /// Held bytes that the peer has to move.
    owed: Cell<usize>,
    /// The time up to which the peer has moved enough. The peer is behind by the time since then.
    even_at: Cell<Instant>,
    /// Bytes that may be sent before sent bytes count as moved, because sockets hold them ([`SOCKETS_HOLD`]).
    sockets_hold: Cell<usize>,
    evict: Box<dyn Fn()>,
}

/// A request that waits in the ledger.
struct Request {
    of: Rc<Inner>,
    bytes: usize,
    waker: RefCell<Waker>,
    grant: RefCell<Option<Hold>>,
}

/// Bytes of the shard's buffers, held for a command. Dropping it gives them back.
pub struct Hold {
    of: Rc<Inner>,
    host: Rc<Host>,
    bytes: usize,
    claim: Claim,
    with_peer: bool,
}

impl Waiter for Request {
    fn host(&self) -> Rc<Host> {
        self.of.host.borrow().clone()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn granted(&self, claim: Claim) {
        *self.grant.borrow_mut() = Some(Hold::charged(&self.of, self.bytes, claim));
        self.waker.borrow().wake_by_ref();
    }
}

impl Holder for Inner {
    fn held(&self) -> usize {
        self.held.get()
    }

    fn behind(&self, now: Instant) -> Option<u128> {
        let late = now.since(self.even_at.get());
        (self.owed.get() > 0 && late >= BEHIND_MAX)
            .then(|| self.owed.get() as u128 * late.as_millis())
    }

    fn evict(&self) {
        (self.evict)();
    }
}

impl Inner {
    /// The ledger's reference to the connection.
    fn holder(self: &Rc<Self>) -> Weak<dyn Holder> {
        let weak: Weak<Inner> = Rc::downgrade(self);
        weak
    }

    fn owe(&self, bytes: usize, now: Instant) {
        if self.owed.get() == 0 {
            self.even_at.set(now);
        }
        self.owed.set(self.owed.get() + bytes);
    }
}

impl Account {
    /// Creates the account of a connection that may hold `limit` bytes. `evict` must close the connection; it is called when
    /// the connection is behind while other requests wait.
    pub fn new(
        ledger: &Ledger,
        host: HostKey,
        limit: usize,
        now: Instant,
        evict: impl Fn() + 'static,
    ) -> Account {
        let book = ledger.0.clone();
        let host = book.host(host);
        let inner = Rc::new(Inner {
            host: RefCell::new(host.clone()),
            book,
            held: Cell::new(0),
            owed: Cell::new(0),
            even_at: Cell::new(now),
            sockets_hold: Cell::new(SOCKETS_HOLD),
            evict: Box::new(evict),
        });
        host.add(inner.holder());
        Account {
            inner,
            limit,
            waiting: None,
            waiting_since: None,
        }
    }

    /// Charges the connection's bytes to `host` from here on. Called when the peer has logged in.
    pub fn belongs_to(&self, host: HostKey) {
        let host = self.inner.book.host(host);
        host.add(self.inner.holder());
        let before = self.inner.host.replace(host);
        before.remove(&self.inner.holder());
    }

    /// Bytes that the connection holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.inner.held.get()
    }

    /// Whether the connection may hold `bytes` more. True for any request if it holds nothing.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.inner.held.get() == 0 || self.inner.held.get() + bytes <= self.limit
    }

    /// Whether a request waits in the ledger.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting
            .as_ref()
            .is_some_and(|w| w.grant.borrow().is_none())
    }

    /// Takes `bytes` for a request; `None` if the ledger cannot grant them now.
    pub fn try_hold(&self, bytes: usize) -> Option<Hold> {
        let inner = &self.inner;
        if !self.fits(bytes) {
            return None;
        }
        let granted = inner.book.grant_now(&inner.host.borrow(), bytes);
        Some(Hold::charged(inner, bytes, granted.ok()?))
    }

    /// Takes `bytes` for the connection's next request. If the ledger cannot grant them now, returns `None`; the request then
    /// waits in the ledger until it is granted, which wakes `waker`, or until the next request replaces it.
    pub fn hold(&mut self, bytes: usize, now: Instant, waker: &Waker) -> Option<Hold> {
        if let Some(w) = &self.waiting {
            if w.bytes == bytes {
                let granted = w.grant.borrow_mut().take();
                if granted.is_some() {
                    self.forget();
                } else {
                    w.waker.borrow_mut().clone_from(waker);
                }
                return granted;
            }
            self.forget();
        }
        let inner = &self.inner;
        if !self.fits(bytes) {
            return None;
        }
        let granted = inner.book.grant_now(&inner.host.borrow(), bytes);
        let claim = match granted {
            Ok(claim) => return Some(Hold::charged(inner, bytes, claim)),
            Err(claim) => claim,
        };
        let waiter = Rc::new(Request {
            of: inner.clone(),
            bytes,
            waker: RefCell::new(waker.clone()),
            grant: RefCell::default(),
        });
        self.waiting = Some(waiter.clone());
        self.waiting_since = Some(now);
        inner.book.enqueue(waiter.clone(), claim);
        let granted = waiter.grant.borrow_mut().take();
        if granted.is_some() {
            self.forget();
        }
        granted
    }

    /// Withdraws the waiting request.
    pub fn forget(&mut self) {
        self.waiting_since = None;
        if let Some(w) = self.waiting.take() {
            // The requests behind it in the queue may now fit.
            let book = w.of.book.clone();
            let waiter: Rc<dyn Waiter> = w;
            book.withdraw(&waiter);
        }
    }

    /// Credits the peer with `bytes` of requested data that have arrived.
    pub fn received(&self, bytes: usize, now: Instant) {
        self.moved(bytes, bytes, now);
    }

    /// Credits the peer with `bytes` that were sent to it. The first [`SOCKETS_HOLD`] bytes may still lie in sockets and
    /// count for nothing.
    pub fn sent(&self, bytes: usize, now: Instant) {
        let unproven = &self.inner.sockets_hold;
        let in_sockets = bytes.min(unproven.get());
        unproven.set(unproven.get() - in_sockets);
        self.moved(bytes, bytes - in_sockets, now);
    }

    fn moved(&self, bytes: usize, earned: usize, now: Instant) {
        let inner = &self.inner;
        inner.host.borrow().earn(earned, inner.book.limit());
        let floor = RATE_MIN * TURNOVER.as_secs();
        let owed = (inner.owed.get() as u64).max(floor);
        let made_up = (TURNOVER.as_nanos() as u64).saturating_mul(bytes as u64) / owed;
        let even = inner.even_at.get() + Duration::from_nanos(made_up);
        inner.even_at.set(even.min(now));
    }

    /// The time at which [`Account::reclaim`] is due; `None` if no request waits.
    #[must_use]
    pub fn reclaim_at(&self) -> Option<Instant> {
        self.waiting_since
            .filter(|_| self.is_waiting())
            .map(|t| t + RECLAIM_EVERY)
    }

    /// The connection's request has waited long enough: closes connections that are behind.
    pub fn reclaim(&mut self, now: Instant) {
        if let Some(bytes) = self.waiting.as_ref().map(|w| w.bytes) {
            self.waiting_since = Some(now);
            self.inner.book.reclaim(now, bytes);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.forget();
        self.inner.host.borrow().remove(&self.inner.holder());
    }
}

impl Hold {
    fn charged(of: &Rc<Inner>, bytes: usize, claim: Claim) -> Hold {
        of.held.set(of.held.get() + bytes);
        Hold {
            of: of.clone(),
            host: of.host.borrow().clone(),
            bytes,
            claim,
            with_peer: false,
        }
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges these bytes to the peer, which has to move them from `now` on: data that it was asked for, or a reply.
    pub fn to_peer(&mut self, now: Instant) {
        if !self.with_peer {
            self.with_peer = true;
            self.of.owe(self.bytes, now);
        }
    }

    /// Ends the charge to the peer: the backend has the bytes.
    pub fn to_backend(&mut self) {
        if std::mem::take(&mut self.with_peer) {
            self.of.owed.set(self.of.owed.get() - self.bytes);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.to_backend();
        self.of.held.set(self.of.held.get() - self.bytes);
        self.of.book.release(&self.host, self.bytes, self.claim);
    }
}
