//! Admission control of connections: limits by phase and by address, and a reserve for listed peers.
//!
//! **Owns** the number of a service's connections in each phase, and the order in which they are evicted. **Called by** a
//! protocol's server: when a connection is accepted ([`Admission::enter`]), and when it has logged in
//! ([`Place::established`]) or turns out to be for discovery ([`Place::discovery`]). **Invariants**:
//!
//! - A connecting or discovery connection takes no place from established ones. When its phase is full, a connection of the
//!   same phase is evicted: the oldest one of the address with the most connections. An honest login ends within
//!   milliseconds, so it is never the oldest of a flood.
//! - For each established connection of a listed peer, its address may have [`AdmissionLimits::companions`] connecting ones
//!   that do not count for eviction: the queues that this peer is opening.
//! - Established connections are never evicted. While an access list exists, strangers leave [`reserve_of`] the limit free
//!   for listed peers.
//! - Connections of all phases together never exceed `connections_max + SLACK`. Evicted connections count until they have
//!   ended.
//!
//! Many peers may share one address (NAT), so no fixed limit applies to an address. Addresses are compared only when the
//! phase is full, and established connections do not count.

use io::sync::lock;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Connections beyond `connections_max`. Half of them may wait for a place; half may be evicted ones that have not ended.
pub const SLACK: usize = 64;
/// Connections that may wait at a time until evicted ones have ended.
pub const WAITING_MAX: usize = SLACK / 2;

/// The part of a limit that only listed peers may use while an access list exists.
#[must_use]
pub fn reserve_of(limit: usize) -> usize {
    limit / 8
}

/// Ends a connection that admission evicts.
pub trait Evict: Send + Sync {
    /// Asks the connection to end. Must not block.
    fn evict(&self);
}

/// Connection limits of one service.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Most established connections. It also bounds the sum of all phases.
    pub connections_max: usize,
    /// Most connecting connections, which have not logged in.
    pub connecting_max: usize,
    /// Most discovery connections.
    pub discovery_max: usize,
    /// Connecting connections that a listed peer may have in addition, for each established one.
    pub companions: usize,
}

/// The phase has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace;

/// Why a new connection has no place now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEntry {
    /// Evicted connections are still ending: there is a place soon.
    Ending,
    /// Established connections have all places.
    Full,
}

/// The connections of one phase that may be evicted.
#[derive(Default)]
struct Phase {
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<dyn Evict>>>,
    count: usize,
}

#[derive(Default)]
struct Admitted {
    connecting: Phase,
    discovery: Phase,
    established: usize,
    /// Evicted connections that have not ended.
    leaving: usize,
    /// Leading established connections of listed peers, by address.
    listed: HashMap<IpAddr, usize>,
    next: u64,
}

/// Admission control of one service.
pub struct Admission {
    limits: AdmissionLimits,
    state: Mutex<Admitted>,
    reserving: AtomicBool,
}

/// The key under which an address is counted: an IPv6 peer usually owns a /64 network, so all its addresses count as one.
#[must_use]
pub fn network_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Phase {
    fn insert(&mut self, from: IpAddr, id: u64, who: Arc<dyn Evict>) {
        self.by_address.entry(from).or_default().insert(id, who);
        self.count += 1;
    }

    fn remove(&mut self, from: IpAddr, id: u64) -> Option<Arc<dyn Evict>> {
        let of_address = self.by_address.get_mut(&from)?;
        let who = of_address.remove(&id)?;
        if of_address.is_empty() {
            self.by_address.remove(&from);
        }
        self.count -= 1;
        Some(who)
    }

    /// Removes and returns the connection to evict. Per address, `excused` connections do not count.
    fn pop(&mut self, excused: impl Fn(&IpAddr) -> usize) -> Option<Arc<dyn Evict>> {
        let oldest = |ids: &BTreeMap<u64, _>| ids.keys().next().copied().unwrap_or(u64::MAX);
        let (from, ids) = self.by_address.iter().max_by_key(|(from, ids)| {
            let excess = ids.len().saturating_sub(excused(from));
            (excess, Reverse(oldest(ids)))
        })?;
        let (from, id) = (*from, oldest(ids));
        self.remove(from, id)
    }
}

impl Admitted {
    fn total(&self) -> usize {
        self.connecting.count + self.discovery.count + self.established
    }

    fn evict(&mut self, limits: &AdmissionLimits, discovery: bool) -> Option<Arc<dyn Evict>> {
        let listed = &self.listed;
        let excused = |from: &IpAddr| listed.get(from).copied().unwrap_or(0) * limits.companions;
        let phase = match discovery {
            true => &mut self.discovery,
            false => &mut self.connecting,
        };
        let evicted = phase.pop(excused)?;
        self.leaving += 1;
        Some(evicted)
    }
}

impl Admission {
    /// Creates admission control without connections.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Arc<Admission> {
        Arc::new(Admission {
            limits,
            state: Mutex::default(),
            reserving: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, Admitted> {
        lock(&self.state)
    }

    /// Sets whether an access list exists. If so, a part of each limit is reserved for its peers.
    pub fn set_reserving(&self, reserving: bool) {
        self.reserving.store(reserving, Ordering::SeqCst);
    }

    /// Whether `count` connections leave room for one more below `limit`.
    #[must_use]
    pub fn has_room(&self, count: usize, limit: usize, listed: bool) -> bool {
        let kept = match !listed && self.reserving.load(Ordering::SeqCst) {
            true => reserve_of(limit),
            false => 0,
        };
        count < limit - kept
    }

    /// Takes a place for a new connection, which has not logged in. Errors: see [`NoEntry`].
    pub fn enter(self: &Arc<Self>, from: IpAddr, who: Arc<dyn Evict>) -> Result<Place, NoEntry> {
        let from = network_of(from);
        let mut evicted = Vec::new();
        let mut state = self.state();
        if state.leaving >= SLACK / 2 {
            return Err(NoEntry::Ending);
        }
        let most = self.limits.connections_max + SLACK / 2;
        while state.connecting.count >= self.limits.connecting_max.max(1) || state.total() >= most {
            let next = state.evict(&self.limits, false);
            match next.or_else(|| state.evict(&self.limits, true)) {
                Some(next) => evicted.push(next),
                None => return Err(NoEntry::Full),
            }
        }
        let id = state.next;
        state.next += 1;
        state.connecting.insert(from, id, who);
        drop(state);
        evicted.iter().for_each(|e| e.evict());
        Ok(Place {
            admission: self.clone(),
            from,
            id,
            stage: Stage::Connecting,
        })
    }
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Discovery,
    /// True for the leading connection of a listed peer.
    Established(bool),
}

/// The place of one connection. Dropping it frees the place.
pub struct Place {
    admission: Arc<Admission>,
    from: IpAddr,
    id: u64,
    stage: Stage,
}

impl Place {
    /// Moves the connection to the discovery phase. Fails if the connection was evicted meanwhile.
    pub fn discovery(&mut self) -> Result<(), NoPlace> {
        let limits = &self.admission.limits;
        let mut evicted = Vec::new();
        let mut state = self.admission.state();
        let who = state.connecting.remove(self.from, self.id).ok_or(NoPlace)?;
        while state.discovery.count >= limits.discovery_max.max(1) {
            evicted.extend(state.evict(limits, true));
        }
        state.discovery.insert(self.from, self.id, who);
        self.stage = Stage::Discovery;
        drop(state);
        evicted.iter().for_each(|e| e.evict());
        Ok(())
    }

    /// Moves the connection to the established phase. `listed`: its peer is on an access list. `leads`: further connections
    /// of the same association may follow. Fails if too many connections are established, or if this one was evicted
    /// meanwhile.
    pub fn established(&mut self, listed: bool, leads: bool) -> Result<(), NoPlace> {
        let admission = &self.admission;
        let mut state = admission.state();
        let most = admission.limits.connections_max;
        if !admission.has_room(state.established, most, listed) {
            return Err(NoPlace);
        }
        state.connecting.remove(self.from, self.id).ok_or(NoPlace)?;
        state.established += 1;
        if listed && leads {
            *state.listed.entry(self.from).or_default() += 1;
        }
        self.stage = Stage::Established(listed && leads);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        let held = match self.stage {
            Stage::Connecting => state.connecting.remove(self.from, self.id).is_some(),
            Stage::Discovery => state.discovery.remove(self.from, self.id).is_some(),
            Stage::Established(listed) => {
                state.established -= 1;
                if listed && let Some(n) = state.listed.get_mut(&self.from) {
                    *n -= 1;
                    if *n == 0 {
                        state.listed.remove(&self.from);
                    }
                }
                true
            }
        };
        if !held {
            state.leaving -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told(AtomicBool);

    impl Evict for Told {
        fn evict(&self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    struct Peer(Option<Place>, Arc<Told>);

    impl Peer {
        fn is_evicted(&self) -> bool {
            self.1.0.load(Ordering::SeqCst)
        }

        fn place(&mut self) -> &mut Place {
            self.0.as_mut().expect("a place")
        }
    }

    fn at(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn enter(a: &Arc<Admission>, from: IpAddr) -> Peer {
        let told = Arc::new(Told::default());
        Peer(a.enter(from, told.clone()).ok(), told)
    }

    fn admission(connections_max: usize, connecting_max: usize) -> Arc<Admission> {
        Admission::new(AdmissionLimits {
            connections_max,
            connecting_max,
            discovery_max: 2,
            companions: 3,
        })
    }

    #[test]
    fn the_oldest_of_the_address_with_the_most_makes_way() {
        let a = admission(100, 4);
        let honest = enter(&a, at(1));
        let flood: Vec<Peer> = (0..3).map(|_| enter(&a, at(2))).collect();
        let late = enter(&a, at(1));
        assert!(flood[0].is_evicted() && !flood[1].is_evicted());
        assert!(!honest.is_evicted() && !late.is_evicted());
        // Of equal shares, the oldest connection is evicted.
        let third = enter(&a, at(3));
        assert!(honest.is_evicted() && !third.is_evicted());
    }

    #[test]
    fn addresses_of_listed_peers_are_excused_their_companions() {
        let a = admission(100, 4);
        let mut admin = enter(&a, at(1));
        admin.place().established(true, true).expect("a place");
        let queues: Vec<Peer> = (0..3).map(|_| enter(&a, at(1))).collect();
        let stranger = enter(&a, at(2));
        let _next = enter(&a, at(3));
        assert!(stranger.is_evicted() && queues.iter().all(|q| !q.is_evicted()));
        drop(admin);
        let _next = enter(&a, at(4));
        assert!(
            queues[0].is_evicted(),
            "an ended association excuses nothing"
        );
    }

    #[test]
    fn discovery_evicts_discovery_only() {
        let a = admission(100, 4);
        let mut all: Vec<Peer> = (1..=3).map(|n| enter(&a, at(n))).collect();
        for p in &mut all {
            p.place().discovery().expect("a place");
        }
        assert!(all[0].is_evicted() && !all[1].is_evicted() && !all[2].is_evicted());
        let mut host = enter(&a, at(9));
        host.place().established(false, true).expect("a place");
    }

    #[test]
    fn a_part_is_kept_for_listed_peers_while_there_are_lists() {
        let a = admission(16, 4);
        let mut held = Vec::new();
        let established = |listed| {
            let mut p = enter(&a, at(1));
            p.place().established(listed, true).map(|()| p)
        };
        a.set_reserving(true);
        while let Ok(p) = established(false) {
            held.push(p);
        }
        assert_eq!(held.len(), 14);
        held.extend(
            [established(true).ok(), established(true).ok()]
                .into_iter()
                .flatten(),
        );
        assert_eq!(held.len(), 16);
        assert!(established(true).is_err());
        held.truncate(14);
        a.set_reserving(false);
        assert!(established(false).is_ok(), "without lists nothing is kept");
    }

    #[test]
    fn all_phases_together_are_bounded_and_nothing_leaks() {
        let a = admission(8, 1000);
        let mut held: Vec<Peer> = (0..8).map(|_| enter(&a, at(1))).collect();
        for p in &mut held {
            p.place().established(false, true).expect("a place");
        }
        let mut crowd: Vec<Peer> = (0..SLACK).map(|_| enter(&a, at(2))).collect();
        assert_eq!(crowd.iter().filter(|p| p.is_evicted()).count(), SLACK / 2);
        assert!(enter(&a, at(2)).0.is_none(), "the evicted are still there");
        assert!(crowd[0].place().established(false, true).is_err());
        crowd.clear();
        held.clear();
        let s = a.state();
        assert_eq!((s.total(), s.leaving, s.listed.len()), (0, 0, 0));
        assert!(s.connecting.by_address.is_empty());
    }

    #[test]
    fn an_ipv6_peer_has_one_address_and_a_mapped_one_is_ipv4() {
        let v6 = |s: &str| network_of(s.parse().expect("an address"));
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:0:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:10.0.0.1"), at(1));
    }
}
