//! Shards that do a part of the owner's work.
//!
//! **Owns** their number. **Called by** the openings of pools. **Invariant**: a machine that lost power has none of its shards any
//! longer, so each opening makes new ones.

use io::rng::Prng;
use io::sim::Node;
use pool::{Options, Pool};

/// The least bytes of work that goes to another shard.
pub(crate) fn least(rng: &mut Prng) -> u64 {
    1 << rng.below(16)
}

/// Gives a pool that was opened with these options up to two workers.
pub(crate) fn give(pool: &Pool, options: &Options) {
    let count = options.worker_bytes_min.trailing_zeros() % 3;
    let shards = (0..count).map(|_| Node::current().new_shard());
    pool.set_workers(shards.collect());
}
