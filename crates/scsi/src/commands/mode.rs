//! MODE SENSE and MODE SELECT (SPC-4 6.11 to 6.14, 7.5; SBC-3 6.4).
//!
//! **Owns** the mode pages. **Invariants**: MODE SELECT has no effect unless its whole list is valid; a bit that is
//! not changeable must be sent with its present value; nothing is saved (PS and SP are 0).

use super::common::{Result, nothing, reply};
use crate::command::{Command, PageControl};
use crate::sense::{Asc, Sense};
use crate::task::Task;
use crate::unit::{Modes, Unit};
use backend::Geometry;
use io::Payload;
use std::sync::atomic::Ordering;

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;
const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
/// Subpage of 1Ch: logical block provisioning (SBC-3 6.4.7).
const PROVISIONING_SUBPAGE: u8 = 0x02;
/// SPF: the page has a subpage code and a length of two bytes.
const SUBPAGE_FORMAT: u8 = 0x40;
/// DEVICE-SPECIFIC PARAMETER: write protected, DPO and FUA are supported.
const WP: u8 = 0x80;
const DPOFUA: u8 = 0x10;
const WCE: u8 = 0x04;
const D_SENSE: u8 = 0x04;
const SWP: u8 = 0x08;
const TAS: u8 = 0x40;
/// QUEUE ALGORITHM MODIFIER 1: unrestricted reordering.
const UNRESTRICTED_REORDERING: u8 = 0x10;

/// A page with one kind of its values.
struct Page {
    code: u8,
    subpage: u8,
    bytes: Vec<u8>,
}

fn flag(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}

/// The bits of the caching and control pages that stand for a [`Modes`].
struct Bits {
    caching: u8,
    control_2: u8,
    control_4: u8,
    control_5: u8,
}

impl Bits {
    fn of(unit: &Unit, g: &Geometry, control: PageControl) -> Bits {
        let m = &unit.modes;
        match control {
            PageControl::Changeable => Bits {
                caching: flag(g.volatile_cache, WCE),
                control_2: D_SENSE,
                control_4: SWP,
                control_5: TAS,
            },
            PageControl::Default => Bits {
                caching: flag(g.volatile_cache, WCE),
                control_2: 0,
                control_4: 0,
                control_5: 0,
            },
            PageControl::Current | PageControl::Saved => Bits {
                caching: flag(unit.write_cache(), WCE),
                control_2: flag(unit.descriptor_sense(), D_SENSE),
                control_4: flag(m.software_write_protect.load(Ordering::Relaxed), SWP),
                control_5: flag(unit.task_aborted_status(), TAS),
            },
        }
    }
}

/// Every page, in the order of its code.
fn pages(unit: &Unit, g: &Geometry, control: PageControl) -> Vec<Page> {
    let bits = Bits::of(unit, g, control);
    let fixed = control != PageControl::Changeable;
    let mut caching = vec![CACHING, 0x12];
    caching.resize(20, 0);
    caching[2] = bits.caching;
    let mut ctl = vec![CONTROL, 0x0a];
    ctl.resize(12, 0);
    (ctl[2], ctl[4], ctl[5]) = (bits.control_2, bits.control_4, bits.control_5);
    let mut exceptions = vec![INFORMATIONAL_EXCEPTIONS, 0x0a];
    exceptions.resize(12, 0);
    if fixed {
        ctl[3] = UNRESTRICTED_REORDERING;
        // BUSY TIMEOUT PERIOD: unlimited.
        ctl[8..10].fill(0xff);
    }
    let page = |code, subpage, bytes| Page {
        code,
        subpage,
        bytes,
    };
    let mut all = vec![
        page(CACHING, 0, caching),
        page(CONTROL, 0, ctl),
        page(INFORMATIONAL_EXCEPTIONS, 0, exceptions),
    ];
    if unit.threshold_percent > 0 {
        let bytes = thresholds(unit, g, fixed);
        all.push(page(INFORMATIONAL_EXCEPTIONS, PROVISIONING_SUBPAGE, bytes));
    }
    all
}

/// The logical block provisioning page: one soft threshold on the space used.
fn thresholds(unit: &Unit, g: &Geometry, fixed: bool) -> Vec<u8> {
    let mut out = vec![0; 24];
    out[0] = INFORMATIONAL_EXCEPTIONS | SUBPAGE_FORMAT;
    out[1] = PROVISIONING_SUBPAGE;
    out[3] = 20;
    if fixed {
        let sets = u128::from(g.blocks >> super::vpd::THRESHOLD_EXPONENT);
        let count = sets * u128::from(unit.threshold_percent) / 100;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // ENABLED, THRESHOLD TYPE 0 (soft), THRESHOLD ARMING 2 (maximum); THRESHOLD RESOURCE 2 (used).
        out[16] = 0x82;
        out[17] = 0x02;
        out[20..24].copy_from_slice(&count.to_be_bytes());
    }
    out
}

fn block_descriptor(g: &Geometry, long: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if long {
        out.extend(g.blocks.to_be_bytes());
        out.extend([0; 4]);
    } else {
        out.extend(u32::try_from(g.blocks).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend(g.block_size.to_be_bytes());
    out
}

pub(super) fn sense(unit: &Unit, command: &Command) -> Result<Payload> {
    let Command::ModeSense {
        long,
        no_descriptors,
        llbaa,
        control,
        page,
        subpage,
        allocation,
    } = *command
    else {
        return Err(Sense::illegal(Asc::INVALID_OPCODE).into());
    };
    if control == PageControl::Saved {
        return Err(Sense::illegal(Asc::SAVING_PARAMETERS_NOT_SUPPORTED).into());
    }
    let g = unit.geometry();
    let wanted = |p: &Page| {
        (page == p.code || page == ALL_PAGES) && (subpage == p.subpage || subpage == ALL_SUBPAGES)
    };
    let body: Vec<Page> = pages(unit, &g, control)
        .into_iter()
        .filter(wanted)
        .collect();
    if body.is_empty() {
        return Err(Sense::field_in_cdb(2, Some(5)).into());
    }
    let body: Vec<u8> = body.into_iter().flat_map(|p| p.bytes).collect();
    let descriptor = if no_descriptors {
        Vec::new()
    } else {
        block_descriptor(&g, llbaa)
    };
    let specific = flag(unit.is_write_protected(), WP) | DPOFUA;
    let mut out;
    if long {
        let len = 6 + descriptor.len() + body.len();
        out = (len as u16).to_be_bytes().to_vec();
        out.extend([0, specific, u8::from(llbaa), 0]);
        out.extend((descriptor.len() as u16).to_be_bytes());
    } else {
        let len = 3 + descriptor.len() + body.len();
        out = vec![len as u8, 0, specific, descriptor.len() as u8];
    }
    out.extend(descriptor);
    out.extend(body);
    reply(out, allocation)
}

/// The pages of a parameter list, after its header and block descriptors, and their offset.
fn list_pages<'a>(g: &Geometry, list: &'a [u8], long: bool) -> Result<(&'a [u8], usize)> {
    let short = || Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);
    let header = if long { 8 } else { 4 };
    let head = list.get(..header).ok_or_else(short)?;
    let (descriptors, llbaa) = if long {
        (
            usize::from(u16::from_be_bytes([head[6], head[7]])),
            head[4] & 1 == 1,
        )
    } else {
        (usize::from(head[3]), false)
    };
    let at = header + descriptors;
    let rest = list.get(at..).ok_or_else(short)?;
    // The only accepted block descriptor is one without a change; a count of 0 or all ones means no change.
    let given = &list[header..at];
    let current = block_descriptor(g, llbaa);
    let count = if llbaa { 8 } else { 4 };
    if !given.is_empty() {
        let same_len = given.len() == current.len();
        let same_size = same_len && given[count..] == current[count..];
        let keeps = same_size
            && (given[..count] == current[..count]
                || given[..count].iter().all(|b| *b == 0)
                || given[..count].iter().all(|b| *b == 0xff));
        if !keeps {
            return Err(Sense::field_in_list(header, None).into());
        }
    }
    Ok((rest, at))
}

/// Compares a sent page with the current one; returns its length. Errors: a bit differs that is not changeable.
fn check_page(unit: &Unit, g: &Geometry, sent: &[u8], at: usize) -> Result<usize> {
    let code = sent[0] & 0x3f;
    let has_subpage = sent[0] & SUBPAGE_FORMAT != 0;
    let subpage = if has_subpage {
        sent.get(1).copied().unwrap_or(0)
    } else {
        0
    };
    let find = |control| {
        pages(unit, g, control)
            .into_iter()
            .find(|p| (p.code, p.subpage) == (code, subpage))
    };
    let (Some(current), Some(changeable)) =
        (find(PageControl::Current), find(PageControl::Changeable))
    else {
        return Err(Sense::field_in_list(at, Some(5)).into());
    };
    let len = current.bytes.len();
    let Some(sent) = sent.get(..len) else {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    };
    let header = if has_subpage { 4 } else { 2 };
    if sent[1..header] != current.bytes[1..header] {
        return Err(Sense::field_in_list(at + 1, None).into());
    }
    let differs = (sent.iter().zip(&current.bytes))
        .zip(&changeable.bytes)
        .skip(header)
        .position(|((a, b), may)| (a ^ b) & !may != 0);
    if let Some(i) = differs {
        return Err(Sense::field_in_list(at + header + i, None).into());
    }
    Ok(len)
}

fn apply(modes: &Modes, page: &[u8]) {
    let set = |flag: &std::sync::atomic::AtomicBool, on| flag.store(on, Ordering::Relaxed);
    match page[0] & 0x7f {
        CACHING => set(&modes.write_cache, page[2] & WCE != 0),
        CONTROL => {
            set(&modes.descriptor_sense, page[2] & D_SENSE != 0);
            set(&modes.software_write_protect, page[4] & SWP != 0);
            set(&modes.task_aborted_status, page[5] & TAS != 0);
        }
        _ => {}
    }
}

pub(super) async fn select(task: &Task, unit: &Unit, list: &[u8]) -> Result<Payload> {
    let Command::ModeSelect {
        long,
        page_format,
        save,
        ..
    } = task.command
    else {
        return Err(Sense::illegal(Asc::INVALID_OPCODE).into());
    };
    if save {
        return Err(Sense::field_in_cdb(1, Some(0)).into());
    }
    if list.is_empty() {
        return nothing();
    }
    if !page_format {
        return Err(Sense::field_in_cdb(1, Some(4)).into());
    }
    let g = unit.geometry();
    let (sent, start) = list_pages(&g, list, long)?;
    let mut ends = Vec::new();
    let mut at = 0;
    while at < sent.len() {
        let len = check_page(unit, &g, &sent[at..], start + at)?;
        ends.push(at..at + len);
        at += len;
    }
    let cached = unit.write_cache();
    for page in ends {
        apply(&unit.modes, &sent[page]);
    }
    let asc = Asc::MODE_PARAMETERS_CHANGED;
    task.device
        .raise_on_unit(unit.lun, asc, Some(task.nexus.id));
    // Without a cache every write is stable, including the earlier ones.
    if cached && !unit.write_cache() {
        return super::common::durable(unit.backend.flush().await?);
    }
    nothing()
}
