//! A cache device beside a pool, which rots, fails, stalls, is torn by power cuts, is removed and added again.
//!
//! **Owns** its disk and its faults. **Called by** all scenarios with a pool. **Invariant** that the model checks: with each fault of the device, clients get
//! right data, and no errors.

use crate::access::Direct;
use crate::model::{Model, Violation};
use crate::workload::verify_all;
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Latency, Node, SimDisk, remark};
use io::time::sleep;
use pool::Pool;
use pool::vdev::{DATA_START, SetupError};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const PATH: &str = "cache";
/// Rot begins within this number of bytes of the first segment.
const ROTTEN: u64 = 256 << 10;
/// Most times that the device is removed in one incarnation.
const REMOVALS_MAX: u64 = 3;

/// Creates the disk, with the sectors of `like`, if the pool has a cache device. Returns the random numbers of its faults.
pub(crate) fn create(node: Node, (is_cached, like): (bool, &DiskConfig), seed: u64) -> Prng {
    let mut rng = Prng::new(seed ^ 0x9001_cace);
    if !is_cached {
        return rng;
    }
    let config = DiskConfig {
        size: (8 + rng.below(28)) << 20,
        ..like.clone()
    };
    node.create_disk(PATH, config);
    rng
}

/// Reads the volume again with short requests: blocks enter the device, and come from there.
pub(crate) async fn read_again(access: &Direct, model: &Rc<RefCell<Model>>) {
    for blocks in [4, 1] {
        verify_all(access, model, blocks).await;
    }
}

/// Ends the faults of the disk, and begins others for the next incarnation.
pub(crate) fn break_device(node: Node, rng: &mut Prng) {
    let Some(disk) = node.disk(PATH) else { return };
    disk.heal();
    disk.revive();
    disk.slow(None);
    let fault = rng.below(8);
    remark(|| format!("cache       fault {fault}"));
    match fault {
        0 | 1 => rot(disk, rng),
        2 => {
            let rate = rng.below(50) as f64 / 100.0;
            disk.error_rates(rate, rate, rate);
        }
        3 => disk.stall_next(Duration::from_secs(30)),
        4 => disk.slow(Some(Latency {
            base: Duration::from_secs(3),
            ..Latency::default()
        })),
        5 => disk.kill(),
        _ => {}
    }
}

/// The blocks of a segment or of several; labels and tables, too, at times.
fn rot(disk: SimDisk, rng: &mut Prng) {
    let end = disk.size();
    let start = match rng.chance(0.2) {
        true => 0,
        // the first segment is the one that most runs fill
        false => DATA_START + rng.below(ROTTEN),
    };
    disk.rot(start..(start + (4096 << rng.below(12))).min(end));
}

/// Opens the cache device, or makes the disk one. A device that fails meanwhile is no trouble.
pub(crate) async fn open(pool: &Pool) {
    let disk = loop {
        match Disk::open(PATH, OpenOptions::default()).await {
            Ok(disk) => break disk,
            // an operation in flight holds it
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(_) => return,
        }
    };
    let opened = match pool.open_cache(disk.clone()).await {
        Err(SetupError::NotCache { .. }) => pool.add_cache(disk, true).await,
        opened => opened,
    };
    // the state asks the clock, which a remark must not
    let caches = pool.caches();
    remark(|| format!("cache       {opened:?}: {caches:?}"));
}

/// Waits before a change, up to `longest`.
pub(super) async fn pause(rng: &mut Prng, longest: Duration) {
    sleep(Duration::from_micros(rng.below(longest.as_micros() as u64))).await;
}

/// Removes the device while clients read, and adds it again, with pauses up to `pause_max`.
pub(crate) async fn churn(pool: Rc<Pool>, pause_max: Duration, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(REMOVALS_MAX + 1) {
        pause(&mut rng, pause_max).await;
        for cache in pool.caches() {
            // a label that stays is that of a device of this pool
            let _removed = pool.remove_cache(cache.guid).await;
        }
        if !pool.caches().is_empty() {
            return Err(Violation("a removed cache device is still there".into()));
        }
        // a device that hangs keeps its disk
        if rng.chance(0.8) && Disk::open(PATH, OpenOptions::default()).await.is_ok() {
            open(&pool).await;
        }
    }
    Ok(())
}
