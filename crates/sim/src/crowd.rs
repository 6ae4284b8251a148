//! A pool that is nearly full, and what is free of it lies in single sectors.
//!
//! **Owns** two volumes that fill the pool, and the changes that keep its free space in small parts. **Called by** scenario
//! `full`. **Invariants**: what fills the pool is whole records, so that a record which is a mixture of two writes is
//! recognised; a write may be refused for want of space, and for nothing else.

use crate::access::{Access, Direct, Failure};
use crate::model::Violation;
use crate::pattern::{self, Stamp};
use io::rng::Prng;
use io::time::sleep;
use pool::format::{ChecksumKind, JournalLayout, Packing, Sync};
use pool::{NewVolume, Placements, Pool};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a block of both.
const BLOCK: u32 = 4096;
/// Bytes of both, more than there is space.
const VOLUME_SIZE: u64 = 32 << 20;
/// Free bytes that large records leave for changes: 3 MiB above what the allocator keeps for trees.
const LARGE_LEAVES: u64 = 11 << 20;
/// Bytes that are written or read at once.
const RUN_BYTES: u32 = 256 << 10;
/// The journal of such a pool: it leaves little of the smallest disk, so that little has to be filled.
pub(crate) const JOURNAL: JournalLayout = JournalLayout {
    segment_size: 2 << 20,
    segments: 14,
};

/// How a pool is filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Bytes of the pool's sectors, and of the records between which what is free lies.
    pub(crate) sector: u32,
    /// Bytes of the records that fit nowhere whole.
    pub(crate) large: u32,
    /// Changes of one life.
    pub(crate) changes: u64,
}

/// What placed records met, in all lives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    total: Rc<Cell<Placements>>,
    before: Placements,
}

impl Tally {
    /// For a pool that was just opened.
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
            in_pieces: self.before.in_pieces + now.in_pieces,
        });
    }

    pub(crate) fn total(&self) -> Placements {
        self.total.get()
    }
}

/// One of both volumes.
struct Filler {
    access: Direct,
    /// Blocks of a record.
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

    /// Writes records anew; whether there was space.
    async fn put(&self, record: u64, count: u64, stamp: u64) -> Result<bool, Violation> {
        let first = record * self.blocks;
        let mut data = vec![0; (count * self.blocks * u64::from(BLOCK)) as usize];
        let blocks = data.chunks_exact_mut(BLOCK as usize);
        for (lba, block) in (first..).zip(blocks) {
            // of odd ones, blocks do not compress
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

    /// Records that are written or read at once.
    fn run(&self) -> u64 {
        u64::from(RUN_BYTES / BLOCK) / self.blocks
    }

    /// Records are one write each, or zeroes.
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

    /// Fills a new pool: with small records, of which every other one goes, and with large ones in the holes.
    pub(crate) async fn fill(&self, pool: &Pool, seed: u64) -> Result<(), Violation> {
        let mut rng = Prng::new(seed);
        let [small, large] = self.fillers(pool).await?;
        let mut end = 0;
        while small.put(end, small.run(), rng.u64()).await? {
            end += small.run();
        }
        for record in (0..end).step_by(2) {
            small.drop_record(record).await?;
        }
        let flush_failed = |e| Violation(format!("filling the pool, a flush: {e:?}"));
        small.access.flush().await.map_err(flush_failed)?;
        // what one frees the next one may use
        for _ in 0..2 {
            let done = pool.checkpoint().await;
            done.map_err(|e| wrong("a checkpoint", &e))?;
        }
        let mut at = 0;
        while pool.space().free > LARGE_LEAVES && large.put(at, 1, rng.u64()).await? {
            at += 1;
        }
        large.access.flush().await.map_err(flush_failed)
    }

    /// Every record is a whole one.
    pub(crate) async fn check(&self, pool: &Pool) -> Result<(), Violation> {
        for filler in self.fillers(pool).await? {
            for record in (0..filler.records()).step_by(filler.run() as usize) {
                filler.check(record, filler.run()).await?;
            }
        }
        Ok(())
    }

    /// Single records come and go, and large ones are written where they were.
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
