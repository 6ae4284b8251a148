//! Space without an owner, or with two, after regressions.

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Node};
use pool::format::{ChecksumKind, Defect, Packing, Sync};
use pool::vdev::{PoolSpec, create};
use pool::{Error, NewVolume, Options, Pool};

use crate::inspect::world::{
    RECORD, furnish, host, inspect, machine, make, rewind, run, volume, write,
};

async fn assert_adds_up(pool: &Pool) {
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems, Vec::<String>::new());
}

/// Regression: the saved bitmaps included blocks that were written during their checkpoint. The journal knows their owner,
/// but a pool that is opened at an older uberblock has no journal, so that this space was lost for ever.
#[test]
fn writes_during_a_checkpoint_are_free_after_a_rewind_to_it() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            furnish(&pool).await;
            let one = pool.volume("one").expect("it is there");
            let two = pool.volume("two").expect("it is there");
            write(&one, (0..600).step_by(2), 7).await;
            let writing = io::spawn(async move {
                for round in 0..20 {
                    write(&two, round * 10..round * 10 + 10, 8).await;
                }
            });
            pool.checkpoint().await.expect("a checkpoint");
            writing.await.expect("written");
            pool.checkpoint().await.expect("a checkpoint");
        });
        done.await.expect("it ran");
        node.power_cut();
        node.power_on();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
        let older = view.image.uberblocks[1].sequence;
        drop(view);
        let rewound = node.spawn(async move {
            let pool = rewind(older).await;
            assert_adds_up(&pool).await;
            pool.checkpoint().await.expect("a checkpoint");
            assert_adds_up(&pool).await;
            let space = pool.space();
            assert_eq!(space.used + space.freeing + space.free, space.size);
        });
        rewound.await.expect("it ran");
        node.power_cut();
        node.power_on();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
    });
}

/// Regression: a node on a vdev with small sectors was counted with the bytes of large sectors, and fewer were freed. So all
/// vdevs have the sector size of the largest.
#[test]
fn vdevs_whose_disks_have_different_blocks_have_the_same_sector() {
    run(async {
        let node = Node::new();
        for (name, physical_block) in [("small", 4096), ("large", 16_384)] {
            let config = DiskConfig {
                physical_block,
                ..DiskConfig::default()
            };
            node.create_disk(name, config);
        }
        let done = node.spawn(async {
            let mut vdevs = Vec::new();
            for name in ["small", "large"] {
                let disk = Disk::open(name, OpenOptions::default()).await;
                vdevs.push(vec![disk.expect("it is there")]);
            }
            let opened = create(PoolSpec::new("tank", vdevs, host())).await;
            let pool = Pool::open(opened.expect("made"), Options::default()).await;
            let pool = pool.expect("open");
            let sectors: Vec<_> = pool.vdevs().table().iter().map(|v| v.sector).collect();
            assert_eq!(sectors, [16_384, 16_384]);
            let new = |record_size| NewVolume {
                name: "one".into(),
                size: 16 << 20,
                block_size: 4096,
                record_size,
                sync: Sync::Standard,
                compression: Packing::Off,
                checksum: ChecksumKind::Xxh3,
            };
            let refused = pool.create_volume(new(RECORD)).await;
            assert!(
                matches!(refused, Err(Error::Invalid(Defect::Field { value, .. })) if value == RECORD.into())
            );
            let one = pool.create_volume(new(16_384)).await.expect("made");
            for round in 0..4 {
                write(&one, (0..1024).step_by(2 + round), 1).await;
                pool.checkpoint().await.expect("a checkpoint");
                assert_adds_up(&pool).await;
            }
        });
        done.await.expect("it ran");
    });
}

/// Regression: subtrees that a clone shares with its origin, and drops without reading them, remained in its count.
#[test]
fn a_clone_that_drops_shared_subtrees_counts_the_remaining_blocks() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            let one = volume(&pool, "one").await;
            write(&one, 0..2000, 1).await;
            pool.create_snapshot("one", "a").await.expect("a snapshot");
            let clone = pool.clone_snapshot("one", "a", "clone").await;
            let clone = clone.expect("a clone");
            write(&clone, (0..2000).step_by(300), 2).await;
            pool.checkpoint().await.expect("a checkpoint");
            let blocks = u64::from(RECORD) / 4096;
            let range = Extent {
                start: Lba(250 * blocks),
                blocks: 1500 * blocks,
            };
            clone.deallocate(range).await.expect("dropped");
            write(&clone, [1000], 3).await;
            pool.checkpoint().await.expect("a checkpoint");
            assert_adds_up(&pool).await;
            let referenced = pool.volume_spaces()["clone"].referenced;
            assert_eq!(referenced, (250 + 250 + 1) * u64::from(RECORD));
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
        node.kill();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
    });
}
