//! Removals of a vdev, and power cuts while its blocks are copied, or while the copies of a removal that was given up are freed. Some of
//! these vdevs are special. Others are logs, and some of the logs are lost.
//!
//! **Owns** the removals and the time of the cut. **Called by** scenario `aimed`, with aim `Removal`. **Invariants** that it checks: a free
//! disk becomes a vdev; a removal goes on in each incarnation until it ends; then the vdev has left the pool, and the journal is on the other
//! one; or, if the removal was given up, the vdev has not left; a pool goes on without a log that is lost.

use super::hot_spares::{free, open};
use crate::classes::{left_lost, of_class, set_threshold};
use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Node, SimDisk, remark};
use io::time::sleep;
use pool::format::{VdevClass, VdevId};
use pool::vdev::{SetupError, VdevSpec};
use pool::{Pool, Removing};
use std::rc::Rc;
use std::time::Duration;

/// Most removals in one incarnation.
const ROUNDS: u64 = 4;
/// Milliseconds for which a removal may stand still: one that waits is tried again after 30 s.
const IDLE_MS_MAX: u64 = 100_000;
/// Longest pause before a removal is begun or given up, microseconds.
const PAUSE_US: u64 = 20_000;
/// Probability that a vdev that is added is a log.
const LOGS: f64 = 0.4;
/// Probability that another vdev that is added is special.
const SPECIALS: f64 = 0.4;
/// Probability that a log is lost before it is removed.
const LOST: f64 = 0.4;
/// Probability that a removal is given up.
const GIVEN_UP: f64 = 0.3;

/// Adds a vdev and removes one of the two, several times. If `may_cut`, the power goes during one of the removals.
pub(super) async fn churn(
    pool: Rc<Pool>,
    names: Vec<String>,
    may_cut: bool,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let rounds = 1 + rng.below(ROUNDS);
    let cut_in = may_cut.then(|| rng.below(rounds));
    for round in 0..rounds {
        let Some(vdev) = begin(&pool, &names, &mut rng).await? else {
            return Ok(());
        };
        if cut_in == Some(round) {
            let most = 4 << rng.below(10);
            let steps = rng.below(most);
            remark(|| format!("removing    {:?}, {steps} steps left", pool.removing()));
            Node::current().power_cut_after(steps);
        }
        if pool.removing().is_none() {
            left_lost(&pool, vdev).await?;
            // the next vdev has its disk
            revive(free(&pool, &names));
            continue;
        }
        let mut is_given_up = pool.removing().is_some_and(|r| r.is_stopping);
        if rng.chance(GIVEN_UP) {
            sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
            is_given_up |= give_up(&pool).await?;
        }
        if !ended(&pool).await? {
            return Ok(());
        }
        let is_there = pool.vdevs().status().iter().any(|v| v.id == vdev);
        if !is_there && pool.journal_vdevs().contains(&vdev) {
            return Err(Violation(format!(
                "{vdev:?} was removed and has the journal"
            )));
        }
        if is_there != is_given_up {
            return Err(Violation(format!(
                "{vdev:?} is in the pool: {is_there}; its removal was given up: {is_given_up}"
            )));
        }
    }
    Ok(())
}

fn wrong(what: &str, e: &SetupError) -> Violation {
    Violation(format!("{what}: {e}"))
}

/// Returns disks that were lost.
pub(super) fn revive(names: Vec<String>) {
    let disks = names.into_iter();
    let disks = disks.filter_map(|name| Node::current().disk(name));
    disks.for_each(SimDisk::revive);
}

/// The vdev whose removal is in progress or begins, or a log that is lost now. `None` if the pool has given up, or has no room for its blocks.
async fn begin(pool: &Pool, names: &[String], rng: &mut Prng) -> Result<Option<VdevId>, Violation> {
    if let Some(removing) = pool.removing() {
        return Ok(Some(removing.vdev));
    }
    if !has_second(pool, names, rng).await? {
        return Ok(None);
    }
    // It gets blocks.
    sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
    let vdevs = pool.vdevs().status();
    let log = of_class(pool, VdevClass::Log);
    if let Some(log) = log.as_ref().filter(|_| rng.chance(LOST)) {
        remark(|| format!("log lost    {:?}", log.members[0].path));
        let disk = Node::current().disk(&log.members[0].path);
        disk.expect("the pool has it").kill();
        return Ok(Some(log.id));
    }
    // either normal one may have the journal
    let vdev = match log.or(of_class(pool, VdevClass::Special)) {
        Some(vdev) => vdev.id,
        None => vdevs[rng.below(vdevs.len() as u64) as usize].id,
    };
    match pool.remove_vdev(vdev).await {
        Err(SetupError::NoRoom { .. }) => Ok(None),
        Err(_) if pool.trouble().is_some() => Ok(None),
        begun => begun
            .map(|()| Some(vdev))
            .map_err(|e| wrong("a vdev is not removed", &e)),
    }
}

/// Whether the pool has two vdevs: one is added if there is none beside the first one. False if the pool has given up.
async fn has_second(pool: &Pool, names: &[String], rng: &mut Prng) -> Result<bool, Violation> {
    if pool.vdevs().status().len() > 1 {
        return Ok(true);
    }
    let Some(name) = free(pool, names).into_iter().next() else {
        return Err(Violation("the disk of a removed vdev is a member".into()));
    };
    let disk = open(&name).await?;
    let spec = match rng.chance(LOGS) {
        true => VdevSpec::log(vec![disk]),
        false if rng.chance(SPECIALS) => {
            set_threshold(pool, rng).await?;
            VdevSpec::special(vec![disk])
        }
        false => vec![disk].into(),
    };
    match pool.add_vdev(spec, true).await {
        Err(_) if pool.trouble().is_some() => Ok(false),
        added => added
            .map(|_| true)
            .map_err(|e| wrong("a vdev is not added", &e)),
    }
}

/// Gives the removal up. False if it has ended, or its last step is under way.
async fn give_up(pool: &Pool) -> Result<bool, Violation> {
    match pool.stop_removal().await {
        Err(SetupError::NotRemoving | SetupError::RemovalEnds { .. }) => Ok(false),
        Err(_) if pool.trouble().is_some() => Ok(false),
        done => done
            .map(|()| true)
            .map_err(|e| wrong("a removal is not given up", &e)),
    }
}

/// Waits until no vdev is being removed. False if the pool has given up.
async fn ended(pool: &Pool) -> Result<bool, Violation> {
    let progress = |removing: &Removing| (removing.copied, removing.left, removing.is_stopping);
    let mut idle = 0;
    let mut last = None;
    while let Some(removing) = pool.removing() {
        if pool.trouble().is_some() {
            return Ok(false);
        }
        let now = Some(progress(&removing));
        idle = if now == last { idle + 1 } else { 0 };
        last = now;
        if idle == IDLE_MS_MAX {
            return Err(Violation(format!("a removal stands still: {removing:?}")));
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok(true)
}
