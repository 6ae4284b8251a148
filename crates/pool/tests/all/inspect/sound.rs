//! Inspection of pools without damage.

use pool::Options;
use pool::format::{DatasetKind, Freeing, Key};
use pool::inspect::{JournalEnd, Sums};

use crate::inspect::world::{
    furnish, import, import_with, inspect, machine, make, make_with, rewind, run, volume, write,
};

#[test]
fn a_sound_pool_is_sound_and_its_space_adds_up() {
    run(async {
        let node = machine();
        let used = node.spawn(async {
            let pool = make().await;
            furnish(&pool).await;
            let found = pool.verify().await.expect("verified");
            assert_eq!(found.problems, Vec::<String>::new());
            let space = pool.space();
            pool.close().await.expect("closed");
            space.used + space.freeing
        });
        let used = used.await.expect("it ran");
        node.kill();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
        let found = &view.found;
        assert!(
            found.findings.notes.is_empty(),
            "{:?}",
            found.findings.notes
        );
        let datasets: u64 = found.datasets.iter().map(|d| d.used).sum();
        assert_eq!(datasets + found.lists + found.journal, found.saved);
        assert_eq!(found.saved + found.pool_tree, found.taken);
        assert!(found.taken <= used, "{} of {used}", found.taken);
        let names: Vec<_> = found.datasets.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["one@a", "one@b", "one", "two", "clone@c", "clone"]);
        let snapshot = &found.datasets[0];
        assert_eq!(snapshot.kind, DatasetKind::Snapshot);
        assert_eq!(snapshot.referenced, 600 * 8192);
        assert!(snapshot.dead > 86 * 8192 && snapshot.unique == snapshot.dead);
        let mut findings = Default::default();
        let one = view.contents.datasets.values().find(|d| d.name == "one");
        let root = one.expect("it is there").root.root;
        let stats = view.image.stats(root, "one", &mut findings).await;
        assert_eq!((stats.entries, stats.blocks), (600, 600));
        assert_eq!(stats.levels.len(), 2);
        assert_ne!(found.blocks, Sums::default().blocks);
    });
}

#[test]
fn blocks_that_only_the_journal_has_are_counted_after_a_power_cut() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            furnish(&pool).await;
            let two = pool.volume("two").expect("it is there");
            write(&two, 0..50, 7).await;
            pool.create_snapshot("two", "kept")
                .await
                .expect("a snapshot");
            write(&two, 0..20, 8).await;
            write(&two, 0..10, 9).await;
            pool.destroy_volume("clone")
                .await
                .expect_err("it has a snapshot");
            let gone = volume(&pool, "gone").await;
            write(&gone, 0..5, 1).await;
            drop(gone);
            pool.destroy_volume("gone").await.expect("gone");
        });
        done.await.expect("it ran");
        node.power_cut();
        node.power_on();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
        assert_eq!(view.found.journal, (50 + 20 + 5) * 8192);
        let journal = view.image.journal(&view.contents.uberblock).await;
        assert_eq!(journal.end, JournalEnd::Nothing);
        assert!(journal.batches.len() > 5 && journal.given_up.is_empty());
        let taken = view.found.taken;
        drop(view);
        let space = node.spawn(async { import().await.space() });
        let space = space.await.expect("it opens");
        assert_eq!(space.used + space.freeing, taken);
    });
}

/// Options by which a pending destroy takes many checkpoints.
fn slow() -> Options {
    Options {
        freeing_max: 20,
        ..Options::default()
    }
}

#[test]
fn destroys_after_a_promotion_are_sound_at_any_power_cut() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make_with(slow()).await;
            furnish(&pool).await;
            pool.promote("clone").await.expect("promoted");
            pool.rename_volume("two", "three").await.expect("renamed");
            let renamed = pool.rename_snapshot("one", "b", "later").await;
            renamed.expect("renamed");
            pool.hold("clone", "a", "backup").await.expect("held");
            let limits = pool.set_limits("clone", 1 << 30, 8 << 20).await;
            limits.expect("set");
            pool.checkpoint().await.expect("a checkpoint");
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
        node.kill();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
        let names: Vec<_> = view.found.datasets.iter().map(|d| &*d.name).collect();
        assert_eq!(
            names,
            ["clone@a", "clone@c", "clone", "one@later", "one", "three"]
        );
        let datasets: u64 = view.found.datasets.iter().map(|d| d.used).sum();
        let owned: u64 = view.found.datasets.iter().map(|d| d.owned).sum();
        assert_eq!(
            (datasets + view.found.lists, owned),
            (view.found.saved, datasets)
        );
        let clone = &view.found.datasets[2];
        assert_eq!((clone.quota, clone.reservation), (1 << 30, 8 << 20));
        let mut seen = view.contents.datasets.values();
        let held = seen.find(|d| d.name == "clone@a").expect("it is there");
        assert_eq!(held.holds[0].tag, "backup");
        drop(view);

        let (mut trees, mut lists, mut cuts) = (0, 0, 0);
        loop {
            // Later cuts are further apart, so that the destroy ends.
            node.power_cut_after(60 + 5 * cuts);
            let freed = node.spawn(async {
                let pool = import_with(slow()).await;
                if pool.snapshot("one", "later").is_some() {
                    pool.destroy_snapshot("one", "later").await?;
                }
                if pool.volume("three").is_some() {
                    pool.destroy_volume("three").await?;
                }
                loop {
                    pool.checkpoint().await?;
                    if !pool.is_freeing() {
                        return Ok::<_, pool::Error>(());
                    }
                }
            });
            let is_free = matches!(freed.await, Some(Ok(())));
            if node.is_on() {
                node.power_cut();
            }
            node.power_on();
            cuts += 1;
            let view = node.spawn(inspect()).await.expect("it ran");
            view.assert_sound();
            let found = &view.found;
            let datasets: u64 = found.datasets.iter().map(|d| d.used).sum();
            let freeing: u64 = found.freeing.values().sum();
            assert!(datasets + found.lists + freeing <= found.saved);
            for job in view.contents.freeing.values() {
                match job {
                    Freeing::Tree { from, .. } if *from > Key::START => trees += 1,
                    Freeing::List { prev, .. } if prev.list.is_some() => lists += 1,
                    _ => {}
                }
            }
            if is_free && view.contents.freeing.is_empty() {
                break;
            }
            assert!(cuts < 200, "it ends");
        }
        assert!(trees > 0 && lists > 0, "{trees} {lists} in {cuts}");
    });
}

#[test]
fn a_pool_that_was_rewound_is_sound() {
    for checkpointed in [true, false] {
        run(async move {
            let node = machine();
            let done = node.spawn(async {
                let pool = make().await;
                furnish(&pool).await;
                let two = pool.volume("two").expect("it is there");
                write(&two, 0..300, 8).await;
                pool.checkpoint().await.expect("a checkpoint");
            });
            done.await.expect("it ran");
            node.kill();
            let view = node.spawn(inspect()).await.expect("it ran");
            let older = view.image.uberblocks[1].sequence;
            drop(view);
            let done = node.spawn(async move {
                let pool = rewind(older).await;
                if checkpointed {
                    pool.checkpoint().await.expect("a checkpoint");
                }
                let one = pool.volume("one").expect("it is there");
                for round in 0..6 {
                    write(&one, 0..600, 9 + round).await;
                }
            });
            done.await.expect("it ran");
            node.power_cut();
            node.power_on();
            let view = node.spawn(inspect()).await.expect("it ran");
            view.assert_sound();
        });
    }
}
