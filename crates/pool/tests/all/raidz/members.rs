//! Members of a raidz that are gone, return, or are replaced.

use pool::format::{Host, MemberGuid};
use pool::vdev::{self, MemberState, OpenOptions, Opened, SetupError};
use pool::{Options, Pool, Volume};

use crate::blocks::{byte, first, simulated, sound, volume, write};
use crate::raidz::{Disk, Shape, disks, make};

const BLOCKS: u64 = 640;

/// Options of an import without force, and without memory of the last labels.
pub(super) fn open_options() -> OpenOptions {
    OpenOptions::new(Host::new([1; 16], "here"))
}

/// Opens the devices of the pool on the disks of these numbers.
pub(super) async fn devices(
    which: impl IntoIterator<Item = usize>,
    options: OpenOptions,
) -> Result<Opened, SetupError> {
    let mut disks = Vec::new();
    for n in which {
        let disk = loop {
            match Disk::open(format!("d{n}"), io::disk::OpenOptions::default()).await {
                // Operations of a closed pool are still ending.
                Err(io::Error::Busy(_)) => {
                    io::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                opened => break opened.expect("the disk is there"),
            }
        };
        disks.push(disk);
    }
    let found = vdev::scan(disks).await.pools.pop().expect("a pool");
    vdev::open(found, options).await
}

/// Opens the pool on the disks of these numbers.
pub(super) async fn import(which: impl IntoIterator<Item = usize>) -> Result<Pool, SetupError> {
    import_with(which, open_options()).await
}

pub(super) async fn import_with(
    which: impl IntoIterator<Item = usize>,
    options: OpenOptions,
) -> Result<Pool, SetupError> {
    let opened = devices(which, options).await?;
    let pool = Pool::open(opened, Options::default()).await;
    Ok(pool.expect("its trees are whole"))
}

fn members(pool: &Pool) -> Vec<(MemberGuid, MemberState)> {
    let members = pool.vdevs().status().remove(0).members;
    members.into_iter().map(|m| (m.guid, m.state)).collect()
}

async fn check(pool: &Pool) {
    let vol = pool.volume("vm").expect("there");
    for at in 0..BLOCKS {
        assert_eq!(first(&vol, at).await, byte(at / 16 * 16), "block {at}");
    }
    sound(pool).await;
}

/// Makes a pool whose volume `vm` has contents, and closes it.
async fn furnish(shape: Shape) {
    let pool = make(shape).await;
    let vol = volume(&pool, "vm", 64 << 20).await;
    fill(&vol, BLOCKS).await;
    drop(vol);
    pool.close().await.expect("close");
}

/// Writes this number of blocks from the first one on, 16 at a time.
async fn fill(volume: &Volume, blocks: u64) {
    for at in (0..blocks).step_by(16) {
        write(volume, at, 16, byte(at)).await.expect("written");
    }
}

/// Three members of a raidz1 and five of a raidz2 suffice to know that no other ones went on alone.
#[test]
fn a_raidz_opens_without_as_many_members_as_it_has_parity() {
    for (seed, (count, parity)) in (1..).zip([(3, 1), (5, 2), (7, 3)]) {
        simulated(seed, async move || {
            furnish((count, parity, 64)).await;
            let parity = usize::from(parity);
            for first_gone in [0, 1, count - parity] {
                let gone = first_gone..first_gone + parity;
                let there = (0..count).filter(|n| !gone.contains(n));
                let pool = import(there).await.expect("enough members");
                check(&pool).await;
                pool.close().await.expect("close");
                let pool = import(0..count).await.expect("all members");
                pool.resilver(|_| ()).await.expect("resilvered");
                pool.close().await.expect("close");
            }
            let too_few = import(parity + 1..count).await;
            let Err(SetupError::VdevMissing { .. }) = too_few else {
                panic!("{:?} of {count}", too_few.err());
            };
        });
    }
}

#[test]
fn a_member_of_a_raidz_is_replaced() {
    for (seed, (count, parity)) in (11..).zip([(3, 1), (5, 2), (7, 3)]) {
        for is_missing in [false, true] {
            simulated(seed, async move || {
                furnish((count, parity, 64)).await;
                let pool = import(usize::from(is_missing)..count).await;
                let pool = pool.expect("enough members");
                let vdevs = pool.vdevs();
                let old = members(&pool)[0].0;
                let refused = vdevs.detach(old).await;
                assert!(matches!(refused, Err(SetupError::FixedMembers { .. })));
                let mut new = disks(count, (1, 0, 64)).await;
                let new = vdevs.replace(old, new.remove(0), false).await;
                let new = new.expect("replaced");
                assert_eq!(members(&pool)[0], (new, MemberState::Stale));
                // what the stale member misses
                fill(&volume(&pool, "other", 1 << 20).await, 128).await;
                let copied = pool.resilver(|_| ()).await.expect("resilvered");
                assert!(copied > 0);
                assert_eq!(members(&pool)[0], (new, MemberState::Online));
                check(&pool).await;
                drop(vdevs);
                pool.close().await.expect("close");
                // the new member is needed: as many others are gone as the parity allows
                let there = 1 + usize::from(parity)..count + 1;
                let pool = import(there).await.expect("enough members");
                check(&pool).await;
                pool.close().await.expect("close");
            });
        }
    }
}
