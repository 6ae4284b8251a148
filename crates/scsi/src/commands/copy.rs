//! EXTENDED COPY (SPC-4 6.4, 6.5), between logical units of one device.
//!
//! **Owns** the copy itself; [`super::copy_results`] reports its result. **Invariants**: every descriptor is checked
//! before the first block is written. A copy needs read access to its sources and write access to its destinations.
//! A copy has one chunk in memory, and a shard moves a bounded number of chunks at a time. Between two chunks other tasks run
//! and the copy may be aborted. Deallocated blocks of the source are not read.

use super::block::pieces;
use super::common::{Result, check_range, check_writable, next_piece, nothing};
use super::{provision, vpd};
use crate::copy_result::{CopyResult, CopyState};
use crate::limits::{
    COPY_SEGMENT_BYTES_MAX, COPY_SEGMENTS_MAX, COPY_STEP_BYTES, COPY_STEPS_AT_ONCE,
    COPY_TARGETS_MAX,
};
use crate::sense::{Asc, Sense, SenseKey};
use crate::status::Refusal;
use crate::task::{Cancel, Task};
use crate::unit::Unit;
use backend::{Extent, Lba};
use io::runtime::shard_local;
use io::sync::Semaphore;
use io::{IoBuf, Payload};
use std::sync::Arc;

/// Identification descriptor CSCD descriptor (SPC-4 6.4.5.2).
pub(super) const IDENTIFICATION: u8 = 0xe4;
/// Block device to block device segment descriptor (SPC-4 6.4.6.3).
pub(super) const BLOCK_TO_BLOCK: u8 = 0x02;
const TARGET_LEN: usize = 32;
const SEGMENT_LEN: usize = 28;
/// MAXIMUM DESCRIPTOR LIST LENGTH.
pub(super) const DESCRIPTORS_LEN_MAX: usize =
    COPY_TARGETS_MAX * TARGET_LEN + COPY_SEGMENTS_MAX * SEGMENT_LEN;
const HEADER_LID1: usize = 16;
const HEADER_LID4: usize = 48;
/// LIST ID USAGE 00b: the list identifier is that of one copy until its results are replaced.
const EXCLUSIVE_LIST_ID: u8 = 0;
/// LIST ID USAGE 11b: the list identifier is not used and no result is kept.
const NO_LIST_ID: u8 = 3;

/// Permits to move a chunk, of one shard.
struct Steps(Semaphore);

/// A copy in progress.
struct Copy<'a> {
    unit: &'a Unit,
    cancel: &'a Cancel,
    /// Whether it has a list identifier, so that RECEIVE COPY RESULTS may ask for it.
    is_remembered: bool,
    result: CopyResult,
}

/// A checked segment.
struct Segment {
    source: Arc<Unit>,
    from: Extent,
    destination: Arc<Unit>,
    to: Lba,
}

/// The header of a parameter list, and its descriptors.
struct List<'a> {
    id: Option<u32>,
    /// Whether no other copy may use the identifier.
    is_exclusive: bool,
    targets: &'a [u8],
    segments: &'a [u8],
    /// Offset of the descriptors, for field pointers.
    start: usize,
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn length_error() -> Refusal {
    Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into()
}

fn aborted(asc: Asc) -> Refusal {
    Sense::new(SenseKey::CopyAborted, asc).into()
}

fn parse(list: &[u8], lid4: bool) -> Result<List<'_>> {
    let start = if lid4 { HEADER_LID4 } else { HEADER_LID1 };
    let Some((h, descriptors)) = list.split_at_checked(start) else {
        return Err(length_error());
    };
    let (targets, segments, inline, id) = if lid4 {
        // PARAMETER LIST FORMAT 1; the header CSCD descriptor is ignored.
        if h[0] != 1 {
            return Err(Sense::field_in_list(0, None).into());
        }
        (
            be(&h[42..44]),
            be(&h[44..46]),
            be(&h[46..48]),
            be(&h[20..24]),
        )
    } else {
        (be(&h[2..4]), be(&h[8..12]), be(&h[12..16]), u64::from(h[0]))
    };
    let (targets, segments) = (targets as usize, segments as usize);
    if inline != 0 {
        return Err(Sense::illegal(Asc::INLINE_DATA_LENGTH_EXCEEDED).into());
    }
    if targets + segments > DESCRIPTORS_LEN_MAX || targets + segments > descriptors.len() {
        return Err(length_error());
    }
    let usage = h[1] >> 3 & 3;
    let (targets, rest) = descriptors.split_at(targets);
    let id = (usage != NO_LIST_ID).then_some(id as u32);
    Ok(List {
        id,
        is_exclusive: usage == EXCLUSIVE_LIST_ID,
        targets,
        segments: &rest[..segments],
        start,
    })
}

/// The logical units that the CSCD descriptors name; `None` for one that this device does not have.
fn targets(task: &Task, list: &List<'_>) -> Result<Vec<Option<Arc<Unit>>>> {
    let chunks = list.targets.chunks_exact(TARGET_LEN);
    if list
        .targets
        .chunks(TARGET_LEN)
        .any(|d| d[0] != IDENTIFICATION)
    {
        return Err(Sense::illegal(Asc::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE).into());
    }
    if chunks.len() > COPY_TARGETS_MAX {
        return Err(Sense::illegal(Asc::TOO_MANY_TARGET_DESCRIPTORS).into());
    }
    if !chunks.remainder().is_empty() {
        return Err(length_error());
    }
    let units = task.device.units();
    let find = |d: &[u8]| {
        let designator = &d[8..8 + usize::from(d[7]).min(20)];
        let is_naa = d[5] & 0x3f == vpd::NAA;
        units
            .iter()
            .find(|u| is_naa && vpd::naa(u.uuid)[..] == *designator)
            .cloned()
    };
    let mut out = Vec::with_capacity(chunks.len());
    for (i, d) in chunks.enumerate() {
        if d[1] & 0x1f != 0 {
            return Err(aborted(Asc::INCORRECT_COPY_TARGET_DEVICE_TYPE));
        }
        let unit = find(d);
        let block_size = be(&d[29..32]);
        let agrees = unit
            .as_ref()
            .is_none_or(|u| u64::from(u.geometry().block_size) == block_size);
        if !agrees {
            return Err(Sense::field_in_list(list.start + i * TARGET_LEN + 29, None).into());
        }
        out.push(unit);
    }
    Ok(out)
}

fn segments(task: &Task, list: &List<'_>, units: &[Option<Arc<Unit>>]) -> Result<Vec<Segment>> {
    if list
        .segments
        .chunks(SEGMENT_LEN)
        .any(|d| d[0] != BLOCK_TO_BLOCK)
    {
        return Err(Sense::illegal(Asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE).into());
    }
    let chunks = list.segments.chunks_exact(SEGMENT_LEN);
    if chunks.len() > COPY_SEGMENTS_MAX {
        return Err(Sense::illegal(Asc::TOO_MANY_SEGMENT_DESCRIPTORS).into());
    }
    if !chunks.remainder().is_empty() {
        return Err(length_error());
    }
    let unit = |index: u64| {
        let unit = units.get(index as usize).and_then(Option::as_ref);
        unit.cloned()
            .ok_or_else(|| aborted(Asc::COPY_TARGET_DEVICE_NOT_REACHABLE))
    };
    let mut out = Vec::with_capacity(chunks.len());
    for (i, d) in chunks.enumerate() {
        let at = list.start + list.targets.len() + i * SEGMENT_LEN;
        if be(&d[2..4]) != SEGMENT_LEN as u64 - 4 {
            return Err(Sense::field_in_list(at + 2, None).into());
        }
        let (source, destination) = (unit(be(&d[4..6]))?, unit(be(&d[6..8]))?);
        out.push(segment(task, source, destination, d, at)?);
    }
    Ok(out)
}

fn segment(
    task: &Task,
    source: Arc<Unit>,
    destination: Arc<Unit>,
    d: &[u8],
    at: usize,
) -> Result<Segment> {
    let (g, h) = (source.geometry(), destination.geometry());
    // DC: the count is of the destination's blocks, which are as large.
    if g.block_size != h.block_size {
        return Err(aborted(Asc::NO_SENSE));
    }
    let blocks = be(&d[10..12]);
    if blocks * u64::from(g.block_size) > u64::from(COPY_SEGMENT_BYTES_MAX) {
        return Err(Sense::field_in_list(at + 10, None).into());
    }
    let out_of_range = |_| aborted(Asc::NO_SENSE);
    let from = check_range(&g, be(&d[12..20]), blocks).map_err(out_of_range)?;
    let to = check_range(&h, be(&d[20..28]), blocks).map_err(out_of_range)?;
    if !source.access(&task.nexus).read || !destination.access(&task.nexus).write {
        return Err(Refusal::Conflict);
    }
    check_writable(&destination)?;
    Ok(Segment {
        source,
        from,
        destination,
        to: to.start,
    })
}

/// A segment that failed during the copy ends it with COPY ABORTED and the segment's number (SPC-4 6.4.3).
fn failed(e: &Refusal, segment: u16) -> Refusal {
    match e {
        Refusal::Sense(sense) if sense.key != SenseKey::AbortedCommand => Refusal::Sense(Sense {
            command_specific: Some(u64::from(segment)),
            ..Sense::new(SenseKey::CopyAborted, Asc::THIRD_PARTY_DEVICE_FAILURE)
        }),
        other => *other,
    }
}

/// A buffer with the bytes of `payload`. The task holds no buffer while it waits for one, so that copies cannot
/// starve each other.
async fn buffer_of(payload: Payload) -> IoBuf {
    if let Some(mut buf) = io::pool().try_alloc(payload.len()) {
        payload.copy_to(&mut buf);
        return buf;
    }
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    drop(payload);
    let mut buf = io::pool().alloc(bytes.len()).await;
    buf.copy_from_slice(&bytes);
    buf
}

impl Copy<'_> {
    fn remember(&self) {
        if self.is_remembered {
            self.unit.remember_copy(self.result.clone());
        }
    }

    /// Copies a segment; deallocated blocks of its source are deallocated at its destination, if it supports that.
    async fn run(&mut self, segment: &Segment) -> Result<()> {
        let (source, destination) = (&segment.source, &segment.destination);
        let mut done = 0;
        while done < segment.from.blocks {
            let rest = Extent {
                start: Lba(segment.from.start.0 + done),
                blocks: segment.from.blocks - done,
            };
            next_piece(self.cancel).await?;
            for run in source.backend.runs(rest).await? {
                let from = Extent {
                    start: Lba(segment.from.start.0 + done),
                    blocks: run.blocks,
                };
                let to = Lba(segment.to.0 + done);
                if run.mapped {
                    self.data(segment, from, to).await?;
                } else {
                    next_piece(self.cancel).await?;
                    let to = Extent { start: to, ..from };
                    let deallocate = provision::is_thin(&destination.geometry());
                    destination.backend.write_zeroes(to, deallocate).await?;
                    self.moved(segment, from)?;
                }
                done += run.blocks;
            }
        }
        if !destination.write_cache() {
            let _ = destination.backend.flush().await?;
        }
        Ok(())
    }

    /// Copies allocated blocks, chunk by chunk.
    async fn data(&mut self, segment: &Segment, from: Extent, to: Lba) -> Result<()> {
        let block_size = segment.source.geometry().block_size;
        let steps = shard_local(|| Steps(Semaphore::new(COPY_STEPS_AT_ONCE)));
        let mut to = to;
        for piece in pieces(from, block_size, COPY_STEP_BYTES) {
            let _permit = steps.0.acquire(1).await;
            next_piece(self.cancel).await?;
            let data = buffer_of(segment.source.backend.read(piece).await?).await;
            segment.destination.backend.write(to, data).await?;
            to = Lba(to.0 + piece.blocks);
            self.moved(segment, piece)?;
        }
        Ok(())
    }

    fn moved(&mut self, segment: &Segment, piece: Extent) -> Result<()> {
        self.result.bytes += piece.bytes(segment.source.geometry().block_size)?;
        self.remember();
        Ok(())
    }
}

pub(super) async fn extended_copy(
    task: &Task,
    unit: &Unit,
    lid4: bool,
    list: &[u8],
    cancel: &Cancel,
) -> Result<Payload> {
    if list.is_empty() {
        return nothing();
    }
    let list = parse(list, lid4)?;
    // QEMU runs several copies with one identifier and LIST ID USAGE 10b.
    let namesake = list.id.filter(|_| list.is_exclusive);
    let namesake = namesake.and_then(|id| unit.copy_result(task.nexus.id, id));
    if namesake.is_some_and(|copy| copy.is_running()) {
        return Err(Sense::illegal(Asc::OPERATION_IN_PROGRESS).into());
    }
    let units = targets(task, &list)?;
    let segments = segments(task, &list, &units)?;
    let mut copy = Copy {
        unit,
        cancel,
        is_remembered: list.id.is_some(),
        result: CopyResult {
            nexus: task.nexus.id,
            list: list.id.unwrap_or(0),
            segments: 0,
            bytes: 0,
            state: CopyState::Running,
        },
    };
    copy.remember();
    let mut ended = Ok(());
    for segment in &segments {
        let number = copy.result.segments;
        ended = copy.run(segment).await.map_err(|e| failed(&e, number));
        if ended.is_err() {
            break;
        }
        copy.result.segments += 1;
    }
    copy.result.state = match &ended {
        Err(Refusal::Sense(sense)) => CopyState::Failed(sense.fixed()),
        Err(Refusal::Conflict | Refusal::Busy) => CopyState::Failed(Vec::new()),
        Ok(()) => CopyState::Completed,
    };
    copy.remember();
    ended?;
    nothing()
}
