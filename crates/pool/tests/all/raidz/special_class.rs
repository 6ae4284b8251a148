//! Vdevs for nodes and small records: placement by class, a class without room, members away, removals, and power cuts.

use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::sim::Node;
use pool::format::{
    ChecksumKind, DatasetProperty, FEATURE_SPECIAL_SMALL_BLOCKS, Packing, Setting, Sync, VdevClass,
    VdevId,
};
use pool::vdev::{MemberState, SetupError, VdevSpec, create, scan};
use pool::{NewVolume, Options, Pool, SpecialClass, Volume};

use crate::blocks::{BLOCK, byte, first, free_all, simulated, sound, volume, write};
use crate::raidz::inspect::inspect;
use crate::raidz::journal_move::{Client, check_log, check_with_log, import_after_a_cut, lives};
use crate::raidz::log_class::{spec, wait_for};
use crate::raidz::members::import;
use crate::raidz::remove::{DISK, check, close, ended, furnished};
use crate::raidz::{Disk, cut_at_many_steps, disks, raidz};

/// The special vdev of a furnished pool, which it gets third.
pub(super) const SPECIAL: VdevId = VdevId(2);
/// Its first disk.
pub(super) const FIRST: usize = 3;
/// Blocks of 12 MiB.
const BLOCKS: u64 = 3072;

/// A vdev for nodes and small records of `count` new disks of `mib` MiB.
pub(super) async fn special(first: usize, count: usize, mib: u64) -> VdevSpec {
    VdevSpec::special(disks(first, (count, 0, mib)).await)
}

/// A pool of a raidz of disks 0 to 2, and a special vdev of `count` disks of `mib` MiB.
pub(super) async fn made(count: usize, mib: u64) -> Pool {
    let vdevs = vec![
        raidz(0, (3, 1, 256)).await,
        special(FIRST, count, mib).await,
    ];
    let opened = create(spec(vdevs)).await.expect("create");
    let pool = Pool::open(opened, Options::default()).await;
    pool.expect("open")
}

/// A furnished pool of disks 0 to 2 with a special vdev of `count` disks.
async fn with_special(count: usize) -> Pool {
    let pool = furnished(DISK).await;
    let added = pool.add_vdev(special(FIRST, count, 96).await, false).await;
    assert_eq!(added, Ok(SPECIAL));
    pool
}

pub(super) async fn set(pool: &Pool, dataset: Option<&str>, bytes: u64) {
    let setting = Setting {
        value: bytes,
        is_received: false,
    };
    let property = DatasetProperty::SpecialSmallBlocks;
    let set = pool.set_own(dataset, property, Some(setting)).await;
    set.expect("set");
}

/// The features that a reader of the closed pool must know.
pub(super) async fn features() -> Vec<String> {
    let disk = loop {
        match Disk::open("d0", io::disk::OpenOptions::default()).await {
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => break opened.expect("the disk is there"),
        }
    };
    let found = scan(vec![disk]).await.pools.pop().expect("a pool");
    found.features().incompatible.clone()
}

pub(super) fn class(pool: &Pool) -> SpecialClass {
    pool.special_class().expect("a special vdev")
}

pub(super) async fn fill(volume: &Volume, blocks: u64) {
    for at in (0..blocks).step_by(32) {
        write(volume, at, 32, byte(at)).await.expect("written");
    }
    let _proof = volume.flush().await.expect("flushed");
}

pub(super) async fn check_filled(pool: &Pool, name: &str, blocks: u64) {
    let vol = pool.volume(name).expect("there");
    for at in (0..blocks).step_by(16) {
        assert_eq!(first(&vol, at).await, byte(at / 32 * 32), "block {at}");
    }
}

/// Records are on normal vdevs and all nodes on special ones. With a threshold, records that take no more are on special vdevs, too: those of the dataset
/// that has it, or inherits it.
#[test]
fn nodes_and_small_records_are_on_special_vdevs() {
    simulated(1, async || {
        let pool = made(2, 96).await;
        let bytes = BLOCKS * BLOCK as u64;
        let vol = volume(&pool, "vm", 64 << 20).await;
        fill(&vol, BLOCKS).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, bytes, "records only");
        let nodes = class(&pool).space.used;
        assert!((1..bytes / 8).contains(&nodes), "{nodes}");
        set(&pool, Some("vm"), 4096).await;
        fill(&vol, BLOCKS).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, 0, "{:?}", pool.space());
        let used = class(&pool).space.used;
        assert!((bytes..bytes + bytes / 8).contains(&used), "{used}");
        let other = volume(&pool, "other", 64 << 20).await;
        fill(&other, 256).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, 1 << 20, "its threshold is 0");
        set(&pool, None, 8192).await;
        fill(&other, 256).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, 0, "it inherits the pool's threshold");
        assert_eq!(class(&pool).spilled, [].into());
        sound(&pool).await;
        drop((vol, other));
        close(pool).await;
        let (findings, _) = inspect(5, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let features = features().await;
        let has_feature = features.iter().any(|f| f == FEATURE_SPECIAL_SMALL_BLOCKS);
        assert!(has_feature, "{features:?}");
        let pool = import(0..5).await.expect("all members");
        assert_eq!(pool.space().used, 0);
        check_filled(&pool, "vm", BLOCKS).await;
        sound(&pool).await;
        close(pool).await;
    });
}

/// Large and small records that are written together go to different vdevs. The size that counts is the stored one.
#[test]
fn records_of_one_group_go_to_vdevs_by_their_stored_size() {
    simulated(2, async || {
        let pool = made(1, 96).await;
        let new = NewVolume {
            name: "vm".into(),
            size: 64 << 20,
            block_size: 4096,
            record_size: 32 << 10,
            sync: Sync::Standard,
            compression: Packing::Lz4,
            checksum: ChecksumKind::Xxh3,
        };
        let vol = pool.create_volume(new).await.expect("created");
        set(&pool, Some("vm"), 4096).await;
        let record = async |n: u64| {
            let mut buf = io::pool().alloc(32 << 10).await;
            // every third record is of random bytes, the others are compressed into one sector
            match n % 3 {
                0 => io::rng::fill(&mut buf),
                _ => buf.fill(byte(n)),
            }
            buf
        };
        for n in 0..192 {
            let buf = record(n).await;
            vol.write(Lba(n * 8), buf).await.expect("written");
        }
        let _proof = vol.flush().await.expect("flushed");
        free_all(&pool).await;
        assert_eq!(pool.space().used, 64 * (32 << 10), "the large ones");
        let used = class(&pool).space.used;
        assert!((128 * 4096..256 * 4096).contains(&used), "{used}");
        for n in (0..192).filter(|n| n % 3 > 0) {
            assert_eq!(first(&vol, n * 8).await, byte(n), "record {n}");
        }
        assert_eq!(pool.placements().split, 0);
        sound(&pool).await;
    });
}

/// Small records leave a quarter of the class to nodes, and what has no room goes to normal vdevs. Nothing is refused, and the bytes are counted by
/// dataset.
#[test]
fn a_full_class_refuses_nothing() {
    simulated(3, async || {
        let pool = made(1, 64).await;
        let space = class(&pool).space;
        set(&pool, None, 4096).await;
        let vol = volume(&pool, "vm", 128 << 20).await;
        let (blocks, bytes) = (24 * 1024, 96 << 20);
        fill(&vol, blocks).await;
        free_all(&pool).await;
        let now = class(&pool);
        assert!(!now.takes_small_records);
        assert!(now.space.free <= space.size / 4, "{now:?}");
        assert!(now.space.free > space.size / 8, "{now:?}");
        let spilled = now.spilled["vm"];
        assert!(spilled >= bytes - now.space.used, "{now:?}");
        assert!(pool.space().used <= spilled, "{now:?}");
        check_filled(&pool, "vm", blocks).await;
        // snapshots hold nodes until the class has no room for more
        let mut n = 0;
        while class(&pool).space.free > 1 << 20 {
            for at in (n % 16..blocks).step_by(64) {
                write(&vol, at, 1, byte(at / 32 * 32))
                    .await
                    .expect("written");
            }
            pool.create_snapshot("vm", &format!("s{n}"))
                .await
                .expect("taken");
            pool.checkpoint().await.expect("a checkpoint");
            n += 1;
        }
        for at in (0..blocks).step_by(64) {
            write(&vol, at, 1, byte(at / 32 * 32))
                .await
                .expect("written");
        }
        free_all(&pool).await;
        fill(&vol, 1024).await;
        free_all(&pool).await;
        check_filled(&pool, "vm", blocks).await;
        sound(&pool).await;
        drop(vol);
        close(pool).await;
        let (findings, _) = inspect(4, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..4).await.expect("all members");
        check_filled(&pool, "vm", blocks).await;
        // what snapshots held is free, and the class takes small records again
        for n in 0..n {
            let name = format!("s{n}");
            pool.destroy_snapshot("vm", &name).await.expect("destroyed");
        }
        pool.destroy_volume("vm").await.expect("destroyed");
        free_all(&pool).await;
        assert!(class(&pool).takes_small_records, "{:?}", class(&pool));
        let vol = volume(&pool, "next", 16 << 20).await;
        let before = pool.space().used;
        fill(&vol, 1024).await;
        free_all(&pool).await;
        assert!(pool.space().used <= before, "{:?}", pool.space());
        sound(&pool).await;
    });
}

/// A vdev of the class is added to a pool that has none, beside a client, and removed again. Its blocks are on the others then.
#[test]
fn a_special_vdev_comes_and_goes_beside_clients() {
    simulated(4, async || {
        let pool = furnished(DISK).await;
        set(&pool, None, 4096).await;
        assert_eq!(pool.special_class(), None);
        let client = Client::new(&pool, Rc::default()).await;
        let size = pool.space().size;
        for round in 0..2 {
            let at = FIRST + 2 * round;
            let added = pool.add_vdev(special(at, 2, 96).await, false).await;
            let vdev = added.expect("added");
            assert_eq!(pool.space().size, size, "it is no space for large records");
            let now = client.acked.get();
            while client.acked.get() < now + 300 {
                io::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(class(&pool).space.used > 128 << 10, "{:?}", class(&pool));
            assert_eq!(class(&pool).spilled, [].into());
            pool.remove_vdev(vdev).await.expect("it begins");
            ended(&pool).await;
            // labels of its disks are being wiped
            io::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(pool.special_class(), None);
        }
        let acked = client.end().await;
        close(pool).await;
        let (findings, _) = inspect(7, &[3, 4, 5, 6]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..3).await.expect("the others have everything");
        check_with_log(&pool, acked).await;
        close(pool).await;
    });
}

/// The blocks of a special vdev go to the special vdev that is left.
#[test]
fn a_removed_special_vdev_leaves_its_blocks_to_another_one() {
    simulated(5, async || {
        let pool = made(1, 96).await;
        set(&pool, None, 4096).await;
        let vol = volume(&pool, "vm", 64 << 20).await;
        fill(&vol, BLOCKS).await;
        free_all(&pool).await;
        let used = class(&pool).space.used;
        let other = pool.add_vdev(special(FIRST + 1, 1, 96).await, false).await;
        assert_eq!(other, Ok(VdevId(2)));
        pool.remove_vdev(VdevId(1)).await.expect("it begins");
        ended(&pool).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, 0);
        let now = class(&pool).space;
        assert!(now.used >= used, "{now:?}");
        check_filled(&pool, "vm", BLOCKS).await;
        drop(vol);
        sound(&pool).await;
        close(pool).await;
        let pool = import([0, 1, 2, FIRST + 1]).await.expect("the others");
        check_filled(&pool, "vm", BLOCKS).await;
        sound(&pool).await;
    });
}

/// A removal without room is refused with the figures.
#[test]
fn a_special_vdev_without_room_elsewhere_stays() {
    simulated(6, async || {
        let vdevs = vec![disks(0, (1, 0, 96)).await.into(), special(1, 1, 256).await];
        let opened = create(spec(vdevs)).await.expect("create");
        let pool = Pool::open(opened, Options::default()).await.expect("open");
        set(&pool, None, 4096).await;
        let vol = volume(&pool, "vm", 256 << 20).await;
        // 120 MiB, of which the normal vdev has none
        fill(&vol, 30 * 1024).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, 0);
        let refused = pool.remove_vdev(VdevId(1)).await;
        let Err(SetupError::NoRoom { vdev, needed, free }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(vdev, VdevId(1));
        assert!(needed >= 120 << 20 && free < 96 << 20, "{needed} {free}");
        check_filled(&pool, "vm", 30 * 1024).await;
        sound(&pool).await;
    });
}

/// A member of a special mirror fails under load, and has everything after its resilver.
#[test]
fn a_member_of_a_special_mirror_is_lost_under_load() {
    let life = async || {
        let pool = with_special(2).await;
        set(&pool, None, 4096).await;
        let client = Client::new(&pool, Rc::default()).await;
        let members = pool.vdevs().status()[2].members.clone();
        let vdevs = pool.vdevs();
        vdevs.offline(members[1].guid).await.expect("offline");
        let vol = volume(&pool, "more", 64 << 20).await;
        fill(&vol, 512).await;
        pool.checkpoint().await.expect("a checkpoint");
        vdevs.online(members[1].guid, None).await.expect("online");
        pool.resilver(|_| ()).await.expect("resilvered");
        let states = vdevs.status()[2].members.clone();
        assert!(states.iter().all(|m| m.state == MemberState::Online));
        vdevs.offline(members[0].guid).await.expect("offline");
        check_filled(&pool, "more", 512).await;
        check(&pool).await;
        client.end().await
    };
    lives(7, life, async |acked| {
        let pool = import(0..5).await.expect("all members");
        check(&pool).await;
        check_filled(&pool, "more", 512).await;
        check_log(&pool.volume("log").expect("there"), acked).await;
        close(pool).await;
    });
}

/// The only disk of a special vdev fails under load: the pool takes no writes, and is refused without the disk. With the disk it has everything.
#[test]
fn a_pool_without_its_special_vdev_is_refused() {
    let life = async || {
        let pool = with_special(1).await;
        let vol = volume(&pool, "vm2", 64 << 20).await;
        fill(&vol, 512).await;
        pool.checkpoint().await.expect("a checkpoint");
        Node::current().disk("d3").expect("there").kill();
        for at in 0..64 {
            let _refused = write(&vol, at, 1, byte(0)).await;
        }
        let failed = pool.checkpoint().await;
        assert!(failed.is_err(), "{failed:?}");
        assert!(pool.trouble().is_some());
    };
    lives(8, life, async |()| {
        let refused = import(0..3).await.err();
        let is_right = matches!(refused, Some(SetupError::VdevMissing { vdev: SPECIAL, .. }));
        assert!(is_right, "{refused:?}");
        Node::current().disk("d3").expect("there").revive();
        let pool = import(0..4).await.expect("all members");
        check(&pool).await;
        check_filled(&pool, "vm2", 512).await;
        close(pool).await;
    });
}

/// The power is cut at many steps of the addition of a special vdev, of writes to it, and of its removal.
#[test]
fn additions_and_removals_are_cut_short_at_many_steps() {
    let first = async |step, acked| {
        let pool = furnished(DISK).await;
        set(&pool, None, 4096).await;
        let client = Client::new(&pool, acked).await;
        let vdev = special(FIRST, 1, 96).await;
        Node::current().power_cut_after(step);
        assert_eq!(pool.add_vdev(vdev, false).await, Ok(SPECIAL));
        wait_for(&client, 10).await;
        pool.checkpoint().await.expect("a checkpoint");
        pool.remove_vdev(SPECIAL).await.expect("it begins");
        ended(&pool).await;
        client.end().await;
    };
    cut_at_many_steps(13, 8, first, async move |_, acked| {
        let pool = import_after_a_cut(4).await;
        check_with_log(&pool, acked.get()).await;
        ended(&pool).await;
        check(&pool).await;
        close(pool).await;
    });
}

#[test]
fn wrong_special_vdevs_are_refused_by_name() {
    simulated(9, async || {
        let logs = VdevSpec::log(disks(0, (1, 0, 96)).await);
        let refused = create(spec(vec![special(1, 2, 96).await, logs]))
            .await
            .err();
        assert_eq!(refused, Some(SetupError::NoBlocks));
        let mut rows = raidz(3, (3, 1, 96)).await;
        rows.class = VdevClass::Special;
        let refused = create(spec(vec![disks(6, (1, 0, 96)).await.into(), rows])).await;
        assert_eq!(refused.err(), Some(SetupError::SpecialLayout));
        let vdevs = vec![disks(7, (1, 0, 96)).await.into(), special(8, 1, 96).await];
        let opened = create(spec(vdevs)).await.expect("create");
        let pool = Pool::open(opened, Options::default()).await.expect("open");
        let refused = pool.remove_vdev(VdevId(0)).await;
        let last = SetupError::LastVdev { vdev: VdevId(0) };
        assert_eq!(refused, Err(last), "large records need a normal vdev");
        close(pool).await;
    });
}
