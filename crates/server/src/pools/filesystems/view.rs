//! Views of filesystems and their mounts.
//!
//! **Called by** the control API and the metrics. **Invariants**: read-only.

use super::registry::{MountEntry, MountState};
use crate::api::{self, DiskState, HeldObject};
use crate::pools::entry::{filesystems_of, full_name};
use crate::pools::names::by_hierarchy;
use crate::server::{Holdings, Server};
use crate::{Error, Result};
use pool::filesystem::Store;
use pool::{Pool, Volume, VolumeSpace};

impl Server {
    /// The filesystems as they are now.
    #[must_use]
    pub fn filesystems(&self) -> Vec<api::Filesystem> {
        let state = self.state.borrow();
        let mut out = Vec::new();
        for (name, pool) in state.pools.all_open() {
            let spaces = pool.volume_spaces();
            for dataset in filesystems_of(pool) {
                let space = spaces.get(&dataset.dataset().name).copied();
                out.push(state.filesystem(name, pool, &dataset, space.unwrap_or_default()));
            }
        }
        out.sort_by(|a: &api::Filesystem, b| by_hierarchy(&a.name, &b.name));
        out
    }

    pub(in crate::pools) fn filesystem_view(&self, name: &str) -> Result<api::Filesystem> {
        let found = self.filesystems().into_iter().find(|f| f.name == name);
        found.ok_or_else(|| Error::NoFilesystem(name.to_owned()))
    }

    /// Counters of each mount, by filesystem.
    #[must_use]
    pub fn mount_totals(&self) -> Vec<(String, fuse::MountTotals)> {
        let state = self.state.borrow();
        let totals = |(name, entry): (&String, &MountEntry)| match &entry.state {
            MountState::Mounted(mounted) => Some((name.clone(), mounted.mount.totals())),
            MountState::Opening | MountState::Held { .. } => None,
        };
        state.filesystems.mounts.iter().filter_map(totals).collect()
    }
}

impl Holdings {
    fn filesystem(
        &self,
        pool_name: &str,
        pool: &Pool,
        of: &Volume,
        space: VolumeSpace,
    ) -> api::Filesystem {
        let dataset = of.dataset();
        let origin = pool.origin(of);
        let store = pool.filesystem(&dataset.name);
        let name = full_name(pool_name, &dataset.name);
        api::Filesystem {
            mount: self.mount_view(&name),
            name,
            used: space.used,
            by_snapshots: space.by_snapshots,
            referenced: space.referenced,
            logical: space.logical,
            available: store.map_or(0, |store| store.space().available),
            quota: space.quota,
            reservation: space.reservation,
            origin: origin.map(|(of, name)| format!("{}@{name}", full_name(pool_name, &of))),
            record_size: dataset.file_record_size,
            sync: dataset.sync.into(),
            compression: dataset.compression.to_string(),
            checksum: dataset.checksum.to_string(),
            created_ms: dataset.created / 1_000_000,
        }
    }

    fn mount_view(&self, full: &str) -> Option<api::Mount> {
        let config = self.file.config().mount_of(full)?;
        let mut view = api::Mount {
            at: config.at.clone(),
            state: DiskState::Opening,
            reason: None,
            options: config.options,
            open_files: 0,
        };
        match self.filesystems.mounts.get(full).map(|entry| &entry.state) {
            None | Some(MountState::Opening) => {}
            Some(MountState::Held { reason, .. }) => {
                view.state = DiskState::Held;
                view.reason = Some(reason.clone());
            }
            Some(MountState::Mounted(mounted)) => {
                view.state = DiskState::Online;
                view.open_files = mounted.mount.totals().open_files;
            }
        }
        Some(view)
    }

    /// The filesystems that could not be mounted.
    pub(crate) fn held_mounts(&self) -> impl Iterator<Item = HeldObject> {
        let mounts = self.filesystems.mounts.iter();
        mounts.filter_map(|(name, entry)| match &entry.state {
            MountState::Held { reason, .. } => Some(HeldObject {
                name: name.clone(),
                reason: reason.clone(),
            }),
            MountState::Opening | MountState::Mounted(_) => None,
        })
    }

    /// A warning for each filesystem that is not mounted.
    pub(crate) fn mount_warnings(&self) -> Vec<String> {
        let warning = |(name, entry): (&String, &MountEntry)| match &entry.state {
            MountState::Held { reason, .. } => {
                Some(format!("the filesystem {name:?} is not mounted: {reason}"))
            }
            MountState::Opening | MountState::Mounted(_) => None,
        };
        self.filesystems.mounts.iter().filter_map(warning).collect()
    }
}
