//! Handle of an open disk on either driver.
//!
//! **Called by** [`super::Disk`] and by the drivers. **Invariants**: the only place that tells real disks from simulated ones.
//! Without the feature `sim` a simulated disk is a type without values, so the compiler drops its branches.

use super::info::{DiskInfo, OpenOptions};
use crate::linux::{self, LinuxDisk};
use crate::runtime::blocking;
use crate::sim::SimulatedDisk;
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// A disk of either driver.
pub(crate) enum Handle {
    Linux(LinuxDisk),
    Sim(SimulatedDisk),
}

impl Handle {
    /// See [`super::Disk::open`].
    pub(super) async fn open(path: PathBuf, options: OpenOptions) -> Result<(Handle, DiskInfo)> {
        if let Some(opened) = SimulatedDisk::open(&path, &options) {
            return opened.map(|(disk, info)| (Handle::Sim(disk), info));
        }
        let opened = blocking(move || linux::open_disk(&path, &options)).await?;
        opened.map(|(disk, info)| (Handle::Linux(disk), info))
    }

    /// The disk of the Linux driver. Panics on a simulated disk.
    pub(crate) fn linux(&self) -> &LinuxDisk {
        match self {
            Handle::Linux(d) => d,
            Handle::Sim(_) => unreachable!("a simulated disk never reaches the real driver"),
        }
    }

    /// The simulator's disk. Panics on a real disk.
    #[cfg(feature = "sim")]
    pub(crate) fn sim(&self) -> &SimulatedDisk {
        match self {
            Handle::Sim(d) => d,
            Handle::Linux(_) => unreachable!("a real disk never reaches the simulator"),
        }
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self, Handle::Linux(_))
    }

    /// Runs a rare call that may block: on a real disk on a helper thread, on a simulated one at once.
    pub(super) async fn set_up<T: Send + 'static>(
        self: &Arc<Self>,
        real: impl FnOnce(&LinuxDisk) -> Result<T> + Send + 'static,
        simulated: impl FnOnce(&SimulatedDisk) -> Result<T>,
    ) -> Result<T> {
        if let Handle::Sim(d) = &**self {
            return simulated(d);
        }
        let h = self.clone();
        blocking(move || match &*h {
            Handle::Linux(d) => real(d),
            Handle::Sim(_) => Err(Error::Cancelled),
        })
        .await?
    }
}
