//! Settings, snapshots and other changes of datasets while the journal is full.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::filesystem::Store;
use pool::format::{PoolProperty, Sync};
use pool::{DurableWrites, Error, NewFilesystem, NewVolume, Options, Pool, Result};

use crate::blocks::{byte, first, sound, volume};
use crate::volume::{BLOCK, again, create_pool};

/// Bytes of each volume.
const SIZE: u64 = 64 * BLOCK as u64;
/// Changes of about 400 bytes each: more than a journal of 4 MiB holds.
const LARGE_CHANGES: usize = 12_000;
/// Changes of less than 50 bytes each: more than fit where a large one does not.
const SMALL_CHANGES: usize = 1_000;

/// A change of the pool that has begun or will begin.
struct Operation {
    name: &'static str,
    future: Pin<Box<dyn Future<Output = Result<()>>>>,
    done: Option<Result<()>>,
}

/// The changes of a test, in the order in which they begin.
struct Operations {
    pool: Rc<Pool>,
    all: Vec<Operation>,
}

impl Operations {
    /// Begins with the changes that fill the journal.
    async fn that_fill(pool: Pool) -> Self {
        let name = "f".repeat(250);
        let new = NewVolume::new(&name, SIZE);
        pool.create_volume(new).await.expect("a volume");
        let pool = Rc::new(pool);
        let all = Vec::with_capacity(LARGE_CHANGES + SMALL_CHANGES);
        let mut operations = Self { pool, all };
        for _ in 0..LARGE_CHANGES {
            let name = name.clone();
            operations.add("large change", async move |pool| {
                pool.change_volume(&name, |d| d.sync = Sync::Disabled).await
            });
        }
        for _ in 0..SMALL_CHANGES {
            operations.add("small change", async |pool| {
                pool.set_property(PoolProperty::Autotrim, false).await
            });
        }
        operations
    }

    fn add(
        &mut self,
        name: &'static str,
        operation: impl AsyncFnOnce(Rc<Pool>) -> Result<()> + 'static,
    ) {
        let pool = self.pool.clone();
        self.all.push(Operation {
            name,
            future: Box::pin(async move { operation(pool).await }),
            done: None,
        });
    }

    /// Polls each operation once, without a turn of the owner between them: the journal is full for those behind the first.
    async fn begin(&mut self) {
        poll_fn(|cx| {
            for operation in &mut self.all {
                if let Poll::Ready(done) = operation.future.as_mut().poll(cx) {
                    operation.done = Some(done);
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// The results of all operations.
    async fn results(self) -> (Rc<Pool>, Vec<(&'static str, Result<()>)>) {
        let mut results = Vec::new();
        for Operation { name, future, done } in self.all {
            let done = match done {
                Some(done) => done,
                None => future.await,
            };
            results.push((name, done));
        }
        (self.pool, results)
    }
}

/// Runs on a machine with a disk whose pool has a journal of 4 MiB; then again after a power cut.
fn across_a_power_cut(
    first: impl AsyncFnOnce() + 'static,
    second: impl AsyncFnOnce(Pool) + 'static,
) {
    Sim::new(3, SimConfig::default()).block_on(async {
        let node = Node::new();
        let config = DiskConfig {
            size: 64 << 20,
            ..DiskConfig::default()
        };
        node.create_disk("disk", config);
        let first = node.spawn(async move { first().await });
        first.await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        let second = node.spawn(async move { second(again().await).await });
        second.await.expect("the power stays on");
    });
}

async fn pool_with(volumes: &[&str]) -> Pool {
    let pool = create_pool(Options::default()).await;
    for name in volumes {
        let new = NewVolume::new(*name, SIZE);
        pool.create_volume(new).await.expect("a volume");
    }
    pool
}

/// Adds one operation of each kind.
fn add_all_kinds(operations: &mut Operations) {
    operations.add("create a volume", async |pool| {
        pool.create_volume(NewVolume::new("new", SIZE))
            .await
            .map(drop)
    });
    operations.add("destroy a volume", async |pool| {
        pool.destroy_volume("gone").await
    });
    operations.add("set a property of a volume", async |pool| {
        pool.change_volume("set", |d| d.sync = Sync::Disabled).await
    });
    operations.add("set limits", async |pool| {
        pool.set_limits("limited", 1 << 30, 0).await
    });
    operations.add("resize", async |pool| {
        pool.resize_volume("resized", 2 * SIZE).await
    });
    operations.add("rename a volume", async |pool| {
        pool.rename_volume("old", "renamed").await
    });
    operations.add("set a property of the pool", async |pool| {
        pool.set_property(PoolProperty::Autoexpand, true).await
    });
    operations.add("take a snapshot", async |pool| {
        pool.create_snapshot("set", "now").await.map(drop)
    });
    operations.add("destroy a snapshot", async |pool| {
        pool.destroy_snapshot("vm", "gone").await
    });
    operations.add("rename a snapshot", async |pool| {
        pool.rename_snapshot("vm", "old", "renamed").await
    });
    operations.add("hold", async |pool| {
        pool.hold("vm", "held", "new").await //
    });
    operations.add("release", async |pool| {
        pool.release("vm", "held", "tag").await
    });
    operations.add("clone", async |pool| {
        pool.clone_snapshot("vm", "held", "clone").await.map(drop)
    });
    operations.add("promote", async |pool| pool.promote("child").await);
    operations.add("roll back", async |pool| {
        pool.roll_back("back", "then").await
    });
}

/// Regression: an operation that found the journal full gave the user "the journal is full until the next checkpoint".
#[test]
fn changes_of_datasets_wait_while_the_journal_is_full() {
    let first = async || {
        let volumes = [
            "gone", "set", "limited", "resized", "old", "vm", "parent", "back",
        ];
        let pool = pool_with(&volumes).await;
        let snapshots = [
            ("vm", "gone"),
            ("vm", "old"),
            ("vm", "held"),
            ("parent", "origin"),
            ("back", "then"),
        ];
        for (volume, name) in snapshots {
            let taken = pool.create_snapshot(volume, name).await;
            taken.expect("a snapshot");
        }
        pool.hold("vm", "held", "tag").await.expect("a hold");
        let cloned = pool.clone_snapshot("parent", "origin", "child").await;
        cloned.expect("a clone");
        pool.resize_volume("back", 2 * SIZE).await.expect("resized");
        pool.checkpoint().await.expect("a checkpoint");
        let mut operations = Operations::that_fill(pool).await;
        add_all_kinds(&mut operations);
        let before = operations.pool.sequence();
        operations.begin().await;
        let (pool, results) = operations.results().await;
        let mut failed = results;
        failed.retain(|(_, result)| result.is_err());
        failed.dedup();
        assert_eq!(failed, []);
        assert!(pool.sequence() > before, "the journal was never full");
    };
    across_a_power_cut(first, async |pool| {
        let mut names: Vec<String> = pool.volumes().iter().map(|v| v.dataset().name).collect();
        names.retain(|name| !name.starts_with("ff"));
        let expected = [
            "back", "child", "clone", "limited", "new", "parent", "renamed", "resized", "set", "vm",
        ];
        let snapshots = ["held", "now", "origin", "renamed", "then"];
        let mut all: Vec<&str> = expected.into_iter().chain(snapshots).collect();
        all.sort_unstable();
        names.sort();
        assert_eq!(names, all);
        let of = |name: &str| pool.volume(name).expect("a volume").dataset();
        assert_eq!(of("set").sync, Sync::Disabled);
        assert_eq!(of("limited").quota, 1 << 30);
        assert_eq!(of("resized").size, 2 * SIZE);
        assert_eq!(of("back").size, SIZE);
        assert!(pool.is_on(PoolProperty::Autoexpand));
        assert!(pool.snapshot("set", "now").is_some());
        assert!(pool.snapshot("child", "origin").is_some());
        let holds = pool.holds("vm", "held").expect("the snapshot");
        let tags: Vec<String> = holds.into_iter().map(|hold| hold.tag).collect();
        assert_eq!(tags, ["new"]);
        let found = pool.verify().await.expect("verified");
        assert_eq!(found.problems, Vec::<String>::new());
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_change_checks_its_conditions_again_after_the_wait_for_the_journal() {
    let first = async || {
        let pool = pool_with(&["gone"]).await;
        let mut operations = Operations::that_fill(pool).await;
        operations.add("create", async |pool| {
            pool.create_volume(NewVolume::new("new", SIZE))
                .await
                .map(drop)
        });
        operations.add("create again", async |pool| {
            pool.create_volume(NewVolume::new("new", SIZE))
                .await
                .map(drop)
        });
        operations.add("destroy", async |pool| pool.destroy_volume("gone").await);
        operations.add("set", async |pool| {
            pool.change_volume("gone", |d| d.sync = Sync::Disabled)
                .await
        });
        operations.begin().await;
        let (_, results) = operations.results().await;
        let last: Vec<_> = results
            .into_iter()
            .skip(LARGE_CHANGES + SMALL_CHANGES)
            .collect();
        let expected = [
            ("create", Ok(())),
            ("create again", Err(Error::Exists)),
            ("destroy", Ok(())),
            ("set", Err(Error::NotFound)),
        ];
        assert_eq!(last, expected);
    };
    across_a_power_cut(first, async |pool| {
        assert!(pool.volume("new").is_some() && pool.volume("gone").is_none());
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_change_that_waits_for_the_journal_ends_when_the_devices_fail() {
    crate::volume::on_disk(|disk| async move {
        let pool = pool_with(&["gone"]).await;
        let mut operations = Operations::that_fill(pool).await;
        operations.add("destroy", async |pool| pool.destroy_volume("gone").await);
        operations.begin().await;
        disk.kill();
        let (_, mut results) = operations.results().await;
        assert_eq!(results.pop(), Some(("destroy", Err(Error::Device))));
    });
}

/// Regression: records whose contents only the journal had needed room in the full journal for their blocks, the checkpoint that would
/// have freed the journal waited for these blocks, and the pool hung.
#[test]
fn a_full_journal_has_room_for_the_blocks_of_contents_in_it() {
    const WRITES: u64 = 20;
    crate::volume::on_disk(|_| async move {
        let pool = create_pool(Options {
            durable_writes: DurableWrites::Journal,
            ..Options::default()
        })
        .await;
        let vm = volume(&pool, "vm", 64 << 20).await;
        let write = async |block: u64| {
            let mut buf = io::pool().alloc(BLOCK).await;
            buf.fill(byte(block));
            let _durable = vm.write_durable(Lba(block), buf).await.expect("written");
        };
        write(0).await;
        // the labels get the feature
        io::time::sleep(Duration::from_secs(3)).await;
        let mut operations = Operations::that_fill(pool).await;
        for block in 1..=WRITES {
            write(block * 3).await;
        }
        assert_eq!(operations.pool.dirty(), WRITES * BLOCK as u64);
        let before = operations.pool.sequence();
        operations.begin().await;
        let (pool, results) = operations.results().await;
        assert!(results.iter().all(|(_, result)| result.is_ok()));
        assert!(pool.sequence() > before, "the journal was never full");
        for block in 1..=WRITES {
            assert_eq!(first(&vm, block * 3).await, byte(block * 3));
        }
        sound(&pool).await;
        drop(vm);
        let pool = Rc::into_inner(pool).expect("its operations have ended");
        pool.close().await.expect("closed");
    });
}

/// As the test before, with blocks and records of files, whose batches also delete keys of blocks.
#[test]
fn a_full_journal_has_room_for_the_blocks_of_files_whose_contents_are_in_it() {
    const WRITES: u64 = 16;
    const RECORD: u64 = 128 << 10;
    crate::volume::on_disk(|_| async move {
        let pool = create_pool(Options {
            durable_writes: DurableWrites::Journal,
            ..Options::default()
        })
        .await;
        let store = pool.create_filesystem(NewFilesystem::new("files")).await;
        let bed = crate::filesystem::pooled::open(store.expect("a filesystem")).await;
        let file = bed.file("file").await;
        for record in 0..WRITES {
            let bytes = vec![1; RECORD as usize];
            bed.write(file, record * RECORD, &bytes)
                .await
                .expect("written");
        }
        let small = bed.file("small").await;
        let write = async |of, at: u64, n: u8| {
            bed.write(of, at, &[n; BLOCK]).await.expect("written");
            let _proof = bed.store.durable(None).await.expect("durable");
        };
        write(small, 0, 1).await;
        // the labels get the feature
        io::time::sleep(Duration::from_secs(3)).await;
        let mut operations = Operations::that_fill(pool).await;
        for n in 0..WRITES {
            write(file, n * RECORD + BLOCK as u64, 2).await;
        }
        write(small, BLOCK as u64, 3).await;
        let bytes = (WRITES + 2) * BLOCK as u64;
        assert_eq!(operations.pool.dirty(), bytes);
        let before = operations.pool.sequence();
        operations.begin().await;
        let (pool, results) = operations.results().await;
        assert!(results.iter().all(|(_, result)| result.is_ok()));
        assert!(pool.sequence() > before, "the journal was never full");
        for n in 0..WRITES {
            let at = n * RECORD + BLOCK as u64 - 1;
            assert_eq!(bed.read(file, at, 2).await.expect("read"), [1, 2]);
        }
        assert_eq!(
            bed.read(small, BLOCK as u64 - 1, 2).await.expect("read"),
            [1, 3]
        );
        sound(&pool).await;
        drop(bed);
        let pool = Rc::into_inner(pool).expect("its operations have ended");
        pool.close().await.expect("closed");
    });
}
