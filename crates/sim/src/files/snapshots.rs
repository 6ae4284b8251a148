//! Snapshots of the filesystem, beside the work and between incarnations.
//!
//! **Owns** the snapshots that must be there, with their contents ([`Known`]). **Called by** scenario `files`. **Invariants** that it
//! checks: a snapshot has all that was acknowledged before its creation was requested, as one state between two transactions; it
//! never changes, also not after crashes; a clone and a rollback have its contents.

use super::history::Mark;
use super::image::Image;
use super::plan::FILESYSTEM;
use super::recorded::SharedHistory;
use super::verdict::Between;
use crate::model::Violation;
use io::rng::Prng;
use io::time::sleep;
use pool::{Error, Pool};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use testkit::store::{check, check_charges};

/// Name of the clone that is created and destroyed.
const CLONE: &str = "clone";
/// Snapshots that are kept at most.
const KEPT_MAX: usize = 3;
/// Longest pause between two operations, microseconds.
const PAUSE: u64 = 4000;

/// What outlives an incarnation.
#[derive(Default)]
pub(super) struct Known {
    /// Snapshots by name, oldest first.
    made: Vec<(String, Rc<Image>)>,
    /// A snapshot that was requested, and when.
    making: Option<(String, Mark)>,
    /// The snapshot that is being destroyed.
    destroying: Option<String>,
    /// The contents to which a rollback was requested.
    pub(super) rolling: Option<Rc<Image>>,
    next: u64,
}

pub(super) type Snapshots = Rc<RefCell<Known>>;

fn failed(what: &str, e: &Error) -> Violation {
    Violation(format!("{what}: {e}"))
}

async fn image_of(pool: &Pool, name: &str) -> Result<Option<Image>, Violation> {
    match pool.filesystem_snapshot(FILESYSTEM, name) {
        Some(store) => Ok(Some(Image::read(&store).await?)),
        None => Ok(None),
    }
}

/// Compares a state that must be a snapshot's.
fn same(found: &Image, snapshot: &Image, what: &str) -> Result<(), Violation> {
    if found.is_same(snapshot) {
        return Ok(());
    }
    let keys = found.state.values.iter();
    let values = keys.filter(|(key, value)| snapshot.state.values.get(key) != Some(value));
    let inodes = found.state.inodes.iter();
    let inodes = inodes.filter(|(object, inode)| snapshot.state.inodes.get(object) != Some(inode));
    let contents = found.contents.iter();
    let contents = contents.filter(|(object, bytes)| snapshot.contents.get(object) != Some(bytes));
    Err(Violation(format!(
        "{what} differs: {} values, inodes {:?}, contents of {:?}",
        values.count(),
        inodes.collect::<Vec<_>>(),
        contents.map(|(object, _)| object).collect::<Vec<_>>()
    )))
}

/// Checks all snapshots after a start; `history` is that of the incarnation before.
pub(super) async fn check_all(
    known: &Snapshots,
    pool: &Pool,
    history: &SharedHistory,
) -> Result<(), Violation> {
    if pool.volume(CLONE).is_some() || pool.filesystem(CLONE).is_some() {
        let destroyed = pool.destroy_volume(CLONE).await;
        destroyed.map_err(|e| failed("destroying a clone", &e))?;
    }
    let destroying = known.borrow().destroying.clone();
    let made = known.borrow().made.clone();
    for (name, image) in made {
        match image_of(pool, &name).await? {
            Some(found) => same(&found, &image, &format!("snapshot {name}"))?,
            None if destroying.as_ref() == Some(&name) => {
                known.borrow_mut().made.retain(|(other, _)| *other != name);
            }
            None => return Err(Violation(format!("snapshot {name} is gone"))),
        }
    }
    let making = known.borrow().making.clone();
    if let Some((name, floor)) = making
        && let Some(found) = image_of(pool, &name).await?
    {
        let end = history.mark();
        judge(history, &found, floor, end)?;
        known.borrow_mut().made.push((name, Rc::new(found)));
    }
    // only now: an end amid the checks must not lose what was requested
    let mut known = known.borrow_mut();
    known.making = None;
    known.destroying = None;
    Ok(())
}

fn judge(history: &SharedHistory, found: &Image, floor: Mark, end: Mark) -> Result<(), Violation> {
    check(&found.state);
    check_charges(&found.state);
    let between = Between {
        floor: Some(floor),
        end,
        is_exact: true,
    };
    let judged = history.lock().judge(found, between);
    judged
        .map(drop)
        .map_err(|v| Violation(format!("a snapshot: {}", v.0)))
}

async fn make(known: &Snapshots, pool: &Pool, history: &SharedHistory) -> Result<(), Violation> {
    let floor = history.mark();
    let name = {
        let mut known = known.borrow_mut();
        known.next += 1;
        let name = format!("s{}", known.next);
        known.making = Some((name.clone(), floor));
        name
    };
    let made = pool.create_snapshot(FILESYSTEM, &name).await;
    let end = history.mark();
    match made {
        Ok(_) => {}
        Err(Error::NoSpace | Error::Quota) => {
            known.borrow_mut().making = None;
            return Ok(());
        }
        Err(e) => return Err(failed("making a snapshot", &e)),
    }
    let found = image_of(pool, &name).await?;
    let found = found.ok_or_else(|| Violation(format!("snapshot {name} is not there")))?;
    judge(history, &found, floor, end)?;
    // what a snapshot has is durable
    if pool.filesystem(FILESYSTEM).is_some() {
        history.lock().durable(None, floor);
    }
    let mut known = known.borrow_mut();
    known.making = None;
    known.made.push((name, Rc::new(found)));
    Ok(())
}

async fn destroy(known: &Snapshots, pool: &Pool, name: String) -> Result<(), Violation> {
    known.borrow_mut().destroying = Some(name.clone());
    let destroyed = pool.destroy_snapshot(FILESYSTEM, &name).await;
    destroyed.map_err(|e| failed("destroying a snapshot", &e))?;
    let mut known = known.borrow_mut();
    known.destroying = None;
    known.made.retain(|(other, _)| *other != name);
    Ok(())
}

async fn clone(pool: &Pool, name: &str, image: &Image) -> Result<(), Violation> {
    match pool.clone_snapshot(FILESYSTEM, name, CLONE).await {
        Ok(_) => {}
        Err(Error::NoSpace) => return Ok(()),
        Err(e) => return Err(failed("making a clone", &e)),
    }
    let store = pool.filesystem(CLONE);
    let store = store.ok_or_else(|| Violation("a clone is no filesystem".into()))?;
    same(&Image::read(&store).await?, image, "a clone")?;
    drop(store);
    let destroyed = pool.destroy_volume(CLONE).await;
    destroyed.map_err(|e| failed("destroying a clone", &e))
}

/// Makes, compares, clones and destroys snapshots.
pub(super) async fn churn(
    known: Snapshots,
    pool: Rc<Pool>,
    history: SharedHistory,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(6) {
        sleep(Duration::from_micros(rng.below(PAUSE))).await;
        let made = known.borrow().made.clone();
        let any = made.get(rng.below(made.len().max(1) as u64) as usize);
        match (rng.below(6), any.cloned()) {
            (0, Some((name, _))) => destroy(&known, &pool, name).await?,
            (1, Some((name, image))) => clone(&pool, &name, &image).await?,
            (2, Some((name, image))) => {
                let found = image_of(&pool, &name).await?;
                let found = found.ok_or_else(|| Violation(format!("snapshot {name} is gone")))?;
                same(&found, &image, "a snapshot amid work")?;
            }
            _ if made.len() < KEPT_MAX => make(&known, &pool, &history).await?,
            (_, Some((name, _))) => destroy(&known, &pool, name).await?,
            (_, None) => {}
        }
    }
    Ok(())
}

/// Rolls the filesystem back to its newest snapshot, while it is not open. Returns its contents; `None` without a snapshot.
pub(super) async fn roll_back(
    known: &Snapshots,
    pool: &Pool,
) -> Result<Option<Rc<Image>>, Violation> {
    let newest = known.borrow().made.last().cloned();
    let Some((name, image)) = newest else {
        return Ok(None);
    };
    known.borrow_mut().rolling = Some(image.clone());
    match pool.roll_back(FILESYSTEM, &name).await {
        Ok(()) => {}
        // groups of write-back may be in flight
        Err(Error::NoSpace | Error::Busy) => {
            known.borrow_mut().rolling = None;
            return Ok(None);
        }
        Err(e) => return Err(failed("a rollback", &e)),
    }
    let store = pool.filesystem(FILESYSTEM);
    let store = store.ok_or_else(|| Violation("a rollback lost the filesystem".into()))?;
    same(&Image::read(&store).await?, &image, "a rollback")?;
    known.borrow_mut().rolling = None;
    Ok(Some(image))
}
