//! Limits of failed logins.
//!
//! **Owns** the counts by address and user, by address, and by user. **Called by** [`super::Accounts`]. **Invariants**: an attempt counts
//! as failed from its begin, so that attempts at the same time count too; within [`LOGIN_WINDOW`], a user has [`LOGINS_OF_PAIR_MAX`]
//! failures from one address. From addresses where the user never logged in, all users of an address together have
//! [`LOGINS_OF_ADDRESS_MAX`], and a user from all addresses together [`LOGINS_OF_USER_MAX`]: nobody can lock a user out at an address
//! where the user is known. The tables are bounded, and the oldest entry goes for a new one. Decision 0343.

use crate::limits::{
    LOGIN_WINDOW, LOGINS_OF_ADDRESS_MAX, LOGINS_OF_PAIR_MAX, LOGINS_OF_USER_MAX,
    LOGINS_REMEMBERED_MAX,
};
use io::time::Instant;
use session::admission::network_of;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Failures within a window.
struct Failures {
    since: Instant,
    count: u32,
}

/// Failed logins.
#[derive(Default)]
pub(super) struct Attempts {
    by_pair: BTreeMap<Pair, Failures>,
    by_address: BTreeMap<IpAddr, Failures>,
    by_user: BTreeMap<String, Failures>,
    /// The last right login of a user from an address.
    known: BTreeMap<Pair, Instant>,
}

/// An address and a user.
type Pair = (IpAddr, String);

fn count<K: Ord + Clone>(
    table: &mut BTreeMap<K, Failures>,
    key: &K,
    max: u32,
    now: Instant,
) -> Result<(), Duration> {
    table.retain(|_, failures| now.since(failures.since) <= LOGIN_WINDOW);
    if let Some(failures) = table.get_mut(key) {
        if failures.count >= max {
            return Err(LOGIN_WINDOW.saturating_sub(now.since(failures.since)));
        }
        failures.count += 1;
        return Ok(());
    }
    if table.len() >= LOGINS_REMEMBERED_MAX {
        let oldest = table.iter().min_by_key(|(_, f)| f.since);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            table.remove(&oldest);
        }
    }
    let first = Failures {
        since: now,
        count: 1,
    };
    table.insert(key.clone(), first);
    Ok(())
}

impl Attempts {
    /// Begins an attempt. Errors: the time until the next attempt is allowed.
    pub(super) fn begin(
        &mut self,
        address: IpAddr,
        user: &str,
        now: Instant,
    ) -> Result<(), Duration> {
        let pair = (network_of(address), user.to_owned());
        count(&mut self.by_pair, &pair, LOGINS_OF_PAIR_MAX, now)?;
        if self.known.contains_key(&pair) {
            return Ok(());
        }
        count(&mut self.by_address, &pair.0, LOGINS_OF_ADDRESS_MAX, now)?;
        count(&mut self.by_user, &pair.1, LOGINS_OF_USER_MAX, now)
    }

    /// An attempt was right: earlier failures of the user from this address are forgotten, and the address is known.
    pub(super) fn succeeded(&mut self, address: IpAddr, user: &str, now: Instant) {
        let pair = (network_of(address), user.to_owned());
        self.by_pair.remove(&pair);
        if self.known.len() >= LOGINS_REMEMBERED_MAX && !self.known.contains_key(&pair) {
            let oldest = self.known.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(pair, _)| pair.clone()) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(pair, now);
    }

    /// The administrator lets a user try again, from all addresses.
    pub(super) fn unlock(&mut self, user: &str) {
        let addresses: Vec<IpAddr> = self.by_pair.keys().map(|(a, _)| *a).collect();
        for address in addresses {
            if self.by_pair.remove(&(address, user.to_owned())).is_some() {
                self.by_address.remove(&address);
            }
        }
        self.by_user.remove(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_user_waits_at_an_address_after_failures_and_others_do_not() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let a = address("192.0.2.1");
        for _ in 0..LOGINS_OF_PAIR_MAX {
            attempts.begin(a, "ann", now).expect("allowed");
        }
        let later = now + Duration::from_secs(10);
        let wait = attempts.begin(a, "ann", later).expect_err("too many");
        assert_eq!(wait, LOGIN_WINDOW - Duration::from_secs(10));
        let mapped = address("::ffff:192.0.2.1");
        assert!(attempts.begin(mapped, "ann", later).is_err());
        assert!(attempts.begin(a, "bob", later).is_ok());
        assert!(attempts.begin(address("192.0.2.2"), "ann", later).is_ok());
        let after = now + LOGIN_WINDOW + Duration::from_secs(1);
        assert!(attempts.begin(a, "ann", after).is_ok());
    }

    #[test]
    fn an_address_has_a_limit_for_all_users() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let a = address("192.0.2.1");
        attempts.succeeded(a, "ann", now);
        for n in 0..LOGINS_OF_ADDRESS_MAX {
            let user = format!("user{n}");
            attempts.begin(a, &user, now).expect("allowed");
        }
        assert!(attempts.begin(a, "bob", now).is_err());
        assert!(
            attempts.begin(a, "ann", now).is_ok(),
            "known at this address"
        );
    }

    fn fail_from_everywhere(attempts: &mut Attempts, user: &str, now: Instant) {
        for n in 0..LOGINS_OF_USER_MAX {
            let from = IpAddr::V6(Ipv6Addr::from(u128::from(n) << 64));
            let _ = attempts.begin(from, user, now);
        }
    }

    /// Regression: fifty failures, from wherever, locked a user out everywhere.
    #[test]
    fn a_user_is_guarded_against_many_addresses_and_not_locked_out_at_a_known_one() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let home = address("192.0.2.8");
        attempts.begin(home, "ann", now).expect("allowed");
        attempts.succeeded(home, "ann", now);
        fail_from_everywhere(&mut attempts, "ann", now);
        assert!(attempts.begin(address("192.0.2.9"), "ann", now).is_err());
        assert!(attempts.begin(address("192.0.2.9"), "bob", now).is_ok());
        assert!(attempts.begin(home, "ann", now).is_ok());
    }

    #[test]
    fn the_administrator_lets_a_user_try_again() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let a = address("192.0.2.1");
        for _ in 0..LOGINS_OF_PAIR_MAX {
            attempts.begin(a, "ann", now).expect("allowed");
            attempts.begin(a, "bob", now).expect("allowed");
        }
        for n in 0..LOGINS_OF_USER_MAX {
            let from = IpAddr::V6(Ipv6Addr::from(u128::from(n) << 64));
            let _ = attempts.begin(from, "ann", now);
        }
        attempts.unlock("ann");
        assert!(attempts.begin(a, "ann", now).is_ok());
        assert!(attempts.begin(address("192.0.2.9"), "ann", now).is_ok());
        assert!(attempts.begin(a, "bob", now).is_err(), "another user");
    }

    #[test]
    fn a_right_password_forgives() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let a = address("2001:db8::1");
        for _ in 0..3 * LOGINS_OF_USER_MAX {
            attempts.begin(a, "ann", now).expect("allowed");
            attempts.succeeded(address("2001:db8::2"), "ann", now);
        }
    }

    #[test]
    fn the_tables_are_bounded() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        for n in 0..=LOGINS_REMEMBERED_MAX as u128 {
            let from = IpAddr::V6(Ipv6Addr::from(n << 64));
            let at = now + Duration::from_nanos(n as u64);
            attempts.begin(from, &format!("{n}"), at).expect("allowed");
            attempts.succeeded(from, &format!("known{n}"), at);
        }
        assert_eq!(attempts.by_pair.len(), LOGINS_REMEMBERED_MAX);
        assert_eq!(attempts.known.len(), LOGINS_REMEMBERED_MAX);
        assert_eq!(attempts.by_address.len(), LOGINS_REMEMBERED_MAX);
        assert_eq!(attempts.by_user.len(), LOGINS_REMEMBERED_MAX);
    }
}
