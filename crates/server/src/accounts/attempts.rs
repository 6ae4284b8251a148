//! Limits of failed logins.
//!
//! **Owns** the counts by address and by user. **Called by** [`super::Accounts`]. **Invariants**: an attempt counts as failed from its
//! begin, so that attempts at the same time count too; within [`LOGIN_WINDOW`], an address has [`LOGINS_OF_ADDRESS_MAX`] failures and a user
//! [`LOGINS_OF_USER_MAX`]; both tables are bounded, and the oldest entry goes for a new one.

use crate::limits::{
    LOGIN_WINDOW, LOGINS_OF_ADDRESS_MAX, LOGINS_OF_USER_MAX, LOGINS_REMEMBERED_MAX,
};
use io::time::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Failures within a window.
struct Failures {
    since: Instant,
    count: u32,
}

/// Failed logins.
#[derive(Default)]
pub(super) struct Attempts {
    by_address: BTreeMap<IpAddr, Failures>,
    by_user: BTreeMap<String, Failures>,
}

/// The network that an address counts for: a host with IPv6 has 2^64 addresses.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX))),
        },
    }
}

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
        let address = network(address);
        count(&mut self.by_address, &address, LOGINS_OF_ADDRESS_MAX, now)?;
        count(&mut self.by_user, &user.to_owned(), LOGINS_OF_USER_MAX, now)
    }

    /// An attempt was right: earlier failures are forgotten.
    pub(super) fn succeeded(&mut self, address: IpAddr, user: &str) {
        self.by_address.remove(&network(address));
        self.by_user.remove(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_waits_after_failures_and_others_do_not() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let a = address("192.0.2.1");
        for n in 0..LOGINS_OF_ADDRESS_MAX {
            attempts
                .begin(a, &format!("user{n}"), now)
                .expect("allowed");
        }
        let later = now + Duration::from_secs(10);
        let wait = attempts.begin(a, "ann", later).expect_err("too many");
        assert_eq!(wait, LOGIN_WINDOW - Duration::from_secs(10));
        let mapped = address("::ffff:192.0.2.1");
        assert!(attempts.begin(mapped, "ann", later).is_err());
        assert!(attempts.begin(address("192.0.2.2"), "ann", later).is_ok());
        let after = now + LOGIN_WINDOW + Duration::from_secs(1);
        assert!(attempts.begin(a, "ann", after).is_ok());
    }

    #[test]
    fn a_user_is_guarded_against_many_addresses() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        for n in 0..LOGINS_OF_USER_MAX {
            let from = IpAddr::V6(Ipv6Addr::from(u128::from(n) << 64));
            attempts.begin(from, "ann", now).expect("allowed");
        }
        assert!(attempts.begin(address("192.0.2.9"), "ann", now).is_err());
        assert!(attempts.begin(address("192.0.2.9"), "bob", now).is_ok());
    }

    #[test]
    fn a_right_password_forgives() {
        let now = io::time::now();
        let mut attempts = Attempts::default();
        let a = address("2001:db8::1");
        for _ in 0..3 * LOGINS_OF_USER_MAX {
            attempts.begin(a, "ann", now).expect("allowed");
            attempts.succeeded(address("2001:db8::2"), "ann");
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
        }
        assert_eq!(attempts.by_address.len(), LOGINS_REMEMBERED_MAX);
        assert_eq!(attempts.by_user.len(), LOGINS_REMEMBERED_MAX);
    }
}
