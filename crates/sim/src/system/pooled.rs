//! A pool on the server's disks, whose volume or filesystem is served instead of the raw disk.
//!
//! **Owns** its opening and the churn of its device classes. **Called by** scenarios `shards`, `nfs` and `nfs_rdma`: the pool's owner is a task of the server's first
//! shard, and requests arrive on the others, if there are any.

use crate::classes::{Classes, caches};
use crate::model::Violation;
use crate::{offline, raidz, workers};
use backend::BlockBackend;
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::rng::Prng;
use io::spawn;
use io::time::sleep;
use pool::filesystem::FileSystem;
use pool::format::{ChecksumKind, Host, JournalLayout, Packing, Sync};
use pool::vdev::{Layout, OpenOptions, PoolSpec, Scan, VdevSpec, create, open, scan};
use pool::{DurableWrites, FileStore, NewFilesystem, NewVolume, Options, Pool};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Name of the volume or filesystem.
const SERVED: &str = "served";
/// Identifies the filesystem in handles.
const FSID: u64 = 7;
/// Size of a disk, bytes.
pub(super) const DISK_SIZE: u64 = 64 << 20;

/// Longest pause before vdevs or the cache device change.
pub(super) const CHURN_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Parameters that the seed chooses.
#[derive(Debug, Clone)]
pub(super) struct PoolPlan {
    /// Number of disks. All of them are members of one vdev.
    pub(super) disks: usize,
    pub(super) layout: Layout,
    pub(super) volume_size: u64,
    pub(super) block_size: u32,
    pub(super) record_size: u32,
    /// Where small durable writes go first.
    pub(super) durable_writes: DurableWrites,
    /// Vdevs of other classes, each on a disk of its own, and a cache device.
    pub(super) classes: Classes,
    /// Whether members fail for a while.
    pub(super) members_fail: bool,
    /// Pause between two requests for a checkpoint.
    pub(super) checkpoints: Duration,
}

/// Ends the run if a promise was broken.
fn kept(promise: Result<(), Violation>) {
    promise.unwrap_or_else(|violation| panic!("{}", violation.0));
}

/// The name of the disk of this number.
pub(super) fn disk_name(number: usize) -> String {
    match number {
        0 => "disk".into(),
        _ => format!("disk{number}"),
    }
}

async fn disk(number: usize) -> Disk {
    loop {
        match Disk::open(disk_name(number), DiskOptions::default()).await {
            Ok(disk) => return disk,
            // Requests of a killed process still hold the disk.
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(e) => panic!("a disk that is there opens: {e}"),
        }
    }
}

impl PoolPlan {
    /// Makes the vdev a raidz of few members.
    pub(super) fn stripe(&mut self, rng: &mut Prng) {
        let (parity, members) = raidz::draw(rng);
        self.layout = Layout::Raidz {
            parity: parity as u8,
        };
        self.disks = members;
    }

    /// Most members that may fail.
    pub(super) fn failing_max(&self) -> usize {
        self.disks - self.layout.needed(self.disks)
    }

    async fn open_disks(&self) -> Vec<Disk> {
        let mut disks = Vec::new();
        for number in 0..self.disks {
            disks.push(disk(number).await);
        }
        disks
    }

    /// All disks with labels.
    async fn all_disks(&self) -> Vec<Disk> {
        let mut disks = self.open_disks().await;
        disks.extend(self.classes.disks().await);
        disks
    }

    /// The used bytes by the offline reader, which must find no damage. `None` without a pool on the disks, and where members fail.
    async fn inspect(&self) -> Option<u64> {
        if self.members_fail {
            return None;
        }
        let disks = offline::labelled(self.all_disks().await).await;
        let found = offline::inspect(disks).await;
        let found = found.unwrap_or_else(|violation| panic!("{}", violation.0))?;
        if let Some(finding) = found.damage.first() {
            kept(Err(offline::wrong(finding)));
        }
        Some(found.taken)
    }

    /// Opens the pool in the incarnation of this number; creates it if it does not exist.
    pub(super) async fn open(&self, life: u64) -> Pool {
        let host = Host {
            id: [7; 16],
            name: "sim".into(),
        };
        let inspected = self.inspect().await;
        let Scan {
            mut pools, unread, ..
        } = scan(self.all_disks().await).await;
        let found = pools.pop().filter(|found| !found.uberblocks.is_empty());
        let opened = match found {
            Some(found) => open(found, OpenOptions::new(host)).await,
            None => {
                drop(unread);
                let (layout, members) = (self.layout, self.open_disks().await);
                let mut vdevs = vec![VdevSpec::new(layout, members)];
                vdevs.extend(self.classes.vdevs().await);
                let mut spec = PoolSpec::new("tank", vdevs, host);
                spec.journal = Some(JournalLayout {
                    segment_size: 256 << 10,
                    segments: 8,
                });
                spec.force = true;
                create(spec).await
            }
        };
        let opened = opened.unwrap_or_else(|e| panic!("the disks do not open: {e}"));
        let options = Options {
            cache_bytes: 64 << 10,
            record_cache_bytes: 256 << 10,
            dirty_bytes: 1 << 20,
            durable_writes: self.durable_writes,
            worker_bytes_min: workers::least(&mut Prng::new(self.volume_size)),
            ..Options::default()
        };
        let pool = Pool::open(opened, options).await;
        let pool = pool.unwrap_or_else(|e| panic!("the pool does not open: {e}"));
        if let Some(taken) = inspected {
            kept(offline::compare(taken, &pool));
        }
        workers::give(&pool, &options);
        let vdevs = self.classes.without_cache();
        kept(vdevs.begin(&pool, self.volume_size ^ life).await);
        pool
    }

    /// Returns the pool's volume; creates it if it does not exist.
    pub(super) async fn volume(&self, pool: &Pool) -> Arc<dyn BlockBackend> {
        let volume = match pool.volume(SERVED) {
            Some(volume) => volume,
            None => {
                let made = pool.create_volume(self.new_volume()).await;
                made.unwrap_or_else(|e| panic!("a volume cannot be made: {e}"))
            }
        };
        Arc::new(volume)
    }

    /// Opens the pool's filesystem; creates it if it does not exist.
    pub(super) async fn filesystem(&self, pool: &Pool) -> FileSystem<FileStore> {
        let store = match pool.filesystem(SERVED) {
            Some(store) => store,
            None => {
                let made = pool.create_filesystem(self.new_filesystem()).await;
                made.unwrap_or_else(|e| panic!("a filesystem cannot be made: {e}"))
            }
        };
        let files = FileSystem::open(store, FSID).await;
        files.unwrap_or_else(|e| panic!("the filesystem does not open: {e}"))
    }

    /// Requests checkpoints as long as the server runs. One that fails, on a full disk, is no fault of the server.
    pub(super) async fn request_checkpoints(self, pool: Rc<Pool>) {
        loop {
            sleep(self.checkpoints).await;
            let _done = pool.checkpoint().await;
        }
    }

    /// Opens the cache device, which may hang, beside the clients. Starts the churn of the incarnation of this number: it and vdevs of other
    /// classes leave and return.
    pub(super) fn begin_churn(&self, pool: &Rc<Pool>, life: u64) {
        let (classes, seed) = (self.classes, self.volume_size ^ life);
        let of = pool.clone();
        drop(spawn(async move { kept(classes.churn(of, seed).await) }));
        if classes.has_cache {
            let of = pool.clone();
            drop(spawn(async move {
                caches::open(&of).await;
                kept(caches::churn(of, CHURN_PAUSE_MAX, seed).await);
            }));
        }
    }

    fn new_filesystem(&self) -> NewFilesystem {
        NewFilesystem {
            record_size: self.record_size,
            sync: Sync::Standard,
            compression: Packing::Off,
            checksum: ChecksumKind::Xxh3,
            ..NewFilesystem::new(SERVED)
        }
    }

    fn new_volume(&self) -> NewVolume {
        NewVolume {
            name: SERVED.into(),
            size: self.volume_size,
            block_size: self.block_size,
            record_size: self.record_size,
            sync: Sync::Standard,
            compression: Packing::Off,
            checksum: ChecksumKind::Xxh3,
        }
    }
}
