//! A nearly full pool whose free space is in single sectors, or single rows of a raidz.
//!
//! **Owns** two volumes that fill the pool, and the churn that keeps its free space fragmented. **Called by** scenario
//! `full`. **Invariants**: each record that fills the pool is one write, so that a mixture of two writes is recognised; a
//! write may be refused for lack of space, and for no other reason; volumes can be destroyed, and writes find space again
//! then. On a raidz the row mover makes whole rows free (`docs/decisions/0165`).

use crate::access::{Access, Direct, Failure};
use crate::model::Violation;
use crate::pattern::{self, Stamp};
use io::rng::Prng;
use io::time::sleep;
use pool::format::{ChecksumKind, JournalLayout, Packing, Sync};
use pool::vdev::limits::DISK_SIZE_MIN;
use pool::{NewVolume, Placements, Pool};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Block size of both volumes, bytes.
const BLOCK: u32 = 4096;
/// Size of each volume, bytes: more than the data of a pool of any shape. A raidz has up to 24 MiB more than
/// [`DATA_RAIDZ`], because its journal is whole slots.
const VOLUME_SIZE: u64 = 64 << 20;
/// Free bytes that the large records leave above the allocator's reserve for trees.
const LARGE_LEAVES: u64 = 3 << 20;
/// Allocator's reserve for trees, bytes: on a mirror, and on a raidz.
const RESERVE: u64 = 8 << 20;
const RESERVE_RAIDZ: u64 = 16 << 20;
/// Bytes that can be written after both volumes were destroyed.
const AFTERWARDS: u64 = 1 << 20;
/// Bytes per write or read.
const RUN_BYTES: u32 = 256 << 10;
/// Journal of such a pool. It takes most of the smallest disk, so that little space has to be filled.
pub(crate) const JOURNAL: JournalLayout = JournalLayout {
    segment_size: 2 << 20,
    segments: 14,
};
/// Bytes of data of a raidz beside the journal: more than those of a mirror, because its reserve for trees is larger.
const DATA_RAIDZ: u64 = 44 << 20;

/// Upper bound of the label areas at one end of a disk, bytes.
const LABELS: u64 = 1 << 20;

/// The journal of a raidz of the smallest disks, which leaves little space to be filled.
pub(crate) fn journal_of_raidz(members: usize, parity: usize) -> JournalLayout {
    journal_beside(DATA_RAIDZ, members, parity)
}

/// The journal of a raidz of the smallest disks that leaves `data` bytes for data.
pub(crate) fn journal_beside(data: u64, members: usize, parity: usize) -> JournalLayout {
    let of_data = data / (members - parity) as u64;
    let slots = (DISK_SIZE_MIN - 2 * LABELS - of_data) / u64::from(JOURNAL.segment_size);
    JournalLayout {
        segments: slots as u32 * members as u32 / (parity as u32 + 1),
        ..JOURNAL
    }
}

/// How a pool is filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Sector size of the pool, and size of the small records between which the free space is, bytes.
    pub(crate) sector: u32,
    /// Size of the records for which no contiguous space is left, bytes.
    pub(crate) large: u32,
    /// Changes in one incarnation.
    pub(crate) changes: u64,
    /// Whether the pool is a raidz. Then small records are deleted by rows, so that there is space for large ones.
    pub(crate) by_rows: bool,
}

/// Number of records in fragments and groups in parts, over all incarnations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    total: Rc<Cell<Placements>>,
    before: Placements,
}

impl Tally {
    /// Returns the tally for a pool that was just opened.
    pub(crate) fn next(&self) -> Tally {
        Tally {
            total: self.total.clone(),
            before: self.total.get(),
        }
    }

    pub(crate) fn see(&self, pool: &Pool) {
        let now = pool.placements();
        self.total.set(Placements {
            split: self.before.split + now.split,
            in_fragments: self.before.in_fragments + now.in_fragments,
            moved: self.before.moved + now.moved,
            spilled: self.before.spilled + now.spilled,
            spilled_of_pool: self.before.spilled_of_pool + now.spilled_of_pool,
        });
    }

    pub(crate) fn total(&self) -> Placements {
        self.total.get()
    }
}

/// One of the two volumes.
struct Filler {
    access: Direct,
    /// Blocks per record.
    blocks: u64,
}

fn wrong(what: &str, e: &dyn std::fmt::Display) -> Violation {
    Violation(format!("filling the pool, {what}: {e}"))
}

impl Filler {
    async fn open(pool: &Pool, name: &str, record_size: u32) -> Result<Filler, Violation> {
        let volume = match pool.volume(name) {
            Some(volume) => volume,
            None => {
                let new = NewVolume {
                    name: name.into(),
                    size: VOLUME_SIZE,
                    block_size: BLOCK,
                    record_size,
                    sync: Sync::Standard,
                    compression: Packing::Off,
                    checksum: ChecksumKind::Xxh3,
                };
                let created = pool.create_volume(new).await;
                created.map_err(|e| wrong("a volume", &e))?
            }
        };
        Ok(Filler {
            blocks: u64::from(volume.dataset().record_size / BLOCK),
            access: Direct(Arc::new(volume)),
        })
    }

    fn records(&self) -> u64 {
        self.access.0.geometry().blocks / self.blocks
    }

    /// Overwrites `count` records. Returns false if there was no space.
    async fn put(&self, record: u64, count: u64, stamp: u64) -> Result<bool, Violation> {
        let first = record * self.blocks;
        let mut data = vec![0; (count * self.blocks * u64::from(BLOCK)) as usize];
        let blocks = data.chunks_exact_mut(BLOCK as usize);
        for (lba, block) in (first..).zip(blocks) {
            // The blocks of odd stamps are incompressible.
            pattern::fill(block, lba, Stamp(stamp | 1));
        }
        match self.access.write(first, &data, false).await {
            Ok(()) => Ok(true),
            Err(Failure::NoSpace) => Ok(false),
            Err(e) => Err(Violation(format!("filling the pool: {e:?}"))),
        }
    }

    async fn drop_record(&self, record: u64) -> Result<(), Violation> {
        let gone = self
            .access
            .deallocate(record * self.blocks, self.blocks)
            .await;
        match gone {
            Ok(()) | Err(Failure::NoSpace) => Ok(()),
            Err(e) => Err(Violation(format!("making holes: {e:?}"))),
        }
    }

    /// Number of records per write or read.
    fn run(&self) -> u64 {
        u64::from(RUN_BYTES / BLOCK) / self.blocks
    }

    /// Checks that each of `count` records is one write, or zeroes.
    async fn check(&self, record: u64, count: u64) -> Result<(), Violation> {
        let first = record * self.blocks;
        let bytes = self.access.read(first, count * self.blocks).await;
        let bytes = bytes.map_err(|e| Violation(format!("reading record {record}: {e:?}")))?;
        let mut stamp = None;
        for (lba, block) in (first..).zip(bytes.chunks_exact(BLOCK as usize)) {
            let here = pattern::parse(block, lba);
            let here = here.map_err(|e| Violation(format!("block {lba}: {e}")))?;
            if lba % self.blocks != 0 && stamp != Some(here) {
                return Err(Violation(format!("block {lba}: its record is a mixture")));
            }
            stamp = Some(here);
        }
        Ok(())
    }
}

impl Crowd {
    async fn fillers(&self, pool: &Pool) -> Result<[Filler; 2], Violation> {
        Ok([
            Filler::open(pool, "small", self.sector).await?,
            Filler::open(pool, "large", self.large).await?,
        ])
    }

    /// Fills a new pool: writes small records, deletes every other one, and writes large records into the holes.
    pub(crate) async fn fill(&self, pool: &Pool, seed: u64) -> Result<(), Violation> {
        let mut rng = Prng::new(seed);
        let [small, large] = self.fillers(pool).await?;
        let mut end = 0;
        while small.put(end, small.run(), rng.u64()).await? {
            end += small.run();
        }
        // Rows of up to four records.
        let hole = if self.by_rows { 16 } else { 1 };
        for record in (0..end).filter(|record| record / hole % 2 == 0) {
            small.drop_record(record).await?;
        }
        let flush_failed = |e| Violation(format!("filling the pool, a flush: {e:?}"));
        small.access.flush().await.map_err(flush_failed)?;
        // The second pass may use space that the first one freed.
        for _ in 0..2 {
            let done = pool.checkpoint().await;
            done.map_err(|e| wrong("a checkpoint", &e))?;
        }
        let mut at = 0;
        let reserve = if self.by_rows { RESERVE_RAIDZ } else { RESERVE };
        while pool.space().free > reserve + LARGE_LEAVES && large.put(at, 1, rng.u64()).await? {
            at += 1;
        }
        large.access.flush().await.map_err(flush_failed)
    }

    /// Checks that every record is one write.
    pub(crate) async fn check(&self, pool: &Pool) -> Result<(), Violation> {
        for filler in self.fillers(pool).await? {
            for record in (0..filler.records()).step_by(filler.run() as usize) {
                filler.check(record, filler.run()).await?;
            }
        }
        Ok(())
    }

    /// Destroys both volumes. Then the pool must have space again.
    pub(crate) async fn empty(&self, pool: &Pool, seed: u64) -> Result<(), Violation> {
        for name in ["small", "large"] {
            let gone = pool.destroy_volume(name).await;
            gone.map_err(|e| wrong("destroying a volume", &e))?;
        }
        let mut is_freeing = true;
        while is_freeing {
            is_freeing = pool.is_freeing();
            let done = pool.checkpoint().await;
            done.map_err(|e| wrong("a checkpoint", &e))?;
        }
        let mut rng = Prng::new(seed);
        let [small, _] = self.fillers(pool).await?;
        for record in 0..AFTERWARDS / u64::from(self.sector) {
            if !small.put(record, 1, rng.u64()).await? {
                let space = pool.space();
                return Err(Violation(format!(
                    "a pool whose volumes were destroyed has no space for record {record}: {space:?}"
                )));
            }
        }
        let flushed = small.access.flush().await;
        flushed.map_err(|e| Violation(format!("a flush of an emptied pool: {e:?}")))
    }

    /// Deletes and writes single records, and writes large records in place of small ones.
    pub(crate) async fn churn(
        self,
        pool: Rc<Pool>,
        tally: Tally,
        seed: u64,
    ) -> Result<(), Violation> {
        let mut rng = Prng::new(seed);
        let [small, large] = self.fillers(&pool).await?;
        for _ in 0..rng.below(self.changes) {
            sleep(Duration::from_micros(rng.below(1000))).await;
            let of_small = rng.below(small.records());
            let of_large = rng.below(large.records());
            let stamp = rng.u64();
            match rng.below(8) {
                0 => small.drop_record(of_small).await?,
                1 => drop(small.put(of_small, 1, stamp).await?),
                2 => large.drop_record(of_large).await?,
                3 => large.check(of_large, 1).await?,
                _ => {
                    let count = (1 + rng.below(3)).min(large.records() - of_large);
                    for record in of_large..of_large + count {
                        large.put(record, 1, stamp).await?;
                    }
                }
            }
            tally.see(&pool);
        }
        Ok(())
    }
}
