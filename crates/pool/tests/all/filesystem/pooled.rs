//! Filesystems on datasets of a pool, on simulated disks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use pool::filesystem::{FileSystem, Store};
use pool::format::filesystem::{
    Dirent, FIRST_OBJECT, Header, KIND_DIRENT, KIND_ORPHAN, ROOT_OBJECT, header_key,
};
use pool::format::{Host, Key, ObjectId, Packing};
use pool::vdev::{self, PoolSpec, create};
use pool::{FileStore, NewFilesystem, Options, Pool};
use testkit::store::{Durables, check, check_charges};

use crate::filesystem::bed::Bed;

const DISK_SIZE: u64 = 192 << 20;
/// Small records, so that a test has many of them.
pub(crate) const RECORD: u32 = 16 << 10;

fn host() -> Host {
    Host::new([1; 16], "here")
}

/// Runs on a machine with one disk.
pub(crate) fn on_disk<F: Future<Output = ()> + 'static>(test: impl FnOnce(SimDisk) -> F + 'static) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let disk = node.create_disk("disk", disk_config());
        node.spawn(test(disk)).await.expect("the power stays on");
    });
}

pub(crate) fn disk_config() -> DiskConfig {
    DiskConfig {
        size: DISK_SIZE,
        ..DiskConfig::default()
    }
}

pub(crate) async fn create_pool() -> Pool {
    create_pool_with(Options::default()).await
}

pub(crate) async fn create_pool_with(options: Options) -> Pool {
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let members = vec![vec![disk.expect("the disk is there")]];
    let spec = PoolSpec::new("tank", members, host());
    let opened = create(spec).await.expect("a pool");
    Pool::open(opened, options).await.expect("a pool")
}

/// The features of the closed pool without which it cannot be opened.
pub(crate) async fn features() -> Vec<String> {
    io::time::sleep(Duration::from_secs(1)).await;
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let scanned = vdev::scan(vec![disk.expect("the disk is there")]).await;
    scanned.pools[0].features().incompatible.clone()
}

/// Opens the pool again.
pub(crate) async fn again() -> Pool {
    again_with(Options::default()).await
}

pub(crate) async fn again_with(options: Options) -> Pool {
    // requests of a process that lost its power still hold the disk
    io::time::sleep(Duration::from_secs(1)).await;
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let found = vdev::scan(vec![disk.expect("the disk is there")])
        .await
        .pools
        .pop();
    let opening = vdev::OpenOptions::new(host());
    let opened = vdev::open(found.expect("a pool"), opening).await;
    Pool::open(opened.expect("opened"), options)
        .await
        .expect("a pool")
}

/// Work on a pool that power cuts end.
pub(crate) struct Cuts {
    /// Number of power cuts.
    pub(crate) rounds: u64,
    /// Shortest simulated time from a start of the machine to its power cut, µs. The first second goes into [`again`].
    pub(crate) shortest: u64,
    /// The time is longer by a random part of this, µs.
    pub(crate) spread: u64,
}

impl Cuts {
    /// Makes a pool with `make`, cuts the power amid `work` in each round, and ends with `last`. `work` gets a number of its
    /// own in each round of each seed and never ends.
    pub(crate) fn run<W: Future<Output = ()> + 'static>(
        self,
        seed: u64,
        make: impl Future<Output = ()> + 'static,
        work: impl Fn(u64) -> W + 'static,
        last: impl Future<Output = ()> + 'static,
    ) {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let node = Node::new();
            node.create_disk("disk", disk_config());
            node.spawn(make).await.expect("it has power");
            let mut rng = Prng::new(seed);
            for round in 0..self.rounds {
                let working = node.spawn(work(seed * 10 + round));
                let time = Duration::from_micros(self.shortest + rng.below(self.spread));
                let ended = io::timeout(time, working).await;
                assert!(ended.is_err(), "seed {seed}: a panic in round {round}");
                node.power_cut();
                node.power_on();
            }
            node.spawn(last).await.expect("it has power");
        });
    }
}

pub(crate) async fn verified(pool: &Pool) {
    let verified = pool.verify().await.expect("verified");
    assert_eq!(verified.problems, Vec::<String>::new());
}

pub(crate) fn new_files() -> NewFilesystem {
    NewFilesystem {
        record_size: RECORD,
        ..NewFilesystem::new("files")
    }
}

pub(crate) async fn open(store: FileStore) -> Bed<FileStore> {
    let files = FileSystem::open(store.clone(), 7).await.expect("opened");
    Bed::of(store, files)
}

/// All that a filesystem has now.
pub(crate) async fn durables(store: &FileStore) -> Durables {
    let mut all = Durables::default();
    let mut from = Key::START;
    loop {
        let page = store.scan(from..Key::END, 100).await.expect("scanned");
        let Some((last, _)) = page.last() else { break };
        from = last.next();
        all.values.extend(page);
    }
    let header = Header::decode(&all.values[&header_key()]).expect("a header");
    let mut numbers: BTreeSet<ObjectId> = (FIRST_OBJECT.0..header.next.0).map(ObjectId).collect();
    // files with a record size of their own
    numbers.extend(
        all.values
            .iter()
            .filter_map(|(key, value)| match key.kind() {
                KIND_DIRENT => Some(Dirent::decode(value).expect("an entry").target.object),
                KIND_ORPHAN => Some(ObjectId(key.offset())),
                _ => None,
            }),
    );
    for object in std::iter::once(ROOT_OBJECT).chain(numbers) {
        if let Some(inode) = store.inode(object).await.expect("looked up") {
            all.inodes.insert(object, inode);
        }
        let data = store.seek(object, 0..1 << 50, backend::file::Seek::Data);
        if let Some(found) = data.await.expect("searched") {
            all.blocks.insert((object, found), Vec::new());
        }
    }
    all
}

#[test]
fn a_filesystem_in_a_pool_has_every_behaviour() {
    testkit::files::check_all(|behaviour| {
        on_disk(move |_| async move {
            let pool = create_pool().await;
            let new = NewFilesystem {
                // sizes up to 2^63 bytes need large records
                record_size: 64 << 10,
                ..new_files()
            };
            let store = pool.create_filesystem(new).await;
            let bed = open(store.expect("a filesystem")).await;
            let orphans = io::spawn(bed.files.clone().free_orphans());
            behaviour.check(Arc::new(bed.files)).await;
            check(&durables(&bed.store).await);
            orphans.abort();
            drop(bed.store);
            pool.close().await.expect("closed");
            let pool = again().await;
            let store = pool.filesystem("files").expect("it is there");
            check(&durables(&store).await);
            check_charges(&durables(&store).await);
        });
    });
}

#[test]
fn a_closed_pool_has_the_files_when_it_is_opened_again() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await;
        let bed = open(store.expect("a filesystem")).await;
        let directory = bed.directory(bed.root, "directory").await;
        let made = bed.create(directory, "file", backend::file::NewKind::File);
        let file = made.await.expect("a file").handle;
        let data: Vec<u8> = (0..100_000u32).map(|n| n as u8 | 1).collect();
        bed.write(file, 5000, &data).await.expect("written");
        let small = bed.file("small").await;
        bed.write(small, 0, b"a few bytes").await.expect("written");
        drop(bed);
        pool.close().await.expect("closed");
        let pool = again().await;
        assert!(pool.volume("files").is_none(), "it is no volume");
        let store = pool.filesystem("files").expect("it is there");
        let bed = open(store).await;
        let directory = bed.lookup(bed.root, "directory").await.expect("found");
        let file = bed.lookup(directory.handle, "file").await.expect("found");
        assert_eq!(file.size, 105_000);
        let read = bed.read(file.handle, 0, 200_000).await.expect("read");
        assert_eq!(read[..5000], [0; 5000]);
        assert_eq!(read[5000..], data);
        let small = bed.lookup(bed.root, "small").await.expect("found");
        let read = bed.read(small.handle, 0, 100).await.expect("read");
        assert_eq!(read, b"a few bytes");
        assert_eq!(small.used, 512);
        io::time::sleep(Duration::from_secs(2)).await;
        pool.close().await.expect("closed");
    });
}

/// A version that does not know filesystems must not open the pool.
#[test]
fn a_pool_with_a_filesystem_says_so_on_its_disks() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        pool.close().await.expect("closed");
        assert_eq!(
            features().await,
            [
                "block_sizes",
                "folded_checksums",
                "record_parts",
                "space_summaries"
            ]
        );
        for name in ["one", "two"] {
            let pool = again().await;
            let new = NewFilesystem::new(name);
            drop(pool.create_filesystem(new).await.expect("a filesystem"));
            pool.close().await.expect("closed");
            assert_eq!(
                features().await,
                [
                    "block_sizes",
                    "exact_space",
                    "filesystems",
                    "folded_checksums",
                    "owner_space",
                    "record_parts",
                    "space_summaries"
                ]
            );
        }
    });
}

#[test]
fn a_snapshot_has_all_that_was_acknowledged() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await;
        let bed = open(store.expect("a filesystem")).await;
        let file = bed.file("file").await;
        bed.write(file, 0, &[1; 50_000]).await.expect("written");
        pool.create_snapshot("files", "then").await.expect("taken");
        bed.write(file, 0, &[2; 80_000]).await.expect("written");
        bed.file("other").await;
        let then = pool.filesystem_snapshot("files", "then");
        let then = open(then.expect("it is there")).await;
        check(&durables(&then.store).await);
        check_charges(&durables(&then.store).await);
        let old = then.lookup(then.root, "file").await.expect("found");
        let read = then.read(old.handle, 0, 100_000).await.expect("read");
        assert_eq!(read, [1; 50_000]);
        assert!(then.lookup(then.root, "other").await.is_err());
        assert!(then.write(old.handle, 0, b"no").await.is_err());
        pool.checkpoint().await.expect("written");
        let read = then.read(old.handle, 0, 100_000).await.expect("read");
        assert_eq!(read, [1; 50_000]);
        verified(&pool).await;
        pool.close().await.expect("closed");
    });
}

/// Bytes that the disk has read so far.
fn read_bytes(pool: &Pool) -> u64 {
    let vdevs = pool.vdevs().status();
    let disks = vdevs.iter().flat_map(|vdev| &vdev.members);
    disks.map(|disk| disk.counters.read_bytes).sum()
}

/// Small overwrites leave the parts of a record in many places of a read; the record is read once for all of them.
#[test]
fn a_record_with_many_newer_blocks_is_read_once() {
    const SIZE: usize = 128 << 10;
    on_disk(|_| async {
        // closing the pool takes everything from memory
        let pool = create_pool().await;
        let new = NewFilesystem {
            record_size: SIZE as u32,
            compression: Packing::Off,
            ..new_files()
        };
        let store = pool.create_filesystem(new).await.expect("a filesystem");
        let bed = open(store).await;
        let file = bed.file("file").await;
        let mut expected: Vec<u8> = (0..2 * SIZE).map(|n| (n / 100) as u8 | 1).collect();
        bed.write(file, 0, &expected).await.expect("written");
        drop(bed);
        pool.close().await.expect("closed");

        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        for start in (0..2 * SIZE).step_by(2 * 4096) {
            let bytes = &mut expected[start..start + 4096];
            bytes.fill((start / 4096) as u8);
            bed.write(file, start as u64, bytes).await.expect("written");
        }
        drop(bed);
        pool.close().await.expect("closed");

        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        // the first read also gets nodes of the tree
        for offset in [0, 5000] {
            let before = read_bytes(&pool);
            let read = bed.read(file, offset, 2 * SIZE).await.expect("read");
            assert_eq!(read, expected[offset as usize..]);
            let from_disk = read_bytes(&pool) - before;
            // both records, and half of their bytes as newer blocks
            let limit = 3 * SIZE as u64 + 64 * 1024;
            assert!(from_disk <= limit, "{from_disk} bytes, from {offset} on");
        }
        pool.close().await.expect("closed");
    });
}

/// The last part of a record may be short, and end within a sector. A read of it reads its sectors.
#[test]
fn a_short_last_part_is_read_alone() {
    const SIZE: usize = 50_001;
    on_disk(|_| async {
        let pool = create_pool().await;
        let new = NewFilesystem {
            record_size: 128 << 10,
            compression: Packing::Off,
            ..new_files()
        };
        let store = pool.create_filesystem(new).await;
        let bed = open(store.expect("a filesystem")).await;
        let file = bed.file("file").await;
        let mut expected = vec![0; SIZE];
        Prng::new(5).fill(&mut expected);
        bed.write(file, 0, &expected).await.expect("written");
        drop(bed);
        pool.close().await.expect("closed");
        let pool = again().await;
        let store = pool.filesystem("files").expect("it is there");
        let bed = open(store).await;
        for (offset, len, wanted) in [
            (100, 50, None),
            (49_900, 300, Some(4096)),
            (49_999, 9, Some(0)),
        ] {
            let before = read_bytes(&pool);
            let read = bed.read(file, offset, len).await.expect("read");
            let from = offset as usize;
            assert_eq!(read, expected[from..SIZE.min(from + len)]);
            let from_disk = read_bytes(&pool) - before;
            assert!(
                wanted.is_none_or(|wanted| wanted >= from_disk),
                "{from_disk} bytes at {offset}"
            );
        }
        drop(bed);
        pool.close().await.expect("closed");
    });
}
