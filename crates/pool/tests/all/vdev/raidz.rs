//! A raidz: rows and the journal's copies with members that are missing, lie, fail or return.

use io::sim::SimDisk;
use pool::WriteClass;
use pool::format::{
    Address, Birth, BlockPtr, Checksum, ChecksumKind, Compression, VdevId, VdevKind, VdevOffset,
};
use pool::vdev::{
    DATA_START, Layout, MemberState, OpenOptions, Opened, PoolSpec, Resilvered, SetupError,
    VdevSpec, Vdevs, create, open,
};

use crate::vdev::world::{BLOCK, DISK_SIZE, buffer, disk, disks, find, host, machine, on, run};

/// Members and parity.
pub(crate) const SHAPES: [(usize, u8); 6] = [(2, 1), (3, 1), (4, 2), (6, 2), (7, 3), (16, 3)];

pub(crate) async fn make_raidz(members: usize, parity: u8) -> Opened {
    let all: Vec<usize> = (0..members).collect();
    let vdev = VdevSpec::new(Layout::Raidz { parity }, disks(&all).await);
    let made = create(PoolSpec::new("tank", vec![vdev], host())).await;
    made.expect("made")
}

/// A group of blocks: its first row, the sectors of each block, and their version.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) row: u64,
    pub(crate) blocks: Vec<u64>,
    pub(crate) version: u8,
}

pub(crate) fn bytes_of(at: u64, sectors: u64, version: u8) -> Vec<u8> {
    let words = (0..sectors * BLOCK as u64 / 8).map(|n| (at + n * 8) << 8 | u64::from(version));
    words.flat_map(u64::to_le_bytes).collect()
}

impl Group {
    fn address(&self, vdevs: &Vdevs, data: u64) -> u64 {
        vdevs.table()[0].first_free.0 + self.row * data * BLOCK as u64
    }

    /// The pointers of the blocks, and their bytes.
    pub(crate) fn blocks(&self, vdevs: &Vdevs, data: u64) -> Vec<(BlockPtr, Vec<u8>)> {
        let mut offset = self.address(vdevs, data);
        let mut blocks = Vec::new();
        for sectors in &self.blocks {
            let bytes = bytes_of(offset, *sectors, self.version);
            let at = Address {
                vdev: VdevId(0),
                offset: VdevOffset(offset),
            };
            let kind = ChecksumKind::Xxh3;
            let plain = (Compression::Off, bytes.len());
            let ptr = BlockPtr::to(at, &bytes, plain, kind, Birth(u64::from(self.version) + 1));
            assert_eq!(ptr.checksum, Checksum::of(kind, at, &bytes));
            offset += bytes.len() as u64;
            blocks.push((ptr, bytes));
        }
        blocks
    }

    pub(crate) async fn put(&self, vdevs: &Vdevs, data: u64) -> pool::Result<()> {
        let at = Address {
            vdev: VdevId(0),
            offset: VdevOffset(self.address(vdevs, data)),
        };
        let blocks = self.blocks(vdevs, data).into_iter();
        let bytes: Vec<u8> = blocks.flat_map(|(_, bytes)| bytes).collect();
        vdevs
            .write(at, buffer(&bytes).await, WriteClass::Data)
            .await
    }
}

/// Groups of many lengths, and one that reaches into the next band of rows.
pub(crate) fn groups(data: u64) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut row = 0;
    for blocks in [
        vec![1],
        vec![3, 1, 1, 5],
        vec![1; 9],
        vec![16, 2],
        vec![40, 1, 40],
    ] {
        let sectors: u64 = blocks.iter().sum();
        groups.push(Group {
            row,
            blocks,
            version: 1,
        });
        row += sectors.div_ceil(data);
    }
    groups.push(Group {
        row: 250,
        blocks: vec![data * 4 + 1, data * 4, 30],
        version: 1,
    });
    groups
}

pub(crate) async fn put_groups(vdevs: &Vdevs, data: u64) {
    for group in groups(data) {
        group
            .put(vdevs, data)
            .await
            .expect("enough members have it");
    }
    let _stable = vdevs.flush().await.expect("flushed");
}

pub(crate) async fn get_groups(vdevs: &Vdevs, data: u64, groups: &[Group]) {
    for group in groups {
        let blocks = group.blocks(vdevs, data);
        for (ptr, bytes) in &blocks {
            let read = vdevs.read(ptr).await;
            let read = read.unwrap_or_else(|e| panic!("{ptr:?}: {e}"));
            assert!(read[..] == bytes[..], "other bytes at {}", ptr.address());
        }
        let (ptrs, bytes): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let run = vdevs.read_run(&ptrs, &io::pool()).await.expect("readable");
        assert!(run[..] == bytes.concat()[..], "other bytes in a run");
    }
}

/// Opens without some members, for reading only.
pub(crate) async fn look(members: usize, without: &[usize]) -> Result<Opened, SetupError> {
    let there: Vec<usize> = (0..members).filter(|m| !without.contains(m)).collect();
    let options = OpenOptions {
        read_only: true,
        force_missing: true,
        ..OpenOptions::new(host())
    };
    open(find(&there).await.expect("a pool"), options).await
}

/// Choices of `count` neighbours and of members that are far apart.
pub(crate) fn absences(members: usize, count: usize) -> Vec<Vec<usize>> {
    let near = (0..members).map(|first| (0..count).map(|n| (first + n) % members).collect());
    let step = members / count.max(1);
    let far = (0..step).map(|first| (0..count).map(|n| first + n * step).collect());
    near.chain(far).collect()
}

#[test]
fn blocks_are_read_without_any_members_that_parity_replaces() {
    for (members, parity) in SHAPES {
        run(1, async move {
            let (node, _) = machine(members);
            on(node, async move {
                let data = (members - usize::from(parity)) as u64;
                let vdevs = make_raidz(members, parity).await.vdevs;
                assert_eq!(vdevs.status()[0].kind, VdevKind::Raidz { parity });
                put_groups(&vdevs, data).await;
                get_groups(&vdevs, data, &groups(data)).await;
                drop(vdevs);
                for without in absences(members, parity.into()) {
                    let vdevs = look(members, &without).await.expect("it opens").vdevs;
                    get_groups(&vdevs, data, &groups(data)).await;
                }
                let more: Vec<usize> = (0..=usize::from(parity)).collect();
                if more.len() < members {
                    let refused = look(members, &more).await.err().expect("too few");
                    assert!(
                        matches!(refused, SetupError::VdevMissing { .. }),
                        "{refused}"
                    );
                }
            })
            .await
            .expect("it has power");
        });
    }
}

/// As many members as parity replaces have rot everywhere: no wrong byte is returned, and blocks are repaired.
#[test]
fn rot_is_found_and_repaired() {
    // With more members the search takes long.
    for (members, parity) in SHAPES.into_iter().filter(|(members, _)| *members < 10) {
        run(2, async move {
            let (node, disks) = machine(members);
            on(node, async move {
                let data = (members - usize::from(parity)) as u64;
                let vdevs = make_raidz(members, parity).await.vdevs;
                put_groups(&vdevs, data).await;
                let mut repaired = 0;
                for lying in absences(members, parity.into()).into_iter().step_by(2) {
                    for member in lying {
                        disks[member].rot(DATA_START..DISK_SIZE - (512 << 10));
                    }
                    get_groups(&vdevs, data, &groups(data)).await;
                    for group in groups(data) {
                        for (ptr, _) in group.blocks(&vdevs, data) {
                            repaired += vdevs.scrub(&ptr).await.expect("readable");
                            assert_eq!(vdevs.scrub(&ptr).await, Ok(0), "it was repaired");
                        }
                        // Parity in rows of several blocks is not repaired by scrub: write it again.
                        group.put(&vdevs, data).await.expect("written");
                    }
                }
                assert!(repaired > 0, "parity of whole rows was wrong");
                let errors: u64 = counters(&vdevs).map(|c| c.checksum_errors).sum();
                assert!(errors > 0);
            })
            .await
            .expect("it has power");
        });
    }
}

fn counters(vdevs: &Vdevs) -> impl Iterator<Item = pool::vdev::MemberCounters> {
    let members = vdevs.status().remove(0).members.into_iter();
    members.map(|member| member.counters)
}

/// In each row another member has an unreadable sector. The block as a whole is on no set of members.
#[test]
fn each_row_may_lack_another_member() {
    run(3, async {
        let (node, disks) = machine(5);
        on(node, async move {
            let vdevs = make_raidz(5, 1).await.vdevs;
            let group = Group {
                row: 0,
                blocks: vec![20],
                version: 1,
            };
            group.put(&vdevs, 4).await.expect("written");
            let _stable = vdevs.flush().await.expect("flushed");
            let journal = journal_on_member(&vdevs, 5, 1);
            for (row, disk) in (0..5).zip(&disks) {
                let at = DATA_START + journal + row * BLOCK as u64;
                disk.fail_reads(at..at + 1);
            }
            get_groups(&vdevs, 4, std::slice::from_ref(&group)).await;
            let repairs: u64 = counters(&vdevs).map(|c| c.repairs).sum();
            assert_eq!(repairs, 4, "of five unreadable units one is parity");
            let (ptr, _) = group.blocks(&vdevs, 4).remove(0);
            assert_eq!(vdevs.scrub(&ptr).await, Ok(1), "the parity");
            assert_eq!(vdevs.scrub(&ptr).await, Ok(0));
        })
        .await
        .expect("it has power");
    });
}

/// Bytes of the journal's copies on each member.
fn journal_on_member(vdevs: &Vdevs, members: u64, parity: u64) -> u64 {
    let ring = vdevs.ring();
    let copies = ring.segments.len() as u64 * (parity + 1);
    copies.div_ceil(members) * u64::from(ring.segment_size)
}

pub(crate) fn states(vdevs: &Vdevs, state: MemberState) -> usize {
    let members = vdevs.status().remove(0).members;
    members.iter().filter(|m| m.state == state).count()
}

pub(crate) fn fail_writes(disks: &[SimDisk]) {
    disks
        .iter()
        .for_each(|disk| disk.error_rates(0.0, 1.0, 0.0));
}

/// A write counts when as many members have it as are needed to read it; then the others are out. Otherwise it fails, and none
/// leaves.
#[test]
fn a_write_needs_enough_members() {
    for (members, parity) in SHAPES {
        run(4, async move {
            let (node, disks) = machine(members);
            on(node, async move {
                let parity = usize::from(parity);
                let data = (members - parity) as u64;
                let vdevs = make_raidz(members, parity as u8).await.vdevs;
                put_groups(&vdevs, data).await;
                let group = Group {
                    row: 300,
                    blocks: vec![3, 9],
                    version: 2,
                };
                fail_writes(&disks[..=parity]);
                let failed = group.put(&vdevs, data).await;
                assert_eq!(failed, Err(pool::Error::Device));
                assert_eq!(states(&vdevs, MemberState::Online), members);
                disks[0].heal();
                group.put(&vdevs, data).await.expect("enough have it");
                assert_eq!(states(&vdevs, MemberState::Stale), parity);
                let _stable = vdevs.flush().await.expect("flushed");
                get_groups(&vdevs, data, &groups(data)).await;
                get_groups(&vdevs, data, &[group]).await;
            })
            .await
            .expect("it has power");
        });
    }
}

/// A range of the journal counts when all of its members that stay in have it.
#[test]
fn the_journal_is_on_each_of_its_members_that_is_in() {
    run(5, async {
        let (node, disks) = machine(5);
        on(node, async move {
            let vdevs = make_raidz(5, 1).await.vdevs;
            let segment = u64::from(vdevs.ring().segment_size);
            let put = async |segment_number: u64, byte: u8| {
                let at = Address {
                    vdev: VdevId(0),
                    offset: VdevOffset(segment_number * segment),
                };
                let bytes = buffer(&[byte; BLOCK]).await;
                vdevs.write(at, bytes, WriteClass::Journal).await
            };
            put(0, 1).await.expect("on members 0 and 1");
            let first: Vec<u64> = counters(&vdevs).map(|c| c.written.journal).collect();
            assert_eq!(first, [BLOCK as u64, BLOCK as u64, 0, 0, 0]);
            fail_writes(&disks[..2]);
            assert_eq!(put(0, 2).await, Err(pool::Error::Device), "no copy");
            assert_eq!(states(&vdevs, MemberState::Online), 5);
            disks[0].heal();
            put(0, 3).await.expect("member 1 leaves");
            assert_eq!(vdevs.status()[0].members[1].state, MemberState::Stale);
            fail_writes(&disks[3..4]);
            assert_eq!(
                put(1, 4).await,
                Err(pool::Error::Device),
                "no other may leave"
            );
            assert_eq!(states(&vdevs, MemberState::Online), 4);
        })
        .await
        .expect("it has power");
    });
}

/// A member that missed groups gets them back, data and parity; then others may be missing.
#[test]
fn a_member_that_missed_groups_is_resilvered() {
    for (members, parity) in SHAPES {
        run(1, async move {
            let (node, disks) = machine(members);
            on(node, async move {
                let data = (members - usize::from(parity)) as u64;
                let opened = make_raidz(members, parity).await;
                let (vdevs, uberblock) = (opened.vdevs, opened.uberblock);
                fail_writes(&disks[..1]);
                put_groups(&vdevs, data).await;
                disks[0].heal();
                // a write that failed may have reached the medium
                disks[0].rot(DATA_START..DISK_SIZE - (512 << 10));
                let member = vdevs.status()[0].members[0].guid;
                vdevs.begin_resilver(member).expect("it is stale");
                let next = pool::format::Uberblock {
                    sequence: 2,
                    epoch: Birth(2),
                    ..uberblock
                };
                vdevs.write_uberblock(&next).await.expect("written");
                let _stable = vdevs.flush().await.expect("flushed");
                for again in [false, true] {
                    let mut outcome = Resilvered::default();
                    for group in groups(data) {
                        let blocks = group.blocks(&vdevs, data).into_iter();
                        let part = vdevs.resilver(member, blocks.map(|(ptr, _)| ptr)).await;
                        let part = part.expect("it takes them");
                        outcome.copied += part.copied;
                        assert!(part.lost.is_empty());
                    }
                    assert_eq!(outcome.copied == 0, again, "a block is copied once");
                }
                vdevs.resilvered(member).await.expect("it is in");
                assert_eq!(states(&vdevs, MemberState::Online), members);
                drop(vdevs);
                let without: Vec<usize> = (1..=usize::from(parity)).collect();
                let vdevs = look(members, &without).await.expect("it opens").vdevs;
                get_groups(&vdevs, data, &groups(data)).await;
            })
            .await
            .expect("it has power");
        });
    }
}

/// Only whole rows are discarded: others have live blocks, whose parity must stay.
#[test]
fn a_part_of_a_row_is_not_discarded() {
    run(9, async {
        let (node, _) = machine(5);
        on(node, async move {
            let vdevs = make_raidz(5, 2).await.vdevs;
            let group = Group {
                row: 0,
                blocks: vec![1, 10, 1],
                version: 1,
            };
            group.put(&vdevs, 3).await.expect("written");
            let _stable = vdevs.flush().await.expect("flushed");
            let blocks = group.blocks(&vdevs, 3);
            let middle = blocks[1].0;
            vdevs.trim(middle.address(), 10 * BLOCK as u64).await;
            for counters in counters(&vdevs) {
                assert_eq!(counters.trimmed_bytes, 2 * BLOCK as u64, "two whole rows");
            }
            drop(vdevs);
            for without in absences(5, 2) {
                let vdevs = look(5, &without).await.expect("it opens").vdevs;
                for (ptr, bytes) in [&blocks[0], &blocks[2]] {
                    let read = vdevs.read(ptr).await.expect("it has parity");
                    assert!(read[..] == bytes[..]);
                }
            }
        })
        .await
        .expect("it has power");
    });
}

#[test]
fn shapes_that_cannot_be_and_changes_of_members_are_refused() {
    run(10, async {
        let (node, _) = machine(4);
        on(node, async move {
            for (members, parity) in [(1, 1), (2, 2), (3, 3)] {
                let some: Vec<usize> = (0..members).collect();
                let vdev = VdevSpec::new(Layout::Raidz { parity }, disks(&some).await);
                let made = create(PoolSpec::new("tank", vec![vdev], host())).await;
                let error = made.err().expect("refused");
                assert!(matches!(error, SetupError::Shape { .. }), "{error}");
            }
            let vdevs = make_raidz(3, 1).await.vdevs;
            let attached = vdevs.attach(VdevId(0), disk(3).await, false).await;
            let fixed = SetupError::FixedMembers { vdev: VdevId(0) };
            assert_eq!(attached, Err(fixed.clone()));
            let member = vdevs.status()[0].members[2].guid;
            assert_eq!(vdevs.detach(member).await, Err(fixed));
            vdevs.offline(member).await.expect("parity replaces it");
            let other = vdevs.status()[0].members[1].guid;
            let refused = vdevs.offline(other).await;
            assert_eq!(refused, Err(SetupError::LastMember { member: other }));
        })
        .await
        .expect("it has power");
    });
}
