//! Netgroups of a file in the format of `/etc/netgroup` (netgroup(5)), also within each other.
//!
//! **Called by** the names of client rules. **Invariants**: only the hosts of triples count; groups that contain each other end.

use super::limits::NETGROUP_DEPTH_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Netgroups, and their members: hosts, and the names of other netgroups.
#[derive(Debug, Default)]
pub(super) struct Netgroups(BTreeMap<String, Vec<Member>>);

#[derive(Debug)]
enum Member {
    /// An empty name stands for every host.
    Host(String),
    Group(String),
}

impl Netgroups {
    /// Parses a file of lines `GROUP MEMBER …`; a member is a triple `(HOST,USER,DOMAIN)` or a group. A line that ends with `\`
    /// goes on in the next one. Members that are neither are left out.
    pub(super) fn parse(text: &str) -> Netgroups {
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
    pub(super) fn hosts<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
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
}
