//! A namespace: a disk with an identity and reservations, and one connection's view of it.
//!
//! **Owns** [`Namespace`], shared by all shards. **Called by** the commands. **Invariants**: the data path takes no
//! lock while nobody holds a reservation, and none while the reservation does not change; what is saved of the
//! reservations is never older than what was saved before.

use super::config::{NamespaceConfig, ReservationStore, TargetError};
use super::limits::NAMESPACES_MAX;
use super::reservation::{Access, Reservations};
use crate::wire::command::Nsid;
use crate::wire::nqn::HostId;
use backend::{BlockBackend, StorageError};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// A namespace as all shards share it.
pub(crate) struct Namespace {
    pub(crate) nsid: Nsid,
    pub(crate) uuid: Uuid,
    pub(crate) backend: Arc<dyn BlockBackend>,
    reservations: Mutex<Reservations>,
    /// Changes whenever the reservations do.
    epoch: AtomicU64,
    store: Arc<dyn ReservationStore>,
    saving: Mutex<()>,
}

impl Namespace {
    /// Checks the ID and loads the reservations that were kept.
    pub(crate) fn new(config: NamespaceConfig) -> Result<Namespace, TargetError> {
        if config.nsid == 0 || config.nsid > NAMESPACES_MAX {
            return Err(TargetError::InvalidNsid(config.nsid));
        }
        let reservations = match config.reservations.load() {
            None => Reservations::default(),
            Some(bytes) => {
                Reservations::parse(&bytes).ok_or(TargetError::DamagedReservations(config.nsid))?
            }
        };
        Ok(Namespace {
            nsid: Nsid(config.nsid),
            uuid: config.uuid,
            backend: config.backend,
            reservations: Mutex::new(reservations),
            epoch: AtomicU64::new(1),
            store: config.reservations,
            saving: Mutex::new(()),
        })
    }

    pub(crate) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change; the data path sees it from its next command on.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Reservations) -> T) -> T {
        let mut r = self.reservations();
        let result = change(&mut r);
        self.epoch.fetch_add(1, Ordering::SeqCst);
        result
    }

    /// Saves the reservations as they are now. Blocks.
    pub(crate) fn save(&self) -> std::io::Result<()> {
        let _turn = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.reservations().to_bytes();
        self.store.save(&bytes)
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
