//! IP addresses of this machine, for messages about an address that it does not have.
//!
//! **Owns** the reading of the kernel's tables. **Called by** [`crate::taken`]. **Invariants**: nothing
//! fails; a table that cannot be read has no addresses. Tables: proc(5), `/proc/net/fib_trie` and `/proc/net/if_inet6`.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most addresses in a message.
const SHOWN_MAX: usize = 8;

/// Bits of an IPv6 link-local prefix (fe80::/10).
const LINK_LOCAL: u16 = 0xfe80;

/// `, which has ADDRESS, ADDRESS`; empty if no address is known. Loopback addresses are last. IPv6 link-local addresses are left out:
/// `listen` needs a zone with them. Blocks for two files of the kernel.
pub(crate) fn for_people() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let v4 = ipv4(&read("/proc/net/fib_trie"));
    let v6 = ipv6(&read("/proc/net/if_inet6"));
    listed(&[v4, v6].concat())
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

/// The addresses of the machine in the routing table: leaves (`|-- ADDRESS`) that have a route `/32 host LOCAL`.
fn ipv4(table: &str) -> Vec<IpAddr> {
    let mut leaf = None;
    let mut found = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf.map(IpAddr::V4));
        }
    }
    found
}

/// The addresses of interfaces: 32 hexadecimal digits at the start of each line.
fn ipv6(table: &str) -> Vec<IpAddr> {
    let first = table.lines().filter_map(|l| l.split_whitespace().next());
    let bits = first.filter_map(|digits| u128::from_str_radix(digits, 16).ok());
    let addresses = bits.map(Ipv6Addr::from_bits);
    let is_usable = |a: &Ipv6Addr| a.segments()[0] & 0xffc0 != LINK_LOCAL;
    addresses.filter(is_usable).map(IpAddr::V6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB_TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
           |-- 10.0.0.7
              /32 host LOCAL
";
    const IF_INET6: &str = "\
fd000000000000000000000000000002 04 40 00 82     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
";

    #[test]
    fn addresses_of_the_kernels_tables_are_listed_once() {
        let all = [ipv4(FIB_TRIE), ipv4(FIB_TRIE), ipv6(IF_INET6)].concat();
        assert_eq!(
            listed(&all),
            ", which has 10.0.0.7, fd00::2, 127.0.0.1, ::1"
        );
    }

    #[test]
    fn a_long_list_is_cut_and_an_empty_one_is_no_text() {
        let many = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
        let all: Vec<IpAddr> = (1..=10).map(many).collect();
        let text = listed(&all);
        assert!(text.ends_with("10.0.0.8 and 2 more"), "{text}");
        assert_eq!(listed(&ipv6("no table")), "");
    }
}
