//! New connections that wait for a place while evicted ones end.
//!
//! **Owns** the waiting connections by address. **Called by** [`crate::connections`]. **Invariants**: at most [`WAITING_MAX`] wait;
//! beyond it, a connection of the address with the most waiting ones is refused, so that a flood refuses itself.

use crate::admission::{WAITING_MAX, network_of};
use io::sync::lock;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The waiting connections of one service.
#[derive(Default)]
pub(crate) struct WaitingRoom {
    /// By address: whether the connection was refused meanwhile.
    waiting: Mutex<BTreeMap<IpAddr, VecDeque<Arc<AtomicBool>>>>,
}

/// One connection that waits. Dropping it ends the wait.
pub(crate) struct Waiting<'a> {
    entry: &'a WaitingRoom,
    from: IpAddr,
    refused: Arc<AtomicBool>,
}

impl WaitingRoom {
    /// A connection from this address waits. `None` if it is refused, because its address has the most waiting ones.
    pub(crate) fn wait(&self, from: IpAddr) -> Option<Waiting<'_>> {
        let from = network_of(from);
        let mut waiting = lock(&self.waiting);
        let total: usize = waiting.values().map(VecDeque::len).sum();
        if total >= WAITING_MAX {
            let own = waiting.get(&from).map_or(0, VecDeque::len);
            let most = waiting.values_mut().max_by_key(|all| all.len())?;
            if most.len() <= own + 1 {
                return None;
            }
            if let Some(refused) = most.pop_back() {
                refused.store(true, Ordering::SeqCst);
            }
        }
        let refused = Arc::new(AtomicBool::new(false));
        waiting.entry(from).or_default().push_back(refused.clone());
        Some(Waiting {
            entry: self,
            from,
            refused,
        })
    }
}

impl Waiting<'_> {
    /// Whether the connection was refused for one of another address.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.entry.waiting);
        if let Some(all) = waiting.get_mut(&self.from) {
            all.retain(|other| !Arc::ptr_eq(other, &self.refused));
            if all.is_empty() {
                waiting.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_with_the_most_waiting_connections_is_refused() {
        let at = |n: u8| IpAddr::from([10, 0, 0, n]);
        let entry = WaitingRoom::default();
        let flood: Vec<_> = (0..WAITING_MAX).filter_map(|_| entry.wait(at(1))).collect();
        assert_eq!(flood.len(), WAITING_MAX);
        assert!(entry.wait(at(1)).is_none());
        let other = entry.wait(at(2)).expect("it may wait");
        assert!(!other.is_refused());
        assert_eq!(flood.iter().filter(|w| w.is_refused()).count(), 1);
        drop((flood, other));
        assert!(lock(&entry.waiting).is_empty());
    }
}
