//! Churn of snapshots and clones beside a workload.
//!
//! The churn reads each snapshot completely right after its creation. For the model this is a read that began before the
//! creation was requested. From then on the snapshot must read the same, also after crashes.

use crate::access::{Access, Direct};
use crate::model::{Model, Violation};
use backend::{BlockBackend, Lba};
use io::rng::Prng;
use io::time::sleep;
use pool::{Error, Pool, Volume};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Blocks per read.
const READ_BLOCKS: u64 = 64;

/// Expected state of a snapshot.
#[derive(Debug, Clone, Default)]
struct Snapshot {
    /// Its contents, once they were read.
    bytes: Option<Vec<u8>>,
    /// Whether its creation was acknowledged.
    made: bool,
    /// Whether its destruction was requested.
    doomed: bool,
    /// New name, if a rename was requested: the snapshot has the old or the new one.
    renamed: Option<String>,
    /// Whether a hold on it was acknowledged, and its release not requested.
    held: bool,
}

/// Name of the clone that is created and destroyed.
const CLONE: &str = "clone";
/// Tag of all holds.
const TAG: &str = "keep";

/// All snapshots of the model's volume. While its clone is promoted, some of them belong to the clone.
#[derive(Default)]
pub(crate) struct Snapshots {
    known: BTreeMap<String, Snapshot>,
    next: u64,
}

/// Finds a snapshot of the model's volume, even if a promotion moved it to the clone. Returns its volume's name and the
/// snapshot.
fn find<'a>(pool: &Pool, volume: &'a str, name: &str) -> Option<(&'a str, Volume)> {
    let of = |volume: &'a str| pool.snapshot(volume, name).map(|found| (volume, found));
    of(volume).or_else(|| of(CLONE))
}

/// Reads all contents of a volume.
pub(crate) async fn contents(volume: Volume) -> Result<Vec<u8>, Violation> {
    let blocks = volume.geometry().blocks;
    let access = Direct(Arc::new(volume));
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < blocks {
        let n = READ_BLOCKS.min(blocks - at);
        let part = access.read(at, n).await;
        bytes.extend(part.map_err(|f| Violation(format!("a snapshot cannot be read: {f:?}")))?);
        at += n;
    }
    Ok(bytes)
}

fn wrong(what: &str, e: Error) -> Violation {
    Violation(format!("{what}: {e}"))
}

impl Snapshots {
    /// After a start: checks that every expected snapshot exists with unchanged contents.
    pub(crate) async fn check(
        snapshots: &Rc<RefCell<Snapshots>>,
        pool: &Pool,
        volume: &str,
    ) -> Result<(), Violation> {
        let known = snapshots.borrow().known.clone();
        for (name, snapshot) in known {
            let Some((of, found)) = find(pool, volume, &name) else {
                let renamed = snapshot.renamed.as_ref();
                let lives_on = renamed.is_some_and(|new| find(pool, volume, new).is_some());
                if snapshot.made && !snapshot.doomed && !lives_on {
                    return Err(Violation(format!("the snapshot {name} is gone")));
                }
                snapshots.borrow_mut().known.remove(&name);
                continue;
            };
            let bytes = contents(found).await?;
            if snapshot.bytes.is_some_and(|before| before != bytes) {
                return Err(Violation(format!("the snapshot {name} has changed")));
            }
            let held = pool.holds(of, &name);
            let held = held.map_err(|e| wrong("listing holds", e))?;
            if snapshot.held && held.is_empty() {
                return Err(Violation(format!("the hold of {name} is gone")));
            }
            let mut snapshots = snapshots.borrow_mut();
            let known = snapshots.known.entry(name).or_default();
            known.bytes = Some(bytes);
            known.made = true;
            known.renamed = None;
            known.held = !held.is_empty();
        }
        Ok(())
    }
}

/// Creates, compares, clones and destroys snapshots. A full pool has no space for clones, and may refuse a snapshot.
pub(crate) async fn churn(
    pool: Rc<Pool>,
    volume: String,
    (snapshots, model): (Rc<RefCell<Snapshots>>, Rc<RefCell<Model>>),
    crowded: bool,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(8) {
        sleep(Duration::from_micros(rng.below(4000))).await;
        let names: Vec<String> = snapshots.borrow().known.keys().cloned().collect();
        let any = names
            .get(rng.below(names.len().max(1) as u64) as usize)
            .cloned();
        match (rng.below(8), any) {
            (0, Some(name)) => destroy(&pool, &volume, &snapshots, name).await?,
            (1 | 2, Some(name)) if !crowded => {
                clone(&pool, &volume, &snapshots, name, &mut rng).await?;
                if rng.chance(0.4) && pool.volume(CLONE).is_some() {
                    promote(&pool, &volume, &snapshots, &model, &mut rng).await?;
                }
                remove_clone(&pool, &volume).await?;
            }
            (4, Some(name)) => rename(&pool, &volume, &snapshots, name).await?,
            (5, Some(name)) => hold(&pool, &volume, &snapshots, name).await?,
            (3, Some(name)) => {
                let found = pool.snapshot(&volume, &name);
                let found = found.ok_or_else(|| Violation(format!("{name} is gone")))?;
                let before = snapshots.borrow().known[&name].bytes.clone();
                let now = contents(found).await?;
                if before.is_some_and(|before| before != now) {
                    return Err(Violation(format!("the snapshot {name} has changed")));
                }
            }
            _ => make(&pool, &volume, &snapshots, &model, crowded).await?,
        }
    }
    Ok(())
}

async fn make(
    pool: &Pool,
    volume: &str,
    snapshots: &Rc<RefCell<Snapshots>>,
    model: &Rc<RefCell<Model>>,
    crowded: bool,
) -> Result<(), Violation> {
    let name = {
        let mut snapshots = snapshots.borrow_mut();
        snapshots.next += 1;
        let name = format!("s{}", snapshots.next);
        snapshots.known.insert(name.clone(), Snapshot::default());
        name
    };
    let token = model.borrow_mut().begin_read();
    let made = pool.create_snapshot(volume, &name).await;
    let snapshot = match made {
        Err(Error::NoSpace) if crowded => {
            snapshots.borrow_mut().known.remove(&name);
            return Ok(());
        }
        other => other.map_err(|e| wrong("making a snapshot", e))?,
    };
    if let Some(known) = snapshots.borrow_mut().known.get_mut(&name) {
        known.made = true;
    }
    let bytes = contents(snapshot).await?;
    model.borrow_mut().end_read(&token, 0, &bytes);
    if let Some(known) = snapshots.borrow_mut().known.get_mut(&name) {
        known.bytes = Some(bytes);
    }
    Ok(())
}

async fn destroy(
    pool: &Pool,
    volume: &str,
    snapshots: &Rc<RefCell<Snapshots>>,
    name: String,
) -> Result<(), Violation> {
    let (of, _) = find(pool, volume, &name).ok_or_else(|| Violation(format!("{name} is gone")))?;
    let holds = pool.holds(of, &name);
    if !holds.map_err(|e| wrong("listing holds", e))?.is_empty() {
        match pool.destroy_snapshot(of, &name).await {
            Err(Error::Held { tag }) if tag == TAG => {}
            other => {
                return Err(Violation(format!("destroying what is held: {other:?}")));
            }
        }
        if let Some(known) = snapshots.borrow_mut().known.get_mut(&name) {
            known.held = false;
        }
        let released = pool.release(of, &name, TAG).await;
        released.map_err(|e| wrong("releasing a hold", e))?;
    }
    if let Some(known) = snapshots.borrow_mut().known.get_mut(&name) {
        known.doomed = true;
    }
    let gone = pool.destroy_snapshot(of, &name).await;
    gone.map_err(|e| wrong("destroying a snapshot", e))?;
    snapshots.borrow_mut().known.remove(&name);
    Ok(())
}

async fn rename(
    pool: &Pool,
    volume: &str,
    snapshots: &Rc<RefCell<Snapshots>>,
    name: String,
) -> Result<(), Violation> {
    let new = {
        let mut snapshots = snapshots.borrow_mut();
        snapshots.next += 1;
        let new = format!("r{}", snapshots.next);
        let Some(known) = snapshots.known.get_mut(&name) else {
            return Ok(());
        };
        known.renamed = Some(new.clone());
        let made = false;
        let known = Snapshot {
            made,
            held: false,
            renamed: None,
            ..known.clone()
        };
        snapshots.known.insert(new.clone(), known);
        new
    };
    let renamed = pool.rename_snapshot(volume, &name, &new).await;
    renamed.map_err(|e| wrong("renaming a snapshot", e))?;
    let mut snapshots = snapshots.borrow_mut();
    let held = snapshots.known.remove(&name).is_some_and(|s| s.held);
    if let Some(known) = snapshots.known.get_mut(&new) {
        known.made = true;
        known.held = held;
    }
    Ok(())
}

async fn hold(
    pool: &Pool,
    volume: &str,
    snapshots: &Rc<RefCell<Snapshots>>,
    name: String,
) -> Result<(), Violation> {
    match pool.hold(volume, &name, TAG).await {
        Ok(()) | Err(Error::Exists) => {}
        Err(e) => return Err(wrong("holding a snapshot", e)),
    }
    if let Some(known) = snapshots.borrow_mut().known.get_mut(&name) {
        known.held = true;
    }
    Ok(())
}

/// Promotes the clone, works on it for a while, and promotes the model's volume back.
async fn promote(
    pool: &Pool,
    volume: &str,
    snapshots: &Rc<RefCell<Snapshots>>,
    model: &Rc<RefCell<Model>>,
    rng: &mut Prng,
) -> Result<(), Violation> {
    let promoted = pool.promote(CLONE).await;
    promoted.map_err(|e| wrong("promoting", e))?;
    let clone = pool.volume(CLONE).expect("it was promoted");
    if clone.dataset().origin.is_some() {
        return Err(Violation("a promoted clone has an origin".into()));
    }
    for _ in 0..rng.below(4) {
        match rng.below(4) {
            0 => make(pool, volume, snapshots, model, false).await?,
            1 => scribble(&clone, rng).await?,
            2 => {
                let moved: Vec<String> = pool
                    .snapshots(CLONE)
                    .iter()
                    .map(|s| s.dataset().name)
                    .collect();
                let at = rng.below(moved.len().max(1) as u64) as usize;
                let Some(name) = moved.get(at).filter(|n| *n != "kept") else {
                    continue;
                };
                let origin = pool.volume(volume).and_then(|v| pool.origin(&v));
                if origin.is_some_and(|(_, snapshot)| snapshot != *name) {
                    destroy(pool, volume, snapshots, name.clone()).await?;
                }
            }
            _ => {
                let done = pool.checkpoint().await;
                done.map_err(|e| wrong("a checkpoint", e))?;
            }
        }
    }
    let known = snapshots.borrow().known.clone();
    for (name, snapshot) in known {
        let found = find(pool, volume, &name);
        let (_, found) = found.ok_or_else(|| Violation(format!("{name} is gone")))?;
        let now = contents(found).await?;
        if snapshot.bytes.is_some_and(|before| before != now) {
            return Err(Violation(format!("a promotion changed {name}")));
        }
    }
    Ok(())
}

/// Checks a clone: it equals its snapshot, takes writes of its own, rolls back, and is destroyed completely.
async fn clone(
    pool: &Pool,
    volume: &str,
    snapshots: &Rc<RefCell<Snapshots>>,
    name: String,
    rng: &mut Prng,
) -> Result<(), Violation> {
    let clone = CLONE;
    let made = pool.clone_snapshot(volume, &name, clone).await;
    let made = made.map_err(|e| wrong("cloning", e))?;
    let before = contents(made.clone()).await?;
    let known = snapshots
        .borrow()
        .known
        .get(&name)
        .and_then(|k| k.bytes.clone());
    if known.is_some_and(|bytes| bytes != before) {
        return Err(Violation(format!(
            "a clone differs from its snapshot {name}"
        )));
    }
    scribble(&made, rng).await?;
    let middle = contents(made.clone()).await?;
    let kept = pool.create_snapshot(clone, "kept").await;
    let kept = kept.map_err(|e| wrong("making a clone's snapshot", e))?;
    if contents(kept).await? != middle {
        return Err(Violation(
            "a quiet volume's snapshot differs from it".into(),
        ));
    }
    scribble(&made, rng).await?;
    if rng.chance(0.7) {
        // Makes everything durable, so that no write is in flight.
        let _proof = made.flush().await;
        pool.checkpoint()
            .await
            .map_err(|e| wrong("a checkpoint", e))?;
        let back = pool.roll_back(clone, "kept").await;
        back.map_err(|e| wrong("rolling back", e))?;
        if contents(made.clone()).await? != middle {
            return Err(Violation(
                "a rollback did not bring the snapshot back".into(),
            ));
        }
    }
    Ok(())
}

pub(crate) async fn scribble(volume: &Volume, rng: &mut Prng) -> Result<(), Violation> {
    let geometry = volume.geometry();
    for _ in 0..rng.below(12) {
        let blocks = 1 + rng.below(8.min(geometry.blocks));
        let at = Lba(rng.below(geometry.blocks - blocks + 1));
        let mut buf = io::pool()
            .alloc((blocks * u64::from(geometry.block_size)) as usize)
            .await;
        rng.fill(&mut buf);
        let written = volume.write(at, buf).await;
        written.map_err(|e| Violation(format!("writing to a clone: {e}")))?;
    }
    Ok(())
}

/// Destroys the clone that an incarnation left. If the clone is promoted, promotes the model's volume first.
pub(crate) async fn remove_clone(pool: &Pool, volume: &str) -> Result<(), Violation> {
    let is_clone = pool
        .volume(volume)
        .is_some_and(|v| pool.origin(&v).is_some());
    if is_clone {
        let promoted = pool.promote(volume).await;
        promoted.map_err(|e| wrong("promoting back", e))?;
    }
    if pool.snapshot(CLONE, "kept").is_some() {
        let gone = pool.destroy_snapshot(CLONE, "kept").await;
        gone.map_err(|e| wrong("destroying a clone's snapshot", e))?;
    }
    if pool.volume(CLONE).is_some() {
        let gone = pool.destroy_volume(CLONE).await;
        gone.map_err(|e| wrong("destroying a clone", e))?;
    }
    Ok(())
}
