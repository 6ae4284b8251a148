//! Small durable writes to files whose contents go to the journal first, and to blocks later.
//!
//! A file has records, and blocks of 4 KiB that win over a record: of the two the newer one counts, wherever they are.

use std::rc::Rc;
use std::time::Duration;

use backend::file::{FileBackend, Handle, Seek, Stability, WriteAt};
use io::sim::{Node, Sim, SimConfig};
use pool::filesystem::Store;
use pool::{DurableWrites, FileStore, NewFilesystem, Options, Pool};

use crate::blocks::free_all;
use crate::filesystem::bed::Bed;
use crate::filesystem::pooled::{
    RECORD, again_with, create_pool_with, disk_config, new_files, on_disk, open, verified,
};

const BLOCK: u64 = 4096;

/// Contents go to the journal.
fn journal() -> Options {
    Options {
        durable_writes: DurableWrites::Journal,
        ..Options::default()
    }
}

/// Writes `len` bytes `n` to a file, durably.
async fn write_durable(bed: &Bed<FileStore>, of: Handle, at: u64, len: u64, n: u8) {
    let mut data = io::pool().alloc(len as usize).await;
    data.fill(n);
    let at = WriteAt::Offset(at);
    let written = bed
        .files
        .write(&bed.caller, of, at, data.into(), Stability::Durable);
    written.await.expect("written");
}

/// A pool with a filesystem that is ready to have contents in the journal, and a file of 8 records of 1 to 8.
async fn ready() -> (Pool, Bed<FileStore>, Handle) {
    let pool = create_pool_with(journal()).await;
    let store = pool.create_filesystem(new_files()).await;
    let bed = open(store.expect("a filesystem")).await;
    let file = bed.file("file").await;
    for n in 0..8 {
        let bytes = [n as u8 + 1; RECORD as usize];
        bed.write(file, n * u64::from(RECORD), &bytes)
            .await
            .expect("written");
    }
    // the labels get the feature
    let other = bed.file("other").await;
    write_durable(&bed, other, 0, 2 * BLOCK, 1).await;
    rest(&pool).await;
    (pool, bed, file)
}

/// Waits until all records have blocks.
async fn rest(pool: &Pool) {
    io::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(pool.dirty(), 0);
}

/// The byte at some places of a file.
async fn bytes_at<const N: usize>(bed: &Bed<FileStore>, of: Handle, at: [u64; N]) -> [u8; N] {
    let mut found = [0; N];
    for (found, at) in found.iter_mut().zip(at) {
        *found = bed.read(of, at, 1).await.expect("read")[0];
    }
    found
}

async fn file_named(bed: &Bed<FileStore>, name: &str) -> Handle {
    bed.lookup(bed.root, name).await.expect("found").handle
}

/// Works with the first function, kills the machine, and looks with the second one: at once, and when all records have blocks.
fn across_a_crash<F: Future<Output = ()> + 'static, G: Future<Output = ()> + 'static>(
    before: impl FnOnce() -> F + 'static,
    look: impl Fn(Rc<Bed<FileStore>>) -> G + 'static,
) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        node.spawn(before()).await.expect("it has power");
        node.kill();
        let next = node.spawn(async move {
            let pool = again_with(journal()).await;
            let store = pool.filesystem("files").expect("it is there");
            let bed = Rc::new(open(store).await);
            look(bed.clone()).await;
            verified(&pool).await;
            rest(&pool).await;
            look(bed.clone()).await;
            drop(bed);
            free_all(&pool).await;
            verified(&pool).await;
            pool.close().await.expect("closed");
        });
        next.await.expect("it has power");
    });
}

#[test]
fn a_small_durable_write_to_a_file_has_no_block_at_first_and_gets_one_within_a_second() {
    on_disk(|_| async move {
        let (pool, bed, file) = ready().await;
        let data = pool.writes().all.data;
        let before = pool.durable_times().journaled;
        for n in 0..8 {
            write_durable(&bed, file, n * u64::from(RECORD), BLOCK, 90 + n as u8).await;
        }
        assert_eq!(pool.writes().all.data, data, "only the journal has them");
        assert_eq!(pool.dirty(), 8 * BLOCK);
        assert_eq!(pool.durable_times().journaled - before, 8);
        let record = u64::from(RECORD);
        let places = [0, record, 2 * record, BLOCK];
        assert_eq!(bytes_at(&bed, file, places).await, [90, 91, 92, 1]);
        verified(&pool).await;
        rest(&pool).await;
        assert_eq!(pool.writes().all.data, data + 8 * BLOCK);
        assert_eq!(bytes_at(&bed, file, places).await, [90, 91, 92, 1]);
        let of = bed.lookup(bed.root, "file").await.expect("found");
        assert_eq!((of.size, of.used), (8 * record, 8 * record));
        free_all(&pool).await;
        verified(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_file_that_grows_durably_is_there_after_a_crash() {
    let before = || async {
        let (_pool, bed, _) = ready().await;
        let log = bed.file("log").await;
        for n in 0..12 {
            write_durable(&bed, log, n * 3000, 3000, n as u8 + 1).await;
        }
    };
    across_a_crash(before, |bed| async move {
        let log = bed.lookup(bed.root, "log").await.expect("found");
        // two records of 16 KiB, and one of 4 KiB
        assert_eq!((log.size, log.used), (36_000, 36_864));
        let read = bed.read(log.handle, 0, 40_000).await.expect("read");
        let wanted = (0..12u8).flat_map(|n| [n + 1; 3000]);
        assert!(wanted.eq(read));
    });
}

/// A block in the journal is older than the record that follows it there.
#[test]
fn a_record_in_the_journal_takes_its_blocks_out_of_it() {
    let before = || async {
        let (pool, bed, file) = ready().await;
        write_durable(&bed, file, BLOCK, BLOCK, 91).await;
        write_durable(&bed, file, 2 * BLOCK, BLOCK, 92).await;
        write_durable(&bed, file, 0, RECORD.into(), 93).await;
        assert_eq!(pool.dirty(), u64::from(RECORD), "the blocks are gone");
        assert_eq!(
            bytes_at(&bed, file, [0, BLOCK, 2 * BLOCK]).await,
            [93, 93, 93]
        );
    };
    across_a_crash(before, |bed| async move {
        let file = file_named(&bed, "file").await;
        assert_eq!(
            bytes_at(&bed, file, [0, BLOCK, 2 * BLOCK]).await,
            [93, 93, 93]
        );
    });
}

/// A record that gets blocks at once is newer than a block of it in the journal.
#[test]
fn a_record_with_blocks_takes_its_blocks_out_of_the_journal() {
    let before = || async {
        let (pool, bed, file) = ready().await;
        let record = u64::from(RECORD);
        write_durable(&bed, file, record + BLOCK, BLOCK, 91).await;
        // more than goes to the journal
        write_durable(&bed, file, 0, 4 * record, 93).await;
        assert_eq!(pool.dirty(), 0, "the block is gone");
        assert_eq!(bytes_at(&bed, file, [0, record + BLOCK]).await, [93, 93]);
    };
    across_a_crash(before, |bed| async move {
        let file = file_named(&bed, "file").await;
        let at = [0, u64::from(RECORD) + BLOCK];
        assert_eq!(bytes_at(&bed, file, at).await, [93, 93]);
    });
}

/// A write to a part of a record that only the journal has goes into the record's contents: a block would be older for readers.
#[test]
fn a_record_in_the_journal_takes_later_small_writes() {
    let before = || async {
        let (pool, bed, file) = ready().await;
        write_durable(&bed, file, 0, RECORD.into(), 90).await;
        write_durable(&bed, file, BLOCK, BLOCK, 91).await;
        assert_eq!(pool.dirty(), u64::from(RECORD), "one record");
        assert_eq!(bytes_at(&bed, file, [0, BLOCK]).await, [90, 91]);
        rest(&pool).await;
        // beside the record, which has a block now
        write_durable(&bed, file, 2 * BLOCK, BLOCK, 92).await;
        assert_eq!(pool.dirty(), BLOCK);
        assert_eq!(
            bytes_at(&bed, file, [0, BLOCK, 2 * BLOCK]).await,
            [90, 91, 92]
        );
    };
    across_a_crash(before, |bed| async move {
        let file = file_named(&bed, "file").await;
        let at = [0, BLOCK, 2 * BLOCK, 3 * BLOCK];
        assert_eq!(bytes_at(&bed, file, at).await, [90, 91, 92, 90]);
    });
}

/// Regression of the first version, in which only write-back took records out of the journal's contents: transactions put and delete
/// records of files, too.
#[test]
fn cuts_holes_and_removals_take_contents_out_of_the_journal() {
    let before = || async {
        let (pool, bed, file) = ready().await;
        let record = u64::from(RECORD);
        let (cut, gone) = (bed.file("cut").await, bed.file("gone").await);
        for of in [cut, gone] {
            write_durable(&bed, of, 0, record, 80).await;
        }
        write_durable(&bed, file, record, record, 81).await;
        write_durable(&bed, file, 2 * record, BLOCK, 82).await;
        write_durable(&bed, file, 7 * record, BLOCK, 83).await;
        assert_eq!(pool.dirty(), 3 * record + 2 * BLOCK);
        bed.punch(file, record..3 * record).await.expect("punched");
        bed.set_size(file, 7 * record).await.expect("cut");
        bed.set_size(cut, 0).await.expect("cut");
        // a file that fits into its value
        write_durable(&bed, cut, 0, 100, 84).await;
        bed.remove(bed.root, "gone").await.expect("removed");
        bed.free_orphans().await;
        let _proof = bed.store.durable(None).await.expect("durable");
        assert_eq!(pool.dirty(), 0, "all of them were replaced");
        // it grows over the place of the block that was cut off
        bed.set_size(file, 8 * record).await.expect("grown");
        let at = [record, 2 * record, 7 * record, 3 * record];
        assert_eq!(bytes_at(&bed, file, at).await, [0, 0, 0, 4]);
        assert_eq!(bed.read(cut, 0, 1000).await.expect("read"), [84; 100]);
        let _proof = bed.store.durable(None).await.expect("durable");
    };
    across_a_crash(before, |bed| async move {
        let record = u64::from(RECORD);
        let file = bed.lookup(bed.root, "file").await.expect("found");
        assert_eq!((file.size, file.used), (8 * record, 5 * record));
        let at = [record, 2 * record, 7 * record, 3 * record];
        assert_eq!(bytes_at(&bed, file.handle, at).await, [0, 0, 0, 4]);
        let cut = file_named(&bed, "cut").await;
        assert_eq!(bed.read(cut, 0, 1000).await.expect("read"), [84; 100]);
        assert!(bed.lookup(bed.root, "gone").await.is_err());
    });
}

#[test]
fn data_in_the_journal_is_no_hole() {
    on_disk(|_| async move {
        let (pool, bed, _) = ready().await;
        let record = u64::from(RECORD);
        let sparse = bed.file("sparse").await;
        bed.set_size(sparse, 16 * record).await.expect("grown");
        write_durable(&bed, sparse, 5 * record, record, 70).await;
        assert_eq!(pool.dirty(), record);
        let data = bed.files.seek(sparse, 0, Seek::Data).await;
        assert_eq!(data.expect("found"), 5 * record);
        let hole = bed.files.seek(sparse, 5 * record, Seek::Hole).await;
        assert_eq!(hole.expect("found"), 6 * record);
        let of = bed.lookup(bed.root, "sparse").await.expect("found");
        assert_eq!(of.used, record);
        // a cut counts the records in the journal
        bed.set_size(sparse, 5 * record + BLOCK).await.expect("cut");
        let of = bed.lookup(bed.root, "sparse").await.expect("found");
        assert_eq!(of.used, BLOCK);
        pool.close().await.expect("closed");
    });
}

#[test]
fn snapshots_of_files_have_the_contents_and_a_rollback_forgets_later_ones() {
    on_disk(|_| async move {
        let (pool, bed, file) = ready().await;
        write_durable(&bed, file, 0, RECORD.into(), 71).await;
        write_durable(&bed, file, u64::from(RECORD), BLOCK, 72).await;
        pool.create_snapshot("files", "one").await.expect("taken");
        assert_eq!(pool.dirty(), 0, "a snapshot has blocks only");
        write_durable(&bed, file, 0, RECORD.into(), 73).await;
        write_durable(&bed, file, u64::from(RECORD), BLOCK, 74).await;
        assert_eq!(pool.dirty(), u64::from(RECORD) + BLOCK);
        let at = [0, u64::from(RECORD)];
        let then = open(
            pool.filesystem_snapshot("files", "one")
                .expect("it is there"),
        )
        .await;
        let old = file_named(&then, "file").await;
        assert_eq!(bytes_at(&then, old, at).await, [71, 72]);
        assert_eq!(bytes_at(&bed, file, at).await, [73, 74]);
        drop((then, bed));
        pool.roll_back("files", "one").await.expect("rolled back");
        assert_eq!(pool.dirty(), 0);
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        let file = file_named(&bed, "file").await;
        assert_eq!(bytes_at(&bed, file, at).await, [71, 72]);
        free_all(&pool).await;
        verified(&pool).await;
        drop(bed);
        pool.close().await.expect("closed");
    });
}

/// Records of other sizes than the dataset's; large ones never go to the journal.
#[test]
fn large_records_have_small_contents_in_the_journal() {
    let before = || async {
        let pool = create_pool_with(journal()).await;
        let new = NewFilesystem {
            record_size: 128 << 10,
            ..new_files()
        };
        let store = pool.create_filesystem(new).await;
        let bed = open(store.expect("a filesystem")).await;
        let file = bed.file("file").await;
        write_durable(&bed, file, 0, BLOCK, 1).await;
        rest(&pool).await;
        write_durable(&bed, file, BLOCK, 3 * BLOCK, 2).await;
        assert_eq!(pool.dirty(), 4 * BLOCK);
        write_durable(&bed, file, 0, 256 << 10, 3).await;
        assert_eq!(pool.dirty(), 0, "it has blocks");
        write_durable(&bed, file, 100 << 10, BLOCK, 4).await;
        assert_eq!(pool.dirty(), BLOCK);
    };
    across_a_crash(before, |bed| async move {
        let file = file_named(&bed, "file").await;
        let at = [0, 100 << 10, 104 << 10, 200 << 10];
        assert_eq!(bytes_at(&bed, file, at).await, [3, 4, 3, 3]);
    });
}

/// The nodes of the next checkpoint need the same space for records and inodes with either way of durable writes.
#[test]
fn contents_in_the_journal_keep_space_for_the_nodes_of_their_inodes() {
    const WRITES: u64 = 400;
    let left = |durable_writes: DurableWrites| {
        Sim::new(1, SimConfig::default()).block_on(async move {
            let node = Node::new();
            node.create_disk("disk", disk_config());
            let left = node.spawn(async move {
                let options = Options {
                    durable_writes,
                    ..Options::default()
                };
                let pool = create_pool_with(options).await;
                let store = pool.create_filesystem(new_files()).await;
                let bed = open(store.expect("a filesystem")).await;
                let file = bed.file("file").await;
                let bytes = vec![1; (WRITES * BLOCK) as usize];
                bed.write(file, 0, &bytes).await.expect("written");
                // the labels get the feature
                let other = bed.file("other").await;
                write_durable(&bed, other, 0, 2 * BLOCK, 1).await;
                rest(&pool).await;
                pool.checkpoint().await.expect("a checkpoint");
                for n in 0..WRITES {
                    write_durable(&bed, file, n * BLOCK, BLOCK, 2).await;
                }
                rest(&pool).await;
                let times = pool.durable_times();
                (bed.store.space().available, times.journaled)
            });
            left.await.expect("it has power")
        })
    };
    let (blocks, none) = left(DurableWrites::Blocks);
    let (journal, journaled) = left(DurableWrites::Journal);
    assert!(none == 0 && journaled >= WRITES, "{none}, {journaled}");
    assert_eq!(blocks, journal, "bytes left");
}
