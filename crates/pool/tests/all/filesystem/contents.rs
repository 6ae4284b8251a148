//! Contents of files against a model, with power cuts: what was durable is there, and a size never exceeds its data.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use backend::file::{Allocate, FileBackend, Handle, Stability, WriteAt};
use io::rng::Prng;
use io::sim::{Node, Sim, SimConfig};
use pool::filesystem::Store;
use pool::format::ObjectId;
use pool::{DurableWrites, FileStore, NewFilesystem, Options};

use crate::filesystem::bed::{Bed, CACHED};
use crate::filesystem::pooled::{
    again, again_with, create_pool, disk_config, new_files, on_disk, open,
};

const FILES: [&str; 4] = ["a", "b", "c", "d"];
/// Sizes of records, the default among them.
const RECORD_SIZES: [u32; 3] = [16 << 10, 4 << 10, 128 << 10];
/// Largest size of a file, bytes.
const SIZE_MAX: u64 = 200_000;

/// The contents that a file may have after a crash: as of its last durable change, and after each change since.
type Versions = Vec<Vec<u8>>;

/// The files, by their index in [`FILES`].
type Model = Rc<RefCell<Vec<Versions>>>;

struct Work {
    bed: Bed<FileStore>,
    handles: Vec<Handle>,
    rng: Prng,
    model: Model,
    /// Number of the last change.
    change: u64,
}

impl Work {
    /// Adds the contents that a change makes.
    fn expect(&self, file: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let mut model = self.model.borrow_mut();
        let mut now = model[file].last().expect("one").clone();
        change(&mut now);
        model[file].push(now);
    }

    /// All changes of a file are durable.
    fn is_durable(&self, file: usize) {
        let mut model = self.model.borrow_mut();
        let last = model[file].pop();
        model[file] = last.into_iter().collect();
    }

    async fn write(&mut self, file: usize, is_durable: bool) {
        let len = match self.rng.below(3) {
            0 => 1 + self.rng.below(500),
            1 => 1 + self.rng.below(5000),
            _ => 1 + self.rng.below(60_000),
        };
        let small = self.rng.chance(0.3);
        let offset = self.rng.below(if small { 500 } else { SIZE_MAX - len });
        self.change += 1;
        let bytes: Vec<u8> = (0..len)
            .map(|n| ((self.change + n) % 251) as u8 + 1)
            .collect();
        self.expect(file, |now| {
            let end = (offset + len) as usize;
            if now.len() < end {
                now.resize(end, 0);
            }
            now[offset as usize..end].copy_from_slice(&bytes);
        });
        let mut data = io::pool().alloc(bytes.len()).await;
        data.copy_from_slice(&bytes);
        let stability = match is_durable {
            true => Stability::Durable,
            false => CACHED,
        };
        let (caller, of) = (&self.bed.caller, self.handles[file]);
        let written =
            self.bed
                .files
                .write(caller, of, WriteAt::Offset(offset), data.into(), stability);
        written.await.expect("written");
        if is_durable {
            self.is_durable(file);
        }
    }

    async fn set_size(&mut self, file: usize) {
        let size = self.rng.below(SIZE_MAX);
        self.expect(file, |now| now.resize(size as usize, 0));
        let set = self.bed.set_size(self.handles[file], size);
        set.await.expect("set");
    }

    async fn punch(&mut self, file: usize) {
        let start = self.rng.below(SIZE_MAX);
        let end = start + 1 + self.rng.below(SIZE_MAX);
        self.expect(file, |now| {
            let size = now.len() as u64;
            now[start.min(size) as usize..end.min(size) as usize].fill(0);
        });
        let (caller, of) = (&self.bed.caller, self.handles[file]);
        let punched = self
            .bed
            .files
            .allocate(caller, of, start..end, Allocate::Punch, false);
        punched.await.expect("punched");
    }

    async fn read(&mut self, file: usize) {
        let offset = self.rng.below(SIZE_MAX);
        let len = self.rng.below(50_000) as usize;
        let read = self.bed.read(self.handles[file], offset, len).await;
        let read = read.expect("read");
        let model = self.model.borrow();
        let now = model[file].last().expect("one");
        let start = (offset as usize).min(now.len());
        let end = (start + len).min(now.len());
        assert!(read == now[start..end], "{offset} {len}");
    }

    async fn step(&mut self) {
        let file = self.rng.below(FILES.len() as u64) as usize;
        match self.rng.below(12) {
            0..5 => self.write(file, false).await,
            5 => self.write(file, true).await,
            6 => self.set_size(file).await,
            7 => self.punch(file).await,
            8 => {
                let time = Duration::from_millis(self.rng.below(400));
                io::time::sleep(time).await;
            }
            _ => self.read(file).await,
        }
    }
}

/// The contents of a file after a power cut.
fn check(versions: &Versions, found: &[u8], of: &str) {
    let sizes = versions.iter().map(Vec::len);
    let possible = sizes.clone().min().unwrap_or(0)..=sizes.max().unwrap_or(0);
    let size = found.len();
    assert!(
        possible.contains(&size),
        "{of}: {size} bytes, not {possible:?}"
    );
    for (at, byte) in found.iter().enumerate() {
        let is_known = versions.iter().any(|v| v.get(at) == Some(byte));
        assert!(is_known, "{of}: byte {at} of {size} is {byte}");
    }
}

/// Checks the contents of a file after a power cut. They are durable now.
fn settle(versions: &mut Versions, found: Vec<u8>, of: &str) {
    check(versions, &found, of);
    *versions = vec![found];
}

async fn read_all(bed: &Bed<FileStore>, name: &str) -> Vec<u8> {
    let file = bed.lookup(bed.root, name).await.expect("found");
    let mut all = Vec::new();
    while (all.len() as u64) < file.size {
        let rest = file.size as usize - all.len();
        let read = bed.read(file.handle, all.len() as u64, rest).await;
        let read = read.expect("read");
        assert!(!read.is_empty(), "{name} ends early");
        all.extend(read);
    }
    all
}

async fn work(seed: u64, options: Options, model: Model, checkpoints: bool) {
    let pool = again_with(options).await;
    let bed = open(pool.filesystem("files").expect("it is there")).await;
    let mut handles = Vec::new();
    for (file, name) in FILES.into_iter().enumerate() {
        let found = read_all(&bed, name).await;
        settle(&mut model.borrow_mut()[file], found, name);
        let attributes = bed.lookup(bed.root, name).await.expect("found");
        handles.push(attributes.handle);
    }
    let rng = Prng::new(seed);
    let change = seed * 1000;
    let mut work = Work {
        bed,
        handles,
        rng,
        model,
        change,
    };
    loop {
        work.step().await;
        if checkpoints && work.rng.chance(0.02) {
            pool.checkpoint().await.expect("a checkpoint");
        }
    }
}

/// The hole must not hide the small file's contents, which are in a transaction, nor delete them when it is written back.
#[test]
fn a_small_write_after_a_hole_stays() {
    on_disk(|_| async {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await;
        let bed = open(store.expect("a filesystem")).await;
        let file = bed.file("file").await;
        bed.write(file, 0, &[1; 50_000]).await.expect("written");
        let punch = (0..50_000, Allocate::Punch);
        let punched = bed
            .files
            .allocate(&bed.caller, file, punch.0, punch.1, false);
        punched.await.expect("punched");
        bed.set_size(file, 0).await.expect("set");
        bed.write(file, 0, &[2; 300]).await.expect("written");
        assert_eq!(bed.read(file, 0, 1000).await.expect("read"), [2; 300]);
        let _proof = bed.store.durable(None).await.expect("durable");
        assert_eq!(bed.read(file, 0, 1000).await.expect("read"), [2; 300]);
    });
}

/// A file is cut within a block and grows again, and other metadata becomes durable before the cleared block.
#[test]
fn bytes_behind_a_cut_stay_hidden_where_a_power_cut_follows_the_growth() {
    Sim::new(0, SimConfig::default()).block_on(async {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let made = node.spawn(async {
            let pool = create_pool().await;
            let new = NewFilesystem {
                record_size: 16 << 10,
                ..new_files()
            };
            let store = pool.create_filesystem(new).await;
            let bed = open(store.expect("a filesystem")).await;
            let (file, other) = (bed.file("a").await, bed.file("b").await);
            // the record ends before the block, so that the block is changed by itself
            bed.write(file, 0, &[1; 4096]).await.expect("written");
            bed.set_size(file, 16 << 10).await.expect("set");
            let _proof = bed.store.durable(None).await.expect("durable");
            bed.write(file, 12 << 10, &[2; 4096])
                .await
                .expect("written");
            let _proof = bed.store.durable(None).await.expect("durable");
            bed.set_size(file, 13_000).await.expect("set");
            bed.set_size(file, 100_000).await.expect("set");
            let other = ObjectId(other.object);
            let _proof = bed.store.durable(Some(other)).await.expect("durable");
        });
        made.await.expect("it has power");
        node.power_cut();
        node.power_on();
        let read = node.spawn(async {
            let pool = again().await;
            let bed = open(pool.filesystem("files").expect("it is there")).await;
            read_all(&bed, "a").await
        });
        let found = read.await.expect("it has power");
        assert!(found.len() >= 13_000, "{}", found.len());
        assert!(found[12 << 10..13_000].iter().all(|byte| *byte == 2));
        assert!(found[13_000..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn contents_agree_with_the_model_and_power_cuts_keep_the_promises() {
    for seed in 0..40 {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let node = Node::new();
            node.create_disk("disk", disk_config());
            let made = node.spawn(async move {
                let pool = create_pool().await;
                let new = NewFilesystem {
                    record_size: RECORD_SIZES[seed as usize % RECORD_SIZES.len()],
                    ..new_files()
                };
                let store = pool.create_filesystem(new).await;
                let bed = open(store.expect("a filesystem")).await;
                for name in FILES {
                    bed.file(name).await;
                }
                pool.close().await.expect("closed");
            });
            made.await.expect("it has power");
            let model: Model = Rc::new(RefCell::new(vec![vec![Vec::new()]; FILES.len()]));
            let mut rng = Prng::new(seed);
            for round in 0..6 {
                let options = Options {
                    durable_writes: match seed % 2 {
                        0 => DurableWrites::Journal,
                        _ => DurableWrites::Blocks,
                    },
                    ..Options::default()
                };
                let work = work(seed * 10 + round, options, model.clone(), round % 2 == 1);
                let working = node.spawn(work);
                let time = Duration::from_micros(1_050_000 + rng.below(3_000_000));
                let ended = io::timeout(time, working).await;
                assert!(ended.is_err(), "seed {seed}: a panic in round {round}");
                node.power_cut();
                node.power_on();
            }
        });
    }
}
