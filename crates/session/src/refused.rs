//! Hosts that access lists refused, so that the operator sees who asked and can allow it.
//!
//! **Owns** [`RefusedHosts`] of one service. **Called by** a protocol that refuses a host, and read by the control plane.
//! **Invariants**: at most [`REFUSED_HOSTS_MAX`] entries; the entry that was seen longest ago goes for a new one. A host decides its
//! name itself: it proves nothing.

use crate::limits::REFUSED_HOSTS_MAX;
use io::sync::lock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a host was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// No access list or client rule has it.
    NotListed,
    /// Its export demands a secret, and none is stored for it.
    NoSecret,
    /// Its rule demands a privileged port.
    UnprivilegedPort,
    /// Its export is not served over the transport that it used.
    Transport,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [RefusalReason; 4] = [
        RefusalReason::NotListed,
        RefusalReason::NoSecret,
        RefusalReason::UnprivilegedPort,
        RefusalReason::Transport,
    ];

    /// The reason as a word of the metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RefusalReason::NotListed => "not_listed",
            RefusalReason::NoSecret => "no_secret",
            RefusalReason::UnprivilegedPort => "unprivileged_port",
            RefusalReason::Transport => "transport",
        }
    }
}

/// Numbers of refusals, by reason.
pub type RefusalTotals = [(RefusalReason, u64); RefusalReason::ALL.len()];

/// A host that was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedHost {
    /// The name that it gave; empty if its protocol has none.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The name of the export that it asked for; empty if it asked for none.
    pub export: String,
}

/// The refusals of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    /// Their number.
    pub count: u64,
    /// The first one, ms since 1970.
    pub first_ms: u64,
    /// The last one, ms since 1970.
    pub last_ms: u64,
    /// The reason of the last one.
    pub reason: RefusalReason,
}

/// The hosts that were refused, newest entries only.
#[derive(Debug, Default)]
pub struct RefusedHosts {
    hosts: Mutex<BTreeMap<RefusedHost, Refusals>>,
    /// In the order of [`RefusalReason::ALL`].
    totals: [AtomicU64; RefusalReason::ALL.len()],
}

impl RefusedHosts {
    /// A host was refused now.
    pub fn note(&self, host: RefusedHost, reason: RefusalReason) {
        self.note_at(host, reason, io::time::wall_clock_ms());
    }

    fn note_at(&self, host: RefusedHost, reason: RefusalReason, now_ms: u64) {
        self.totals[reason as usize].fetch_add(1, Ordering::Relaxed);
        let host = RefusedHost {
            address: host.address.to_canonical(),
            ..host
        };
        let mut hosts = lock(&self.hosts);
        if !hosts.contains_key(&host) && hosts.len() >= REFUSED_HOSTS_MAX {
            let oldest = hosts.iter().min_by_key(|(_, r)| r.last_ms);
            if let Some(oldest) = oldest.map(|(host, _)| host.clone()) {
                hosts.remove(&oldest);
            }
        }
        let refusals = hosts.entry(host).or_insert(Refusals {
            count: 0,
            first_ms: now_ms,
            last_ms: now_ms,
            reason,
        });
        refusals.count += 1;
        refusals.reason = reason;
        refusals.last_ms = now_ms;
    }

    /// The hosts, the one that was refused last first.
    pub fn list(&self) -> Vec<(RefusedHost, Refusals)> {
        let hosts = lock(&self.hosts);
        let mut all: Vec<_> = hosts.iter().map(|(h, r)| (h.clone(), *r)).collect();
        drop(hosts);
        all.sort_by_key(|(_, host)| std::cmp::Reverse(host.last_ms));
        all
    }

    /// Number of refusals since the start, by reason.
    pub fn totals(&self) -> RefusalTotals {
        let total = |r: RefusalReason| self.totals[r as usize].load(Ordering::Relaxed);
        RefusalReason::ALL.map(|reason| (reason, total(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_hosts_are_kept() {
        let refused = RefusedHosts::default();
        let host = |n: usize| RefusedHost {
            name: format!("host{n}"),
            address: [10, 0, 0, 1].into(),
            export: "disk".into(),
        };
        for n in 0..=REFUSED_HOSTS_MAX {
            refused.note_at(host(n), RefusalReason::NotListed, n as u64);
        }
        refused.note_at(host(5), RefusalReason::NoSecret, 9999);
        let all = refused.list();
        assert_eq!(all.len(), REFUSED_HOSTS_MAX);
        let seen = Refusals {
            count: 2,
            first_ms: 5,
            last_ms: 9999,
            reason: RefusalReason::NoSecret,
        };
        assert_eq!(all[0], (host(5), seen));
        assert!(all.iter().all(|(h, _)| *h != host(0)));
        let listed = (RefusalReason::NotListed, REFUSED_HOSTS_MAX as u64 + 1);
        let others = [
            (RefusalReason::NoSecret, 1),
            (RefusalReason::UnprivilegedPort, 0),
            (RefusalReason::Transport, 0),
        ];
        assert_eq!(refused.totals()[0], listed);
        assert_eq!(refused.totals()[1..], others);
    }
}
