//! The blocks of a pool by size.
//!
//! **Called by** the control API, for `wirepool pool advise`. **Invariants**: read-only; nothing is scanned.

use super::entry::full_name;
use crate::Result;
use crate::api::{BlockCount, BlocksBySize, DatasetSizes, PoolSizes, SizeReport};
use crate::server::Server;
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

impl Server {
    /// See [`PoolSizes`]. Errors: `NoPool`, `Pool`.
    pub fn pool_sizes(&self, request: &PoolSizes) -> Result<SizeReport> {
        let pool = self.readable_pool(&request.name)?;
        let spaces = pool.volume_spaces().into_iter();
        let datasets = spaces.map(|(name, space)| DatasetSizes {
            name: full_name(&request.name, &name),
            blocks: space.sizes.map(by_size),
        });
        Ok(SizeReport {
            sector: pool.vdevs().sector(),
            datasets: datasets.collect(),
        })
    }
}
