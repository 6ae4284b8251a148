//! Walks of the region mover over small regions, and power cuts while blocks that snapshots hold are relocated.
//!
//! **Owns** the walks and the time of the cut. **Called by** scenario `aimed`, with aim `Relocation`. **Invariant** that it checks: a walk ends.

use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use pool::Pool;
use std::rc::Rc;
use std::time::Duration;

/// Most walks in one incarnation.
const ROUNDS: u64 = 8;
/// Milliseconds for which a walk may last.
const WALK_MS_MAX: u64 = 100_000;
/// Longest pause before a walk, microseconds.
const PAUSE_US: u64 = 10_000;

/// Asks for walks. If `may_cut`, the power goes during one of them.
pub(super) async fn churn(pool: Rc<Pool>, may_cut: bool, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let rounds = 1 + rng.below(ROUNDS);
    let cut_in = may_cut.then(|| rng.below(rounds));
    for round in 0..rounds {
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        pool.empty_regions();
        if cut_in == Some(round) {
            let most = 4 << rng.below(10);
            let steps = rng.below(most);
            remark(|| format!("relocating  {:?}, {steps} steps left", pool.region_moves()));
            Node::current().power_cut_after(steps);
        }
        let mut waited = 0;
        while pool.region_moves().is_moving {
            if pool.trouble().is_some() {
                return Ok(());
            }
            if waited == WALK_MS_MAX {
                let moves = pool.region_moves();
                return Err(Violation(format!("a walk does not end: {moves:?}")));
            }
            waited += 1;
            sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(())
}
