//! Behaviours of holes: sparse files, seeks, allocation. Linux `fallocate`, `lseek`; RFC 7862, sections 15.1, 15.4, 15.11.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour; where holes begin is the file
//! system's matter, so only what is in them is checked.

use backend::file::{Allocate, FILE_SIZE_MAX, FileError, FileResult, Handle, Seek};

use super::bed::{Bed, noise};

pub(super) async fn holes_read_as_zero(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 1 << 20, b"a").await;
    bed.write(file, 5 << 20, b"b").await;
    let contents = bed.contents(file).await;
    let mut want = vec![0; (5 << 20) + 1];
    want[1 << 20] = b'a';
    want[5 << 20] = b'b';
    assert!(contents == want);
    bed.set_size(file, 1 << 40).await;
    assert_eq!(bed.read(file, (1 << 40) - 5, 100).await, [0; 5]);
    let _proof = bed.files.commit(file).await.unwrap();
    assert!(
        bed.attributes(file).await.used < 4 << 20,
        "holes take no space"
    );
}

async fn seek(bed: &Bed, of: Handle, offset: u64, to: Seek) -> FileResult<u64> {
    bed.files.seek(of, offset, to).await
}

/// Walks a file by seeks. Returns the ranges that may hold data.
async fn data_ranges(bed: &Bed, of: Handle, size: u64) -> Vec<std::ops::Range<u64>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let Ok(start) = seek(bed, of, at, Seek::Data).await else {
            break;
        };
        assert!((at..size).contains(&start));
        let end = seek(bed, of, start, Seek::Hole).await.unwrap();
        assert!(end > start && end <= size, "data at {start} ends at {end}");
        ranges.push(start..end);
        at = end;
    }
    ranges
}

pub(super) async fn seeks_find_all_data(bed: Bed) {
    let file = bed.file("file").await;
    let size = 8 << 20;
    for offset in [0, 70_000, 3 << 20, (5 << 20) + 1] {
        bed.write(file, offset, &noise(offset, 3000)).await;
    }
    bed.set_size(file, size).await;
    for is_committed in [false, true] {
        if is_committed {
            let _proof = bed.files.commit(file).await.unwrap();
        }
        let mut contents = bed.contents(file).await;
        let ranges = data_ranges(&bed, file, size).await;
        for range in &ranges {
            contents[range.start as usize..range.end as usize].fill(0);
        }
        assert!(contents.iter().all(|b| *b == 0), "holes have no data");
        let data: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert!(data < size, "there are holes");
        for to in [Seek::Data, Seek::Hole] {
            for start in (0..size + 5000).step_by(99_999) {
                let whole = seek(&bed, file, start, to).await.ok();
                for len in [0, 1, 50_000, size] {
                    let end = start + len;
                    let within = bed.files.seek_within(file, start..end, to).await;
                    let expected = whole.filter(|at| *at < end.min(size));
                    assert_eq!(within, Ok(expected), "{start}..{end}");
                }
            }
        }
    }
}

pub(super) async fn the_end_counts_as_a_hole(bed: Bed) {
    let file = bed.file("file").await;
    let none = Err(FileError::NoData);
    for to in [Seek::Data, Seek::Hole] {
        assert_eq!(seek(&bed, file, 0, to).await, none, "empty");
    }
    bed.write(file, 0, &[7; 10_000]).await;
    assert_eq!(seek(&bed, file, 5, Seek::Data).await, Ok(5));
    assert_eq!(seek(&bed, file, 5, Seek::Hole).await, Ok(10_000));
    for to in [Seek::Data, Seek::Hole] {
        for offset in [10_000, 10_001, u64::MAX] {
            assert_eq!(seek(&bed, file, offset, to).await, none, "at {offset}");
        }
    }
    let hole = bed.file("hole").await;
    bed.set_size(hole, 1 << 30).await;
    assert_eq!(seek(&bed, hole, 9, Seek::Data).await, none);
    assert_eq!(seek(&bed, hole, 9, Seek::Hole).await, Ok(9));
}

pub(super) async fn zeroed_ranges_read_as_zero(bed: Bed) {
    let data = noise(6, 600_000);
    let ranges = [
        0..1,
        0..4096,
        1..4095,
        4095..4097,
        100..300_000,
        131_072..262_144,
        131_071..262_145,
        500_000..600_000,
        599_999..700_000,
        600_000..650_000,
        0..1 << 40,
    ];
    for (i, range) in ranges.into_iter().enumerate() {
        for (how, grows) in [
            (Allocate::Zero, false),
            (Allocate::Zero, true),
            (Allocate::Punch, false),
        ] {
            let file = bed.file(&format!("{i} {how:?} {grows}")).await;
            bed.write(file, 0, &data).await;
            if i % 2 == 0 {
                let _proof = bed.files.commit(file).await.unwrap();
            }
            let mut want = data.clone();
            let end = range.end.min(600_000) as usize;
            want[range.start.min(600_000) as usize..end].fill(0);
            match bed.allocate(file, range.clone(), how, grows).await {
                Err(FileError::Unsupported) => continue,
                result => assert_eq!(result.err(), None),
            }
            let size = bed.attributes(file).await.size;
            let grown = if grows {
                range.end.max(600_000)
            } else {
                600_000
            };
            assert_eq!(size, grown, "{range:?} {how:?}");
            assert!(
                bed.read(file, 0, 600_000).await == want,
                "{range:?} {how:?}"
            );
            let behind = bed.read(file, 600_000, 1000).await;
            assert!(behind.iter().all(|b| *b == 0));
            let _proof = bed.files.commit(file).await.unwrap();
            assert!(
                bed.read(file, 0, 600_000).await == want,
                "{range:?} {how:?}"
            );
            bed.remove(bed.home, &format!("{i} {how:?} {grows}")).await;
        }
    }
}

pub(super) async fn punching_frees_space(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 0, &noise(8, 4 << 20)).await;
    let _proof = bed.files.commit(file).await.unwrap();
    let before = bed.attributes(file).await.used;
    let punched = bed.allocate(file, 0..3 << 20, Allocate::Punch, false);
    if punched.await.err() == Some(FileError::Unsupported) {
        return;
    }
    let _proof = bed.files.commit(file).await.unwrap();
    let after = bed.attributes(file).await.used;
    assert!(after <= before / 2, "{before} and then {after}");
}

pub(super) async fn reserving_keeps_the_data(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 0, b"abc").await;
    let before = bed.attributes(file).await;
    let reserve = |range, grows| bed.allocate(file, range, Allocate::Reserve, grows);
    if reserve(0..10_000, false).await.err() == Some(FileError::Unsupported) {
        return;
    }
    assert_eq!(bed.attributes(file).await.size, 3);
    assert_eq!(bed.attributes(file).await.change, before.change);
    reserve(0..10, true).await.unwrap();
    assert_eq!(bed.contents(file).await, b"abc\0\0\0\0\0\0\0");
    assert!(bed.attributes(file).await.change > before.change);
    reserve(1..5, true).await.unwrap();
    assert_eq!(bed.contents(file).await, b"abc\0\0\0\0\0\0\0");
}

pub(super) async fn ranges_are_checked(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 0, b"abc").await;
    for how in [Allocate::Reserve, Allocate::Zero, Allocate::Punch] {
        #[allow(clippy::reversed_empty_ranges)] // as a peer may send it
        for range in [0..0, 5..5, 7..3] {
            let empty = bed.allocate(file, range, how, true).await;
            assert_eq!(empty.err(), Some(FileError::Invalid), "{how:?}");
        }
        for range in [0..FILE_SIZE_MAX + 1, u64::MAX - 1..u64::MAX] {
            let large = bed.allocate(file, range, how, true).await;
            assert_eq!(large.err(), Some(FileError::TooLarge), "{how:?}");
        }
    }
    assert_eq!(bed.contents(file).await, b"abc");
}
