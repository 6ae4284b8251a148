//! All metrics, by section of `docs/metrics.md`.
//!
//! **Called by** the generator of the page, and by tests of alert rules, dashboard and output. **Invariants**: every group of metrics
//! that is declared is in one section (a test compares a scrape with the page).

use super::encode::{DISKS, REFUSALS, REQUESTS, SERVER, SESSIONS, SHARDS};
use super::filesystems::{FILESYSTEMS, MOUNTS};
use super::pools::{CACHE_DEVICES, MEMBERS, OPEN_POOLS, POOLS, SCRUBS, VOLUMES};
use super::table::Metric;
use super::writes::{DATASET_WRITES, DISK_WRITES, POOL_WRITES};
use crate::protocols::{iscsi, nfs, nvmf};

/// Metrics of one area.
pub(super) struct Section {
    pub(super) title: &'static str,
    groups: &'static [&'static [Metric]],
}

impl Section {
    pub(super) fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        self.groups.iter().flat_map(|group| *group)
    }
}

/// All metrics.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Metric> {
    SECTIONS.iter().flat_map(Section::metrics)
}

/// The metrics by area.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        title: "The server and its threads",
        groups: &[SERVER, SHARDS],
    },
    Section {
        title: "Disks, pools and their members",
        groups: &[
            DISKS,
            POOLS,
            OPEN_POOLS,
            MEMBERS,
            SCRUBS,
            CACHE_DEVICES,
            POOL_WRITES,
            DISK_WRITES,
        ],
    },
    Section {
        title: "Volumes and filesystems",
        groups: &[VOLUMES, FILESYSTEMS, MOUNTS, DATASET_WRITES],
    },
    Section {
        title: "Requests and sessions of every protocol",
        groups: &[REQUESTS, REFUSALS, SESSIONS],
    },
    Section {
        title: "NVMe",
        groups: nvmf::metrics::ALL,
    },
    Section {
        title: "iSCSI",
        groups: iscsi::metrics::ALL,
    },
    Section {
        title: "NFS",
        groups: nfs::metrics::ALL,
    },
];
