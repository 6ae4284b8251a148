//! Checksums of parts of records that do not match: software wrote them, because the leaf's checksum covers them.

use backend::{BlockBackend, Extent, Lba};
use io::sim::Node;
use pool::format::Packing;
use pool::inspect::FindingKind;
use pool::{NewVolume, Options};

use crate::inspect::world::{import_with, inspect, machine, make, run};

const RECORD: usize = 32 << 10;
/// Bytes of a checksum of a part, and of all of a record.
const SUM: usize = 8;
const SUMS: usize = RECORD / 4096 * SUM;
/// The part whose checksum is wrong.
const WRONG: usize = 3;

/// A machine with a closed pool, whose volume has one record, with a wrong checksum of a part.
async fn forged() -> Node {
    let node = machine();
    let done = node.spawn(async {
        let pool = make().await;
        let new = NewVolume {
            record_size: RECORD as u32,
            compression: Packing::Off,
            ..NewVolume::new("one", 16 << 20)
        };
        let volume = pool.create_volume(new).await.expect("a volume");
        let mut buf = io::pool().alloc(RECORD).await;
        for (n, block) in (1..).zip(buf.chunks_mut(4096)) {
            block.fill(n);
        }
        volume.write(Lba(0), buf).await.expect("written");
        drop(volume);
        pool.close().await.expect("closed");
    });
    done.await.expect("it ran");
    node.kill();
    let done = node.spawn(async {
        let view = inspect().await;
        view.assert_sound();
        view.forge_leaf("one", |leaf| {
            // the sums end the leaf's only value
            let at = leaf.len() - SUMS + WRONG * SUM;
            leaf[at] ^= 1;
        })
        .await;
    });
    done.await.expect("it ran");
    node.kill();
    node
}

#[test]
fn a_wrong_checksum_of_a_part_is_found() {
    run(async {
        let node = forged().await;
        let view = node.spawn(inspect()).await.expect("it ran");
        let found = view.of(FindingKind::Record);
        assert!(!found.is_empty());
        for finding in found {
            assert!(finding.text.contains("part 3"), "{}", finding.text);
            assert_eq!(finding.dataset.as_deref(), Some("one"));
        }
        assert_eq!(
            view.of(FindingKind::Record).len(),
            view.found.findings.damage.len()
        );
    });
}

/// The checksum of the record decides: its bytes are right.
#[test]
fn a_part_with_a_wrong_checksum_is_read_by_its_record() {
    run(async {
        let node = forged().await;
        let done = node.spawn(async {
            let pool = import_with(Options::default()).await;
            let volume = pool.volume("one").expect("the volume");
            for block in (0..8).rev() {
                let at = Extent {
                    start: Lba(block),
                    blocks: 1,
                };
                let payload = volume.read(at).await.expect("read");
                let mut bytes = vec![0; payload.len()];
                payload.copy_to(&mut bytes);
                assert_eq!(bytes, [block as u8 + 1; 4096]);
            }
            let vdevs = pool.vdevs().status();
            let members = vdevs.iter().flat_map(|vdev| &vdev.members);
            let counts: Vec<_> = members
                .map(|m| (m.counters.repairs, m.counters.checksum_errors))
                .collect();
            assert!(counts.iter().all(|counts| *counts == (0, 0)), "{counts:?}");
            drop(volume);
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
    });
}
