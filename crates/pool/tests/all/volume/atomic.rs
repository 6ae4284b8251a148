//! Atomicity of writes at a power cut, as a volume's geometry promises it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use backend::{BlockBackend, Geometry, Lba};
use io::rng::Prng;
use io::sim::{Node, Sim, SimConfig};
use pool::{NewVolume, Options, Volume};

use crate::volume::{BLOCK, again, create_pool, disk_config, read};

/// Blocks per record.
const PER_RECORD: u64 = 4;
/// Writes per run. Each has blocks of its own.
const WRITES: u64 = 400;
/// Number of concurrent writers.
const JOBS: u64 = 4;
/// Blocks within which one write lies.
const APART: u64 = 4 * PER_RECORD;

/// Returns the first extent from `start` on that is atomic by `geometry`.
fn atomic_extent(geometry: &Geometry, start: u64) -> Range<u64> {
    let unit = u64::from(geometry.atomic_write_blocks);
    let start = match u64::from(geometry.atomic_boundary_blocks) {
        0 => start,
        boundary if start % boundary + unit > boundary => start.next_multiple_of(boundary),
        _ => start,
    };
    start..start + unit
}

async fn write_all(volume: Volume, writes: Rc<RefCell<Vec<Range<u64>>>>, job: u64, seed: u64) {
    let mut rng = Prng::new(seed + job);
    for n in (job..WRITES).step_by(JOBS as usize) {
        let at = n * APART + rng.below(2 * PER_RECORD);
        let extent = atomic_extent(&volume.geometry(), at);
        let blocks = (extent.end - extent.start) as usize;
        writes.borrow_mut().push(extent.clone());
        let mut data = io::pool().alloc(blocks * BLOCK).await;
        data.fill(7);
        let _may_fail = match rng.chance(0.2) {
            true => volume
                .write_durable(Lba(extent.start), data)
                .await
                .map(drop),
            false => volume.write(Lba(extent.start), data).await,
        };
    }
    let _may_fail = volume.flush().await;
}

/// Returns the writes that a power cut tore.
fn torn(seed: u64) -> Vec<Range<u64>> {
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let made = node.spawn(async {
            let pool = create_pool(Options::default()).await;
            let new = NewVolume {
                record_size: (PER_RECORD as usize * BLOCK) as u32,
                ..NewVolume::new("volume", WRITES * APART * BLOCK as u64)
            };
            pool.create_volume(new).await.expect("a volume");
            pool.close().await.expect("closed");
        });
        made.await.expect("the power stays on");
        let writes: Rc<RefCell<Vec<Range<u64>>>> = Rc::default();
        let asked = writes.clone();
        let life = node.spawn(async move {
            let pool = again().await;
            let volume = pool.volume("volume").expect("a volume");
            Node::current().power_cut_after(1 + seed * 7 % 400);
            let begin = |job| io::spawn(write_all(volume.clone(), asked.clone(), job, seed));
            let jobs: Vec<_> = (0..JOBS).map(begin).collect();
            for job in jobs {
                job.await;
            }
        });
        let _cut = life.await;
        node.power_cut();
        node.power_on();
        let checked = node.spawn(async move {
            let pool = again().await;
            let volume = pool.volume("volume").expect("a volume");
            let mut torn = Vec::new();
            for extent in writes.take() {
                let blocks = extent.end - extent.start;
                let bytes = read(&volume, extent.start, blocks).await;
                if bytes.iter().any(|b| *b != bytes[0]) {
                    torn.push(extent);
                }
            }
            torn
        });
        checked.await.expect("the power stays on")
    })
}

/// Regression: the length of a record was reported to NVMe hosts as atomic at any address; writes across the end of a record
/// tore.
#[test]
fn no_write_that_the_geometry_calls_atomic_is_torn_by_a_power_cut() {
    for seed in 0..50 {
        assert_eq!(torn(seed), [], "seed {seed}");
    }
}
