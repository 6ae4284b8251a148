//! Many zeroed ranges, which fill the journal.

use backend::{BlockBackend, Extent, Lba};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::{NewVolume, Options, Pool};

use crate::volume::{BLOCK, again, create_pool, read};

/// Number of volumes.
const VOLUMES: u64 = 16;
/// Ranges of one block that are zeroed in each volume: every other block.
const RANGES: u64 = 4000;

/// Writes blocks 0 to 3 of each volume, and zeroes every even block, durably.
async fn zero_ranges(pool: &Pool) {
    let mut volumes = Vec::new();
    for n in 0..VOLUMES {
        let new = NewVolume::new(format!("v{n}"), 2 * RANGES * BLOCK as u64);
        volumes.push(pool.create_volume(new).await.expect("a volume"));
    }
    for volume in &volumes {
        let mut data = io::pool().alloc(4 * BLOCK).await;
        data.fill(7);
        volume.write(Lba(0), data).await.expect("written");
    }
    for volume in &volumes {
        for n in 0..RANGES {
            let at = Extent {
                start: Lba(2 * n),
                blocks: 1,
            };
            volume.write_zeroes(at, true).await.expect("zeroed");
        }
    }
    let flushes = volumes.into_iter().map(|volume| {
        let flush = async move { volume.flush().await.map(drop) };
        io::spawn(flush)
    });
    for flush in flushes.collect::<Vec<_>>() {
        flush.await.expect("done").expect("flushed");
    }
}

/// Regression: 16 volumes of 4,000 zeroed ranges each ended the process, because groups were written while the journal
/// wrongly reported room.
#[test]
fn ranges_that_fill_the_journal_wait_for_a_checkpoint() {
    Sim::new(9, SimConfig::default()).block_on(async {
        let node = Node::new();
        let config = DiskConfig {
            size: 64 << 20,
            ..DiskConfig::default()
        };
        node.create_disk("disk", config);
        let first = node.spawn(async {
            let pool = create_pool(Options::default()).await;
            zero_ranges(&pool).await;
        });
        first.await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        let second = node.spawn(async {
            let pool = again().await;
            for n in 0..VOLUMES {
                let volume = pool.volume(&format!("v{n}")).expect("a volume");
                let expected: Vec<u8> = [[0; BLOCK], [7; BLOCK], [0; BLOCK], [7; BLOCK]].concat();
                assert_eq!(read(&volume, 0, 4).await, expected, "volume {n}");
            }
            pool.close().await.expect("closed");
        });
        second.await.expect("the power stays on");
    });
}

/// GET LBA STATUS of an empty volume of 1 TiB looked at every record: `qemu-img map` took minutes, and slowed all others down.
#[test]
fn a_hole_of_any_size_is_one_run() {
    const TIB: u64 = 1 << 40;
    Sim::new(9, SimConfig::default()).block_on(async {
        let node = Node::new();
        let config = DiskConfig {
            size: 64 << 20,
            ..DiskConfig::default()
        };
        node.create_disk("disk", config);
        let done = node.spawn(async {
            let pool = create_pool(Options::default()).await;
            let volume = pool.create_volume(NewVolume::new("sparse", TIB)).await;
            let volume = volume.expect("a volume");
            let blocks = TIB / BLOCK as u64;
            let all = Extent {
                start: Lba(0),
                blocks,
            };
            let runs = async || {
                let runs = volume.runs(all).await.expect("told");
                runs.iter()
                    .map(|run| (run.blocks, run.mapped))
                    .collect::<Vec<_>>()
            };
            assert_eq!(runs().await, [(blocks, false)]);
            let middle = blocks / 2;
            let expected = [(middle, false), (1, true), (blocks - middle - 1, false)];
            let mut data = io::pool().alloc(BLOCK).await;
            data.fill(7);
            volume.write(Lba(middle), data).await.expect("written");
            assert_eq!(runs().await, expected, "a dirty block");
            let _proof = volume.flush().await.expect("flushed");
            assert_eq!(runs().await, expected, "in a layer");
            pool.checkpoint().await.expect("a checkpoint");
            assert_eq!(runs().await, expected, "in the tree");
            let one = Extent {
                start: Lba(middle),
                blocks: 1,
            };
            volume.write_zeroes(one, true).await.expect("zeroed");
            assert_eq!(runs().await, [(blocks, false)], "hidden");
        });
        done.await.expect("it ran");
    });
}
