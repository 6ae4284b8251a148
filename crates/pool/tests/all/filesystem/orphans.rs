//! The end of large and open files.

use backend::file::{Access, FileBackend, FileError};

use crate::filesystem::bed::{Bed, open, run};
use testkit::store::check;
use testkit::store::{BLOCK, MemoryStore};

const GIB: u64 = 1 << 30;

/// A file of a TiB with some data in every 200 GiB, and many attributes.
async fn large_file(bed: &Bed) -> backend::file::Handle {
    let file = bed.file("large").await;
    for at in (0..1024).step_by(200) {
        let end = (at * GIB) + 5 * GIB;
        for offset in (at * GIB..end).step_by(GIB as usize / 8) {
            bed.write(file, offset, &[1; 10]).await.unwrap();
        }
    }
    for n in 0..150 {
        let len = if n % 10 == 0 { 2000 } else { 10 };
        let set = bed.set_xattr(file, &format!("user.{n}"), len).await;
        set.unwrap();
    }
    bed.set_size(file, 1024 * GIB).await.unwrap();
    file
}

#[test]
fn a_large_file_is_freed_in_bounded_steps_also_after_a_crash() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = large_file(&bed).await;
        bed.store.remember();
        bed.remove(bed.root, "large").await.unwrap();
        assert_eq!(bed.files.attributes(file).await, Err(FileError::Stale));
        assert_eq!(bed.store.now().blocks.len(), 6 * 40, "nothing is freed yet");
        bed.free_orphans().await;
        let after = bed.store.now();
        assert!(after.blocks.is_empty() && after.inodes.len() == 1);
        check(&after);
        assert_eq!(bed.store.dropped_max(), 8, "data of a GiB at a time");

        let states = bed.store.history();
        assert!(states.len() > 6 * 5 + 2, "{} steps", states.len());
        for (n, state) in states.into_iter().enumerate() {
            check(&state);
            let store = MemoryStore::with(state, n as u64);
            let files = open(&store).await;
            let bed = Bed::of(store, files);
            bed.free_orphans().await;
            check(&bed.store.now());
            let is_there = bed.lookup(bed.root, "large").await.is_ok();
            assert_eq!(is_there, n == 0);
            assert_eq!(bed.store.now().blocks.is_empty(), n > 0);
        }
    });
}

#[test]
fn an_open_file_is_freed_when_it_is_closed_or_after_a_crash() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = bed.file("file").await;
        bed.write(file, 0, &[1; 10_000]).await.unwrap();
        let hold = bed
            .files
            .open(&bed.caller, file, Access::READ)
            .await
            .unwrap();
        let second = bed
            .files
            .open(&bed.caller, file, Access::READ)
            .await
            .unwrap();
        bed.remove(bed.root, "file").await.unwrap();
        bed.free_orphans().await;
        drop(second);
        bed.free_orphans().await;
        assert_eq!(bed.read(file, 9_999, 9).await.unwrap(), [1]);
        check(&bed.store.now());

        let crashed = MemoryStore::with(bed.store.now(), 2);
        let again = Bed::of(crashed.clone(), open(&crashed).await);
        assert_eq!(again.files.attributes(file).await, Err(FileError::Stale));
        let opened = again.files.open(&bed.caller, file, Access::READ).await;
        assert_eq!(opened.err(), Some(FileError::Stale), "it has no name");
        again.free_orphans().await;
        assert!(crashed.now().blocks.is_empty());
        check(&crashed.now());

        drop(hold);
        assert_eq!(bed.files.attributes(file).await, Err(FileError::Stale));
        bed.free_orphans().await;
        assert!(bed.store.now().blocks.is_empty());
        check(&bed.store.now());
    });
}

#[test]
fn a_file_that_shrank_leaves_nothing_behind() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = bed.file("file").await;
        bed.write(file, 0, &[1; 50_000]).await.unwrap();
        bed.set_size(file, 3).await.unwrap();
        assert!(bed.store.now().blocks.len() as u64 <= (16 << 10) / BLOCK);
        bed.set_size(file, 70_000).await.unwrap();
        let mut want = vec![0; 70_000];
        want[..3].fill(1);
        assert!(bed.read(file, 0, 80_000).await.unwrap() == want);
        bed.set_size(file, 5).await.unwrap();
        bed.write(file, 20_000, &[2]).await.unwrap();
        want[5..].fill(0);
        want[20_000] = 2;
        assert!(bed.read(file, 0, 80_000).await.unwrap() == want[..20_001]);
    });
}
