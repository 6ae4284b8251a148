//! Behaviours of contents: reads, writes, sizes, appending, copies. POSIX `pread`, `pwrite`, `ftruncate`.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use backend::file::{Allocate, Caller, FILE_SIZE_MAX, FileError, Seek, Stability, WriteAt};
use io::rng::Prng;

use super::bed::{Bed, CACHED, alice, buffer, noise};

pub(super) async fn what_was_written_is_read(bed: Bed) {
    let file = bed.file("file").await;
    let mut model = Vec::new();
    let mut prng = Prng::new(7);
    for round in 0..60 {
        let offset = match round % 3 {
            0 => prng.below(500_000),
            1 => prng.below(100) * 4096,
            _ => model.len() as u64,
        } as usize;
        let len = 1 + prng.below(if round % 2 == 0 { 9000 } else { 150_000 }) as usize;
        let data = noise(round, len);
        bed.write(file, offset as u64, &data).await;
        model.resize(model.len().max(offset + len), 0);
        model[offset..offset + len].copy_from_slice(&data);
        assert_eq!(bed.attributes(file).await.size, model.len() as u64);
        let from = prng.below(model.len() as u64) as usize;
        let want = prng.below(200_000) as usize;
        let end = (from + want).min(model.len());
        assert!(bed.read(file, from as u64, want).await == model[from..end]);
    }
    assert!(bed.contents(file).await == model);
    let _proof = bed.files.commit(file).await.unwrap();
    assert!(bed.contents(file).await == model);
}

pub(super) async fn reads_end_with_the_file(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 0, b"0123456789").await;
    let read = async |offset, len| {
        let data = bed.files.read(file, offset, len).await.unwrap();
        (super::bed::bytes(&data), data.is_end)
    };
    assert_eq!(read(0, 4).await, (b"0123".to_vec(), false));
    assert_eq!(read(8, 2).await, (b"89".to_vec(), true));
    assert_eq!(read(8, 100).await, (b"89".to_vec(), true));
    for offset in [10, 11, 1 << 40, u64::MAX] {
        assert_eq!(read(offset, 1).await, (vec![], true), "at {offset}");
    }
    assert_eq!(read(3, 0).await.0, b"");
    let all = read(0, usize::MAX).await;
    assert_eq!(all, (b"0123456789".to_vec(), true));
}

pub(super) async fn a_write_of_nothing_changes_nothing(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 0, b"abc").await;
    let before = bed.attributes(file).await;
    for at in [WriteAt::End, WriteAt::Offset(0), WriteAt::Offset(99)] {
        let written = bed.try_write(alice(), file, at, b"").await.unwrap();
        assert_eq!(written.object.before, written.object.after);
    }
    assert_eq!(bed.attributes(file).await, before);
}

pub(super) async fn sizes_are_limited(bed: Bed) {
    let file = bed.file("file").await;
    for offset in [FILE_SIZE_MAX, FILE_SIZE_MAX - 1, u64::MAX] {
        let at = WriteAt::Offset(offset);
        let written = bed.try_write(&bed.root, file, at, b"ab").await;
        assert_eq!(written.err(), Some(FileError::TooLarge), "at {offset}");
    }
    assert_eq!(bed.attributes(file).await.size, 0);
    bed.write(file, FILE_SIZE_MAX - 2, b"ab").await;
    assert_eq!(bed.attributes(file).await.size, FILE_SIZE_MAX);
    assert_eq!(bed.read(file, FILE_SIZE_MAX - 3, 9).await, b"\0ab");
    let more = bed.try_write(&bed.root, file, WriteAt::End, b"c").await;
    assert_eq!(more.err(), Some(FileError::TooLarge));
    bed.set_size(file, 3).await;
    assert_eq!(bed.contents(file).await, [0; 3]);
    bed.set_size(file, FILE_SIZE_MAX).await;
    assert_eq!(bed.read(file, FILE_SIZE_MAX - 1, 9).await, [0]);
    bed.set_size(file, 0).await;
    assert_eq!(bed.attributes(file).await.size, 0);
}

pub(super) async fn a_file_that_shrank_grows_with_zeroes(bed: Bed) {
    let data = noise(3, 400_000);
    for (i, cut) in [
        0, 1, 511, 4095, 4096, 4097, 131_071, 131_072, 131_073, 399_999,
    ]
    .into_iter()
    .enumerate()
    {
        let file = bed.file(&i.to_string()).await;
        bed.write(file, 0, &data).await;
        if i % 2 == 0 {
            let _proof = bed.files.commit(file).await.unwrap();
        }
        bed.set_size(file, cut as u64).await;
        bed.set_size(file, 400_000).await;
        let want = [&data[..cut], &vec![0; 400_000 - cut]].concat();
        assert!(bed.contents(file).await == want, "cut at {cut}");
        // A write behind the end must not bring the old bytes back either.
        bed.set_size(file, cut as u64).await;
        let _proof = bed.files.commit(file).await.unwrap();
        bed.write(file, 500_000, b"x").await;
        let gap = bed.read(file, cut as u64, 500_000 - cut).await;
        assert!(gap.iter().all(|b| *b == 0), "cut at {cut}");
    }
}

/// Appends `count` records of its own byte, in tasks of its own.
async fn append(bed: Bed, file: backend::file::Handle, byte: u8, count: usize) {
    for _ in 0..count {
        let data = buffer(&[byte; 999]).await;
        let (files, root) = (&bed.files, Caller::root());
        let written = files
            .write(&root, file, WriteAt::End, data.into(), CACHED)
            .await;
        let written = written.unwrap().value;
        assert_eq!(written.offset, written.object.before.size);
        assert_eq!(written.object.after.size, written.offset + 999);
        io::yield_now().await;
    }
}

pub(super) async fn appends_by_two_writers_stay_whole(bed: Bed) {
    let file = bed.file("file").await;
    let writers = [1, 2, 3].map(|byte| io::spawn(append(bed.clone(), file, byte, 40)));
    for writer in writers {
        writer.await;
    }
    let contents = bed.contents(file).await;
    assert_eq!(contents.len(), 3 * 40 * 999);
    let mut counts = [0; 4];
    for record in contents.chunks(999) {
        assert!(record.iter().all(|b| *b == record[0]), "a record is whole");
        counts[usize::from(record[0])] += 1;
    }
    assert_eq!(counts, [0, 40, 40, 40]);
}

pub(super) async fn only_files_have_contents(bed: Bed) {
    let file = bed.file("some file").await;
    bed.write(file, 0, b"abc").await;
    let mut all = vec![("home", bed.home, FileError::IsDirectory)];
    let each = bed.one_of_each().await;
    let others = each.iter().filter(|(at, ..)| *at != "file");
    all.extend(others.map(|(at, _, handle)| (*at, *handle, FileError::Invalid)));
    for (at, of, error) in all {
        let (files, root) = (&bed.files, &bed.root);
        let end = WriteAt::End;
        let how = Allocate::Zero;
        let results = [
            files.read(of, 0, 1).await.err(),
            bed.try_write(root, of, end, b"x").await.err(),
            files.allocate(root, of, 0..1, how, true).await.err(),
            files.seek(of, 0, Seek::Data).await.err(),
            files.copy(root, (of, 0), (file, 0), 1).await.err(),
            files.copy(root, (file, 0), (of, 0), 1).await.err(),
        ];
        assert_eq!(results, [Some(error); 6], "{at}");
    }
    assert_eq!(bed.contents(file).await, b"abc");
}

/// Copies all of a range, in as many calls as it takes.
async fn copy_all(
    bed: &Bed,
    (from, source): (backend::file::Handle, u64),
    (to, target): (backend::file::Handle, u64),
    len: u64,
) -> u64 {
    let mut done = 0;
    while done < len {
        let rest = len - done;
        let part = ((from, source + done), (to, target + done));
        let copied = bed
            .files
            .copy(&bed.root, part.0, part.1, rest)
            .await
            .unwrap();
        assert!(copied <= rest);
        if copied == 0 {
            break;
        }
        done += copied;
    }
    done
}

pub(super) async fn copies_are_of_the_bytes(bed: Bed) {
    let (from, to) = (bed.file("from").await, bed.file("to").await);
    let data = noise(4, 700_000);
    bed.write(from, 0, &data).await;
    bed.write(to, 0, &[9; 100]).await;
    assert_eq!(
        copy_all(&bed, (from, 1000), (to, 50), 300_000).await,
        300_000
    );
    let want = [&[9; 50][..], &data[1000..301_000]].concat();
    assert!(bed.contents(to).await == want);
    // The end of the source ends the copy.
    let len = copy_all(&bed, (from, 699_990), (to, 0), u64::MAX).await;
    assert_eq!(len, 10);
    assert_eq!(bed.read(to, 0, 10).await, data[699_990..]);
    for (source, len) in [(700_000, 5), (u64::MAX, 5), (0, 0)] {
        let copied = bed.files.copy(&bed.root, (from, source), (to, 0), len);
        assert_eq!(copied.await, Ok(0));
    }
    let large = bed.files.copy(&bed.root, (from, 0), (to, FILE_SIZE_MAX), 5);
    assert_eq!(large.await, Err(FileError::TooLarge));
}

pub(super) async fn a_file_is_copied_into_itself_beside_the_source(bed: Bed) {
    let file = bed.file("file").await;
    let data = noise(5, 10_000);
    bed.write(file, 0, &data).await;
    for target in [0, 1, 4999, 5000, 9999] {
        let copied = bed
            .files
            .copy(&bed.root, (file, 5000), (file, target), 5000);
        let want = match target {
            0 => Ok(5000),
            _ => Err(FileError::Invalid),
        };
        assert_eq!(copied.await, want, "to {target}");
    }
    let want = [&data[5000..], &data[5000..]].concat();
    assert!(bed.contents(file).await == want);
    // The requested ranges overlap, the bytes up to the end do not.
    let copied = bed
        .files
        .copy(&bed.root, (file, 9000), (file, 10_000), 1 << 40);
    let copied = copied.await.unwrap();
    assert!((1..=1000).contains(&copied));
    assert_eq!(bed.attributes(file).await.size, 10_000 + copied);
}

pub(super) async fn durable_writes_are_read(bed: Bed) {
    let file = bed.file("file").await;
    for i in 0..20 {
        let data = buffer(&[i; 5000]).await;
        let stability = match i % 2 {
            0 => Stability::Durable,
            _ => Stability::Cached,
        };
        let written = bed
            .files
            .write(&bed.root, file, WriteAt::End, data.into(), stability);
        written.await.unwrap();
    }
    let contents = bed.contents(file).await;
    assert_eq!(contents.len(), 100_000);
    for (i, record) in contents.chunks(5000).enumerate() {
        assert!(record.iter().all(|b| usize::from(*b) == i));
    }
}
