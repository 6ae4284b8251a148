//! The contract of `BlockBackend`, tested on each backend; and operations of files only.

use backend::memory::MemoryDisk;
use backend::null::NullDisk;
use backend::raw::{OpenError, RawDisk, RawOptions};
use backend::{BlockBackend, Extent, Lba, StorageError};
use io::{IoBuf, Runtime, RuntimeConfig, pool, spawn};
use std::cell::Cell;
use std::rc::Rc;

fn run<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    Runtime::new(RuntimeConfig::default())
        .expect("io_uring is there")
        .block_on(f)
}

fn at(start: u64, blocks: u64) -> Extent {
    Extent {
        start: Lba(start),
        blocks,
    }
}

async fn filled(len: usize, byte: u8) -> IoBuf {
    let mut b = pool().alloc(len).await;
    b.fill(byte);
    b
}

async fn read(d: &dyn BlockBackend, e: Extent) -> Vec<u8> {
    let p = d.read(e).await.expect("read");
    let mut out = vec![0; p.len()];
    p.copy_to(&mut out);
    out
}

/// The contract of a disk that stores data.
async fn keeps_its_promises(d: &dyn BlockBackend) {
    let g = d.geometry();
    let bs = g.block_size as usize;
    assert!(
        read(d, at(0, 4)).await.iter().all(|b| *b == 0),
        "a new disk reads as zero"
    );
    d.write(Lba(1), filled(bs * 2, 7).await)
        .await
        .expect("write");
    let _durable = d
        .write_durable(Lba(2), filled(bs, 8).await)
        .await
        .expect("durable write");
    let _durable = d.flush().await.expect("flush");
    let want = [vec![0; bs], vec![7; bs], vec![8; bs], vec![0; bs]].concat();
    assert!(read(d, at(0, 4)).await == want);

    assert_eq!(d.compare(Lba(1), filled(bs, 7).await).await, Ok(()));
    let mut other = filled(bs * 2, 7).await;
    other[bs..].fill(8);
    other[bs + 5] = 9;
    assert_eq!(
        d.compare(Lba(1), other).await,
        Err(StorageError::Miscompare(bs as u64 + 5))
    );
    assert_eq!(
        d.compare_and_write(Lba(1), filled(bs, 1).await, filled(bs, 2).await)
            .await,
        Err(StorageError::Miscompare(0))
    );
    d.compare_and_write(Lba(1), filled(bs, 7).await, filled(bs, 2).await)
        .await
        .expect("equal");
    assert!(read(d, at(1, 1)).await.iter().all(|b| *b == 2));

    d.write_zeroes(at(1, 1), false).await.expect("zero");
    d.write_zeroes(at(2, 1), true).await.expect("zero and free");
    assert!(read(d, at(0, 4)).await.iter().all(|b| *b == 0));
    d.deallocate(at(0, g.blocks)).await.expect("deallocate all");

    for e in [
        at(g.blocks, 1),
        at(g.blocks - 1, 2),
        at(u64::MAX, 2),
        at(0, g.blocks + 1),
    ] {
        assert_eq!(
            d.read(e).await.err(),
            Some(StorageError::OutOfRange),
            "{e:?}"
        );
        assert_eq!(
            d.write_zeroes(e, true).await.err(),
            Some(StorageError::OutOfRange),
            "{e:?}"
        );
        assert_eq!(
            d.deallocate(e).await.err(),
            Some(StorageError::OutOfRange),
            "{e:?}"
        );
    }
    let beyond = d.write(Lba(g.blocks), filled(bs, 1).await).await;
    assert_eq!(beyond.err(), Some(StorageError::OutOfRange));

    let before = d.generation();
    let bigger = d.resize(g.blocks * 2).await.expect("grow");
    assert_eq!(bigger.blocks, g.blocks * 2);
    assert_ne!(d.generation(), before);
    assert!(
        read(d, at(g.blocks, 1)).await.iter().all(|b| *b == 0),
        "what was grown reads as zero"
    );
    d.write(Lba(g.blocks), filled(bs, 3).await)
        .await
        .expect("write in the new part");
    d.resize(g.blocks).await.expect("shrink");
    d.resize(g.blocks * 2).await.expect("grow again");
    assert!(
        read(d, at(g.blocks, 1)).await.iter().all(|b| *b == 0),
        "what was cut off does not come back"
    );
}

#[test]
fn a_ram_disk_keeps_its_promises_and_gives_memory_back() {
    run(async {
        for bs in [512, 4096] {
            let d = MemoryDisk::new(1 << 20, bs).expect("make");
            keeps_its_promises(&d).await;
            d.deallocate(at(0, d.geometry().blocks))
                .await
                .expect("deallocate");
            assert_eq!(d.usage().await.expect("usage").used, 0);
        }
        assert!(MemoryDisk::new(1 << 20, 1000).is_err());
        assert!(MemoryDisk::new(100, 512).is_err());
    });
}

#[test]
fn a_file_keeps_its_promises_with_and_without_the_page_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_path_buf();
    run(async move {
        for (name, block_size, buffered) in
            [("a", 4096, false), ("b", 4096, true), ("c", 512, true)]
        {
            let options = RawOptions {
                block_size: Some(block_size),
                create_size: Some(1 << 20),
                buffered,
                ..RawOptions::default()
            };
            let d = RawDisk::open(path.join(name), options).await.expect("open");
            assert_eq!(d.geometry().blocks, (1 << 20) / u64::from(block_size));
            keeps_its_promises(&d).await;
        }
    });
}

#[test]
fn a_file_cannot_be_opened_twice_or_empty_or_with_odd_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_path_buf();
    run(async move {
        let p = path.join("disk");
        let missing = RawDisk::open(&p, RawOptions::default()).await;
        assert_eq!(missing.err(), Some(OpenError::Io(io::Error::NotFound)));
        let create = RawOptions {
            create_size: Some(1 << 20),
            ..RawOptions::default()
        };
        let first = RawDisk::open(&p, create.clone()).await.expect("open");
        assert!(matches!(
            RawDisk::open(&p, create.clone()).await.err(),
            Some(OpenError::Io(io::Error::Busy(_)))
        ));
        drop(first);
        let odd = RawOptions {
            block_size: Some(1000),
            ..create.clone()
        };
        assert!(matches!(
            RawDisk::open(&p, odd).await.err(),
            Some(OpenError::BlockSize { asked: 1000, .. })
        ));
        std::fs::write(path.join("tiny"), b"").expect("write");
        let tiny = RawDisk::open(path.join("tiny"), RawOptions::default()).await;
        assert_eq!(tiny.err(), Some(OpenError::Empty));
        let ro = RawOptions {
            read_only: true,
            ..RawOptions::default()
        };
        let d = RawDisk::open(&p, ro).await.expect("open for reading");
        assert_eq!(
            d.write(Lba(0), filled(4096, 1).await).await,
            Err(StorageError::ReadOnly)
        );
        assert_eq!(
            d.write_zeroes(at(0, 1), true).await,
            Err(StorageError::ReadOnly)
        );
    });
}

#[test]
fn a_file_truncated_under_us_fails_reads_and_is_seen_by_refresh() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    run(async move {
        let create = RawOptions {
            create_size: Some(1 << 20),
            ..RawOptions::default()
        };
        let d = RawDisk::open(&path, create).await.expect("open");
        let f = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("open");
        f.set_len(8192).expect("truncate");
        assert_eq!(
            d.read(at(100, 1)).await.err(),
            Some(StorageError::MediaRead)
        );
        assert_eq!(d.refresh().await.expect("refresh").blocks, 2);
        assert_eq!(
            d.read(at(100, 1)).await.err(),
            Some(StorageError::OutOfRange)
        );
    });
}

#[test]
fn of_many_compare_and_writes_at_once_exactly_one_wins() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    run(async move {
        let create = RawOptions {
            create_size: Some(1 << 20),
            ..RawOptions::default()
        };
        let d = Rc::new(RawDisk::open(&path, create).await.expect("open"));
        let wins = Rc::new(Cell::new(0));
        let tasks: Vec<_> = (1..=20u8)
            .map(|i| {
                let (d, wins) = (d.clone(), wins.clone());
                spawn(async move {
                    let r = d
                        .compare_and_write(Lba(5), filled(4096, 0).await, filled(4096, i).await)
                        .await;
                    wins.set(wins.get() + u32::from(r.is_ok()));
                })
            })
            .collect();
        for t in tasks {
            t.await.expect("not killed");
        }
        assert_eq!(wins.get(), 1);
    });
}

#[test]
fn a_null_disk_forgets_but_checks_ranges() {
    run(async {
        let d = NullDisk::new(1 << 40, 4096).expect("make");
        d.write(Lba(3), filled(4096, 7).await).await.expect("write");
        assert!(read(&d, at(3, 1)).await.iter().all(|b| *b == 0));
        assert_eq!(
            d.read(at(1 << 28, 1)).await.err(),
            Some(StorageError::OutOfRange)
        );
        assert_eq!(
            d.compare(Lba(0), filled(4096, 1).await).await,
            Err(StorageError::Miscompare(0))
        );
    });
}

#[test]
fn compares_that_hold_all_buffers_do_not_wait_for_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    run(async move {
        let create = RawOptions {
            create_size: Some(8 << 20),
            ..RawOptions::default()
        };
        let d = Rc::new(RawDisk::open(&path, create).await.expect("open"));
        let mut held = Vec::new();
        while let Some(mut b) = pool().try_alloc(1 << 20) {
            b.fill(0);
            held.push(b);
        }
        assert!(held.len() > 8);
        let tasks: Vec<_> = held
            .into_iter()
            .map(|b| {
                let d = d.clone();
                spawn(async move { d.compare(Lba(0), b).await })
            })
            .collect();
        for t in tasks {
            assert_eq!(t.await, Some(Ok(())));
        }
    });
}
