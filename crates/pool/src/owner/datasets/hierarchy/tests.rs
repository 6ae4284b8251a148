//! Tests of names, inheritance, and operations on trees of datasets, with power cuts.

use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig};

use crate::format::{DatasetProperty, Host, Packing, Setting, Sync, TextProperty, TextSetting};
use crate::owner::{NewFilesystem, Source};
use crate::vdev::{self, PoolSpec, create, open};
use crate::{Error, NewVolume, Options, Pool, Volume};

const COMPRESSION: DatasetProperty = DatasetProperty::Compression;
const SYNC: DatasetProperty = DatasetProperty::Sync;
const SIZE: u64 = 1 << 20;
const BLOCK: usize = 4096;

fn host() -> Host {
    Host::new([1; 16], "here")
}

async fn make() -> Pool {
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let members = vec![vec![disk.expect("the disk is there")]];
    let opened = create(PoolSpec::new("tank", members, host())).await;
    let pool = Pool::open(opened.expect("a pool"), Options::default()).await;
    pool.expect("open")
}

async fn found() -> vdev::FoundPool {
    let disk = loop {
        match Disk::open("disk", OpenOptions::default()).await {
            // operations of a closed pool are still ending
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => break opened.expect("the disk is there"),
        }
    };
    let mut found = vdev::scan(vec![disk]).await;
    found.pools.pop().expect("a pool")
}

async fn again() -> Pool {
    let found = found().await;
    let opened = open(found, vdev::OpenOptions::new(host())).await;
    let pool = Pool::open(opened.expect("opened"), Options::default()).await;
    pool.expect("open")
}

/// Two incarnations of a machine with a pool, with a power cut between them.
fn lives(first: impl AsyncFnOnce(Pool) + 'static, second: impl AsyncFnOnce(Pool) + 'static) {
    Sim::new(5, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let config = DiskConfig {
            size: 128 << 20,
            ..DiskConfig::default()
        };
        node.create_disk("disk", config);
        let life = node.spawn(async move { first(make().await).await });
        life.await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        let life = node.spawn(async move { second(again().await).await });
        life.await.expect("the power stays on");
    });
}

fn once(test: impl AsyncFnOnce(Pool) + 'static) {
    lives(test, async |_| {});
}

async fn volume(pool: &Pool, name: &str) -> Volume {
    let made = pool.create_volume(NewVolume::new(name, SIZE)).await;
    made.expect("a volume")
}

async fn files(pool: &Pool, name: &str) {
    let made = pool.create_filesystem(NewFilesystem::new(name)).await;
    drop(made.expect("a filesystem"));
}

fn names(pool: &Pool) -> Vec<String> {
    let volumes = pool.volumes().into_iter().map(|v| v.dataset());
    let mut names: Vec<_> = volumes.filter(|d| d.of.is_none()).map(|d| d.name).collect();
    names.sort();
    names
}

fn local(property: DatasetProperty, text: &str) -> Option<Setting> {
    Some(Setting {
        value: property.parse(text).expect("a value"),
        is_received: false,
    })
}

async fn set(pool: &Pool, name: Option<&str>, property: DatasetProperty, text: &str) {
    let set = pool.set_own(name, property, local(property, text)).await;
    set.expect("set");
}

fn compression(pool: &Pool, name: &str) -> (String, Source) {
    let (value, source) = pool.property(Some(name), COMPRESSION).expect("a dataset");
    let found = pool.owner.state.borrow().datasets.volume(name).cloned();
    let found = found.expect("a dataset");
    assert_eq!(found.dataset().value(COMPRESSION), value);
    let in_use = found.settings.compression();
    assert_eq!(u64::from(in_use.code()), value, "requests see it, too");
    (COMPRESSION.show(value).expect("a value"), source)
}

fn from(name: &str) -> Source {
    Source::Inherited(name.to_owned())
}

#[test]
fn invalid_names_and_missing_parents_are_refused() {
    once(async |pool| {
        volume(&pool, "a").await;
        pool.create_snapshot("a", "s").await.expect("a snapshot");
        let refused = async |name: &str, want: Error| {
            let made = pool.create_volume(NewVolume::new(name, SIZE)).await;
            assert_eq!(made.err(), Some(want.clone()), "create {name:?}");
            let cloned = pool.clone_snapshot("a", "s", name).await;
            assert_eq!(cloned.err(), Some(want.clone()), "clone {name:?}");
            volume(&pool, "old").await;
            let renamed = pool.rename_volume("old", name).await;
            assert_eq!(renamed.err(), Some(want), "rename to {name:?}");
            pool.destroy_volume("old").await.expect("destroyed");
        };
        let long = "x".repeat(256);
        let deep = format!("a/{}", "x".repeat(254));
        for name in [
            "", "/", "/b", "b/", "a//b", "b c", "b/ c", "é", "-b", "..", "b/..", "b@c", &long,
            &deep,
        ] {
            refused(name, Error::BadName).await;
        }
        refused("b/c", Error::NoParent).await;
        refused("a/c", Error::NotAParent).await;
        refused("a", Error::Exists).await;
        let long = "x".repeat(255);
        volume(&pool, &long).await;
        let below = pool.rename_volume("a", "a/b").await;
        assert_eq!(below, Err(Error::BelowItself));
        assert_eq!(names(&pool), ["a", &long]);
    });
}

#[test]
fn values_come_from_the_nearest_dataset_above_also_after_a_power_cut() {
    let check = |pool: &Pool| {
        let of = |name| compression(pool, name);
        assert_eq!(of("a"), ("zstd-2".into(), Source::Local));
        assert_eq!(of("a/b"), ("zstd-2".into(), from("a")));
        assert_eq!(of("a/b/c"), ("zstd-2".into(), from("a")));
        assert_eq!(of("a/d"), ("lz4".into(), Source::Local));
        assert_eq!(of("a/d/e"), ("lz4".into(), from("a/d")));
        assert_eq!(of("a-b"), ("off".into(), Source::FromPool));
        assert_eq!(of("r"), ("zstd-9".into(), Source::Received));
        let (value, source) = pool.property(Some("a/b"), SYNC).expect("a dataset");
        assert_eq!(
            (SYNC.show(value), source),
            (Some("standard".into()), Source::Default)
        );
    };
    let first = async move |pool: Pool| {
        files(&pool, "a").await;
        for name in ["a-b", "r"] {
            volume(&pool, name).await;
        }
        assert_eq!(compression(&pool, "a"), ("lz4".into(), Source::Default));
        for name in ["a/b", "a/d"] {
            files(&pool, name).await;
        }
        files(&pool, "a/b/c").await;
        volume(&pool, "a/d/e").await;
        set(&pool, Some("a"), COMPRESSION, "zstd-1").await;
        assert_eq!(compression(&pool, "a/b/c"), ("zstd-1".into(), from("a")));
        pool.checkpoint().await.expect("a checkpoint");
        set(&pool, None, COMPRESSION, "off").await;
        set(&pool, Some("a"), COMPRESSION, "zstd-2").await;
        // the default, which is its own nevertheless
        set(&pool, Some("a/d"), COMPRESSION, "lz4").await;
        let received = Setting {
            value: Packing::Zstd(9).code().into(),
            is_received: true,
        };
        let received = pool.set_own(Some("r"), COMPRESSION, Some(received)).await;
        received.expect("set");
        check(&pool);
    };
    lives(first, async move |pool| {
        check(&pool);
        let inherit = pool.set_own(Some("a"), COMPRESSION, None).await;
        inherit.expect("inherits");
        assert_eq!(
            compression(&pool, "a/b/c"),
            ("off".into(), Source::FromPool)
        );
        assert_eq!(compression(&pool, "a/d/e"), ("lz4".into(), from("a/d")));
        let inherit = pool.set_own(None, COMPRESSION, None).await;
        inherit.expect("inherits");
        assert_eq!(compression(&pool, "a/b/c"), ("lz4".into(), Source::Default));
        assert_eq!(pool.verify().await.expect("verified").problems, [""; 0]);
    });
}

/// Values of a new volume that differ from the defaults are its own.
#[test]
fn new_volumes_and_clones_inherit() {
    lives(
        async |pool| {
            set(&pool, None, COMPRESSION, "zstd-3").await;
            volume(&pool, "heir").await;
            let off = NewVolume {
                compression: Packing::Off,
                ..NewVolume::new("off", SIZE)
            };
            pool.create_volume(off).await.expect("a volume");
            let lz4 = NewVolume::new("lz4", SIZE);
            let made = pool.create_volume_with(lz4, &[COMPRESSION]).await;
            made.expect("a volume");
            for name in ["heir", "lz4"] {
                pool.create_snapshot(name, "s").await.expect("a snapshot");
                let clone = format!("clone-{name}");
                let cloned = pool.clone_snapshot(name, "s", &clone).await;
                cloned.expect("a clone");
            }
        },
        async |pool| {
            let of = |name| compression(&pool, name);
            assert_eq!(of("heir"), ("zstd-3".into(), Source::FromPool));
            assert_eq!(of("clone-heir"), ("zstd-3".into(), Source::FromPool));
            assert_eq!(of("off"), ("off".into(), Source::Local));
            assert_eq!(of("lz4"), ("lz4".into(), Source::Local));
            assert_eq!(of("clone-lz4"), ("lz4".into(), Source::Local));
            let change = |d: &mut crate::format::Dataset| d.compression = Packing::Lz4;
            pool.change_volume("heir", change).await.expect("set");
            assert_eq!(of("heir"), ("lz4".into(), Source::Local));
        },
    );
}

async fn write(volume: &Volume, byte: u8) {
    let mut buf = io::pool().alloc(BLOCK).await;
    buf.fill(byte);
    volume.write(Lba(0), buf).await.expect("written");
}

async fn first_byte(volume: &Volume) -> u8 {
    let at = Extent {
        start: Lba(0),
        blocks: 1,
    };
    let mut bytes = vec![0; BLOCK];
    volume.read(at).await.expect("read").copy_to(&mut bytes);
    bytes[0]
}

#[test]
fn writes_of_heirs_are_durable_after_sync_is_raised_above_them() {
    lives(
        async |pool| {
            set(&pool, None, SYNC, "disabled").await;
            let heir = volume(&pool, "heir").await;
            assert_eq!(heir.dataset().sync, Sync::Disabled);
            write(&heir, 7).await;
            set(&pool, None, SYNC, "standard").await;
            write(&heir, 8).await;
        },
        async |pool| {
            let heir = pool.volume("heir").expect("a volume");
            assert_eq!(first_byte(&heir).await, 7);
        },
    );
}

/// Renames a tree with a power cut at a step. Returns the names after it, and whether the power was cut.
fn rename_with_a_cut(step: u64) -> (Vec<String>, bool) {
    Sim::new(step, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let config = DiskConfig {
            size: 128 << 20,
            ..DiskConfig::default()
        };
        node.create_disk("disk", config);
        let life = node.spawn(async move {
            let pool = make().await;
            for name in ["a", "a/b", "a/c"] {
                files(&pool, name).await;
            }
            for name in ["ab", "a/b/d"] {
                volume(&pool, name).await;
            }
            set(&pool, Some("a"), COMPRESSION, "zstd-5").await;
            Node::current().power_cut_after(step);
            let renamed = pool.rename_volume("a", "z").await;
            renamed.expect("renamed");
        });
        let is_cut = life.await.is_none();
        node.power_cut();
        node.power_on();
        let life = node.spawn(async move {
            let pool = again().await;
            let names = names(&pool);
            let top = &names[usize::from(names[0] == "ab")];
            let deepest = format!("{}/b/d", top.clone());
            let want = ("zstd-5".to_owned(), Source::Inherited(top.clone()));
            assert_eq!(compression(&pool, &deepest), want);
            assert_eq!(pool.verify().await.expect("verified").problems, [""; 0]);
            names
        });
        (life.await.expect("the power stays on"), is_cut)
    })
}

#[test]
fn a_power_cut_renames_all_datasets_of_a_tree_or_none() {
    let old = ["a", "a/b", "a/b/d", "a/c", "ab"];
    let new = ["ab", "z", "z/b", "z/b/d", "z/c"];
    let mut seen = [false; 2];
    for step in 1.. {
        let (names, is_cut) = rename_with_a_cut(step);
        assert!(names == old || names == new, "step {step}: {names:?}");
        seen[usize::from(names == new)] = true;
        if !is_cut {
            break;
        }
    }
    assert_eq!(
        seen, [true; 2],
        "some cuts came before the rename, and some after it"
    );
}

#[test]
fn a_renamed_dataset_inherits_from_its_new_place() {
    once(async |pool| {
        files(&pool, "a").await;
        files(&pool, "b").await;
        volume(&pool, "a/v").await;
        set(&pool, Some("a"), COMPRESSION, "zstd-1").await;
        assert_eq!(compression(&pool, "a/v"), ("zstd-1".into(), from("a")));
        pool.rename_volume("a/v", "b/v").await.expect("renamed");
        assert_eq!(compression(&pool, "b/v"), ("lz4".into(), Source::Default));
        let deep = "x".repeat(253);
        let long = pool.rename_volume("a", &deep).await;
        long.expect("nothing is below it");
        volume(&pool, &format!("{deep}/c")).await;
        let longer = pool.rename_volume(&deep, &"y".repeat(254)).await;
        assert_eq!(longer, Err(Error::BadName), "the name below is too long");
    });
}

#[test]
fn a_tree_is_destroyed_with_snapshots_and_clones_or_refused_whole() {
    once(async |pool| {
        files(&pool, "a").await;
        files(&pool, "a/b").await;
        for (name, snapshot) in [("a", "s1"), ("a", "s2"), ("a/b", "s1")] {
            let taken = pool.create_snapshot(name, snapshot).await;
            taken.expect("a snapshot");
        }
        // a clone within the tree, and one outside
        let inner = pool.clone_snapshot("a", "s1", "inner").await;
        inner.expect("a clone");
        let outer = pool.clone_snapshot("a/b", "s1", "outer").await;
        outer.expect("a clone");
        let all = pool.volumes().len();
        assert_eq!(pool.destroy_volume("a").await, Err(Error::Busy));
        assert_eq!(pool.destroy_tree("a").await, Err(Error::Busy), "clones");
        pool.destroy_volume("inner").await.expect("destroyed");
        pool.destroy_volume("outer").await.expect("destroyed");
        pool.hold("a/b", "s1", "backup").await.expect("held");
        let held = pool.destroy_tree("a").await;
        assert!(matches!(held, Err(Error::Held { .. })), "{held:?}");
        assert_eq!(pool.volumes().len(), all - 2, "nothing is gone");
        pool.release("a/b", "s1", "backup").await.expect("released");
        let clone = pool.clone_snapshot("a", "s1", "a/b/inner").await;
        clone.expect("a clone");
        let taken = pool.create_snapshot("a/b/inner", "s").await;
        taken.expect("a snapshot");
        let clone = pool.clone_snapshot("a/b/inner", "s", "a/last").await;
        clone.expect("a clone");
        assert_eq!(pool.names_below("a"), ["a", "a/b", "a/b/inner", "a/last"]);
        pool.destroy_tree("a").await.expect("destroyed");
        assert!(pool.volumes().is_empty());
        assert_eq!(pool.destroy_tree("a").await, Err(Error::NotFound));
        assert_eq!(pool.verify().await.expect("verified").problems, [""; 0]);
    });
}

/// The features of a pool after a change of it.
async fn features(change: impl AsyncFnOnce(&Pool)) -> Vec<String> {
    let pool = again().await;
    change(&pool).await;
    pool.close().await.expect("closed");
    found().await.features().incompatible.clone()
}

#[test]
fn a_pool_has_the_feature_once_an_earlier_version_could_not_read_it() {
    once(async |pool| {
        volume(&pool, "v").await;
        pool.close().await.expect("closed");
        let none = [
            "block_sizes",
            "folded_checksums",
            "record_parts",
            "space_summaries",
        ];
        let set_off = features(async |pool| set(pool, Some("v"), COMPRESSION, "off").await);
        assert_eq!(set_off.await, none, "a record of version 1 says it");
        let wrong = features(async |pool| {
            let made = pool.create_volume(NewVolume::new("v/w", SIZE)).await;
            assert_eq!(made.err(), Some(Error::NotAParent));
        });
        assert_eq!(wrong.await, none, "a refused name changes nothing");
        let set_lz4 = features(async |pool| set(pool, Some("v"), COMPRESSION, "lz4").await);
        assert_eq!(
            set_lz4.await,
            [
                "block_sizes",
                "folded_checksums",
                "record_parts",
                "settings",
                "space_summaries"
            ],
            "the default, as an own value"
        );
        let pool = again().await;
        assert_eq!(compression(&pool, "v"), ("lz4".into(), Source::Local));
        files(&pool, "f").await;
        volume(&pool, "f/v").await;
        let below = pool.create_volume(NewVolume::new("f/v/w", SIZE)).await;
        assert_eq!(below.err(), Some(Error::NotAParent));
    });
}

#[test]
fn a_filesystem_inherits_and_its_volumes_promise_what_it_does() {
    lives(
        async |pool| {
            files(&pool, "f").await;
            let own = NewFilesystem {
                compression: Packing::Off,
                ..NewFilesystem::new("f/own")
            };
            drop(pool.create_filesystem(own).await.expect("a filesystem"));
            let heir = volume(&pool, "f/v").await;
            set(&pool, Some("f"), SYNC, "disabled").await;
            assert_eq!(heir.dataset().sync, Sync::Disabled);
            write(&heir, 7).await;
            let inherit = pool.set_own(Some("f"), SYNC, None).await;
            inherit.expect("inherits");
            write(&heir, 8).await;
            set(&pool, Some("f"), COMPRESSION, "zstd-4").await;
        },
        async |pool| {
            let heir = pool.volume("f/v").expect("a volume");
            assert_eq!(first_byte(&heir).await, 7);
            assert_eq!(compression(&pool, "f"), ("zstd-4".into(), Source::Local));
            assert_eq!(compression(&pool, "f/v"), ("zstd-4".into(), from("f")));
            assert_eq!(compression(&pool, "f/own"), ("off".into(), Source::Local));
        },
    );
}

#[test]
fn texts_are_inherited_and_clones_do_not_take_them() {
    const SHARE: TextProperty = TextProperty::Sharenfs;
    let shared = |pool: &Pool, name: &str| pool.text(Some(name), SHARE).expect("a dataset");
    let put = async |pool: &Pool, name: Option<&str>, text: &str| {
        let setting = TextSetting {
            text: text.to_owned(),
            is_received: false,
        };
        pool.set_text(name, SHARE, Some(setting)).await
    };
    lives(
        async move |pool| {
            files(&pool, "a").await;
            files(&pool, "a/b").await;
            volume(&pool, "v").await;
            assert_eq!(shared(&pool, "a"), ("off".into(), Source::Default));
            put(&pool, None, "on").await.expect("set");
            assert_eq!(shared(&pool, "a/b"), ("on".into(), Source::FromPool));
            put(&pool, Some("a"), "ro=@10.0.0.0/24").await.expect("set");
            assert_eq!(shared(&pool, "a/b"), ("ro=@10.0.0.0/24".into(), from("a")));
            let refused = put(&pool, Some("v"), "on").await;
            assert_eq!(refused, Err(Error::NoProperty("sharenfs")));
            pool.create_snapshot("a", "s").await.expect("a snapshot");
            let made = pool.clone_snapshot("a", "s", "c").await;
            drop(made.expect("a clone"));
            assert_eq!(shared(&pool, "c"), ("on".into(), Source::FromPool));
        },
        async move |pool| {
            assert_eq!(shared(&pool, "a").1, Source::Local);
            assert_eq!(shared(&pool, "c"), ("on".into(), Source::FromPool));
            pool.rename_volume("a/b", "b").await.expect("renamed");
            assert_eq!(shared(&pool, "b"), ("on".into(), Source::FromPool));
            pool.set_text(Some("a"), SHARE, None).await.expect("set");
            pool.set_text(None, SHARE, None).await.expect("set");
            assert_eq!(shared(&pool, "a"), ("off".into(), Source::Default));
        },
    );
}
