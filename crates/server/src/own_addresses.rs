//! IP addresses of this machine, for messages about an address that it does not have.
//!
//! **Called by** [`crate::taken`]. **Invariants**: nothing fails; a machine that does not tell its addresses has none.

use nix::ifaddrs::getifaddrs;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most addresses in a message.
const SHOWN_MAX: usize = 8;

/// `, which has ADDRESS, ADDRESS`; empty if no address is known. Loopback addresses are last. IPv6 link-local addresses are left out:
/// `listen` needs a zone with them.
pub(crate) fn for_people() -> String {
    let interfaces = getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| Some(IpAddr::V6(address.as_sockaddr_in6()?.ip())))
    });
    let is_usable = |a: &IpAddr| !matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
    let addresses: Vec<IpAddr> = addresses.filter(is_usable).collect();
    listed(&addresses)
}

fn listed(all: &[IpAddr]) -> String {
    let all: BTreeSet<_> = all.iter().map(|a| (a.is_loopback(), *a)).collect();
    let mut shown: Vec<String> = all.iter().map(|(_, a)| a.to_string()).collect();
    if shown.is_empty() {
        return String::new();
    }
    let more = shown.len().saturating_sub(SHOWN_MAX);
    shown.truncate(SHOWN_MAX);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", which has {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_listed_once_and_loopback_is_last() {
        let all = ["127.0.0.1", "::1", "10.0.0.7", "fd00::2", "10.0.0.7"];
        let all = all.map(|a| a.parse().expect("an address"));
        let text = ", which has 10.0.0.7, fd00::2, 127.0.0.1, ::1";
        assert_eq!(listed(&all), text);
    }

    #[test]
    fn a_long_list_is_cut_and_an_empty_one_is_no_text() {
        let many = |n| IpAddr::from([10, 0, 0, n]);
        let all: Vec<IpAddr> = (1..=10).map(many).collect();
        let text = listed(&all);
        assert!(text.ends_with("10.0.0.8 and 2 more"), "{text}");
        assert_eq!(listed(&[]), "");
    }
}
