//! Damage by hand: each kind is found with its name, place and dataset.

use io::sim::Node;
use pool::format::{
    Dataset, DatasetRoot, KIND_DATASET, KIND_LIST, KIND_ROOT, KIND_SPACE, ListId,
    REGION_BITMAP_SIZE, Uberblock,
};
use pool::inspect::{Finding, FindingKind};

use crate::inspect::world::{View, blank_at, flip, flip_at, furnish, inspect, machine, make, run};

/// A machine with a closed pool.
async fn closed() -> Node {
    let node = machine();
    let done = node.spawn(async {
        let pool = make().await;
        furnish(&pool).await;
        pool.close().await.expect("closed");
    });
    done.await.expect("it ran");
    node.kill();
    node
}

/// Returns the result of an inspection after `break_it`.
fn broken<F: Future<Output = ()> + 'static>(
    break_it: impl FnOnce(View) -> F + 'static,
    check: impl FnOnce(&View) + 'static,
) {
    run(async {
        let node = closed().await;
        let broken = node.spawn(async { break_it(inspect().await).await });
        broken.await.expect("it ran");
        let view = node.spawn(inspect()).await.expect("it ran");
        check(&view);
    });
}

fn only(view: &View, kind: FindingKind) -> &Finding {
    let found = view.of(kind);
    assert_eq!(found.len(), 1, "{:#?}", view.found.findings.damage);
    found[0]
}

#[test]
fn a_record_that_is_damaged_on_one_member() {
    broken(
        |view| async move {
            let ptr = view.first_record("two").await;
            drop(view);
            flip(&ptr, &[1]).await;
        },
        |view| {
            let found = only(view, FindingKind::Record);
            assert!(!found.lost && found.disk.is_some() && found.at.is_some());
            assert_eq!(found.dataset.as_deref(), Some("two"));
            assert_eq!(found.blocks, Some(0..2));
            assert_eq!(view.found.findings.damage.len(), 1);
        },
    );
}

#[test]
fn a_record_that_is_damaged_on_every_member() {
    broken(
        |view| async move {
            let ptr = view.first_record("two").await;
            drop(view);
            flip(&ptr, &[0, 1]).await;
        },
        |view| {
            let found = only(view, FindingKind::Record);
            assert!(found.lost && found.disk.is_none());
            let line = found.to_string();
            assert!(
                line.contains("two blocks 0..2") && line.contains("checksum"),
                "{line}"
            );
        },
    );
}

#[test]
fn a_lost_node_hides_the_blocks_below_it_and_causes_no_leak_findings() {
    broken(
        |view| async move {
            let root = view.root("two");
            let leaf = view.node(&root).await.child(0);
            drop(view);
            flip(&leaf, &[0, 1]).await;
        },
        |view| {
            let found = only(view, FindingKind::Node);
            assert!(found.lost);
            assert_eq!(found.dataset.as_deref(), Some("two"));
            assert_eq!(found.blocks.as_ref().map(|b| b.start), Some(0));
            assert!(view.of(FindingKind::Leak).is_empty());
            assert!(
                view.found
                    .findings
                    .notes
                    .iter()
                    .any(|n| n.contains("may hold"))
            );
        },
    );
}

#[test]
fn a_used_sector_without_an_owner_is_a_leak() {
    broken(
        |view| {
            view.forge(|key, bytes| {
                if key.kind() == KIND_SPACE && (key.object().0, key.offset()) == (0, 1) {
                    assert_eq!(bytes[700], 0, "it is free");
                    bytes[700] = 0x18;
                }
            })
        },
        |view| {
            let found = only(view, FindingKind::Leak);
            let summary = only(view, FindingKind::Space);
            assert!(
                summary.text.contains("region 1 of vdev 0"),
                "{}",
                summary.text
            );
            assert_eq!(view.found.findings.damage.len(), 2);
            assert_eq!(view.found.leaked, 8192);
            let offset = found.at.expect("a place").offset.0;
            assert_eq!(offset, (8192 + 700 * 8 + 3) * 4096);
        },
    );
}

#[test]
fn a_sector_in_use_that_the_bitmap_has_as_free() {
    broken(
        |view| {
            view.forge(|key, bytes| {
                assert!(key.kind() != KIND_SPACE || bytes.len() == REGION_BITMAP_SIZE);
                if key.kind() == KIND_SPACE && key.object().0 == 0 {
                    let used = bytes.iter().position(|byte| *byte == 0xff);
                    if let Some(used) = used {
                        bytes[used] = 0xf0;
                    }
                }
            })
        },
        |view| {
            let found = view.of(FindingKind::NotMarked);
            let summaries = view.of(FindingKind::Space);
            assert!(!found.is_empty() && !summaries.is_empty());
            assert_eq!(
                found.len() + summaries.len(),
                view.found.findings.damage.len()
            );
            assert!(found[0].at.is_some() && found[0].text.contains("16384 bytes"));
        },
    );
}

#[test]
fn blocks_with_two_owners() {
    broken(
        |view| async move {
            let mut datasets = view.contents.datasets.values();
            let one = datasets
                .find(|d| d.name == "one@a")
                .expect("it is there")
                .root;
            let mut datasets = view.contents.datasets.values();
            let two = datasets.find(|d| d.name == "two").expect("it is there").id;
            view.forge(move |key, bytes| {
                if key.kind() == KIND_ROOT && key.object().0 == two.0 {
                    assert_ne!(DatasetRoot::decode(bytes), Ok(one));
                    bytes.copy_from_slice(&one.encode());
                }
            })
            .await;
        },
        |view| {
            let twice = view.of(FindingKind::DoubleUse);
            assert!(twice.len() >= 600, "{}", twice.len());
            assert!(
                twice
                    .iter()
                    .all(|f| f.dataset.as_deref() == Some("two") && f.at.is_some())
            );
            // The blocks of the second volume.
            assert!(view.found.leaked >= 300 * 8192);
        },
    );
}

#[test]
fn a_list_of_dead_blocks_that_lacks_some() {
    broken(
        |view| async move {
            view.forge(|key, bytes| {
                if key.kind() == KIND_ROOT && key.object().0 == 2 {
                    bytes.fill(0);
                }
            })
            .await;
        },
        |view| {
            let lists = view.of(FindingKind::DeadList);
            let of: Vec<_> = lists.iter().filter_map(|f| f.dataset.as_deref()).collect();
            // The clone's deadlist has the blocks of its origin that it lacks.
            assert_eq!(of, ["one@a", "one@b", "one@a", "clone@c"]);
            assert_eq!(view.of(FindingKind::ListSize).len(), 4);
            // The nodes of the deadlists' tree.
            assert!(!view.of(FindingKind::Leak).is_empty());
        },
    );
}

#[test]
fn a_dataset_with_too_large_recorded_sums() {
    // bytes of sectors, of decompressed records, and of nodes
    for at in [56, 64, 80] {
        broken(
            move |view| async move {
                view.forge(move |key, bytes| {
                    if key.kind() == KIND_ROOT && key.object().0 == 16 {
                        bytes[at] ^= 1;
                    }
                })
                .await;
            },
            move |view| {
                let found = view.of(FindingKind::Referenced);
                assert_eq!(found.len(), 1, "{at}");
                assert!(found.iter().all(|f| f.dataset.as_deref() == Some("one")));
                assert_eq!(view.found.findings.damage.len(), 1);
            },
        );
    }
}

#[test]
fn a_deadlist_with_a_too_small_recorded_size() {
    broken(
        |view| async move {
            let one = view.contents.datasets.values().find(|d| d.name == "one@a");
            let list = one.expect("it is there").dataset.list;
            view.forge(move |key, bytes| {
                if key.kind() == KIND_LIST && key.object().0 == list.0 {
                    bytes[1] ^= 0x10;
                }
            })
            .await;
        },
        |view| {
            only(view, FindingKind::ListSize);
            assert_eq!(view.found.findings.damage.len(), 1);
        },
    );
}

#[test]
fn two_datasets_with_one_list() {
    broken(
        |view| async move {
            view.forge(|key, bytes| {
                if key.kind() == KIND_DATASET && key.object().0 == 17 {
                    let two = Dataset::decode(bytes).expect("a dataset");
                    let list = ListId(16);
                    bytes.copy_from_slice(&Dataset { list, ..two }.encode());
                }
            })
            .await;
        },
        |view| {
            let found = only(view, FindingKind::Dataset);
            assert!(found.text.contains("deadlist 16 belongs to two"), "{found}");
        },
    );
}

#[test]
fn copies_of_labels_and_uberblocks() {
    broken(
        |view| async move {
            let seen = view.image.seen[2].clone();
            let newest = view.image.uberblocks[0].sequence;
            drop(view);
            for copy in [0, 1] {
                flip_at(2, seen.labels[copy].offset).await;
            }
            let older = |slot: &&pool::inspect::Slot| {
                slot.uberblock.is_ok_and(|u| u.sequence + 1 == newest)
            };
            let slot = seen.slots.iter().find(older).expect("there are older ones");
            flip_at(2, slot.offset).await;
        },
        |view| {
            let labels = view.of(FindingKind::Label);
            assert_eq!(labels.len(), 2);
            assert!(labels.iter().all(|f| f.disk.is_some() && !f.lost));
            let uberblock = only(view, FindingKind::Uberblock);
            assert!(
                uberblock.to_string().contains("copy 0 of uberblock"),
                "{uberblock}"
            );
        },
    );
}

/// A disk went offline after some copies of an uberblock, and returned for the next one. Copies are written in order.
#[test]
fn an_uberblock_during_which_a_disk_left_is_no_damage() {
    let blank = |copies: &'static [usize]| {
        async move |view: View| {
            let newest = view.image.uberblocks[0].sequence;
            let slots = view.image.seen[2].slots.clone();
            drop(view);
            let is_older = |u: Uberblock| u.sequence + 2 == newest;
            let older = slots.iter().filter(|s| s.uberblock.is_ok_and(is_older));
            for slot in older.filter(|s| copies.contains(&s.area)) {
                blank_at(2, slot.offset).await;
            }
        }
    };
    broken(blank(&[1, 2, 3]), |view| {
        view.assert_sound();
        assert_eq!(view.found.findings.notes.len(), 3);
    });
    broken(blank(&[1]), |view| {
        let uberblock = only(view, FindingKind::Uberblock);
        assert!(
            uberblock.text.contains("copy 1 of uberblock"),
            "{uberblock}"
        );
    });
}

#[test]
fn a_label_that_a_power_cut_may_have_torn_is_no_damage() {
    broken(
        |view| async move {
            let at = view.image.seen[1].labels[3].offset;
            drop(view);
            flip_at(1, at).await;
        },
        |view| {
            view.assert_sound();
            assert_eq!(view.found.findings.notes.len(), 1);
        },
    );
}
