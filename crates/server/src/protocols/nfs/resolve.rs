//! From client rules to addresses: names of hosts and netgroups.
//!
//! **Called by** the protocol, on helper threads: name services block. **Invariants**: the most specific rule that fits an address
//! comes first: a host before a network, a smaller network before a larger one, `*` last; among equals, a rule with addresses
//! before one with a netgroup. A name that cannot be resolved stands for no address, and the others are not affected.
//!
//! Netgroups are those of a file in the format of `/etc/netgroup` (netgroup(5)), also within each other. Only the hosts of their
//! triples count.

use super::limits::{ADDRESSES_MAX, NETGROUP_DEPTH_MAX, NETGROUP_FILE_LEN_MAX};
use super::rule::{ClientRule, Clients};
use nfs::export::{Hosts, Rule};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

/// The addresses of a host.
type Lookup<'a> = &'a dyn Fn(&str) -> Vec<IpAddr>;

/// The rules by address, the most specific one first. `netgroups` is the file with netgroups. Blocks.
pub(super) fn resolve(rules: &[ClientRule], netgroups: &Path) -> Vec<Rule> {
    let has_groups = |rule: &ClientRule| matches!(rule.clients, Clients::Netgroup(_));
    let groups = match rules.iter().any(has_groups) {
        true => netgroups_of(netgroups),
        false => Netgroups::default(),
    };
    resolve_with(rules, &groups, &addresses_of)
}

/// The addresses that the system's resolver has for a name. Blocks.
fn addresses_of(name: &str) -> Vec<IpAddr> {
    match (name, 0).to_socket_addrs() {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(e) => {
            tracing::warn!(name, error = %e, "a client of an NFS export has no address");
            Vec::new()
        }
    }
}

fn netgroups_of(path: &Path) -> Netgroups {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(NETGROUP_FILE_LEN_MAX).read_to_string(&mut text));
    if let Err(e) = read {
        tracing::warn!(file = %path.display(), error = %e, "netgroups of NFS exports cannot be read");
    }
    Netgroups::parse(&text)
}

fn resolve_with(rules: &[ClientRule], groups: &Netgroups, lookup: Lookup<'_>) -> Vec<Rule> {
    let mut found: Vec<(u8, bool, Rule)> = Vec::new();
    for rule in rules {
        let with = |hosts| Rule {
            hosts,
            is_read_only: rule.read_only,
            squash: rule.squash,
            anonymous: (rule.anonuid, rule.anongid),
            security: rule.security,
        };
        let host = |address: IpAddr| {
            let address = address.to_canonical();
            Hosts::Network(address, if address.is_ipv4() { 32 } else { 128 })
        };
        let hosts: Vec<Hosts> = match &rule.clients {
            Clients::Any => vec![Hosts::Any],
            Clients::Network(address, bits) => vec![Hosts::Network(*address, *bits)],
            Clients::Host(name) => lookup(name).into_iter().map(host).collect(),
            Clients::Netgroup(name) => {
                let names = groups.hosts(name);
                let any = names.contains("").then_some(Hosts::Any);
                let named = names.iter().filter(|name| !name.is_empty());
                let named = named.flat_map(|name| lookup(name)).map(host);
                any.into_iter().chain(named).collect()
            }
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
        Hosts::Network(IpAddr::V4(_), bits) => 32 - bits.min(32),
        Hosts::Network(IpAddr::V6(_), bits) => 128 - bits.min(128),
    }
}

/// Netgroups, and their members: hosts, and the names of other netgroups.
#[derive(Debug, Default)]
struct Netgroups(BTreeMap<String, Vec<Member>>);

#[derive(Debug)]
enum Member {
    /// An empty name stands for every host.
    Host(String),
    Group(String),
}

impl Netgroups {
    /// Parses a file of lines `GROUP MEMBER …`; a member is a triple `(HOST,USER,DOMAIN)` or a group. A line that ends with `\`
    /// goes on in the next one. Members that are neither are left out.
    fn parse(text: &str) -> Netgroups {
        let mut groups: BTreeMap<String, Vec<Member>> = BTreeMap::new();
        let joined = text.replace("\\\n", " ");
        for line in joined.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some((name, mut rest)) = line.split_once(char::is_whitespace) else {
                continue;
            };
            let members = groups.entry(name.to_owned()).or_default();
            loop {
                rest = rest.trim_start();
                if let Some(triple) = rest.strip_prefix('(') {
                    let Some((triple, after)) = triple.split_once(')') else {
                        break;
                    };
                    let host = triple.split(',').next().unwrap_or_default().trim();
                    // `-` stands for no host.
                    if host != "-" {
                        members.push(Member::Host(host.to_owned()));
                    }
                    rest = after;
                } else {
                    let end = rest.find(|c: char| c.is_whitespace() || c == '(');
                    let (group, after) = rest.split_at(end.unwrap_or(rest.len()));
                    if group.is_empty() {
                        break;
                    }
                    members.push(Member::Group(group.to_owned()));
                    rest = after;
                }
            }
        }
        Netgroups(groups)
    }

    /// The hosts of a group and of the groups in it.
    fn hosts<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let mut hosts = BTreeSet::new();
        let mut seen = BTreeSet::new();
        self.add_hosts(name, NETGROUP_DEPTH_MAX, &mut seen, &mut hosts);
        hosts
    }

    fn add_hosts<'a>(
        &'a self,
        name: &'a str,
        depth: usize,
        seen: &mut BTreeSet<&'a str>,
        hosts: &mut BTreeSet<&'a str>,
    ) {
        if depth == 0 || !seen.insert(name) {
            return;
        }
        for member in self.0.get(name).into_iter().flatten() {
            match member {
                Member::Host(host) => drop(hosts.insert(host)),
                Member::Group(group) => self.add_hosts(group, depth - 1, seen, hosts),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# the machines of the lab
lab (one.example.org,,) (two,-,example.org) \\
    old
old (three,,)(-,nobody,) lab   # they contain each other
all (,,)
broken (four
";

    fn lookup(name: &str) -> Vec<IpAddr> {
        let last = match name {
            "one.example.org" => 1,
            "two" => 2,
            "three" => 3,
            _ => return Vec::new(),
        };
        vec![IpAddr::from([192, 0, 2, last])]
    }

    fn resolved(rules: &[&str]) -> Vec<(Hosts, bool)> {
        let rules: Vec<_> = rules
            .iter()
            .map(|text| ClientRule::parse(text).expect(text))
            .collect();
        let found = resolve_with(&rules, &Netgroups::parse(FILE), &lookup);
        found.iter().map(|r| (r.hosts, r.is_read_only)).collect()
    }

    fn host(last: u8) -> Hosts {
        Hosts::Network([192, 0, 2, last].into(), 32)
    }

    #[test]
    fn netgroups_have_the_hosts_of_their_triples() {
        let groups = Netgroups::parse(FILE);
        let hosts = |name| groups.hosts(name).into_iter().collect::<Vec<_>>();
        assert_eq!(hosts("lab"), ["one.example.org", "three", "two"]);
        assert_eq!(hosts("old"), hosts("lab"));
        assert_eq!(hosts("all"), [""]);
        assert_eq!(hosts("broken"), [""; 0]);
        assert_eq!(hosts("missing"), [""; 0]);
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
}
