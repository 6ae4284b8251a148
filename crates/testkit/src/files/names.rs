//! Behaviours of names: lookup, creation, links, removal. POSIX `open`, `mkdir`, `mknod`, `symlink`, `link`, `unlink`,
//! `rmdir`.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use backend::file::{
    FileError, FileKind, FileResult, IfExists, NAME_MAX, Name, NewKind, RemoveKind, SYMLINK_MAX,
    SetAttributes, SetTime, Timestamp, WriteAt,
};

use super::bed::{Bed, CACHED, alice, new};

pub(super) async fn a_name_is_found_where_it_was_created(bed: Bed) {
    let (a, b) = (bed.directory("a").await, bed.directory("b").await);
    let file = bed.file_in(a, "x").await;
    assert_eq!(bed.lookup(a, "x").await.unwrap().handle, file);
    assert_eq!(bed.lookup(b, "x").await, Err(FileError::NotFound));
    assert_eq!(bed.lookup(a, "xy").await, Err(FileError::NotFound));
    let upper = bed.lookup(a, "X").await.map(|found| found.handle);
    match bed.files.limits().is_case_insensitive {
        true => assert_eq!(upper, Ok(file)),
        false => assert_eq!(upper, Err(FileError::NotFound)),
    }
}

pub(super) async fn names_are_bytes(bed: Bed) {
    let long = [b'n'; NAME_MAX];
    let mut other = long;
    other[NAME_MAX - 1] = b'm';
    for (i, bytes) in [&long[..], &other, b" ", b"\n", b"...", b"\xff\xfe"]
        .iter()
        .enumerate()
    {
        let name = Name::new(bytes).unwrap();
        let new = new(NewKind::Symlink(vec![b'a' + i as u8]), 0);
        let created = bed
            .files
            .create(&bed.root, bed.home, &name, new, IfExists::Fail, CACHED);
        let result = created.await.map(|created| created.value.object.handle);
        if bed.files.limits().is_case_insensitive && std::str::from_utf8(bytes).is_err() {
            assert_eq!(result, Err(FileError::NameNotUtf8));
            continue;
        }
        let handle = result.unwrap();
        let found = bed.files.lookup(&bed.root, bed.home, &name).await;
        assert_eq!(found.unwrap().handle, handle);
        let target = bed.files.read_link(handle).await;
        assert_eq!(target, Ok(vec![b'a' + i as u8]));
        let listed = bed.list(bed.home, 10).await;
        assert!(listed.iter().any(|e| e.name == name && e.handle == handle));
    }
}

pub(super) async fn creation_makes_every_kind(bed: Bed) {
    for (at, kind, handle) in bed.one_of_each().await {
        let is = bed.attributes(handle).await;
        assert_eq!((is.kind, is.links, is.uid, is.gid), (kind, 1, 0, 0), "{at}");
        let size = if kind == FileKind::Symlink { 4 } else { 0 };
        let device = match kind {
            FileKind::CharDevice => 0x0105,
            FileKind::BlockDevice => 0x0800,
            _ => 0,
        };
        assert_eq!((is.size, is.device), (size, device), "{at}");
        let mode = if kind == FileKind::Symlink {
            0o777
        } else {
            0o640
        };
        assert_eq!(is.mode, mode, "{at}");
        assert_eq!(is.handle.filesystem, bed.home.filesystem);
    }
    let before = bed.attributes(bed.home).await;
    let made = bed.create(alice(), bed.home, "directory", NewKind::Directory, 0o1750);
    let made = made.await.unwrap();
    assert_eq!((made.kind, made.links), (FileKind::Directory, 2));
    assert_eq!((made.mode, made.uid, made.gid), (0o1750, 1000, 100));
    assert_eq!(bed.attributes(bed.home).await.links, before.links + 1);
    assert_eq!(bed.names(made.handle).await, [""; 0]);
    let wide = bed.create(&bed.root, bed.home, "wide", NewKind::File, 0o10000);
    assert_eq!(wide.await, Err(FileError::Invalid));
    assert_eq!(bed.lookup(bed.home, "wide").await, Err(FileError::NotFound));
}

pub(super) async fn creation_keeps_an_object_that_exists(bed: Bed) {
    let file = bed.file("file").await;
    bed.directory("directory").await;
    let link = NewKind::Symlink(b"file".to_vec());
    bed.create(&bed.root, bed.home, "link", link, 0)
        .await
        .unwrap();
    let home = bed.attributes(bed.home).await;
    let kinds = [
        NewKind::File,
        NewKind::Directory,
        NewKind::Symlink(b"x".to_vec()),
        NewKind::Fifo,
    ];
    for at in ["file", "directory", "link"] {
        for kind in kinds.clone() {
            let again = bed.create(&bed.root, bed.home, at, kind, 0o600).await;
            assert_eq!(again, Err(FileError::Exists), "{at}");
        }
    }
    bed.write(file, 0, b"abc").await;
    let before = bed.attributes(file).await;
    let open = |at| {
        let new = new(NewKind::File, 0o600);
        bed.try_create(&bed.root, bed.home, at, new, IfExists::Open)
    };
    let opened = open("file").await.unwrap();
    assert_eq!((opened.object, opened.is_new), (before, false));
    assert_eq!(opened.directory.before, opened.directory.after);
    for at in ["directory", "link"] {
        assert_eq!(open(at).await.err(), Some(FileError::Exists), "{at}");
    }
    assert_eq!(bed.attributes(bed.home).await, home);
    assert!(open("fresh").await.unwrap().is_new);
}

pub(super) async fn exclusive_creation_is_repeatable(bed: Bed) {
    let create = |at, verifier| {
        let new = new(NewKind::File, 0o600);
        let if_exists = IfExists::SameVerifier(verifier);
        bed.try_create(&bed.root, bed.home, at, new, if_exists)
    };
    let first = create("a", 7).await.unwrap();
    let again = create("a", 7).await.unwrap();
    assert_eq!((first.is_new, again.is_new), (true, false));
    assert_eq!(first.object.handle, again.object.handle);
    assert_eq!(create("a", 8).await.err(), Some(FileError::Exists));
    bed.file("plain").await;
    for (at, verifier) in [("zero", 0), ("large", u64::MAX)] {
        let plain = create("plain", verifier).await.err();
        assert_eq!(plain, Some(FileError::Exists));
        assert!(create(at, verifier).await.unwrap().is_new);
        assert!(!create(at, verifier).await.unwrap().is_new);
    }
    let times = SetAttributes {
        modified: SetTime::To(Timestamp(5)),
        ..SetAttributes::default()
    };
    bed.set(first.object.handle, times).await;
    assert_eq!(create("a", 7).await.err(), Some(FileError::Exists));
}

pub(super) async fn symbolic_links_keep_their_target(bed: Bed) {
    let make = |at, target: &[u8]| {
        let kind = NewKind::Symlink(target.to_vec());
        bed.create(alice(), bed.home, at, kind, 0o600)
    };
    for (at, target) in [
        ("short", &b"/"[..]),
        ("bytes", b"\xff/../\n"),
        ("long", &[b't'; SYMLINK_MAX]),
    ] {
        let link = make(at, target).await.unwrap();
        assert_eq!((link.size, link.mode), (target.len() as u64, 0o777));
        assert_eq!(bed.files.read_link(link.handle).await.unwrap(), target);
    }
    assert_eq!(make("x", b"").await, Err(FileError::Invalid));
    assert_eq!(make("x", b"a\0").await, Err(FileError::Invalid));
    let long = make("x", &[b't'; SYMLINK_MAX + 1]).await;
    assert_eq!(long, Err(FileError::NameTooLong));
    let file = bed.file("file").await;
    for other in [file, bed.home] {
        assert_eq!(bed.files.read_link(other).await, Err(FileError::Invalid));
    }
}

pub(super) async fn directories_know_their_parent(bed: Bed) {
    let a = bed.directory("a").await;
    let b = bed.directory_in(a, "b").await;
    let parent = async |of| Ok(bed.files.parent(&bed.root, of).await?.handle);
    assert_eq!(parent(b).await, Ok(a));
    assert_eq!(parent(a).await, Ok(bed.home));
    let root = bed.files.root();
    assert_eq!(parent(bed.home).await, Ok(root));
    assert_eq!(parent(root).await, Ok(root));
    let file = bed.file("file").await;
    let result: FileResult<_> = parent(file).await;
    assert_eq!(result, Err(FileError::NotDirectory));
}

pub(super) async fn only_directories_have_names(bed: Bed) {
    let target = bed.file("target").await;
    for (_, _, handle) in bed.one_of_each().await {
        let not = Err(FileError::NotDirectory);
        assert_eq!(bed.lookup(handle, "x").await, not);
        let created = bed.create(&bed.root, handle, "x", NewKind::File, 0o600);
        assert_eq!(created.await, not);
        let not = Some(FileError::NotDirectory);
        assert_eq!(bed.link(target, handle, "x").await.err(), not);
        let removed = bed.try_remove(&bed.root, handle, "x", RemoveKind::Any);
        assert_eq!(removed.await.err(), not);
        for (from, to) in [(handle, bed.home), (bed.home, handle)] {
            let renamed = bed.rename((from, "target"), (to, "x")).await;
            assert_eq!(renamed.err(), not);
        }
    }
}

pub(super) async fn links_are_names_of_one_object(bed: Bed) {
    let directory = bed.directory("directory").await;
    for (at, kind, handle) in bed.one_of_each().await {
        let linked = bed.link(handle, directory, at).await.unwrap();
        assert_eq!(linked.object.after.links, 2, "{at}");
        assert_eq!(linked.directory.after.links, 2, "no subdirectory");
        assert_eq!(bed.lookup(directory, at).await.unwrap().handle, handle);
        let again = bed.link(handle, directory, at).await;
        assert_eq!(again.err(), Some(FileError::Exists));
        let removed = bed.remove(bed.home, at).await;
        assert_eq!(
            (removed.object.after.links, kind),
            (1, removed.object.after.kind)
        );
        assert_eq!(bed.lookup(directory, at).await.unwrap().handle, handle);
    }
    let file = bed.lookup(directory, "file").await.unwrap().handle;
    bed.link(file, bed.home, "back").await.unwrap();
    bed.write(file, 0, b"abc").await;
    let back = bed.lookup(bed.home, "back").await.unwrap();
    assert_eq!(bed.contents(back.handle).await, b"abc");
    let refused = bed.link(directory, bed.home, "loop").await;
    assert_eq!(refused.err(), Some(FileError::NotOwner));
    let exists = bed.link(directory, bed.home, "back").await;
    assert_eq!(exists.err(), Some(FileError::Exists));
}

/// Only where the limit is small enough to be reached.
pub(super) async fn links_are_limited(bed: Bed) {
    let limit = bed.files.limits().links_max;
    if limit > 1000 {
        return;
    }
    let file = bed.file("file").await;
    let directory = bed.directory("links").await;
    for i in 1..limit {
        bed.link(file, directory, &i.to_string()).await.unwrap();
    }
    let more = bed.link(file, directory, "more").await;
    assert_eq!(more.err(), Some(FileError::Links));
    let full = bed.directory("full").await;
    for i in 2..limit {
        bed.directory_in(full, &i.to_string()).await;
    }
    let more = bed.create(&bed.root, full, "more", NewKind::Directory, 0o700);
    assert_eq!(more.await, Err(FileError::Links));
    let moved = bed.rename((bed.home, "links"), (full, "more")).await;
    assert_eq!(moved.err(), Some(FileError::Links));
    bed.file_in(full, "file").await;
}

pub(super) async fn removal_checks_the_kind(bed: Bed) {
    let remove = |at, kind| bed.try_remove(&bed.root, bed.home, at, kind);
    for (at, _, handle) in bed.one_of_each().await {
        let refused = remove(at, RemoveKind::Directory).await;
        assert_eq!(refused.err(), Some(FileError::NotDirectory), "{at}");
        let removed = remove(at, RemoveKind::File).await.unwrap();
        assert_eq!(removed.object.after.links, 0, "{at}");
        assert_eq!(removed.object.before.handle, handle);
        let again = remove(at, RemoveKind::File).await;
        assert_eq!(again.err(), Some(FileError::NotFound));
        bed.becomes_stale(handle).await;
    }
    for kind in [RemoveKind::Directory, RemoveKind::Any] {
        let directory = bed.directory("directory").await;
        let before = bed.attributes(bed.home).await;
        let refused = remove("directory", RemoveKind::File).await;
        assert_eq!(refused.err(), Some(FileError::IsDirectory));
        bed.file_in(directory, "inside").await;
        let refused = remove("directory", kind).await;
        assert_eq!(refused.err(), Some(FileError::NotEmpty));
        bed.remove(directory, "inside").await;
        let removed = remove("directory", kind).await.unwrap();
        assert_eq!(removed.object.after.links, 0);
        assert_eq!(removed.directory.after.links, before.links - 1);
        bed.becomes_stale(directory).await;
    }
    bed.file("any").await;
    remove("any", RemoveKind::Any).await.unwrap();
    assert_eq!(bed.names(bed.home).await, [""; 0]);
}

pub(super) async fn a_new_object_has_nothing_of_an_old_one(bed: Bed) {
    let mut seen = Vec::new();
    for _ in 0..40 {
        let file = bed.file("x").await;
        assert!(!seen.contains(&file), "a handle is never used again");
        assert_eq!(bed.contents(file).await, b"");
        let append = bed.try_write(&bed.root, file, WriteAt::End, b"old");
        assert_eq!(append.await.unwrap().offset, 0);
        bed.set_mode(file, 0o4711).await;
        bed.remove(bed.home, "x").await;
        seen.push(file);
    }
}
