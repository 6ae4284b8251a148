//! Faults of special vdevs: power cuts while the class is full, a member that fails under load, and the loss of a whole vdev.

use std::rc::Rc;

use io::sim::Node;
use pool::vdev::{MemberState, SetupError};

use crate::blocks::{byte, sound, volume, write};
use crate::raidz::cut_at_many_steps;
use crate::raidz::journal_move::{Client, check_log, import_after_a_cut, lives};
use crate::raidz::log_class::wait_for;
use crate::raidz::members::import;
use crate::raidz::remove::{DISK, check, close, furnished};
use crate::raidz::special_class::{FIRST, SPECIAL, check_filled, class, fill, made, set, special};

/// Blocks that fill a class of 64 MiB up to the part for nodes.
const FULL: u64 = 13 * 1024;

/// The power is cut at many steps of writes, snapshots and checkpoints of a pool whose special class is full.
#[test]
fn a_full_class_is_cut_short_at_many_steps() {
    let first = async |step, acked| {
        let pool = made(1, 64).await;
        set(&pool, None, 4096).await;
        let vol = volume(&pool, "vm", 64 << 20).await;
        fill(&vol, FULL).await;
        pool.checkpoint().await.expect("a checkpoint");
        assert!(!class(&pool).takes_small_records, "{:?}", class(&pool));
        let client = Client::new(&pool, acked).await;
        Node::current().power_cut_after(step);
        for round in 0..6 {
            for at in (round * 32..FULL).step_by(512) {
                write(&vol, at, 32, byte(at)).await.expect("written");
            }
            let name = format!("s{round}");
            pool.create_snapshot("vm", &name).await.expect("taken");
            pool.checkpoint().await.expect("a checkpoint");
            wait_for(&client, 5).await;
        }
        for round in 0..6 {
            let name = format!("s{round}");
            let destroyed = pool.destroy_snapshot("vm", &name).await;
            destroyed.expect("destroyed");
        }
        pool.checkpoint().await.expect("a checkpoint");
        client.end().await;
    };
    cut_at_many_steps(97, 8, first, async move |_, acked| {
        let pool = import_after_a_cut(4).await;
        check_filled(&pool, "vm", FULL).await;
        check_log(&pool.volume("log").expect("there"), acked.get()).await;
        let space = class(&pool).space;
        assert!(space.used > space.size / 2, "{space:?}");
        sound(&pool).await;
        let vol = pool.volume("vm").expect("there");
        fill(&vol, 1024).await;
        drop(vol);
        close(pool).await;
        let pool = import_after_a_cut(4).await;
        check_filled(&pool, "vm", FULL).await;
        sound(&pool).await;
    });
}

/// Each operation of a member of a special mirror fails while a client writes. Nobody notices; when its disk is well again, a resilver makes it complete.
#[test]
fn a_member_of_a_special_mirror_fails_under_load() {
    let life = async || {
        let pool = furnished(DISK).await;
        let added = pool.add_vdev(special(FIRST, 2, 96).await, false).await;
        assert_eq!(added, Ok(SPECIAL));
        set(&pool, None, 4096).await;
        let client = Client::new(&pool, Rc::default()).await;
        wait_for(&client, 20).await;
        let disk = Node::current().disk("d4").expect("there");
        disk.error_rates(1.0, 1.0, 1.0);
        let vol = volume(&pool, "more", 64 << 20).await;
        fill(&vol, 1024).await;
        wait_for(&client, 50).await;
        pool.checkpoint().await.expect("a checkpoint");
        assert_eq!(pool.trouble(), None);
        let members = pool.vdevs().status()[2].members.clone();
        assert_eq!(members[1].state, MemberState::Faulted);
        check_filled(&pool, "more", 1024).await;
        disk.heal();
        let vdevs = pool.vdevs();
        vdevs.online(members[1].guid, None).await.expect("online");
        pool.resilver(|_| ()).await.expect("resilvered");
        vdevs.offline(members[0].guid).await.expect("offline");
        check_filled(&pool, "more", 1024).await;
        check(&pool).await;
        client.end().await
    };
    lives(21, life, async |acked| {
        let pool = import(0..5).await.expect("all members");
        check(&pool).await;
        check_filled(&pool, "more", 1024).await;
        check_log(&pool.volume("log").expect("there"), acked).await;
        close(pool).await;
    });
}

/// A pool without its special vdev is refused, and the error says that the pool's metadata was on that vdev.
#[test]
fn the_loss_of_a_special_vdev_is_named() {
    let life = async || {
        let pool = furnished(DISK).await;
        let added = pool.add_vdev(special(FIRST, 1, 96).await, false).await;
        assert_eq!(added, Ok(SPECIAL));
        pool.checkpoint().await.expect("a checkpoint");
        close(pool).await;
    };
    lives(22, life, async |()| {
        let refused = import(0..3).await.err().expect("refused");
        assert!(
            matches!(refused, SetupError::VdevMissing { .. }),
            "{refused:?}"
        );
        let text = refused.to_string();
        assert!(text.contains("the pool's metadata"), "{text}");
        assert!(text.contains("the pool is lost"), "{text}");
        // a normal vdev that is missing has other words
        let refused = import([0, 1, 3]).await.err().expect("refused");
        let text = refused.to_string();
        assert!(!text.contains("metadata"), "{text}");
        let pool = import(0..4).await.expect("all members");
        check(&pool).await;
        close(pool).await;
    });
}
