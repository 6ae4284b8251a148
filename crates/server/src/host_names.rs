//! Names of hosts in addresses that discovery tells: `advertise` and `referrals`.
//!
//! **Owns** the last good answers of the resolver, and the file `STATE_DIR/host-names`. **Called by** [`crate::advertise`], and by
//! the protocols when they advertise. **Invariants** (as decision 0341 has it for
//! client rules): an answer stays in force until the next one, also over restarts; a resolver that fails changes nothing.

use crate::last_answers::{self, Failure, Failures};
use io::linux::{LookupError, addresses_of};
use io::net::Endpoint;
use io::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;

/// The hosts in messages about their stored addresses.
const HOSTS: &str = "advertised hosts";

/// Asks the resolver for the addresses of a host.
type Lookup<'a> = &'a dyn Fn(&str) -> Result<Vec<IpAddr>, LookupError>;

/// The last good answers about names of hosts.
#[derive(Default)]
pub(crate) struct HostNames {
    path: Option<PathBuf>,
    answers: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    failures: Mutex<Failures>,
}

impl HostNames {
    /// The stored answers; a file that cannot be read is logged, and its names are asked for. Blocks.
    pub(crate) fn load(path: Option<PathBuf>) -> HostNames {
        let stored = path.as_deref().map(|path| last_answers::load(path, HOSTS));
        HostNames {
            path,
            answers: Mutex::new(stored.unwrap_or_default()),
            failures: Mutex::default(),
        }
    }

    /// The addresses of endpoints, by the last answers. A name that never had an answer has none.
    pub(crate) fn addresses(&self, endpoints: &[Endpoint]) -> Vec<SocketAddr> {
        let answers = lock(&self.answers);
        let mut out = Vec::new();
        for endpoint in endpoints {
            match endpoint {
                Endpoint::Address(address) => out.push(*address),
                Endpoint::Name(name, port) => {
                    let found = answers.get(name).into_iter().flatten();
                    out.extend(found.map(|ip| SocketAddr::new(*ip, *port)));
                }
            }
        }
        out
    }

    /// Asks for these names, and stores new answers. Returns whether an answer has changed. Blocks until the resolver gives up.
    pub(crate) fn refresh(&self, names: &BTreeSet<String>) -> bool {
        self.learn(names, &addresses_of)
    }

    fn learn(&self, names: &BTreeSet<String>, lookup: Lookup<'_>) -> bool {
        lock(&self.failures).keep(|name| names.contains(name));
        let mut has_changed = false;
        for name in names {
            // Without a lock: it blocks.
            let error = match lookup(name) {
                Ok(mut found) => {
                    found.retain(|ip| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
                    lock(&self.failures).end(name);
                    let old = lock(&self.answers).insert(name.clone(), found.clone());
                    has_changed |= old.as_ref() != Some(&found);
                    continue;
                }
                Err(error) => error,
            };
            let (reason, now) = (error.to_string(), io::time::wall_clock_ms());
            if lock(&self.failures).note(name.clone(), &reason, now) {
                tracing::warn!(name, reason, "an advertised host has no address now");
            }
        }
        let mut answers = lock(&self.answers);
        answers.retain(|name, _| names.contains(name));
        if let (true, Some(path)) = (has_changed, &self.path) {
            last_answers::store(path, &*answers, HOSTS);
        }
        has_changed
    }

    /// Whether every name has an answer.
    pub(crate) fn is_whole(&self) -> bool {
        lock(&self.failures).len() == 0
    }

    /// A warning for each name without an answer.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let answers = lock(&self.answers);
        let warning = |(name, failure): (&String, &Failure)| {
            let reason = &failure.reason;
            let effect = match answers.contains_key(name) {
                true => "discovery tells its last addresses",
                false => "discovery does not tell it",
            };
            format!("the advertised host {name} has no answer ({reason}): {effect}")
        };
        lock(&self.failures).iter().map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "storage.example";

    fn told(names: &HostNames) -> Vec<String> {
        let endpoints = ["storage.example:4420", "192.0.2.9:4420"];
        let endpoints = endpoints.map(|text| text.parse().expect(text));
        let all = names.addresses(&endpoints).into_iter();
        all.map(|address| address.to_string()).collect()
    }

    #[test]
    fn the_last_answer_stays_in_force_also_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("host-names");
        let wanted = BTreeSet::from([NAME.to_owned()]);
        let names = HostNames::load(Some(path.clone()));
        let fails = |_: &str| Err(LookupError::NoAnswer("the server is down".into()));
        assert!(!names.learn(&wanted, &fails));
        assert_eq!(told(&names), ["192.0.2.9:4420"]);
        assert!(names.warnings()[0].contains("does not tell it"));
        let link_local = "fe80::7".parse::<IpAddr>().expect("an address");
        let found = |_: &str| Ok(vec![[192, 0, 2, 1].into(), link_local]);
        assert!(names.learn(&wanted, &found));
        assert!(!names.learn(&wanted, &found), "nothing is new");
        assert!(names.warnings().is_empty());
        let both = ["192.0.2.1:4420", "192.0.2.9:4420"];
        for lookup in [&fails as Lookup<'_>, &|_| Err(LookupError::NoSuchName)] {
            assert!(!names.learn(&wanted, lookup));
            assert_eq!(told(&names), both);
            assert!(names.warnings()[0].contains("last addresses"));
        }
        let names = HostNames::load(Some(path.clone()));
        assert_eq!(told(&names), both);
        names.learn(&BTreeSet::new(), &found);
        assert_eq!(told(&names), ["192.0.2.9:4420"], "the name is gone");
        std::fs::write(&path, "{").expect("written");
        assert_eq!(told(&HostNames::load(Some(path))), ["192.0.2.9:4420"]);
    }
}
