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
use ::cuts::medium::Medium;
use ::cuts::recording::Recording;
use ::cuts::stamp;
use ::cuts::verdict::{self, BLOCK, Expected};
use io::rng::Prng;
use nvmf::wire::command::Nsid;
use nvmf_initiator::{Namespace, WriteOptions};
use std::cell::{Cell, RefCell};
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

/// The disks at the beginning of the recording.
fn replay(place: &Place) -> Recording {
    let disks = DISKS.iter().zip(CUT);
    Recording::new(disks.map(|(name, cut)| {
        let medium = Medium::create(&place.path(cut), DISK_SIZE);
        (place.path(name), medium.expect("made"))
    }))
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
        let mut replay = replay(&place);
        let cut = CUT.map(|name| place.path(name));
        let mut rng = Prng::new(7);
        let mut cuts = 0;
        while let Some(by) = replay.next_flush(&bytes) {
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
            for image in replay.images() {
                let cut = image.medium().cut(image.pending(), &mut rng);
                before.push(cut.expect("cut"));
            }
            let opened = verdict::opens(&cut, expected).await;
            opened.expect("it opens with what was promised");
            verdict::is_sound(&cut).await.expect("it is sound");
            for (image, before) in replay.images().zip(before) {
                image.medium().mend(before).expect("mended");
            }
            cuts += 1;
        }
        assert!(cuts >= CUTS_MIN, "{cuts} flushes");
    });
}
