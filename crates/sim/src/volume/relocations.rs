//! Walks of the region mover over small regions, and power cuts while blocks that snapshots hold are relocated.
//!
//! **Owns** the walks, the time of the cut, and members that are away during a walk. **Called by** scenario `aimed`, with aim `Relocation`.
//! **Invariants** that it checks: a walk ends; a member that was away and was resilvered has all blocks.

use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use pool::Pool;
use pool::format::MemberGuid;
use pool::vdev::{MemberState, SetupError};
use std::rc::Rc;
use std::time::Duration;

/// Most walks in one incarnation.
const ROUNDS: u64 = 8;
/// Milliseconds for which a walk may last.
const WALK_MS_MAX: u64 = 100_000;
/// Probability that a member is offline during a walk.
const AWAY: f64 = 0.4;
/// Longest pause before a walk, microseconds.
const PAUSE_US: u64 = 10_000;

/// Asks for walks. If `may_cut`, the power goes during one of them.
pub(super) async fn churn(pool: Rc<Pool>, may_cut: bool, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let rounds = 1 + rng.below(ROUNDS);
    let cut_in = may_cut.then(|| rng.below(rounds));
    for round in 0..rounds {
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        // a member that is offline when the power goes stays so
        let away = match cut_in {
            None if rng.chance(AWAY) => leave(&pool, &mut rng).await,
            _ => None,
        };
        pool.empty_regions();
        if cut_in == Some(round) {
            let most = 4 << rng.below(10);
            let steps = rng.below(most);
            remark(|| format!("relocating  {:?}, {steps} steps left", pool.region_moves()));
            Node::current().power_cut_after(steps);
        }
        if !ended(&pool).await? {
            return Ok(());
        }
        if let Some(away) = away {
            come_back(&pool, away).await?;
        }
    }
    Ok(())
}

/// Waits for the end of a walk. False if the pool has given up.
async fn ended(pool: &Pool) -> Result<bool, Violation> {
    for _ in 0..WALK_MS_MAX {
        if pool.trouble().is_some() {
            return Ok(false);
        }
        if !pool.region_moves().is_moving {
            return Ok(true);
        }
        sleep(Duration::from_millis(1)).await;
    }
    let moves = pool.region_moves();
    Err(Violation(format!("a walk does not end: {moves:?}")))
}

/// Takes a member offline, if both members of the mirror are in. Returns it, and the other one.
async fn leave(pool: &Pool, rng: &mut Prng) -> Option<[MemberGuid; 2]> {
    let members = pool.vdevs().status().first()?.members.clone();
    let are_in = members.iter().all(|m| m.state == MemberState::Online);
    if members.len() != 2 || !are_in {
        return None;
    }
    let first = rng.below(2) as usize;
    let both = [members[first].guid, members[1 - first].guid];
    pool.vdevs().offline(both[0]).await.ok()?;
    remark(|| "relocating  while a member is offline".to_owned());
    Some(both)
}

/// Brings a member back, and reads all blocks from it while the other one is offline.
async fn come_back(pool: &Pool, [away, other]: [MemberGuid; 2]) -> Result<(), Violation> {
    let done = async {
        pool.vdevs().online(away, None).await?;
        pool.resilver(|_| ()).await?;
        pool.vdevs().offline(other).await?;
        let found = pool.scrub(|_| ()).await.map_err(|_| SetupError::Device)?;
        pool.vdevs().online(other, None).await?;
        pool.resilver(|_| ()).await?;
        Ok::<_, SetupError>(found)
    };
    match done.await {
        Ok(found) if !found.lost.is_empty() => Err(Violation(format!(
            "a member that was resilvered lacks {} blocks",
            found.lost.len()
        ))),
        Ok(_) => Ok(()),
        Err(_) if pool.trouble().is_some() => Ok(()),
        Err(error) => Err(Violation(format!("a member does not come back: {error}"))),
    }
}
