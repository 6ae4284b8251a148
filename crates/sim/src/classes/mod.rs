//! Device classes of a pool beside its data: a log, a special vdev, and a cache device, each on a disk of its own.
//!
//! **Owns** the choice by seed, their disks, and their churn: a log that is lost, vdevs that leave and return, thresholds that change. **Called by** all
//! scenarios with a pool. **Invariants** that it checks: a pool goes on without a log that is lost; a removal ends. A pool has normal vdevs with room for
//! everything, so that no request depends on a class.

pub(crate) mod caches;

use crate::model::Violation;
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, SimDisk, remark};
use io::time::sleep;
use pool::format::{DatasetProperty, RECORD_SIZE_MIN, Setting, VdevClass, VdevId};
use pool::vdev::limits::DISK_SIZE_MIN;
use pool::vdev::{SetupError, VdevSpec, VdevStatus};
use pool::{Error, Pool};
use std::rc::Rc;
use std::time::Duration;

/// Disk of the log.
const LOG: &str = "class-log";
/// Disk of the special vdev.
const SPECIAL: &str = "class-special";
/// Size of the log, bytes: the journals of full pools on a raidz are large.
const LOG_SIZE: u64 = 256 << 20;
/// Probability of each class.
const CHANCE: f64 = 0.35;
/// Probability that a change waits until its blocks have moved.
const WAITS: f64 = 0.7;
/// Most changes in one incarnation.
const CHANGES_MAX: u64 = 3;
/// Longest pause before a change.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Milliseconds until a log that is lost must have left the pool, and until a removal or a walk of the class mover must have ended.
const CHANGE_MS_MAX: u64 = 300_000;
/// Milliseconds in which a walk begins that a change asked for, unless there is nothing to move.
const BEGIN_MS: u64 = 1000;

/// The classes of a pool, beside the normal one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Classes {
    has_log: bool,
    has_special: bool,
    /// Whether it has a cache device.
    pub(crate) has_cache: bool,
    /// Whether vdevs leave and return, and logs are lost.
    changes: bool,
    /// Longest pause before a change.
    pause_max: Duration,
    seed: u64,
}

/// Sets the size of the records that special vdevs take: none, or records up to a power of two.
pub(crate) async fn set_threshold(pool: &Pool, rng: &mut Prng) -> Result<(), Violation> {
    let value = match rng.below(4) {
        0 => 0,
        _ => u64::from(RECORD_SIZE_MIN) << rng.below(9),
    };
    set_small(pool, value).await
}

/// Sets the most bytes of the records that special vdevs take.
pub(crate) async fn set_small(pool: &Pool, value: u64) -> Result<(), Violation> {
    let setting = Setting {
        value,
        is_received: false,
    };
    let property = DatasetProperty::SpecialSmallBlocks;
    match pool.set_own(None, property, Some(setting)).await {
        // a full pool refuses a setting
        Err(pool::Error::NoSpace) => Ok(()),
        Err(_) if pool.trouble().is_some() => Ok(()),
        set => set.map_err(|e| Violation(format!("the size of small records is not set: {e}"))),
    }
}

/// Waits for the walk of the class mover that a change asked for. `before` is the number of walks before the change.
pub(crate) async fn moved(pool: &Pool, before: u64) -> Result<(), Violation> {
    for ms in 0..CHANGE_MS_MAX {
        match pool.special_class() {
            Some(class) if pool.trouble().is_none() => {
                let may_begin = class.walks == before && ms < BEGIN_MS;
                if class.moves.is_none() && !may_begin {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
        sleep(Duration::from_millis(1)).await;
    }
    Err(Violation(format!(
        "a walk of the class mover does not end: {:?}",
        pool.special_class()
    )))
}

/// Walks of the class mover since the pool was opened; zero without a special vdev.
pub(crate) fn walks(pool: &Pool) -> u64 {
    pool.special_class().map_or(0, |class| class.walks)
}

/// The vdev of a class.
pub(crate) fn of_class(pool: &Pool, class: VdevClass) -> Option<VdevStatus> {
    let vdevs = pool.vdevs().status();
    vdevs.into_iter().find(|vdev| vdev.class == class)
}

/// Opens a disk; `None` if it does not answer.
async fn disk(name: &str) -> Option<Disk> {
    loop {
        match Disk::open(name, OpenOptions::default()).await {
            Ok(disk) => return Some(disk),
            // requests of a killed process still hold it
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(_) => return None,
        }
    }
}

impl Classes {
    /// The classes that a seed chooses.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Prng::new(seed ^ 0xc1a5_5e50);
        Self {
            has_log: rng.chance(CHANCE),
            has_special: rng.chance(CHANCE),
            has_cache: rng.chance(CHANCE),
            changes: rng.chance(0.5),
            pause_max: PAUSE_MAX,
            seed: rng.u64(),
        }
    }

    /// No log and no special vdev: the scenario changes all vdevs by itself.
    pub(crate) fn without_vdevs(self) -> Self {
        Self {
            has_log: false,
            has_special: false,
            ..self
        }
    }

    /// Without a cache device.
    pub(crate) fn without_cache(self) -> Self {
        Self {
            has_cache: false,
            ..self
        }
    }

    /// With pauses up to this before changes.
    pub(crate) fn with_pauses(self, pause_max: Duration) -> Self {
        Self { pause_max, ..self }
    }

    /// Whether the pool has vdevs of other classes that leave and return, or a cache device that does.
    pub(crate) fn has_churn(self) -> bool {
        self.has_cache || self.changes && self.has_vdevs()
    }

    /// Vdevs stay as they are.
    pub(crate) fn without_changes(self) -> Self {
        Self {
            changes: false,
            ..self
        }
    }

    /// Whether it has vdevs.
    pub(crate) fn has_vdevs(self) -> bool {
        self.has_log || self.has_special
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let log = self.has_log.then_some(LOG);
        let special = self.has_special.then_some(SPECIAL);
        log.into_iter().chain(special)
    }

    /// Creates the disks, with the sectors of `like`.
    pub(crate) fn create_disks(self, node: Node, like: &DiskConfig) {
        for (name, class) in self.names().zip(self.of_names()) {
            let size = match class {
                VdevClass::Log => LOG_SIZE,
                _ => DISK_SIZE_MIN,
            };
            let config = DiskConfig {
                size,
                ..like.clone()
            };
            node.create_disk(name, config);
        }
    }

    /// The disks of its vdevs. A disk that was lost is back.
    pub(crate) async fn disks(self) -> Vec<Disk> {
        let mut disks = Vec::new();
        for name in self.names() {
            if let Some(disk) = Node::current().disk(name) {
                disk.revive();
            }
            disks.extend(disk(name).await);
        }
        disks
    }

    /// The vdevs of a new pool.
    pub(crate) async fn vdevs(self) -> Vec<VdevSpec> {
        let mut vdevs = Vec::new();
        for (name, class) in self.names().zip(self.of_names()) {
            vdevs.extend(disk(name).await.map(|disk| spec(class, disk)));
        }
        vdevs
    }

    fn of_names(self) -> impl Iterator<Item = VdevClass> {
        let classes = [VdevClass::Log, VdevClass::Special];
        let has = [self.has_log, self.has_special];
        classes
            .into_iter()
            .zip(has)
            .filter_map(|(class, has)| has.then_some(class))
    }

    /// Begins an incarnation: opens the cache device, and sets a threshold.
    pub(crate) async fn begin(self, pool: &Pool, seed: u64) -> Result<(), Violation> {
        if self.has_cache {
            caches::open(pool).await;
        }
        if self.has_special {
            set_threshold(pool, &mut Prng::new(self.seed ^ seed)).await?;
        }
        Ok(())
    }

    /// Changes the vdevs beside the jobs.
    pub(crate) async fn churn(self, pool: Rc<Pool>, seed: u64) -> Result<(), Violation> {
        let mut rng = Prng::new(self.seed ^ seed);
        if !self.changes || !self.has_vdevs() {
            return Ok(());
        }
        let mut seen = 0;
        for _ in 0..rng.below(CHANGES_MAX + 1) {
            caches::pause(&mut rng, self.pause_max).await;
            let chosen = self.of_names().nth(rng.below(2) as usize);
            let class = chosen.or(self.of_names().next()).expect("there is one");
            if pool.trouble().is_some() || pool.removing().is_some() {
                return Ok(());
            }
            seen = seen.max(walks(&pool));
            let waits = rng.chance(WAITS);
            let found = of_class(&pool, class);
            if class == VdevClass::Special && (found.is_none() || rng.chance(0.5)) {
                set_threshold(&pool, &mut rng).await?;
                if found.is_none() {
                    add(&pool, class).await?;
                }
                if waits {
                    moved(&pool, seen).await?;
                }
                continue;
            }
            match found {
                None => add(&pool, class).await?,
                Some(log) if class == VdevClass::Log && rng.chance(0.5) => {
                    lose(&pool, &log).await?
                }
                Some(vdev) => remove(&pool, vdev.id).await?,
            }
        }
        Ok(())
    }
}

fn spec(class: VdevClass, disk: Disk) -> VdevSpec {
    match class {
        VdevClass::Log => VdevSpec::log(vec![disk]),
        _ => VdevSpec::special(vec![disk]),
    }
}

/// Adds the vdev of a class that has left.
async fn add(pool: &Pool, class: VdevClass) -> Result<(), Violation> {
    let name = match class {
        VdevClass::Log => LOG,
        _ => SPECIAL,
    };
    Node::current()
        .disk(name)
        .into_iter()
        .for_each(SimDisk::revive);
    let Some(disk) = disk(name).await else {
        return Ok(());
    };
    remark(|| format!("class       {class:?} is added"));
    match pool.add_vdev(spec(class, disk), true).await {
        Err(_) if pool.trouble().is_some() => Ok(()),
        added => added
            .map(drop)
            .map_err(|e| Violation(format!("a vdev of class {class:?} is not added: {e}"))),
    }
}

/// The disk of a log is lost, and the log leaves the pool.
async fn lose(pool: &Pool, log: &VdevStatus) -> Result<(), Violation> {
    remark(|| "class       the log is lost".to_owned());
    let disk = Node::current().disk(&log.members[0].path);
    disk.into_iter().for_each(SimDisk::kill);
    left_lost(pool, log.id).await
}

/// Waits until the pool has left a log that is lost.
pub(crate) async fn left_lost(pool: &Pool, vdev: VdevId) -> Result<(), Violation> {
    // an idle pool writes nothing to it
    let _refused = pool.checkpoint().await;
    for _ in 0..CHANGE_MS_MAX {
        let is_there = pool.vdevs().status().iter().any(|v| v.id == vdev);
        if !is_there && !pool.journal_vdevs().contains(&vdev) {
            return Ok(());
        }
        match pool.trouble() {
            // it waits for space
            None | Some(Error::FileSystemFull { .. }) => {}
            Some(trouble) => {
                return Err(Violation(format!("the pool fails with its log: {trouble}")));
            }
        }
        sleep(Duration::from_millis(1)).await;
    }
    Err(Violation(format!(
        "{vdev:?} is a log that is lost, and stays"
    )))
}

/// Removes a vdev, and waits until it has left.
async fn remove(pool: &Pool, vdev: VdevId) -> Result<(), Violation> {
    remark(|| format!("class       {vdev:?} is removed"));
    match pool.remove_vdev(vdev).await {
        Err(SetupError::NoRoom { .. }) => return Ok(()),
        Err(_) if pool.trouble().is_some() => return Ok(()),
        begun => begun.map_err(|e| Violation(format!("{vdev:?} is not removed: {e}")))?,
    }
    for _ in 0..CHANGE_MS_MAX {
        if pool.removing().is_none() || pool.trouble().is_some() {
            return Ok(());
        }
        sleep(Duration::from_millis(1)).await;
    }
    Err(Violation(format!(
        "a removal stands still: {:?}",
        pool.removing()
    )))
}
