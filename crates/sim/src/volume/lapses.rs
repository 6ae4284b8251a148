//! Members that fail temporarily, beside the jobs.
//!
//! **Owns** these faults. **Called by** scenario `aimed`, with aim `Members`. **Invariants**: members fail only while all
//! members are online; as many others as the layout needs are complete, and no request may fail, unless the run expects
//! overloads: then one member more than that may fail, and the pool may refuse everything until it is opened again.

use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Node, SimDisk, remark};
use io::time::sleep;
use pool::Pool;
use pool::vdev::{MemberState, MemberStatus, SetupError};
use std::rc::Rc;
use std::time::Duration;

/// Longest pause before a failure, and longest failure, microseconds.
const PAUSE_US: u64 = 3000;
/// A write to a simulated disk takes less.
const WRITE_MAX: Duration = Duration::from_secs(1);
/// Most failures in one incarnation.
const LAPSES_MAX: u64 = 3;

fn members(pool: &Pool) -> Vec<MemberStatus> {
    let vdevs = pool.vdevs().status();
    vdevs.into_iter().flat_map(|vdev| vdev.members).collect()
}

/// Lets members fail, up to `most` at a time, and sometimes resilvers them.
pub(super) async fn churn(pool: Rc<Pool>, most: usize, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    // Members of a raidz fail soon, before the jobs end.
    let pause = if most > 1 { PAUSE_US / 10 } else { PAUSE_US };
    for _ in 0..rng.below(LAPSES_MAX + 1) {
        sleep(Duration::from_micros(rng.below(pause))).await;
        let now = members(&pool);
        if now.iter().any(|m| m.state != MemberState::Online) {
            return Ok(());
        }
        let first = rng.below(now.len() as u64) as usize;
        let writes = (1 + rng.below(10)) as f64 / 10.0;
        let flushes = rng.below(10) as f64 / 10.0;
        let count = match most {
            1 => 1,
            most if rng.chance(0.5) => most,
            most => 1 + rng.below(most as u64) as usize,
        };
        let failing = now.iter().cycle().skip(first).take(count);
        let disk = |member: &MemberStatus| {
            let disk = Node::current().disk(&member.path);
            disk.expect("a member that is online has a disk")
        };
        let failing: Vec<_> = failing.map(disk).collect();
        remark(|| format!("fail        {count} from {}", now[first].path.display()));
        let fail = |disk: &SimDisk| disk.error_rates(0.0, writes, flushes);
        failing.iter().for_each(fail);
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        failing.iter().for_each(|disk| disk.heal());
        if pool.trouble().is_some() {
            return Ok(());
        }
        if rng.chance(0.6) {
            match resilver(&pool).await {
                Err(_) if pool.trouble().is_some() => return Ok(()),
                done => done?,
            }
        }
    }
    Ok(())
}

/// Resilvers all members, which must be in afterwards. A write that began while a member failed may end after its resilver, while that
/// of the next one runs, and put it out again; no such write is left at the second try.
async fn resilver(pool: &Pool) -> Result<(), Violation> {
    for last in [false, true] {
        match resilver_once(pool).await? {
            None => return Ok(()),
            Some(out) if last => {
                return Err(Violation(format!("a resilvered member is not in: {out:?}")));
            }
            Some(_) => sleep(WRITE_MAX).await,
        }
    }
    Ok(())
}

/// Resilvers all members once. Returns one that is not in afterwards.
async fn resilver_once(pool: &Pool) -> Result<Option<MemberStatus>, Violation> {
    let vdevs = pool.vdevs();
    let faulted = |m: &MemberStatus| m.state == MemberState::Faulted;
    for member in members(pool).into_iter().filter(faulted) {
        let online = vdevs.online(member.guid, None).await;
        online.map_err(|e| Violation(format!("a member does not come back: {e}")))?;
    }
    match pool.resilver(|_| ()).await {
        // A write began while the member failed.
        Err(SetupError::Missed { .. }) => return Ok(None),
        other => drop(other.map_err(|e| Violation(format!("resilvering: {e}")))?),
    }
    remark(|| format!("resilvered  {:?}", pool.vdevs().status()));
    let mut now = members(pool).into_iter();
    Ok(now.find(|m| m.state != MemberState::Online))
}
