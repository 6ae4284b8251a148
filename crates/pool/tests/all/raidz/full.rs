//! A raidz with little or no space left: extents are whole rows, so a small group of blocks takes more than its bytes.

use io::rng::Prng;
use pool::vdev::PoolSpec;

use crate::raidz::{
    Shape, byte, deallocate, fill, first, free_all, make, raidz, simulated, sound, volume, write,
};

const SHAPES: [Shape; 4] = [(3, 1, 64), (4, 2, 64), (8, 2, 64), (6, 3, 64)];

#[test]
fn a_full_raidz_refuses_writes_and_gives_back_what_is_deleted() {
    for (seed, shape) in (1..).zip(SHAPES) {
        simulated(seed, async move || {
            let pool = make(shape).await;
            let vol = volume(&pool, "vm", 1 << 30).await;
            let before = pool.space();
            let filled = fill(&vol, 0, 64).await;
            assert!(filled * 4096 > before.size / 2, "{filled} of {before:?}");
            sound(&pool).await;
            deallocate(&vol, 0, filled / 4).await;
            for at in (0..filled / 8).step_by(64) {
                let written = write(&vol, at, 64, byte(at + 1)).await;
                written.unwrap_or_else(|e| panic!("there is space again at {at}: {e}"));
            }
            sound(&pool).await;
            for at in (0..filled).step_by(64) {
                let wanted = match at {
                    at if at < filled / 8 => byte(at + 1),
                    at if at < filled / 4 => 0,
                    at => byte(at),
                };
                assert_eq!(first(&vol, at).await, wanted, "block {at}");
            }
            pool.destroy_volume("vm").await.expect("destroy");
            free_all(&pool).await;
            let after = pool.space();
            assert!(after.free + (2 << 20) > before.free, "{after:?}");
            sound(&pool).await;
            pool.close().await.expect("close");
        });
    }
}

/// Regression: records were admitted by their bytes, and each of many volumes wrote one record as a group of its own, which
/// took a whole row. The rows ran out: acknowledged writes stayed in memory, and a flush did not end.
#[test]
fn each_acknowledged_record_of_a_full_raidz_has_a_row() {
    simulated(5, async || {
        let pool = make((10, 2, 64)).await;
        let mut small = Vec::new();
        for n in 0..300 {
            small.push(volume(&pool, &format!("small{n}"), 1 << 20).await);
        }
        free_all(&pool).await;
        let large = volume(&pool, "large", 1 << 30).await;
        fill(&large, 0, 64).await;
        deallocate(&large, 0, 512).await;
        free_all(&pool).await;
        let mut writes = Vec::new();
        for (n, volume) in small.iter().enumerate() {
            let volume = volume.clone();
            let write = async move { write(&volume, 0, 1, byte(n as u64)).await.is_ok() };
            writes.push(io::spawn(write));
        }
        let mut kept = Vec::new();
        for (volume, written) in small.iter().zip(writes) {
            if written.await.expect("it ends") {
                kept.push(volume);
            }
        }
        assert!(!kept.is_empty(), "none fits");
        sound(&pool).await;
        pool.close().await.expect("close");
    });
}

/// Random changes of a full raidz leave live blocks in nearly every row, so that few rows are free as a whole. Changes may be
/// refused then; checkpoints and deletes never are, and all space comes back.
#[test]
fn a_full_raidz_with_few_free_rows_is_checkpointed() {
    for (seed, shape) in (7..).zip([(3, 1, 64), (4, 2, 64)]) {
        simulated(seed, async move || {
            let pool = make(shape).await;
            let before = pool.space();
            let vol = volume(&pool, "vm", 1 << 30).await;
            let filled = fill(&vol, 0, 16).await;
            let mut rng = Prng::new(seed);
            let mut wanted: Vec<u8> = (0..filled).map(|at| byte(at / 16 * 16)).collect();
            for round in 0..8 {
                for _ in 0..filled / 32 {
                    let at = rng.below(filled);
                    if rng.below(3) == 0 {
                        deallocate(&vol, at, 1).await;
                        wanted[at as usize] = 0;
                    } else if write(&vol, at, 1, byte(at)).await.is_ok() {
                        wanted[at as usize] = byte(at);
                    }
                }
                let checkpoint = pool.checkpoint().await;
                checkpoint.unwrap_or_else(|e| panic!("checkpoint {round}: {e}"));
            }
            sound(&pool).await;
            for (at, wanted) in (0..).zip(wanted).step_by(7) {
                assert_eq!(first(&vol, at).await, wanted, "block {at}");
            }
            deallocate(&vol, 0, filled).await;
            free_all(&pool).await;
            let after = pool.space();
            assert!(
                after.free + (2 << 20) > before.free,
                "{after:?}, {before:?}"
            );
            let again = fill(&vol, 0, 64).await;
            assert!(again + 64 > filled * 7 / 8, "{again} of {filled}");
            sound(&pool).await;
            pool.close().await.expect("close");
        });
    }
}

/// A raidz that is added to a pool of disks makes small groups more expensive from then on, also for records that were
/// admitted before.
#[test]
fn a_raidz_is_added_to_a_mirror() {
    simulated(12, async || {
        let mirror = crate::raidz::disks(100, (2, 0, 64)).await;
        let host = pool::format::Host::new([1; 16], "here");
        let spec = PoolSpec::new("tank", vec![mirror], host);
        let opened = pool::vdev::create(spec).await.expect("create");
        let pool = pool::Pool::open(opened, pool::Options::default()).await;
        let pool = pool.expect("open");
        let vol = volume(&pool, "vm", 1 << 30).await;
        let before = fill(&vol, 0, 16).await;
        // dirty while the vdev is added
        let _dirty = write(&vol, 0, 1, byte(0)).await;
        let added = pool.add_vdev(raidz(0, (6, 2, 64)).await, false).await;
        assert_eq!(added.expect("added").0, 1);
        let filled = fill(&vol, before, 16).await;
        assert!(filled > before * 2, "{filled}, {before}");
        sound(&pool).await;
        for at in (0..filled).step_by(16) {
            assert_eq!(first(&vol, at).await, byte(at), "block {at}");
        }
        pool.close().await.expect("close");
    });
}
