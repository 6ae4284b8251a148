//! Vital product data pages (SPC-4 7.8, SBC-3 6.6).
//!
//! **Invariants**: the commands enforce the reported limits: both come from [`crate::limits`].

use super::common::{Result, ascii, reply};
use super::provision::is_thin;
use crate::device::Device;
use crate::limits::{
    COMPARE_AND_WRITE_BYTES_MAX, TRANSFER_BYTES_MAX, TRANSFER_BYTES_OPTIMAL, UNMAP_BLOCKS_MAX,
    UNMAP_DESCRIPTORS_MAX, WRITE_SAME_BLOCKS_MAX,
};
use crate::nexus::{Nexus, PROTOCOL_ISCSI};
use crate::sense::Sense;
use crate::task::Task;
use crate::unit::Unit;
use backend::Geometry;
use io::Payload;
use uuid::Uuid;

pub(super) const SUPPORTED_PAGES: u8 = 0x00;
const UNIT_SERIAL_NUMBER: u8 = 0x80;
const DEVICE_IDENTIFICATION: u8 = 0x83;
const EXTENDED_INQUIRY: u8 = 0x86;
const BLOCK_LIMITS: u8 = 0xb0;
const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;
const PAGES: [u8; 7] = [
    SUPPORTED_PAGES,
    UNIT_SERIAL_NUMBER,
    DEVICE_IDENTIFICATION,
    EXTENDED_INQUIRY,
    BLOCK_LIMITS,
    BLOCK_DEVICE_CHARACTERISTICS,
    LOGICAL_BLOCK_PROVISIONING,
];
/// Page length of the pages that have 64 bytes in all.
const LONG_PAGE: usize = 0x3c;
/// Longest UNIT SERIAL NUMBER, bytes.
const SERIAL_MAX: usize = 32;
/// THRESHOLD EXPONENT: a threshold set is 2 to this power blocks.
pub(super) const THRESHOLD_EXPONENT: u8 = 11;

/// CODE SET of a designator.
const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;
/// DESIGNATOR TYPE.
const T10_VENDOR_ID: u8 = 1;
pub(super) const NAA: u8 = 3;
const RELATIVE_TARGET_PORT: u8 = 4;
const TARGET_PORT_GROUP: u8 = 5;
const SCSI_NAME: u8 = 8;
/// ASSOCIATION with a logical unit, target port or target device, with PIV for the latter two.
const OF_UNIT: u8 = 0x00;
const OF_PORT: u8 = 0x90;
const OF_DEVICE: u8 = 0xa0;

pub(super) fn page(task: &Task, unit: &Unit, page: u8, allocation: u32) -> Result<Payload> {
    let g = unit.geometry();
    let body = match page {
        SUPPORTED_PAGES => PAGES.to_vec(),
        UNIT_SERIAL_NUMBER => serial(unit),
        DEVICE_IDENTIFICATION => identification(&task.device, &task.nexus, unit),
        EXTENDED_INQUIRY => extended_inquiry(&g),
        BLOCK_LIMITS => block_limits(&g),
        BLOCK_DEVICE_CHARACTERISTICS => characteristics(),
        LOGICAL_BLOCK_PROVISIONING => provisioning(&g),
        _ => return Err(Sense::field_in_cdb(2, None).into()),
    };
    let mut out = vec![0, page];
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    reply(out, allocation)
}

fn serial(unit: &Unit) -> Vec<u8> {
    let mut out = vec![b' '; unit.serial.len().clamp(1, SERIAL_MAX)];
    ascii(&mut out, &unit.serial);
    out
}

fn designator(out: &mut Vec<u8>, code_set: u8, kind: u8, body: &[u8]) {
    let protocol = if kind & 0x80 == 0 {
        0
    } else {
        PROTOCOL_ISCSI << 4
    };
    out.extend([protocol | code_set, kind, 0, body.len() as u8]);
    out.extend(body);
}

/// A name padded with at least one null to a multiple of four bytes (SPC-4 7.8.5.11).
fn scsi_name(name: &str) -> Vec<u8> {
    let mut out = name.as_bytes().to_vec();
    out.resize((out.len() + 4) / 4 * 4, 0);
    out
}

/// The locally assigned NAA identifier (SPC-4 7.8.5.6.4) of a disk: 60 bits of its UUID, both halves folded.
pub(super) fn naa(uuid: Uuid) -> [u8; 8] {
    let (high, low) = uuid.as_u64_pair();
    let folded = high ^ low.rotate_left(4);
    (folded >> 4 | 0x3 << 60).to_be_bytes()
}

fn identification(device: &Device, nexus: &Nexus, unit: &Unit) -> Vec<u8> {
    let mut out = Vec::new();
    designator(&mut out, BINARY, OF_UNIT | NAA, &naa(unit.uuid));
    let mut vendor = vec![b' '; 8];
    ascii(&mut vendor, &device.config.vendor);
    vendor.extend(unit.uuid.simple().to_string().into_bytes());
    designator(&mut out, ASCII, OF_UNIT | T10_VENDOR_ID, &vendor);
    let port = device.ports().port(nexus.port).copied();
    if let Some(port) = port {
        let relative = [[0, 0], port.relative.to_be_bytes()].concat();
        designator(&mut out, BINARY, OF_PORT | RELATIVE_TARGET_PORT, &relative);
        let group = [[0, 0], port.group.to_be_bytes()].concat();
        designator(&mut out, BINARY, OF_PORT | TARGET_PORT_GROUP, &group);
        let name = scsi_name(&format!(
            "{},t,0x{:04x}",
            device.config.name, port.portal_group
        ));
        designator(&mut out, UTF8, OF_PORT | SCSI_NAME, &name);
    }
    designator(
        &mut out,
        UTF8,
        OF_DEVICE | SCSI_NAME,
        &scsi_name(&device.config.name),
    );
    out
}

/// SPC-4 7.8.7: simple tasks; a volatile cache if there is one.
fn extended_inquiry(g: &Geometry) -> Vec<u8> {
    let mut out = vec![0; LONG_PAGE];
    out[1] = 0x01;
    out[2] = u8::from(g.volatile_cache);
    out
}

fn put32(out: &mut [u8], at: usize, n: u32) {
    out[at..at + 4].copy_from_slice(&n.to_be_bytes());
}

/// SBC-3 6.6.4; offsets are those of the body.
fn block_limits(g: &Geometry) -> Vec<u8> {
    let bs = g.block_size.max(1);
    let mut out = vec![0; LONG_PAGE];
    // WSNZ: WRITE SAME of zero blocks is refused.
    out[0] = 1;
    out[1] = (COMPARE_AND_WRITE_BYTES_MAX / bs).min(255) as u8;
    let granularity = u16::try_from(g.optimal_blocks).unwrap_or(u16::MAX);
    out[2..4].copy_from_slice(&granularity.to_be_bytes());
    put32(&mut out, 4, TRANSFER_BYTES_MAX / bs);
    put32(&mut out, 8, TRANSFER_BYTES_OPTIMAL / bs);
    if is_thin(g) {
        put32(&mut out, 16, UNMAP_BLOCKS_MAX);
        put32(&mut out, 20, UNMAP_DESCRIPTORS_MAX);
        // A granularity of one block means the same as zero ("not reported"), and QEMU (at least up to 7.2) aborts on
        // LUNs of 4096-byte blocks that report one.
        if g.deallocate_blocks > 1 {
            put32(&mut out, 24, g.deallocate_blocks);
            // UGAVALID, alignment 0.
            put32(&mut out, 28, 1 << 31);
        }
    }
    let same = u64::from(WRITE_SAME_BLOCKS_MAX);
    out[32..40].copy_from_slice(&same.to_be_bytes());
    out
}

/// SBC-3 6.6.3: a medium that does not rotate.
fn characteristics() -> Vec<u8> {
    let mut out = vec![0; LONG_PAGE];
    out[1] = 1;
    out
}

/// SBC-3 6.6.6: LBPU, LBPWS, LBPWS10, LBPRZ; thin or resource provisioned.
fn provisioning(g: &Geometry) -> Vec<u8> {
    if !is_thin(g) {
        return vec![0, 0, 0, 0];
    }
    let kind = if g.thin { 2 } else { 1 };
    vec![THRESHOLD_EXPONENT, 0xe4, kind, 0]
}
