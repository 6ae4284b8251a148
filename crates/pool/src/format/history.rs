//! Label history: the branch of a label, and the earlier branches that it replaces.
//!
//! **Owns** the encoding of a label's branch and forks. **Called by** `label`, and by the scan and opening of a pool.
//! **Invariants**: the labels of a branch are one sequence of epochs; a pool that is opened without a member that is in by
//! its labels begins a new branch; a label's history names each earlier branch and its last epoch.
//! `docs/format.md`, "Labels"; `docs/decisions/0115`.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::label_fields::{LabelEpoch, field};
use super::{COUNT_END, Defect, layout};

/// Most forks in a label. The oldest ones are dropped.
pub const FORKS_MAX: usize = 256;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawFork {
    branch: U64,
    last: U64,
    vdev_last: U64,
}
layout!(RawFork, 24, branch @ 0, last @ 8, vdev_last @ 16);

/// A sequence of labels of a pool, each written by a host that knew the previous one. Zero for labels of version 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LabelBranch(pub u64);

/// The end of an earlier branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The branch that ended.
    pub branch: LabelBranch,
    /// Epoch of its last label, on any vdev, that the next branch replaces.
    pub last: LabelEpoch,
    /// Epoch of the last label of this label's vdev that it replaces; zero for none.
    pub vdev_last: LabelEpoch,
}

/// The branch of a label and the branches before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelHistory {
    /// The label's branch.
    pub branch: LabelBranch,
    /// The branches before it, oldest first: at most [`FORKS_MAX`].
    pub forks: Vec<Fork>,
}

impl LabelHistory {
    /// The history of a new pool.
    #[must_use]
    pub fn new(branch: LabelBranch) -> Self {
        Self {
            branch,
            forks: Vec::new(),
        }
    }

    /// The history of a new branch after epoch `last` of this one, on a vdev whose newest label has epoch `vdev_last`.
    #[must_use]
    pub fn fork(&self, branch: LabelBranch, last: LabelEpoch, vdev_last: LabelEpoch) -> Self {
        let ended = Fork {
            branch: self.branch,
            last,
            vdev_last,
        };
        let mut forks: Vec<_> = self.forks.iter().copied().chain([ended]).collect();
        forks.drain(..forks.len().saturating_sub(FORKS_MAX));
        Self { branch, forks }
    }

    /// This history on a vdev whose newest label has epoch `epoch` and history `newest`.
    #[must_use]
    pub fn on_vdev(&self, newest: &LabelHistory, epoch: LabelEpoch) -> Self {
        let mut own = self.clone();
        for fork in &mut own.forks {
            let known = newest.forks.iter().find(|f| f.branch == fork.branch);
            fork.vdev_last = match known {
                Some(known) => known.vdev_last.min(fork.last),
                None if fork.branch == newest.branch => epoch.min(fork.last),
                None => LabelEpoch(0),
            };
        }
        own
    }

    /// This history on a new vdev, which has no labels.
    #[must_use]
    pub fn on_new_vdev(&self) -> Self {
        let mut own = self.clone();
        let forks = own.forks.iter_mut();
        forks.for_each(|fork| fork.vdev_last = LabelEpoch(0));
        own
    }

    /// Whether a label with epoch `epoch` and this history replaces a label of `branch` with epoch `older`, or is from the
    /// same round.
    #[must_use]
    pub fn replaces(&self, epoch: LabelEpoch, branch: LabelBranch, older: LabelEpoch) -> bool {
        older <= self.last_of(epoch, branch, |fork| fork.last)
    }

    /// As [`LabelHistory::replaces`], for two labels of one vdev.
    #[must_use]
    pub fn replaces_on_vdev(
        &self,
        epoch: LabelEpoch,
        branch: LabelBranch,
        older: LabelEpoch,
    ) -> bool {
        older <= self.last_of(epoch, branch, |fork| fork.vdev_last)
    }

    fn last_of(
        &self,
        epoch: LabelEpoch,
        branch: LabelBranch,
        last: fn(&Fork) -> LabelEpoch,
    ) -> LabelEpoch {
        let ended = self.forks.iter().find(|fork| fork.branch == branch);
        match branch == self.branch {
            true => epoch,
            false => ended.map_or(LabelEpoch(0), last),
        }
    }

    pub(super) fn check(&self) -> Result<(), Defect> {
        let count = self.forks.len();
        if count > FORKS_MAX || self.branch == LabelBranch(0) && count > 0 {
            return field("label's number of forks", count as u64);
        }
        for (index, fork) in self.forks.iter().enumerate() {
            if fork.last.0 == 0 || fork.last.0 >= COUNT_END {
                return field("epoch of a label's fork", fork.last.0);
            }
            if fork.vdev_last > fork.last {
                return field("epoch of a fork's vdev", fork.vdev_last.0);
            }
            let before = self.forks[..index].iter().map(|f| f.branch);
            if before.chain([self.branch]).any(|b| b == fork.branch) {
                return field("branch of two forks", fork.branch.0);
            }
        }
        Ok(())
    }
}

impl RawFork {
    pub(super) fn encode(fork: &Fork) -> Self {
        Self {
            branch: U64::new(fork.branch.0),
            last: U64::new(fork.last.0),
            vdev_last: U64::new(fork.vdev_last.0),
        }
    }

    pub(super) fn decode(&self) -> Result<Fork, Defect> {
        Ok(Fork {
            branch: LabelBranch(self.branch.get()),
            last: LabelEpoch(self.last.get()),
            vdev_last: LabelEpoch(self.vdev_last.get()),
        })
    }
}
