//! Files of different record sizes in one filesystem.

use std::sync::Arc;

use backend::file::{Allocate, FileBackend, Handle, NewKind};
use pool::filesystem::Store;
use pool::format::filesystem::record_size_of;
use pool::format::{DatasetProperty, ObjectId, Setting};
use pool::{FileStore, NewFilesystem, Pool, Source};
use testkit::store::{check, check_charges};

use crate::filesystem::bed::Bed;
use crate::filesystem::pooled::{
    again, create_pool, durables, features, new_files, on_disk, open, verified,
};

const RECORDSIZE: DatasetProperty = DatasetProperty::Recordsize;

async fn set(pool: &Pool, name: Option<&str>, bytes: u32) {
    let setting = Setting {
        value: bytes.into(),
        is_received: false,
    };
    let set = pool.set_own(name, RECORDSIZE, Some(setting)).await;
    set.expect("set");
}

fn record_size(bed: &Bed<FileStore>, of: Handle) -> u32 {
    let base = bed.store.settings().base_record_size;
    record_size_of(ObjectId(of.object), base)
}

fn bytes(len: usize, first: u8) -> Vec<u8> {
    (0..len).map(|n| (n / 7) as u8 ^ first | 1).collect()
}

/// All operations on files whose records have another size than the dataset's record says.
#[test]
fn files_with_another_record_size_have_every_behaviour() {
    testkit::files::check_all(|behaviour| {
        on_disk(move |_| async move {
            let pool = create_pool().await;
            let new = NewFilesystem {
                record_size: 4096,
                ..new_files()
            };
            let store = pool.create_filesystem(new).await;
            // sizes up to 2^63 bytes need large records
            set(&pool, Some("files"), 64 << 10).await;
            let bed = open(store.expect("a filesystem")).await;
            let orphans = io::spawn(bed.files.clone().free_orphans());
            behaviour.check(Arc::new(bed.files)).await;
            check(&durables(&bed.store).await);
            orphans.abort();
            drop(bed.store);
            verified(&pool).await;
            pool.close().await.expect("closed");
            let pool = again().await;
            let store = pool.filesystem("files").expect("it is there");
            check(&durables(&store).await);
            check_charges(&durables(&store).await);
        });
    });
}

#[test]
fn a_file_keeps_the_record_size_of_its_creation() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await;
        let bed = open(store.expect("a filesystem")).await;
        let mut files = Vec::new();
        for (n, size) in [16u32 << 10, 4096, 1 << 20, 16 << 10]
            .into_iter()
            .enumerate()
        {
            set(&pool, Some("files"), size).await;
            let file = bed.file(&format!("file{n}")).await;
            assert_eq!(record_size(&bed, file), size);
            bed.write(file, 100_000, &bytes(200_000, n as u8))
                .await
                .expect("written");
            files.push((file, size));
        }
        let directory = bed.create(bed.root, "directory", NewKind::Directory).await;
        let directory = directory.expect("made").handle;
        set(&pool, Some("files"), 4096).await;
        for (file, size) in &files {
            assert_eq!(record_size(&bed, *file), *size);
            // small writes become blocks beside records
            bed.write(*file, 150_001, &[9; 3000])
                .await
                .expect("written");
        }
        drop(bed);
        pool.close().await.expect("closed");
        let pool = again().await;
        let bed = open(pool.filesystem("files").expect("it is there")).await;
        for (n, (file, size)) in files.into_iter().enumerate() {
            let found = bed
                .lookup(bed.root, &format!("file{n}"))
                .await
                .expect("found");
            assert_eq!(found.handle, file);
            assert_eq!(record_size(&bed, file), size);
            let mut want = vec![0; 100_000];
            want.extend(bytes(200_000, n as u8));
            want[150_001..153_001].fill(9);
            let read = bed.read(file, 0, 400_000).await.expect("read");
            assert!(read == want, "records of {size}");
        }
        let found = bed.lookup(bed.root, "directory").await.expect("found");
        assert_eq!(found.handle, directory);
        verified(&pool).await;
    });
}

/// Copies between files of different record sizes, holes, ends, snapshots and clones.
#[test]
fn records_of_different_sizes_have_the_same_bytes() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await;
        let bed = open(store.expect("a filesystem")).await;
        let small = bed.file("small").await;
        set(&pool, Some("files"), 128 << 10).await;
        let large = bed.file("large").await;
        set(&pool, Some("files"), 4096).await;
        let least = bed.file("least").await;
        let all = bytes(300_000, 5);
        bed.write(small, 0, &all).await.expect("written");
        for to in [large, least] {
            let copied = bed
                .files
                .copy(&bed.caller, (small, 1000), (to, 777), 250_000);
            let mut copied = copied.await.expect("copied");
            while copied < 250_000 {
                let from = (small, 1000 + copied);
                let to = (to, 777 + copied);
                let rest = bed.files.copy(&bed.caller, from, to, 250_000 - copied);
                copied += rest.await.expect("copied");
            }
        }
        pool.create_snapshot("files", "then").await.expect("taken");
        let mut want = vec![0; 777];
        want.extend(&all[1000..251_000]);
        let then = want.clone();
        for file in [large, least] {
            let punch =
                bed.files
                    .allocate(&bed.caller, file, 10_000..200_000, Allocate::Punch, false);
            punch.await.expect("punched");
            bed.set_size(file, 220_001).await.expect("set");
            bed.write(file, 240_000, b"end").await.expect("written");
        }
        want[10_000..200_000].fill(0);
        want.truncate(220_001);
        want.resize(240_000, 0);
        want.extend(b"end");
        for file in [large, least] {
            assert!(bed.read(file, 0, 400_000).await.expect("read") == want);
        }
        check(&durables(&bed.store).await);
        pool.checkpoint().await.expect("written");
        let _proof = bed.files.commit_all().await.expect("durable");
        check_charges(&durables(&bed.store).await);
        for file in [large, least] {
            assert!(bed.read(file, 0, 400_000).await.expect("read") == want);
        }
        let clone = pool.clone_snapshot("files", "then", "clone").await;
        drop(clone.expect("a clone"));
        let clone = open(pool.filesystem("clone").expect("it is there")).await;
        for (at, size) in [("small", 16 << 10), ("large", 128 << 10), ("least", 4096)] {
            let found = clone.lookup(clone.root, at).await.expect("found").handle;
            assert_eq!(record_size(&clone, found), size);
            let read = clone.read(found, 0, 400_000).await.expect("read");
            assert!(
                read == if at == "small" {
                    all.clone()
                } else {
                    then.clone()
                }
            );
        }
        let new = clone.file("new").await;
        assert_eq!(
            record_size(&clone, new),
            4096,
            "the value that its origin has"
        );
        verified(&pool).await;
    });
}

/// Closes a pool and opens it again. Returns whether its labels have the feature, too.
async fn reopened(pool: Pool) -> (Pool, bool) {
    pool.close().await.expect("closed");
    let features = features().await;
    (
        again().await,
        features.iter().any(|name| name == "record_sizes"),
    )
}

#[test]
fn a_record_size_is_inherited_and_needs_a_feature() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let plain = NewFilesystem::new("plain");
        drop(pool.create_filesystem(plain).await.expect("a filesystem"));
        let (pool, has_feature) = reopened(pool).await;
        assert!(!has_feature, "an earlier release can read it");
        let value = |pool: &Pool, name: &str| pool.property(Some(name), RECORDSIZE).expect("there");
        assert_eq!(value(&pool, "plain"), (128 << 10, Source::Default));
        drop(
            pool.create_filesystem(new_files())
                .await
                .expect("a filesystem"),
        );
        let (pool, has_feature) = reopened(pool).await;
        assert!(has_feature);
        let below = NewFilesystem::new("files/below");
        let below = pool.create_filesystem(below).await.expect("a filesystem");
        let from = || Source::Inherited("files".to_owned());
        assert_eq!(value(&pool, "files"), (16 << 10, Source::Local));
        assert_eq!(value(&pool, "files/below"), (16 << 10, from()));
        assert_eq!(below.settings().record_size, 16 << 10);
        assert_eq!(below.settings().base_record_size, 128 << 10);
        set(&pool, None, 8192).await;
        assert_eq!(value(&pool, "plain"), (8192, Source::FromPool));
        let inherit = pool.set_own(Some("files"), RECORDSIZE, None).await;
        inherit.expect("inherits");
        assert_eq!(value(&pool, "files"), (8192, Source::FromPool));
        assert_eq!(below.settings().record_size, 8192);
        let own = NewFilesystem::new("files/own");
        let own = pool.create_filesystem_with(own, &[RECORDSIZE]).await;
        drop(own.expect("a filesystem"));
        assert_eq!(value(&pool, "files/own"), (128 << 10, Source::Local));
        drop(below);
        pool.close().await.expect("closed");
        let pool = again().await;
        assert_eq!(value(&pool, "files"), (8192, Source::FromPool));
        assert_eq!(value(&pool, "files/own"), (128 << 10, Source::Local));
        set(&pool, Some("files"), 16 << 10).await;
        assert_eq!(value(&pool, "files/below"), (16 << 10, from()));
        let bed = open(pool.filesystem("files/below").expect("it is there")).await;
        let file = bed.file("file").await;
        assert_eq!(record_size(&bed, file), 16 << 10);
    });
}
