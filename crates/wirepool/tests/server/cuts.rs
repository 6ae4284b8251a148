//! A pool's server whose power goes at every flush of a real run.
//!
//! The server records what it asks its disks for (`io::record`). Then the run is gone through again on other files: at the end
//! of each flush they have what flushes covered, and of what else was written by then each sector, or all, or nothing, as a
//! seed says. There the pool must open, every block must be what a client may expect that was answered by then, and the
//! offline reader must find nothing wrong.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::rng::Prng;
use nvmf::initiator::{Namespace, WriteOptions};
use nvmf::wire::command::Nsid;
use pool::format::Host;
use pool::vdev::{OpenOptions, open, scan};
use pool::{Options, Pool};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const DISKS: [&str; 2] = ["a.img", "b.img"];
/// What they are after a power cut.
const CUT: [&str; 2] = ["cut-a.img", "cut-b.img"];
const DISK_SIZE: u64 = 96 << 20;
const WRITERS: u64 = 4;
const BLOCKS: u64 = 128;
const BLOCK: usize = 4096;
/// Writes of the run.
const WRITES: u64 = 400;
/// What a power cut leaves whole, bytes.
const SECTOR: usize = 512;
/// The offline reader looks at every so many cuts.
const INSPECT_EVERY: u64 = 8;
/// A run has as many flushes at least.
const CUTS_MIN: u64 = 60;

/// When something of a block was asked for, or promised to be durable: bytes of the record by then, and which write.
type Moments = Vec<Vec<(u64, u64)>>;

#[derive(Default)]
struct Known {
    asked: Moments,
    promised: Moments,
}

impl Known {
    fn range(&self, block: u64, by: u64) -> std::ops::RangeInclusive<u64> {
        let last = |moments: &Moments| {
            let by_then = moments[block as usize].iter().filter(|(at, _)| *at <= by);
            by_then.map(|(_, write)| *write).max().unwrap_or(0)
        };
        last(&self.promised)..=last(&self.asked)
    }
}

/// An operation that was begun and that no flush covers.
struct Pending {
    number: u64,
    ended: bool,
    through: bool,
    offset: u64,
    bytes: Vec<u8>,
}

/// A disk as it is gone through again.
struct Image {
    file: File,
    pending: Vec<Pending>,
    /// Flushes under way, and what each covers.
    flushes: BTreeMap<u64, Vec<u64>>,
}

impl Image {
    fn apply(&mut self, covered: &[u64]) {
        let (done, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|p| covered.contains(&p.number));
        self.pending = rest;
        for Pending { offset, bytes, .. } in done {
            self.file.write_all_at(&bytes, offset).expect("write");
        }
    }

    /// The power goes. Returns what was there where something is now that a flush did not cover.
    fn cut(&self, rng: &mut Prng) -> Vec<(u64, Vec<u8>)> {
        let mut before = Vec::new();
        for pending in &self.pending {
            let fate = rng.below(3);
            let mut was = vec![0; pending.bytes.len()];
            self.file
                .read_exact_at(&mut was, pending.offset)
                .expect("read");
            let mut now = was.clone();
            for (new, old) in pending.bytes.chunks(SECTOR).zip(now.chunks_mut(SECTOR)) {
                if fate == 0 || fate == 1 && rng.chance(0.5) {
                    old.copy_from_slice(new);
                }
            }
            self.file.write_all_at(&now, pending.offset).expect("write");
            before.push((pending.offset, was));
        }
        before
    }

    fn mend(&self, before: Vec<(u64, Vec<u8>)>) {
        for (offset, was) in before.into_iter().rev() {
            self.file.write_all_at(&was, offset).expect("write");
        }
    }
}

fn word(entry: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(entry[at * 8..][..8].try_into().expect("eight bytes"))
}

/// The disks on their way through the record.
struct Replay {
    images: BTreeMap<u64, Image>,
    record: Vec<u8>,
    at: usize,
}

impl Replay {
    fn new(place: &Place, record: Vec<u8>) -> Self {
        let mut images = BTreeMap::new();
        for (name, cut) in DISKS.iter().zip(CUT) {
            let mut hasher = DefaultHasher::new();
            place.path(name).as_path().hash(&mut hasher);
            let mut options = File::options();
            options.read(true).write(true).create_new(true);
            let file = options.open(place.path(cut)).expect("made");
            file.set_len(DISK_SIZE).expect("sparse");
            let image = Image {
                file,
                pending: Vec::new(),
                flushes: BTreeMap::new(),
            };
            images.insert(hasher.finish(), image);
        }
        Self {
            images,
            record,
            at: 0,
        }
    }

    /// Goes on to the end of the next flush; false if there is none.
    fn next_flush(&mut self) -> bool {
        while self.at + 40 <= self.record.len() {
            let entry = &self.record[self.at..];
            let [kind, number, offset, len, disk] = [0, 1, 2, 3, 4].map(|at| word(entry, at));
            let bytes = match kind {
                1 | 2 => entry[40..40 + len as usize].to_vec(),
                3 => vec![0; len as usize],
                _ => Vec::new(),
            };
            self.at += 40 + if kind == 3 { 0 } else { bytes.len() };
            if kind == 5 {
                if self.images.values_mut().any(|image| image.end(number)) {
                    return true;
                }
                continue;
            }
            let image = self.images.get_mut(&disk).expect("a disk of the pool");
            if kind == 4 {
                let ended = image.pending.iter().filter(|p| p.ended);
                let covered = ended.map(|p| p.number).collect();
                image.flushes.insert(number, covered);
                continue;
            }
            image.pending.push(Pending {
                number,
                ended: false,
                through: kind == 2,
                offset,
                bytes,
            });
        }
        false
    }
}

impl Image {
    /// An operation ended. Whether it was a flush.
    fn end(&mut self, number: u64) -> bool {
        if let Some(covered) = self.flushes.remove(&number) {
            self.apply(&covered);
            return true;
        }
        let mut through = false;
        for pending in self.pending.iter_mut().filter(|p| p.number == number) {
            pending.ended = true;
            through = pending.through;
        }
        if through {
            self.apply(&[number]);
        }
        false
    }
}

/// A block that tells which write it is, everywhere.
fn fill(block: u64, write: u64, out: &mut [u8]) {
    for (at, word) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = (write << 24 ^ block << 10 ^ at as u64).to_le_bytes();
    }
}

fn which(block: u64, bytes: &[u8]) -> u64 {
    if bytes.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let write = (word(bytes, 0) ^ block << 10) >> 24;
    let mut whole = vec![0; bytes.len()];
    fill(block, write, &mut whole);
    assert!(
        whole == bytes,
        "block {block} is a mixture, of write {write}"
    );
    write
}

/// Writes until there were enough writes.
async fn write(
    namespace: Namespace,
    record: PathBuf,
    known: Rc<RefCell<Known>>,
    writer: u64,
    count: Rc<Cell<u64>>,
) {
    let len = || std::fs::metadata(&record).expect("a record").len();
    let mut rng = Prng::new(writer);
    let mut pending = Vec::new();
    let mut writes = 0;
    while count.get() < WRITES {
        count.set(count.get() + 1);
        writes += 1;
        let block = rng.below(BLOCKS / WRITERS) * WRITERS + writer;
        let fua = rng.chance(0.4);
        known.borrow_mut().asked[block as usize].push((len(), writes));
        let mut buf = io::pool().alloc(BLOCK).await;
        fill(block, writes, &mut buf);
        let written = namespace.write(block, Arc::new(buf), WriteOptions { fua });
        written.await.expect("written");
        pending.push((block, writes));
        if fua {
            let last = pending.pop().expect("just pushed");
            known.borrow_mut().promised[block as usize].push((len(), last.1));
        }
        if rng.chance(0.1) {
            namespace.flush().await.expect("flushed");
            for (block, write) in pending.drain(..) {
                known.borrow_mut().promised[block as usize].push((len(), write));
            }
        }
    }
}

/// The run: what is known of it.
async fn run(server: &Server, record: PathBuf) -> Known {
    let moments = || vec![Vec::new(); BLOCKS as usize];
    let known = Rc::new(RefCell::new(Known {
        asked: moments(),
        promised: moments(),
    }));
    let controller = connect(server.client()).await;
    let count = Rc::new(Cell::new(0));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        let (known, count) = (known.clone(), count.clone());
        let write = write(namespace, record.clone(), known, writer, count);
        writers.push(io::spawn(write));
    }
    for part in 1..4 {
        while count.get() < part * WRITES / 4 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        let name = format!("tank/vm1@{part}");
        server.ok(&["snapshot", "create", &name]);
        server.ok(&["pool", "checkpoint", "tank"]);
    }
    for writer in writers {
        writer.await.expect("it ran");
    }
    drop(controller);
    known.take()
}

/// Opens the pool as the cut left it, writing nothing, and compares every block.
async fn check(place: &Place, known: &Known, by: u64) {
    let mut disks = Vec::new();
    for name in CUT {
        let options = DiskOptions {
            read_only: true,
            ..DiskOptions::default()
        };
        disks.push(Disk::open(place.path(name), options).await.expect("open"));
    }
    let found = scan(disks).await.pools.pop().expect("a pool");
    let options = OpenOptions {
        read_only: true,
        force_host: true,
        ..OpenOptions::new(Host::new([1; 16], "elsewhere"))
    };
    let opened = open(found, options).await.expect("its devices open");
    let pool = Pool::open(opened, Options::default()).await;
    let pool = pool.expect("it opens");
    let volume = pool.volume("vm1").expect("it is there");
    for block in 0..BLOCKS {
        let at = Extent {
            start: Lba(block),
            blocks: 1,
        };
        let read = volume.read(at).await.expect("read");
        let mut bytes = vec![0; BLOCK];
        read.copy_to(&mut bytes);
        let (write, may) = (which(block, &bytes), known.range(block, by));
        assert!(
            may.contains(&write),
            "block {block} has write {write}, not {may:?}"
        );
    }
    pool.close().await.expect("closed");
}

#[test]
fn a_pool_opens_wherever_the_power_goes() {
    let place = Place::new(BASE);
    let record = place.path("record");
    let server = place.start_after(&format!("export WIREPOOL_RECORD={}", record.display()));
    let create = ["pool", "create", "tank", "mirror"];
    server.ok(&[&create[..], &DISKS, &["--size", "96M"]].concat());
    server.ok(&["volume", "create", "tank/vm1", "--size", "8M"]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN, "--host", "any"]);
    let whole = std::fs::metadata(&record).expect("a record").len();
    client(async move {
        let known = run(&server, record.clone()).await;
        drop(server);
        let bytes = std::fs::read(&record).expect("read");
        let mut replay = Replay::new(&place, bytes);
        let mut rng = Prng::new(7);
        let mut cuts = 0;
        while replay.next_flush() {
            let by = replay.at as u64;
            if by < whole {
                continue;
            }
            let images = replay.images.values();
            let before: Vec<_> = images.map(|image| image.cut(&mut rng)).collect();
            check(&place, &known, by).await;
            if cuts % INSPECT_EVERY == 0 {
                place.inspect_sound(&CUT);
            }
            for (image, before) in replay.images.values().zip(before) {
                image.mend(before);
            }
            cuts += 1;
        }
        assert!(cuts >= CUTS_MIN, "{cuts} flushes");
    });
}
