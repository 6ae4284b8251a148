//! A SCSI target device: its logical units, target ports and nexuses.
//!
//! **Owns** [`Device`], shared by all shards. **Called by** transports and the server. **Invariants**: every change
//! that concerns initiators raises a unit attention condition for each of their nexuses; a nexus that was logged out
//! has no reservation by RESERVE and prevents no removal.

use crate::attention::Attentions;
use crate::config::{DeviceConfig, DeviceError, TargetPort, UnitConfig};
use crate::limits::{NEXUSES_MAX, TARGET_PORTS_MAX, UNITS_MAX};
use crate::lun::Lun;
use crate::nexus::{InitiatorPort, Nexus, NexusId, TaskAborter};
use crate::reservation::{Notices, Registrant, Reservations};
use crate::sense::Asc;
use crate::unit::Unit;
use backend::Usage;
use io::sync::{lock, read, write};
use session::reservation::{NotChanged, RegisteredClient, Reserved};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

/// Task management functions that a device handles (SAM-5 7). The transport handles ABORT TASK and QUERY TASK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskManagement {
    /// Every task of this nexus in the logical unit.
    AbortTaskSet,
    /// Every task of every nexus in the logical unit.
    ClearTaskSet,
    /// The state of the logical unit after power on; reservations by RESERVE end, persistent ones stay.
    LogicalUnitReset,
    /// A reset of every logical unit.
    TargetReset,
}

/// Asymmetric access states of target port groups (SPC-4 5.15.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AccessState {
    ActiveOptimized = 0,
    ActiveNonOptimized = 1,
    Standby = 2,
    Unavailable = 3,
}

impl AccessState {
    pub(crate) fn from_code(code: u8) -> Option<AccessState> {
        [
            AccessState::ActiveOptimized,
            AccessState::ActiveNonOptimized,
            AccessState::Standby,
            AccessState::Unavailable,
        ]
        .into_iter()
        .find(|s| *s as u8 == code)
    }
}

/// The target ports and the states of their groups; a group without an entry is active/optimized.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) ports: Vec<TargetPort>,
    pub(crate) states: BTreeMap<u16, AccessState>,
}

impl Ports {
    pub(crate) fn state(&self, group: u16) -> AccessState {
        self.states
            .get(&group)
            .copied()
            .unwrap_or(AccessState::ActiveOptimized)
    }

    pub(crate) fn port(&self, relative: u16) -> Option<&TargetPort> {
        self.ports.iter().find(|p| p.relative == relative)
    }
}

/// A SCSI target device.
pub struct Device {
    pub(crate) config: DeviceConfig,
    units: RwLock<BTreeMap<u16, Arc<Unit>>>,
    nexuses: Mutex<BTreeMap<NexusId, Weak<Nexus>>>,
    next_nexus: AtomicU64,
    ports: Mutex<Ports>,
    /// Whether some target port group is not active/optimized.
    asymmetric: AtomicBool,
}

fn check_ports(ports: &[TargetPort]) -> Result<(), DeviceError> {
    if ports.len() > TARGET_PORTS_MAX {
        return Err(DeviceError::Full("target ports"));
    }
    for (i, p) in ports.iter().enumerate() {
        if p.relative == 0 || ports[..i].iter().any(|q| q.relative == p.relative) {
            return Err(DeviceError::InvalidPort(p.relative));
        }
    }
    Ok(())
}

impl Device {
    /// A device without logical units. Errors: `InvalidPort`, `Full`.
    pub fn new(config: DeviceConfig) -> Result<Arc<Device>, DeviceError> {
        check_ports(&config.ports)?;
        let ports = Ports {
            ports: config.ports.clone(),
            states: BTreeMap::new(),
        };
        Ok(Arc::new(Device {
            config,
            units: RwLock::default(),
            nexuses: Mutex::default(),
            next_nexus: AtomicU64::new(1),
            ports: Mutex::new(ports),
            asymmetric: AtomicBool::new(false),
        }))
    }

    /// Replaces the target ports. Nexuses at removed ports stay until they are logged out. Errors: `InvalidPort`,
    /// `Full`.
    pub fn set_ports(&self, ports: Vec<TargetPort>) -> Result<(), DeviceError> {
        check_ports(&ports)?;
        self.ports().ports = ports;
        self.raise_on_all(Asc::ASYMMETRIC_ACCESS_STATE_CHANGED, None);
        Ok(())
    }

    /// Adds a logical unit, and notifies every nexus that the LUNs have changed. May block (reads the reservations).
    /// Errors: `LunTaken`, `Full`, `DamagedReservations`.
    pub fn add_unit(&self, lun: Lun, config: UnitConfig) -> Result<(), DeviceError> {
        let unit = Arc::new(Unit::new(lun, config)?);
        {
            let mut units = write(&self.units);
            if units.contains_key(&lun.0) {
                return Err(DeviceError::LunTaken(lun.0));
            }
            if units.len() >= UNITS_MAX {
                return Err(DeviceError::Full("logical units"));
            }
            units.insert(lun.0, unit);
        }
        for nexus in self.nexuses() {
            nexus.attentions.forget(lun.0);
        }
        self.raise_on_all(Asc::REPORTED_LUNS_CHANGED, None);
        Ok(())
    }

    /// Removes a logical unit. Commands in flight end normally. Errors: `NoSuchLun`.
    pub fn remove_unit(&self, lun: Lun) -> Result<(), DeviceError> {
        let gone = {
            let mut units = write(&self.units);
            units.remove(&lun.0)
        };
        gone.ok_or(DeviceError::NoSuchLun(lun.0))?;
        for nexus in self.nexuses() {
            nexus.attentions.forget(lun.0);
        }
        self.raise_on_all(Asc::REPORTED_LUNS_CHANGED, None);
        Ok(())
    }

    /// Notifies every nexus that a unit's size has changed. Without this call each is notified by its next command.
    /// Errors: `NoSuchLun`.
    pub fn unit_resized(&self, lun: Lun) -> Result<(), DeviceError> {
        let unit = self.unit(lun).ok_or(DeviceError::NoSuchLun(lun.0))?;
        self.notice_geometry(&unit);
        Ok(())
    }

    /// Compares the used space of a unit, and of the space that it shares with others, with its threshold, and warns
    /// every nexus once when it is reached. The server calls it periodically. Errors: `NoSuchLun`; a backend without
    /// usage information counts as empty.
    pub async fn check_threshold(
        &self,
        lun: Lun,
        shared: Option<Usage>,
    ) -> Result<(), DeviceError> {
        let unit = self.unit(lun).ok_or(DeviceError::NoSuchLun(lun.0))?;
        if unit.threshold_percent == 0 {
            return Ok(());
        }
        let Ok(usage) = unit.backend.usage().await else {
            return Ok(());
        };
        let is_reached = |u: Usage| {
            let limit = u128::from(u.provisioned) * u128::from(unit.threshold_percent) / 100;
            u128::from(u.used) >= limit
        };
        let reached = is_reached(usage) || shared.is_some_and(is_reached);
        if reached && !unit.threshold_reached.swap(reached, Ordering::AcqRel) {
            self.raise_on_unit(lun, Asc::THIN_PROVISIONING_THRESHOLD_REACHED, None);
        }
        unit.threshold_reached.store(reached, Ordering::Release);
        Ok(())
    }

    /// The reservations of a unit: persistent ones, and that by RESERVE (SPC-2), whose holder has no key. Errors: `NoSuchLun`.
    pub fn reservations(&self, lun: Lun) -> Result<Reserved, DeviceError> {
        let unit = self.unit(lun).ok_or(DeviceError::NoSuchLun(lun.0))?;
        let mut view = unit.reservations().view();
        if let Some(id) = unit.reserved_by() {
            let holder = self.nexuses().into_iter().find(|nexus| nexus.id == id);
            view.kind = Some("RESERVE of SPC-2");
            view.registrants
                .extend(holder.map(|nexus| RegisteredClient {
                    client: nexus.initiator.to_string(),
                    key: 0,
                    is_holder: true,
                }));
        }
        Ok(view)
    }

    /// Ends all registrations of a unit and its reservation, without a key; the initiators that lose them are told as by CLEAR (SPC-4
    /// 5.13.11.6). Blocks. Errors: `NoSuchLun`, `UnsavedReservations`.
    pub fn clear_reservations(&self, lun: Lun) -> Result<(), DeviceError> {
        let unit = self.unit(lun).ok_or(DeviceError::NoSuchLun(lun.0))?;
        let clear = |r: &mut Reservations| Ok::<_, Infallible>(r.clear_all());
        let notices = unit.change(&clear).map_err(|e| match e {
            NotChanged::Unsaved(e) => DeviceError::UnsavedReservations {
                lun: lun.0,
                reason: e.to_string(),
            },
        })?;
        unit.end_reserve();
        self.notify(lun, &notices, None);
        Ok(())
    }

    /// Raises the conditions of a change of reservations for the registrants in `notices`, but not for the nexus `but`.
    pub(crate) fn notify(&self, lun: Lun, notices: &Notices, but: Option<NexusId>) {
        for nexus in self.nexuses().iter().filter(|n| Some(n.id) != but) {
            let registrant = Registrant::of(nexus);
            for (_, asc) in notices.iter().filter(|(told, _)| *told == registrant) {
                nexus.attentions.raise(lun.0, *asc);
            }
        }
    }

    /// The LUNs, in order.
    #[must_use]
    pub fn luns(&self) -> Vec<Lun> {
        let units = read(&self.units);
        units.keys().map(|n| Lun(*n)).collect()
    }

    /// The target's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Begins a nexus: the initiator gets a power on or reset attention on every logical unit. The transport logs it
    /// out ([`Device::logout`]) at its end, and keeps at most one per initiator port and target port. Errors:
    /// `NoSuchPort`, `Full`.
    pub fn login(
        &self,
        initiator: InitiatorPort,
        relative_target_port: u16,
        aborter: Arc<dyn TaskAborter>,
    ) -> Result<Arc<Nexus>, DeviceError> {
        if self.ports().port(relative_target_port).is_none() {
            return Err(DeviceError::NoSuchPort(relative_target_port));
        }
        let nexus = Arc::new(Nexus {
            id: NexusId(self.next_nexus.fetch_add(1, Ordering::Relaxed)),
            initiator,
            port: relative_target_port,
            attentions: Attentions::default(),
            aborter,
        });
        let mut nexuses = self.lock_nexuses();
        nexuses.retain(|_, n| n.strong_count() > 0);
        if nexuses.len() >= NEXUSES_MAX {
            return Err(DeviceError::Full("nexuses"));
        }
        for lun in self.luns() {
            nexus.attentions.raise(lun.0, Asc::POWER_ON_OR_RESET);
        }
        nexuses.insert(nexus.id, Arc::downgrade(&nexus));
        Ok(nexus)
    }

    /// Ends a nexus, after a logout or a failure: its reservations by RESERVE and its prevention of medium removal
    /// end.
    pub fn logout(&self, nexus: &Nexus) {
        self.lock_nexuses().remove(&nexus.id);
        for unit in self.units() {
            unit.nexus_lost(nexus.id);
        }
    }

    /// A task management function requested by `nexus`. Tasks of other nexuses are aborted through their
    /// [`TaskAborter`]; the transport aborts the requester's own tasks before this call. Errors: `NoSuchLun` (a LUN
    /// of eight zero bytes is accepted for `TargetReset`).
    pub fn task_management(
        &self,
        nexus: &Nexus,
        function: TaskManagement,
        lun: [u8; 8],
    ) -> Result<(), DeviceError> {
        if function == TaskManagement::TargetReset {
            for unit in self.units() {
                self.reset_unit(nexus, &unit, Asc::POWER_ON_OR_RESET);
            }
            return Ok(());
        }
        let number = u16::from_be_bytes([lun[0], lun[1]]);
        let unit = Lun::parse(lun)
            .and_then(|lun| self.unit(lun))
            .ok_or(DeviceError::NoSuchLun(number))?;
        match function {
            TaskManagement::AbortTaskSet | TaskManagement::TargetReset => {}
            TaskManagement::ClearTaskSet => {
                let tas = unit.task_aborted_status();
                self.abort_others(nexus.id, &unit);
                if !tas {
                    let asc = Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR;
                    self.raise_on_unit(unit.lun, asc, Some(nexus.id));
                }
            }
            TaskManagement::LogicalUnitReset => {
                self.reset_unit(nexus, &unit, Asc::BUS_DEVICE_RESET);
            }
        }
        Ok(())
    }

    fn reset_unit(&self, nexus: &Nexus, unit: &Unit, asc: Asc) {
        self.abort_others(nexus.id, unit);
        unit.reset();
        self.raise_on_unit(unit.lun, asc, None);
    }

    fn abort_others(&self, but: NexusId, unit: &Unit) {
        let tas = unit.task_aborted_status();
        for other in self.nexuses().iter().filter(|n| n.id != but) {
            other.aborter.abort_tasks(Some(unit.lun), tas);
        }
    }

    pub(crate) fn unit(&self, lun: Lun) -> Option<Arc<Unit>> {
        let units = read(&self.units);
        units.get(&lun.0).cloned()
    }

    pub(crate) fn units(&self) -> Vec<Arc<Unit>> {
        let units = read(&self.units);
        units.values().cloned().collect()
    }

    pub(crate) fn ports(&self) -> MutexGuard<'_, Ports> {
        lock(&self.ports)
    }

    /// The access state of a nexus's target port group; costs nothing while all are active/optimized.
    pub(crate) fn access_state(&self, nexus: &Nexus) -> AccessState {
        if !self.asymmetric.load(Ordering::Acquire) {
            return AccessState::ActiveOptimized;
        }
        let ports = self.ports();
        let group = ports.port(nexus.port).map(|p| p.group);
        group.map_or(AccessState::Unavailable, |g| ports.state(g))
    }

    /// Changes the states of target port groups, and notifies the other nexuses.
    pub(crate) fn set_access_states(&self, states: &[(u16, AccessState)], by: NexusId) {
        {
            let mut ports = self.ports();
            ports.states.extend(states.iter().copied());
            let asymmetric = ports
                .states
                .values()
                .any(|s| *s != AccessState::ActiveOptimized);
            self.asymmetric.store(asymmetric, Ordering::Release);
        }
        self.raise_on_all(Asc::ASYMMETRIC_ACCESS_STATE_CHANGED, Some(by));
    }

    fn lock_nexuses(&self) -> MutexGuard<'_, BTreeMap<NexusId, Weak<Nexus>>> {
        lock(&self.nexuses)
    }

    /// The nexuses; the lock is released on return.
    pub(crate) fn nexuses(&self) -> Vec<Arc<Nexus>> {
        self.lock_nexuses()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Notifies every nexus of a change of a unit's size.
    pub(crate) fn notice_geometry(&self, unit: &Unit) {
        if unit.geometry_changed() {
            self.raise_on_unit(unit.lun, Asc::CAPACITY_CHANGED, None);
        }
    }

    /// Raises a condition on a logical unit for every nexus but one.
    pub(crate) fn raise_on_unit(&self, lun: Lun, asc: Asc, but: Option<NexusId>) {
        for nexus in self.nexuses().iter().filter(|n| Some(n.id) != but) {
            nexus.attentions.raise(lun.0, asc);
        }
    }

    fn raise_on_all(&self, asc: Asc, but: Option<NexusId>) {
        for lun in self.luns() {
            self.raise_on_unit(lun, asc, but);
        }
    }
}
