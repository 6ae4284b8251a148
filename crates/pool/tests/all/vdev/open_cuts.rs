//! Power cuts at every disk operation of opening a pool: it opens at the same checkpoint, with its journal.

use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::sim::{DiskConfig, Node};
use pool::format::{ChecksumKind, JournalLayout, Packing, Sync};
use pool::vdev::{OpenOptions, PoolSpec, create, open};
use pool::{NewVolume, Options, Pool};

use crate::vdev::world::{buffer, config, disks, find, host, on, path, run};

const BLOCK: u32 = 4096;
const BLOCKS: u64 = 12;
/// More disk steps than an opening takes.
const STEPS_MAX: u64 = 2000;

async fn make(vdev: &[usize]) -> Pool {
    let mut spec = PoolSpec::new("tank", vec![disks(vdev).await], host());
    spec.journal = Some(JournalLayout {
        segment_size: 32 << 10,
        segments: 12,
    });
    let opened = create(spec).await.expect("made");
    let pool = Pool::open(opened, Options::default()).await;
    pool.expect("open")
}

pub(crate) async fn import(vdev: &[usize]) -> Pool {
    let found = find(vdev).await.expect("the pool is found");
    let opened = open(found, OpenOptions::new(host())).await;
    let pool = Pool::open(opened.expect("its devices open"), Options::default()).await;
    pool.expect("it opens")
}

/// Writes every block of the volume, durably.
pub(crate) async fn write_all(pool: &Pool, version: u8) {
    let volume = pool.volume("one").expect("a volume");
    for n in 0..BLOCKS {
        let data = buffer(&[version ^ n as u8; BLOCK as usize]).await;
        let written = volume.write_durable(Lba(n), data).await;
        let _proof = written.expect("written");
    }
}

pub(crate) async fn check_all(pool: &Pool, version: u8, what: &str) {
    let volume = pool.volume("one").expect("a volume");
    for n in 0..BLOCKS {
        let at = Extent {
            start: Lba(n),
            blocks: 1,
        };
        let read = volume.read(at).await;
        let read = read.unwrap_or_else(|e| panic!("{what}: block {n}: {e}"));
        let mut bytes = vec![0; read.len()];
        read.copy_to(&mut bytes);
        let want = version ^ n as u8;
        assert!(bytes.iter().all(|b| *b == want), "{what}: block {n}");
    }
}

/// Creates a pool with checkpoints, and with writes that only its journal has. Returns the sequence of the newest checkpoint.
pub(crate) async fn furnish(vdev: &[usize]) -> u64 {
    let pool = make(vdev).await;
    let new = NewVolume {
        name: "one".into(),
        size: BLOCKS * u64::from(BLOCK),
        block_size: BLOCK,
        record_size: BLOCK,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    pool.create_volume(new).await.expect("a volume");
    // The journal wraps, so that an older checkpoint has nothing to replay.
    for version in 0..12 {
        write_all(&pool, version).await;
        pool.checkpoint().await.expect("a checkpoint");
    }
    let sequence = pool.sequence();
    write_all(&pool, 100).await;
    io::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        pool.sequence(),
        sequence,
        "the journal holds what came last"
    );
    sequence
}

/// Opens the pool with a power cut at a step. Returns whether the power was cut.
async fn cut_opening(node: Node, vdev: &'static [usize], step: u64) -> bool {
    let opening = node.spawn(async move {
        let found = find(vdev).await.expect("the pool is found");
        Node::current().power_cut_after(step);
        let opened = open(found, OpenOptions::new(host())).await;
        let opened = opened.expect("its devices open");
        let pool = Pool::open(opened, Options::default()).await;
        drop(pool.expect("it opens"));
    });
    let is_cut = opening.await.is_none();
    node.power_cut();
    node.power_on();
    is_cut
}

/// A machine whose disks write each sector of 512 bytes separately, so that a cut tears most operations in flight.
fn tearing_machine(disks: usize) -> Node {
    let node = Node::new();
    for n in 0..disks {
        let config = DiskConfig {
            logical_block: 512,
            physical_block: 512,
            ..config()
        };
        node.create_disk(path(n), config);
    }
    node
}

fn at_every_step(seed: u64, vdev: &'static [usize]) {
    run(seed, async move {
        let node = tearing_machine(vdev.len());
        let sequence = on(node, furnish(vdev)).await.expect("it has power");
        node.power_cut();
        node.power_on();
        let mut cuts = 0;
        for step in 0..STEPS_MAX {
            let is_cut = cut_opening(node, vdev, step).await;
            // The next opening repairs the effects of one cut, and is cut as well.
            if seed % 2 == 1 {
                let _cut_again = cut_opening(node, vdev, (step * 7) % (cuts + 1)).await;
            }
            let check = on(node, async move {
                let what = format!("seed {seed}, step {step}");
                let pool = import(vdev).await;
                assert_eq!(pool.sequence(), sequence, "{what}");
                check_all(&pool, 100, &what).await;
            });
            check.await.expect("it has power");
            node.power_cut();
            node.power_on();
            if !is_cut {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 10 && cuts < STEPS_MAX, "{cuts} cuts");
    });
}

/// Regression: opening rewrote the newest uberblock in its own slot, all four copies without a flush in between. A cut that
/// tore all of them left the checkpoint before, whose journal was overwritten.
#[test]
fn a_power_cut_during_an_opening_loses_neither_checkpoint_nor_journal() {
    for seed in 0..6 {
        at_every_step(seed, &[0]);
    }
}

#[test]
fn a_cut_while_a_mirror_is_opened_costs_neither_checkpoint_nor_journal() {
    at_every_step(1, &[0, 1]);
}

/// Regression: a rewind wiped the journal before it wrote its uberblock. A cut in between left the newest checkpoint without
/// its journal.
#[test]
fn a_power_cut_during_a_rewind_leaves_the_pool_before_or_after_it() {
    let vdev = &[0];
    run(1, async move {
        for step in 0..STEPS_MAX {
            let node = tearing_machine(1);
            let newest = on(node, furnish(vdev)).await.expect("it has power");
            node.power_cut();
            node.power_on();
            let going_back = on(node, async move {
                let found = find(vdev).await.expect("the pool is found");
                Node::current().power_cut_after(step);
                let options = OpenOptions {
                    rewind: Some(newest - 1),
                    ..OpenOptions::new(host())
                };
                let opened = open(found, options).await.expect("its devices open");
                drop(
                    Pool::open(opened, Options::default())
                        .await
                        .expect("it opens"),
                );
            });
            let is_cut = going_back.await.is_none();
            node.power_cut();
            node.power_on();
            let check = on(node, async move {
                let pool = import(vdev).await;
                let what = format!("step {step}");
                match pool.sequence() == newest {
                    true => check_all(&pool, 100, &what).await,
                    false => check_all(&pool, 10, &what).await,
                }
            });
            check.await.expect("it has power");
            if !is_cut {
                return;
            }
        }
        panic!("going back does not end");
    });
}
