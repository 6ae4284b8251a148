//! Pools on a raidz, in the simulator.

mod expand;
mod full;
mod inspect;
mod journal_move;
mod log_class;
mod members;
mod moved_files;
mod mover;
mod moves_cut;
mod relocated;
mod relocated_cut;
mod remove;
mod remove_cut;
mod scrub;
mod spares;

use crate::blocks::{byte, first, free_all, simulated, sound, volume, write};
use backend::{BlockBackend, Extent, Lba, StorageError};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Node};
use pool::format::Host;
use pool::vdev::{Layout, PoolSpec, VdevSpec, create};
use pool::{Options, Pool, Volume};

/// Members, parity, and MiB of each member.
type Shape = (usize, u8, u64);

async fn disks(first: usize, (members, _, mib): Shape) -> Vec<Disk> {
    let config = DiskConfig {
        size: mib << 20,
        logical_block: 4096,
        physical_block: 4096,
        atomic_unit: 4096,
        ..DiskConfig::default()
    };
    let mut disks = Vec::new();
    for n in first..first + members {
        let path = format!("d{n}");
        Node::current().create_disk(&path, config.clone());
        let disk = Disk::open(path, OpenOptions::default()).await;
        disks.push(disk.expect("open"));
    }
    disks
}

/// A vdev of new disks from `d<first>` on.
async fn raidz(first: usize, shape: Shape) -> VdevSpec {
    VdevSpec::new(Layout::Raidz { parity: shape.1 }, disks(first, shape).await)
}

async fn make(shape: Shape) -> Pool {
    make_with(shape, Options::default()).await
}

async fn make_with(shape: Shape, options: Options) -> Pool {
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![raidz(0, shape).await], host);
    let opened = create(spec).await.expect("create");
    let pool = Pool::open(opened, options).await;
    pool.expect("open")
}

/// Writes `blocks` blocks at a time from `from` on until a write is refused. Returns where that was.
async fn fill(volume: &Volume, from: u64, blocks: usize) -> u64 {
    let mut at = from;
    loop {
        match write(volume, at, blocks, byte(at)).await {
            Ok(()) => at += blocks as u64,
            Err(error) => {
                assert_eq!(error, StorageError::NoSpace);
                return at;
            }
        }
    }
}

async fn deallocate(volume: &Volume, block: u64, blocks: u64) {
    let start = Lba(block);
    let gone = volume.deallocate(Extent { start, blocks }).await;
    gone.expect("a full pool deallocates");
}
