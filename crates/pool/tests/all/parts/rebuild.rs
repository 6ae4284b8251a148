//! Rebuild of a new member in the order of disk addresses.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::{ChecksumKind, Host, MemberGuid, Packing, Sync};
use pool::vdev::{self, DATA_START, Layout, MemberState, OpenOptions, PoolSpec, VdevSpec, create};
use pool::{NewVolume, Options, Pool, Resilvering, Volume};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 8192;
const DISK_SIZE: u64 = 96 << 20;
/// Bytes of addresses that are in flight at most.
const IN_FLIGHT: usize = 5 << 20;

/// Members, and parity; no parity for a mirror.
type Shape = (usize, u8);
const SHAPES: [Shape; 4] = [(1, 0), (2, 0), (3, 1), (5, 2)];

fn layout((_, parity): Shape) -> Layout {
    match parity {
        0 => Layout::Mirror,
        parity => Layout::Raidz { parity },
    }
}

fn options() -> Options {
    Options {
        dirty_bytes: 1 << 20,
        resilver_blocks: 1024,
        ..Options::default()
    }
}

/// Runs on a machine whose disks `d0`, `d1`, … keep what is written.
fn on_machine<F: Future<Output = ()> + 'static>(seed: u64, test: impl FnOnce(Node) -> F + 'static) {
    Sim::new(seed, SimConfig::default()).block_on(async move { test(Node::new()).await });
}

async fn on<T: 'static>(node: Node, part: impl Future<Output = T> + 'static) -> T {
    node.spawn(part).await.expect("it has power")
}

async fn disk(n: usize) -> Disk {
    let node = Node::current();
    if node.disk(format!("d{n}")).is_none() {
        let config = DiskConfig {
            size: DISK_SIZE,
            volatile_cache: false,
            ..DiskConfig::default()
        };
        node.create_disk(format!("d{n}"), config);
    }
    loop {
        match Disk::open(format!("d{n}"), DiskOptions::default()).await {
            // Operations of a closed pool are still ending.
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

/// The whole blocks of a disk.
fn image(n: usize) -> Vec<Vec<u8>> {
    let disk = Node::current().disk(format!("d{n}")).expect("a disk");
    let image = disk.durable();
    image.bytes().chunks(BLOCK).map(<[u8]>::to_vec).collect()
}

async fn make(shape: Shape) -> Pool {
    let mut members = Vec::new();
    for n in 0..shape.0 {
        members.push(disk(n).await);
    }
    let vdev = VdevSpec::new(layout(shape), members);
    let host = Host::new([1; 16], "here");
    let opened = create(PoolSpec::new("tank", vec![vdev], host)).await;
    let pool = Pool::open(opened.expect("made"), options()).await;
    pool.expect("a pool")
}

async fn import(which: impl IntoIterator<Item = usize>) -> Pool {
    let mut disks = Vec::new();
    for n in which {
        disks.push(disk(n).await);
    }
    let found = vdev::scan(disks).await.pools.pop().expect("a pool");
    let opened = vdev::open(found, OpenOptions::new(Host::new([1; 16], "here"))).await;
    let pool = Pool::open(opened.expect("its members are in"), options()).await;
    pool.expect("a pool")
}

fn content(n: u64) -> Vec<u8> {
    let words = (0..BLOCK as u64 / 8).map(|at| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at);
    words.flat_map(u64::to_le_bytes).collect()
}

/// A volume whose blocks lie on the disks in another order than in its tree.
async fn scattered(pool: &Pool) -> Volume {
    let new = NewVolume {
        name: "vm".into(),
        size: BLOCKS * BLOCK as u64,
        block_size: BLOCK as u32,
        record_size: BLOCK as u32,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    let volume = pool.create_volume(new).await.expect("a volume");
    for n in 0..BLOCKS {
        let at = n * 2897 % BLOCKS;
        let mut buf = io::pool().alloc(BLOCK).await;
        buf.copy_from_slice(&content(at));
        volume.write(Lba(at), buf).await.expect("written");
        if n % 64 == 63 {
            let _proof = volume.flush().await.expect("flushed");
        }
    }
    pool.checkpoint().await.expect("a checkpoint");
    volume
}

/// Attaches disk `new` to a mirror, or puts it in the place of the first member of a raidz.
async fn add(pool: &Pool, new: usize) -> MemberGuid {
    let vdevs = pool.vdevs();
    let status = vdevs.status().remove(0);
    let disk = disk(new).await;
    match vdevs.is_raidz(status.id) {
        true => vdevs.replace(status.members[0].guid, disk, false).await,
        false => vdevs.attach(status.id, disk, false).await,
    }
    .expect("a new member")
}

async fn check(pool: &Pool) {
    let volume = pool.volume("vm").expect("it is there");
    for at in 0..BLOCKS {
        let extent = Extent {
            start: Lba(at),
            blocks: 1,
        };
        let read = volume.read(extent).await.expect("read");
        let mut buf = vec![0; BLOCK];
        read.copy_to(&mut buf);
        assert!(buf == content(at), "block {at}");
    }
}

/// Checks that every member has all that it should have.
async fn assert_whole(pool: &Pool) {
    let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
    assert_eq!((scrubbed.repaired, scrubbed.lost.len()), (0, 0));
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems, Vec::<String>::new());
}

/// Blocks of a disk between the journal and the labels at its end that are as on another one.
fn same(of: &[Vec<u8>], other: &[Vec<u8>], first: usize) -> BTreeSet<usize> {
    let zero = vec![0; BLOCK];
    let end = of.len() - (1 << 20) / BLOCK;
    let both = of.iter().zip(other).enumerate().take(end).skip(first);
    let both = both.filter(|(_, (a, b))| a == b && **a != zero);
    both.map(|(n, _)| n).collect()
}

/// A new member is written in the order of addresses, with few large writes, although the tree has another order.
#[test]
fn a_member_is_rebuilt_in_the_order_of_addresses() {
    for (seed, shape) in (1..).zip(SHAPES) {
        on_machine(seed, move |node| {
            on(node, async move {
                let pool = make(shape).await;
                scattered(&pool).await;
                let old = image(0);
                let member = add(&pool, 10).await;
                let start = DATA_START + pool.vdevs().table()[0].first_free.0;
                let first = (start as usize) / BLOCK;
                let (mut seen, mut positions) = (Vec::new(), Vec::new());
                let counters = |pool: &Pool| {
                    let members = pool.vdevs().status().remove(0).members;
                    let found = members.iter().find(|m| m.guid == member);
                    found.expect("the member").counters
                };
                let before = counters(&pool);
                let copied = pool.resilver(|r: &Resilvering| {
                    positions.push(r.position);
                    seen.push(same(&old, &image(10), first));
                });
                let copied = copied.await.expect("resilvered");
                assert!(copied >= BLOCKS, "{copied}");
                assert!(positions.is_sorted(), "{positions:?}");
                let after = counters(&pool);
                let writes = after.writes - before.writes;
                assert!(writes < BLOCKS / 16, "{writes} writes");
                // On a raidz, some rows lie before `first`.
                let data = match shape.1 {
                    0 => 1,
                    parity => shape.0 - usize::from(parity),
                };
                let all = same(&old, &image(10), first);
                let least = BLOCKS as usize * 3 / 4;
                assert!(all.len() * data >= least, "{} units", all.len());
                let most = IN_FLIGHT / BLOCK / data;
                let mut part = 0;
                for units in &seen {
                    let last = units.last().copied().unwrap_or(0);
                    let skipped = all.range(..last).filter(|n| !units.contains(n)).count();
                    assert!(skipped <= most, "{skipped} below {last}: {shape:?}");
                    part += usize::from((1..all.len()).contains(&units.len()));
                }
                assert!(part > 3, "{part} looks at a part");
                check(&pool).await;
                assert_whole(&pool).await;
            })
        });
    }
}

/// Blocks that rot on a source are not copied: another member has them, or they are reconstructed.
#[test]
fn a_rotten_source_is_not_copied() {
    for (seed, shape) in (11..).zip([(2, 0), (5, 2)]) {
        on_machine(seed, move |node| {
            on(node, async move {
                let pool = make(shape).await;
                scattered(&pool).await;
                let old = image(0);
                let start = DATA_START + pool.vdevs().table()[0].first_free.0;
                let rotten = Node::current().disk("d1").expect("a disk");
                let middle = start + (4 << 20);
                rotten.rot(middle..middle + (1 << 20));
                let member = add(&pool, 10).await;
                pool.resilver(|_| ()).await.expect("resilvered");
                let image = image(10);
                let zero = vec![0; BLOCK];
                let units = (middle as usize / BLOCK)..((middle + (1 << 20)) as usize / BLOCK);
                let is_wrong = |n: &usize| old[*n] != zero && image[*n] != old[*n];
                let wrong = units.filter(is_wrong).count();
                assert_eq!(wrong, 0, "{shape:?}");
                let members = pool.vdevs().status().remove(0).members;
                let joined = members.iter().find(|m| m.guid == member);
                assert_eq!(joined.map(|m| m.state), Some(MemberState::Online));
                check(&pool).await;
                // What is wrong on the source is repaired by a scrub; then nothing is left.
                pool.scrub(|_| ()).await.expect("scrubbed");
                assert_whole(&pool).await;
            })
        });
    }
}

/// Blocks are overwritten and freed while their copies wait: their places belong to new blocks when their turn comes.
#[test]
fn places_that_are_reused_during_a_rebuild_keep_their_new_blocks() {
    for (seed, shape) in (21..).zip(SHAPES) {
        on_machine(seed, move |node| {
            on(node, async move {
                let pool = Rc::new(make(shape).await);
                let volume = scattered(&pool).await;
                add(&pool, 10).await;
                let rest = Rc::new(Cell::new(Duration::from_secs(3600)));
                let resilver = io::spawn({
                    let (pool, rest) = (pool.clone(), rest.clone());
                    async move {
                        pool.resilver_paced(async |_| io::time::sleep(rest.get()).await)
                            .await
                    }
                });
                for round in 0..4 {
                    for n in 0..BLOCKS {
                        let at = (n * 1031 + round) % BLOCKS;
                        let mut buf = io::pool().alloc(BLOCK).await;
                        buf.copy_from_slice(&content(at));
                        volume.write(Lba(at), buf).await.expect("written");
                        if n % 256 == 255 {
                            let _proof = volume.flush().await.expect("flushed");
                        }
                    }
                    pool.checkpoint().await.expect("a checkpoint");
                    io::time::sleep(Duration::from_secs(2)).await;
                }
                assert!(!resilver.is_finished(), "it was to be slow: {shape:?}");
                rest.set(Duration::ZERO);
                let resilvered = resilver.await.expect("not killed");
                resilvered.expect("resilvered");
                check(&pool).await;
                assert_whole(&pool).await;
            })
        });
    }
}

/// The power goes when more than half is copied: the next resilver goes on there, and the member has everything then.
#[test]
fn a_rebuild_goes_on_after_a_power_cut() {
    for (seed, shape) in (31..).zip(SHAPES) {
        on_machine(seed, move |node| async move {
            let is_half = Rc::new(Cell::new(false));
            let begun = node.spawn({
                let is_half = is_half.clone();
                async move {
                    let pool = make(shape).await;
                    scattered(&pool).await;
                    add(&pool, 10).await;
                    let progress = async |r: &Resilvering| {
                        if r.done > r.of * 5 / 8 {
                            is_half.set(true);
                            io::time::sleep(Duration::from_secs(3600)).await;
                        }
                    };
                    pool.resilver_paced(progress).await.expect("resilvered");
                }
            });
            while !is_half.get() {
                io::time::sleep(Duration::from_millis(1)).await;
                assert!(!begun.is_finished(), "{shape:?}");
            }
            node.power_cut();
            node.power_on();
            on(node, async move {
                let members = (0..shape.0).filter(|n| shape.1 == 0 || *n > 0);
                let pool = import(members.chain([10])).await;
                // Younger blocks are copied wherever they are.
                let volume = pool.volume("vm").expect("it is there");
                for at in (0..BLOCKS).step_by(64) {
                    let mut buf = io::pool().alloc(BLOCK).await;
                    buf.copy_from_slice(&content(at));
                    volume.write(Lba(at), buf).await.expect("written");
                }
                let mut of = 0;
                let copied = pool.resilver(|r| of = r.of).await.expect("resilvered");
                let most = BLOCKS * 5 / 8;
                assert!(copied < most, "{copied} again: {shape:?}");
                assert!(of < most * BLOCK as u64, "{of}");
                check(&pool).await;
                assert_whole(&pool).await;
            })
            .await;
        });
    }
}
