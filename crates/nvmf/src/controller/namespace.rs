//! Namespaces: disks with an identity and reservations.
//!
//! **Owns** [`Namespace`], shared by all shards. **Called by** control calls and by the commands. **Invariants**: a change of
//! reservations changes the epoch, so that the data path takes the lock only after a change.

use super::config::{NamespaceConfig, TargetError};
use super::limits::NAMESPACES_MAX;
use super::reservation::{Refusal, Reservations};
use crate::wire::command::Nsid;
use backend::{BlockBackend, StorageError};
use session::reservation::{Damaged, NotChanged, SavedReservations};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use uuid::Uuid;

/// A namespace as all shards share it.
pub(crate) struct Namespace {
    pub(crate) nsid: Nsid,
    pub(crate) uuid: Uuid,
    pub(crate) backend: Arc<dyn BlockBackend>,
    reservations: SavedReservations<Reservations>,
    /// A number that changes with the reservations.
    epoch: AtomicU64,
}

impl Namespace {
    /// Checks the ID and loads the saved reservations. Errors: `InvalidNsid`, `DamagedReservations`.
    pub(crate) fn new(config: NamespaceConfig) -> Result<Namespace, TargetError> {
        if config.nsid == 0 || config.nsid > NAMESPACES_MAX {
            return Err(TargetError::InvalidNsid(config.nsid));
        }
        let reservations =
            SavedReservations::load(config.reservations).map_err(|Damaged(place)| {
                TargetError::DamagedReservations {
                    nsid: config.nsid,
                    place,
                }
            })?;
        Ok(Namespace {
            nsid: Nsid(config.nsid),
            uuid: config.uuid,
            backend: config.backend,
            reservations,
            epoch: AtomicU64::new(1),
        })
    }

    /// The reservations now.
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
    pub(crate) fn change<T, E>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, E>,
    ) -> Result<T, NotChanged<E>> {
        self.reservations.change(change, |_| self.next_epoch())
    }

    /// A number that changes with the reservations.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

/// The smallest power of two that a block size is, for LBADS.
pub(crate) fn block_shift(block_size: u32) -> u8 {
    block_size.max(1).ilog2() as u8
}

/// Blocks in use, for Identify. All blocks if the backend cannot tell.
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
