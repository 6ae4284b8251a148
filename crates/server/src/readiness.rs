//! Readiness: hosts wait while the disks and pools behind an export are opened for the first time, or are missing after a start.
//!
//! A host that connects too early finds a subsystem without its namespaces, and a Linux host that reconnects after a
//! restart then removes the disk under its file system. So a subsystem answers Connect with Controller Busy, and a
//! target answers a login with Service Unavailable; hosts retry both. **Owns** the set of these subsystems and
//! targets. **Called by** the server, when it starts and when an opening ended. **Invariants**: each is held until
//! everything that it exports is open, or could not be opened until `server.disk_wait_s` after the start, and never again; discovery is
//! never held (decision 0345).
//! NVMe over Fabrics 3.3.2.3 (status 81h without Do Not Retry), RFC 7143 11.13.5 (status 0301h).

use crate::config::split_volume;
use crate::disks::DiskState;
use crate::pools::entry::PoolState;
use crate::server::{Holdings, Server};
use std::rc::Rc;

impl Holdings {
    /// Whether hosts wait for a disk, or for a volume's pool: it is being opened for the first time, or it `may_appear` and is held back.
    fn is_awaited(&self, disk: &str, may_appear: bool) -> bool {
        match split_volume(disk) {
            Some((pool, _)) => self.pools.state(pool).is_some_and(|state| match state {
                PoolState::Opening => true,
                PoolState::Held(_) => may_appear,
                PoolState::Online(_) => false,
            }),
            None => self.disks.state(disk).is_some_and(|state| match state {
                DiskState::Opening => true,
                DiskState::Held(_) => may_appear,
                DiskState::Online(_) => false,
            }),
        }
    }
}

impl Server {
    /// Whether a disk or a pool is being opened, or a filesystem mounted or exported, for the first time since the start.
    pub(crate) fn is_starting(&self) -> bool {
        let state = self.state.borrow();
        state.disks.is_one_opening()
            || state.pools.is_one_opening()
            || state.filesystems.is_one_opening()
    }

    /// Holds the subsystems and targets of disks and pools that hosts wait for, and no others.
    pub(crate) fn update_holds(&self) {
        let state = self.state.borrow();
        let config = state.file.config();
        let may_appear = io::time::now().since(self.started) < config.server.disk_wait;
        for exports in self.protocols.disk_exports() {
            exports.hold_hosts(config, &|disk| state.is_awaited(disk, may_appear));
        }
    }

    /// Ends the wait for disks that are missing after the start.
    pub(crate) async fn end_wait(self: Rc<Self>) {
        io::time::sleep(self.config().server.disk_wait).await;
        self.update_holds();
    }
}
