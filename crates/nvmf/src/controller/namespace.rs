//! A namespace: a disk with an identity and reservations, and one connection's view of it.
//!
//! **Owns** [`Namespace`], shared by all shards. **Called by** the commands. **Invariants**: the data path takes no
//! lock while the reservations do not change.

use super::config::{NamespaceConfig, TargetError};
use super::limits::NAMESPACES_MAX;
use super::reservation::{Access, Refusal, Reservations};
use crate::wire::command::Nsid;
use crate::wire::nqn::HostId;
use backend::{BlockBackend, StorageError};
use session::reservation::{Damaged, NotChanged, SavedReservations};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use uuid::Uuid;

/// A namespace as all shards share it.
pub(crate) struct Namespace {
    pub(crate) nsid: Nsid,
    pub(crate) uuid: Uuid,
    pub(crate) backend: Arc<dyn BlockBackend>,
    reservations: SavedReservations<Reservations>,
    /// Changes whenever the reservations do.
    epoch: AtomicU64,
}

impl Namespace {
    /// Checks the ID and loads the reservations that were kept.
    pub(crate) fn new(config: NamespaceConfig) -> Result<Namespace, TargetError> {
        if config.nsid == 0 || config.nsid > NAMESPACES_MAX {
            return Err(TargetError::InvalidNsid(config.nsid));
        }
        let reservations = SavedReservations::load(config.reservations)
            .map_err(|Damaged| TargetError::DamagedReservations(config.nsid))?;
        Ok(Namespace {
            nsid: Nsid(config.nsid),
            uuid: config.uuid,
            backend: config.backend,
            reservations,
            epoch: AtomicU64::new(1),
        })
    }

    pub(crate) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.current()
    }

    /// Applies a change that does not persist; the data path sees it from its next command on. `None`, and nothing has
    /// happened, if [`Namespace::change`] must do it.
    pub(crate) fn change_unsaved<T>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, Refusal>,
    ) -> Option<Result<T, Refusal>> {
        self.reservations
            .change_unsaved(change, |_| self.next_epoch())
    }

    /// Applies a change, saved first if it persists. Blocks. Errors: the reservations refuse it, or it cannot be saved.
    pub(crate) fn change<T>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, Refusal>,
    ) -> Result<T, NotChanged<Refusal>> {
        self.reservations.change(change, |_| self.next_epoch())
    }

    fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

/// What one connection knows of a namespace.
pub(crate) struct NamespaceView {
    pub(crate) ns: Arc<Namespace>,
    host: HostId,
    epoch: Cell<u64>,
    access: Cell<Access>,
}

impl NamespaceView {
    pub(crate) fn new(ns: Arc<Namespace>, host: HostId) -> NamespaceView {
        NamespaceView {
            ns,
            host,
            epoch: Cell::new(0),
            access: Cell::new(Access::FULL),
        }
    }

    /// What the reservations let this connection's host do now.
    pub(crate) fn access(&self) -> Access {
        let epoch = self.ns.epoch.load(Ordering::SeqCst);
        if epoch != self.epoch.get() {
            // Read before the lock is taken: a later change is seen as a new epoch.
            self.access.set(self.ns.reservations().access(self.host));
            self.epoch.set(epoch);
        }
        self.access.get()
    }
}

/// The smallest power of two that a block size is, for LBADS.
pub(crate) fn block_shift(block_size: u32) -> u8 {
    block_size.max(1).ilog2() as u8
}

/// The first backend error that a usage request may meet is not worth failing an Identify: report all as used.
pub(crate) fn used_blocks(
    result: Result<backend::Usage, StorageError>,
    g: &backend::Geometry,
) -> u64 {
    result
        .map_or(g.blocks, |u| {
            u.used.div_ceil(u64::from(g.block_size.max(1)))
        })
        .min(g.blocks)
}
