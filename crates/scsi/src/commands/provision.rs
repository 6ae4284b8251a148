//! WRITE SAME, UNMAP, GET LBA STATUS, READ CAPACITY (SBC-3 5.5, 5.16, 5.17, 5.27, 5.43, 5.44).
//!
//! **Invariants**: every range of a parameter list is checked before the first change; deallocated blocks read as
//! zero (LBPRZ), so UNMAP zeroes its ranges.

use super::block::{extent, make_durable};
use super::common::{Result, check_range, next_piece, reply};
use crate::command::WriteSame;
use crate::limits::{
    LBA_STATUS_DESCRIPTORS_MAX, LBA_STATUS_LOOKS_MAX, UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX,
    WRITE_SAME_STEP_BYTES,
};
use crate::sense::{Asc, Sense};
use crate::task::Cancel;
use crate::unit::Unit;
use backend::{Extent, Geometry, Lba, Run};
use io::{IoBuf, Payload};

const UNMAP_HEADER: usize = 8;
const LBA_STATUS_HEADER: usize = 8;
const LBA_STATUS_DESCRIPTOR: usize = 16;
const UNMAP_DESCRIPTOR: usize = 16;

/// WRITE SAME. Zeroes need no data on the medium, and with UNMAP no space; other contents are written.
pub(super) async fn write_same(
    unit: &Unit,
    same: WriteSame,
    data: Option<IoBuf>,
    cancel: &Cancel,
) -> Result<Payload> {
    let g = unit.geometry();
    let at = extent(same.at);
    let block = data.as_deref().unwrap_or_default().to_vec();
    drop(data);
    if block.iter().all(|b| *b == 0) {
        unit.backend.write_zeroes(at, same.unmap).await?;
        return make_durable(unit, false).await;
    }
    let step = u64::from((WRITE_SAME_STEP_BYTES / g.block_size).max(1));
    let mut done = 0;
    while done < at.blocks {
        next_piece(cancel).await?;
        let blocks = step.min(at.blocks - done);
        let mut buf = io::pool()
            .alloc((blocks * u64::from(g.block_size)) as usize)
            .await;
        for chunk in buf.chunks_exact_mut(block.len()) {
            chunk.copy_from_slice(&block);
        }
        unit.backend.write(Lba(at.start.0 + done), buf).await?;
        done += blocks;
    }
    make_durable(unit, false).await
}

/// A big-endian number of at most eight bytes.
fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// The extents of an UNMAP parameter list (SBC-3 5.27.2).
fn unmap_extents(g: &Geometry, list: &[u8]) -> Result<Vec<Extent>> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let Some(header) = list.first_chunk::<UNMAP_HEADER>() else {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    };
    // The descriptors end where both lengths allow; an incomplete one is ignored.
    let named = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let descriptors = &list[UNMAP_HEADER..];
    let descriptors = &descriptors[..named.min(descriptors.len())];
    let count = descriptors.len() / UNMAP_DESCRIPTOR;
    if count > UNMAP_DESCRIPTORS_MAX as usize {
        return Err(Sense::field_in_list(2, None).into());
    }
    let mut total = 0;
    let mut extents = Vec::with_capacity(count);
    for d in descriptors.chunks_exact(UNMAP_DESCRIPTOR) {
        let blocks = be(&d[8..12]);
        total += blocks;
        if total > u64::from(UNMAP_BLOCKS_MAX) {
            return Err(Sense::illegal(Asc::INVALID_FIELD_IN_PARAMETER_LIST).into());
        }
        extents.push(check_range(g, be(&d[..8]), blocks)?);
    }
    Ok(extents)
}

pub(super) async fn unmap(
    unit: &Unit,
    anchor: bool,
    list: &[u8],
    cancel: &Cancel,
) -> Result<Payload> {
    // No unit has anchored blocks (ANC_SUP is 0).
    if anchor {
        return Err(Sense::field_in_cdb(1, Some(0)).into());
    }
    for at in unmap_extents(&unit.geometry(), list)? {
        next_piece(cancel).await?;
        if at.blocks > 0 {
            unit.backend.write_zeroes(at, true).await?;
        }
    }
    make_durable(unit, false).await
}

pub(super) fn read_capacity_10(unit: &Unit) -> Result<Payload> {
    let g = unit.geometry();
    let last = u32::try_from(g.blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    let mut out = last.to_be_bytes().to_vec();
    out.extend(g.block_size.to_be_bytes());
    reply(out, u32::MAX)
}

/// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT.
pub(super) fn physical_exponent(g: &Geometry) -> u8 {
    (g.physical_block / g.block_size.max(1))
        .max(1)
        .ilog2()
        .min(15) as u8
}

/// LBPME: the unit supports deallocation.
pub(super) fn is_thin(g: &Geometry) -> bool {
    g.deallocate_blocks > 0
}

pub(super) fn read_capacity_16(unit: &Unit, allocation: u32) -> Result<Payload> {
    let g = unit.geometry();
    let mut out = vec![0; 32];
    out[..8].copy_from_slice(&g.blocks.saturating_sub(1).to_be_bytes());
    out[8..12].copy_from_slice(&g.block_size.to_be_bytes());
    out[13] = physical_exponent(&g);
    if is_thin(&g) {
        // LBPME and LBPRZ.
        out[14] = 0xc0;
    }
    reply(out, allocation)
}

/// GET LBA STATUS (SBC-3 5.5): the requested number of descriptors, or fewer if [`LBA_STATUS_LOOKS_MAX`] calls of the
/// backend return fewer; at least one.
pub(super) async fn lba_status(
    unit: &Unit,
    lba: u64,
    allocation: u32,
    cancel: &Cancel,
) -> Result<Payload> {
    let g = unit.geometry();
    if lba >= g.blocks {
        return Err(backend::StorageError::OutOfRange.into());
    }
    let room = (allocation as usize).saturating_sub(LBA_STATUS_HEADER) / LBA_STATUS_DESCRIPTOR;
    let most = room.clamp(1, LBA_STATUS_DESCRIPTORS_MAX);
    let mut found: Vec<Run> = Vec::new();
    let mut at = lba;
    for _ in 0..LBA_STATUS_LOOKS_MAX {
        let extent = Extent {
            start: Lba(at),
            blocks: g.blocks - at,
        };
        for run in unit.backend.runs(extent).await? {
            at += run.blocks;
            match found.last_mut() {
                Some(last) if last.mapped == run.mapped => last.blocks += run.blocks,
                _ => found.push(run),
            }
        }
        // A run that may continue is complete only when another one follows.
        if at >= g.blocks || found.len() > most {
            break;
        }
        next_piece(cancel).await?;
    }
    let mut descriptors = Vec::new();
    let mut at = lba;
    for run in found.iter().take(most) {
        let blocks = u32::try_from(run.blocks).unwrap_or(u32::MAX);
        descriptors.extend(at.to_be_bytes());
        descriptors.extend(blocks.to_be_bytes());
        // PROVISIONING STATUS: mapped, or deallocated.
        descriptors.extend([u8::from(!run.mapped), 0, 0, 0]);
        at += run.blocks;
        if u64::from(blocks) < run.blocks {
            break;
        }
    }
    let mut out = (descriptors.len() as u32 + 4).to_be_bytes().to_vec();
    out.extend([0; 4]);
    out.extend(descriptors);
    reply(out, allocation)
}
