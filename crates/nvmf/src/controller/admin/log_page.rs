//! Get Log Page (Base 5.16): errors, health, firmware, changed namespaces, effects, ANA, discovery, reservations.
//!
//! **Called by** the admin dispatcher. **Invariants**: a page is made whole and cut to the bytes that the host asked for; bytes
//! past its end read as zero; reading without RAE clears the page's event.

use super::identify::ANA_GROUP;
use crate::controller::association::{Controller, ControllerKind};
use crate::controller::command::Command;
use crate::controller::discovery;
use crate::controller::events::EventKind;
use crate::controller::limits::LOG_PAGE_MAX;
use crate::controller::phase::Ready;
use crate::controller::queue_handle::EVENTS;
use crate::controller::subsystem::Subsystem;
use crate::wire::command::Nsid;
use crate::wire::identify::NamespaceList;
use crate::wire::log::{
    AnaGroup, AnaLog, AnaState, CHANGED_NAMESPACES_LEN, CommandEffects, CommandEffectsLog,
    FirmwareSlotLog, GetLogPage, SmartLog, SupportedLog, lid,
};
use crate::wire::opcode::{FABRICS, admin, io as nvm};
use crate::wire::status::Status;
use crate::wire::text::put_padded;
use ::io::Payload;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

/// LSP bit 0 of the ANA page: groups without their namespaces (RGO).
const ANA_GROUPS_ONLY: u8 = 1;

impl Ready<'_> {
    /// Get Log Page (Base 5.16).
    pub(super) fn get_log_page(
        &mut self,
        command: Command,
        want: GetLogPage,
        controller: &Controller,
    ) {
        let page =
            if want.offset_is_index || !want.offset.is_multiple_of(4) || want.len > LOG_PAGE_MAX {
                Err(Status::INVALID_FIELD.dnr())
            } else {
                self.log_page(&want, command.nsid(), controller)
            };
        match page {
            // Base 5.16: an offset beyond the page is Invalid Field.
            Ok(bytes) if want.offset > bytes.len() as u64 => {
                self.fail(command, Status::INVALID_FIELD.dnr());
            }
            Ok(mut bytes) => {
                bytes.drain(..want.offset as usize);
                bytes.resize(want.len as usize, 0);
                self.send_structure(command, Payload::from(bytes));
            }
            Err(status) => self.fail(command, status),
        }
    }

    fn log_page(
        &mut self,
        want: &GetLogPage,
        nsid: Nsid,
        controller: &Controller,
    ) -> Result<Vec<u8>, Status> {
        let ControllerKind::Io(subsystem) = &controller.kind else {
            return match want.lid {
                lid::SUPPORTED => Ok(supported(&[lid::SUPPORTED, lid::DISCOVERY])),
                lid::DISCOVERY => Ok(self.discovery_log(want, controller)),
                _ => Err(Status::INVALID_LOG_PAGE.dnr()),
            };
        };
        let clear = !want.retain_event;
        let mut state = controller.state();
        Ok(match want.lid {
            lid::SUPPORTED => supported(&[
                lid::SUPPORTED,
                lid::ERROR,
                lid::SMART,
                lid::FIRMWARE_SLOT,
                lid::CHANGED_NAMESPACES,
                lid::COMMAND_EFFECTS,
                lid::ANA,
                lid::RESERVATION_NOTIFICATION,
            ]),
            lid::ERROR => state.errors().flat_map(|e| e.as_bytes().to_vec()).collect(),
            lid::SMART if nsid != Nsid::NONE && nsid != Nsid::ALL => {
                return Err(Status::INVALID_FIELD.dnr());
            }
            lid::SMART => smart(subsystem, state.error_count()).as_bytes().to_vec(),
            lid::FIRMWARE_SLOT => {
                let mut slots = FirmwareSlotLog::new_zeroed();
                slots.active = 1;
                put_padded(&mut slots.revisions[0], &self.target().config.firmware);
                slots.as_bytes().to_vec()
            }
            // Base 5.16.1.5: reading clears the list.
            lid::CHANGED_NAMESPACES => {
                let list = NamespaceList::new(state.changed_namespaces.iter().map(|id| Nsid(*id)));
                if clear {
                    state.changed_namespaces.clear();
                    state.events.cleared(EventKind::NamespaceChanged, false);
                }
                debug_assert_eq!(size_of::<NamespaceList>(), CHANGED_NAMESPACES_LEN);
                list.as_bytes().to_vec()
            }
            lid::COMMAND_EFFECTS => effects().as_bytes().to_vec(),
            lid::ANA => {
                if clear {
                    state.events.cleared(EventKind::AnaChanged, false);
                }
                ana(subsystem, want.lsp & ANA_GROUPS_ONLY != 0).to_bytes()
            }
            lid::RESERVATION_NOTIFICATION => {
                let notice = state.reservation_notification(!clear);
                if clear {
                    let more = notice.available > 0;
                    state.events.cleared(EventKind::ReservationNotice, more);
                    if more && let Some(admin) = state.queues.get(&0) {
                        admin.signal.raise(EVENTS);
                    }
                }
                notice.as_bytes().to_vec()
            }
            _ => return Err(Status::INVALID_LOG_PAGE.dnr()),
        })
    }

    fn discovery_log(&self, want: &GetLogPage, controller: &Controller) -> Vec<u8> {
        if !want.retain_event {
            controller
                .state()
                .events
                .cleared(EventKind::DiscoveryChanged, false);
        }
        let here = controller
            .state()
            .queues
            .get(&0)
            .map(|admin| admin.local.ip());
        discovery::log(self.target(), &controller.host_nqn, here).to_bytes()
    }
}

fn supported(pages: &[u8]) -> Vec<u8> {
    let mut log = SupportedLog::new_zeroed();
    for page in pages {
        log.0[usize::from(*page)] = U32::new(1);
    }
    log.as_bytes().to_vec()
}

fn smart(subsystem: &Subsystem, errors: u64) -> SmartLog {
    let t = &subsystem.totals;
    let get = |a: &AtomicU64| u128::from(a.load(Ordering::Relaxed));
    // Thousands of 512-byte units, rounded up.
    let units = |a: &AtomicU64| get(a).div_ceil(512_000).to_le_bytes();
    let mut log = SmartLog::new_zeroed();
    log.temperature = U16::new(300);
    log.available_spare = 100;
    log.spare_threshold = 10;
    log.data_units_read = units(&t.bytes_read);
    log.data_units_written = units(&t.bytes_written);
    log.host_read_commands = get(&t.reads).to_le_bytes();
    log.host_write_commands = get(&t.writes).to_le_bytes();
    log.media_errors = get(&t.media_errors).to_le_bytes();
    log.error_log_entries = u128::from(errors).to_le_bytes();
    log
}

fn effects() -> CommandEffectsLog {
    let mut log = CommandEffectsLog::new_zeroed();
    let plain = CommandEffects::SUPPORTED;
    let writes = plain | CommandEffects::CONTENT_CHANGE;
    for opcode in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT_REQUEST,
        admin::KEEP_ALIVE,
        FABRICS,
    ] {
        log.admin[usize::from(opcode)] = U32::new(plain.bits());
    }
    for opcode in [
        nvm::FLUSH,
        nvm::READ,
        nvm::COMPARE,
        nvm::VERIFY,
        nvm::RESERVATION_REGISTER,
        nvm::RESERVATION_REPORT,
        nvm::RESERVATION_ACQUIRE,
        nvm::RESERVATION_RELEASE,
    ] {
        log.io[usize::from(opcode)] = U32::new(plain.bits());
    }
    for opcode in [
        nvm::WRITE,
        nvm::WRITE_ZEROES,
        nvm::DATASET_MANAGEMENT,
        nvm::COPY,
    ] {
        log.io[usize::from(opcode)] = U32::new(writes.bits());
    }
    log
}

/// The ANA log: one group with all namespaces, which is optimized through all controllers.
fn ana(subsystem: &Subsystem, groups_only: bool) -> AnaLog {
    let nsids = if groups_only {
        Vec::new()
    } else {
        subsystem.namespaces().keys().map(|id| Nsid(*id)).collect()
    };
    let group = AnaGroup {
        id: ANA_GROUP,
        change_count: 0,
        state: AnaState::Optimized,
        nsids,
    };
    AnaLog {
        change_count: 0,
        groups: vec![group],
    }
}
