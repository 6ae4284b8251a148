//! An expansion of a raidz, and power cuts while it moves rows.
//!
//! **Owns** the beginning of the expansion and the time of the cut. **Called by** scenario `aimed`, with aim `Expansion`. **Invariants** that
//! it checks: an expansion begins if there is a free disk, and goes on in each incarnation until it ends.

use super::hot_spares::{free, open};
use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use pool::Pool;
use pool::format::VdevId;
use std::rc::Rc;
use std::time::Duration;

/// The only vdev.
const VDEV: VdevId = VdevId(0);
/// Milliseconds for which an expansion may stand still: it is looked after once a second.
const IDLE_MS_MAX: u64 = 20_000;

/// Expands the vdev, or lets its expansion go on. If `may_cut`, the power goes while rows are moved, in most runs.
pub(super) async fn churn(
    pool: Rc<Pool>,
    names: Vec<String>,
    may_cut: bool,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    if pool.vdevs().expansion(VDEV).is_none() && !begin(&pool, &names).await? {
        return Ok(());
    }
    if rng.chance(0.3) {
        // Before the first rows are moved, or soon after.
        sleep(Duration::from_micros(900_000 + rng.below(300_000))).await;
    } else if !advanced(&pool, 1 + rng.below(8)).await? {
        return Ok(());
    }
    if may_cut {
        let most = 4 << rng.below(9);
        let steps = rng.below(most);
        remark(|| format!("expanding   {:?}, {steps} steps left", position(&pool)));
        Node::current().power_cut_after(steps);
    }
    while advanced(&pool, 1).await? {}
    Ok(())
}

/// Begins the expansion with a disk that is no member. False if there is none.
async fn begin(pool: &Pool, names: &[String]) -> Result<bool, Violation> {
    let Some(name) = free(pool, names).into_iter().next() else {
        return Ok(false);
    };
    let disk = open(&name).await?;
    match pool.expand(VDEV, disk, true).await {
        Err(_) if pool.trouble().is_some() => Ok(false),
        begun => begun
            .map(|_| true)
            .map_err(|e| Violation(format!("a raidz is not expanded: {e}"))),
    }
}

/// The bytes that are moved; none if the expansion has ended.
fn position(pool: &Pool) -> Option<u64> {
    pool.vdevs().expansion(VDEV).map(|e| e.done)
}

/// Waits until the position has changed `times` times. False if the expansion has ended, or the pool has given up.
async fn advanced(pool: &Pool, times: u64) -> Result<bool, Violation> {
    for _ in 0..times {
        let Some(before) = position(pool) else {
            return Ok(false);
        };
        let mut idle = 0;
        while position(pool) == Some(before) {
            if pool.trouble().is_some() {
                return Ok(false);
            }
            if idle == IDLE_MS_MAX {
                let text = format!("an expansion stands still at {before}");
                return Err(Violation(text));
            }
            idle += 1;
            sleep(Duration::from_millis(1)).await;
        }
    }
    Ok(position(pool).is_some())
}
