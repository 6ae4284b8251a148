//! Behaviours of the life of objects: open files without names, stale handles, durability, space.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use backend::file::{
    Access, Allocate, Cookie, FileError, Handle, IfExists, NewKind, RemoveKind, RenameMode, Seek,
    SetAttributes, SetXattr, Stability, WriteAt,
};

use super::bed::{Bed, CACHED, buffer, name, new, noise};

pub(super) async fn an_open_file_lives_without_names(bed: Bed) {
    let file = bed.file("file").await;
    let data = noise(1, 300_000);
    bed.write(file, 0, &data).await;
    let open = || {
        bed.files
            .open(&bed.root, file, Access::READ | Access::WRITE)
    };
    let (first, second) = (open().await.unwrap(), open().await.unwrap());
    let removed = bed.remove(bed.home, "file").await;
    assert_eq!(removed.object.after.links, 0);
    assert_eq!(bed.lookup(bed.home, "file").await, Err(FileError::NotFound));
    drop(first);
    assert_eq!(bed.attributes(file).await.links, 0);
    assert_eq!(bed.contents(file).await, data);
    bed.write(file, 300_000, b"more").await;
    bed.set_size(file, 5).await;
    bed.set_size(file, 10).await;
    assert_eq!(bed.contents(file).await, [&data[..5], &[0; 5]].concat());
    let linked = bed.link(file, bed.home, "again").await;
    assert_eq!(linked.err(), Some(FileError::NotFound));
    let third = open().await.unwrap();
    drop(second);
    assert_eq!(bed.attributes(file).await.size, 10);
    let other = bed.file("file").await;
    assert_ne!(other, file);
    drop(third);
    bed.becomes_stale(file).await;
    assert_eq!(bed.attributes(other).await.links, 1);
}

pub(super) async fn a_replaced_open_file_lives_on(bed: Bed) {
    let (old, new) = (bed.file("old").await, bed.file("new").await);
    bed.write(new, 0, b"victim").await;
    let hold = bed.files.open(&bed.root, new, Access::READ).await.unwrap();
    let renamed = bed.rename((bed.home, "old"), (bed.home, "new")).await;
    assert_eq!(renamed.unwrap().other.unwrap().after.links, 0);
    assert_eq!(bed.lookup(bed.home, "new").await.unwrap().handle, old);
    assert_eq!(bed.contents(new).await, b"victim");
    drop(hold);
    bed.becomes_stale(new).await;
}

pub(super) async fn only_files_are_opened(bed: Bed) {
    for (at, _, handle) in bed.one_of_each().await {
        let opened = bed.files.open(&bed.root, handle, Access::READ).await;
        let want = (at != "file").then_some(FileError::Invalid);
        assert_eq!(opened.err(), want, "{at}");
    }
    let opened = bed.files.open(&bed.root, bed.home, Access::READ).await;
    assert_eq!(opened.err(), Some(FileError::IsDirectory));
}

pub(super) async fn handles_of_gone_objects_are_stale(bed: Bed) {
    let file = bed.file("file").await;
    bed.remove(bed.home, "file").await;
    bed.becomes_stale(file).await;
    let directory = bed.directory("directory").await;
    bed.remove(bed.home, "directory").await;
    bed.becomes_stale(directory).await;
    let live = bed.file("live").await;
    let foreign = [
        Handle {
            generation: live.generation ^ 1,
            ..live
        },
        Handle {
            filesystem: live.filesystem ^ 1,
            ..live
        },
        Handle {
            object: u64::MAX,
            ..live
        },
        Handle { object: 0, ..live },
    ];
    for stale in [file, directory].into_iter().chain(foreign) {
        refuses_everything(&bed, stale).await;
    }
    assert_eq!(bed.names(bed.home).await, ["live"]);
}

/// Every operation on a handle, and what it must answer.
async fn refuses_everything(bed: &Bed, stale: Handle) {
    let (files, root) = (&bed.files, &bed.root);
    let (x, live) = (
        name("x"),
        bed.lookup(bed.home, "live").await.unwrap().handle,
    );
    let set = SetAttributes::default();
    let fresh = || new(NewKind::File, 0o600);
    let replace = RenameMode::Replace;
    let range = 0..1;
    let results = [
        files.lookup(root, stale, &x).await.err(),
        files.parent(root, stale).await.err(),
        files.attributes(stale).await.err(),
        files.set_attributes(root, stale, set, CACHED).await.err(),
        files.access(root, stale, Access::READ).await.err(),
        files.open(root, stale, Access::READ).await.err(),
        bed.try_create(root, stale, "x", fresh(), IfExists::Fail)
            .await
            .err(),
        files.read_link(stale).await.err(),
        bed.link(stale, bed.home, "x").await.err(),
        bed.link(live, stale, "x").await.err(),
        bed.try_remove(root, stale, "x", RemoveKind::Any)
            .await
            .err(),
        bed.try_rename(root, (stale, "x"), (bed.home, "x"), replace)
            .await
            .err(),
        bed.try_rename(root, (bed.home, "live"), (stale, "x"), replace)
            .await
            .err(),
        files
            .read_directory(root, stale, Cookie::START, 9, false)
            .await
            .err(),
        files.read(stale, 0, 1).await.err(),
        bed.try_write(root, stale, WriteAt::End, b"x").await.err(),
        files.commit(stale).await.err(),
        files
            .allocate(root, stale, range, Allocate::Reserve, true)
            .await
            .err(),
        files.seek(stale, 0, Seek::Data).await.err(),
        files.copy(root, (stale, 0), (live, 0), 1).await.err(),
        files.copy(root, (live, 0), (stale, 0), 1).await.err(),
        files.xattr(root, stale, b"user.x").await.err(),
        files.xattrs(root, stale).await.err(),
        files
            .set_xattr(root, stale, b"user.x", None, SetXattr::Either, CACHED)
            .await
            .err(),
        files.acl(stale).await.err(),
        files.set_acl(root, stale, None, CACHED).await.err(),
        files.watch(stale).await.err(),
    ];
    for (i, result) in results.into_iter().enumerate() {
        assert_eq!(result, Some(FileError::Stale), "operation {i} on {stale:?}");
    }
}

pub(super) async fn durable_mutations_return_a_proof(bed: Bed) {
    let (files, root, home) = (&bed.files, &bed.root, bed.home);
    let (a, b, durable) = (name("a"), name("b"), Stability::Durable);
    let new = new(NewKind::File, 0o600);
    let created = files.create(root, home, &a, new, IfExists::Fail, durable);
    let created = created.await.unwrap();
    assert!(created.durable.is_some(), "create");
    let file = created.value.object.handle;
    let data = buffer(b"abc").await;
    let written = files
        .write(root, file, WriteAt::End, data.into(), durable)
        .await;
    assert!(written.unwrap().durable.is_some(), "write");
    let mode = SetAttributes {
        mode: Some(0o640),
        ..SetAttributes::default()
    };
    let set = files.set_attributes(root, file, mode, durable).await;
    assert!(set.unwrap().durable.is_some(), "set attributes");
    let value = Some(b"v".to_vec());
    let set = files.set_xattr(root, file, b"user.a", value, SetXattr::Either, durable);
    assert!(set.await.unwrap().durable.is_some(), "set xattr");
    if files.limits().has_acls {
        let set = files.set_acl(root, file, None, durable).await;
        assert!(set.unwrap().durable.is_some(), "set ACL");
    }
    let linked = files.link(root, file, home, &b, durable).await;
    assert!(linked.unwrap().durable.is_some(), "link");
    let c = name("c");
    for (mode, to) in [(RenameMode::Replace, &c), (RenameMode::Exchange, &a)] {
        // The exchange is of two names of one object: nothing is done, and even that is proven.
        let from = if mode == RenameMode::Replace { &b } else { &c };
        let renamed = files
            .rename(root, home, from, home, to, mode, durable)
            .await;
        assert!(renamed.unwrap().durable.is_some(), "{mode:?}");
    }
    let removed = files
        .remove(root, home, &c, RemoveKind::File, durable)
        .await;
    assert!(removed.unwrap().durable.is_some(), "remove");
    let _proof = files.commit(file).await.unwrap();
    let _proof = files.commit(home).await.unwrap();
    let _proof = files.commit_all().await.unwrap();
    assert_eq!(bed.contents(file).await, b"abc");
    assert_eq!(bed.names(home).await, ["a"]);
}

pub(super) async fn space_is_counted(bed: Bed) {
    let space = || bed.files.space(&bed.root);
    let before = space().await.unwrap();
    let file = bed.file("file").await;
    bed.write(file, 0, &noise(2, 1 << 20)).await;
    let _proof = bed.files.commit_all().await.unwrap();
    let after = space().await.unwrap();
    assert_eq!(after.files, before.files + 1);
    assert!(after.available < before.available);
    assert!(after.available <= after.total);
    assert!(after.files_available > 0);
    let used = bed.attributes(file).await.used;
    assert!(used >= 1 << 20, "noise takes its size, and not {used}");
    assert_eq!(used % 512, 0);
}
