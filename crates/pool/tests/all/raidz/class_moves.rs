//! Moves between the special class and normal vdevs: older blocks, changed thresholds, room that comes back, walks that end, and power cuts.

use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::sim::Node;
use pool::format::{DatasetProperty, Setting};
use pool::{ClassReason, NewFilesystem, Pool};

use crate::blocks::{free_all, simulated, sound, volume};

use crate::raidz::cut_at_many_steps;
use crate::raidz::inspect::inspect;
use crate::raidz::journal_move::{Client, check_with_log, import_after_a_cut};
use crate::raidz::log_class::wait_for;
use crate::raidz::members::import;
use crate::raidz::remove::{DISK, check, close, ended, furnished};
use crate::raidz::special_class::{FIRST, SPECIAL, check_filled, class, fill, made, set, special};

/// Waits until no walk is in progress. A walk that is to begin has begun before.
pub(super) async fn rested(pool: &Pool) {
    let mut idle = 0;
    for _ in 0..30_000 {
        io::time::sleep(Duration::from_millis(100)).await;
        match class(pool).moves {
            Some(_) => idle = 0,
            None => idle += 1,
        }
        if idle == 30 {
            return;
        }
    }
    panic!("it does not end: {:?}", class(pool));
}

/// Nodes and small records that were there before the class move to it, also if a snapshot or a clone holds them. A smaller threshold brings the
/// records back, also the held ones.
#[test]
fn older_blocks_move_to_their_class_and_back() {
    simulated(10, async || {
        let pool = furnished(DISK).await;
        set(&pool, None, 4096).await;
        let before = pool.space().used;
        let added = pool.add_vdev(special(FIRST, 1, 96).await, false).await;
        assert_eq!(added, Ok(SPECIAL));
        rested(&pool).await;
        assert_eq!(class(&pool).walks, 1, "{:?}", class(&pool));
        check(&pool).await;
        free_all(&pool).await;
        let left = pool.space().used;
        assert!(left < 256 << 10, "{left} of {before} bytes stayed");
        let space = class(&pool).space;
        assert!(space.used + (256 << 10) > before, "{space:?}");
        close(pool).await;
        let (findings, _) = inspect(4, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..4).await.expect("all members");
        check(&pool).await;
        rested(&pool).await;
        assert_eq!(class(&pool).walks, 0, "all blocks are where they belong");
        set(&pool, None, 0).await;
        rested(&pool).await;
        assert_eq!(class(&pool).walks, 1);
        free_all(&pool).await;
        let stayed = class(&pool).space.used;
        assert!(stayed < 1 << 20, "{stayed} bytes of nodes");
        assert!(pool.space().used + (1 << 20) > before, "{:?}", pool.space());
        check(&pool).await;
        close(pool).await;
        let (findings, _) = inspect(4, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
    });
}

/// A special class that is too small for all nodes and small records is filled. No second walk begins until the class has room again; then it
/// takes the other blocks.
#[test]
fn blocks_wait_for_room_without_walks() {
    simulated(11, async || {
        let pool = made(1, 64).await;
        let size = class(&pool).space.size;
        let vol = volume(&pool, "vm", 128 << 20).await;
        let blocks = 24 * 1024;
        fill(&vol, blocks).await;
        free_all(&pool).await;
        set(&pool, Some("vm"), 4096).await;
        rested(&pool).await;
        let now = class(&pool);
        assert!(now.lacks_room && !now.takes_small_records, "{now:?}");
        assert!(now.space.free > size / 8, "nodes keep their room: {now:?}");
        let walks = now.walks;
        io::time::sleep(Duration::from_secs(4 * 3600)).await;
        fill(&vol, 32).await;
        pool.checkpoint().await.expect("a checkpoint");
        rested(&pool).await;
        assert_eq!(class(&pool).walks, walks, "{:?}", class(&pool));
        check_filled(&pool, "vm", blocks).await;
        let normal = pool.space().used;
        // two thirds of the records go
        let all = Extent {
            start: Lba(blocks / 3),
            blocks: blocks / 3 * 2,
        };
        vol.deallocate(all).await.expect("deallocated");
        free_all(&pool).await;
        io::time::sleep(Duration::from_secs(2 * 3600)).await;
        rested(&pool).await;
        free_all(&pool).await;
        let now = class(&pool);
        assert!(now.walks > walks && !now.lacks_room, "{now:?}");
        assert!(pool.space().used < normal / 64, "{:?}", pool.space());
        let walks = now.walks;
        io::time::sleep(Duration::from_secs(4 * 3600)).await;
        assert_eq!(class(&pool).walks, walks, "nothing is left to move");
        check_filled(&pool, "vm", blocks / 3).await;
        sound(&pool).await;
    });
}

/// Records that spilled come to the class when it has room again. Clients wait for none of it.
#[test]
fn spilled_records_come_back() {
    simulated(12, async || {
        let pool = made(1, 64).await;
        set(&pool, None, 4096).await;
        let first_one = volume(&pool, "first", 64 << 20).await;
        fill(&first_one, 12 * 1024).await;
        let vol = volume(&pool, "second", 32 << 20).await;
        fill(&vol, 4096).await;
        free_all(&pool).await;
        assert!(
            class(&pool).spilled["second"] > 8 << 20,
            "{:?}",
            class(&pool)
        );
        drop(first_one);
        pool.destroy_volume("first").await.expect("destroyed");
        let client = Client::new(&pool, Rc::default()).await;
        let mut reasons = Vec::new();
        for _ in 0..6000 {
            io::time::sleep(Duration::from_millis(100)).await;
            reasons.extend(class(&pool).moves);
            if !reasons.is_empty() && class(&pool).moves.is_none() {
                break;
            }
        }
        assert_eq!(reasons.first(), Some(&ClassReason::Room));
        client.end().await;
        free_all(&pool).await;
        assert!(pool.space().used < 1 << 20, "{:?}", pool.space());
        check_filled(&pool, "second", 4096).await;
        sound(&pool).await;
        drop(vol);
        close(pool).await;
        let (findings, _) = inspect(4, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
    });
}

/// A dataset that is renamed inherits another threshold, and its records move. Those of a dataset with `autodefrag=off` stay.
#[test]
fn inherited_thresholds_move_records_and_autodefrag_keeps_them() {
    simulated(13, async || {
        let pool = made(1, 96).await;
        let names = ["vm", "kept"];
        for name in names {
            let vol = volume(&pool, name, 16 << 20).await;
            fill(&vol, 1024).await;
        }
        let property = DatasetProperty::Autodefrag;
        let off = Setting {
            value: property.parse("off").expect("a value"),
            is_received: false,
        };
        let set_off = pool.set_own(Some("kept"), property, Some(off)).await;
        set_off.expect("set");
        let above = pool.create_filesystem(NewFilesystem::new("fs")).await;
        drop(above.expect("created"));
        set(&pool, Some("fs"), 4096).await;
        rested(&pool).await;
        for name in names {
            let new = format!("fs/{name}");
            pool.rename_volume(name, &new).await.expect("renamed");
        }
        rested(&pool).await;
        free_all(&pool).await;
        assert_eq!(pool.space().used, 4 << 20, "those of one dataset");
        check_filled(&pool, "fs/vm", 1024).await;
        check_filled(&pool, "fs/kept", 1024).await;
        sound(&pool).await;
    });
}

/// The power is cut at many steps of walks in both directions, with a client. The next incarnation goes on.
#[test]
fn walks_are_cut_short_at_many_steps() {
    let first = async |step, acked| {
        let pool = furnished(DISK).await;
        set(&pool, None, 4096).await;
        let client = Client::new(&pool, acked).await;
        let vdev = special(FIRST, 1, 96).await;
        assert_eq!(pool.add_vdev(vdev, false).await, Ok(SPECIAL));
        Node::current().power_cut_after(step);
        rested(&pool).await;
        wait_for(&client, 10).await;
        set(&pool, None, 0).await;
        rested(&pool).await;
        pool.remove_vdev(SPECIAL).await.expect("it begins");
        ended(&pool).await;
        client.end().await;
    };
    cut_at_many_steps(97, 8, first, async move |_, acked| {
        let pool = import_after_a_cut(4).await;
        check_with_log(&pool, acked.get()).await;
        ended(&pool).await;
        if pool.special_class().is_some() {
            set(&pool, None, 8192).await;
            rested(&pool).await;
            free_all(&pool).await;
            assert!(pool.space().used < 1 << 20, "{:?}", pool.space());
        }
        check(&pool).await;
        close(pool).await;
        import_after_a_cut(4).await;
    });
}
