//! Pools on a raidz, in the simulator.

mod class_moves;
mod earlier_release;
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
mod special_class;
mod special_faults;

use crate::blocks::{byte, first, free_all, simulated, sound, volume, write};
use backend::{BlockBackend, Extent, Lba, StorageError};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::Host;
use pool::vdev::{Layout, PoolSpec, VdevSpec, create};
use pool::{Options, Pool, Volume};
use std::cell::Cell;
use std::rc::Rc;

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

/// Runs `first` on a machine, and `second` when it has power again. `first` has the power cut after a number of disk steps. The numbers are further and
/// further apart from run to run, until `first` ends before the cut. More than `least` runs were cut short then. Both get the number of
/// steps, and a count that they share.
fn cut_at_many_steps(
    stride: u64,
    least: u64,
    first: impl AsyncFn(u64, Rc<Cell<u64>>) + Clone + 'static,
    second: impl AsyncFn(u64, Rc<Cell<u64>>) + Clone + 'static,
) {
    let (mut cuts, mut next) = (0, 0);
    while next < 1 << 20 {
        let step = next;
        next += stride + next / 4;
        let (first, second) = (first.clone(), second.clone());
        let was_cut = Sim::new(step, SimConfig::default()).block_on(async move {
            let node = Node::new();
            let count = Rc::<Cell<u64>>::default();
            let shared = count.clone();
            let prepared = node.spawn(async move { first(step, shared).await });
            let was_cut = prepared.await.is_none();
            node.power_cut();
            node.power_on();
            let judged = node.spawn(async move { second(step, count).await });
            judged.await.unwrap_or_else(|| panic!("step {step}"));
            was_cut
        });
        if !was_cut {
            assert!(cuts > least, "{cuts} cuts");
            return;
        }
        cuts += 1;
    }
    panic!("it does not end");
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
