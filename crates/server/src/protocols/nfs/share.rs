//! Exports by the property `sharenfs` of filesystems.
//!
//! **Owns** the meaning of the property's text, and [`Shares`]: the exports that it makes. **Called by** the protocol.
//! **Invariants**: an export of the configuration counts, not the property of its filesystem; an export by the property has the
//! path of the filesystem's name. The words are those of zfsprops(7) and exports(5), for the options that exist here.

use super::config::{ClientRule, Clients, ExportConfig, Settings, default_path};
use super::limits::CLIENTS_MAX;
use crate::protocols::protocol::{ShareChange, SharedFilesystem};
use std::collections::{BTreeMap, BTreeSet};

/// Options that change nothing here: the behaviour that they ask for is the only one.
const WITHOUT_EFFECT: [&str; 8] = [
    "sec=sys",
    "sync",
    "no_subtree_check",
    "crossmnt",
    "nohide",
    "wdelay",
    "no_wdelay",
    "no_all_squash",
];

/// The clients that a text of the property stands for; none for `off`. Errors: the reason.
pub(super) fn parse(text: &str) -> Result<Option<Vec<ClientRule>>, String> {
    match text {
        "off" => return Ok(None),
        "on" => return Ok(Some(vec![writes(Clients::Any)])),
        _ => {}
    }
    let mut clients: Vec<(Clients, bool)> = Vec::new();
    let mut options = Vec::new();
    for option in text.split(',') {
        match option.split_once('=') {
            None if matches!(option, "ro" | "rw") => clients.push((Clients::Any, option == "ro")),
            Some((word @ ("ro" | "rw"), hosts)) => {
                for host in split_hosts(hosts) {
                    clients.push((parse_host(host)?, word == "ro"));
                }
            }
            _ if WITHOUT_EFFECT.contains(&option) => {}
            _ => options.push(option),
        }
    }
    if clients.is_empty() {
        clients.push((Clients::Any, false));
    }
    if clients.len() > CLIENTS_MAX {
        return Err(format!("more than {CLIENTS_MAX} clients"));
    }
    let mut rules: Vec<ClientRule> = Vec::new();
    for (clients, is_read_only) in clients {
        if rules.iter().any(|rule| rule.clients == clients) {
            return Err(format!("{clients} is there twice"));
        }
        let mut rule = writes(clients);
        rule.read_only = is_read_only;
        options
            .iter()
            .try_for_each(|option| set(&mut rule, option))?;
        rules.push(rule);
    }
    Ok(Some(rules))
}

/// The rule for clients that may write, with the other defaults.
fn writes(clients: Clients) -> ClientRule {
    let mut rule = ClientRule::new(clients);
    rule.read_only = false;
    rule
}

fn set(rule: &mut ClientRule, option: &str) -> Result<(), String> {
    let option = match option {
        "root_squash" => "squash=root",
        "no_root_squash" => "squash=none",
        "all_squash" => "squash=all",
        other => other,
    };
    rule.set(option).map_err(|_| {
        format!(
            "expected on, off, or options such as rw=@10.0.0.0/24:client.example.org, ro=@lab, root_squash, no_root_squash, \
             all_squash, insecure, anonuid=N and anongid=N, found {option:?}"
        )
    })
}

/// The parts of a list that `:` separates. IPv6 addresses are in brackets.
fn split_hosts(list: &str) -> Vec<&str> {
    let mut hosts = Vec::new();
    let (mut from, mut is_inside) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            ':' if !is_inside => {
                hosts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    hosts.push(&list[from..]);
    hosts
}

/// The clients of a part: `@` stands before a network as in zfsprops(7), and before a netgroup as in exports(5).
fn parse_host(text: &str) -> Result<Clients, String> {
    let plain = text.replace(['[', ']'], "");
    let network = plain.strip_prefix('@').unwrap_or(&plain);
    match Clients::parse(network) {
        Ok(found @ Clients::Network(..)) => Ok(found),
        _ => Clients::parse(&plain),
    }
}

/// The export that a property makes.
#[derive(Debug, Clone)]
pub(super) struct Share {
    /// The filesystem or pool whose value it is.
    pub(super) source: String,
    /// The export, or the reason why there is none.
    pub(super) export: Result<ExportConfig, String>,
}

/// The exports by property, and the properties that are not used.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By filesystem.
    pub(super) exports: BTreeMap<String, Share>,
    /// Filesystems whose property is not used because the configuration exports them, and the sources of the values.
    pub(super) unused: BTreeMap<String, String>,
}

impl Shares {
    /// The exports of these filesystems. Of filesystems that are not open, those in `old` stay.
    pub(super) fn new(
        settings: &Settings,
        shared: Vec<SharedFilesystem>,
        old: &Shares,
        is_open: &dyn Fn(&str) -> bool,
    ) -> Shares {
        let mut new = Shares::default();
        for SharedFilesystem {
            filesystem,
            text,
            source,
        } in shared
        {
            let parsed = match parse(&text) {
                Ok(None) => continue,
                Ok(Some(clients)) => Ok(clients),
                Err(reason) => Err(format!("sharenfs of {source}: {reason}")),
            };
            if settings.export_of(&filesystem).is_some() {
                new.unused.insert(filesystem, source);
                continue;
            }
            let path = default_path(&filesystem);
            let other = settings.exports.iter().find(|e| e.path == path);
            let export = match (parsed, other) {
                (Ok(_), Some(other)) => Err(format!(
                    "{path} is the export of {:?} in the configuration, which counts",
                    other.filesystem
                )),
                (Ok(clients), None) => Ok(ExportConfig {
                    filesystem: filesystem.clone(),
                    path,
                    clients,
                }),
                (Err(reason), _) => Err(reason),
            };
            new.exports.insert(filesystem, Share { source, export });
        }
        let closed = old.exports.iter().filter(|(name, _)| !is_open(name));
        for (name, share) in closed.filter(|(name, _)| settings.export_of(name).is_none()) {
            new.exports.insert(name.clone(), share.clone());
        }
        new
    }

    pub(super) fn export_of(&self, filesystem: &str) -> Option<&ExportConfig> {
        self.exports.get(filesystem)?.export.as_ref().ok()
    }

    /// The exports to end and to begin, and the filesystems whose exports get other clients, if these shares take the place of
    /// `old`. `served` returns the path of the present export of a filesystem.
    pub(super) fn changes(
        &self,
        old: &Shares,
        settings: &Settings,
        served: &dyn Fn(&str) -> Option<String>,
    ) -> (Vec<ShareChange>, Vec<ExportConfig>) {
        let names = old.exports.keys().chain(self.exports.keys());
        let names: BTreeSet<&String> = names.chain(self.unused.keys()).collect();
        let (mut ends, mut begins, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let explicit = settings.export_of(name);
            let wanted = explicit.or_else(|| self.export_of(name));
            match (served(name), wanted) {
                (Some(path), Some(wanted)) if path == wanted.path => others.push(wanted.clone()),
                (None, Some(_)) if explicit.is_some() => {}
                (None, Some(_)) => begins.push(ShareChange::Begin(name.clone())),
                (Some(_), Some(_)) => {
                    ends.push(ShareChange::End(name.clone()));
                    begins.push(ShareChange::Begin(name.clone()));
                }
                (_, None) => ends.push(ShareChange::End(name.clone())),
            }
        }
        ends.extend(begins);
        (ends, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<String> {
        let rules = parse(text).expect(text).unwrap_or_default();
        rules.iter().map(ClientRule::to_string).collect()
    }

    #[test]
    fn words_of_zfsprops_and_exports_are_understood() {
        for (text, shown) in [
            ("off", &[][..]),
            ("on", &["*:rw"]),
            ("ro", &["*:ro"]),
            (
                "no_root_squash,sec=sys,no_subtree_check",
                &["*:rw,squash=none"],
            ),
            (
                "rw=@10.0.0.0/24,ro=@lab,no_root_squash",
                &["10.0.0.0/24:rw,squash=none", "@lab:ro,squash=none"],
            ),
            (
                "rw=a.example.org:192.0.2.7:[2001:db8::]/32:@[::1],all_squash,anonuid=5",
                &[
                    "a.example.org:rw,squash=all,anonuid=5",
                    "192.0.2.7:rw,squash=all,anonuid=5",
                    "2001:db8::/32:rw,squash=all,anonuid=5",
                    "::1:rw,squash=all,anonuid=5",
                ],
            ),
            ("ro,rw=a", &["*:ro", "a:rw"]),
            ("secure", &["*:rw"]),
            ("rw=a,insecure", &["a:rw,insecure"]),
        ] {
            assert_eq!(rules(text), shown, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("", "found \"\""),
            ("yes", "found \"yes\""),
            ("rw=", "expected an address"),
            ("rw=a,ro=a", "a is there twice"),
            ("sec=krb5", "found \"sec=krb5\""),
            ("async", "found \"async\""),
            ("anonuid=x", "found \"anonuid=x\""),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
