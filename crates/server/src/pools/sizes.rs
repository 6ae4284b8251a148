//! The blocks of a pool by size, and clients' requests.
//!
//! **Called by** the control API, for `wirepool pool advise`. **Invariants**: read-only; nothing is scanned.

use super::entry::full_name;
use crate::Result;
use crate::api::{
    Accesses, Answered, BlockCount, BlocksBySize, DatasetSizes, PoolSizes, ReadsByCache, SizeReport,
};
use crate::server::Server;
use pool::ReuseDistances;
use pool::format::{BlockSizes, SizeClass};

fn count(up_to: u64, class: SizeClass) -> BlockCount {
    BlockCount {
        up_to,
        blocks: class.blocks,
        bytes: class.bytes,
    }
}

fn by_size(sizes: BlockSizes) -> BlocksBySize {
    let classes = sizes.classes().filter(|(_, class)| class.blocks > 0);
    BlocksBySize {
        nodes: count(0, sizes.nodes()),
        records: classes.map(|(up_to, class)| count(up_to, class)).collect(),
    }
}

impl From<pool::Accesses> for Accesses {
    fn from(of: pool::Accesses) -> Self {
        Self {
            reads: of.reads,
            short_reads: of.short_reads,
            short_read_bytes: of.short_read_bytes,
            writes: of.writes,
            short_overwrites: of.short_overwrites,
            short_overwrite_bytes: of.short_overwrite_bytes,
        }
    }
}

impl From<ReuseDistances> for ReadsByCache {
    fn from(distances: ReuseDistances) -> Self {
        let answered = distances.answered();
        Self {
            sampled: distances.sampled,
            reads: distances.reads,
            answered: answered
                .map(|(size, reads)| Answered { size, reads })
                .collect(),
        }
    }
}

impl Server {
    /// See [`PoolSizes`]. Errors: `NoPool`, `Pool`.
    pub fn pool_sizes(&self, request: &PoolSizes) -> Result<SizeReport> {
        let pool = self.readable_pool(&request.name)?;
        let spaces = pool.volume_spaces().into_iter();
        let accesses = pool.accesses();
        let datasets = spaces.map(|(name, space)| {
            let (record_size, accesses) = accesses.get(&name).copied().unwrap_or_default();
            DatasetSizes {
                name: full_name(&request.name, &name),
                blocks: space.sizes.map(by_size),
                record_size,
                accesses: accesses.into(),
            }
        });
        Ok(SizeReport {
            sector: pool.vdevs().sector(),
            datasets: datasets.collect(),
            reads: pool.reuse_distances().into(),
        })
    }
}
