//! Space accounting: what each volume takes of the pool.
//!
//! A volume owns the blocks that it or its snapshots hold and its origin does not: `blocks of its tree + deadlists of
//! its snapshots + its own deadlist − blocks of its origin`.
//!
//! **Owns** these sums, quotas and reservations. **Called by** checkpoints and status requests. **Invariant**: the
//! used space is the sum of the volumes' blocks, the pending destroys, the blocks that only layers point to, and the
//! pool's own nodes; verification compares them.

use std::collections::BTreeMap;

use crate::account::{Put, Standing};
use crate::dataset::OpenDataset;
use crate::format::{BlockPtr, BlockSizes, Freeing, NEVER, TreeId, Value, dataset_key};
use crate::owner::destroy::destroyer::each_layered;
use crate::owner::{Pool, State};
use crate::{Error, Result};
use io::sync::lock;

/// Space of a pool, bytes. `used`, `freeing` and `free` add up to `size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSpace {
    /// Capacity of the allocator.
    pub size: u64,
    /// Bytes of all blocks that are not being freed.
    pub used: u64,
    /// Bytes of destroyed datasets, about, and freed bytes that are not reusable before the next checkpoint.
    pub freeing: u64,
    /// Free bytes.
    pub free: u64,
    /// Free bytes that are kept for volumes with a reservation.
    pub reserved: u64,
}

/// Space of a volume, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeSpace {
    /// Bytes of the volume and its snapshots, without blocks that it shares with its origin. Records overwritten since
    /// the last checkpoint count twice.
    pub used: u64,
    /// Bytes of `used` that only its snapshots hold.
    pub by_snapshots: u64,
    /// Stored bytes of its records, shared or not.
    pub referenced: u64,
    /// Bytes of its records once decompressed.
    pub logical: u64,
    /// Its nodes, and its records by size, shared or not. `None` if it has records from before they were counted.
    pub sizes: Option<BlockSizes>,
    /// The most bytes that it may take; 0 for no limit.
    pub quota: u64,
    /// Bytes reserved for it, used or not.
    pub reservation: u64,
    /// Bytes of the reservation that are not used.
    pub reserved: u64,
}

/// The bytes that a volume owns as of the last checkpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::owner) struct Owned {
    pub(in crate::owner) all: u64,
    pub(super) by_snapshots: u64,
    /// The exact sum. It may be negative while blocks are being handed over to a clone's deadlist.
    pub(in crate::owner) sum: i128,
    /// Whether it has snapshots, or is a clone.
    is_shared: bool,
}

impl Owned {
    /// A new clone owns nothing yet.
    pub(in crate::owner) fn of_a_clone() -> Self {
        Self {
            is_shared: true,
            ..Self::default()
        }
    }

    fn standing(self, volume: &OpenDataset) -> Standing {
        let held = lock(&volume.state).layers.held();
        Standing {
            used: self.all,
            own: held.allocated,
            tree: held.allocated.saturating_sub(held.referenced),
            is_shared: self.is_shared,
        }
    }
}

impl State {
    /// The bytes that a volume owns.
    fn owned_by(&self, volume: &OpenDataset) -> Owned {
        let (list, allocated, origin) = {
            let state = lock(&volume.state);
            let dataset = &state.dataset;
            (dataset.list, state.layers.held().allocated, dataset.origin)
        };
        let shared = origin.and_then(|origin| self.datasets.get(origin));
        let shared = shared.map_or(0, |origin| lock(&origin.state).layers.held().allocated);
        let mut by_snapshots = 0;
        let mut is_shared = origin.is_some();
        for list in self.datasets.snapshot_lists(volume.id) {
            by_snapshots += self.deadlists.bytes(list);
            is_shared = true;
        }
        let listed = self.deadlists.bytes(list) + by_snapshots;
        let sum = i128::from(listed) + i128::from(allocated) - i128::from(shared);
        let all = u64::try_from(sum).unwrap_or(0);
        Owned {
            all,
            by_snapshots: by_snapshots.min(all),
            sum,
            is_shared,
        }
    }

    /// The bytes that each volume owns.
    pub(in crate::owner) fn owned(&self) -> BTreeMap<TreeId, Owned> {
        let volumes = self.datasets.volumes();
        volumes.map(|v| (v.id, self.owned_by(v))).collect()
    }

    /// A checkpoint has ended: updates the accounts of the volumes that it held, and of those whose lineage or
    /// deadlists changed.
    pub(in crate::owner) fn account(&mut self) {
        for volume in self.datasets.take_unaccounted() {
            let standing = self.owned_by(&volume).standing(&volume);
            self.shared.budget.merged(volume.id, standing);
        }
    }

    /// Opens the accounts of all volumes, when the pool is opened.
    pub(in crate::owner) fn open_accounts(&self) {
        for volume in self.datasets.volumes() {
            self.open_account(volume, self.owned_by(volume));
        }
    }

    /// Opens the account of a volume.
    pub(in crate::owner) fn open_account(&self, volume: &OpenDataset, owned: Owned) {
        let standing = owned.standing(volume);
        let state = lock(&volume.state);
        let mut layered = Put::default();
        let mut count = |ptr: &BlockPtr| {
            layered.records += 1;
            layered.bytes += self.shared.vdevs.allocated(ptr);
        };
        let values = state.layers.top().points().filter_map(|(_, d)| d.value());
        values.filter_map(Value::block).for_each(&mut count);
        let frozen: Vec<_> = state.layers.frozen().map(|f| f.layer.clone()).collect();
        each_layered(&frozen, count);
        for value in state
            .layers
            .iter()
            .flat_map(|l| l.points())
            .filter_map(|(_, d)| d.value())
        {
            if let Value::Inline(bytes) = value {
                layered.records += 1;
                layered.bytes += bytes.len() as u64;
            }
        }
        let (id, budget) = (volume.id, &self.shared.budget);
        budget.open(id, &state.dataset, standing, layered);
        budget.set_limits(id, state.dataset.quota, state.dataset.reservation);
    }

    /// Bytes of destroyed datasets that are not freed yet, about.
    pub(in crate::owner) fn bytes_left(&self) -> u64 {
        let left = self.destroyer.pending().filter_map(|job| job.left());
        let left = left.map(|left| match left {
            Freeing::Tree { left, .. } => left,
            // a destroyed clone's deadlist is emptied: its origin holds the blocks
            Freeing::List { prev, .. } if prev.floor == NEVER => 0,
            Freeing::List { list, .. } => self.deadlists.bytes(list),
        });
        left.sum()
    }

    fn pool_space(&self) -> PoolSpace {
        let space = self.allocator.space();
        let used = space.used();
        let left = self.bytes_left().min(used);
        PoolSpace {
            size: space.size(),
            used: used - left,
            freeing: space.pending() + left,
            free: space.free_bytes(),
            reserved: self.shared.budget.reserved(),
        }
    }
}

/// Memory for maps of used space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceMaps {
    /// Regions that are loaded.
    pub loaded: u64,
    /// Bytes of memory, about.
    pub bytes: u64,
}

impl Pool {
    /// The memory for maps of used space.
    #[must_use]
    pub fn space_maps(&self) -> SpaceMaps {
        let state = self.owner.state.borrow();
        let space = state.allocator.space();
        SpaceMaps {
            loaded: space.loaded() as u64,
            bytes: space.memory(),
        }
    }

    /// The use of the pool's space.
    #[must_use]
    pub fn space(&self) -> PoolSpace {
        self.owner.state.borrow().pool_space()
    }

    /// The use of space by each volume, by name.
    #[must_use]
    pub fn volume_spaces(&self) -> BTreeMap<String, VolumeSpace> {
        let state = self.owner.state.borrow();
        let owned = state.owned();
        let volumes = state.datasets.volumes().map(|volume| {
            let id = volume.id;
            let inner = lock(&volume.state);
            let (dataset, held) = (&inner.dataset, inner.layers.held());
            let (used, reserved) = state.shared.budget.of(id);
            let space = VolumeSpace {
                used,
                by_snapshots: owned.get(&id).map_or(0, |o| o.by_snapshots),
                referenced: held.referenced,
                logical: held.logical,
                sizes: held.sizes,
                quota: dataset.quota,
                reservation: dataset.reservation,
                reserved,
            };
            (dataset.name.clone(), space)
        });
        volumes.collect()
    }

    /// Sets the most bytes that a volume and its snapshots may take, 0 for no limit, and the bytes that are kept free
    /// for them. Durable when this returns. A quota below the used bytes only stops writes.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NoSpace`] if the pool has less free space than the reservation,
    /// [`Error::OverQuota`] if the reservation is above the quota, [`Error::Device`].
    pub async fn set_limits(&self, name: &str, quota: u64, reservation: u64) -> Result<()> {
        let set = |state: &mut State| {
            let found = state.datasets.volume(name).cloned();
            let volume = found.ok_or(Error::NotFound)?;
            let id = volume.id;
            if quota != 0 && reservation > quota {
                return Err(Error::OverQuota);
            }
            if !state.shared.budget.may_reserve(id, reservation) {
                return Err(Error::NoSpace);
            }
            let mut dataset = volume.dataset();
            dataset.quota = quota;
            dataset.reservation = reservation;
            let changes = vec![(dataset_key(id), Some(dataset.encode()))];
            let ticket = state.change(Vec::new(), changes)?;
            state.datasets.set(id, dataset);
            state.shared.budget.set_limits(id, quota, reservation);
            Ok(((), ticket))
        };
        self.owner.change_durably(set).await
    }
}
