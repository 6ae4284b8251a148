//! Client rules of exports: `10.0.0.0/24:rw`, `@lab:ro,squash=all`.
//!
//! **Owns** [`ClientRule`] and its text form. **Called by** the configuration and by live changes. **Invariants**: the text of a
//! rule is canonical, and parses to the same rule.

use io::net::address::{HOST_NAME_LEN_MAX, canonical_network, host_name};
use nfs::export::{NOBODY, Security, Squash};
use std::fmt;
use std::net::IpAddr;

/// The clients of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clients {
    /// Every address.
    Any,
    /// The addresses that have the first bits, this many, in common with this one.
    Network(IpAddr, u8),
    /// The host of this name, by the system's resolver.
    Host(String),
    /// The hosts of this netgroup.
    Netgroup(String),
}

/// The rights of some clients at an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRule {
    /// The clients.
    pub clients: Clients,
    /// They may only read.
    pub read_only: bool,
    /// The users that become anonymous.
    pub squash: Squash,
    /// The user of anonymous callers.
    pub anonuid: u32,
    /// Their group.
    pub anongid: u32,
    /// The least protection that their connections must have.
    pub security: Security,
    /// Whether their connections must come from a privileged port, or show a certificate.
    pub needs_privileged_port: bool,
}

/// A word of `xprtsec`, as exports(5) has them. `None` for another one.
pub(super) fn security(word: &str) -> Option<Security> {
    let all = [Security::None, Security::Tls, Security::MutualTls];
    all.into_iter().find(|s| security_word(*s) == word)
}

/// The word for a protection.
pub(super) fn security_word(security: Security) -> &'static str {
    match security {
        Security::None => "none",
        Security::Tls => "tls",
        Security::MutualTls => "mtls",
    }
}

/// Highest bit count of a network.
fn bits_max(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// An address with the bits behind the first ones cleared.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u32::from(v4) & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::from((u128::from(v6) & mask).to_be_bytes())
        }
    }
}

/// Whether a text may name a host, a netgroup or a domain.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    first && text.len() <= HOST_NAME_LEN_MAX && text.chars().all(plain)
}

impl Clients {
    /// Parses `*`, an address, a network, the name of a host, or `@` and the name of a netgroup. Errors: the reason.
    pub(super) fn parse(text: &str) -> Result<Clients, String> {
        if matches!(text, "*" | "any") {
            return Ok(Clients::Any);
        }
        if let Some(group) = text.strip_prefix('@') {
            return match is_name(group) {
                true => Ok(Clients::Netgroup(group.to_owned())),
                false => Err(format!("{group:?} names no netgroup")),
            };
        }
        let plain = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        let text = plain.unwrap_or(text);
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        match (address.parse::<IpAddr>(), bits) {
            (Ok(address), None) => {
                let address = address.to_canonical();
                Ok(Clients::Network(address, bits_max(address)))
            }
            (Ok(address), Some(bits)) => match bits.parse::<u8>() {
                Ok(bits) if bits <= bits_max(address) => {
                    let (address, bits) = canonical_network(address, bits);
                    Ok(Clients::Network(masked(address, bits), bits))
                }
                _ => Err(format!(
                    "{bits:?} is no number of bits from 0 to {}",
                    bits_max(address)
                )),
            },
            (Err(_), _) if address.contains('%') => Err(format!(
                "{text:?}: the rule of a client has no zone (the part from % on)"
            )),
            (Err(_), None) if is_name(text) => host_name(text)
                .map(Clients::Host)
                .map_err(|e| e.to_string()),
            _ => Err(format!(
                "expected an address, a network such as 10.0.0.0/24, the name of a host, @NETGROUP or *, found {text:?}"
            )),
        }
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clients::Any => f.write_str("*"),
            Clients::Network(address, bits) if *bits == bits_max(*address) => {
                write!(f, "{address}")
            }
            Clients::Network(address, bits) => write!(f, "{address}/{bits}"),
            Clients::Host(name) => f.write_str(name),
            Clients::Netgroup(name) => write!(f, "@{name}"),
        }
    }
}

impl ClientRule {
    /// Parses `CLIENTS[:OPTIONS]`: options `ro` (the default), `rw`, `squash=none`, `squash=root` (the default), `squash=all`,
    /// `anonuid=N`, `anongid=N`, `xprtsec=none` (the default), `xprtsec=tls`, `xprtsec=mtls`, `secure` (the default, decision 0327) and
    /// `insecure`, separated by commas. Errors: the reason.
    pub(super) fn parse(text: &str) -> Result<ClientRule, String> {
        // IPv6 addresses have colons.
        if let Ok(clients) = Clients::parse(text) {
            return Ok(ClientRule::new(clients));
        }
        let Some((clients, options)) = text.rsplit_once(':') else {
            return Clients::parse(text).map(ClientRule::new);
        };
        let mut rule = ClientRule::new(Clients::parse(clients)?);
        for option in options.split(',') {
            rule.set(option)?;
        }
        Ok(rule)
    }

    /// The rule with the default options.
    pub(super) fn new(clients: Clients) -> ClientRule {
        ClientRule {
            clients,
            read_only: true,
            squash: Squash::Root,
            anonuid: NOBODY,
            anongid: NOBODY,
            security: Security::None,
            needs_privileged_port: true,
        }
    }

    /// Sets an option. Errors: the reason.
    pub(super) fn set(&mut self, option: &str) -> Result<(), String> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|n| *n < u32::MAX);
            number.ok_or_else(|| format!("{text:?} is no number of a user or group"))
        };
        match option.split_once('=') {
            None if option == "ro" => self.read_only = true,
            None if option == "rw" => self.read_only = false,
            None if option == "secure" => self.needs_privileged_port = true,
            None if option == "insecure" => self.needs_privileged_port = false,
            Some(("squash", "none")) => self.squash = Squash::None,
            Some(("squash", "root")) => self.squash = Squash::Root,
            Some(("squash", "all")) => self.squash = Squash::All,
            Some(("anonuid", text)) => self.anonuid = number(text)?,
            Some(("anongid", text)) => self.anongid = number(text)?,
            Some(("xprtsec", word)) => {
                self.security = security(word)
                    .ok_or_else(|| format!("expected xprtsec=none, tls or mtls, found {word:?}"))?;
            }
            _ => {
                return Err(format!(
                    "expected ro, rw, squash=none, squash=root, squash=all, anonuid=N, anongid=N, xprtsec=tls, xprtsec=mtls, secure or insecure, found {option:?}"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for ClientRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.read_only { "ro" } else { "rw" };
        write!(f, "{}:{word}", self.clients)?;
        match self.squash {
            Squash::None => f.write_str(",squash=none")?,
            Squash::Root => {}
            Squash::All => f.write_str(",squash=all")?,
        }
        for (key, number) in [("anonuid", self.anonuid), ("anongid", self.anongid)] {
            if number != NOBODY {
                write!(f, ",{key}={number}")?;
            }
        }
        if self.security != Security::None {
            write!(f, ",xprtsec={}", security_word(self.security))?;
        }
        match self.needs_privileged_port {
            true => Ok(()),
            false => f.write_str(",insecure"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_rules_are_canonical() {
        for (text, shown) in [
            ("*", "*:ro"),
            ("any:rw", "*:rw"),
            ("10.0.0.7/24:rw", "10.0.0.0/24:rw"),
            // Regression: clients have IPv4 addresses, so that a rule with the mapped network never fit one.
            ("::ffff:10.1.2.3/104:rw", "10.0.0.0/8:rw"),
            ("::ffff:0:0/96", "0.0.0.0/0:ro"),
            ("[::ffff:192.0.2.1]:rw", "192.0.2.1:rw"),
            ("::/0", "::/0:ro"),
            ("0.0.0.0/0", "0.0.0.0/0:ro"),
            ("192.0.2.1:rw,squash=none", "192.0.2.1:rw,squash=none"),
            ("2001:db8::7/32:rw", "2001:db8::/32:rw"),
            ("[2001:db8::1]:rw", "2001:db8::1:rw"),
            ("2001:db8::1", "2001:db8::1:ro"),
            ("@lab:ro,squash=root", "@lab:ro"),
            ("*:xprtsec=tls", "*:ro,xprtsec=tls"),
            ("@lab:rw,xprtsec=mtls", "@lab:rw,xprtsec=mtls"),
            ("@lab:rw,xprtsec=none", "@lab:rw"),
            ("*:insecure", "*:ro,insecure"),
            ("*:rw,insecure,secure", "*:rw"),
            ("*:rw,insecure,xprtsec=tls", "*:rw,xprtsec=tls,insecure"),
            (
                "Client.example.org:rw,squash=all,anonuid=5,anongid=0",
                "client.example.org:rw,squash=all,anonuid=5,anongid=0",
            ),
        ] {
            let rule = ClientRule::parse(text).expect(text);
            assert_eq!(rule.to_string(), shown);
            assert_eq!(ClientRule::parse(shown), Ok(rule), "{shown}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("", "expected an address"),
            ("10.0.0.0/33", "no number of bits"),
            // Regression: a mistyped address became the name of a host.
            ("127.1:rw", "is no address"),
            ("192.168.1", "is no address"),
            ("010.0.0.1:ro", "is no address"),
            ("10.0.0.256:rw", "is no address"),
            ("fe80::1%eth0:rw", "has no zone"),
            ("10.0.0.0/24:rww", "expected ro, rw"),
            ("*:anonuid=4294967295", "no number of a user"),
            ("@", "names no netgroup"),
            ("*:xprtsec=tls:mtls", "expected an address"),
            ("*:xprtsec=ssl", "expected xprtsec=none"),
            ("a b", "expected an address"),
            ("-x", "expected an address"),
        ] {
            let refused = ClientRule::parse(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
