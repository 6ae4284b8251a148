//! The row mover: random overwrites leave rows with few live blocks, which it frees.

use backend::{BlockBackend, StorageError};
use io::rng::Prng;
use io::sim::Node;
use pool::{Options, Pool, Volume};
use std::collections::BTreeSet;

use crate::blocks::read;
use crate::raidz::{
    Shape, byte, deallocate, first, free_all, make, make_with, simulated, sound, volume, write,
};

/// Eight units of data and two of parity.
pub(super) const WIDE: Shape = (10, 2, 64);

/// Blocks of a volume, each with the byte that was last written to it.
pub(super) struct Blocks {
    pub(super) volume: Volume,
    pub(super) wanted: Vec<u8>,
    written: u64,
    rng: Prng,
}

impl Blocks {
    /// Fills `percent` of a pool with blocks of a new volume.
    pub(super) async fn filled(pool: &Pool, percent: u64, seed: u64) -> Self {
        let count = pool.space().size * percent / 100 / 4096 / 64 * 64;
        let volume = volume(pool, "vm", 1 << 30).await;
        for at in (0..count).step_by(64) {
            write(&volume, at, 64, byte(at))
                .await
                .unwrap_or_else(|e| panic!("{e} at {at} of {count}, {:?}", pool.space()));
        }
        Self {
            volume,
            wanted: (0..count).map(|at| byte(at / 64 * 64)).collect(),
            written: 0,
            rng: Prng::new(seed),
        }
    }

    /// Overwrites a number of blocks, anywhere.
    pub(super) async fn overwrite(&mut self, count: u64) {
        for _ in 0..count {
            let at = self.rng.below(self.wanted.len() as u64);
            self.put(at).await;
        }
    }

    /// Overwrites a block.
    async fn put(&mut self, at: u64) {
        self.written += 1;
        let n = byte(self.written);
        let written = write(&self.volume, at, 1, n).await;
        let written_before = self.written;
        written.unwrap_or_else(|e| panic!("overwrite {written_before}: {e}"));
        self.wanted[at as usize] = n;
    }

    pub(super) async fn check(&self) {
        for (at, wanted) in (0..).zip(&self.wanted) {
            assert_eq!(first(&self.volume, at).await, *wanted, "block {at}");
        }
    }
}

/// Regression: of uniform overwrites of a pool of which 37 % were live, writes were refused, because no row was free.
#[test]
fn overwrites_of_a_pool_that_is_almost_three_quarters_full_are_never_refused() {
    simulated(1, async || {
        let pool = make(WIDE).await;
        let mut blocks = Blocks::filled(&pool, 70, 1).await;
        let times = blocks.wanted.len() as u64;
        blocks.overwrite(times).await;
        let moves = pool.row_moves().expect("a raidz");
        assert!(moves.moved > 0, "{moves:?}");
        let written = pool.writes().all;
        assert!(written.moved >= moves.moved, "{written:?}, {moves:?}");
        sound(&pool).await;
        blocks.check().await;
        pool.close().await.expect("close");
    });
}

/// Blocks that snapshots hold stay where they are: they would be multiplied. All space comes back when the snapshots go.
#[test]
fn what_snapshots_hold_is_not_moved() {
    simulated(2, async || {
        let pool = make(WIDE).await;
        let before = pool.space();
        let mut blocks = Blocks::filled(&pool, 35, 2).await;
        let count = blocks.wanted.len() as u64;
        blocks.overwrite(count / 4).await;
        pool.create_snapshot("vm", "old").await.expect("a snapshot");
        let held = blocks.wanted.clone();
        blocks.overwrite(count / 4).await;
        pool.create_snapshot("vm", "newer")
            .await
            .expect("a snapshot");
        free_all(&pool).await;
        let alone = pool.space().used;
        blocks.overwrite(2 * count).await;
        let moves = pool.row_moves().expect("a raidz");
        assert!(moves.moved > 0, "{moves:?}");
        free_all(&pool).await;
        let with_live = alone + count * 4096;
        assert!(
            pool.space().used < with_live + (8 << 20),
            "{:?}",
            pool.space()
        );
        sound(&pool).await;
        blocks.check().await;
        let snapshot = pool.snapshot("vm", "old").expect("it is there");
        for (at, wanted) in (0..).zip(&held).step_by(13) {
            assert_eq!(first(&snapshot, at).await, *wanted, "block {at}");
        }
        drop(snapshot);
        for name in ["old", "newer"] {
            pool.destroy_snapshot("vm", name).await.expect("destroyed");
        }
        free_all(&pool).await;
        assert!(pool.space().used < count * 4096 + (16 << 20));
        pool.destroy_volume("vm").await.expect("destroyed");
        free_all(&pool).await;
        let after = pool.space();
        assert!(after.free + (2 << 20) > before.free, "{after:?}");
        sound(&pool).await;
        pool.close().await.expect("close");
    });
}

/// A write that finds no row waits for the mover, and is refused when the mover gains nothing. Deletions and checkpoints go on.
#[test]
fn a_pool_without_dead_sectors_refuses_writes_in_the_end() {
    simulated(3, async || {
        let pool = make((6, 2, 64)).await;
        let mut blocks = Blocks::filled(&pool, 60, 3).await;
        let mut at = blocks.wanted.len() as u64;
        let mut refused = 0;
        // new blocks take what overwrites leave, until there is nothing
        while refused < 3 {
            let overwritten = blocks.rng.below(at);
            for block in [at, overwritten] {
                match write(&blocks.volume, block, 1, byte(block)).await {
                    Ok(()) if block == at => {
                        blocks.wanted.push(byte(block));
                        at += 1;
                    }
                    Ok(()) => blocks.wanted[block as usize] = byte(block),
                    Err(error) => {
                        assert_eq!(error, StorageError::NoSpace);
                        refused += 1;
                    }
                }
            }
        }
        let space = pool.space();
        assert!(
            at * 4096 > space.size * 80 / 100,
            "{at} blocks in {space:?}"
        );
        pool.checkpoint().await.expect("a checkpoint");
        deallocate(&blocks.volume, 0, at / 2).await;
        blocks.wanted[..at as usize / 2].fill(0);
        blocks.check().await;
        for block in 0..at / 8 {
            let written = write(&blocks.volume, block, 1, byte(block)).await;
            written.unwrap_or_else(|e| panic!("{block} of {at}: {e}"));
            blocks.wanted[block as usize] = byte(block);
        }
        sound(&pool).await;
        blocks.check().await;
        pool.close().await.expect("close");
    });
}

/// A moved record takes as much space as before: a volume that fills its quota is overwritten as if nothing moved. A rollback finds no
/// group of the mover in its way.
#[test]
fn quotas_and_rollbacks_do_not_see_the_mover() {
    simulated(4, async || {
        let pool = make(WIDE).await;
        let mut blocks = Blocks::filled(&pool, 45, 4).await;
        free_all(&pool).await;
        let used = pool.volume_spaces()["vm"].used;
        // what one checkpoint replaces counts twice
        let quota = used + (24 << 20);
        pool.set_limits("vm", quota, 0).await.expect("a quota");
        let count = blocks.wanted.len() as u64;
        blocks.overwrite(count * 2).await;
        assert!(pool.row_moves().expect("a raidz").moved > 0);
        pool.set_limits("vm", 0, 0).await.expect("no quota");
        pool.create_snapshot("vm", "back")
            .await
            .expect("a snapshot");
        let held = blocks.wanted.clone();
        for round in 0..3 {
            blocks.overwrite(count / 40).await;
            let back = pool.roll_back("vm", "back").await;
            back.unwrap_or_else(|e| panic!("rollback {round}: {e}"));
            blocks.wanted.clone_from(&held);
        }
        sound(&pool).await;
        blocks.check().await;
        pool.close().await.expect("close");
    });
}

/// A damaged record is left where it is: a copy of it would get a checksum and parity as if it were good.
#[test]
fn damaged_records_are_not_moved() {
    simulated(5, async || {
        let uncached = Options {
            record_cache_bytes: 0,
            ..Options::default()
        };
        let pool = make_with(WIDE, uncached).await;
        let mut blocks = Blocks::filled(&pool, 70, 5).await;
        free_all(&pool).await;
        // one member more than there is parity, in 16 rows amid the data
        let rows = (12 << 20)..(12 << 20) + 16 * 4096;
        for member in ["d0", "d1", "d2"] {
            let disk = Node::current().disk(member).expect("a disk");
            disk.rot(rows.clone());
        }
        let count = blocks.wanted.len() as u64;
        let mut damaged = BTreeSet::new();
        for at in 0..count {
            if read(&blocks.volume, at).await.is_err() {
                damaged.insert(at);
            }
        }
        assert!((16..=48).contains(&damaged.len()), "{damaged:?}");
        for _ in 0..count {
            let at = blocks.rng.below(count);
            if !damaged.contains(&at) {
                blocks.put(at).await;
            }
        }
        let moves = pool.row_moves().expect("a raidz");
        assert!(moves.moved > 0, "{moves:?}");
        free_all(&pool).await;
        for at in 0..count {
            let wanted = (!damaged.contains(&at)).then(|| blocks.wanted[at as usize]);
            assert_eq!(read(&blocks.volume, at).await.ok(), wanted, "block {at}");
        }
        for at in damaged {
            blocks.put(at).await;
        }
        // until they are written and a checkpoint ended, the damaged ones are in the tree
        let _proof = blocks.volume.flush().await.expect("flush");
        free_all(&pool).await;
        sound(&pool).await;
        blocks.check().await;
        pool.close().await.expect("close");
    });
}
