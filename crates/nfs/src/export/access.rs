//! Rules of hosts: which addresses may use an export, read-only or not, as whom, and over which connections.
//!
//! **Owns** [`Rule`] and the choice of the rule for an address ([`Access`]). **Called by** the exports. **Invariants**: a rule whose
//! addresses are unknown never lets an address fall through to a later rule with more rights (decision 0341).

use crate::rpc::Credential;
use backend::file::Caller;
use std::net::IpAddr;
use std::sync::Arc;

/// The user and group of callers without rights of their own, if nothing else is configured.
pub const NOBODY: u32 = 65_534;

/// A set of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Every address.
    Any,
    /// The addresses that have the first bits, this many, in common with this one. All bits: one host.
    Network(IpAddr, u8),
    /// Addresses that are unknown now: those of a name or netgroup that could not be resolved.
    Unresolved,
}

impl Hosts {
    /// Whether an address is in the set. IPv4 addresses are in no IPv6 network.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Hosts::Any, _) => true,
            (Hosts::Network(IpAddr::V4(network), bits), IpAddr::V4(address)) => {
                let differs = u32::from(*network) ^ u32::from(address);
                differs.leading_zeros() >= u32::from(*bits).min(32)
            }
            (Hosts::Network(IpAddr::V6(network), bits), IpAddr::V6(address)) => {
                let differs = u128::from(*network) ^ u128::from(address);
                differs.leading_zeros() >= u32::from(*bits).min(128)
            }
            (Hosts::Network(..) | Hosts::Unresolved, _) => false,
        }
    }
}

/// Which users become anonymous, from the least on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Squash {
    /// None.
    None,
    /// The superuser, and the group 0.
    Root,
    /// All.
    All,
}

/// How a connection is protected, from the least on (RFC 9289, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Security {
    /// Not at all.
    #[default]
    None,
    /// TLS.
    Tls,
    /// TLS, and the client has shown a certificate that the server trusts.
    MutualTls,
}

/// How a connection is protected, and who is at its other end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protection {
    /// How it is protected.
    pub security: Security,
    /// The identity in the certificate that the client has shown.
    pub identity: Option<Arc<[u8]>>,
}

impl Protection {
    /// Whether another connection is as protected as this one: with mutual TLS, by the same owner's certificate.
    #[must_use]
    pub fn is_met_by(&self, other: &Self) -> bool {
        other.security >= self.security
            && (self.security < Security::MutualTls || self.identity == other.identity)
    }
}

/// Rights of hosts at an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The hosts.
    pub hosts: Hosts,
    /// Whether they may only read.
    pub is_read_only: bool,
    /// Which of their users become anonymous.
    pub squash: Squash,
    /// User and group of anonymous callers.
    pub anonymous: (u32, u32),
    /// The least protection that their connections must have.
    pub security: Security,
    /// Whether their connections must come from a port below [`io::limits::PRIVILEGED_PORTS`], or show a certificate: `secure` of
    /// exports(5).
    pub needs_privileged_port: bool,
}

/// The rights of an address at an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access<'a> {
    /// The rights of this rule.
    Granted(&'a Rule),
    /// An unresolved rule may be the address's, and what follows it grants more, or nothing.
    Undecided,
    /// None.
    Denied,
}

impl Access<'_> {
    /// The rights of an address by these rules, of which the first one that fits applies.
    #[must_use]
    pub fn of(rules: &[Rule], address: IpAddr) -> Access<'_> {
        let found = rules.iter().position(|rule| rule.hosts.has(address));
        let before = &rules[..found.unwrap_or(rules.len())];
        let mut unresolved = before.iter().filter(|r| r.hosts == Hosts::Unresolved);
        match found.map(|at| &rules[at]) {
            Some(rule) if unresolved.all(|other| rule.is_within(other)) => Access::Granted(rule),
            None if unresolved.next().is_none() => Access::Denied,
            _ => Access::Undecided,
        }
    }
}

impl Rule {
    /// Whether the rule grants nothing that `other` does not grant.
    fn is_within(&self, other: &Rule) -> bool {
        self.is_read_only >= other.is_read_only
            && self.squash >= other.squash
            && self.anonymous == other.anonymous
            && self.security >= other.security
            && self.needs_privileged_port >= other.needs_privileged_port
    }

    /// Reading and writing, from any port, the superuser squashed.
    #[must_use]
    pub fn read_write(hosts: Hosts) -> Self {
        Self {
            hosts,
            is_read_only: false,
            squash: Squash::Root,
            anonymous: (NOBODY, NOBODY),
            security: Security::None,
            needs_privileged_port: false,
        }
    }

    /// The caller of a request.
    #[must_use]
    pub fn caller(&self, credential: &Credential) -> Caller {
        let (uid, gid) = self.anonymous;
        let sys = match (credential, self.squash) {
            (Credential::None, _) | (_, Squash::All) => return Caller::new(uid, gid, []),
            (Credential::Sys(sys), Squash::None) => {
                return Caller::new(sys.uid, sys.gid, &sys.groups[..]);
            }
            (Credential::Sys(sys), Squash::Root) => sys,
        };
        if sys.uid == 0 {
            return Caller::new(uid, gid, []);
        }
        let squashed = |group: u32| if group == 0 { gid } else { group };
        let groups: Vec<u32> = sys.groups.iter().map(|group| squashed(*group)).collect();
        Caller::new(sys.uid, squashed(sys.gid), groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::AuthSys;

    fn network(text: &str, bits: u8) -> Hosts {
        Hosts::Network(text.parse().unwrap(), bits)
    }

    #[test]
    fn networks_have_the_addresses_with_their_first_bits() {
        for (hosts, address, is_in) in [
            (Hosts::Any, "::1", true),
            (network("10.1.0.0", 16), "10.1.255.3", true),
            (network("10.1.0.0", 16), "10.2.0.0", false),
            (network("10.1.2.3", 32), "10.1.2.3", true),
            (network("10.1.2.3", 32), "10.1.2.2", false),
            (network("0.0.0.0", 0), "192.0.2.1", true),
            (network("::", 0), "192.0.2.1", false),
            (network("2001:db8::", 32), "2001:db8:1::5", true),
            (network("2001:db8::", 32), "2001:db9::5", false),
        ] {
            assert_eq!(hosts.has(address.parse().unwrap()), is_in, "{address}");
        }
    }

    /// Regression: a name that the resolver lost stood for no address, so that its host, which may only read, became a writer by a
    /// rule of its network.
    #[test]
    fn an_unresolved_rule_hides_later_rules_with_more_rights() {
        let address = "192.0.2.7".parse().unwrap();
        let read_only = |hosts| Rule {
            is_read_only: true,
            ..Rule::read_write(hosts)
        };
        let here = network("192.0.2.0", 24);
        let unresolved = [read_only(Hosts::Unresolved), Rule::read_write(here)];
        assert_eq!(Access::of(&unresolved, address), Access::Undecided);
        // A rule that grants no more is not held up by a name of others.
        for same in [
            [Rule::read_write(Hosts::Unresolved), read_only(here)],
            [read_only(Hosts::Unresolved), read_only(here)],
        ] {
            assert_eq!(Access::of(&same, address), Access::Granted(&same[1]));
        }
        let squashed = Rule {
            squash: Squash::None,
            ..Rule::read_write(here)
        };
        let wider = [Rule::read_write(Hosts::Unresolved), squashed];
        assert_eq!(Access::of(&wider, address), Access::Undecided);
        // A rule before it decides.
        let first = [Rule::read_write(here), read_only(Hosts::Unresolved)];
        assert_eq!(Access::of(&first, address), Access::Granted(&first[0]));
        let alone = [read_only(Hosts::Unresolved)];
        assert_eq!(Access::of(&alone, address), Access::Undecided);
        assert_eq!(Access::of(&[], address), Access::Denied);
    }

    fn caller(squash: Squash, uid: u32, gid: u32, groups: &[u32]) -> Caller {
        let mut rule = Rule::read_write(Hosts::Any);
        rule.squash = squash;
        rule.caller(&Credential::Sys(AuthSys {
            stamp: 0,
            machine: Vec::new(),
            uid,
            gid,
            groups: groups.to_vec(),
        }))
    }

    #[test]
    fn squashed_callers_have_no_rights_of_the_superuser() {
        let nobody = Caller::new(NOBODY, NOBODY, []);
        assert_eq!(caller(Squash::Root, 0, 0, &[0, 5]), nobody);
        let user = Caller::new(7, NOBODY, [NOBODY, 5]);
        assert_eq!(caller(Squash::Root, 7, 0, &[0, 5]), user);
        assert_eq!(caller(Squash::All, 7, 8, &[5]), nobody);
        assert_eq!(caller(Squash::None, 0, 0, &[5]), Caller::new(0, 0, [5]));
        let mut rule = Rule::read_write(Hosts::Any);
        rule.squash = Squash::None;
        assert_eq!(rule.caller(&Credential::None), nobody);
    }
}
