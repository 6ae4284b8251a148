//! Power cuts of a pool's server at every flush of a real run.
//!
//! The server records all writes to its disks (`io::record`). The test replays the recording onto other files and
//! cuts the power just before the end of each flush. Writes that earlier flushes covered are there. Of the later
//! writes, first none is there; then each is there in some sectors, in full, or not at all, as a seed decides. The
//! pool must open, every block must have a content that the answers until then allow, and the offline reader must
//! find no damage. The cut comes before the end of the flush, because after it a promise without a flush would be
//! kept by accident.

use crate::common::{BASE, NQN, Place, Server, client, connect};
use ::cuts::known::Known;
use ::cuts::medium::{Medium, Write};
use ::cuts::stamp;
use ::cuts::verdict::{self, BLOCK, Expected};
use io::rng::Prng;
use nvmf::wire::command::Nsid;
use nvmf_initiator::{Namespace, WriteOptions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const DISKS: [&str; 2] = ["a.img", "b.img"];
/// The disks after a power cut.
const CUT: [&str; 2] = ["cut-a.img", "cut-b.img"];
const DISK_SIZE: u64 = 96 << 20;
const WRITERS: u64 = 4;
const BLOCKS: u64 = 128;
/// Writes of the run.
const WRITES: u64 = 400;
/// A run has as many flushes at least.
const CUTS_MIN: u64 = 60;

/// An operation that was begun and that no flush covers.
struct Pending {
    number: u64,
    ended: bool,
    through: bool,
    write: Write,
}

/// A disk as it is gone through again.
struct Image {
    medium: Medium,
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
        for pending in done {
            self.medium.apply(&pending.write).expect("write");
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
    /// The entry that is next.
    at: usize,
    /// The flush that is about to end.
    ending: Option<u64>,
}

impl Replay {
    fn new(place: &Place, record: Vec<u8>) -> Self {
        let mut images = BTreeMap::new();
        for (name, cut) in DISKS.iter().zip(CUT) {
            let mut hasher = DefaultHasher::new();
            place.path(name).as_path().hash(&mut hasher);
            let image = Image {
                medium: Medium::create(&place.path(cut), DISK_SIZE).expect("made"),
                pending: Vec::new(),
                flushes: BTreeMap::new(),
            };
            images.insert(hasher.finish(), image);
        }
        Self {
            images,
            record,
            at: 0,
            ending: None,
        }
    }

    /// Lets a flush end that was about to, and goes on until another is; where in the record that ends, if there is one.
    fn next_flush(&mut self) -> Option<u64> {
        let ended = self.ending.take();
        for image in self.images.values_mut() {
            ended.into_iter().for_each(|number| image.end(number));
        }
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
                let mut images = self.images.values_mut();
                if images.any(|image| image.flushes.contains_key(&number)) {
                    self.ending = Some(number);
                    return Some((self.at - 40) as u64);
                }
                self.images.values_mut().for_each(|image| image.end(number));
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
                write: Write { offset, bytes },
            });
        }
        None
    }
}

impl Image {
    /// An operation ended.
    fn end(&mut self, number: u64) {
        if let Some(covered) = self.flushes.remove(&number) {
            self.apply(&covered);
        }
        let mut through = false;
        for pending in self.pending.iter_mut().filter(|p| p.number == number) {
            pending.ended = true;
            through = pending.through;
        }
        if through {
            self.apply(&[number]);
        }
    }
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
        known.borrow_mut().asked(block, len(), writes);
        let mut buf = io::pool().alloc(BLOCK).await;
        stamp::fill(block, writes, &mut buf);
        let written = namespace.write(block, Arc::new(buf), WriteOptions { fua });
        written.await.expect("written");
        pending.push((block, writes));
        if fua {
            let last = pending.pop().expect("just pushed");
            known.borrow_mut().promised(block, len(), last.1);
        }
        if rng.chance(0.1) {
            namespace.flush().await.expect("flushed");
            for (block, write) in pending.drain(..) {
                known.borrow_mut().promised(block, len(), write);
            }
        }
    }
}

/// Snapshots that were promised, and when.
type Snapshots = Vec<(u64, String)>;

/// The run: what is known of it.
async fn run(server: &Server, record: PathBuf) -> (Known, Snapshots) {
    let len = || std::fs::metadata(&record).expect("a record").len();
    let mut snapshots = Vec::new();
    let known = Rc::new(RefCell::new(Known::new(BLOCKS)));
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
        server.ok(&["snapshot", "create", &format!("tank/vm1@{part}")]);
        snapshots.push((len(), part.to_string()));
        server.ok(&["pool", "checkpoint", "tank"]);
    }
    for writer in writers {
        writer.await.expect("it ran");
    }
    drop(controller);
    (known.take(), snapshots)
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
        let (known, snapshots) = run(&server, record.clone()).await;
        drop(server);
        let bytes = std::fs::read(&record).expect("read");
        let mut replay = Replay::new(&place, bytes);
        let cut = CUT.map(|name| place.path(name));
        let mut rng = Prng::new(7);
        let mut cuts = 0;
        while let Some(by) = replay.next_flush() {
            if by < whole {
                continue;
            }
            let by_then = snapshots.iter().filter(|(moment, _)| *moment <= by);
            let by_then: Vec<String> = by_then.map(|(_, name)| name.clone()).collect();
            let expected = Expected {
                volume: "vm1",
                known: &known,
                moment: by,
                snapshots: &by_then,
            };
            let opened = verdict::opens(&cut, expected).await;
            opened.expect("it opens with what was promised, all else lost");
            let mut before = Vec::new();
            for image in replay.images.values() {
                let pending = image.pending.iter().map(|p| &p.write);
                before.push(image.medium.cut(pending, &mut rng).expect("cut"));
            }
            let opened = verdict::opens(&cut, expected).await;
            opened.expect("it opens with what was promised");
            verdict::is_sound(&cut).await.expect("it is sound");
            for (image, before) in replay.images.values().zip(before) {
                image.medium.mend(before).expect("mended");
            }
            cuts += 1;
        }
        assert!(cuts >= CUTS_MIN, "{cuts} flushes");
    });
}
