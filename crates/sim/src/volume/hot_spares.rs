//! Hot spares under load: members fail, spares stand in for them, are resilvered, and are given back. A raidz is expanded meanwhile.
//!
//! **Owns** this churn, and what a server does about spares after it opened a pool. **Called by** scenario `spares`. **Invariants** that it
//! checks: a spare that is available has its label on a disk; one that is in use is a member, or its use can be undone or begun again from the
//! disk's label; a member that failed can be replaced by a spare while its vdev has enough others.

use crate::model::Violation;
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use pool::Pool;
use pool::format::{MemberGuid, SpareEntry, SpareGuid, VdevKind};
use pool::vdev::{MemberState, MemberStatus, SetupError, VdevStatus, spare_label};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Most members that fail in one incarnation.
const FAILURES_MAX: u64 = 4;
/// Probability that a raidz is expanded where a member could fail.
const GROWTH: f64 = 0.2;
/// Longest pause before a failure, and longest time until a spare is taken, microseconds.
const PAUSE_US: u64 = 500;
/// Times that a disk which is closing is tried again, a millisecond apart.
const TRIES_MAX: usize = 5000;

fn wrong(what: &str, e: &SetupError) -> Violation {
    Violation(format!("{what}: {e}"))
}

fn members(pool: &Pool) -> Vec<(VdevStatus, MemberStatus)> {
    let vdevs = pool.vdevs().status().into_iter();
    let of_vdev = |v: VdevStatus| v.members.clone().into_iter().map(move |m| (v.clone(), m));
    vdevs.flat_map(of_vdev).collect()
}

fn state_of(pool: &Pool, member: MemberGuid) -> Option<MemberState> {
    pool.vdevs().state_of(member)
}

/// Disks that are no members.
pub(super) fn free(pool: &Pool, names: &[String]) -> Vec<String> {
    let now = members(pool);
    let is_free = |name: &&String| !now.iter().any(|(_, m)| m.path == Path::new(name.as_str()));
    names.iter().filter(is_free).cloned().collect()
}

/// Opens a disk that is no member. Operations in flight may hold it for a while.
pub(super) async fn open(name: &str) -> Result<Disk, Violation> {
    for _ in 0..TRIES_MAX {
        match Disk::open(name, OpenOptions::default()).await {
            Ok(disk) => return Ok(disk),
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(e) => return Err(Violation(format!("{name} does not open: {e}"))),
        }
    }
    Err(Violation(format!("{name} stays busy, and is no member")))
}

/// The free disk with the label of this spare.
async fn disk_of(pool: &Pool, names: &[String], spare: SpareGuid) -> Result<Disk, Violation> {
    for name in free(pool, names) {
        let disk = open(&name).await?;
        if spare_label(&disk).await.is_some_and(|l| l.spare == spare) {
            return Ok(disk);
        }
    }
    Err(Violation(format!(
        "no disk has the label of spare {:016x}: {:?}",
        spare.0,
        pool.spares()
    )))
}

/// Ends or undoes what was interrupted, as a server does. Then every free disk is a spare.
pub(super) async fn settle(pool: &Pool, names: &[String]) -> Result<(), Violation> {
    for (spare, entry) in pool.spares() {
        match entry.used.map(|used| (used, state_of(pool, used.member))) {
            None => drop(disk_of(pool, names, spare).await?),
            Some((_, None)) => settle_one(pool, names, spare).await?,
            Some((used, Some(MemberState::Missing))) => {
                let disk = disk_of(pool, names, spare).await?;
                let again = pool.take_spare(spare, used.member, disk).await;
                again.map_err(|e| wrong("a spare is not taken again", &e))?;
            }
            Some(_) => {}
        }
    }
    for name in free(pool, names) {
        let disk = open(&name).await?;
        let label = spare_label(&disk).await;
        if label.is_none_or(|l| !pool.spares().contains_key(&l.spare)) {
            let added = pool.add_spare(&disk, true).await;
            added.map_err(|e| wrong("a spare is not added", &e))?;
        }
    }
    remark(|| format!("spares      {:?}", pool.spares()));
    Ok(())
}

async fn settle_one(pool: &Pool, names: &[String], spare: SpareGuid) -> Result<(), Violation> {
    for name in free(pool, names) {
        let disk = open(&name).await?;
        let settled = pool.settle_spare(spare, &disk, &[]).await;
        if settled.map_err(|e| wrong("a spare is not settled", &e))? {
            return Ok(());
        }
    }
    Err(Violation(format!(
        "the disk of spare {:016x} cannot be told from others: {:?}",
        spare.0,
        pool.spares()
    )))
}

/// Whether an error is one of a pool that gave up, or of a write that began while the member failed.
fn is_passing(pool: &Pool, e: &SetupError) -> bool {
    pool.trouble().is_some() || matches!(e, SetupError::Missed { .. })
}

/// Resilvers all members, which must be in afterwards unless they missed a write that began while one failed.
async fn resilver(pool: &Pool) -> Result<(), Violation> {
    match pool.resilver(|_| ()).await {
        Err(e) if is_passing(pool, &e) => Ok(()),
        done => done.map(drop).map_err(|e| wrong("resilvering", &e)),
    }
}

/// Sometimes cuts the power soon, if it may go.
fn aim(may_cut: bool, rng: &mut Prng) {
    let most = 8 << rng.below(7);
    let steps = rng.below(most);
    if rng.chance(0.25) && may_cut {
        Node::current().power_cut_after(steps);
    }
}

/// Lets members fail one after the other. A spare stands in for each, and is given back or stays. The power goes meanwhile if `may_cut`.
pub(super) async fn churn(
    pool: Rc<Pool>,
    names: Vec<String>,
    may_cut: bool,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let mut growth = Prng::new(seed ^ 0x9001_e4a4);
    for _ in 0..1 + rng.below(FAILURES_MAX) {
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        gather(&pool, &names, &mut rng).await?;
        let now = members(&pool);
        if pool.trouble().is_some() {
            return Ok(());
        }
        // A mirror keeps an original that is offline beside the spare that stands in for it.
        let is_served = |m: &MemberStatus| standing_in(&pool, m.guid).is_some();
        let mut working = now.iter().filter(|(_, m)| !is_served(m));
        let is_whole = working.all(|(_, m)| m.state == MemberState::Online);
        if is_whole && growth.chance(GROWTH) {
            grow(&pool, &names, &mut growth).await?;
            aim(may_cut, &mut rng);
            continue;
        }
        let (vdev, member) = &now[rng.below(now.len() as u64) as usize];
        let is_out = member.state != MemberState::Online;
        let online = now
            .iter()
            .filter(|(v, m)| v.id == vdev.id && m.state == MemberState::Online);
        let online = online.count();
        if !is_whole || is_out || online <= vdev.kind.needed(vdev.members.len()) {
            continue;
        }
        fail(&pool, member, &mut rng).await?;
        aim(may_cut, &mut rng);
        let waiting: Vec<_> = pool.spares().into_iter().collect();
        let waiting: Vec<_> = waiting
            .into_iter()
            .filter(|(_, e)| e.used.is_none())
            .collect();
        if let Some((spare, _)) = waiting.get(rng.below(waiting.len().max(1) as u64) as usize) {
            stand_in(&pool, &names, *spare, member.guid).await?;
        }
        aim(may_cut, &mut rng);
        if rng.chance(0.7) {
            resilver(&pool).await?;
        }
        come_back(&pool, &member.path);
        if rng.chance(0.8) {
            end(&pool, &names, (vdev, member), may_cut, &mut rng).await?;
        }
        if pool.trouble().is_some() {
            return Ok(());
        }
        settle(&pool, &names).await?;
    }
    Ok(())
}

/// Expands a raidz by the disk of a spare, if another spare is left. The expansion goes on beside the failures that follow.
async fn grow(pool: &Pool, names: &[String], rng: &mut Prng) -> Result<(), Violation> {
    let spares = pool.spares().into_iter();
    let waiting: Vec<_> = spares.filter(|(_, e)| e.used.is_none()).collect();
    let vdevs: Vec<_> = pool.vdevs().status();
    let vdev = &vdevs[rng.below(vdevs.len() as u64) as usize];
    let is_raidz = matches!(vdev.kind, VdevKind::Raidz { .. });
    if !is_raidz || waiting.len() < 2 || pool.vdevs().expansion(vdev.id).is_some() {
        return Ok(());
    }
    let (spare, _) = waiting[rng.below(waiting.len() as u64) as usize];
    let disk = disk_of(pool, names, spare).await?;
    let removed = pool.remove_spare(spare, Some(&disk)).await;
    let expanded = match removed {
        Ok(()) => pool.expand(vdev.id, disk, true).await.map(drop),
        Err(e) => Err(e),
    };
    remark(|| format!("expanded    {expanded:?}"));
    match expanded {
        Err(_) if pool.trouble().is_some() => Ok(()),
        // A write that began while another member failed may have put a member out. The vdev may have members enough.
        Err(SetupError::Degraded { .. } | SetupError::Shape { .. }) => Ok(()),
        done => done.map_err(|e| wrong("a raidz is not expanded", &e)),
    }
}

/// Brings members back that an earlier incarnation left out, or lets spares stand in for them, and resilvers all.
async fn gather(pool: &Pool, names: &[String], rng: &mut Prng) -> Result<(), Violation> {
    for (_, member) in members(pool) {
        let is_out = matches!(member.state, MemberState::Offline | MemberState::Faulted);
        if !is_out {
            continue;
        }
        let free = pool.spares().into_iter().find(|(_, e)| e.used.is_none());
        match free.filter(|_| rng.chance(0.6) && standing_in(pool, member.guid).is_none()) {
            Some((spare, _)) => stand_in(pool, names, spare, member.guid).await?,
            None => match pool.vdevs().online(member.guid, None).await {
                Err(SetupError::Owed { .. }) => {}
                Err(_) if pool.trouble().is_some() => return Ok(()),
                done => done.map_err(|e| wrong("a member does not come back", &e))?,
            },
        }
    }
    resilver(pool).await?;
    // What stood in for a member that is back is given back, so that there is a spare again.
    for (spare, entry) in pool.spares() {
        if let Some(used) = entry.used
            && pool.may_give_back(used)
            && state_of(pool, used.member).is_some()
        {
            match pool.give_back_spare(spare, &[]).await {
                Err(_) if pool.trouble().is_some() => return Ok(()),
                Err(SetupError::LastMember { .. }) => {}
                done => done.map_err(|e| wrong("a spare is not given back", &e))?,
            }
        }
    }
    Ok(())
}

/// Takes a member offline, or lets its disk fail for a while.
async fn fail(pool: &Pool, member: &MemberStatus, rng: &mut Prng) -> Result<(), Violation> {
    let disk = Node::current().disk(&member.path);
    let pause = Duration::from_micros(rng.below(PAUSE_US));
    remark(|| format!("fail        {}", member.path.display()));
    match disk.filter(|_| rng.chance(0.5)) {
        Some(disk) => disk.error_rates(1.0, 1.0, 1.0),
        None => {
            let done = pool.vdevs().offline(member.guid).await;
            done.map_err(|e| wrong("offline", &e))?;
        }
    }
    sleep(pause).await;
    Ok(())
}

fn come_back(pool: &Pool, path: &PathBuf) {
    if let Some(disk) = Node::current().disk(path) {
        disk.heal();
    }
    remark(|| format!("is back     {}: {:?}", path.display(), pool.spares()));
}

async fn stand_in(
    pool: &Pool,
    names: &[String],
    spare: SpareGuid,
    member: MemberGuid,
) -> Result<(), Violation> {
    let disk = disk_of(pool, names, spare).await?;
    match pool.take_spare(spare, member, disk).await {
        Err(_) if pool.trouble().is_some() => Ok(()),
        // A write that began while another member failed may have put it out.
        Err(SetupError::LastMember { .. }) => Ok(()),
        done => done
            .map(drop)
            .map_err(|e| wrong("a spare is not taken", &e)),
    }
}

/// The spare in use that stands in for this member.
fn standing_in(pool: &Pool, member: MemberGuid) -> Option<(SpareGuid, SpareEntry)> {
    let serves = |e: &SpareEntry| e.used.is_some_and(|used| used.instead_of == member);
    pool.spares().into_iter().find(|(_, e)| serves(e))
}

/// Ends the use of a spare: the original comes back, a free disk relieves the spare, or the spare stays.
async fn end(
    pool: &Pool,
    names: &[String],
    (vdev, member): (&VdevStatus, &MemberStatus),
    may_cut: bool,
    rng: &mut Prng,
) -> Result<(), Violation> {
    if state_of(pool, member.guid).is_some() {
        let online = pool.vdevs().online(member.guid, None).await;
        match online {
            // Its operations have not ended.
            Err(SetupError::Owed { .. }) => return Ok(()),
            Err(_) if pool.trouble().is_some() => return Ok(()),
            done => done.map_err(|e| wrong("a member does not come back", &e))?,
        }
    }
    resilver(pool).await?;
    aim(may_cut, rng);
    let Some((spare, entry)) = standing_in(pool, member.guid) else {
        return Ok(());
    };
    let Some(used) = entry.used else {
        return Ok(());
    };
    if state_of(pool, used.member) != Some(MemberState::Online) {
        return Ok(());
    }
    let is_raidz = matches!(vdev.kind, VdevKind::Raidz { .. });
    let done = match rng.chance(0.3) {
        true => pool.keep_spare(spare).await,
        false if is_raidz => {
            let is_it = |name: &&String| Path::new(name.as_str()) == member.path;
            let Some(name) = free(pool, names).iter().find(is_it).cloned() else {
                return Ok(());
            };
            let disk = open(&name).await?;
            pool.relieve_spare(spare, disk, true, &[]).await.map(drop)
        }
        false if pool.may_give_back(used) => pool.give_back_spare(spare, &[]).await,
        false => return Ok(()),
    };
    remark(|| format!("ended       {done:?}: {:?}", pool.spares()));
    match done {
        Err(_) if pool.trouble().is_some() => Ok(()),
        Err(SetupError::LastMember { .. }) => Ok(()),
        done => done.map_err(|e| wrong("the use of a spare does not end", &e)),
    }
}
