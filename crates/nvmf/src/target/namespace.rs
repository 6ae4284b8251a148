//! A namespace: a disk with an identity and reservations, and one connection's view of it.
//!
//! **Owns** [`Namespace`], shared by all shards. **Called by** the commands. **Invariants**: the data path takes no
//! lock while nobody holds a reservation, and none while the reservation does not change; a change of reservations that
//! persist is saved before it takes effect; changes are saved in their order.

use super::config::{NamespaceConfig, ReservationStore, TargetError};
use super::limits::NAMESPACES_MAX;
use super::reservation::{Access, Refusal, Reservations};
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
    /// Held while a change is made and saved.
    changing: Mutex<()>,
}

/// Why a change of the reservations has not happened.
#[derive(Debug)]
pub(crate) enum NotChanged {
    /// The reservations do not allow it.
    Refused(Refusal),
    /// It could not be saved.
    Unsaved(std::io::Error),
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
            changing: Mutex::new(()),
        })
    }

    pub(crate) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change that is not to persist; the data path sees it from its next command on. `None`, and nothing has
    /// happened, if the change has to be saved or another one is being saved: then [`Namespace::change`] does it.
    pub(crate) fn change_unsaved<T>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, Refusal>,
    ) -> Option<Result<T, Refusal>> {
        let _turn = self.changing.try_lock().ok()?;
        let mut next = self.reservations().clone();
        let before = next.persists();
        let result = change(&mut next);
        if result.is_ok() {
            if before || next.persists() {
                return None;
            }
            self.commit(next);
        }
        Some(result)
    }

    /// Applies a change, saved first if it is to persist: a change that cannot be saved has not happened. Blocks. Errors:
    /// the reservations refuse it, or it cannot be saved.
    pub(crate) fn change<T>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, Refusal>,
    ) -> Result<T, NotChanged> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.reservations().clone();
        let mut next = current.clone();
        let result = change(&mut next).map_err(NotChanged::Refused)?;
        if current.persists() || next.persists() {
            self.store.save(&next.to_bytes()).map_err(|e| {
                // Part of it may be on the medium: what holds is to be found after a restart.
                if let Err(again) = self.store.save(&current.to_bytes()) {
                    tracing::error!(nsid = %self.nsid, error = %again, "reservations may be damaged on the medium");
                }
                NotChanged::Unsaved(e)
            })?;
        }
        self.commit(next);
        Ok(result)
    }

    fn commit(&self, next: Reservations) {
        *self.reservations() = next;
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
