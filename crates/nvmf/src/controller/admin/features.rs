//! Get Features and Set Features (Base 5.15, 5.27).
//!
//! **Owns** the features of one controller. **Invariants**: nothing is saved across resets but what reservations
//! keep, so SV is refused (Base 5.27: Feature Identifier Not Saveable), and the saved values are the defaults.

use crate::controller::association::{Controller, EVENTS};
use crate::controller::connection::Core;
use crate::controller::limits::KAS_100MS;
use crate::controller::reservation::Notice;
use crate::controller::status::Completion;
use crate::wire::command::{Nsid, Sqe};
use crate::wire::features::{
    AsyncEventConfig, FeatureCapabilities, HostBehavior, NumberOfQueues, ReservationMask, Select,
    Timestamp, fid,
};
use crate::wire::status::Status;
use io::Payload;
use io::time::Instant;
use session::reservation::Stored;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The values of one controller's features.
pub(crate) struct Features {
    arbitration: u32,
    power: u32,
    temperature: BTreeMap<u32, u32>,
    error_recovery: u32,
    pub(crate) async_events: AsyncEventConfig,
    pub(crate) io_queues: u16,
    timestamp: Option<(u64, Instant)>,
    host_behavior: HostBehavior,
    reservation_masks: BTreeMap<u32, ReservationMask>,
    write_atomicity: u32,
}

/// Temperature thresholds that can be told apart: nine sensors, over and under.
const THRESHOLDS_MAX: usize = 18;

impl Features {
    pub(crate) fn new(io_queues: u16) -> Features {
        Features {
            arbitration: 7,
            power: 0,
            temperature: BTreeMap::new(),
            error_recovery: 0,
            async_events: AsyncEventConfig::empty(),
            io_queues,
            timestamp: None,
            host_behavior: HostBehavior::new_zeroed(),
            reservation_masks: BTreeMap::new(),
            write_atomicity: 0,
        }
    }

    /// Whether the host does not want to hear of this.
    pub(crate) fn suppresses(&self, nsid: Nsid, notice: Notice) -> bool {
        let bit = match notice {
            Notice::RegistrationPreempted => ReservationMask::REGISTRATION_PREEMPTED,
            Notice::ReservationReleased => ReservationMask::RESERVATION_RELEASED,
            Notice::ReservationPreempted => ReservationMask::RESERVATION_PREEMPTED,
        };
        self.reservation_masks
            .get(&nsid.0)
            .is_some_and(|m| m.contains(bit))
    }
}

/// Bytes that Set Features transfers for a feature.
pub(crate) fn data_len(feature: u8) -> usize {
    match feature {
        fid::TIMESTAMP => size_of::<Timestamp>(),
        fid::HOST_BEHAVIOR => size_of::<HostBehavior>(),
        fid::HOST_IDENTIFIER => 16,
        _ => 0,
    }
}

/// What a feature's current or default value is.
enum Value {
    Dword(u32),
    Data(Vec<u8>),
}

/// What can be done with a feature; `None` if there is no such feature (Base figure 317).
fn capabilities(feature: u8, discovery: bool) -> Option<FeatureCapabilities> {
    let change = FeatureCapabilities::CHANGEABLE;
    let per_namespace = FeatureCapabilities::NAMESPACE_SPECIFIC;
    Some(match feature {
        fid::ASYNC_EVENT_CONFIG | fid::KEEP_ALIVE_TIMER => change,
        _ if discovery => return None,
        fid::ARBITRATION
        | fid::POWER_MANAGEMENT
        | fid::TEMPERATURE_THRESHOLD
        | fid::ERROR_RECOVERY
        | fid::VOLATILE_WRITE_CACHE
        | fid::NUMBER_OF_QUEUES
        | fid::WRITE_ATOMICITY
        | fid::TIMESTAMP
        | fid::HOST_BEHAVIOR => change,
        fid::RESERVATION_NOTIFICATION_MASK | fid::RESERVATION_PERSISTENCE => change | per_namespace,
        fid::IO_COMMAND_SET_PROFILE | fid::HOST_IDENTIFIER => FeatureCapabilities::empty(),
        _ => return None,
    })
}

impl Core {
    /// Get Features (Base 5.15).
    pub(super) fn get_features(&mut self, sqe: &Sqe, controller: &Arc<Controller>) {
        let cid = sqe.cid();
        let discovery = controller.subsystem().is_none();
        let (Some(select), Some(caps)) = (
            sqe.feature_select(),
            capabilities(sqe.feature_id(), discovery),
        ) else {
            return self.complete(Completion::failed(cid, Status::INVALID_FIELD.dnr()));
        };
        let value = match select {
            Select::Supported => Ok(Value::Dword(caps.bits())),
            Select::Current => self.current(sqe, controller),
            Select::Default | Select::Saved => {
                Ok(Value::Dword(default_dword(sqe.feature_id(), controller)))
            }
        };
        match value {
            Ok(Value::Dword(d)) => self.complete(Completion::with_result(cid, u64::from(d))),
            Ok(Value::Data(bytes)) => self.send_structure(sqe, Payload::from(bytes)),
            Err(status) => self.complete(Completion::failed(cid, status)),
        }
    }

    fn current(&self, sqe: &Sqe, controller: &Arc<Controller>) -> Result<Value, Status> {
        let state = controller.state();
        let f = &state.features;
        Ok(Value::Dword(match sqe.feature_id() {
            fid::ARBITRATION => f.arbitration,
            fid::POWER_MANAGEMENT => f.power,
            fid::TEMPERATURE_THRESHOLD => {
                let which = sqe.cdw11.get() & 0x3f_0000;
                f.temperature
                    .get(&which)
                    .copied()
                    .unwrap_or_else(|| default_threshold(which))
            }
            fid::ERROR_RECOVERY => f.error_recovery,
            fid::VOLATILE_WRITE_CACHE => u32::from(controller.write_cache.load(Ordering::Relaxed)),
            fid::NUMBER_OF_QUEUES => queues_dword(f.io_queues),
            fid::WRITE_ATOMICITY => f.write_atomicity,
            fid::ASYNC_EVENT_CONFIG => f.async_events.bits(),
            fid::KEEP_ALIVE_TIMER => controller.kato_ms(),
            fid::TIMESTAMP => return Ok(Value::Data(timestamp(f, self.now()).as_bytes().to_vec())),
            fid::HOST_BEHAVIOR => return Ok(Value::Data(f.host_behavior.as_bytes().to_vec())),
            fid::IO_COMMAND_SET_PROFILE => 0,
            // Base 5.27.1.25: with fabrics the identifier always has 128 bits (EXHID).
            fid::HOST_IDENTIFIER if sqe.cdw11.get() & 1 == 0 => {
                return Err(Status::HOST_ID_INCONSISTENT.dnr());
            }
            fid::HOST_IDENTIFIER => return Ok(Value::Data(controller.host_id.0.to_vec())),
            fid::RESERVATION_NOTIFICATION_MASK => {
                self.namespace(sqe.nsid())?;
                f.reservation_masks
                    .get(&sqe.nsid().0)
                    .copied()
                    .unwrap_or_default()
                    .bits()
            }
            fid::RESERVATION_PERSISTENCE => {
                u32::from(self.namespace(sqe.nsid())?.ns.reservations().persists())
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        }))
    }

    /// Set Features (Base 5.27).
    pub(super) fn set_features(&mut self, sqe: &Sqe, data: &[u8], controller: &Arc<Controller>) {
        let cid = sqe.cid();
        match self.try_set(sqe, data, controller) {
            Ok(Some(result)) => self.complete(Completion::with_result(cid, result)),
            // The answer comes when the change is on stable storage.
            Ok(None) => {}
            Err(status) => self.complete(Completion::failed(cid, status)),
        }
    }

    // tidy: flat dispatch
    fn try_set(
        &mut self,
        sqe: &Sqe,
        data: &[u8],
        controller: &Arc<Controller>,
    ) -> Result<Option<u64>, Status> {
        let feature = sqe.feature_id();
        let discovery = controller.subsystem().is_none();
        let caps = capabilities(feature, discovery).ok_or(Status::INVALID_FIELD.dnr())?;
        if sqe.feature_save() {
            return Err(Status::FEATURE_NOT_SAVEABLE.dnr());
        }
        let per_namespace = caps.contains(FeatureCapabilities::NAMESPACE_SPECIFIC);
        if !per_namespace && sqe.nsid() != Nsid::NONE && sqe.nsid() != Nsid::ALL {
            return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.dnr());
        }
        let value = sqe.cdw11.get();
        match feature {
            fid::HOST_IDENTIFIER => return Err(Status::COMMAND_SEQUENCE_ERROR.dnr()),
            fid::IO_COMMAND_SET_PROFILE if value & 0x1ff == 0 => return Ok(Some(0)),
            fid::IO_COMMAND_SET_PROFILE => return Err(Status::IO_COMMAND_SET_COMBINATION.dnr()),
            fid::KEEP_ALIVE_TIMER => {
                let ms = self
                    .grant_keep_alive(value)
                    .ok_or(Status::KEEP_ALIVE_INVALID.dnr())?;
                controller.set_kato_ms(ms);
                return Ok(Some(0));
            }
            fid::RESERVATION_PERSISTENCE => {
                return self.set_persistence(sqe, value & 1 == 1).map(|()| None);
            }
            fid::RESERVATION_NOTIFICATION_MASK => {
                let mask = ReservationMask::from_bits_truncate(value);
                let nsids: Vec<u32> = match sqe.nsid() {
                    Nsid::ALL => self.nsids().collect(),
                    nsid => vec![self.namespace(nsid)?.ns.nsid.0],
                };
                let masks = &mut controller.state().features.reservation_masks;
                masks.extend(nsids.into_iter().map(|nsid| (nsid, mask)));
                return Ok(Some(0));
            }
            _ => {}
        }
        let now = self.now();
        let mut state = controller.state();
        let queues_exist = state.queues.len() > 1;
        let f = &mut state.features;
        match feature {
            fid::ARBITRATION => f.arbitration = value,
            fid::POWER_MANAGEMENT if value & 0x1f == 0 => f.power = value & 0xff,
            fid::TEMPERATURE_THRESHOLD => {
                let which = value & 0x3f_0000;
                if f.temperature.len() < THRESHOLDS_MAX || f.temperature.contains_key(&which) {
                    f.temperature.insert(which, value & 0xffff);
                }
            }
            fid::ERROR_RECOVERY => f.error_recovery = value & 0xffff,
            fid::VOLATILE_WRITE_CACHE => controller
                .write_cache
                .store(value & 1 == 1, Ordering::Relaxed),
            fid::WRITE_ATOMICITY => f.write_atomicity = value & 1,
            // Base 5.27.1.5: only before the first I/O queue; 65535 is invalid.
            fid::NUMBER_OF_QUEUES if queues_exist => {
                return Err(Status::COMMAND_SEQUENCE_ERROR.dnr());
            }
            fid::NUMBER_OF_QUEUES if value & 0xffff == 0xffff || value >> 16 == 0xffff => {
                return Err(Status::INVALID_FIELD.dnr());
            }
            fid::NUMBER_OF_QUEUES => {
                let asked = NumberOfQueues::from_dword(value);
                let most = u32::from(self.target().config.io_queues_max);
                f.io_queues = asked.submission.min(asked.completion).min(most) as u16;
                return Ok(Some(u64::from(queues_dword(f.io_queues))));
            }
            fid::ASYNC_EVENT_CONFIG => {
                f.async_events = AsyncEventConfig::from_bits_truncate(value);
                if let Some(admin) = state.queues.get(&0) {
                    admin.signal.raise(EVENTS);
                }
            }
            fid::TIMESTAMP => {
                let mut ms = [0; 8];
                ms[..6]
                    .copy_from_slice(data.get(..6).ok_or(Status::DATA_SGL_LENGTH_INVALID.dnr())?);
                f.timestamp = Some((u64::from_le_bytes(ms), now));
            }
            fid::HOST_BEHAVIOR => {
                let (wish, _) = HostBehavior::read_from_prefix(data)
                    .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
                // ACRE changes nothing we send; the other behaviours are not offered.
                if wish.advanced_retry > 1
                    || wish.lba_format_extension != 0
                    || wish.copy_formats.get() != 0
                {
                    return Err(Status::INVALID_FIELD.dnr());
                }
                f.host_behavior = wish;
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        }
        Ok(Some(0))
    }

    /// The keep alive timeout that is granted for a wish, in ms: whole units of KAS; `None` if it is too long.
    pub(crate) fn grant_keep_alive(&self, wish_ms: u32) -> Option<u32> {
        let unit = u32::from(KAS_100MS) * 100;
        let granted = wish_ms.div_ceil(unit).checked_mul(unit)?;
        (u128::from(granted) <= self.target().config.keep_alive_max.as_millis()).then_some(granted)
    }
}

fn queues_dword(n: u16) -> u32 {
    NumberOfQueues {
        submission: u32::from(n),
        completion: u32::from(n),
    }
    .to_dword()
}

/// Over-temperature is never reported; under-temperature neither (Base 5.27.1.3).
fn default_threshold(which: u32) -> u32 {
    if which >> 20 & 0b11 == 0 { 0xffff } else { 0 }
}

fn default_dword(feature: u8, controller: &Controller) -> u32 {
    let fresh = Features::new(controller.state().features.io_queues);
    match feature {
        fid::ARBITRATION => fresh.arbitration,
        fid::TEMPERATURE_THRESHOLD => 0xffff,
        fid::VOLATILE_WRITE_CACHE => 1,
        fid::NUMBER_OF_QUEUES => queues_dword(fresh.io_queues),
        _ => 0,
    }
}

fn timestamp(f: &Features, now: Instant) -> Timestamp {
    let (ms, origin) = match f.timestamp {
        Some((set, at)) => (set.saturating_add(now.since(at).as_millis() as u64), 1),
        None => (io::time::wall_clock_ms(), 0),
    };
    let mut t = Timestamp::new_zeroed();
    t.milliseconds.copy_from_slice(&ms.to_le_bytes()[..6]);
    t.attributes = origin << 1;
    t
}
