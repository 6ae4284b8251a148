//! Features of one controller (Base 5.27): their values, defaults and capabilities.
//!
//! **Owns** the values that are kept in the controller's state. **Called by** Get Features and Set Features, and by the
//! controller for masks of events. **Invariants**: no value is kept across resets except those of reservations, so the
//! defaults are the saved values.

use super::limits::KAS_100MS;
use super::reservation::Notice;
use crate::wire::command::Nsid;
use crate::wire::features::{
    AsyncEventConfig, FeatureCapabilities, HostBehavior, NumberOfQueues, ReservationMask,
    Timestamp, fid,
};
use crate::wire::status::Status;
use io::time::Instant;
use std::collections::BTreeMap;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The values of one controller's features.
pub(crate) struct Features {
    arbitration: u32,
    power: u32,
    temperature: BTreeMap<u32, u32>,
    error_recovery: u32,
    async_events: AsyncEventConfig,
    io_queues: u16,
    timestamp: Option<(u64, Instant)>,
    host_behavior: HostBehavior,
    reservation_masks: BTreeMap<u32, ReservationMask>,
    write_atomicity: u32,
}

/// Temperature thresholds that can be told apart: nine sensors, over and under.
const THRESHOLDS_MAX: usize = 18;

/// A feature's current or default value.
pub(crate) enum Value {
    /// DW0 of the completion.
    Dword(u32),
    /// A data structure.
    Data(Vec<u8>),
}

impl Features {
    /// The default values of a controller that may have `io_queues` I/O queues.
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

    /// I/O queues that the host was granted.
    pub(crate) fn io_queues(&self) -> u16 {
        self.io_queues
    }

    /// The events that the host asked for.
    pub(crate) fn wanted_events(&self) -> AsyncEventConfig {
        self.async_events
    }

    /// Whether the host has masked this notice of this namespace.
    pub(crate) fn suppresses(&self, nsid: Nsid, notice: Notice) -> bool {
        let bit = match notice {
            Notice::RegistrationPreempted => ReservationMask::REGISTRATION_PREEMPTED,
            Notice::ReservationReleased => ReservationMask::RESERVATION_RELEASED,
            Notice::ReservationPreempted => ReservationMask::RESERVATION_PREEMPTED,
        };
        self.reservation_mask(nsid).contains(bit)
    }

    /// The mask of reservation notices of a namespace.
    pub(crate) fn reservation_mask(&self, nsid: Nsid) -> ReservationMask {
        let mask = self.reservation_masks.get(&nsid.0);
        mask.copied().unwrap_or_default()
    }

    /// Sets the mask of reservation notices of a namespace.
    pub(crate) fn mask_reservations(&mut self, nsid: Nsid, mask: ReservationMask) {
        self.reservation_masks.insert(nsid.0, mask);
    }

    /// The current value of a feature; CDW11 selects among several. `None` for a feature that is not kept here.
    pub(crate) fn value(&self, feature: u8, cdw11: u32, now: Instant) -> Option<Value> {
        Some(Value::Dword(match feature {
            fid::ARBITRATION => self.arbitration,
            fid::POWER_MANAGEMENT => self.power,
            fid::TEMPERATURE_THRESHOLD => {
                let which = cdw11 & 0x3f_0000;
                let set = self.temperature.get(&which).copied();
                set.unwrap_or_else(|| default_threshold(which))
            }
            fid::ERROR_RECOVERY => self.error_recovery,
            fid::NUMBER_OF_QUEUES => queues_dword(self.io_queues),
            fid::WRITE_ATOMICITY => self.write_atomicity,
            fid::ASYNC_EVENT_CONFIG => self.async_events.bits(),
            fid::TIMESTAMP => return Some(Value::Data(self.timestamp(now).as_bytes().to_vec())),
            fid::HOST_BEHAVIOR => return Some(Value::Data(self.host_behavior.as_bytes().to_vec())),
            _ => return None,
        }))
    }

    /// Sets a feature to `value` (CDW11) or `data`. Errors: Invalid Field for a value that is not offered and for a feature
    /// that is not kept here, Data SGL Length Invalid for data that is too short.
    pub(crate) fn set(
        &mut self,
        feature: u8,
        value: u32,
        data: &[u8],
        now: Instant,
    ) -> Result<(), Status> {
        match feature {
            fid::ARBITRATION => self.arbitration = value,
            fid::POWER_MANAGEMENT if value & 0x1f == 0 => self.power = value & 0xff,
            fid::TEMPERATURE_THRESHOLD => {
                let which = value & 0x3f_0000;
                if self.temperature.len() < THRESHOLDS_MAX || self.temperature.contains_key(&which)
                {
                    self.temperature.insert(which, value & 0xffff);
                }
            }
            fid::ERROR_RECOVERY => self.error_recovery = value & 0xffff,
            fid::WRITE_ATOMICITY => self.write_atomicity = value & 1,
            fid::ASYNC_EVENT_CONFIG => {
                self.async_events = AsyncEventConfig::from_bits_truncate(value);
            }
            fid::TIMESTAMP => {
                let set = data.get(..6).ok_or(Status::DATA_SGL_LENGTH_INVALID.dnr())?;
                let mut ms = [0; 8];
                ms[..6].copy_from_slice(set);
                self.timestamp = Some((u64::from_le_bytes(ms), now));
            }
            fid::HOST_BEHAVIOR => {
                let (asked, _) = HostBehavior::read_from_prefix(data)
                    .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.dnr())?;
                // ACRE changes nothing that we send; the other behaviours are not offered.
                if asked.advanced_retry > 1
                    || asked.lba_format_extension != 0
                    || asked.copy_formats.get() != 0
                {
                    return Err(Status::INVALID_FIELD.dnr());
                }
                self.host_behavior = asked;
            }
            _ => return Err(Status::INVALID_FIELD.dnr()),
        }
        Ok(())
    }

    /// Number of Queues (Base 5.27.1.5): grants up to `queues_max` I/O queues. Returns DW0 of the completion. Errors: Invalid
    /// Field, because 65535 is invalid.
    pub(crate) fn grant_queues(&mut self, value: u32, queues_max: u16) -> Result<u32, Status> {
        if value & 0xffff == 0xffff || value >> 16 == 0xffff {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let asked = NumberOfQueues::from_dword(value);
        let granted = asked.submission.min(asked.completion);
        self.io_queues = granted.min(u32::from(queues_max)) as u16;
        Ok(queues_dword(self.io_queues))
    }

    /// The default value of a feature, which is the saved value too.
    pub(crate) fn default_value(&self, feature: u8) -> u32 {
        let fresh = Features::new(self.io_queues);
        match feature {
            fid::ARBITRATION => fresh.arbitration,
            fid::TEMPERATURE_THRESHOLD => 0xffff,
            fid::VOLATILE_WRITE_CACHE => 1,
            fid::NUMBER_OF_QUEUES => queues_dword(fresh.io_queues),
            _ => 0,
        }
    }

    fn timestamp(&self, now: Instant) -> Timestamp {
        let (ms, origin) = match self.timestamp {
            Some((set, at)) => (set.saturating_add(now.since(at).as_millis() as u64), 1),
            None => (io::time::wall_clock_ms(), 0),
        };
        let mut t = Timestamp::new_zeroed();
        t.milliseconds.copy_from_slice(&ms.to_le_bytes()[..6]);
        t.attributes = origin << 1;
        t
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

/// The capabilities of a feature; `None` if the controller does not have the feature (Base figure 317).
pub(crate) fn capabilities(feature: u8, discovery: bool) -> Option<FeatureCapabilities> {
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

/// The keep alive timeout that is granted for `asked_ms`, ms: whole units of KAS. `None` if it is longer than `longest`.
pub(crate) fn grant_keep_alive(asked_ms: u32, longest: Duration) -> Option<u32> {
    let unit = u32::from(KAS_100MS) * 100;
    let granted = asked_ms.div_ceil(unit).checked_mul(unit)?;
    (u128::from(granted) <= longest.as_millis()).then_some(granted)
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
