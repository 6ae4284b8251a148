//! Duplicate requests: the replies of changes, kept for a while, because RPC repeats a request whose reply was lost.
//!
//! **Owns** [`Duplicates`]. **Called by** the execution of calls, under a lock. **Invariants**: of requests with the same key one is executed
//! at a time; the replies that are kept are bounded for each client and in all, and the oldest go first; a request that is
//! being executed is never forgotten.

use crate::limits::{DUPLICATE_AGE, DUPLICATES_MAX, DUPLICATES_OF_CLIENT_MAX};
use io::sync::oneshot::{self, Receiver, Sender};
use io::time::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// The identity of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) peer: IpAddr,
    pub(crate) xid: u32,
    pub(crate) procedure: u32,
    /// Of credential and arguments.
    pub(crate) checksum: u64,
}

/// What a request is.
pub(crate) enum Begun {
    /// A new one: it is executed, and ends with [`Duplicates::end`].
    First,
    /// A repetition: this is the reply of the first one.
    Done(Arc<[u8]>),
    /// A repetition of a request that is being executed, until this ends.
    Running(Receiver<()>),
}

enum Entry {
    /// Repetitions wait until these are dropped.
    Running(Vec<Sender<()>>),
    /// The reply, and the time when the request ended.
    Done(Arc<[u8]>, Instant),
}

/// The changes of all clients that were executed lately.
#[derive(Default)]
pub(crate) struct Duplicates {
    entries: HashMap<Key, Entry>,
    /// Requests that have ended, oldest first.
    order: BTreeMap<u64, Key>,
    /// The same by client.
    clients: HashMap<IpAddr, BTreeSet<u64>>,
    next: u64,
}

impl Duplicates {
    /// A request begins.
    pub(crate) fn begin(&mut self, key: Key, now: Instant) -> Begun {
        self.expire(now);
        match self.entries.get_mut(&key) {
            Some(Entry::Done(reply, ..)) => return Begun::Done(reply.clone()),
            Some(Entry::Running(waiting)) => {
                let (sender, receiver) = oneshot::channel();
                waiting.push(sender);
                return Begun::Running(receiver);
            }
            None => {}
        }
        self.entries.insert(key, Entry::Running(Vec::new()));
        Begun::First
    }

    /// A request has ended with this reply; without one it is forgotten. Returns the repetitions that wait, which continue when they are
    /// dropped.
    pub(crate) fn end(
        &mut self,
        key: Key,
        reply: Option<Arc<[u8]>>,
        now: Instant,
    ) -> Vec<Sender<()>> {
        let waiting = match self.entries.remove(&key) {
            Some(Entry::Running(waiting)) => waiting,
            Some(Entry::Done(..)) | None => unreachable!("a request ends once"),
        };
        let Some(reply) = reply else {
            return waiting;
        };
        let of_client = self.clients.get(&key.peer);
        if let Some(oldest) = of_client
            .filter(|all| all.len() >= DUPLICATES_OF_CLIENT_MAX)
            .and_then(BTreeSet::first)
            .copied()
        {
            self.forget(oldest);
        }
        if self.order.len() >= DUPLICATES_MAX
            && let Some(oldest) = self.order.keys().next().copied()
        {
            self.forget(oldest);
        }
        let place = self.next;
        self.next += 1;
        self.entries.insert(key, Entry::Done(reply, now));
        self.order.insert(place, key);
        self.clients.entry(key.peer).or_default().insert(place);
        waiting
    }

    fn forget(&mut self, place: u64) {
        let Some(key) = self.order.remove(&place) else {
            return;
        };
        self.entries.remove(&key);
        if let Some(of_client) = self.clients.get_mut(&key.peer) {
            of_client.remove(&place);
            if of_client.is_empty() {
                self.clients.remove(&key.peer);
            }
        }
    }

    /// Forgets replies that are too old.
    fn expire(&mut self, now: Instant) {
        while let Some((place, key)) = self.order.first_key_value() {
            match self.entries.get(key) {
                Some(Entry::Done(_, ended)) if *ended + DUPLICATE_AGE > now => return,
                _ => {
                    let place = *place;
                    self.forget(place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::sim::{Sim, SimConfig};
    use std::time::Duration;

    fn key(peer: u8, xid: u32) -> Key {
        Key {
            peer: [10, 0, 0, peer].into(),
            xid,
            procedure: 12,
            checksum: 5,
        }
    }

    fn reply() -> Option<Arc<[u8]>> {
        Some(Arc::from(&b"done"[..]))
    }

    fn simulated(test: impl FnOnce(Instant) + 'static) {
        Sim::new(1, SimConfig::default()).block_on(async move { test(io::time::now()) });
    }

    #[test]
    fn a_repetition_gets_the_first_reply_until_it_is_too_old() {
        simulated(|now| {
            let mut all = Duplicates::default();
            assert!(matches!(all.begin(key(1, 7), now), Begun::First));
            assert!(matches!(all.begin(key(1, 7), now), Begun::Running(_)));
            assert_eq!(all.end(key(1, 7), reply(), now).len(), 1);
            for other in [
                key(2, 7),
                key(1, 8),
                Key {
                    procedure: 13,
                    ..key(1, 7)
                },
                Key {
                    checksum: 6,
                    ..key(1, 7)
                },
            ] {
                assert!(matches!(all.begin(other, now), Begun::First));
            }
            let Begun::Done(kept) = all.begin(key(1, 7), now) else {
                panic!("the reply is kept");
            };
            assert_eq!(*kept, *b"done");
            let late = now + DUPLICATE_AGE + Duration::from_secs(1);
            assert!(matches!(all.begin(key(1, 7), late), Begun::First));
            assert_eq!(all.order.len(), 0);
        });
    }

    #[test]
    fn replies_are_bounded_for_each_client_and_in_all() {
        simulated(|now| {
            let mut all = Duplicates::default();
            let fill = |all: &mut Duplicates, peer, count: usize| {
                for xid in 0..count as u32 {
                    assert!(matches!(all.begin(key(peer, xid), now), Begun::First));
                    all.end(key(peer, xid), reply(), now);
                }
            };
            fill(&mut all, 0, 3);
            fill(&mut all, 1, DUPLICATES_OF_CLIENT_MAX + 10);
            assert_eq!(all.order.len(), DUPLICATES_OF_CLIENT_MAX + 3);
            assert!(matches!(all.begin(key(0, 0), now), Begun::Done(_)));
            assert!(matches!(all.begin(key(1, 10), now), Begun::Done(_)));
            assert!(matches!(all.begin(key(1, 9), now), Begun::First));
            for peer in 2..=(DUPLICATES_MAX / DUPLICATES_OF_CLIENT_MAX) as u8 + 2 {
                fill(&mut all, peer, DUPLICATES_OF_CLIENT_MAX);
            }
            assert_eq!(all.order.len(), DUPLICATES_MAX);
            assert!(matches!(all.begin(key(1, 10), now), Begun::First));
            assert!(
                matches!(all.begin(key(1, 9), now), Begun::Running(_)),
                "it runs"
            );
        });
    }
}
