//! REQUEST SENSE, LOG SENSE, READ DEFECT DATA, diagnostics, START STOP UNIT, PREVENT ALLOW MEDIUM REMOVAL.
//!
//! SPC-4 6.8, 6.18, 6.27, 6.39, 6.42; SBC-3 5.18, 5.19, 5.24, 6.3.

use super::common::{Result, durable, nothing, reply};
use super::provision::is_thin;
use super::vpd;
use crate::command::{Command, PageControl};
use crate::nexus::Nexus;
use crate::sense::{Asc, Sense};
use crate::task::Task;
use crate::unit::Unit;
use io::Payload;
use std::sync::PoisonError;

const SUPPORTED_LOG_PAGES: u8 = 0x00;
/// Logical Block Provisioning log page (SBC-3 6.3.4).
const LOGICAL_BLOCK_PROVISIONING: u8 = 0x0c;
const ALL_SUBPAGES: u8 = 0xff;
/// SPF of a log page.
const SUBPAGE_FORMAT: u8 = 0x40;
/// Parameters of the provisioning page, in threshold sets.
const AVAILABLE: u16 = 1;
const USED: u16 = 2;
/// SPC-4 7.2.2: the list of diagnostic pages, which has only itself.
const SUPPORTED_DIAGNOSTIC_PAGES: u8 = 0x00;

/// REQUEST SENSE reports and clears a pending unit attention condition (SPC-4 6.39).
pub(super) fn request_sense(
    task: &Task,
    unit: &Unit,
    descriptor: bool,
    allocation: u32,
) -> Result<Payload> {
    let pending = task.nexus.attentions.take(unit.lun.number());
    let sense = pending.map_or(Sense::none(), Sense::attention);
    reply(sense.encode(descriptor), allocation)
}

fn log_pages(thin: bool) -> Vec<u8> {
    let mut pages = vec![SUPPORTED_LOG_PAGES];
    if thin {
        pages.push(LOGICAL_BLOCK_PROVISIONING);
    }
    pages
}

/// A resource count: used and available space of the whole backend, SCOPE 1 (this logical unit).
fn resource(out: &mut Vec<u8>, parameter: u16, bytes: u64, block_size: u32) {
    let set = u64::from(block_size) << vpd::THRESHOLD_EXPONENT;
    let count = u32::try_from(bytes / set).unwrap_or(u32::MAX);
    out.extend(parameter.to_be_bytes());
    // FORMAT AND LINKING 11b: a binary list.
    out.extend([0x03, 8]);
    out.extend(count.to_be_bytes());
    out.extend([1, 0, 0, 0]);
}

pub(super) async fn sense(unit: &Unit, command: &Command) -> Result<Payload> {
    let Command::LogSense {
        control,
        page,
        subpage,
        pointer,
        allocation,
    } = *command
    else {
        return Err(Sense::illegal(Asc::INVALID_OPCODE).into());
    };
    if matches!(control, PageControl::Saved) {
        return Err(Sense::illegal(Asc::SAVING_PARAMETERS_NOT_SUPPORTED).into());
    }
    let g = unit.geometry();
    let pages = log_pages(is_thin(&g));
    let (body, flags) = match (page, subpage) {
        (SUPPORTED_LOG_PAGES, 0) => (pages, 0),
        (SUPPORTED_LOG_PAGES, ALL_SUBPAGES) => {
            let mut all: Vec<u8> = pages.iter().flat_map(|p| [*p, 0]).collect();
            all.splice(2..2, [SUPPORTED_LOG_PAGES, ALL_SUBPAGES]);
            (all, SUBPAGE_FORMAT)
        }
        (LOGICAL_BLOCK_PROVISIONING, 0) if is_thin(&g) => {
            let usage = unit.backend.usage().await?;
            let mut body = Vec::new();
            let free = usage.provisioned.saturating_sub(usage.used);
            if pointer <= AVAILABLE {
                resource(&mut body, AVAILABLE, free, g.block_size);
            }
            if pointer <= USED {
                resource(&mut body, USED, usage.used, g.block_size);
            }
            (body, 0)
        }
        _ => return Err(Sense::field_in_cdb(2, Some(5)).into()),
    };
    if pointer > USED || pointer > 0 && page == SUPPORTED_LOG_PAGES {
        return Err(Sense::field_in_cdb(5, None).into());
    }
    let mut out = vec![page | flags, subpage];
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    reply(out, allocation)
}

/// READ DEFECT DATA: both lists are empty.
pub(super) fn defect_data(long: bool, format: u8, allocation: u32) -> Result<Payload> {
    let len = if long { 8 } else { 4 };
    let mut out = vec![0; len];
    out[1] = format;
    reply(out, allocation)
}

/// START STOP UNIT: stopping flushes; the unit stays ready, because a disk without moving parts does not stop.
pub(super) async fn start_stop(unit: &Unit, command: &Command) -> Result<Payload> {
    let Command::StartStopUnit {
        immediate,
        power,
        no_flush,
        load_eject,
        start,
    } = *command
    else {
        return Err(Sense::illegal(Asc::INVALID_OPCODE).into());
    };
    // The medium is not removable and there are no power conditions.
    if load_eject {
        return Err(Sense::field_in_cdb(4, Some(1)).into());
    }
    if power != 0 {
        return Err(Sense::field_in_cdb(4, Some(7)).into());
    }
    if start || no_flush {
        return nothing();
    }
    if immediate {
        return super::block::synchronize(unit, true).await;
    }
    durable(unit.backend.flush().await?)
}

/// PREVENT ALLOW MEDIUM REMOVAL: stored, although nothing can be removed.
pub(super) fn prevent(unit: &Unit, nexus: &Nexus, prevent: u8) -> Result<Payload> {
    let mut preventing = unit
        .preventing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    match prevent {
        0 => {
            preventing.remove(&nexus.id());
        }
        1 => {
            preventing.insert(nexus.id());
        }
        _ => return Err(Sense::field_in_cdb(4, Some(1)).into()),
    }
    nothing()
}

pub(super) fn diagnostic_results(page: Option<u8>, allocation: u32) -> Result<Payload> {
    match page {
        None | Some(SUPPORTED_DIAGNOSTIC_PAGES) => reply(
            vec![
                SUPPORTED_DIAGNOSTIC_PAGES,
                0,
                0,
                1,
                SUPPORTED_DIAGNOSTIC_PAGES,
            ],
            allocation,
        ),
        Some(_) => Err(Sense::field_in_cdb(2, None).into()),
    }
}

/// SEND DIAGNOSTIC: the default self-test passes; there are no other self-tests, and the only page has no parameters.
pub(super) fn send_diagnostic(self_test: bool, code: u8, list: &[u8]) -> Result<Payload> {
    if code != 0 {
        return Err(Sense::field_in_cdb(1, Some(7)).into());
    }
    match list {
        [] => nothing(),
        _ if self_test => Err(Sense::field_in_cdb(3, None).into()),
        [SUPPORTED_DIAGNOSTIC_PAGES, _, 0, 0, ..] => nothing(),
        _ => Err(Sense::field_in_list(0, None).into()),
    }
}
