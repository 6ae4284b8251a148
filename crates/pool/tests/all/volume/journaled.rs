//! Small durable writes whose contents go to the journal first, and to blocks later.

use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Extent, Lba, StorageError};
use futures_util::future::join3;
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig};
use io::time::now;
use pool::{DurableWrites, Options, Pool, Volume};

use crate::blocks::{BLOCK, byte, first, free_all, sound, volume, write};
use crate::volume::{again_with, create_pool, disk_config, on_disk};

/// Contents go to the journal.
fn journal() -> Options {
    Options {
        durable_writes: DurableWrites::Journal,
        ..Options::default()
    }
}

async fn write_durable(volume: &Volume, block: u64, n: u8) -> Result<(), StorageError> {
    let mut buf = io::pool().alloc(BLOCK).await;
    buf.fill(n);
    let _durable = volume.write_durable(Lba(block), buf).await?;
    Ok(())
}

/// A pool with a volume that is ready to have contents in the journal.
async fn ready() -> (Pool, Volume) {
    let pool = create_pool(journal()).await;
    let volume = volume(&pool, "vm", 64 << 20).await;
    // the labels get the feature
    write_durable(&volume, 0, 1).await.expect("written");
    io::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(pool.dirty(), 0);
    (pool, volume)
}

/// Writes with the first future, cuts the power, and reads with the second one.
fn across_a_crash<F: Future<Output = ()> + 'static, G: Future<Output = ()> + 'static>(
    before: impl FnOnce() -> F + 'static,
    after: impl FnOnce(Pool) -> G + 'static,
) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        node.spawn(before()).await.expect("it has power");
        node.kill();
        let next = node.spawn(async move {
            io::time::sleep(Duration::from_secs(1)).await;
            after(again_with(journal()).await).await;
        });
        next.await.expect("it has power");
    });
}

fn data_bytes(pool: &Pool) -> u64 {
    pool.writes().all.data
}

#[test]
fn waits_for_durable_data_are_counted() {
    on_disk(|_| async move {
        let (pool, volume) = ready().await;
        let before = pool.durable_waits();
        for n in 1..11 {
            write_durable(&volume, n * 37, byte(n))
                .await
                .expect("written");
        }
        let waits = pool.durable_waits();
        assert_eq!(waits.times.count() - before.times.count(), 10);
        assert!(waits.times.sum > before.times.sum);
        assert!(waits.open_for > before.open_for);
        // neither a write that waits for nothing nor a checkpoint is one
        write(&volume, 5, 1, byte(5)).await.expect("written");
        pool.checkpoint().await.expect("durable");
        assert_eq!(pool.durable_waits().times, waits.times);
    });
}

#[test]
fn a_small_durable_write_has_no_block_at_first_and_gets_one_within_a_second() {
    on_disk(|_| async move {
        let (pool, volume) = ready().await;
        let (data, before) = (data_bytes(&pool), pool.durable_times());
        for n in 1..11 {
            write_durable(&volume, n * 37, byte(n))
                .await
                .expect("written");
        }
        assert_eq!(data_bytes(&pool), data, "only the journal has them");
        assert_eq!(pool.dirty(), 10 * BLOCK as u64);
        assert_eq!(pool.durable_times().journaled - before.journaled, 10);
        for n in 1..11 {
            assert_eq!(first(&volume, n * 37).await, byte(n));
        }
        sound(&pool).await;
        io::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(pool.dirty(), 0);
        assert_eq!(data_bytes(&pool), data + 10 * BLOCK as u64);
        for n in 1..11 {
            assert_eq!(first(&volume, n * 37).await, byte(n));
        }
        free_all(&pool).await;
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn contents_in_the_journal_survive_a_crash() {
    let before = || async {
        let (pool, volume) = ready().await;
        for n in 1..30 {
            write_durable(&volume, n, byte(n)).await.expect("written");
        }
        // newer than the contents in the journal
        write(&volume, 5, 1, 99).await.expect("written");
        volume.flush().await.map(drop).expect("flushed");
        assert!(pool.dirty() > 0);
    };
    let after = |pool: Pool| async move {
        assert_eq!(pool.dirty(), 29 * BLOCK as u64, "they have no blocks");
        let volume = pool.volume("vm").expect("it is there");
        for n in 1..30 {
            let wanted = if n == 5 { 99 } else { byte(n) };
            assert_eq!(first(&volume, n).await, wanted, "block {n}");
        }
        sound(&pool).await;
        free_all(&pool).await;
        assert_eq!(pool.dirty(), 0);
        sound(&pool).await;
        for n in 1..30 {
            let wanted = if n == 5 { 99 } else { byte(n) };
            assert_eq!(first(&volume, n).await, wanted, "block {n}");
        }
        pool.close().await.expect("closed");
    };
    across_a_crash(before, after);
}

#[test]
fn later_changes_win_over_contents_in_the_journal_after_a_crash() {
    let before = || async {
        let (pool, volume) = ready().await;
        for n in 1..9 {
            write_durable(&volume, n, byte(n)).await.expect("written");
        }
        let zeroed = Extent {
            start: Lba(3),
            blocks: 2,
        };
        volume.write_zeroes(zeroed, true).await.expect("zeroed");
        // too much for the journal: blocks at once
        write(&volume, 6, 64, 77).await.expect("written");
        volume.flush().await.map(drop).expect("flushed");
        assert_eq!(pool.dirty(), 3 * BLOCK as u64);
    };
    let after = |pool: Pool| async move {
        let volume = pool.volume("vm").expect("it is there");
        let wanted = [1, 1, 2, 0, 0, 5, 77, 77, 77];
        for (n, wanted) in (0..).zip(wanted) {
            let wanted = if (1..6).contains(&n) && wanted > 0 {
                byte(n)
            } else {
                wanted
            };
            assert_eq!(first(&volume, n).await, wanted, "block {n}");
        }
        sound(&pool).await;
        pool.close().await.expect("closed");
    };
    across_a_crash(before, after);
}

#[test]
fn contents_that_are_replaced_in_the_journal_never_get_a_block() {
    on_disk(|_| async move {
        let (pool, volume) = ready().await;
        let data = data_bytes(&pool);
        for n in 0..100 {
            write_durable(&volume, 7, byte(n)).await.expect("written");
        }
        assert_eq!(pool.dirty(), BLOCK as u64);
        io::time::sleep(Duration::from_secs(3)).await;
        let written = data_bytes(&pool) - data;
        assert!(written <= 3 * BLOCK as u64, "{written} bytes for one block");
        assert_eq!(first(&volume, 7).await, byte(99));
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn snapshots_have_the_contents_and_a_rollback_forgets_later_ones() {
    on_disk(|_| async move {
        let (pool, volume) = ready().await;
        write_durable(&volume, 1, 11).await.expect("written");
        let snapshot = pool.create_snapshot("vm", "one").await.expect("taken");
        assert_eq!(pool.dirty(), 0, "a snapshot has blocks only");
        write_durable(&volume, 1, 12).await.expect("written");
        assert_eq!(first(&snapshot, 1).await, 11);
        assert_eq!(first(&volume, 1).await, 12);
        pool.roll_back("vm", "one").await.expect("rolled back");
        assert_eq!(first(&volume, 1).await, 11);
        assert_eq!(pool.dirty(), 0);
        write_durable(&volume, 2, 13).await.expect("written");
        drop((volume, snapshot));
        pool.destroy_snapshot("vm", "one").await.expect("destroyed");
        pool.destroy_volume("vm").await.expect("destroyed");
        assert_eq!(pool.dirty(), 0);
        free_all(&pool).await;
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

/// A pending snapshot, whose own records are all written, waits for blocks; the owner then took empty groups for later writes, and
/// never ended its turn.
#[test]
fn durable_writes_wait_for_a_snapshot_that_waits_for_blocks() {
    on_disk(|_| async move {
        let (pool, volume) = ready().await;
        let pool = Rc::new(pool);
        for n in 1..11 {
            write_durable(&volume, n, byte(n)).await.expect("written");
        }
        let snapshot = io::spawn({
            let pool = pool.clone();
            async move { pool.create_snapshot("vm", "one").await }
        });
        let later: Vec<_> = (1..11)
            .map(|n| {
                let volume = volume.clone();
                io::spawn(async move { write_durable(&volume, n, 99).await })
            })
            .collect();
        let snapshot = snapshot.await.expect("it ends").expect("taken");
        for later in later {
            later.await.expect("it ends").expect("written");
        }
        for n in 1..11 {
            assert_eq!(first(&volume, n).await, 99);
            assert!([byte(n), 99].contains(&first(&snapshot, n).await));
        }
        drop((volume, snapshot));
        sound(&pool).await;
        let pool = Rc::into_inner(pool).expect("its tasks have ended");
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_checkpoint_waits_until_the_contents_have_blocks() {
    on_disk(|disk| async move {
        let (pool, volume) = ready().await;
        disk.slow(Some(Latency {
            base: Duration::from_millis(50),
            ..Latency::default()
        }));
        let volume = Rc::new(volume);
        let writer = {
            let volume = volume.clone();
            io::spawn(async move {
                for n in 0..40 {
                    write_durable(&volume, n, byte(n)).await.expect("written");
                }
            })
        };
        for _ in 0..5 {
            pool.checkpoint().await.expect("a checkpoint");
        }
        writer.await.expect("ended");
        sound(&pool).await;
        for n in 0..40 {
            assert_eq!(first(&volume, n).await, byte(n));
        }
        pool.close().await.expect("closed");
    });
}

/// Regression: a checkpoint decided to begin, and another turn of the owner put contents into the journal before the checkpoint took
/// its place there. It did not have these contents, and replay began behind them. A snapshot of several volumes makes such a turn.
#[test]
fn no_contents_join_the_journal_between_the_decision_for_a_checkpoint_and_its_place() {
    let before = || async {
        let (pool, first) = ready().await;
        let second = volume(&pool, "vm2", 64 << 20).await;
        write(&first, 1000, 1, 1).await.expect("written");
        write(&second, 1000, 1, 1).await.expect("written");
        // all of them ask before the owner's turn
        let snapshots = pool.create_snapshot_tree("", "s");
        let (snapshots, written, checkpoint) =
            join3(snapshots, write_durable(&first, 1, 7), pool.checkpoint()).await;
        snapshots.expect("taken");
        written.expect("written");
        checkpoint.expect("a checkpoint");
    };
    let after = |pool: Pool| async move {
        let volume = pool.volume("vm").expect("it is there");
        assert_eq!(first(&volume, 1).await, 7);
        pool.close().await.expect("closed");
    };
    across_a_crash(before, after);
}

/// Where both ways take as long, the journal's is tried and then left.
#[test]
fn the_journal_is_measured_where_durable_writes_are_slow() {
    on_disk(|disk| async move {
        let pool = create_pool(Options::default()).await;
        let volume = volume(&pool, "vm", 64 << 20).await;
        write_durable(&volume, 0, 1).await.expect("written");
        disk.slow(Some(Latency {
            base: Duration::from_millis(20),
            ..Latency::default()
        }));
        for n in 0..100 {
            write_durable(&volume, n, byte(n)).await.expect("written");
        }
        let times = pool.durable_times();
        assert!(times.blocks >= Some(Duration::from_millis(20)), "{times:?}");
        assert!(
            times.journal >= Some(Duration::from_millis(20)),
            "{times:?}"
        );
        assert!((1..50).contains(&times.journaled), "{times:?}");
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

/// A disk that serves one request after the other, each after 8 ms, as a hard disk does: a write to blocks takes 24 ms with its batch
/// and flush, and through the journal 16 ms.
#[test]
fn the_journal_is_taken_where_a_disk_serves_one_write_at_a_time() {
    const WRITES: u64 = 400;
    let seek = Latency {
        base: Duration::from_millis(8),
        jitter: Duration::ZERO,
        tail_chance: 0.0,
        tail: Duration::ZERO,
    };
    let config = DiskConfig {
        is_serial: true,
        rotational: true,
        latency: seek,
        short: 0.0,
        ..disk_config()
    };
    let measure = |durable_writes: DurableWrites| {
        let config = config.clone();
        Sim::new(1, SimConfig::default()).block_on(async move {
            let node = Node::new();
            node.create_disk("disk", config);
            let measured = node.spawn(async move {
                let pool = create_pool(Options {
                    durable_writes,
                    ..Options::default()
                })
                .await;
                let volume = volume(&pool, "vm", 64 << 20).await;
                let begun = now();
                for n in 0..WRITES {
                    let at = n * 521 % 4096;
                    write_durable(&volume, at, byte(n)).await.expect("written");
                }
                let took = begun.elapsed();
                let times = pool.durable_times();
                // no record gets its block amid the verification, which takes seconds on this disk
                pool.checkpoint().await.expect("a checkpoint");
                sound(&pool).await;
                pool.close().await.expect("closed");
                (took, times)
            });
            measured.await.expect("it has power")
        })
    };
    let (blocks, _) = measure(DurableWrites::Blocks);
    let (measured, times) = measure(DurableWrites::Measured);
    println!("{WRITES} durable writes: {blocks:?} to blocks, {measured:?} as measured; {times:?}");
    assert!(times.journaled > WRITES * 8 / 10, "{times:?}");
    assert!(
        measured < blocks * 4 / 5,
        "{measured:?}, {blocks:?} to blocks"
    );
}
