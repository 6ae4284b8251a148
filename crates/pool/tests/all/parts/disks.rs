//! Capacity of added and grown vdevs, and trim.

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use pool::format::{ChecksumKind, Host, Packing, PoolProperty, Sync, VdevId};
use pool::vdev::{OpenOptions, PoolSpec, create, open, scan};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: u64 = 4096;

fn host() -> Host {
    Host::new([1; 16], "here")
}

/// Runs on a machine with disks `d0` to `d3`, on which trimmed blocks read as garbage.
fn on_disks<F: Future<Output = ()> + 'static>(test: impl FnOnce(Vec<SimDisk>) -> F + 'static) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let disk = |n| {
            let config = DiskConfig {
                trims_to_garbage: true,
                ..DiskConfig::default()
            };
            node.create_disk(format!("d{n}"), config)
        };
        let disks: Vec<_> = (0..4).map(disk).collect();
        node.spawn(test(disks)).await.expect("the power stays on");
    });
}

async fn disk(n: usize) -> Disk {
    loop {
        match Disk::open(format!("d{n}"), DiskOptions::default()).await {
            // Operations of a closed pool are still ending.
            Err(io::Error::Busy(_)) => io::time::sleep(std::time::Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

async fn make(members: &[usize]) -> Pool {
    let mut disks = Vec::new();
    for n in members {
        disks.push(disk(*n).await);
    }
    let opened = create(PoolSpec::new("tank", vec![disks], host())).await;
    let pool = Pool::open(opened.expect("made"), Options::default()).await;
    pool.expect("open")
}

async fn import(which: &[usize]) -> Pool {
    let mut disks = Vec::new();
    for n in which {
        disks.push(disk(*n).await);
    }
    let found = scan(disks).await.pools.pop().expect("a pool");
    let opened = open(found, OpenOptions::new(host())).await;
    let pool = Pool::open(opened.expect("opened"), Options::default()).await;
    pool.expect("open")
}

async fn volume(pool: &Pool) -> Volume {
    let new = NewVolume {
        name: "one".into(),
        size: 1 << 30,
        block_size: BLOCK as u32,
        record_size: BLOCK as u32,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    pool.create_volume(new).await.expect("a volume")
}

async fn write(volume: &Volume, blocks: std::ops::Range<u64>, byte: u8) {
    for at in blocks.step_by(16) {
        let mut buf = io::pool().alloc(16 * BLOCK as usize).await;
        buf.fill(byte);
        volume.write(Lba(at), buf).await.expect("written");
    }
    let _proof = volume.flush().await.expect("flushed");
}

async fn drop_all(volume: &Volume, blocks: u64) {
    let all = Extent {
        start: Lba(0),
        blocks,
    };
    volume.deallocate(all).await.expect("dropped");
    let _proof = volume.flush().await.expect("flushed");
}

async fn assert_sound(pool: &Pool) {
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems, Vec::<String>::new());
    let space = pool.space();
    assert_eq!(space.used + space.freeing + space.free, space.size);
}

async fn trim_all(pool: &Pool) -> u64 {
    let mut next = Some(pool.begin_trim().await.expect("begun"));
    let (mut bytes, mut regions) = (0, 0);
    while let Some(at) = next {
        let part;
        (part, next) = pool.trim_part(at).await.expect("trimmed");
        bytes += part.bytes;
        regions += part.regions;
    }
    assert_eq!(regions, pool.regions());
    bytes
}

#[test]
fn writes_go_to_an_added_vdev_as_well() {
    on_disks(|disks| async move {
        let pool = make(&[0]).await;
        let one = volume(&pool).await;
        write(&one, 0..6000, 1).await;
        let added = pool.add_vdev(vec![disk(1).await, disk(2).await], false);
        assert_eq!(added.await.expect("added"), VdevId(1));
        let before: Vec<u64> = disks.iter().map(|d| d.used()).collect();
        // More than the first disk can hold.
        write(&one, 6000..20_000, 2).await;
        assert_sound(&pool).await;
        let after: Vec<u64> = disks.iter().map(|d| d.used()).collect();
        assert!(after[0] > before[0] && after[1] > before[1] + (24 << 20));
        assert_eq!(after[1] - before[1], after[2] - before[2]);
        pool.close().await.expect("closed");
        drop(one);
        let pool = import(&[0, 1, 2]).await;
        assert_sound(&pool).await;
    });
}

#[test]
fn a_vdev_grows_only_with_all_its_disks_and_keeps_that() {
    on_disks(|disks| async move {
        let pool = make(&[0, 1]).await;
        let one = volume(&pool).await;
        write(&one, 0..9000, 1).await;
        let size = pool.space().size;
        disks[0].set_size(256 << 20);
        assert!(!pool.grow(VdevId(0)).await.expect("looked"));
        assert_eq!(pool.space().size, size);
        disks[1].set_size(224 << 20);
        assert!(pool.grow(VdevId(0)).await.expect("looked"));
        assert_eq!(pool.space().size, size + (160 << 20));
        write(&one, 9000..40_000, 2).await;
        assert_sound(&pool).await;
        let vdevs = pool.vdevs();
        // Its label must not be written where the old one was.
        let member = vdevs.status()[0].members[1].guid;
        vdevs.offline(member).await.expect("out");
        write(&one, 0..64, 3).await;
        vdevs.online(member, None).await.expect("back");
        pool.resilver(|_| ()).await.expect("resilvered");
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert_eq!((scrubbed.repaired, scrubbed.lost.len()), (0, 0));
        pool.close().await.expect("closed");
        drop((one, vdevs));
        let pool = import(&[1, 0]).await;
        assert_eq!(pool.space().size, size + (160 << 20));
        assert_sound(&pool).await;
    });
}

#[test]
fn a_trim_discards_exactly_the_free_space() {
    on_disks(|_| async move {
        let pool = make(&[0, 1]).await;
        let one = volume(&pool).await;
        write(&one, 0..8000, 1).await;
        pool.create_snapshot("one", "kept")
            .await
            .expect("a snapshot");
        write(&one, 0..2000, 2).await;
        pool.checkpoint().await.expect("a checkpoint");
        let bytes = trim_all(&pool).await;
        let free = pool.space().free;
        assert!(
            bytes > free - (2 << 20) && bytes <= free,
            "{bytes} of {free}"
        );
        assert_sound(&pool).await;
        pool.destroy_snapshot("one", "kept").await.expect("gone");
        while pool.is_freeing() {
            pool.checkpoint().await.expect("a checkpoint");
        }
        assert!(trim_all(&pool).await > bytes + (6 << 20));
        // The space is used again.
        write(&one, 0..8000, 3).await;
        assert_sound(&pool).await;
    });
}

#[test]
fn autotrim_discards_freed_space_two_checkpoints_later() {
    on_disks(|_| async move {
        let pool = make(&[0]).await;
        pool.set_property(PoolProperty::Autotrim, true)
            .await
            .expect("set");
        let one = volume(&pool).await;
        write(&one, 0..4000, 1).await;
        pool.checkpoint().await.expect("a checkpoint");
        let trimmed = || pool.vdevs().status()[0].members[0].counters.trimmed_bytes;
        drop_all(&one, 4000).await;
        for _ in 0..2 {
            pool.checkpoint().await.expect("a checkpoint");
            io::time::sleep(std::time::Duration::from_millis(100)).await;
            assert!(trimmed() < 1 << 20, "{}", trimmed());
        }
        pool.checkpoint().await.expect("a checkpoint");
        io::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(trimmed() > 4000 * BLOCK - (1 << 20), "{}", trimmed());
        assert_sound(&pool).await;
        pool.close().await.expect("closed");
        drop(one);
        let pool = import(&[0]).await;
        assert!(pool.is_on(PoolProperty::Autotrim));
        pool.set_property(PoolProperty::Autotrim, false)
            .await
            .expect("set");
        pool.close().await.expect("closed");
        assert!(!import(&[0]).await.is_on(PoolProperty::Autotrim));
    });
}
