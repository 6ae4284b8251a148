//! The shape of a raidz that a seed draws.
//!
//! **Called by** the plans of scenarios `pool`, `full`, `aimed`, `files` and `shards`.

use io::rng::Prng;

/// One to three parity units, and the number of members: at least one more, at most four more.
pub(crate) fn draw(rng: &mut Prng) -> (usize, usize) {
    let parity = 1 + rng.below(3) as usize;
    (parity, parity + 1 + rng.below(4) as usize)
}
