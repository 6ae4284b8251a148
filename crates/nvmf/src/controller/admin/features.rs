//! Get Features and Set Features (Base 5.15, 5.27).
//!
//! **Called by** the admin dispatcher. **Invariants**: no feature can be saved across resets, so SV is refused (Base 5.27:
//! Feature Identifier Not Saveable).

use crate::controller::association::Controller;
use crate::controller::command::Command;
use crate::controller::features::{Value, capabilities, grant_keep_alive};
use crate::controller::phase::Ready;
use crate::controller::queue_handle::EVENTS;
use crate::controller::request::{GetFeatures, SetFeatures};
use crate::controller::status::Completion;
use crate::wire::command::Nsid;
use crate::wire::features::{FeatureCapabilities, ReservationMask, Select, fid};
use crate::wire::status::Status;
use io::Payload;
use session::reservation::Stored;
use std::sync::atomic::Ordering;

impl Ready<'_> {
    /// Get Features (Base 5.15).
    pub(super) fn get_features(
        &mut self,
        command: Command,
        get: GetFeatures,
        controller: &Controller,
    ) {
        let discovery = controller.subsystem().is_none();
        let (Some(select), Some(caps)) = (get.select, capabilities(get.feature, discovery)) else {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        };
        let value = match select {
            Select::Supported => Ok(Value::Dword(caps.bits())),
            Select::Current => self.current_value(get, command.nsid(), controller),
            Select::Default | Select::Saved => {
                let features = &controller.state().features;
                Ok(Value::Dword(features.default_value(get.feature)))
            }
        };
        match value {
            Ok(Value::Dword(d)) => self.complete(command, Completion::with_result(u64::from(d))),
            Ok(Value::Data(bytes)) => self.send_structure(command, Payload::from(bytes)),
            Err(status) => self.fail(command, status),
        }
    }

    fn current_value(
        &self,
        get: GetFeatures,
        nsid: Nsid,
        controller: &Controller,
    ) -> Result<Value, Status> {
        let state = controller.state();
        let dword = match get.feature {
            fid::VOLATILE_WRITE_CACHE => u32::from(controller.write_cache.load(Ordering::Relaxed)),
            fid::KEEP_ALIVE_TIMER => controller.kato_ms(),
            fid::IO_COMMAND_SET_PROFILE => 0,
            // Base 5.27.1.25: with fabrics the identifier always has 128 bits (EXHID).
            fid::HOST_IDENTIFIER if get.cdw11 & 1 == 0 => {
                return Err(Status::HOST_ID_INCONSISTENT.dnr());
            }
            fid::HOST_IDENTIFIER => return Ok(Value::Data(controller.host_id.0.to_vec())),
            fid::RESERVATION_NOTIFICATION_MASK => {
                self.namespace(nsid)?;
                state.features.reservation_mask(nsid).bits()
            }
            fid::RESERVATION_PERSISTENCE => {
                u32::from(self.namespace(nsid)?.ns.reservations().persists())
            }
            feature => {
                let value = state.features.value(feature, get.cdw11, self.now());
                return value.ok_or(Status::INVALID_FIELD.dnr());
            }
        };
        Ok(Value::Dword(dword))
    }

    /// Set Features (Base 5.27).
    pub(super) fn set_features(
        &mut self,
        command: Command,
        set: SetFeatures,
        data: &[u8],
        controller: &Controller,
    ) {
        if let Err(status) = check(set, command.nsid(), controller) {
            return self.fail(command, status);
        }
        if set.feature == fid::RESERVATION_PERSISTENCE {
            // The answer comes when the change is on stable storage.
            return self.set_persistence(command, set.value & 1 == 1);
        }
        match self.set_value(set, command.nsid(), data, controller) {
            Ok(result) => self.complete(command, Completion::with_result(u64::from(result))),
            Err(status) => self.fail(command, status),
        }
    }

    /// Sets a feature. Returns DW0 of the completion.
    fn set_value(
        &mut self,
        set: SetFeatures,
        nsid: Nsid,
        data: &[u8],
        controller: &Controller,
    ) -> Result<u32, Status> {
        let config = &self.target().config;
        let value = set.value;
        match set.feature {
            fid::HOST_IDENTIFIER => return Err(Status::COMMAND_SEQUENCE_ERROR.dnr()),
            fid::IO_COMMAND_SET_PROFILE if value & 0x1ff == 0 => {}
            fid::IO_COMMAND_SET_PROFILE => return Err(Status::IO_COMMAND_SET_COMBINATION.dnr()),
            fid::KEEP_ALIVE_TIMER => {
                let granted = grant_keep_alive(value, config.keep_alive_max);
                controller.set_kato_ms(granted.ok_or(Status::KEEP_ALIVE_INVALID.dnr())?);
            }
            fid::RESERVATION_NOTIFICATION_MASK => {
                let mask = ReservationMask::from_bits_truncate(value);
                let nsids: Vec<Nsid> = match nsid {
                    Nsid::ALL => self.views.iter().map(|v| v.ns.nsid).collect(),
                    nsid => vec![self.namespace(nsid)?.ns.nsid],
                };
                let mut state = controller.state();
                for nsid in nsids {
                    state.features.mask_reservations(nsid, mask);
                }
            }
            fid::VOLATILE_WRITE_CACHE => controller
                .write_cache
                .store(value & 1 == 1, Ordering::Relaxed),
            fid::NUMBER_OF_QUEUES => {
                let mut state = controller.state();
                // Base 5.27.1.5: only before the first I/O queue.
                if state.queues.len() > 1 {
                    return Err(Status::COMMAND_SEQUENCE_ERROR.dnr());
                }
                return state.features.grant_queues(value, config.io_queues_max);
            }
            feature => {
                let mut state = controller.state();
                state.features.set(feature, value, data, self.now())?;
                if feature == fid::ASYNC_EVENT_CONFIG
                    && let Some(admin) = state.queues.get(&0)
                {
                    admin.signal.raise(EVENTS);
                }
            }
        }
        Ok(0)
    }
}

/// The checks that precede any change. Errors: the status of the command.
fn check(set: SetFeatures, nsid: Nsid, controller: &Controller) -> Result<(), Status> {
    let discovery = controller.subsystem().is_none();
    let caps = capabilities(set.feature, discovery).ok_or(Status::INVALID_FIELD.dnr())?;
    if set.save {
        return Err(Status::FEATURE_NOT_SAVEABLE.dnr());
    }
    let per_namespace = caps.contains(FeatureCapabilities::NAMESPACE_SPECIFIC);
    if !per_namespace && nsid != Nsid::NONE && nsid != Nsid::ALL {
        return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.dnr());
    }
    Ok(())
}
