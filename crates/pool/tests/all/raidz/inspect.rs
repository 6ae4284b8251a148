//! The offline reader on a raidz: it finds blocks in their rows, and names the members that are rotten.

use std::rc::Rc;

use io::disk::{Disk, OpenOptions};
use io::sim::{Node, Sim, SimConfig};
use pool::inspect::{Finding, Findings, Image, Inspected};
use pool::vdev::DATA_START;

use crate::raidz::{Shape, byte, make, simulated, volume, write};

/// Members, parity, and MiB of each member.
const SHAPES: [Shape; 3] = [(3, 1, 64), (5, 2, 64), (6, 3, 64)];
/// Bytes of each member that have all blocks of the test.
const USED: u64 = 24 << 20;

/// A pool with two volumes and a snapshot, closed, or with its last batches in the journal.
async fn furnish(shape: Shape, closes: bool) {
    let pool = make(shape).await;
    let vol = volume(&pool, "vm", 16 << 20).await;
    for at in (0..512).step_by(8) {
        write(&vol, at, 8, byte(at)).await.expect("written");
    }
    pool.create_snapshot("vm", "one").await.expect("a snapshot");
    for at in 0..64 {
        // groups of one record share no row
        write(&vol, at * 5, 1, byte(at + 1)).await.expect("written");
        let _proof = backend::BlockBackend::flush(&vol).await.expect("flushed");
    }
    if closes {
        drop(vol);
        pool.close().await.expect("closed");
    }
}

/// The pool without the disks of the numbers in `without`.
async fn image(count: usize, without: &[usize]) -> Rc<Image> {
    let mut disks = Vec::new();
    for n in (0..count).filter(|n| !without.contains(n)) {
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        let path = format!("d{n}");
        let disk = loop {
            match Disk::open(&path, options.clone()).await {
                // Operations of a closed pool are still ending.
                Err(io::Error::Busy(_)) => {
                    io::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                opened => break opened.expect("a disk"),
            }
        };
        disks.push(disk);
    }
    Image::open(disks).await.expect("a pool")
}

/// Inspects the pool without the disks of the numbers in `without`.
pub(crate) async fn inspect(count: usize, without: &[usize]) -> (Vec<Finding>, Inspected) {
    let image = image(count, without).await;
    let mut findings = Findings::default();
    image.check_disks(&mut findings);
    let newest = image.uberblock(None).expect("an uberblock");
    let contents = image.contents(newest, &mut findings).await;
    let contents = contents.expect("its own tree is readable");
    let journal = image.journal(&newest).await;
    let found = image.verify(&contents, &journal, true, |_| ()).await;
    let mut damage = findings.damage;
    damage.extend(found.findings.damage.iter().cloned());
    (damage, found)
}

#[test]
fn a_sound_raidz_is_sound_also_without_as_many_members_as_it_has_parity() {
    for (seed, shape) in (31..).zip(SHAPES) {
        for closes in [true, false] {
            Sim::new(seed, SimConfig::default()).block_on(async move {
                let node = Node::new();
                let made = node.spawn(furnish(shape, closes)).await;
                made.expect("it has power");
                node.kill();
                let judged = node.spawn(judge(shape)).await;
                judged.expect("it has power");
            });
        }
    }
}

/// The pool is sound, and also without as many members as it has parity.
async fn judge((count, parity, _): Shape) {
    let (damage, all) = inspect(count, &[]).await;
    assert_eq!(damage, []);
    assert!(all.taken > 512 * 4096, "{all:?}");
    let gone: Vec<usize> = (1..=usize::from(parity)).collect();
    let (damage, few) = inspect(count, &gone).await;
    assert_eq!(few.taken, all.taken);
    assert_eq!(damage.len(), gone.len(), "{damage:?}");
    assert!(damage.iter().all(|finding| !finding.lost), "{damage:?}");
}

#[test]
fn rotten_members_of_a_raidz_are_named() {
    for (seed, shape) in (41..).zip(SHAPES) {
        simulated(seed, async move || {
            furnish(shape, true).await;
            let (count, parity, _) = shape;
            for rotten in 1..=usize::from(parity) {
                let name = format!("d{rotten}");
                let disk = Node::current().disk(&name).expect("a disk");
                disk.rot(DATA_START..DATA_START + USED);
                let (damage, _) = inspect(count, &[]).await;
                let is_rotten = |finding: &Finding| {
                    let disk = finding.disk.as_ref().map(|disk| disk.display().to_string());
                    (1..=rotten).any(|n| disk == Some(format!("d{n}")))
                };
                let lost: Vec<_> = damage.iter().filter(|f| f.lost).collect();
                assert_eq!(lost, Vec::<&Finding>::new(), "{rotten} rotten members");
                for n in 1..=rotten {
                    let name = std::path::PathBuf::from(format!("d{n}"));
                    let mut of_disk = damage.iter().filter(|f| f.disk.as_ref() == Some(&name));
                    assert!(of_disk.next().is_some(), "d{n} is not named");
                }
                // With one parity unit nobody knows whether parity or a block that is not read is wrong.
                if rotten < usize::from(parity) {
                    let others: Vec<_> = damage.iter().filter(|f| !is_rotten(f)).collect();
                    assert_eq!(others, Vec::<&Finding>::new());
                }
            }
            let disk = Node::current().disk("d0").expect("a disk");
            disk.rot(DATA_START..DATA_START + USED);
            let image = image(count, &[]).await;
            let newest = image.uberblock(None).expect("an uberblock");
            let is_lost = match image.contents(newest, &mut Findings::default()).await {
                Err(_) => true,
                Ok(contents) => {
                    let journal = image.journal(&newest).await;
                    let found = image.verify(&contents, &journal, true, |_| ()).await;
                    found.findings.damage.iter().any(|finding| finding.lost)
                }
            };
            assert!(is_lost, "more members are rotten than the parity allows");
        });
    }
}
