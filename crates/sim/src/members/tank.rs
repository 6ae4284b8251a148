//! The pool under test: creates, opens, forces, writes and checks it.
//!
//! **Owns** all calls of the pool's interface, and the expected contents of its volume. **Called by** [`super::world`], on
//! the simulated machine. A disk is named by its number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::remark;
use io::time::sleep;
use pool::format::{
    ChecksumKind, Host, JournalLayout, LABEL_SIZE, Label, LabelEpoch, Packing, Sync, VdevClass,
    VdevOffset,
};
use pool::vdev::{
    OpenOptions, PoolSpec, SetupError, VdevSpec, Witness, Witnessed, create, open, scan,
};
use pool::{NewVolume, Options, Pool};

use super::start::Start;
use crate::access::{Access, Direct};
use crate::classes::{self, caches};
use crate::model::Violation;

const VOLUME: &str = "members";
const RECORDS: u64 = 4;
const RECORD: usize = 4096;
/// Times that each record is read after an opening: a cache device takes it at the second one, and answers the third one.
const READS: usize = 3;

/// The epoch of the last labels, remembered outside of the disks.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<AtomicU64>);

impl Memory {
    /// The last recorded epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Witness for Memory {
    fn last(&self) -> Option<LabelEpoch> {
        Some(LabelEpoch(self.0.load(Ordering::SeqCst)))
    }

    fn record(&self, epoch: LabelEpoch) -> Witnessed {
        self.0.store(epoch.0, Ordering::SeqCst);
        Box::pin(async { true })
    }
}

pub(super) fn wrong(what: &str, error: impl std::fmt::Display) -> Violation {
    Violation(format!("{what}: {error}"))
}

pub(super) fn name(disk: usize) -> String {
    format!("d{disk}")
}

pub(super) async fn opened(disk: usize, read_only: bool) -> Disk {
    let options = DiskOptions {
        read_only,
        ..DiskOptions::default()
    };
    loop {
        match Disk::open(name(disk), options.clone()).await {
            Ok(disk) => return disk,
            // Requests of a killed process still hold the disk.
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(e) => panic!("a disk that is there opens: {e}"),
        }
    }
}

async fn disks(which: &[usize]) -> Vec<Disk> {
    let mut disks = Vec::new();
    for disk in which {
        disks.push(opened(*disk, false).await);
    }
    disks
}

/// Reads the first copy of a disk's label. Without power cuts all copies are the same.
pub(super) async fn label(disk: usize) -> Option<Label> {
    let disk = opened(disk, true).await;
    let (read, buf) = disk.read(io::pool().alloc(LABEL_SIZE).await, 0).await;
    read.expect("a disk that is there is read");
    Label::decode(&buf, VdevOffset(0)).ok()
}

fn host() -> Host {
    Host::new([7; 16], "sim")
}

/// Options of the pool. Without a record cache in memory, reads come to the cache device.
fn of_pool(start: Start) -> Options {
    let mut options = Options::default();
    if start.has_cache {
        options.record_cache_bytes = 0;
    }
    options
}

/// Creates a pool with the vdev under test, and writes to it. The first disks are members of this vdev.
pub(super) async fn make(start: Start, memory: Option<Memory>) -> Result<Pool, Violation> {
    let all: Vec<usize> = (0..start.members + start.disks_beside()).collect();
    let mut tested = disks(&all).await;
    let beside = tested.split_off(start.members).into_iter();
    let mut vdevs: Vec<VdevSpec> = beside.map(|disk| vec![disk].into()).collect();
    vdevs.push(VdevSpec {
        class: start.class,
        ..VdevSpec::new(start.layout, tested)
    });
    let mut spec = PoolSpec::new("tank", vdevs, host());
    spec.journal = Some(JournalLayout {
        segment_size: 1 << 20,
        segments: 4,
    });
    let opened = create(spec).await.map_err(|e| wrong("making it", e))?;
    if let Some(memory) = memory {
        let set = opened.vdevs.set_witness(Arc::new(memory)).await;
        set.map_err(|e| wrong("remembering", e))?;
    }
    let pool = Pool::open(opened, of_pool(start)).await;
    let pool = pool.map_err(|e| wrong("opening it", e))?;
    if start.class == VdevClass::Special {
        classes::set_small(&pool, RECORD as u64).await?;
        classes::moved(&pool, 0).await?;
    }
    if start.has_cache {
        caches::open(&pool).await;
    }
    let new = NewVolume {
        name: VOLUME.into(),
        size: 1 << 20,
        block_size: RECORD as u32,
        record_size: RECORD as u32,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    let volume = pool.create_volume(new).await;
    drop(volume.map_err(|e| wrong("a volume", e))?);
    write(&pool, 1).await?;
    Ok(pool)
}

fn content(version: u8, record: u64) -> Vec<u8> {
    let mut bytes = vec![version; RECORD];
    bytes[..8].copy_from_slice(&record.to_le_bytes());
    bytes
}

/// Opens the pool of these disks. A forced pool is opened without its trees.
pub(super) async fn import(
    start: Start,
    which: Vec<usize>,
    memory: Option<Memory>,
) -> Result<Pool, SetupError> {
    let found = scan(disks(&which).await).await.pools.pop();
    let found = found.ok_or(SetupError::Device)?;
    let mut options = OpenOptions::new(host());
    options.witness = memory.map(|m| Arc::new(m) as Arc<dyn Witness>);
    let opened = open(found, options).await?;
    let pool = Pool::open(opened, of_pool(start)).await;
    let pool = pool.expect("the trees of members that are in are whole");
    if start.has_cache {
        caches::open(&pool).await;
    }
    Ok(pool)
}

pub(super) async fn force(which: Vec<usize>) -> Result<(), SetupError> {
    let found = scan(disks(&which).await).await.pools.pop();
    let mut options = OpenOptions::new(host());
    options.force_missing = true;
    let opened = open(found.ok_or(SetupError::Device)?, options).await?;
    let flushed = opened.vdevs.flush().await;
    flushed.map(drop).map_err(|_| SetupError::Device)
}

pub(super) async fn write(pool: &Pool, version: u8) -> Result<(), Violation> {
    let volume = pool.volume(VOLUME).expect("it is there");
    for record in 0..RECORDS {
        let mut buf = io::pool().alloc(RECORD).await;
        buf.copy_from_slice(&content(version, record));
        let written = volume.write(Lba(record), buf).await;
        written.map_err(|e| wrong("a write", e))?;
    }
    let flushed = volume.flush().await;
    flushed.map(drop).map_err(|e| wrong("a flush", e))
}

pub(super) async fn check(pool: &Pool, version: u8) -> Result<(), Violation> {
    let volume = pool.volume(VOLUME).expect("it is there");
    let access = Direct(Arc::new(volume));
    for _ in 0..READS {
        for record in 0..RECORDS {
            if access.read(record, 1).await != Ok(content(version, record)) {
                return Err(Violation("a durable write is not there".into()));
            }
        }
    }
    // the state asks the clock, which a remark must not
    let caches = pool.caches();
    remark(|| format!("cache       is read: {caches:?}"));
    let failed = |e: pool::Error| wrong("scrubbing", e);
    let mut next = Some(pool.begin_scrub().await.map_err(failed)?);
    while let Some(at) = next {
        let found;
        (found, next) = pool.scrub_part(at, 1 << 20).await.map_err(failed)?;
        if !found.lost.is_empty() || !found.damaged.is_empty() {
            return Err(Violation(format!("a scrub found damage: {found:?}")));
        }
    }
    // A scrub may also repair copies of uberblocks, which a new member lacks.
    let vdevs = pool.vdevs().status();
    let is_wrong =
        |s: &&pool::vdev::MemberStatus| s.counters.checksum_errors + s.counters.read_errors > 0;
    if let Some(member) = vdevs.iter().flat_map(|v| &v.members).find(is_wrong) {
        let text = format!("a member that is in lacks something: {member:?}");
        return Err(Violation(text));
    }
    Ok(())
}
