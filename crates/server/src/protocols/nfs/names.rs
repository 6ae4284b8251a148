//! Names of client rules: the last good answers of the resolver and of the netgroup file.
//!
//! **Owns** [`Names`], and the file `STATE_DIR/nfs/names`. **Called by** the protocol: [`Names::refresh`] on a helper thread, since
//! name services block, the rest at once. **Invariants** (decision 0341): an answer stays in force until the next answer, also
//! over restarts; no answer is not the answer "none"; one refresh runs at a time, so that a dead resolver holds one helper thread.

use super::limits::{ADDRESSES_MAX, NAME_GONE_KEPT, NAMES_KEPT, NETGROUP_FILE_LEN_MAX};
use super::netgroup::Netgroups;
use super::rule::{ClientRule, Clients};
use crate::last_answers::{self, Failure, Failures};
use io::linux::{LookupError, addresses_of};
use io::sync::lock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The hosts in messages about their stored addresses.
const CLIENTS: &str = "NFS clients";

/// Asks the resolver for the addresses of a host.
type Lookup<'a> = &'a dyn Fn(&str) -> Result<Vec<IpAddr>, LookupError>;

/// The last good answers, as they are stored.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Answers {
    /// Addresses by host name.
    hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Host names by netgroup; an empty name stands for every host.
    groups: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct ResolvedNames {
    answers: Answers,
    /// By name; netgroups with `@`.
    failures: Failures,
}

/// The answers about names, and the names without one.
pub(super) struct Names {
    path: Option<PathBuf>,
    netgroups: PathBuf,
    state: Mutex<ResolvedNames>,
    /// Held during a refresh.
    refreshing: Mutex<()>,
}

/// A host or netgroup whose answer is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unknown;

impl Names {
    /// The stored answers. A damaged file is logged and replaced by the next answers. Blocks.
    pub(super) fn load(path: Option<PathBuf>, netgroups: PathBuf) -> Names {
        let stored = path
            .as_deref()
            .map(|path| last_answers::load(path, CLIENTS));
        Names {
            path,
            netgroups,
            state: Mutex::new(ResolvedNames {
                answers: stored.unwrap_or_default(),
                failures: Failures::default(),
            }),
            refreshing: Mutex::default(),
        }
    }

    /// Asks for all names of these rules. Does nothing while another call does. Blocks until the resolver gives up.
    pub(super) fn refresh(&self, rules: &[ClientRule]) {
        let Ok(_turn) = self.refreshing.try_lock() else {
            return;
        };
        let groups = uses_groups(rules).then(|| read_netgroups(&self.netgroups));
        self.learn(rules, groups, &addresses_of, io::time::wall_clock_ms());
    }

    /// Takes the answers of `lookup` and of the netgroup file, and stores new ones.
    fn learn(
        &self,
        rules: &[ClientRule],
        groups: Option<Result<Netgroups, String>>,
        lookup: Lookup<'_>,
        now_ms: u64,
    ) {
        let before = lock(&self.state).answers.clone();
        for rule in rules {
            if let (Clients::Netgroup(name), Some(groups)) = (&rule.clients, &groups) {
                let mut state = lock(&self.state);
                match groups {
                    Ok(groups) => {
                        let hosts = groups.hosts(name).into_iter().map(str::to_owned);
                        state.answers.groups.insert(name.clone(), hosts.collect());
                        state.failures.end(&format!("@{name}"));
                    }
                    Err(reason) => state.fail(format!("@{name}"), reason, now_ms),
                }
            }
        }
        for name in self.host_names(rules) {
            // Without the lock: it blocks.
            let answer = lookup(&name);
            lock(&self.state).answered(name, answer, now_ms);
        }
        let answers = lock(&self.state).answers.clone();
        if let (true, Some(path)) = (answers != before, &self.path) {
            last_answers::store(path, &answers, CLIENTS);
        }
    }

    /// Forgets failures about names that these rules, which are all, do not use.
    pub(super) fn keep_failures_of(&self, rules: &[ClientRule]) {
        let used = self.host_names(rules);
        let groups = rules.iter().filter_map(|rule| match &rule.clients {
            Clients::Netgroup(name) => Some(format!("@{name}")),
            _ => None,
        });
        let groups: BTreeSet<String> = groups.collect();
        let mut state = lock(&self.state);
        let is_used = |name: &String| used.contains(name) || groups.contains(name);
        state.failures.keep(is_used);
    }

    /// The host names of rules, and of the netgroups in them.
    fn host_names(&self, rules: &[ClientRule]) -> BTreeSet<String> {
        let state = lock(&self.state);
        let mut names = BTreeSet::new();
        for rule in rules {
            match &rule.clients {
                Clients::Host(name) => drop(names.insert(name.clone())),
                Clients::Netgroup(group) => {
                    let hosts = state.answers.groups.get(group).into_iter().flatten();
                    names.extend(hosts.filter(|name| !name.is_empty()).cloned());
                }
                Clients::Any | Clients::Network(..) => {}
            }
        }
        names.into_iter().take(ADDRESSES_MAX).collect()
    }

    /// The addresses of a host. Errors: there never was an answer.
    pub(super) fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Unknown> {
        let state = lock(&self.state);
        state.answers.hosts.get(name).cloned().ok_or(Unknown)
    }

    /// The host names of a netgroup. Errors: the file could never be read.
    pub(super) fn hosts(&self, group: &str) -> Result<BTreeSet<String>, Unknown> {
        let state = lock(&self.state);
        state.answers.groups.get(group).cloned().ok_or(Unknown)
    }

    /// The number of names without an answer now whose last answer is in force, and of names that never had one.
    pub(super) fn failures(&self) -> (usize, usize) {
        let state = lock(&self.state);
        let names = state.failures.iter().map(|(name, _)| name);
        let kept = names.filter(|name| state.is_known(name)).count();
        (kept, state.failures.len() - kept)
    }

    /// A warning for each name without an answer.
    pub(super) fn warnings(&self) -> Vec<String> {
        let state = lock(&self.state);
        let warning = |(name, failure): (&String, &Failure)| {
            let reason = &failure.reason;
            let minutes = io::time::wall_clock_ms().saturating_sub(failure.since_ms) / 60_000;
            let effect = match state.is_known(name) {
                true => "its last addresses stay in force",
                false => "clients wait whose rights depend on it",
            };
            format!("{name} of NFS exports has no answer for {minutes} min ({reason}): {effect}")
        };
        state.failures.iter().map(warning).collect()
    }
}

impl ResolvedNames {
    /// Whether there was an answer about a host or `@`netgroup.
    fn is_known(&self, name: &str) -> bool {
        match name.strip_prefix('@') {
            Some(group) => self.answers.groups.contains_key(group),
            None => self.answers.hosts.contains_key(name),
        }
    }

    /// The resolver has answered about a host, or not.
    fn answered(&mut self, name: String, answer: Result<Vec<IpAddr>, LookupError>, now_ms: u64) {
        match answer {
            Ok(addresses) => {
                self.failures.end(&name);
                self.answers.hosts.insert(name, addresses);
            }
            Err(error @ LookupError::NoAnswer(_)) => self.fail(name, &error.to_string(), now_ms),
            Err(error @ LookupError::NoSuchName) => {
                self.fail(name.clone(), &error.to_string(), now_ms);
                let since = self.failures.get(&name).map_or(now_ms, |f| f.since_ms);
                let is_over = now_ms.saturating_sub(since) >= NAME_GONE_KEPT.as_millis() as u64;
                let addresses = self.answers.hosts.get(&name);
                if is_over || addresses.is_none_or(Vec::is_empty) {
                    self.answers.hosts.insert(name, Vec::new());
                }
            }
        }
        // Names of old configurations go.
        while self.answers.hosts.len() > NAMES_KEPT {
            self.answers.hosts.pop_first();
        }
    }

    fn fail(&mut self, name: String, reason: &str, now_ms: u64) {
        if self.failures.note(name.clone(), reason, now_ms) {
            tracing::warn!(
                name,
                reason,
                "a client of an NFS export has no answer of the name service"
            );
        }
    }
}

fn uses_groups(rules: &[ClientRule]) -> bool {
    let is_group = |rule: &ClientRule| matches!(rule.clients, Clients::Netgroup(_));
    rules.iter().any(is_group)
}

/// The netgroups of a file. Errors: the reason why it cannot be read as a whole.
fn read_netgroups(path: &Path) -> Result<Netgroups, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut file = file.take(NETGROUP_FILE_LEN_MAX + 1);
    let read = file.read_to_string(&mut text);
    let read = read.map_err(|e| format!("{}: {e}", path.display()))?;
    match read as u64 > NETGROUP_FILE_LEN_MAX {
        true => Err(format!("{} is too long", path.display())),
        false => Ok(Netgroups::parse(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::resolve::resolve;
    use super::*;
    use nfs::export::Hosts;

    const RULES: [&str; 2] = ["127.0.0.0/8:rw,squash=none", "guest.example:ro"];
    const HOUR_MS: u64 = 3_600_000;

    fn rules(texts: &[&str]) -> Vec<ClientRule> {
        let parse = |text: &&str| ClientRule::parse(text).expect(text);
        texts.iter().map(parse).collect()
    }

    fn found(_: &str) -> Result<Vec<IpAddr>, LookupError> {
        Ok(vec![[127, 0, 0, 9].into()])
    }

    fn no_answer(_: &str) -> Result<Vec<IpAddr>, LookupError> {
        Err(LookupError::NoAnswer("the server is down".into()))
    }

    fn gone(_: &str) -> Result<Vec<IpAddr>, LookupError> {
        Err(LookupError::NoSuchName)
    }

    /// The hosts of the first rule.
    fn first(names: &Names, of: &[ClientRule]) -> Hosts {
        resolve(of, names)[0].hosts
    }

    const GUEST: Hosts = Hosts::Network(IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 9)), 32);

    /// Regression: 66 s after the resolver failed, the guest with the narrow rule fell through to the network's and could write
    /// as root. After a restart without a resolver, running clients lost their rights.
    #[test]
    fn the_last_answer_stays_in_force_also_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Some(dir.path().join("names"));
        let rules = rules(&RULES);
        let names = Names::load(path.clone(), PathBuf::new());
        assert_eq!(first(&names, &rules), Hosts::Unresolved);
        names.learn(&rules, None, &no_answer, 0);
        assert_eq!(first(&names, &rules), Hosts::Unresolved);
        assert_eq!(names.failures(), (0, 1));
        names.learn(&rules, None, &found, 0);
        assert_eq!((first(&names, &rules), names.failures()), (GUEST, (0, 0)));
        names.learn(&rules, None, &no_answer, 0);
        assert_eq!((first(&names, &rules), names.failures()), (GUEST, (1, 0)));
        assert!(names.warnings()[0].contains("guest.example"));
        names.keep_failures_of(&rules[..1]);
        assert_eq!(names.failures(), (0, 0), "no rule has the name");
        let names = Names::load(path.clone(), PathBuf::new());
        names.learn(&rules, None, &no_answer, 0);
        assert_eq!(first(&names, &rules), GUEST);
        std::fs::write(path.clone().expect("a path"), "{").expect("written");
        let names = Names::load(path, PathBuf::new());
        assert_eq!(first(&names, &rules), Hosts::Unresolved);
    }

    #[test]
    fn a_name_that_is_gone_keeps_its_addresses_for_a_time() {
        let rules = rules(&RULES);
        let network = Hosts::Network([127, 0, 0, 0].into(), 8);
        let names = Names::load(None, PathBuf::new());
        names.learn(&rules, None, &gone, 0);
        assert_eq!(first(&names, &rules), network, "it never was there");
        names.learn(&rules, None, &found, 0);
        names.learn(&rules, None, &gone, 1);
        names.learn(&rules, None, &gone, HOUR_MS);
        assert_eq!(first(&names, &rules), GUEST);
        names.learn(&rules, None, &gone, HOUR_MS + 1);
        assert_eq!(first(&names, &rules), network);
    }

    #[test]
    fn an_unreadable_netgroup_file_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("netgroup");
        let names = Names::load(None, file.clone());
        let rules = rules(&["127.0.0.0/8:rw", "@lab:ro"]);
        let read = || Some(read_netgroups(&file));
        names.learn(&rules, read(), &found, 0);
        assert_eq!(first(&names, &rules), Hosts::Unresolved, "no file");
        std::fs::write(&file, "lab (guest.example,,)\n").expect("written");
        names.learn(&rules, read(), &found, 0);
        assert_eq!(first(&names, &rules), GUEST);
        for broken in [
            vec![0xff; 9],
            vec![b'x'; NETGROUP_FILE_LEN_MAX as usize + 1],
        ] {
            std::fs::write(&file, broken).expect("written");
            names.learn(&rules, read(), &found, 0);
            assert_eq!((first(&names, &rules), names.failures()), (GUEST, (1, 0)));
        }
        std::fs::write(&file, "").expect("written");
        names.learn(&rules, read(), &found, 0);
        assert_ne!(first(&names, &rules), GUEST, "an empty file is an answer");
    }
}
