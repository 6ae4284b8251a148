//! A member of a mirror that fails temporarily, beside the jobs.
//!
//! **Owns** these faults. **Called by** scenario `aimed`, with aim `Members`. **Invariant**: a member fails only while all
//! members are online, so that another one is complete and no request may fail.
//! members are online, so that another one has everything and no request may fail.

use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use pool::Pool;
use pool::vdev::{MemberState, MemberStatus, SetupError};
use std::rc::Rc;
use std::time::Duration;

/// Longest pause before a failure, and longest failure, microseconds.
const PAUSE_US: u64 = 3000;
/// Most failures in one incarnation.
const LAPSES_MAX: u64 = 3;

fn members(pool: &Pool) -> Vec<MemberStatus> {
    let vdevs = pool.vdevs().status();
    vdevs.into_iter().flat_map(|vdev| vdev.members).collect()
}

/// Lets members fail, one at a time, and sometimes resilvers them.
pub(super) async fn churn(pool: Rc<Pool>, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(LAPSES_MAX + 1) {
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        let now = members(&pool);
        if now.iter().any(|m| m.state != MemberState::Online) {
            return Ok(());
        }
        let member = &now[rng.below(now.len() as u64) as usize];
        let disk = Node::current().disk(&member.path);
        let disk = disk.expect("a member that is online has a disk");
        let writes = (1 + rng.below(10)) as f64 / 10.0;
        let flushes = rng.below(10) as f64 / 10.0;
        remark(|| format!("fails       {}", member.path.display()));
        disk.error_rates(0.0, writes, flushes);
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        disk.heal();
        if rng.chance(0.6) {
            resilver(&pool).await?;
        }
    }
    Ok(())
}

/// Resilvers all members.
async fn resilver(pool: &Pool) -> Result<(), Violation> {
    let vdevs = pool.vdevs();
    let faulted = |m: &MemberStatus| m.state == MemberState::Faulted;
    for member in members(pool).into_iter().filter(faulted) {
        let online = vdevs.online(member.guid, None).await;
        online.map_err(|e| Violation(format!("a member does not come back: {e}")))?;
    }
    match pool.resilver(|_| ()).await {
        // A write began while the member failed.
        Err(SetupError::Missed { .. }) => return Ok(()),
        other => drop(other.map_err(|e| Violation(format!("resilvering: {e}")))?),
    }
    remark(|| format!("resilvered  {:?}", pool.vdevs().status()));
    match members(pool)
        .iter()
        .find(|m| m.state != MemberState::Online)
    {
        Some(member) => Err(Violation(format!(
            "a resilvered member is not in: {member:?}"
        ))),
        None => Ok(()),
    }
}
