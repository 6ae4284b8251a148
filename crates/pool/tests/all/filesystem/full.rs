//! A store without space, and one that is read-only.

use backend::file::{Allocate, FileBackend, FileError, NewKind, RenameMode, Stability};
use pool::format::Sync;

use crate::filesystem::bed::{Bed, CACHED, run};
use testkit::store::check;

const NO_SPACE: Option<FileError> = Some(FileError::NoSpace);

#[test]
fn a_full_store_refuses_new_names_and_lets_old_ones_go() {
    run(|| async {
        let bed = Bed::new(1).await;
        let (file, other) = (bed.file("file").await, bed.file("other").await);
        bed.write(file, 0, &[1; 50_000]).await.unwrap();
        bed.directory(bed.root, "directory").await;
        bed.store.set_full(true);
        let before = bed.store.now();
        let created = bed.create(bed.root, "new", NewKind::File).await;
        assert_eq!(created.err(), NO_SPACE);
        assert_eq!(bed.link(file, bed.root, "new").await.err(), NO_SPACE);
        let renamed = bed.rename((bed.root, "file"), (bed.root, "other"), RenameMode::Replace);
        assert_eq!(renamed.await.err(), NO_SPACE);
        assert_eq!(bed.set_xattr(file, "user.a", 10).await.err(), NO_SPACE);
        assert_eq!(bed.write(file, 0, &[1]).await.err(), NO_SPACE);
        assert!(bed.store.now().values == before.values && bed.store.now().inodes == before.inodes);

        bed.set_size(file, 100).await.unwrap();
        let punched = bed
            .files
            .allocate(&bed.caller, file, 0..100, Allocate::Punch, false);
        punched.await.unwrap();
        bed.remove(bed.root, "directory").await.unwrap();
        bed.remove(bed.root, "other").await.unwrap();
        bed.remove(bed.root, "file").await.unwrap();
        assert_eq!(bed.files.attributes(other).await, Err(FileError::Stale));
        assert!(bed.store.now().blocks.is_empty());
        check(&bed.store.now());
    });
}

#[test]
fn a_read_only_store_is_read_and_never_changed() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = bed.file("file").await;
        bed.write(file, 0, b"contents").await.unwrap();
        bed.store.set(|settings| settings.is_read_only = true);
        bed.store.remember();
        assert!(bed.files.limits().is_read_only);
        assert_eq!(bed.read(file, 0, 99).await.unwrap(), b"contents");
        assert_eq!(bed.lookup(bed.root, "file").await.unwrap().handle, file);
        let read_only = Some(FileError::ReadOnly);
        let created = bed.create(bed.root, "new", NewKind::File).await;
        assert_eq!(created.err(), read_only);
        assert_eq!(bed.write(file, 0, b"x").await.err(), read_only);
        assert_eq!(bed.remove(bed.root, "file").await.err(), read_only);
        assert_eq!(bed.set_size(file, 0).await.err(), read_only);
        assert_eq!(bed.set_xattr(file, "user.a", 1).await.err(), read_only);
        assert_eq!(
            bed.store.history().len(),
            1,
            "no transaction, not for an access either"
        );
    });
}

#[test]
fn what_is_durable_is_asked_of_the_store() {
    run(|| async {
        let bed = Bed::new(1).await;
        let file = bed.file("file").await;
        assert_eq!(bed.store.flushes(), 0);
        assert!(bed.files.commit(file).await.is_ok());
        let buf = io::pool().alloc(1).await;
        let at = backend::file::WriteAt::End;
        let written = bed
            .files
            .write(&bed.caller, file, at, buf.into(), Stability::Durable);
        assert!(written.await.unwrap().durable.is_some());
        assert_eq!(bed.store.flushes(), 2);
        bed.store.set(|settings| settings.sync = Sync::Always);
        let buf = io::pool().alloc(1).await;
        let written = bed.files.write(&bed.caller, file, at, buf.into(), CACHED);
        assert!(written.await.unwrap().durable.is_some());
        assert_eq!(bed.store.flushes(), 3);
    });
}
