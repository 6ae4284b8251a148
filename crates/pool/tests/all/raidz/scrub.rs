//! Scrub of a raidz: parity of rows that many blocks share, and sectors of these rows that are free.

use backend::BlockBackend;
use io::sim::{Node, Sim, SimConfig};
use pool::Pool;
use pool::vdev::DATA_START;

use crate::raidz::inspect::inspect;
use crate::raidz::{Shape, byte, free_all, make, sound, volume, write};

/// Members, parity, and MiB of each member.
const SHAPES: [Shape; 3] = [(3, 1, 64), (5, 1, 64), (6, 2, 64)];

/// The bytes of each member behind its copies of the journal.
fn rows_of_member(pool: &Pool, (members, parity, mib): Shape) -> std::ops::Range<u64> {
    let ring = pool.vdevs().ring();
    let copies = ring.segments.len() as u64 * (u64::from(parity) + 1);
    let journal = copies.div_ceil(members as u64) * u64::from(ring.segment_size);
    DATA_START + journal..(mib << 20) - (1 << 20)
}

/// A pool whose rows are shared by records, of which some are free.
async fn furnish(shape: Shape) -> Pool {
    let pool = make(shape).await;
    let vol = volume(&pool, "vm", 16 << 20).await;
    for at in 0..240 {
        write(&vol, at, 1, byte(at)).await.expect("written");
    }
    let _proof = vol.flush().await.expect("flushed");
    pool.checkpoint().await.expect("a checkpoint");
    for at in 0..48 {
        write(&vol, at * 5, 1, byte(at + 1)).await.expect("written");
    }
    let _proof = vol.flush().await.expect("flushed");
    free_all(&pool).await;
    pool
}

/// Scrub verified blocks and left parity of shared rows rotten: when another member was lost, so were blocks.
#[test]
fn a_scrub_mends_rows_that_blocks_share() {
    for (seed, shape) in (61..).zip(SHAPES) {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let node = Node::new();
            let (members, parity, _) = (shape.0, usize::from(shape.1), shape.2);
            let scrubbed = node.spawn(async move {
                let pool = furnish(shape).await;
                let rows = rows_of_member(&pool, shape);
                for n in 0..parity {
                    let name = format!("d{n}");
                    let disk = Node::current().disk(&name).expect("a disk");
                    disk.rot(rows.clone());
                }
                let found = pool.scrub(|_| ()).await.expect("a scrub");
                assert!(found.repaired > 240 / members as u64, "{found:?}");
                assert_eq!((found.lost, found.damaged), (vec![], vec![]));
                let again = pool.scrub(|_| ()).await.expect("a scrub");
                assert_eq!(again.repaired, 0, "all is mended");
                let errors = |n: usize| {
                    let members = pool.vdevs().status().remove(0).members;
                    members[n].counters.checksum_errors
                };
                // rot in a sector that no block has looks like wrong parity, which is on another member
                let rotten: u64 = (0..parity).map(errors).sum();
                for n in 0..members {
                    let is_blamed = errors(n) * 10 > rotten;
                    assert_eq!(is_blamed, n < parity, "member {n}: {}", errors(n));
                }
                sound(&pool).await;
                pool.close().await.expect("closed");
            });
            scrubbed.await.expect("it has power");
            node.kill();
            let judged = node.spawn(async move {
                let (damage, _) = inspect(members, &[]).await;
                assert_eq!(damage, [], "{shape:?}");
                let others: Vec<usize> = (parity..2 * parity).collect();
                let (damage, _) = inspect(members, &others).await;
                let lost: Vec<_> = damage.iter().filter(|finding| finding.lost).collect();
                assert!(lost.is_empty(), "{shape:?}: {lost:?}");
            });
            judged.await.expect("it has power");
        });
    }
}
