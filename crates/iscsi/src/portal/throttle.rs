//! Login throttle: an initiator that gave too many wrong secrets is refused for a while.
//!
//! **Called by** logins. **Invariants**: the number of remembered initiators is bounded; a right secret clears its initiator; an
//! initiator is not locked out by another address that uses its name.

use crate::limits::{CHAP_BACKOFF_MAX, CHAP_FAILURES_FREE, CHAP_FAILURES_REMEMBERED_MAX};
use crate::wire::IscsiName;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Wrong secrets by initiator and address.
#[derive(Default)]
pub(crate) struct Throttle(BTreeMap<(IscsiName, IpAddr), Failures>);

struct Failures {
    count: u32,
    last_ns: u64,
}

/// The pause after `count` wrong secrets. It doubles with each one beyond the free ones.
fn pause_ns(count: u32) -> u64 {
    let most = CHAP_BACKOFF_MAX.as_nanos() as u64;
    match count.checked_sub(CHAP_FAILURES_FREE) {
        None => 0,
        Some(n) => most.min(1_000_000_000 << n.min(16)),
    }
}

impl Throttle {
    pub(crate) fn is_throttled(&self, who: &IscsiName, from: IpAddr, now_ns: u64) -> bool {
        let failures = self.0.get(&(who.clone(), from));
        failures.is_some_and(|f| now_ns < f.last_ns + pause_ns(f.count))
    }

    pub(crate) fn proven(&mut self, who: &IscsiName, from: IpAddr, right: bool, now_ns: u64) {
        let key = (who.clone(), from);
        if right {
            self.0.remove(&key);
            return;
        }
        if self.0.len() >= CHAP_FAILURES_REMEMBERED_MAX && !self.0.contains_key(&key) {
            let oldest = self
                .0
                .iter()
                .min_by_key(|(_, f)| f.last_ns)
                .map(|(k, _)| k.clone());
            if let Some(k) = oldest {
                self.0.remove(&k);
            }
        }
        let f = self.0.entry(key).or_insert(Failures {
            count: 0,
            last_ns: 0,
        });
        f.count = f.count.saturating_add(1);
        f.last_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_wrong_secrets_cost_time_and_a_right_one_clears() {
        let who = IscsiName::new("iqn.2026-11.test:a").expect("valid");
        let (here, there) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let mut t = Throttle::default();
        for _ in 0..CHAP_FAILURES_FREE - 1 {
            t.proven(&who, here, false, 10);
            assert!(!t.is_throttled(&who, here, 10));
        }
        t.proven(&who, here, false, 10);
        assert!(t.is_throttled(&who, here, 1_000_000_009) && !t.is_throttled(&who, there, 10));
        assert!(!t.is_throttled(&who, here, 1_000_000_010));
        t.proven(&who, here, true, 20);
        assert!(!t.is_throttled(&who, here, 20));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut t = Throttle::default();
        for i in 0..CHAP_FAILURES_REMEMBERED_MAX + 10 {
            let who = IscsiName::new(&format!("iqn.2026-11.test:{i}")).expect("valid");
            t.proven(&who, IpAddr::from([127, 0, 0, 1]), false, i as u64);
        }
        assert_eq!(t.0.len(), CHAP_FAILURES_REMEMBERED_MAX);
    }
}
