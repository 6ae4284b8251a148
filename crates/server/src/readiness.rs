//! Readiness: hosts wait while the disks and pools behind an export are opened for the first time.
//!
//! A host that connects too early finds a subsystem without its namespaces, and a Linux host that reconnects after a
//! restart then removes the disk under its file system. So a subsystem answers Connect with Controller Busy, and a
//! target answers a login with Service Unavailable; hosts retry both. **Owns** the set of these subsystems and
//! targets. **Called by** the server, when it starts and when an opening ended. **Invariants**: each is held until
//! the first opening of everything that it exports has ended, well or not, and never again; discovery is never held.
//! NVMe over Fabrics 3.3.2.3 (status 81h without Do Not Retry), RFC 7143 11.13.5 (status 0301h).

use crate::config::split_volume;
use crate::disks::{DiskEntry, DiskState};
use crate::pools::entry::{PoolEntry, PoolState};
use crate::pools::filesystems::{FilesystemExport, MountEntry, MountState};
use crate::server::{Server, State};

impl State {
    /// Whether a disk, or a volume's pool, is being opened for the first time.
    fn is_opening(&self, disk: &str) -> bool {
        match split_volume(disk) {
            Some((pool, _)) => {
                let entry = self.pools.get(pool);
                entry.is_some_and(|p| matches!(p.state, PoolState::Opening))
            }
            None => self.disks.get(disk).is_some_and(is_first),
        }
    }
}

fn is_first(disk: &DiskEntry) -> bool {
    matches!(disk.state, DiskState::Opening)
}

impl Server {
    /// Whether a disk or a pool is being opened, or a filesystem mounted or exported, for the first time since the start.
    pub(crate) fn is_starting(&self) -> bool {
        let state = self.state.borrow();
        let is_opening = |p: &PoolEntry| matches!(p.state, PoolState::Opening);
        let is_mounting = |m: &MountEntry| matches!(m.state, MountState::Opening);
        state.disks.values().any(is_first)
            || state.pools.values().any(is_opening)
            || state.mounts.values().any(is_mounting)
            || state
                .filesystem_exports
                .values()
                .any(FilesystemExport::is_opening)
    }

    /// Holds the subsystems and targets of disks and pools that are being opened, and no others.
    pub(crate) fn update_holds(&self) {
        let state = self.state.borrow();
        let config = state.file.config();
        for exports in self.protocols.disk_exports() {
            exports.hold(config, &|disk| state.is_opening(disk));
        }
    }
}
