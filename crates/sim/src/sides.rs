//! Disks that come and go under a pool that works: offline and online, attached, detached, replaced, added, grown; scrubs
//! and trims.
//!
//! **Owns** that churn. **Called by** scenario `pool`, on pools whose media are sound: whatever is refused then is a
//! violation, but what would take the last whole side of a vdev.

use crate::model::Violation;
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::Node;
use io::time::sleep;
use pool::Pool;
use pool::format::{PoolProperty, SideGuid, VdevId};
use pool::vdev::{SetupError, SideState};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A vdev gets no more sides than these.
const SIDES_MAX: usize = 3;

/// A side, as it is now.
struct Side {
    vdev: VdevId,
    guid: SideGuid,
    path: PathBuf,
    state: SideState,
}

fn sides(pool: &Pool) -> Vec<Side> {
    let vdevs = pool.vdevs().status();
    let sides = vdevs.into_iter().flat_map(|vdev| {
        let side = move |side: pool::vdev::SideStatus| Side {
            vdev: vdev.id,
            guid: side.guid,
            path: side.path,
            state: side.state,
        };
        vdev.sides.into_iter().map(side)
    });
    sides.collect()
}

fn wrong(what: &str, e: SetupError) -> Violation {
    Violation(format!("{what}: {e}"))
}

fn unless_last(what: &str, done: Result<(), SetupError>) -> Result<(), Violation> {
    match done {
        Err(SetupError::LastSide { .. }) => Ok(()),
        other => other.map_err(|e| wrong(what, e)),
    }
}

/// Every side that is out comes back, and has everything. One whose attaching was cut short is known and not there: it
/// goes.
pub(crate) async fn gather(pool: &Pool) -> Result<(), Violation> {
    let vdevs = pool.vdevs();
    for side in sides(pool) {
        if side.state == SideState::Offline {
            let online = vdevs.online(side.guid, None).await;
            online.map_err(|e| wrong("a side does not come back", e))?;
        }
        if side.state == SideState::Missing {
            let gone = vdevs.detach(side.guid).await;
            gone.map_err(|e| wrong("detaching what is not there", e))?;
        }
    }
    let resilvered = pool.resilver(|_| ()).await;
    resilvered.map_err(|e| wrong("resilvering", e))?;
    match sides(pool).iter().find(|s| s.state != SideState::Online) {
        Some(side) => Err(Violation(format!(
            "{} is {:?} after all were resilvered",
            side.path.display(),
            side.state
        ))),
        None => Ok(()),
    }
}

/// Attaches a disk that no side uses to a vdev that has room.
async fn attach(
    pool: &Pool,
    names: &[String],
    rng: &mut Prng,
) -> Result<Option<VdevId>, Violation> {
    let now = sides(pool);
    let vdev = now[rng.below(now.len() as u64) as usize].vdev;
    let is_free = |name: &&String| !now.iter().any(|s| s.path.as_os_str() == name.as_str());
    let free = names.iter().find(is_free);
    let (Some(name), true) = (
        free,
        now.iter().filter(|s| s.vdev == vdev).count() < SIDES_MAX,
    ) else {
        return Ok(None);
    };
    // what is under way on a disk that was detached still holds it
    let Ok(disk) = Disk::open(name, OpenOptions::default()).await else {
        return Ok(None);
    };
    match pool.vdevs().attach(vdev, disk, true).await {
        // the vdev grew
        Err(SetupError::Truncated { .. }) => Ok(None),
        other => other.map(|_| Some(vdev)).map_err(|e| wrong("attaching", e)),
    }
}

/// Adds a vdev of one or two disks that no side uses.
async fn add(pool: &Pool, names: &[String], rng: &mut Prng) -> Result<(), Violation> {
    let now = sides(pool);
    let is_free = |name: &&String| !now.iter().any(|s| s.path.as_os_str() == name.as_str());
    let mut disks = Vec::new();
    for name in names.iter().filter(is_free).take(1 + rng.below(2) as usize) {
        if let Ok(disk) = Disk::open(name, OpenOptions::default()).await {
            disks.push(disk);
        }
    }
    if disks.is_empty() {
        return Ok(());
    }
    let before = pool.space().size;
    let added = pool.add_vdev(disks, true).await;
    added.map_err(|e| wrong("adding a vdev", e))?;
    match pool.space().size > before {
        true => Ok(()),
        false => Err(Violation("a vdev more gives no space".into())),
    }
}

/// All disks of a vdev become larger, and it uses that.
async fn grow(pool: &Pool, vdev: VdevId, rng: &mut Prng) -> Result<(), Violation> {
    let more = (1 + rng.below(16)) << 20;
    for side in sides(pool).into_iter().filter(|s| s.vdev == vdev) {
        if let Some(disk) = Node::current().disk(&side.path) {
            disk.set_size(disk.size() + more);
        }
    }
    let before = pool.space().size;
    let grown = pool.grow(vdev).await;
    let grown = grown.map_err(|e| wrong("growing", e))?;
    match pool.space().size > before {
        now if now == grown => Ok(()),
        _ => Err(Violation(format!(
            "a vdev that grew ({grown}) had {before} bytes"
        ))),
    }
}

/// Gives all that is free back to the disks, where it reads as garbage.
async fn trim(pool: &Pool) -> Result<(), Violation> {
    let failed = |e| Violation(format!("trimming: {e}"));
    let mut next = Some(pool.begin_trim().await.map_err(failed)?);
    while let Some(at) = next {
        (_, next) = pool.trim_part(at).await.map_err(failed)?;
    }
    Ok(())
}

/// Sides come and go for a while, among the disks of these names.
pub(crate) async fn churn(pool: Rc<Pool>, names: Vec<String>, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(6) {
        sleep(Duration::from_micros(rng.below(5000))).await;
        let now = sides(&pool);
        let any = &now[rng.below(now.len() as u64) as usize];
        match rng.below(10) {
            0 => unless_last("offline", pool.vdevs().offline(any.guid).await)?,
            1 => unless_last("detaching", pool.vdevs().detach(any.guid).await)?,
            2 => drop(attach(&pool, &names, &mut rng).await?),
            3 => {
                if let Some(vdev) = attach(&pool, &names, &mut rng).await? {
                    gather(&pool).await?;
                    let old = now.iter().find(|s| s.vdev == vdev);
                    let old = old.expect("it has a side").guid;
                    unless_last("replacing", pool.vdevs().detach(old).await)?;
                }
            }
            4 => gather(&pool).await?,
            5 => add(&pool, &names, &mut rng).await?,
            6 => grow(&pool, any.vdev, &mut rng).await?,
            7 => trim(&pool).await?,
            8 => {
                let on = rng.chance(0.8);
                let set = pool.set_property(PoolProperty::Autotrim, on).await;
                set.map_err(|e| Violation(format!("setting autotrim: {e}")))?;
            }
            _ => {
                let scrubbed = pool.scrub(|_| ()).await;
                let scrubbed = scrubbed.map_err(|e| Violation(format!("scrubbing: {e}")))?;
                if !scrubbed.lost.is_empty() || !scrubbed.damaged.is_empty() {
                    return Err(Violation(format!("a scrub found damage: {scrubbed:?}")));
                }
            }
        }
    }
    Ok(())
}
