//! A SCSI target device: its logical units, target ports and nexuses.
//!
//! **Owns** [`Device`], shared by all shards. **Called by** transports and the server. **Invariants**: every change
//! that concerns initiators raises a unit attention condition for each of their nexuses; a nexus that was logged out
//! has no reservation by RESERVE and prevents no removal.

use crate::attention::Attentions;
use crate::command::Command;
use crate::limits::{NEXUSES_MAX, TARGET_PORTS_MAX, UNITS_MAX};
use crate::nexus::{InitiatorPort, Nexus, NexusId, TaskAborter};
use crate::sense::{Asc, Sense};
use crate::status::{Refusal, Residual};
use crate::task::{ExpectedLength, Outcome, Task, TaskAttribute, TaskManagement, Transfer};
use crate::unit::{Lun, Unit};
use backend::{BlockBackend, Usage};
use session::reservation::ReservationStore;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use thiserror::Error;
use uuid::Uuid;

/// Why a device refused a change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The number of a logical unit is in use.
    #[error("LUN {0} is taken")]
    LunTaken(u16),
    /// There is no logical unit of this number.
    #[error("there is no LUN {0}")]
    NoSuchLun(u16),
    /// A limit is reached.
    #[error("no room for more {0}")]
    Full(&'static str),
    /// The stored reservations cannot be read.
    #[error("the stored reservations of LUN {0} are damaged")]
    DamagedReservations(u16),
    /// There is no target port with this relative identifier.
    #[error("there is no target port {0}")]
    NoSuchPort(u16),
    /// A relative target port identifier is zero or appears twice.
    #[error("target port {0} is zero or occurs twice")]
    InvalidPort(u16),
}

/// A target port: for iSCSI a portal group of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetPort {
    /// RELATIVE TARGET PORT IDENTIFIER, 1 or more.
    pub relative: u16,
    /// Portal group tag, part of the port's name.
    pub portal_group: u16,
    /// TARGET PORT GROUP.
    pub group: u16,
}

/// A device's identity.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// The target's name (for iSCSI `iqn.…`), 223 bytes at most.
    pub name: String,
    /// T10 VENDOR IDENTIFICATION, truncated to 8 ASCII characters.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, truncated to 16.
    pub product: String,
    /// PRODUCT REVISION LEVEL, truncated to 4.
    pub revision: String,
    /// The target ports; they can change later.
    pub ports: Vec<TargetPort>,
}

/// A logical unit.
pub struct UnitConfig {
    /// The disk.
    pub backend: Arc<dyn BlockBackend>,
    /// Identity of the disk, the same in every export.
    pub uuid: Uuid,
    /// UNIT SERIAL NUMBER, ASCII, 32 characters at most.
    pub serial: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Keeps persistent reservations.
    pub reservations: Arc<dyn ReservationStore>,
    /// Used space, percent of the size, at which initiators are warned (thin provisioning threshold).
    pub threshold_percent: Option<u8>,
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
            let mut units = self.units.write().unwrap_or_else(PoisonError::into_inner);
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
            let mut units = self.units.write().unwrap_or_else(PoisonError::into_inner);
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

    /// The LUNs, in order.
    #[must_use]
    pub fn luns(&self) -> Vec<Lun> {
        let units = self.units.read().unwrap_or_else(PoisonError::into_inner);
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

    /// Checks a command before any data moves. Errors: the outcome of a command that is refused at once.
    pub fn accept(
        self: &Arc<Device>,
        nexus: &Arc<Nexus>,
        lun: [u8; 8],
        cdb: &[u8],
        attribute: TaskAttribute,
        expected: ExpectedLength,
    ) -> Result<Task, Outcome> {
        let unit = Lun::parse(lun).and_then(|lun| self.unit(lun));
        let descriptor = unit.as_ref().is_some_and(|u| u.descriptor_sense());
        let nothing_moved = Residual::of(0, expected.read.max(expected.write));
        let refuse = |r: Refusal| Outcome::refused(r, descriptor, nothing_moved);
        let command = Command::parse(cdb);
        if let Some(unit) = &unit {
            self.notice_geometry(unit);
            let reports = command.as_ref().map_or(true, Command::reports_attentions);
            if let Some(asc) = reports.then(|| nexus.attentions.take(unit.lun.0)).flatten() {
                return Err(refuse(Sense::attention(asc).into()));
            }
        }
        let command = match command {
            Ok(c) if unit.is_some() || c.needs_no_unit() => c,
            Ok(_) => {
                return Err(refuse(
                    Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED).into(),
                ));
            }
            Err(sense) => return Err(refuse(sense.into())),
        };
        if attribute == TaskAttribute::Aca {
            return Err(refuse(
                Sense::illegal(Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT).into(),
            ));
        }
        let task = Task {
            device: self.clone(),
            nexus: nexus.clone(),
            unit,
            command,
            expected,
            transfer: Transfer::None,
            wanted: 0,
            done: 0,
            place: None,
        };
        let transfer = crate::commands::check(&task).map_err(refuse)?;
        let wanted = match transfer {
            Transfer::Out(n) => n,
            Transfer::None | Transfer::In(_) => 0,
        };
        if expected.write < wanted && task.command.may_be_cut() {
            return Ok(task.cut(wanted).placed(attribute));
        }
        let asc = if expected.write < wanted {
            Some(Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
        } else if expected.write > wanted && task.command.is_exact() {
            Some(Asc::INVALID_FIELD_IN_CDB)
        } else {
            None
        };
        if let Some(asc) = asc {
            let residual = Residual::of(u64::from(wanted), expected.write);
            return Err(Outcome::refused(
                Sense::illegal(asc).into(),
                descriptor,
                residual,
            ));
        }
        let task = Task {
            transfer,
            wanted,
            ..task
        };
        Ok(task.placed(attribute))
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
        let units = self.units.read().unwrap_or_else(PoisonError::into_inner);
        units.get(&lun.0).cloned()
    }

    pub(crate) fn units(&self) -> Vec<Arc<Unit>> {
        let units = self.units.read().unwrap_or_else(PoisonError::into_inner);
        units.values().cloned().collect()
    }

    pub(crate) fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.nexuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nexuses; the lock is released on return.
    pub(crate) fn nexuses(&self) -> Vec<Arc<Nexus>> {
        self.lock_nexuses()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn notice_geometry(&self, unit: &Unit) {
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
