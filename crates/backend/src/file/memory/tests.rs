//! Tests of what only the file system in memory has: its memory, its limits and its cookies. The rest is the suite of
//! `testkit::files`.

use super::*;
use crate::file::{
    Ace, AceFlags, AceKind, AceMask, FileError, NewKind, RemoveKind, SetTime, Timestamp, Who,
};

const CACHED: Stability = Stability::Cached;

fn run(test: impl Future<Output = ()> + 'static) {
    let runtime = io::Runtime::new(io::RuntimeConfig::default()).unwrap();
    runtime.block_on(test);
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

fn new(kind: NewKind) -> NewFile {
    NewFile {
        kind,
        mode: 0o755,
        umask: None,
        acl: None,
    }
}

async fn create(files: &MemoryFiles, at: &str, kind: NewKind) -> FileResult<Attributes> {
    let (root, caller) = (files.root(), Caller::root());
    let created = files.create(&caller, root, &name(at), new(kind), IfExists::Fail, CACHED);
    Ok(created.await?.value.object)
}

async fn write(files: &MemoryFiles, of: Handle, offset: u64, len: usize) -> FileResult<()> {
    let mut data = io::pool().alloc(len).await;
    data.fill(7);
    let at = WriteAt::Offset(offset);
    let written = files.write(&Caller::root(), of, at, data.into(), CACHED);
    written.await.map(|_| ())
}

fn small(space_max: u64) -> MemoryFiles {
    MemoryFiles::new(MemoryOptions {
        space_max,
        links_max: 3,
        ..MemoryOptions::default()
    })
}

#[test]
fn memory_is_bounded_and_given_back() {
    run(async {
        let files = small(64 << 10);
        let caller = Caller::root();
        let empty = files.space(&caller).await.unwrap().available;
        let file = create(&files, "a", NewKind::File).await.unwrap().handle;
        let mut offset = 0;
        while write(&files, file, offset, 4096).await.is_ok() {
            offset += 8192;
        }
        assert_eq!(
            write(&files, file, offset, 4096).await,
            Err(FileError::NoSpace)
        );
        assert!(
            write(&files, file, 0, 4096).await.is_ok(),
            "it is there already"
        );
        assert_eq!(files.attributes(file).await.unwrap().size, offset - 4096);
        assert!(lock(&files.0).is_counted());

        let hold = files.open(&caller, file, Access::READ).await.unwrap();
        let root = files.root();
        let removed = files.remove(&caller, root, &name("a"), RemoveKind::File, CACHED);
        removed.await.unwrap();
        assert!(files.space(&caller).await.unwrap().available < empty);
        drop(hold);
        assert_eq!(files.space(&caller).await.unwrap().available, empty);
        assert_eq!(files.attributes(file).await, Err(FileError::Stale));
        assert!(lock(&files.0).is_counted());
    });
}

#[test]
fn every_part_of_an_object_is_counted() {
    run(async {
        let files = small(1 << 20);
        let caller = Caller::root();
        let empty = files.space(&caller).await.unwrap().available;
        create(&files, "l", NewKind::Symlink(vec![b'x'; 4000]))
            .await
            .unwrap();
        let directory = create(&files, "d", NewKind::Directory)
            .await
            .unwrap()
            .handle;
        let set = |value| {
            let how = SetXattr::Either;
            files.set_xattr(&caller, directory, b"user.a", value, how, CACHED)
        };
        set(Some(vec![1; 9000])).await.unwrap();
        set(Some(vec![1; 10])).await.unwrap();
        assert!(lock(&files.0).is_counted());
        set(None).await.unwrap();
        let ace = Ace {
            kind: AceKind::Allow,
            flags: AceFlags::default(),
            mask: AceMask::ALL,
            who: Who::Everyone,
        };
        let acl = Acl::new(vec![ace]).unwrap();
        let set = files.set_acl(&caller, directory, Some(acl), CACHED);
        set.await.unwrap();
        let mode = SetAttributes {
            mode: Some(0o640),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&caller, directory, mode, CACHED);
        set.await.unwrap();
        assert!(lock(&files.0).is_counted());
        for old in ["l", "d"] {
            let root = files.root();
            let removed = files.remove(&caller, root, &name(old), RemoveKind::Any, CACHED);
            removed.await.unwrap();
        }
        assert_eq!(files.space(&caller).await.unwrap().available, empty);
        assert!(lock(&files.0).is_counted());
    });
}

#[test]
fn a_truncated_file_gives_its_blocks_back() {
    run(async {
        let files = small(1 << 20);
        let file = create(&files, "a", NewKind::File).await.unwrap().handle;
        write(&files, file, 0, 10 * 4096).await.unwrap();
        let size = SetAttributes {
            size: Some(4097),
            modified: SetTime::To(Timestamp(9)),
            ..SetAttributes::default()
        };
        let set = files.set_attributes(&Caller::root(), file, size, CACHED);
        let after = set.await.unwrap().value.after;
        assert_eq!(
            (after.size, after.used, after.modified),
            (4097, 8192, Timestamp(9))
        );
        let punch = files.allocate(&Caller::root(), file, 0..8192, Allocate::Punch, false);
        assert_eq!(punch.await.unwrap().after.used, 0);
        assert!(lock(&files.0).is_counted());
    });
}

#[test]
fn links_are_limited() {
    run(async {
        let files = small(1 << 20);
        let (root, caller) = (files.root(), Caller::root());
        let file = create(&files, "a", NewKind::File).await.unwrap().handle;
        let link = |to: &str| files.link(&caller, file, root, &name(to), CACHED);
        link("b").await.unwrap();
        link("c").await.unwrap();
        assert_eq!(link("d").await.err(), Some(FileError::Links));
        create(&files, "x", NewKind::Directory).await.unwrap();
        let second = create(&files, "y", NewKind::Directory).await;
        assert_eq!(second, Err(FileError::Links));
    });
}
