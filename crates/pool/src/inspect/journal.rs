//! The journal on disk: its batches, its end, and the reason of the end.
//!
//! **Owns** a second implementation of the rule of `docs/decisions/0102`. **Called by** the offline reader. **Invariants**:
//! it accepts exactly the batches that replay would accept; one batch is in memory at a time. `docs/format.md`, "Journal".

use std::path::PathBuf;

use super::disks::{Flaw, Image};
use super::found::{Finding, FindingKind, Findings};
use crate::format::{
    Address, Batch, BatchHeader, Defect, JournalPosition, JournalStart, Record, Sequence,
    Uberblock, VdevOffset,
};
use crate::journal::Ring;

/// A batch.
#[derive(Debug, Clone)]
pub struct SeenBatch {
    /// Its header.
    pub header: BatchHeader,
    /// Its position in the ring.
    pub position: JournalPosition,
    /// Its address.
    pub at: Address,
    /// Length in bytes: whole sectors.
    pub size: usize,
    /// Number of records by kind: puts of new blocks, puts of contents, other puts, deletes, range deletes, freezes, state records.
    pub counts: [u32; 7],
    /// Disks that should have it and do not.
    pub lacking: Vec<(PathBuf, Flaw)>,
}

/// Why the journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalEnd {
    /// No batch follows.
    Nothing,
    /// A batch follows that was not acknowledged: no disk has one of its blocks.
    DataMissing {
        /// The batch.
        sequence: Sequence,
        /// The block.
        at: Address,
    },
    /// The journal has moved to other vdevs since the checkpoint.
    Moved,
    /// No disk has a batch that was durable.
    Lost {
        /// The batch.
        sequence: Sequence,
    },
}

/// The journal behind an uberblock.
#[derive(Debug, Clone)]
pub struct SeenJournal {
    /// The batches that replay would accept.
    pub batches: Vec<SeenBatch>,
    /// Intact batches behind them that replay would give up.
    pub given_up: Vec<SeenBatch>,
    /// Position of the next batch.
    pub head: JournalPosition,
    /// The reason of its end.
    pub end: JournalEnd,
    /// The last batch known to have been flushed.
    pub durable: Sequence,
    /// Bytes of the ring that replay needs.
    pub used: u64,
    /// Size of the ring, bytes.
    pub size: u64,
}

fn counts(records: &[Record]) -> [u32; 7] {
    let mut counts = [0; 7];
    for record in records {
        counts[match record {
            Record::PutFresh(..) => 0,
            Record::PutContents(..) => 1,
            Record::Put(..) => 2,
            Record::Delete(..) => 3,
            Record::DeleteRange(..) => 4,
            Record::Freeze(..) => 5,
            Record::State(_) => 6,
        }] += 1;
    }
    counts
}

/// Bytes of the ring per read.
const AHEAD: usize = 256 << 10;

struct Way<'a> {
    image: &'a Image,
    ring: Ring,
}

impl Way<'_> {
    /// The batch at a position on one disk, where it has this offset in the member's data, or what is wrong with it.
    async fn copy(
        &self,
        (disk, offset): (usize, VdevOffset),
        at: JournalPosition,
    ) -> Result<Batch, Flaw> {
        let address = self.ring.address(at);
        let sector = self.ring.sector as usize;
        let read = self.image.read_member(disk, offset, sector).await;
        let mut buf = read.ok_or(Flaw::Unreadable)?;
        let Some(size) = Batch::size_hint(&buf, sector) else {
            return Err(Flaw::Blank);
        };
        if size > self.ring.room(at) {
            let field = "batch's length";
            let value = size as u64;
            return Err(Flaw::Wrong(Defect::Field { field, value }));
        }
        if size > sector {
            let read = self.image.read_member(disk, offset, size).await;
            buf = read.ok_or(Flaw::Unreadable)?;
        }
        Batch::decode(&buf, address, self.ring.pool, sector).map_err(Flaw::Wrong)
    }

    /// The batch at a position, if a disk has it.
    async fn at(&self, head: &JournalStart, at: JournalPosition) -> Option<(Batch, SeenBatch)> {
        let address = self.ring.address(at);
        let mut found: Option<Batch> = None;
        let mut lacking = Vec::new();
        for (disk, offset) in self.image.journal_copies(address) {
            let follows = |b: &Batch| {
                b.header.sequence == head.sequence && b.header.previous == head.previous
            };
            match self.copy((disk, offset), at).await {
                Ok(batch) if follows(&batch) => found = found.or(Some(batch)),
                Ok(_) => lacking.push((self.image.path(disk), Flaw::Blank)),
                Err(flaw) => lacking.push((self.image.path(disk), flaw)),
            }
        }
        let batch = found?;
        let seen = SeenBatch {
            header: batch.header,
            position: at,
            at: address,
            size: batch.size,
            counts: counts(&batch.records),
            lacking,
        };
        Some((batch, seen))
    }

    /// The highest batch that any batch behind `head` records as durable.
    async fn durable_beyond(&self, head: &JournalStart, tail: u64) -> Sequence {
        let mut durable = Sequence(0);
        let mut at = head.position;
        loop {
            while self.ring.room(at) >= self.ring.sector as usize {
                let len =
                    AHEAD.min(self.ring.room(at)) as u32 / self.ring.sector * self.ring.sector;
                for copy in self.image.journal_copies(self.ring.address(at)) {
                    durable = durable.max(self.durable_in(copy, at, len, head.sequence).await);
                }
                at.offset += len;
            }
            at = self.ring.next_segment(at);
            if !self.ring.is_free(at, tail) {
                return durable;
            }
        }
    }

    /// As `durable_beyond`, for one stretch of the ring on one disk.
    async fn durable_in(
        &self,
        (disk, offset): (usize, VdevOffset),
        from: JournalPosition,
        len: u32,
        above: Sequence,
    ) -> Sequence {
        let sector = self.ring.sector as usize;
        let stretch = self.image.read_member(disk, offset, len as usize).await;
        let mut durable = Sequence(0);
        for index in 0..len / self.ring.sector {
            let start = index as usize * sector;
            let could_be = |bytes: &[u8]| Batch::size_hint(&bytes[start..], sector).is_some();
            if !stretch.as_ref().is_none_or(|bytes| could_be(bytes)) {
                continue;
            }
            let at = JournalPosition {
                offset: from.offset + index * self.ring.sector,
                ..from
            };
            let on_disk = VdevOffset(offset.0 + start as u64);
            if let Ok(batch) = self.copy((disk, on_disk), at).await
                && batch.header.sequence > above
            {
                durable = durable.max(batch.header.durable_up_to);
            }
        }
        durable
    }
}

impl Image {
    /// Reads the journal behind an uberblock.
    pub async fn journal(&self, uberblock: &Uberblock) -> SeenJournal {
        let mut head = uberblock.journal;
        let Some(ring) = self.ring_with(head.position.segment) else {
            return SeenJournal::moved(head);
        };
        let way = Way { image: self, ring };
        let tail = head.position.segment;
        let mut batches = Vec::new();
        'batches: loop {
            for at in way
                .ring
                .candidates(head.position, tail)
                .into_iter()
                .flatten()
            {
                if let Some((batch, seen)) = way.at(&head, at).await {
                    head = JournalStart {
                        sequence: head.sequence.next(),
                        position: JournalPosition {
                            offset: at.offset + batch.size as u32,
                            ..at
                        },
                        previous: batch.checksum,
                    };
                    batches.push(seen);
                    continue 'batches;
                }
            }
            break;
        }
        let beyond = way.durable_beyond(&head, tail).await;
        let known = batches.iter().map(|b: &SeenBatch| b.header.durable_up_to);
        let durable = known.max().unwrap_or(Sequence(0)).max(beyond);
        let mut end = JournalEnd::Nothing;
        let mut sound = batches.len();
        if beyond >= head.sequence {
            let sequence = head.sequence;
            end = JournalEnd::Lost { sequence };
        }
        for (index, seen) in batches.iter().enumerate() {
            if seen.header.sequence <= durable {
                continue;
            }
            if let Some(at) = self.missing_data(seen).await {
                let sequence = seen.header.sequence;
                end = JournalEnd::DataMissing { sequence, at };
                sound = index;
                break;
            }
        }
        let given_up = batches.split_off(sound);
        let last = |b: &SeenBatch| JournalPosition {
            offset: b.position.offset + b.size as u32,
            ..b.position
        };
        SeenJournal {
            head: batches.last().map_or(uberblock.journal.position, last),
            used: batches.iter().map(|b| b.size as u64).sum(),
            size: way.ring.size(),
            batches,
            given_up,
            end,
            durable,
        }
    }

    /// Reads the records of a batch again.
    pub(super) async fn records(&self, seen: &SeenBatch) -> Option<Vec<Record>> {
        let ring = self.ring_with(seen.position.segment)?;
        let way = Way { image: self, ring };
        let start = JournalStart {
            sequence: seen.header.sequence,
            position: seen.position,
            previous: seen.header.previous,
        };
        let found = way.at(&start, seen.position).await;
        found.map(|(batch, _)| batch.records)
    }

    /// Returns a new block of a batch that no disk has; `None` if all are there.
    async fn missing_data(&self, seen: &SeenBatch) -> Option<Address> {
        for record in self.records(seen).await? {
            if let Some(ptr) = record.fresh() {
                let copied = self.read(ptr, false).await;
                if !copied.is_ok_and(|copied| copied.good.is_some()) {
                    return Some(ptr.address());
                }
            }
        }
        None
    }
}

impl SeenJournal {
    /// A journal in a ring that is gone.
    fn moved(start: JournalStart) -> Self {
        Self {
            batches: Vec::new(),
            given_up: Vec::new(),
            head: start.position,
            end: JournalEnd::Moved,
            durable: Sequence(0),
            used: 0,
            size: 0,
        }
    }

    /// Reports damage of the journal. A batch that is not known to be durable may be on one disk only after a power cut.
    pub(super) fn check(&self, findings: &mut Findings) {
        for batch in &self.batches {
            for (disk, flaw) in &batch.lacking {
                let sequence = batch.header.sequence.0;
                let text = format!("batch {sequence}: {flaw}; another disk has it");
                if batch.header.sequence > self.durable {
                    findings.note(format!(
                        "batch {sequence} of the journal is not on {}: a power cut may leave this",
                        disk.display()
                    ));
                    continue;
                }
                let finding = Finding::new(FindingKind::Journal, text).at(batch.at);
                findings.add(finding.only_on(disk.clone()));
            }
        }
        match self.end {
            JournalEnd::Nothing => {}
            JournalEnd::DataMissing { sequence, at } => findings.note(format!(
                "the journal ends before batch {}: its block at {at} was never written, and its writes were not acknowledged as durable",
                sequence.0
            )),
            JournalEnd::Moved => {
                let text = "the journal has moved to other vdevs since this checkpoint: acknowledged writes after it are lost";
                findings.add(Finding::new(FindingKind::Journal, text.to_owned()));
            }
            JournalEnd::Lost { sequence } => {
                let text = format!(
                    "batch {} was durable and is on no disk: acknowledged writes are lost",
                    sequence.0
                );
                findings.add(Finding::new(FindingKind::Journal, text));
            }
        }
    }
}
