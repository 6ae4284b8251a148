//! The order mover: records that were overwritten at random are written again in order, where they are read in order.

use std::rc::Rc;
use std::time::Duration;

use backend::BlockBackend;
use io::disk::{Disk, OpenOptions};
use pool::format::{Block, BlockPtr, DatasetProperty, Key, Setting, Value};
use pool::inspect::{Findings, Image};
use pool::{Options, Pool, Volume};

use crate::blocks::{byte, free_all, sound, volume, write};
use crate::volume::{create_pool, on_disk, read};

/// Blocks of the test's volume: 4 MiB.
const BLOCKS: u64 = 1024;
/// Blocks of one request in order: 128 KiB.
const REQUEST: u64 = 32;

/// The pool, a volume with these bytes in its blocks, written in order.
async fn filled(options: Options) -> (Pool, Volume, Vec<u8>) {
    let pool = create_pool(options).await;
    let volume = volume(&pool, "vm", 64 << 20).await;
    for at in (0..BLOCKS).step_by(64) {
        write(&volume, at, 64, byte(at)).await.expect("written");
    }
    let wanted = (0..BLOCKS).map(|at| byte(at / 64 * 64)).collect();
    (pool, volume, wanted)
}

/// Overwrites all blocks one after the other, out of order, a few at a time.
async fn scatter(volume: &Volume, wanted: &mut [u8]) {
    for n in 0..BLOCKS {
        let at = n * 521 % BLOCKS;
        wanted[at as usize] = byte(n + 7);
        write(volume, at, 1, byte(n + 7)).await.expect("written");
        if n % 16 == 15 {
            let _durable = volume.flush().await.expect("flushed");
        }
    }
}

/// Reads all blocks in order. Returns the reads that the disk got for it.
async fn read_all(pool: &Pool, volume: &Volume, wanted: &[u8]) -> u64 {
    let reads = || pool.vdevs().status()[0].members[0].counters.reads;
    let before = reads();
    for at in (0..BLOCKS).step_by(REQUEST as usize) {
        let bytes = read(volume, at, REQUEST).await;
        for (block, n) in bytes.chunks(4096).zip(&wanted[at as usize..]) {
            assert!(block.iter().all(|b| b == n), "a block from {at} on");
        }
    }
    reads() - before
}

/// Waits until no window is left.
async fn wait(pool: &Pool) {
    while pool.order_moves().waiting > 0 || pool.order_moves().is_moving {
        io::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn windows_that_are_read_in_order_are_put_in_order() {
    on_disk(|_| async move {
        let (pool, volume, mut wanted) = filled(Options::default()).await;
        scatter(&volume, &mut wanted).await;
        pool.checkpoint().await.expect("a checkpoint");
        let apart = read_all(&pool, &volume, &wanted).await;
        assert!(apart > BLOCKS / 2, "{apart} reads");
        wait(&pool).await;
        let moves = pool.order_moves();
        assert!(moves.moved >= BLOCKS * 4096 / 2, "{moves:?}");
        assert_eq!(moves.held, 0);
        assert_eq!(pool.writes().all.moved, moves.moved);
        sound(&pool).await;
        let together = read_all(&pool, &volume, &wanted).await;
        assert!(
            together <= 2 * BLOCKS / REQUEST,
            "{together} reads, {apart} before"
        );
        wait(&pool).await;
        assert_eq!(pool.order_moves().moved, moves.moved, "once is enough");
        free_all(&pool).await;
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn with_autodefrag_off_records_stay_where_they_are() {
    on_disk(|_| async move {
        let (pool, volume, mut wanted) = filled(Options::default()).await;
        let off = Setting {
            value: DatasetProperty::Autodefrag.parse("off").expect("a value"),
            is_received: false,
        };
        let set = pool.set_own(None, DatasetProperty::Autodefrag, Some(off));
        set.await.expect("set");
        scatter(&volume, &mut wanted).await;
        read_all(&pool, &volume, &wanted).await;
        assert_eq!(pool.order_moves().waiting, 0);
        io::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(pool.order_moves().moved, 0);
        pool.close().await.expect("closed");
    });
}

/// The rate counts while nobody works, too.
#[test]
fn a_rate_limits_the_moves() {
    on_disk(|_| async move {
        let (pool, volume, mut wanted) = filled(Options::default()).await;
        let rate = Setting {
            value: DatasetProperty::Autodefrag
                .parse("1048576")
                .expect("a rate"),
            is_received: false,
        };
        let set = pool.set_own(Some("vm"), DatasetProperty::Autodefrag, Some(rate));
        set.await.expect("set");
        scatter(&volume, &mut wanted).await;
        read_all(&pool, &volume, &wanted).await;
        let begun = io::time::now();
        wait(&pool).await;
        let took = io::time::now().since(begun);
        let moved = pool.order_moves().moved;
        assert!(moved >= 3 << 20, "{moved}");
        // simulated time: the rest of the last window is not waited for
        assert!(
            took >= Duration::from_nanos((moved - (1 << 20)) * 953),
            "{took:?} for {moved}"
        );
        pool.close().await.expect("closed");
    });
}

/// Blocks that a snapshot holds are not moved: they would be there twice.
#[test]
fn blocks_of_snapshots_stay_and_are_counted() {
    on_disk(|_| async move {
        let (pool, volume, mut wanted) = filled(Options::default()).await;
        scatter(&volume, &mut wanted).await;
        pool.create_snapshot("vm", "all").await.expect("a snapshot");
        free_all(&pool).await;
        let used = pool.space().used;
        read_all(&pool, &volume, &wanted).await;
        wait(&pool).await;
        free_all(&pool).await;
        let moves = pool.order_moves();
        assert_eq!(moves.moved, 0);
        assert_eq!(moves.held, BLOCKS * 4096);
        assert!(pool.space().used < used + (1 << 20), "{:?}", pool.space());
        read_all(&pool, &volume, &wanted).await;
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

/// The pointers of all records of the volume, by the offline reader.
async fn pointers() -> Vec<BlockPtr> {
    let blocks = blocks_on(&["disk"]).await;
    blocks.iter().map(|block| *block.ptr()).collect()
}

/// All records of the volume on these disks, by the offline reader.
pub(crate) async fn blocks_on(paths: &[&str]) -> Vec<Block> {
    let mut disks = Vec::new();
    for path in paths {
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        let disk = loop {
            match Disk::open(*path, options.clone()).await {
                // operations of a closed pool are still ending
                Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
                opened => break opened.expect("the disk"),
            }
        };
        disks.push(disk);
    }
    let image: Rc<Image> = Image::open(disks).await.expect("a pool");
    let uberblock = image.uberblock(None).expect("an uberblock");
    let mut findings = Findings::default();
    let contents = image.contents(uberblock, &mut findings).await;
    let contents = contents.expect("the pool's own tree");
    let found = contents.datasets.values().find(|d| d.name == "vm");
    let root = found.expect("the volume").root.root;
    let (mut keys, mut entries) = (Key::START..Key::END, Vec::new());
    loop {
        let (some, has_more) = image.entries(root, keys.clone(), "vm", &mut findings).await;
        entries.extend(some);
        match entries.last() {
            Some(last) if has_more => keys.start = last.key.next(),
            _ => break,
        }
    }
    let blocks = entries.into_iter().filter_map(|entry| match entry.value {
        Value::Block(block) => Some(block),
        Value::Inline(_) => None,
    });
    blocks.collect()
}

/// Moved blocks keep the birth of their contents, and have the epoch of their move as the epoch of their placement.
#[test]
fn moved_records_keep_their_births() {
    on_disk(|_| async move {
        let (pool, volume, mut wanted) = filled(Options::default()).await;
        scatter(&volume, &mut wanted).await;
        pool.checkpoint().await.expect("a checkpoint");
        let snapshot = pool.create_snapshot("vm", "epoch").await;
        let written = snapshot.expect("a snapshot").dataset().birth;
        pool.destroy_snapshot("vm", "epoch")
            .await
            .expect("destroyed");
        free_all(&pool).await;
        read_all(&pool, &volume, &wanted).await;
        wait(&pool).await;
        drop(volume);
        pool.close().await.expect("closed");
        let found = pointers().await;
        assert_eq!(found.len() as u64, BLOCKS);
        let is_moved = |ptr: &&BlockPtr| ptr.placed > ptr.birth;
        assert!(found.iter().filter(is_moved).count() as u64 > BLOCKS / 2);
        assert!(found.iter().all(|ptr| ptr.birth <= written), "{found:?}");
    });
}
