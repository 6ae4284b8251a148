//! Addresses of hosts and services: their canonical form, and their texts.
//!
//! **Owns** the rules for both. **Called by** sockets ([`super::TcpStream`], [`super::TcpListener`]), the listeners of the server, the
//! configuration, access rules and discovery. **Invariants** (decision 0344): an address that enters the process is canonical, so that
//! equal hosts compare as equal: an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2) is its IPv4 address, and a flow label is 0. An address
//! that is told to another machine has no zone, which only the machine itself understands (RFC 4007, 11.2). The name of a host does
//! not end with a number (WHATWG URL, 3.5), so that a mistyped address is an error and no name.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// Longest name of a host, bytes (RFC 1035, 2.3.4).
pub const HOST_NAME_LEN_MAX: usize = 253;
/// Longest label of a name, bytes (RFC 1035, 2.3.4).
const LABEL_LEN_MAX: usize = 63;
/// Bits before the IPv4 address in a mapped address.
const MAPPED_BITS: u8 = 96;

/// The canonical form of a socket's address.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), v6.port()),
            None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, zone_that_counts(&v6)).into(),
        },
    }
}

/// The zone of an address that needs one; 0 for others.
fn zone_that_counts(v6: &SocketAddrV6) -> u32 {
    match is_link_local(v6.ip()) {
        true => v6.scope_id(),
        false => 0,
    }
}

/// Whether a zone belongs to an address (RFC 4291, 2.5.6).
fn is_link_local(ip: &Ipv6Addr) -> bool {
    ip.is_unicast_link_local() || ip.is_multicast()
}

/// The address as another machine is told it: canonical, without a zone.
#[must_use]
pub fn told(address: SocketAddr) -> SocketAddr {
    let address = canonical(address);
    SocketAddr::new(address.ip(), address.port())
}

/// The address to tell a peer that came to `here`, of a service that listens on `listening`: `here` in place of every address. `None`
/// if the peer cannot reach it: the loopback interface, a link or a protocol that is not its own.
#[must_use]
pub fn reached_at(listening: SocketAddr, here: IpAddr) -> Option<SocketAddr> {
    let (listening, here) = (told(listening), here.to_canonical());
    let is_local = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    match listening.ip() {
        // A listener on [::] takes IPv4 too; one on 0.0.0.0 takes only IPv4.
        ip if ip.is_unspecified() => {
            (ip.is_ipv6() || here.is_ipv4()).then_some(SocketAddr::new(here, listening.port()))
        }
        ip if ip.is_loopback() => here.is_loopback().then_some(listening),
        ip if is_local(ip) => is_local(here).then_some(listening),
        // A peer that came to another address is on another machine, or can come to that one again.
        _ => Some(listening),
    }
}

/// The first `bits` of a network, canonical: a network of mapped addresses is one of IPv4 addresses.
#[must_use]
pub fn canonical_network(address: IpAddr, bits: u8) -> (IpAddr, u8) {
    match (address, address.to_canonical()) {
        (IpAddr::V6(_), v4 @ IpAddr::V4(_)) if bits >= MAPPED_BITS => (v4, bits - MAPPED_BITS),
        (address, _) => (address, bits),
    }
}

/// Why a text is no address, and no name either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// The end is a number, as in an address, but it is none.
    Numeric(String),
    /// This machine has no network interface of that name.
    NoZone(String),
    /// It has neither form.
    Malformed(String),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressError::Numeric(text) => write!(
                f,
                "{text:?} is no address: an IPv4 address has four numbers from 0 to 255 without leading zeroes (and no name of a host ends with a number)"
            ),
            AddressError::NoZone(zone) => {
                write!(f, "this machine has no network interface {zone:?}")
            }
            AddressError::Malformed(text) => write!(
                f,
                "expected an address and a port such as \"192.0.2.1:4420\" or \"[::]:4420\", found {text:?}"
            ),
        }
    }
}

impl std::error::Error for AddressError {}

/// Whether the last label of a name is a number, decimal or with `0x`, as inet_aton(3) reads them. Such a text is meant as an address.
#[must_use]
pub fn ends_with_number(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// Checks the name of a host. Underscores are allowed, as in names that are in use. Errors: `Numeric`, `Malformed`.
pub fn host_name(text: &str) -> Result<String, AddressError> {
    if ends_with_number(text) {
        return Err(AddressError::Numeric(text.to_owned()));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let is_label = |label: &str| {
        (1..=LABEL_LEN_MAX).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
    };
    let labels = text.strip_suffix('.').unwrap_or(text);
    match text.len() <= HOST_NAME_LEN_MAX && labels.split('.').all(is_label) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(AddressError::Malformed(text.to_owned())),
    }
}

/// The canonical address of `ADDRESS:PORT`, `[ADDRESS]:PORT` or `[ADDRESS%ZONE]:PORT`; the zone is the name or the number of a network
/// interface. Errors: see [`AddressError`].
pub fn socket_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(canonical(address));
    }
    let malformed = || AddressError::Malformed(text.to_owned());
    let zoned = text.strip_prefix('[').and_then(|t| t.split_once("]:"));
    let Some(((ip, zone), port)) = zoned.and_then(|(t, port)| Some((t.split_once('%')?, port)))
    else {
        let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
        return Err(
            match ends_with_number(host) && host.parse::<IpAddr>().is_err() {
                true if !host.contains(':') => AddressError::Numeric(host.to_owned()),
                _ => malformed(),
            },
        );
    };
    let (ip, port) = (ip.parse().ok(), port.parse().ok());
    let (ip, port) = ip.zip(port).ok_or_else(malformed)?;
    let index = crate::linux::interface_index(zone);
    let index = index.ok_or_else(|| AddressError::NoZone(zone.to_owned()))?;
    Ok(canonical(SocketAddrV6::new(ip, port, 0, index).into()))
}

/// Where a service is: an address, or the name of a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A canonical address.
    Address(SocketAddr),
    /// The name of a host in small letters, and a port.
    Name(String, u16),
}

impl Endpoint {
    /// The name of the host; `None` for an address.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        match self {
            Endpoint::Name(name, _) => Some(name),
            Endpoint::Address(_) => None,
        }
    }
}

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Endpoint, AddressError> {
        let error = match socket_address(text) {
            Ok(address) => return Ok(Endpoint::Address(address)),
            Err(e @ AddressError::Malformed(_)) => e,
            Err(e) => return Err(e),
        };
        let named = text
            .rsplit_once(':')
            .filter(|(host, _)| !host.contains(':'));
        let Some((host, port)) = named else {
            return Err(error);
        };
        let (Ok(name), Ok(port @ 1..)) = (host_name(host), port.parse::<u16>()) else {
            return Err(error);
        };
        Ok(Endpoint::Name(name, port))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Address(address) => address.fmt(f),
            Endpoint::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint::Address(canonical(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addresses() -> impl Strategy<Value = SocketAddr> {
        let mapped = any::<u32>().prop_map(|v4| 0xffff_0000_0000 | u128::from(v4));
        let local = any::<u64>().prop_map(|low| 0xfe80 << 112 | u128::from(low));
        let ip = prop_oneof![mapped, local, any::<u128>()];
        (ip, any::<u16>(), any::<u32>(), any::<u32>()).prop_map(|(ip, port, flow, zone)| {
            SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, zone).into()
        })
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_its_own(address in addresses()) {
            let once = canonical(address);
            prop_assert_eq!(canonical(once), once);
            prop_assert_eq!(once.ip(), address.ip().to_canonical());
            prop_assert_eq!(told(told(address)), told(address));
            let text = once.to_string();
            if !text.contains('%') {
                prop_assert_eq!(socket_address(&text), Ok(once));
            }
        }

        #[test]
        fn a_told_address_has_no_zone(address in addresses(), here in addresses()) {
            let shown = reached_at(address, here.ip()).map(|a| a.to_string());
            prop_assert!(shown.is_none_or(|s| !s.contains('%') && !s.contains("::ffff:")));
        }
    }

    /// Regression: discovery over IPv4 at a listener on `[::]` told portals such as `[::ffff:10.0.0.1]:3260`, and initiators got the
    /// server's zone of link-local ones, which names another interface at their side or none.
    #[test]
    fn portals_are_told_as_the_peer_reaches_them() {
        let all = [
            ("127.0.0.1:4420", "10.0.0.1", None),
            ("127.0.0.1:4420", "127.0.0.1", Some("127.0.0.1:4420")),
            ("127.0.0.1:4420", "::1", Some("127.0.0.1:4420")),
            ("127.0.0.1:4420", "::ffff:127.0.0.1", Some("127.0.0.1:4420")),
            ("[::1]:4420", "fd00::1", None),
            ("10.0.0.1:4420", "127.0.0.1", Some("10.0.0.1:4420")),
            ("0.0.0.0:4420", "10.0.0.1", Some("10.0.0.1:4420")),
            ("0.0.0.0:4420", "fd00::1", None),
            ("[::]:3260", "::ffff:10.0.0.1", Some("10.0.0.1:3260")),
            ("[::]:3260", "fd00::1", Some("[fd00::1]:3260")),
            ("[::]:3260", "fe80::2", Some("[fe80::2]:3260")),
            ("[fe80::2%7]:3260", "fe80::2", Some("[fe80::2]:3260")),
            ("[fe80::2%7]:3260", "10.0.0.1", None),
            ("[::ffff:10.0.0.1]:3260", "10.0.0.9", Some("10.0.0.1:3260")),
        ];
        for (listening, here, expected) in all {
            let at = reached_at(listening.parse().unwrap(), here.parse().unwrap());
            let shown = at.map(|a| a.to_string());
            assert_eq!(shown.as_deref(), expected, "{listening} at {here}");
        }
    }

    /// Regression: `127.1`, `010.0.0.1` and `10.0.0.256` became names of hosts, which a resolver may take for other addresses.
    #[test]
    fn mistyped_addresses_are_no_names() {
        for text in [
            "127.1",
            "192.168.1",
            "010.0.0.1",
            "10.0.0.256",
            "1",
            "0x7f.1",
            "a.0x1f",
            "10.0.0.1.",
        ] {
            assert_eq!(host_name(text), Err(AddressError::Numeric(text.into())));
            let endpoint = format!("{text}:4420").parse::<Endpoint>();
            assert_eq!(endpoint, Err(AddressError::Numeric(text.into())));
        }
        for text in ["", "-x", "a..b", "a b", "[::1]", &"x".repeat(64)] {
            assert!(
                matches!(host_name(text), Err(AddressError::Malformed(_))),
                "{text}"
            );
        }
        for text in [
            "storage",
            "Storage.Example.org",
            "10g.example",
            "a_b.local",
            "3com",
            "x.y.",
        ] {
            assert_eq!(host_name(text), Ok(text.to_ascii_lowercase()), "{text}");
        }
    }

    /// Regression: the name of an interface was not understood, so that a configuration depended on the order of interfaces.
    #[test]
    fn zones_have_names_and_numbers() {
        let lo = crate::linux::interface_index("lo").expect("every machine has it");
        for text in [
            "[fe80::1%lo]:4420".to_owned(),
            format!("[fe80::1%{lo}]:4420"),
        ] {
            let address = socket_address(&text).expect("an address");
            assert_eq!(address.to_string(), format!("[fe80::1%{lo}]:4420"));
            assert_eq!(told(address).to_string(), "[fe80::1]:4420");
        }
        let none = socket_address("[fe80::1%no-such0]:4420");
        assert_eq!(none, Err(AddressError::NoZone("no-such0".into())));
        for text in [
            "[fe80::1%lo]",
            "[10.0.0.1%lo]:1",
            "[::1%lo]:x",
            "4420",
            ":4420",
            "::1:4420",
        ] {
            let refused = text.parse::<Endpoint>();
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }

    #[test]
    fn endpoints_keep_their_text() {
        for (text, shown) in [
            ("[::ffff:192.0.2.1]:4420", "192.0.2.1:4420"),
            ("Storage.example:3260", "storage.example:3260"),
            ("[2001:DB8::1]:1", "[2001:db8::1]:1"),
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(shown.parse(), Ok(endpoint));
        }
        assert!("storage.example:0".parse::<Endpoint>().is_err());
    }

    #[test]
    fn a_mapped_network_is_one_of_ipv4() {
        let network = |ip: &str, bits| canonical_network(ip.parse().unwrap(), bits);
        assert_eq!(network("::ffff:10.0.0.0", 104), ([10, 0, 0, 0].into(), 8));
        assert_eq!(network("::ffff:0:0", 96), ([0; 4].into(), 0));
        assert_eq!(network("::ffff:10.0.0.1", 128), ([10, 0, 0, 1].into(), 32));
        assert_eq!(network("::", 0), ([0u8; 16].into(), 0));
        assert_eq!(network("10.0.0.0", 8), ([10, 0, 0, 0].into(), 8));
    }
}
