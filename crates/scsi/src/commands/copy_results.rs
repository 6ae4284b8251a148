//! RECEIVE COPY RESULTS and the other RECEIVE commands of copies (SPC-4 6.20 to 6.26).
//!
//! **Called by** the dispatch. **Invariants**: the reported limits are the limits that [`super::copy`] checks.

use super::common::{Result, reply};
use super::copy::{BLOCK_TO_BLOCK, DESCRIPTORS_LEN_MAX, IDENTIFICATION};
use crate::copy_result::CopyResult;
use crate::limits::{COPY_SEGMENT_BYTES_MAX, COPY_SEGMENTS_MAX, COPY_TARGETS_MAX};
use crate::opcode::sa;
use crate::sense::Sense;
use crate::status::Status;
use crate::task::Task;
use crate::unit::Unit;
use io::Payload;

/// Parameter data after its AVAILABLE DATA field.
fn available(body: Vec<u8>, allocation: u32) -> Result<Payload> {
    let mut out = (body.len() as u32).to_be_bytes().to_vec();
    out.extend(body);
    reply(out, allocation)
}

/// RECEIVE COPY RESULTS and the other RECEIVE commands. Errors: INVALID FIELD IN CDB for an unknown copy.
pub(super) fn results(
    task: &Task,
    unit: &Unit,
    action: u8,
    list_id: u32,
    allocation: u32,
) -> Result<Payload> {
    if action == sa::RECEIVE_COPY_OPERATING_PARAMETERS {
        return available(operating_parameters(), allocation);
    }
    let copy = unit
        .copy_result(task.nexus.id, list_id)
        .ok_or(Sense::field_in_cdb(2, None))?;
    let segments = copy.segments.to_be_bytes();
    // TRANSFER COUNT in KiB.
    let kib = (copy.bytes >> 10).to_be_bytes();
    let body = match action {
        sa::RECEIVE_COPY_STATUS_LID1 => {
            let mut body = vec![copy.state.lid1(), segments[0], segments[1], 1];
            body.extend(&kib[4..]);
            body
        }
        sa::RECEIVE_COPY_FAILURE_DETAILS_LID1 => failure_details(&copy),
        sa::RECEIVE_COPY_STATUS_LID4 => status_lid4(&copy, &kib),
        // RECEIVE DATA: no segment descriptor holds data.
        _ => Vec::new(),
    };
    available(body, allocation)
}

/// Parameter data after AVAILABLE DATA for a failed copy; empty if it did not fail (SPC-4 6.22).
fn failure_details(copy: &CopyResult) -> Vec<u8> {
    let Some(sense) = copy.state.sense() else {
        return Vec::new();
    };
    let mut body = vec![0; 56];
    body[52] = Status::CheckCondition as u8;
    body[54..56].copy_from_slice(&(sense.len() as u16).to_be_bytes());
    body.extend(sense);
    body
}

/// SPC-4 6.24.
fn status_lid4(copy: &CopyResult, kib: &[u8]) -> Vec<u8> {
    let sense = copy.state.sense().unwrap_or_default();
    let status = if copy.state.sense().is_some() {
        Status::CheckCondition
    } else {
        Status::Good
    };
    let mut body = vec![0; 28];
    body[1] = copy.state.lid4();
    body[2..4].copy_from_slice(&copy.segments.to_be_bytes());
    // ESTIMATED STATUS UPDATE DELAY: none.
    body[4..8].fill(0xff);
    body[8] = status as u8;
    (body[9], body[10]) = (sense.len() as u8, sense.len() as u8);
    body[11] = 1;
    body[12..20].copy_from_slice(kib);
    body[20..22].copy_from_slice(&copy.segments.to_be_bytes());
    body.extend(sense);
    body
}

/// SPC-4 6.21, after AVAILABLE DATA.
fn operating_parameters() -> Vec<u8> {
    let mut body = vec![0; 40];
    // SNLID: LIST ID USAGE 11b is supported.
    body[0] = 1;
    body[4..6].copy_from_slice(&(COPY_TARGETS_MAX as u16).to_be_bytes());
    body[6..8].copy_from_slice(&(COPY_SEGMENTS_MAX as u16).to_be_bytes());
    body[8..12].copy_from_slice(&(DESCRIPTORS_LEN_MAX as u32).to_be_bytes());
    body[12..16].copy_from_slice(&COPY_SEGMENT_BYTES_MAX.to_be_bytes());
    // TOTAL CONCURRENT COPIES and MAXIMUM CONCURRENT COPIES, DATA SEGMENT GRANULARITY 512 bytes.
    (body[31], body[32], body[33]) = (u8::MAX, u8::MAX, 9);
    let descriptors = [BLOCK_TO_BLOCK, IDENTIFICATION];
    body[39] = descriptors.len() as u8;
    body.extend(descriptors);
    body
}
