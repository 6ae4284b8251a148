//! From client rules to addresses: names of hosts and netgroups.
//!
//! **Called by** the protocol. **Invariants**: the most specific rule that fits an address comes first: a host before a network, a
//! smaller network before a larger one, `*` last; among equals, a rule with addresses before one with a netgroup. A name without an
//! answer has the place of a host and no address ([`Hosts::Unresolved`], decision 0341); a name that does not exist stands for no
//! address, and the others are not affected.

use super::limits::ADDRESSES_MAX;
use super::names::{Names, Unknown};
use super::rule::{ClientRule, Clients};
use nfs::export::{Hosts, Rule};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The rules by address, the most specific one first, by the last answers about names.
pub(super) fn resolve(rules: &[ClientRule], names: &Names) -> Vec<Rule> {
    resolve_with(rules, &|name| names.addresses(name), &|group| {
        names.hosts(group)
    })
}

/// The answers about hosts, and about netgroups.
type Addresses<'a> = &'a dyn Fn(&str) -> Result<Vec<IpAddr>, Unknown>;
type Members<'a> = &'a dyn Fn(&str) -> Result<BTreeSet<String>, Unknown>;

/// The hosts of one name.
fn hosts_of(name: &str, addresses: Addresses<'_>) -> Vec<Hosts> {
    let host = |address: IpAddr| {
        let address = address.to_canonical();
        Hosts::Network(address, if address.is_ipv4() { 32 } else { 128 })
    };
    match addresses(name) {
        Ok(found) => found.into_iter().map(host).collect(),
        Err(Unknown) => vec![Hosts::Unresolved],
    }
}

fn resolve_with(rules: &[ClientRule], addresses: Addresses<'_>, members: Members<'_>) -> Vec<Rule> {
    let mut found: Vec<(u8, bool, Rule)> = Vec::new();
    for rule in rules {
        let with = |hosts| Rule {
            hosts,
            is_read_only: rule.read_only,
            squash: rule.squash,
            anonymous: (rule.anonuid, rule.anongid),
            security: rule.security,
            needs_privileged_port: rule.needs_privileged_port,
        };
        let hosts: Vec<Hosts> = match &rule.clients {
            Clients::Any => vec![Hosts::Any],
            Clients::Network(address, bits) => vec![Hosts::Network(*address, *bits)],
            Clients::Host(name) => hosts_of(name, addresses),
            Clients::Netgroup(name) => match members(name) {
                Ok(names) => {
                    let any = names.contains("").then_some(Hosts::Any);
                    let named = names.iter().filter(|name| !name.is_empty());
                    let named = named.flat_map(|name| hosts_of(name, addresses));
                    any.into_iter().chain(named).collect()
                }
                Err(Unknown) => vec![Hosts::Unresolved],
            },
        };
        let is_group = matches!(rule.clients, Clients::Netgroup(_));
        for hosts in hosts {
            if found.len() == ADDRESSES_MAX {
                tracing::warn!(%rule, "an NFS export has too many addresses: the rest is left out");
                break;
            }
            found.push((generality(hosts), is_group, with(hosts)));
        }
    }
    found.sort_by_key(|(generality, is_group, _)| (*generality, *is_group));
    found.into_iter().map(|(_, _, rule)| rule).collect()
}

/// The number of bits that are not fixed; the highest one for every address.
fn generality(hosts: Hosts) -> u8 {
    match hosts {
        Hosts::Any => u8::MAX,
        // It may be a host.
        Hosts::Unresolved => 0,
        Hosts::Network(IpAddr::V4(_), bits) => 32 - bits.min(32),
        Hosts::Network(IpAddr::V6(_), bits) => 128 - bits.min(128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(name: &str) -> Result<Vec<IpAddr>, Unknown> {
        let last = match name {
            "one.example.org" => 1,
            "two" => 2,
            "three" => 3,
            "unknown" => return Err(Unknown),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![IpAddr::from([192, 0, 2, last])])
    }

    fn members(group: &str) -> Result<BTreeSet<String>, Unknown> {
        let names: &[&str] = match group {
            "lab" => &["one.example.org", "three", "two"],
            "all" => &[""],
            _ => return Err(Unknown),
        };
        Ok(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn resolved(rules: &[&str]) -> Vec<(Hosts, bool)> {
        let rules: Vec<_> = rules
            .iter()
            .map(|text| ClientRule::parse(text).expect(text))
            .collect();
        let found = resolve_with(&rules, &addresses, &members);
        found.iter().map(|r| (r.hosts, r.is_read_only)).collect()
    }

    fn host(last: u8) -> Hosts {
        Hosts::Network([192, 0, 2, last].into(), 32)
    }

    #[test]
    fn the_most_specific_rule_comes_first() {
        let rules = ["*:ro", "192.0.2.0/24:rw", "@lab:ro", "two:rw", "gone:rw"];
        let network = Hosts::Network([192, 0, 2, 0].into(), 24);
        assert_eq!(
            resolved(&rules),
            [
                (host(2), false),
                (host(1), true),
                (host(3), true),
                (host(2), true),
                (network, false),
                (Hosts::Any, true),
            ]
        );
        assert_eq!(resolved(&["@all:rw"]), [(Hosts::Any, false)]);
    }

    #[test]
    fn a_name_without_an_answer_has_the_place_of_a_host() {
        let network = (Hosts::Network([192, 0, 2, 0].into(), 24), false);
        let unknown = (Hosts::Unresolved, true);
        for name in ["unknown:ro", "@unreadable:ro"] {
            assert_eq!(resolved(&["192.0.2.0/24:rw", name]), [unknown, network]);
        }
    }
}
