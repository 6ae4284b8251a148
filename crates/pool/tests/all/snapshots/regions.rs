//! The region mover: where free space lies in short runs only, regions are emptied, so that large records find long runs again.

use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use pool::format::Packing;
use pool::{NewVolume, Pool, Volume};

use super::{fill, make};
use crate::blocks::{byte, first, free_all, simulated, sound, volume, write};

/// Of this number of blocks of the small volume, one stays.
const KEPT: u64 = 8;
/// Blocks of a large record: 128 KiB.
const LARGE: u64 = 32;

/// A pool that was filled with small records, of which one in eight is left, and a volume of large records.
async fn fragmented(holds: bool) -> (Pool, Volume, u64, Volume) {
    let pool = make(512 << 20, 1000).await;
    let small = volume(&pool, "small", 512 << 20).await;
    let filled = fill(&small, 0, 64).await;
    for at in (0..filled).step_by(KEPT as usize) {
        let gone = Extent {
            start: Lba(at + 1),
            blocks: KEPT - 1,
        };
        small.deallocate(gone).await.expect("deallocate");
    }
    let _proof = small.flush().await.expect("flush");
    free_all(&pool).await;
    if holds {
        drop(pool.create_snapshot("small", "one").await.expect("taken"));
    }
    let new = NewVolume {
        record_size: LARGE as u32 * 4096,
        compression: Packing::Off,
        ..NewVolume::new("large", 256 << 20)
    };
    let large = pool.create_volume(new).await.expect("volume");
    (pool, small, filled, large)
}

/// Writes large records, and checkpoints.
async fn write_large(pool: &Pool, large: &Volume, records: std::ops::Range<u64>) {
    for n in records {
        let written = write(large, n * LARGE, LARGE as usize, byte(n)).await;
        written.expect("there is space for it");
    }
    pool.checkpoint().await.expect("a checkpoint");
}

/// Writes large records until some are in fragments. Returns their number.
async fn write_until_fragments(pool: &Pool, large: &Volume) -> u64 {
    for n in 1.. {
        write_large(pool, large, 16 * (n - 1)..16 * n).await;
        if pool.region_moves().in_fragments > 0 {
            return 16 * n;
        }
    }
    unreachable!("the volume ends")
}

async fn rest(pool: &Pool) {
    io::time::sleep(Duration::from_secs(2)).await;
    while pool.region_moves().is_moving {
        io::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn large_records_find_long_runs_after_regions_were_emptied() {
    simulated(6, async || {
        let (pool, small, filled, large) = fragmented(false).await;
        let begin = write_until_fragments(&pool, &large).await;
        rest(&pool).await;
        let moves = pool.region_moves();
        assert!(moves.emptied >= 3, "{moves:?}");
        assert_eq!(pool.writes().all.moved, moves.moved);
        write_large(&pool, &large, begin..begin + 192).await;
        let later = pool.region_moves().in_fragments - moves.in_fragments;
        assert!(later < 20, "{later} of 192");
        for at in (0..filled).step_by(KEPT as usize) {
            assert_eq!(first(&small, at).await, byte(at / 64 * 64), "block {at}");
            assert_eq!(first(&small, at + 1).await, 0);
        }
        for n in 0..begin + 192 {
            assert_eq!(first(&large, n * LARGE + 31).await, byte(n), "record {n}");
        }
        sound(&pool).await;
        free_all(&pool).await;
        sound(&pool).await;
        drop((small, large));
        pool.close().await.expect("closed");
    });
}

/// Blocks that snapshots hold, and nodes, are relocated: then their regions become free, too.
#[test]
fn regions_whose_blocks_snapshots_hold_are_emptied() {
    simulated(7, async || {
        let (pool, small, filled, large) = fragmented(true).await;
        let begin = write_until_fragments(&pool, &large).await;
        rest(&pool).await;
        let moves = pool.region_moves();
        assert!(moves.emptied >= 3, "{moves:?}");
        assert!(
            moves.relocations > 1000 && moves.relocated > 4 << 20,
            "{moves:?}"
        );
        assert!(!moves.is_full);
        write_large(&pool, &large, begin..begin + 192).await;
        let later = pool.region_moves().in_fragments - moves.in_fragments;
        assert!(later < 20, "{later} of 192");
        let old = pool.snapshot("small", "one").expect("there");
        for at in (0..filled).step_by(KEPT as usize) {
            assert_eq!(first(&old, at).await, byte(at / 64 * 64), "block {at}");
        }
        // all space that is free can be taken
        let free = pool.space().free;
        let filled = fill(&small, 0, 1).await * 4096;
        assert!(filled > free / 2, "{filled} of {free}");
        sound(&pool).await;
        pool.destroy_snapshot("small", "one").await.expect("gone");
        drop(old);
        free_all(&pool).await;
        sound(&pool).await;
        drop((small, large));
        pool.close().await.expect("closed");
    });
}
