//! A logical unit: a disk with an identity, mode parameters and reservations.
//!
//! **Owns** [`Unit`], shared by all shards. **Called by** commands. **Invariants**: the data path takes no lock while
//! there is no reservation; mode parameters apply to all nexuses.

use crate::config::{DeviceError, UnitConfig};
use crate::copy_result::CopyResult;
use crate::limits::COPY_RESULTS_MAX;
use crate::lun::Lun;
use crate::nexus::{Nexus, NexusId};
use crate::reservation::{Access, Registrant, Reservations, ReserveError};
use crate::task_set::TaskSet;
use backend::{BlockBackend, Geometry};
use io::sync::lock;
use session::reservation::{Damaged, NotChanged, SavedReservations};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;

/// Changeable mode parameters (SPC-4 7.5.10, SBC-3 6.4.5).
#[derive(Debug, Default)]
pub(crate) struct Modes {
    /// Caching: writes may stay in a volatile cache.
    pub(crate) write_cache: AtomicBool,
    /// Control: descriptor format sense data.
    pub(crate) descriptor_sense: AtomicBool,
    /// Control: software write protect.
    pub(crate) software_write_protect: AtomicBool,
    /// Control: aborted tasks end with TASK ABORTED.
    pub(crate) task_aborted_status: AtomicBool,
}

impl Modes {
    fn reset(&self, volatile_cache: bool) {
        self.write_cache.store(volatile_cache, Ordering::Relaxed);
        self.descriptor_sense.store(false, Ordering::Relaxed);
        self.software_write_protect.store(false, Ordering::Relaxed);
        self.task_aborted_status.store(false, Ordering::Relaxed);
    }
}

/// A logical unit as all shards share it.
pub(crate) struct Unit {
    pub(crate) lun: Lun,
    pub(crate) backend: Arc<dyn BlockBackend>,
    pub(crate) uuid: Uuid,
    pub(crate) serial: String,
    pub(crate) modes: Modes,
    /// Used space, percent of the size, at which a warning is raised; 0 for none.
    pub(crate) threshold_percent: u8,
    pub(crate) threshold_reached: AtomicBool,
    read_only: bool,
    generation: AtomicU64,
    pub(crate) tasks: TaskSet,
    reservations: SavedReservations<Reservations>,
    /// There is a reservation, of any kind.
    held: AtomicBool,
    /// The nexus that holds the reservation by RESERVE.
    reserved_by: Mutex<Option<NexusId>>,
    /// Nexuses that prevent medium removal.
    pub(crate) preventing: Mutex<BTreeSet<NexusId>>,
    copies: Mutex<VecDeque<CopyResult>>,
}

impl Unit {
    /// Loads the stored reservations. Errors: `DamagedReservations`.
    pub(crate) fn new(lun: Lun, config: UnitConfig) -> Result<Unit, DeviceError> {
        let reservations = SavedReservations::<Reservations>::load(config.reservations)
            .map_err(|Damaged(place)| DeviceError::DamagedReservations { lun: lun.0, place })?;
        let held = reservations.current().kind().is_some();
        let unit = Unit {
            lun,
            uuid: config.uuid,
            serial: config.serial,
            modes: Modes::default(),
            threshold_percent: config.threshold_percent.unwrap_or(0).min(100),
            threshold_reached: AtomicBool::new(false),
            read_only: config.read_only,
            generation: AtomicU64::new(config.backend.generation()),
            held: AtomicBool::new(held),
            tasks: TaskSet::default(),
            reservations,
            reserved_by: Mutex::new(None),
            preventing: Mutex::default(),
            copies: Mutex::default(),
            backend: config.backend,
        };
        unit.modes.reset(unit.geometry().volatile_cache);
        Ok(unit)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.backend.geometry()
    }

    /// Whether writes are refused for all nexuses.
    pub(crate) fn is_write_protected(&self) -> bool {
        self.read_only || self.geometry().read_only || self.is_software_write_protected()
    }

    pub(crate) fn is_software_write_protected(&self) -> bool {
        self.modes.software_write_protect.load(Ordering::Relaxed)
    }

    pub(crate) fn descriptor_sense(&self) -> bool {
        self.modes.descriptor_sense.load(Ordering::Relaxed)
    }

    pub(crate) fn task_aborted_status(&self) -> bool {
        self.modes.task_aborted_status.load(Ordering::Relaxed)
    }

    /// Whether writes may be answered before they are on stable storage.
    pub(crate) fn write_cache(&self) -> bool {
        self.modes.write_cache.load(Ordering::Relaxed)
    }

    /// True once after each change of the geometry.
    pub(crate) fn geometry_changed(&self) -> bool {
        let now = self.backend.generation();
        self.generation.load(Ordering::Relaxed) != now
            && self.generation.swap(now, Ordering::AcqRel) != now
    }

    pub(crate) fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.current()
    }

    /// Applies a change of the persistent reservations that is not kept; the data path sees it from its next command on.
    /// `None`, and nothing has happened, if [`Unit::change`] must do it.
    pub(crate) fn change_unsaved<T>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, ReserveError>,
    ) -> Option<Result<T, ReserveError>> {
        self.reservations
            .change_unsaved(change, |r| self.note_holder(r))
    }

    /// Applies a change of the persistent reservations, saved first if it is kept. Blocks. Errors: the reservations refuse
    /// it, or it cannot be saved.
    pub(crate) fn change<T, E>(
        &self,
        change: &impl Fn(&mut Reservations) -> Result<T, E>,
    ) -> Result<T, NotChanged<E>> {
        self.reservations.change(change, |r| self.note_holder(r))
    }

    /// Stores whether there is a reservation, for the data path.
    fn note_holder(&self, r: &Reservations) {
        let held = r.kind().is_some() || lock(&self.reserved_by).is_some();
        self.held.store(held, Ordering::SeqCst);
    }

    /// Changes the holder of the reservation by RESERVE.
    fn change_reserved<T>(&self, change: impl FnOnce(&mut Option<NexusId>) -> T) -> T {
        let r = self.reservations();
        let result = change(&mut lock(&self.reserved_by));
        self.note_holder(&r);
        result
    }

    /// The permissions of a nexus.
    pub(crate) fn access(&self, nexus: &Nexus) -> Access {
        if !self.held.load(Ordering::SeqCst) {
            return Access::FULL;
        }
        let holder = *lock(&self.reserved_by);
        match holder {
            Some(holder) if holder != nexus.id => Access::LEGACY_CONFLICT,
            Some(_) => Access::FULL,
            None => self.reservations().access(&Registrant::of(nexus)),
        }
    }

    /// The nexus that holds the unit by RESERVE.
    pub(crate) fn reserved_by(&self) -> Option<NexusId> {
        *lock(&self.reserved_by)
    }

    /// Ends the reservation by RESERVE of any nexus.
    pub(crate) fn end_reserve(&self) {
        self.change_reserved(|holder| *holder = None);
    }

    /// RESERVE (SPC-2 7.21). False if another nexus has it.
    pub(crate) fn reserve(&self, nexus: NexusId) -> bool {
        self.change_reserved(|holder| {
            let free = holder.is_none_or(|h| h == nexus);
            if free {
                *holder = Some(nexus);
            }
            free
        })
    }

    /// RELEASE, or the end of the nexus: no effect unless it holds the reservation.
    pub(crate) fn release(&self, nexus: NexusId) {
        self.change_reserved(|holder| {
            if *holder == Some(nexus) {
                *holder = None;
            }
        });
    }

    /// Ends the reservation and the prevention of a lost nexus.
    pub(crate) fn nexus_lost(&self, nexus: NexusId) {
        self.release(nexus);
        lock(&self.preventing).remove(&nexus);
    }

    /// A logical unit reset (SAM-5 6.3.3): the state after power on, except for persistent reservations.
    pub(crate) fn reset(&self) {
        self.end_reserve();
        lock(&self.preventing).clear();
        self.modes.reset(self.geometry().volatile_cache);
    }

    /// Stores the result of a copy, for RECEIVE COPY RESULTS.
    pub(crate) fn remember_copy(&self, result: CopyResult) {
        let mut copies = lock(&self.copies);
        copies.retain(|c| !c.is_of(&result));
        if copies.len() >= COPY_RESULTS_MAX {
            copies.pop_front();
        }
        copies.push_back(result);
    }

    /// The result of the copy with this list identifier of this nexus.
    pub(crate) fn copy_result(&self, nexus: NexusId, list: u32) -> Option<CopyResult> {
        let copies = lock(&self.copies);
        copies
            .iter()
            .find(|c| c.nexus == nexus && c.list == list)
            .cloned()
    }
}
