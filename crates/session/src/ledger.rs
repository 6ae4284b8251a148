//! Who may hold how much of a shard's buffer pool.
//!
//! **Owns** the sums of what is held, by host, and the queues of requests that wait. **Called by** [`crate::Account`].
//! **Invariants**: what is granted never exceeds the limit; a host without anything in hand is refused only for want of
//! room; requests of one class are granted first come, first served, except that a host's own share never holds up others.
//!
//! A peer can hold buffers for as long as it likes: by not receiving what it read, by not sending what it wants to write. So
//! bytes are told apart by what their host has shown so far:
//!
//! | class | whose | room |
//! |---|---|---|
//! | earned | a host's bytes up to as many as it has moved so far | everything; a quarter less while others wait |
//! | small | other bytes of a host that holds at most [`SMALL_BYTES`] | three quarters of everything, with the next |
//! | large | other bytes | half of everything |
//!
//! A host alone earns nearly the whole pool with the first bytes that it moves. Hosts that only hold share one half, whatever their
//! number. Each host may hold a multiple of what stays free after it (Choudhury and Hahne's dynamic thresholds), so that
//! some is left for the next one. While a request waits, the connections that are behind are closed: first those of the
//! host with the most bytes times the time that it is behind. With that it loses what it has earned.

use crate::account::{Inner as AccountInner, Waiter};
use crate::limits::{EARNED_ALPHA, POOL_KEPT, RECLAIM_EVERY, SMALL_BYTES};
use io::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};

/// Whom bytes are counted for: a name that a peer gave, empty before, at an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostKey {
    name: String,
    address: IpAddr,
}

impl HostKey {
    /// A peer that has given no name yet.
    #[must_use]
    pub fn unnamed(address: IpAddr) -> HostKey {
        HostKey {
            name: String::new(),
            address,
        }
    }

    /// A host or initiator. The same name at another address is another one: a name alone proves nothing.
    #[must_use]
    pub fn named(name: &str, address: IpAddr) -> HostKey {
        HostKey {
            name: name.to_owned(),
            address,
        }
    }
}

/// What is held of a shard's buffers, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerStats {
    /// Most that is granted.
    pub limit: usize,
    /// Granted now.
    pub held: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Hosts with a connection.
    pub hosts: usize,
}

/// The account book of a shard. Clones are the same book.
#[derive(Clone)]
pub struct Ledger(pub(crate) Rc<Book>);

/// What a request counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Within what its host has moved.
    Earned,
    /// Of a host that holds little.
    Small,
    /// Every other.
    Large,
}

/// All classes, in the order in which their queues are looked at.
const CLASSES: [Class; 3] = [Class::Earned, Class::Small, Class::Large];

/// Whether a request can be granted.
enum Verdict {
    Granted(Class),
    /// Its host holds too much.
    OverShare(Class),
    /// Others hold too much.
    Full(Class),
}

pub(crate) struct Book {
    limit: usize,
    held: Cell<usize>,
    /// Of these, bytes that are not earned.
    unearned: Cell<usize>,
    hosts: RefCell<BTreeMap<HostKey, Weak<Host>>>,
    /// Requests that wait, by the class they had when they came.
    queues: [RefCell<VecDeque<Rc<Waiter>>>; 3],
    waiting: Cell<usize>,
    /// Nothing is taken back before.
    reclaim_at: Cell<Option<Instant>>,
}

/// One host's part.
pub(crate) struct Host {
    key: HostKey,
    held: Cell<usize>,
    /// Bytes moved, at most the limit; none after it was found behind.
    earned: Cell<usize>,
    accounts: RefCell<Vec<Weak<AccountInner>>>,
}

impl Host {
    pub(crate) fn earn(&self, bytes: usize, limit: usize) {
        self.earned.set((self.earned.get() + bytes).min(limit));
    }

    pub(crate) fn add(&self, account: &Rc<AccountInner>) {
        let mut all = self.accounts.borrow_mut();
        all.retain(|a| a.strong_count() > 0);
        all.push(Rc::downgrade(account));
    }

    pub(crate) fn remove(&self, account: &Rc<AccountInner>) {
        let gone = Rc::as_ptr(account);
        self.accounts.borrow_mut().retain(|a| a.as_ptr() != gone);
    }

    /// Its connections that are behind, and the sum of their bytes times milliseconds.
    fn behind(&self, now: Instant) -> (u128, Vec<Rc<AccountInner>>) {
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
    /// A ledger for a buffer pool of `pool` bytes. The largest buffer is always within its limit.
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

    /// The ledger of this thread's buffer pool.
    #[must_use]
    pub fn of_shard() -> Ledger {
        let ledger = io::runtime::shard_local(|| Ledger::new(io::pool().stats().limit));
        Ledger(ledger.0.clone())
    }

    /// What is held.
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

    /// The part of a host; a new one if it has no connection yet.
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

    fn room(&self, class: Class) -> usize {
        let free = self.limit.saturating_sub(self.held.get());
        let unearned = self.unearned.get();
        match class {
            // In a small pool one request may be more than a class's part: it is granted when it is alone.
            Class::Small | Class::Large if unearned == 0 => free,
            Class::Earned if self.held.get() == 0 => free,
            Class::Earned if self.waiting.get() > 0 => {
                let others = self.queues[Class::Small as usize].borrow().len()
                    + self.queues[Class::Large as usize].borrow().len();
                let kept = if others > 0 { self.limit / 4 } else { 0 };
                free.saturating_sub(kept.saturating_sub(unearned))
            }
            Class::Earned => free,
            Class::Small => free.min((self.limit / 4 * 3).saturating_sub(unearned)),
            Class::Large => free.min((self.limit / 2).saturating_sub(unearned)),
        }
    }

    fn judge(&self, host: &Host, bytes: usize) -> Verdict {
        let own = host.held.get();
        let (class, alpha) = if own + bytes <= host.earned.get() {
            (Class::Earned, EARNED_ALPHA)
        } else if own + bytes <= SMALL_BYTES {
            (Class::Small, EARNED_ALPHA)
        } else {
            (Class::Large, 1)
        };
        let room = self.room(class);
        if bytes > room {
            Verdict::Full(class)
        } else if own > 0 && own + bytes > alpha.saturating_mul(room - bytes) {
            Verdict::OverShare(class)
        } else {
            Verdict::Granted(class)
        }
    }

    /// Grants a request that has just come, if nobody of its class waits for room.
    pub(crate) fn grant_now(&self, host: &Host, bytes: usize) -> Result<Class, Class> {
        let nobody = |class: Class| self.queues[class as usize].borrow().is_empty();
        match self.judge(host, bytes) {
            Verdict::Granted(class) if self.waiting.get() == 0 || nobody(class) => {
                self.charge(host, bytes, class);
                Ok(class)
            }
            Verdict::Granted(class) | Verdict::OverShare(class) | Verdict::Full(class) => {
                Err(class)
            }
        }
    }

    fn charge(&self, host: &Host, bytes: usize, class: Class) {
        self.held.set(self.held.get() + bytes);
        host.held.set(host.held.get() + bytes);
        if class != Class::Earned {
            self.unearned.set(self.unearned.get() + bytes);
        }
        assert!(
            self.held.get() <= self.limit,
            "the ledger granted more than there is"
        );
    }

    pub(crate) fn release(&self, host: &Host, bytes: usize, class: Class) {
        self.held.set(self.held.get() - bytes);
        host.held.set(host.held.get() - bytes);
        if class != Class::Earned {
            self.unearned.set(self.unearned.get() - bytes);
        }
        if self.waiting.get() > 0 {
            self.serve();
        }
    }

    pub(crate) fn enqueue(&self, waiter: Rc<Waiter>, class: Class) {
        self.waiting.set(self.waiting.get() + 1);
        self.queues[class as usize].borrow_mut().push_back(waiter);
        // The one that waits may be alone in its queue, and only be refused because of others' order.
        self.serve();
    }

    /// Takes a request out of its queue, if it is in one.
    pub(crate) fn withdraw(&self, waiter: &Rc<Waiter>) {
        for queue in &self.queues {
            let before = queue.borrow().len();
            queue.borrow_mut().retain(|w| !Rc::ptr_eq(w, waiter));
            self.waiting
                .set(self.waiting.get() + queue.borrow().len() - before);
        }
        self.serve();
    }

    /// Grants what can be granted of what waits.
    pub(crate) fn serve(&self) {
        for class in CLASSES {
            let queue = &self.queues[class as usize];
            let mut at = 0;
            loop {
                let Some(waiter) = queue.borrow().get(at).cloned() else {
                    break;
                };
                let host = waiter.host();
                match self.judge(&host, waiter.bytes()) {
                    Verdict::Granted(as_class) => {
                        self.charge(&host, waiter.bytes(), as_class);
                        queue.borrow_mut().remove(at);
                        self.waiting.set(self.waiting.get() - 1);
                        waiter.granted(as_class);
                    }
                    Verdict::OverShare(_) => at += 1,
                    Verdict::Full(_) => break,
                }
            }
        }
    }

    /// Closes connections that are behind, until those have gone that held what somebody waits for. Called by who waits.
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
