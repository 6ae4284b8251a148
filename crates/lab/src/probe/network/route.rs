//! The interface on the way to an address, from the kernel's routes.
//!
//! **Invariants**: the tables are parsed by pure functions; a missing or malformed one gives `None`, never a guess.

use super::result::Interface;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The interface with which this machine reaches `to`, if the kernel's tables tell. Rules beyond the main table are not known.
#[must_use]
pub fn interface(to: IpAddr) -> Option<Interface> {
    let name = match to {
        _ if to.is_loopback() => "lo".to_owned(),
        IpAddr::V4(to) => in_table_4(&fs::read_to_string("/proc/net/route").ok()?, to)?,
        IpAddr::V6(to) => in_table_6(&fs::read_to_string("/proc/net/ipv6_route").ok()?, to)?,
    };
    let value = |file: &str| {
        let text = fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    Some(Interface {
        mtu: value("mtu").and_then(|mtu| u32::try_from(mtu).ok()),
        // Interfaces without a speed say -1 or 0, or refuse to be read.
        speed_mbit: value("speed").filter(|speed| (1..=10_000_000).contains(speed)),
        name,
    })
}

/// The interface of the most specific route, then of the lowest metric.
fn in_table_4(table: &str, to: Ipv4Addr) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let f: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| {
            u32::from_str_radix(f.get(at)?, 16)
                .ok()
                .map(u32::swap_bytes)
        };
        let metric: u32 = f.get(6)?.parse().ok()?;
        let (net, mask) = (number(1)?, number(7)?);
        (u32::from(to) & mask == net)
            .then(|| (mask.count_ones(), metric, *f.first().expect("seen")))
    });
    most_specific(routes)
}

/// The same for IPv6.
fn in_table_6(table: &str, to: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let f: Vec<&str> = line.split_whitespace().collect();
        let net = u128::from_str_radix(f.first()?, 16).ok()?;
        let len = u32::from_str_radix(f.get(1)?, 16)
            .ok()
            .filter(|len| *len <= 128)?;
        let metric = u32::from_str_radix(f.get(5)?, 16).ok()?;
        let name = f.get(9).filter(|name| **name != "lo")?;
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        (u128::from(to) & mask == net).then_some((len, metric, *name))
    });
    most_specific(routes)
}

fn most_specific<'a>(routes: impl Iterator<Item = (u32, u32, &'a str)>) -> Option<String> {
    let best = routes.min_by_key(|(len, metric, _)| (u32::MAX - len, *metric));
    best.map(|(_, _, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t0100000A\t0003\t0\t0\t50\t00000000\t0\t0\t0
ib0\t0064A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    const TABLE_6: &str = "\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     ib0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003    eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200      lo
";

    #[test]
    fn the_most_specific_route_counts_then_the_lowest_metric() {
        let of = |text: &str| in_table_4(TABLE_4, text.parse().expect("an address"));
        assert_eq!(of("192.168.100.7").as_deref(), Some("ib0"));
        assert_eq!(of("192.168.101.7").as_deref(), Some("eth1"));
        let of = |text: &str| in_table_6(TABLE_6, text.parse().expect("an address"));
        assert_eq!(of("fd00::7").as_deref(), Some("ib0"));
        assert_eq!(of("2001:db8::1").as_deref(), Some("eth0"));
    }

    #[test]
    fn a_malformed_table_has_no_route() {
        for table in ["", "x", "a b c d e f g h\n1 2 3", "eth0 zz 00 0 0 0 0 zz"] {
            assert_eq!(in_table_4(table, Ipv4Addr::LOCALHOST), None);
            assert_eq!(in_table_6(table, Ipv6Addr::LOCALHOST), None);
        }
        let loopback = interface(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("known");
        assert_eq!((loopback.name.as_str(), loopback.speed_mbit), ("lo", None));
    }
}
