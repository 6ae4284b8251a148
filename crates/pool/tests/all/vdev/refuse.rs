//! Refusals of create and open, and states that still open.

use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::DiskConfig;
use pool::Error;
use pool::format::{
    Address, Birth, Host, LABEL_SIZE, PoolState, Uberblock, VdevOffset, is_of_later_version,
};
use pool::vdev::{
    AREA_SIZE, MemberState, OpenOptions, Opened, PoolSpec, Presence, SetupError, create, open, scan,
};

use crate::vdev::world::{
    BLOCK, DISK_SIZE, buffer, config, disk, disks, find, get, get_all, host, import, import_forced,
    machine, make, on, path, place, pointer, put, put_all, run,
};

fn refused(result: Result<Opened, SetupError>) -> SetupError {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

/// Runs on a machine with disks.
fn with(count: usize, act: impl AsyncFnOnce() + 'static) {
    run(1, async move {
        let (node, _) = machine(count);
        on(node, async move { act().await })
            .await
            .expect("it has power");
    });
}

#[test]
fn names_and_shapes_that_cannot_be() {
    with(1, async || {
        for name in ["", "a/b", "a b", &"x".repeat(300)] {
            let spec = PoolSpec::new(name, vec![disks(&[0]).await], host());
            let error = refused(create(spec).await);
            assert!(matches!(error, SetupError::Name { .. }), "{error}");
        }
        for vdevs in [vec![], vec![vec![]]] {
            let error = refused(create(PoolSpec::new("tank", vdevs, host())).await);
            assert!(matches!(error, SetupError::Shape { got: 0 }), "{error}");
        }
        let one = disk(0).await;
        let twice = vec![vec![one.clone(), one]];
        let error = refused(create(PoolSpec::new("tank", twice, host())).await);
        assert!(matches!(error, SetupError::SameDisk { .. }), "{error}");
        assert!(find(&[0]).await.is_none(), "nothing was written");
    });
}

#[test]
fn small_disks_name_the_smallest() {
    run(1, async {
        let (node, _) = machine(1);
        for (n, size) in [(1, 32 << 20), (2, 1 << 20), (3, 40 << 20), (4, 4096)] {
            node.create_disk(path(n), DiskConfig { size, ..config() });
        }
        on(node, async {
            let error = refused(make(&[&[0, 1], &[2, 3]]).await);
            let SetupError::TooSmall { path, size } = error else {
                panic!("{error}")
            };
            assert_eq!((path.to_str(), size), (Some("d2"), 1 << 20));
            let scanned = scan(disks(&[0, 1, 2, 3, 4]).await).await;
            assert_eq!((scanned.pools.len(), scanned.unread.len()), (0, 5));
        })
        .await
    });
}

#[test]
fn disks_of_a_pool_are_taken_only_by_force() {
    with(3, async || {
        drop(make(&[&[0, 1]]).await.expect("made"));
        let error = refused(make(&[&[1], &[2]]).await);
        assert!(
            matches!(&error, SetupError::InUse { name, .. } if name == "tank"),
            "{error}"
        );
        assert_eq!(
            scan(disks(&[2]).await).await.pools.len(),
            0,
            "nothing was written"
        );
        let mut spec = PoolSpec::new("bank", vec![disks(&[1, 2]).await], host());
        spec.force = true;
        drop(create(spec).await.expect("forced"));
        let pools = scan(disks(&[0, 1, 2]).await).await.pools;
        let names: Vec<_> = pools.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["bank", "tank"]);
        assert_eq!(pools[1].vdevs[0].members[1].presence, Presence::Missing);
    });
}

#[test]
fn another_hosts_pool_is_refused_unless_exported_or_forced() {
    with(1, async || {
        let there = || Host::new([2; 16], "there");
        let opened = make(&[&[0]]).await.expect("made");
        drop(opened);
        let found = find(&[0]).await.expect("found");
        let error = refused(open(found, OpenOptions::new(there())).await);
        let SetupError::ForeignHost { name, host } = &error else {
            panic!("{error}")
        };
        assert_eq!((name.as_str(), host.as_str()), ("tank", "here"));
        assert!(error.to_string().contains("force"), "{error}");
        let mut options = OpenOptions::new(there());
        options.force_host = true;
        let opened = open(find(&[0]).await.expect("found"), options).await;
        opened
            .expect("forced")
            .vdevs
            .export()
            .await
            .expect("exported");
        let found = find(&[0]).await.expect("found");
        assert_eq!(
            (found.state, found.host.name.as_str()),
            (PoolState::Exported, "there")
        );
        drop(found);
        drop(import(&[0]).await.expect("nobody uses it"));
    });
}

#[test]
fn a_missing_vdev_is_named_also_by_force() {
    with(3, async || {
        drop(make(&[&[0, 1], &[2]]).await.expect("made"));
        for which in [&[0, 1][..], &[2]] {
            let error = refused(import_forced(which).await);
            assert!(matches!(error, SetupError::VdevMissing { .. }), "{error}");
        }
    });
}

#[test]
fn it_opens_with_all_labels_but_one_overwritten() {
    for kept in 0..4 {
        with(1, async move || {
            let opened = make(&[&[0]]).await.expect("made");
            put_all(&opened.vdevs, 0..8, 1).await;
            let _stable = opened.vdevs.flush().await.expect("flushed");
            drop(opened);
            let raw = disk(0).await;
            let areas = [
                0,
                AREA_SIZE,
                DISK_SIZE - 2 * AREA_SIZE,
                DISK_SIZE - AREA_SIZE,
            ];
            for (index, at) in areas.into_iter().enumerate() {
                if index != kept {
                    let junk = buffer(&vec![0xa5; AREA_SIZE as usize]).await;
                    raw.write(junk, at).await.expect("written");
                }
            }
            drop(raw);
            let opened = import(&[0]).await.expect("one is enough");
            get_all(&opened.vdevs, 0..8, 1).await;
        });
    }
}

#[test]
fn a_copied_disk_is_named() {
    run(1, async {
        let (node, _) = machine(3);
        on(node, async move {
            drop(make(&[&[0, 1]]).await.expect("made"));
            let (from, to) = (disk(0).await, disk(2).await);
            for at in (0..DISK_SIZE).step_by(1 << 20) {
                let (read, buf) = from.read(buffer(&vec![0; 1 << 20]).await, at).await;
                read.expect("read");
                to.write(buf, at).await.expect("written");
            }
            drop((from, to));
            let error = refused(import(&[0, 1, 2]).await);
            assert!(matches!(error, SetupError::Duplicate { .. }), "{error}");
        })
        .await
    });
}

#[test]
fn read_only_writes_nothing_and_renaming_stays() {
    run(1, async {
        let (node, sims) = machine(2);
        on(node, async move {
            let opened = make(&[&[0, 1]]).await.expect("made");
            put_all(&opened.vdevs, 0..8, 1).await;
            let _stable = opened.vdevs.flush().await.expect("flushed");
            drop(opened);
            sims[0].rot(place_bytes());
            let before: Vec<_> = sims.iter().map(|d| d.durable().bytes().to_vec()).collect();
            let mut options = OpenOptions::new(host());
            options.read_only = true;
            let found = find(&[0, 1]).await.expect("found");
            let opened = open(found, options).await.expect("it opens");
            get_all(&opened.vdevs, 0..8, 1).await;
            let at = place(&opened.vdevs, 0, 0);
            assert_eq!(put(&opened.vdevs, at, 2).await, Err(Error::ReadOnly));
            assert!(matches!(opened.vdevs.flush().await, Err(Error::ReadOnly)));
            assert_eq!(opened.vdevs.scrub(&pointer(at, 1)).await, Ok(1));
            drop(opened);
            for (disk, before) in sims.iter().zip(before) {
                assert!(disk.durable().bytes() == before, "something was written");
                assert_eq!(disk.unflushed_blocks(), 0);
            }
            let read_only = DiskOptions {
                read_only: true,
                ..DiskOptions::default()
            };
            let disk = Disk::open(path(0), read_only).await.expect("open");
            let found = scan(vec![disk, crate::vdev::world::disk(1).await])
                .await
                .pools
                .pop();
            let error = refused(open(found.expect("found"), OpenOptions::new(host())).await);
            assert!(matches!(error, SetupError::ReadOnlyDisk { .. }), "{error}");
            let mut options = OpenOptions::new(host());
            options.name = Some("bank".to_owned());
            drop(
                open(find(&[0, 1]).await.expect("found"), options)
                    .await
                    .expect("opens"),
            );
            assert_eq!(find(&[1]).await.expect("found").name, "bank");
        })
        .await
    });
}

fn place_bytes() -> std::ops::Range<u64> {
    pool::vdev::DATA_START..DISK_SIZE - 2 * AREA_SIZE
}

#[test]
fn an_older_uberblock_is_opened_on_request() {
    with(2, async || {
        let opened = make(&[&[0], &[1]]).await.expect("made");
        for sequence in 2..100 {
            let uberblock = Uberblock {
                sequence,
                epoch: Birth(sequence),
                ..opened.uberblock
            };
            opened
                .vdevs
                .write_uberblock(&uberblock)
                .await
                .expect("written");
            let _stable = opened.vdevs.flush().await.expect("flushed");
        }
        drop(opened);
        let rewound = async |sequence| {
            let mut options = OpenOptions::new(host());
            options.rewind = Some(sequence);
            open(find(&[0, 1]).await.expect("found"), options).await
        };
        let opened = rewound(50).await.expect("it is still there");
        assert_eq!((opened.uberblock.sequence, opened.newest), (50, 99));
        drop(opened);
        let error = refused(rewound(30).await);
        let gone = SetupError::NoUberblock {
            sequence: 30,
            oldest: 40,
            newest: 99,
        };
        assert_eq!(error, gone);
        let opened = import(&[0, 1]).await.expect("nothing was given up yet");
        assert_eq!(opened.uberblock.sequence, 99);
        drop(opened);
        let opened = rewound(60).await.expect("it is still there");
        let uberblock = Uberblock {
            sequence: opened.newest + 1,
            ..opened.uberblock
        };
        opened
            .vdevs
            .write_uberblock(&uberblock)
            .await
            .expect("written");
        let _stable = opened.vdevs.flush().await.expect("flushed");
        drop(opened);
        let opened = import(&[0, 1]).await.expect("it opens");
        assert_eq!(
            (opened.uberblock.sequence, opened.uberblock.epoch.0),
            (100, 60)
        );
    });
}

/// Grown disks are used on request, and only if all members grew. The labels move to the new end.
#[test]
fn a_vdev_grows_with_the_smallest_of_its_disks() {
    run(1, async {
        let (node, sims) = machine(2);
        on(node, async move {
            let opened = make(&[&[0, 1]]).await.expect("made");
            put_all(&opened.vdevs, 0..8, 1).await;
            let _stable = opened.vdevs.flush().await.expect("flushed");
            let size = opened.vdevs.table()[0].size;
            drop(opened);
            let grown = async |grow| {
                let mut options = OpenOptions::new(host());
                options.grow = grow;
                let found = find(&[0, 1]).await.expect("found");
                open(found, options).await.expect("it opens").vdevs
            };
            sims[0].set_size(2 * DISK_SIZE);
            assert_eq!(grown(true).await.table()[0].size, size);
            sims[1].set_size(2 * DISK_SIZE);
            assert_eq!(grown(false).await.table()[0].size, size);
            assert_eq!(grown(true).await.table()[0].size, size + DISK_SIZE);
            for at in [0, AREA_SIZE] {
                let junk = buffer(&vec![0xa5; AREA_SIZE as usize]).await;
                disk(0).await.write(junk, at).await.expect("written");
            }
            let vdevs = grown(false).await;
            assert_eq!(vdevs.table()[0].size, size + DISK_SIZE, "it stays so");
            let last = Address {
                offset: VdevOffset(size + DISK_SIZE - BLOCK as u64),
                ..place(&vdevs, 0, 0)
            };
            put(&vdevs, last, 1).await.expect("there is room");
            get_all(&vdevs, 0..8, 1).await;
            drop(vdevs);
            let vdevs = grown(false).await;
            get(&vdevs, last, 1).await.expect("it is kept");
        })
        .await
    });
}

/// Regression: a disk with a label of a later version was considered unused, and overwritten.
#[test]
fn a_pool_of_a_later_version_is_named_and_not_overwritten() {
    run(1, async {
        let (node, sims) = machine(2);
        on(node, async move {
            drop(make(&[&[0]]).await.expect("made"));
            let image = sims[0].durable();
            let disk0 = disk(0).await;
            for n in 0..4 {
                // Two copies at each end.
                let at = match n {
                    0 | 1 => n * AREA_SIZE,
                    _ => DISK_SIZE - (4 - n) * AREA_SIZE,
                };
                let mut label = image.bytes()[at as usize..][..LABEL_SIZE].to_vec();
                label[4] = 200;
                let checked = LABEL_SIZE - 16;
                let seed = (0xffff << 48) | (at / 512);
                let sum = xxhash_rust::xxh3::xxh3_128_with_seed(&label[..checked], seed);
                label[checked..].copy_from_slice(&sum.to_le_bytes());
                let written = disk0.write(buffer(&label).await, at).await;
                written.expect("written");
            }
            drop(disk0);
            let later = sims[0].durable();
            let found = scan(disks(&[0]).await).await;
            assert!(found.pools.is_empty());
            assert!(found.unread[0].defects.iter().any(is_of_later_version));
            let error = refused(make(&[&[0]]).await);
            assert!(matches!(error, SetupError::LaterVersion { .. }), "{error}");
            let vdevs = make(&[&[1]]).await.expect("made").vdevs;
            let id = vdevs.table()[0].id;
            let error = vdevs.attach(id, disk(0).await, false).await;
            assert!(matches!(error, Err(SetupError::LaterVersion { .. })));
            assert!(
                sims[0].durable().bytes() == later.bytes(),
                "nothing written"
            );
            let attached = vdevs.attach(id, disk(0).await, true).await;
            attached.expect("forced");
        })
        .await
    });
}

/// One half is restored from an earlier copy. It was in then, and its labels say this.
#[test]
fn a_half_of_an_older_time_does_not_answer() {
    run(1, async {
        let (node, _) = machine(2);
        on(node, async move {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            put_all(&vdevs, 0..8, 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
            drop(vdevs);
            let older = copy_of(&disk(0).await).await;
            let vdevs = import(&[0, 1]).await.expect("both are there").vdevs;
            put_all(&vdevs, 0..8, 2).await;
            let _stable = vdevs.flush().await.expect("flushed");
            drop(vdevs);
            let first = disk(0).await;
            for (at, part) in (0..).step_by(COPY).zip(older.chunks(COPY)) {
                let written = first.write(buffer(part).await, at as u64).await;
                written.expect("written");
            }
            drop(first);
            let opened = import(&[0, 1]).await.expect("one half is whole");
            get_all(&opened.vdevs, 0..8, 2).await;
            let members = &opened.vdevs.status()[0].members;
            assert!(
                members[0].counters.checksum_errors > 0 || members[0].state != MemberState::Online
            );
            assert_eq!(members[1].state, MemberState::Online);
        })
        .await
    });
}

/// Bytes per copy operation.
const COPY: usize = 1 << 20;

async fn copy_of(disk: &io::disk::Disk) -> Vec<u8> {
    let mut all = Vec::new();
    for at in (0..DISK_SIZE).step_by(COPY) {
        let (read, buf) = disk.read(buffer(&vec![0; COPY]).await, at).await;
        read.expect("read");
        all.extend_from_slice(&buf);
    }
    all
}
