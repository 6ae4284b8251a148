//! Ledger: how much of a shard's buffer pool each host may hold.
//!
//! **Owns** the sums of granted bytes by host, and the queues of waiting requests. **Called by** [`crate::Account`].
//! **Invariants**: granted bytes never exceed the limit; a host that holds nothing is refused only if the pool has no room;
//! requests with equal claims are granted in order of arrival, but a request that exceeds its host's share does not delay other
//! hosts.
//!
//! A peer can hold buffers for as long as it likes, by not receiving the data that it read or not sending the data that it
//! wants to write. So each request has a claim, by the bytes that its host has moved:
//!
//! | claim | bytes | limit |
//! |---|---|---|
//! | earned | bytes of a host, up to the number that it has moved | the ledger; three quarters of it while requests wait |
//! | small | other bytes of a host that holds at most [`SMALL_BYTES`] | three quarters of the ledger, together with large |
//! | large | other bytes | half of the ledger |
//!
//! A host that is alone earns nearly the whole pool with the first bytes that it moves. Hosts that hold buffers without
//! moving data share one half, independent of their number. Each host may hold a multiple of the bytes that stay free after
//! its request (dynamic thresholds of Choudhury and Hahne), so that the next host finds room.
//!
//! While a request waits, the ledger closes connections that are behind. The host with the largest product of bytes and time
//! behind comes first; it also loses its earned bytes.

use crate::limits::{EARNED_ALPHA, POOL_KEPT, RECLAIM_EVERY, SMALL_BYTES};
use io::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};

/// The host that bytes are charged to: the name that the peer gave (empty before login) and its address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostKey {
    name: String,
    address: IpAddr,
}

impl HostKey {
    /// The key of a peer that has given no name yet.
    #[must_use]
    pub fn unnamed(address: IpAddr) -> HostKey {
        HostKey {
            name: String::new(),
            address,
        }
    }

    /// The key of a host or initiator. The same name at another address is another key, because a name alone proves nothing.
    #[must_use]
    pub fn named(name: &str, address: IpAddr) -> HostKey {
        HostKey {
            name: name.to_owned(),
            address,
        }
    }
}

/// What the ledger asks of a connection that holds bytes.
pub(crate) trait Holder {
    /// Bytes that the connection holds.
    fn held(&self) -> usize;

    /// Owed bytes × milliseconds behind; `None` if the peer is less than [`crate::limits::BEHIND_MAX`] behind.
    fn behind(&self, now: Instant) -> Option<u128>;

    /// Closes the connection.
    fn evict(&self);
}

/// A request that waits in the ledger.
pub(crate) trait Waiter {
    /// The host that the request is charged to.
    fn host(&self) -> Rc<Host>;

    /// Bytes of the request.
    fn bytes(&self) -> usize;

    /// Called once, when the ledger has granted and charged the request.
    fn granted(&self, claim: Claim);
}

/// State of a shard's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerStats {
    /// Bytes that may be granted.
    pub limit: usize,
    /// Bytes granted now.
    pub held: usize,
    /// Waiting requests.
    pub waiting: usize,
    /// Hosts with a connection.
    pub hosts: usize,
}

/// The ledger of one shard. Clones share it.
#[derive(Clone)]
pub struct Ledger(pub(crate) Rc<Book>);

/// The claim that a request for memory has, which decides its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Within the bytes that its host has moved.
    Earned,
    /// Not earned; the host holds at most [`SMALL_BYTES`].
    Small,
    /// Not earned, and the host holds more.
    Large,
}

/// All claims, in the order in which the ledger serves their queues.
const CLAIMS: [Claim; 3] = [Claim::Earned, Claim::Small, Claim::Large];

/// Whether a request can be granted, with its claim if it cannot.
enum Verdict {
    Granted(Claim),
    /// The host would exceed its own share.
    OverShare(Claim),
    /// The pool, or the part for this claim, has no room.
    Full(Claim),
}

pub(crate) struct Book {
    limit: usize,
    held: Cell<usize>,
    /// Granted bytes that are not earned.
    unearned: Cell<usize>,
    hosts: RefCell<BTreeMap<HostKey, Weak<Host>>>,
    /// Waiting requests, by their claim at arrival.
    queues: [RefCell<VecDeque<Rc<dyn Waiter>>>; 3],
    waiting: Cell<usize>,
    /// Time before which no connection is closed for its buffers.
    reclaim_at: Cell<Option<Instant>>,
}

/// Account of one host.
pub(crate) struct Host {
    key: HostKey,
    held: Cell<usize>,
    /// Bytes that the host has moved, at most the limit. Reset to 0 when the host is found behind.
    earned: Cell<usize>,
    accounts: RefCell<Vec<Weak<dyn Holder>>>,
}

impl Host {
    pub(crate) fn earn(&self, bytes: usize, limit: usize) {
        self.earned.set((self.earned.get() + bytes).min(limit));
    }

    pub(crate) fn add(&self, account: Weak<dyn Holder>) {
        let mut all = self.accounts.borrow_mut();
        all.retain(|a| a.strong_count() > 0);
        all.push(account);
    }

    pub(crate) fn remove(&self, account: &Weak<dyn Holder>) {
        self.accounts.borrow_mut().retain(|a| !a.ptr_eq(account));
    }

    /// The host's connections that are behind, and the sum of their bytes × milliseconds behind.
    fn behind(&self, now: Instant) -> (u128, Vec<Rc<dyn Holder>>) {
        let all: Vec<_> = self
            .accounts
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut weight = 0;
        let mut behind = Vec::new();
        for account in all {
            if let Some(w) = account.behind(now) {
                weight += w;
                behind.push(account);
            }
        }
        (weight, behind)
    }
}

impl Ledger {
    /// Creates the ledger of a buffer pool of `pool` bytes. A buffer of the largest size is always within its limit.
    #[must_use]
    pub fn new(pool: usize) -> Ledger {
        Ledger(Rc::new(Book {
            limit: (pool - pool / POOL_KEPT).max(io::limits::BUF_LEN_MAX.min(pool)),
            held: Cell::new(0),
            unearned: Cell::new(0),
            hosts: RefCell::default(),
            queues: Default::default(),
            waiting: Cell::new(0),
            reclaim_at: Cell::new(None),
        }))
    }

    /// Creates the ledger of this thread's buffer pool.
    #[must_use]
    pub fn of_shard() -> Ledger {
        let ledger = io::runtime::shard_local(|| Ledger::new(io::pool().stats().limit));
        Ledger(ledger.0.clone())
    }

    /// Returns the current sums.
    #[must_use]
    pub fn stats(&self) -> LedgerStats {
        let hosts = self.0.hosts.borrow();
        LedgerStats {
            limit: self.0.limit,
            held: self.0.held.get(),
            waiting: self.0.waiting.get(),
            hosts: hosts.values().filter(|h| h.strong_count() > 0).count(),
        }
    }
}

impl Book {
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the account of a host; a new one if the host has no connection.
    pub(crate) fn host(&self, key: HostKey) -> Rc<Host> {
        let mut hosts = self.hosts.borrow_mut();
        if let Some(host) = hosts.get(&key).and_then(Weak::upgrade) {
            return host;
        }
        hosts.retain(|_, h| h.strong_count() > 0);
        let host = Rc::new(Host {
            key: key.clone(),
            held: Cell::new(0),
            earned: Cell::new(0),
            accounts: RefCell::default(),
        });
        hosts.insert(key, Rc::downgrade(&host));
        host
    }

    fn room(&self, claim: Claim) -> usize {
        let free = self.limit.saturating_sub(self.held.get());
        let unearned = self.unearned.get();
        match claim {
            // In a small pool one request may exceed its claim's part. It is granted if no other such bytes are held.
            Claim::Small | Claim::Large if unearned == 0 => free,
            Claim::Earned if self.held.get() == 0 => free,
            Claim::Earned if self.waiting.get() > 0 => {
                let others = self.queues[Claim::Small as usize].borrow().len()
                    + self.queues[Claim::Large as usize].borrow().len();
                let kept = if others > 0 { self.limit / 4 } else { 0 };
                free.saturating_sub(kept.saturating_sub(unearned))
            }
            Claim::Earned => free,
            Claim::Small => free.min((self.limit / 4 * 3).saturating_sub(unearned)),
            Claim::Large => free.min((self.limit / 2).saturating_sub(unearned)),
        }
    }

    fn judge(&self, host: &Host, bytes: usize) -> Verdict {
        let own = host.held.get();
        let (claim, alpha) = if own + bytes <= host.earned.get() {
            (Claim::Earned, EARNED_ALPHA)
        } else if own + bytes <= SMALL_BYTES {
            (Claim::Small, EARNED_ALPHA)
        } else {
            (Claim::Large, 1)
        };
        let room = self.room(claim);
        if bytes > room {
            Verdict::Full(claim)
        } else if own > 0 && own + bytes > alpha.saturating_mul(room - bytes) {
            Verdict::OverShare(claim)
        } else {
            Verdict::Granted(claim)
        }
    }

    /// Grants a new request at once, if no request with the same claim waits for room. Errors: the claim whose queue it must join.
    pub(crate) fn grant_now(&self, host: &Host, bytes: usize) -> Result<Claim, Claim> {
        let nobody = |claim: Claim| self.queues[claim as usize].borrow().is_empty();
        match self.judge(host, bytes) {
            Verdict::Granted(claim) if self.waiting.get() == 0 || nobody(claim) => {
                self.charge(host, bytes, claim);
                Ok(claim)
            }
            Verdict::Granted(claim) | Verdict::OverShare(claim) | Verdict::Full(claim) => {
                Err(claim)
            }
        }
    }

    fn charge(&self, host: &Host, bytes: usize, claim: Claim) {
        self.held.set(self.held.get() + bytes);
        host.held.set(host.held.get() + bytes);
        if claim != Claim::Earned {
            self.unearned.set(self.unearned.get() + bytes);
        }
        assert!(
            self.held.get() <= self.limit,
            "the ledger granted more than there is"
        );
    }

    pub(crate) fn release(&self, host: &Host, bytes: usize, claim: Claim) {
        self.held.set(self.held.get() - bytes);
        host.held.set(host.held.get() - bytes);
        if claim != Claim::Earned {
            self.unearned.set(self.unearned.get() - bytes);
        }
        if self.waiting.get() > 0 {
            self.serve();
        }
    }

    pub(crate) fn enqueue(&self, waiter: Rc<dyn Waiter>, claim: Claim) {
        self.waiting.set(self.waiting.get() + 1);
        self.queues[claim as usize].borrow_mut().push_back(waiter);
        // The new waiter may be the only one in its queue, refused only because of the order of other queues.
        self.serve();
    }

    /// Removes a request from its queue; does nothing if it is in no queue.
    pub(crate) fn withdraw(&self, waiter: &Rc<dyn Waiter>) {
        for queue in &self.queues {
            let before = queue.borrow().len();
            queue.borrow_mut().retain(|w| !Rc::ptr_eq(w, waiter));
            self.waiting
                .set(self.waiting.get() + queue.borrow().len() - before);
        }
        self.serve();
    }

    /// Grants waiting requests, as far as there is room.
    pub(crate) fn serve(&self) {
        for claim in CLAIMS {
            let queue = &self.queues[claim as usize];
            let mut at = 0;
            loop {
                let Some(waiter) = queue.borrow().get(at).cloned() else {
                    break;
                };
                let host = waiter.host();
                match self.judge(&host, waiter.bytes()) {
                    Verdict::Granted(as_claim) => {
                        self.charge(&host, waiter.bytes(), as_claim);
                        queue.borrow_mut().remove(at);
                        self.waiting.set(self.waiting.get() - 1);
                        waiter.granted(as_claim);
                    }
                    Verdict::OverShare(_) => at += 1,
                    Verdict::Full(_) => break,
                }
            }
        }
    }

    /// Closes connections that are behind, until `wanted` bytes are due back. Called by the waiting connection.
    pub(crate) fn reclaim(&self, now: Instant, wanted: usize) {
        if self.reclaim_at.get().is_some_and(|at| now < at) {
            return;
        }
        self.reclaim_at.set(Some(now + RECLAIM_EVERY));
        let hosts: Vec<_> = self
            .hosts
            .borrow()
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut found: Vec<_> = hosts
            .iter()
            .map(|h| (h.behind(now), h))
            .filter(|((weight, _), _)| *weight > 0)
            .collect();
        found.sort_by(|((a, _), g), ((b, _), h)| b.cmp(a).then_with(|| g.key.cmp(&h.key)));
        let mut freed = 0;
        for ((_, accounts), host) in found {
            if freed >= wanted {
                return;
            }
            host.earned.set(0);
            for account in accounts {
                freed += account.held();
                account.evict();
            }
        }
    }
}

#[cfg(test)]
mod tests;
