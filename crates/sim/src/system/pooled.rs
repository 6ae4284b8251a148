//! A pool on the server's disk, whose volume is served instead of the raw disk.
//!
//! **Owns** its opening. **Called by** scenario `shards`: the pool's owner is a task of the server's first shard, and
//! requests arrive on the others.

use backend::BlockBackend;
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::time::sleep;
use pool::format::{ChecksumKind, Host, JournalLayout, Packing, Sync};
use pool::vdev::{OpenOptions, PoolSpec, Scan, create, open, scan};
use pool::{NewVolume, Options, Pool};
use std::sync::Arc;
use std::time::Duration;

/// Name of the volume.
const VOLUME: &str = "served";
/// Size of the disk, bytes.
pub(super) const DISK_SIZE: u64 = 64 << 20;

/// Parameters that the seed chooses.
#[derive(Debug, Clone)]
pub(super) struct PoolPlan {
    pub(super) volume_size: u64,
    pub(super) block_size: u32,
    pub(super) record_size: u32,
}

async fn disk() -> Disk {
    loop {
        match Disk::open("disk", DiskOptions::default()).await {
            Ok(disk) => return disk,
            // Requests of a killed process still hold the disk.
            Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
            Err(e) => panic!("a disk that is there opens: {e}"),
        }
    }
}

impl PoolPlan {
    /// Opens the pool and its volume; creates them if they do not exist.
    pub(super) async fn open(&self) -> (Pool, Arc<dyn BlockBackend>) {
        let host = Host {
            id: [7; 16],
            name: "sim".into(),
        };
        let Scan { mut pools, unread } = scan(vec![disk().await]).await;
        let found = pools.pop().filter(|found| !found.uberblocks.is_empty());
        let opened = match found {
            Some(found) => open(found, OpenOptions::new(host)).await,
            None => {
                drop(unread);
                let mut spec = PoolSpec::new("tank", vec![vec![disk().await]], host);
                spec.journal = Some(JournalLayout {
                    segment_size: 256 << 10,
                    segments: 8,
                });
                spec.force = true;
                create(spec).await
            }
        };
        let opened = opened.unwrap_or_else(|e| panic!("the disk does not open: {e}"));
        let options = Options {
            cache_bytes: 64 << 10,
            record_cache_bytes: 256 << 10,
            dirty_bytes: 1 << 20,
            ..Options::default()
        };
        let pool = Pool::open(opened, options).await;
        let pool = pool.unwrap_or_else(|e| panic!("the pool does not open: {e}"));
        let volume = match pool.volume(VOLUME) {
            Some(volume) => volume,
            None => {
                let made = pool.create_volume(self.volume()).await;
                made.unwrap_or_else(|e| panic!("a volume cannot be made: {e}"))
            }
        };
        (pool, Arc::new(volume))
    }

    fn volume(&self) -> NewVolume {
        NewVolume {
            name: VOLUME.into(),
            size: self.volume_size,
            block_size: self.block_size,
            record_size: self.record_size,
            sync: Sync::Standard,
            compression: Packing::Off,
            checksum: ChecksumKind::Xxh3,
        }
    }
}
