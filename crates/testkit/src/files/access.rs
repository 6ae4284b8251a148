//! Behaviours of permissions by mode. POSIX, section 4.5, `chmod`, `chown`, `utimensat`; Linux `unlink(2)`, `mknod(2)`.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use backend::file::{
    Access, Caller, CheckedBy, Cookie, FileError, FileResult, Handle, NewKind, RemoveKind,
    RenameMode, SetAttributes, SetTime, Timestamp,
};

use super::bed::{Bed, alice, bob, carol, name};

/// Callers, and the shift of their class in the mode of an object of user 1000 and group 100.
fn classes() -> [(&'static Caller, u16); 3] {
    [(alice(), 6), (bob(), 3), (carol(), 0)]
}

/// The outcome of an operation that needs `wanted` of a caller who has `has`.
fn outcome(has: u16, wanted: u16) -> Option<FileError> {
    (has & wanted != wanted).then_some(FileError::Access)
}

async fn owned(bed: &Bed, of: Handle, mode: u16) -> Handle {
    bed.set_owner(of, 1000, 100).await;
    bed.set_mode(of, mode).await;
    of
}

pub(super) async fn files_are_opened_by_their_class(bed: Bed) {
    let file = bed.file("file").await;
    for bits in 0..8 {
        for (caller, shift) in classes() {
            // All other classes have the opposite.
            let mode = (0o777 & !(7 << shift) & !(bits * 0o111)) | bits << shift;
            owned(&bed, file, mode).await;
            let context = format!("mode {mode:o}, user {}", caller.uid);
            let has = bed.access(caller, file).await;
            assert_eq!(has.bits(), bits, "{context}");
            for wanted in 0..8 {
                let access = Access::from_bits(wanted);
                let opened = bed.files.open(caller, file, access).await.err();
                assert_eq!(opened, outcome(bits, wanted), "{context}, {wanted}");
                let part = bed.files.access(caller, file, access).await.unwrap();
                assert_eq!(part.bits(), bits & wanted, "{context}");
            }
            let size = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            let cut = bed.try_set(caller, file, size).await.err();
            assert_eq!(cut, outcome(bits, 2), "{context}");
        }
    }
}

pub(super) async fn directories_are_used_by_their_class(bed: Bed) {
    let (directory, file) = (bed.directory("directory").await, bed.file("file").await);
    for bits in 0..8 {
        for (caller, shift) in classes() {
            let mode = bits << shift;
            owned(&bed, directory, 0o777).await;
            let inside = bed.create(caller, directory, "inside", NewKind::File, 0o600);
            let inside = inside.await.unwrap().handle;
            owned(&bed, directory, mode).await;
            let context = format!("mode {mode:o}, user {}", caller.uid);
            let files = &bed.files;

            let listed = files.read_directory(caller, directory, Cookie::START, 9, false);
            assert_eq!(listed.await.err(), outcome(bits, 4), "{context}");
            let found = files.lookup(caller, directory, &name("inside")).await;
            assert_eq!(found.err(), outcome(bits, 1), "{context}");
            let parent = files.parent(caller, directory).await;
            assert_eq!(parent.err(), outcome(bits, 1), "{context}");
            let made = bed.create(caller, directory, "made", NewKind::Directory, 0o700);
            assert_eq!(made.await.err(), outcome(bits, 3), "{context}");
            let linked = files.link(caller, file, directory, &name("linked"), super::bed::CACHED);
            assert_eq!(linked.await.err(), outcome(bits, 3), "{context}");
            let replace = RenameMode::Replace;
            let (old, new) = ((directory, "inside"), (directory, "renamed"));
            let renamed = bed.try_rename(caller, old, new, replace).await;
            assert_eq!(renamed.err(), outcome(bits, 3), "{context}");
            let at = if bits & 3 == 3 { "renamed" } else { "inside" };
            let removed = bed.try_remove(caller, directory, at, RemoveKind::File);
            assert_eq!(removed.await.err(), outcome(bits, 3), "{context}");
            for entry in bed.list(directory, 9).await {
                let at = String::from_utf8(entry.name.as_bytes().to_vec()).unwrap();
                bed.remove(directory, &at).await;
            }
            bed.becomes_stale(inside).await;
        }
    }
}

pub(super) async fn a_missing_permission_is_told_in_linux_order(bed: Bed) {
    let directory = bed.directory("directory").await;
    bed.file_in(directory, "file").await;
    let caller = carol();
    let create = async |at| {
        let created = bed.create(caller, directory, at, NewKind::File, 0o600);
        created.await.err()
    };
    let remove = async |at, kind| {
        let removed = bed.try_remove(caller, directory, at, kind).await;
        removed.err()
    };
    bed.set_mode(directory, 0o755).await;
    assert_eq!(create("file").await, Some(FileError::Exists));
    assert_eq!(create("new").await, Some(FileError::Access));
    let any = RemoveKind::Any;
    assert_eq!(remove("missing", any).await, Some(FileError::NotFound));
    let wrong = RemoveKind::Directory;
    assert_eq!(remove("file", wrong).await, Some(FileError::Access));
    bed.set_mode(directory, 0o766).await;
    assert_eq!(create("file").await, Some(FileError::Access));
    assert_eq!(remove("missing", any).await, Some(FileError::Access));
}

pub(super) async fn the_superuser_may_nearly_everything(bed: Bed) {
    let file = owned(&bed, bed.file("file").await, 0).await;
    let directory = owned(&bed, bed.directory("directory").await, 0).await;
    let root = &bed.root;
    assert_eq!(
        bed.access(root, file).await.bits(),
        6,
        "nobody may execute it"
    );
    bed.set_mode(file, 0o010).await;
    assert_eq!(bed.access(root, file).await.bits(), 7);
    assert_eq!(bed.access(root, directory).await.bits(), 7);
    bed.file_in(directory, "inside").await;
    bed.remove(directory, "inside").await;
    for kind in [NewKind::CharDevice(1), NewKind::BlockDevice(2)] {
        let refused = bed.create(alice(), bed.home, "device", kind.clone(), 0o600);
        assert_eq!(refused.await, Err(FileError::NotOwner));
        bed.create(root, bed.home, "device", kind, 0o600)
            .await
            .unwrap();
        bed.remove(bed.home, "device").await;
    }
}

pub(super) async fn a_caller_that_the_client_checked_is_not_checked(bed: Bed) {
    let file = owned(&bed, bed.file("file").await, 0).await;
    let directory = owned(&bed, bed.directory("directory").await, 0).await;
    let caller = Caller {
        checked_by: CheckedBy::Client,
        ..carol().clone()
    };
    assert_eq!(bed.access(&caller, file).await.bits(), 7);
    let made = bed.create(&caller, directory, "made", NewKind::File, 0o640);
    let made = made.await.unwrap();
    assert_eq!((made.uid, made.gid, made.mode), (1002, 300, 0o640));
    let mode = SetAttributes {
        mode: Some(0o600),
        uid: Some(9),
        ..SetAttributes::default()
    };
    assert_eq!(bed.try_set(&caller, file, mode).await.unwrap().uid, 9);
}

pub(super) async fn sticky_directories_protect_names(bed: Bed) {
    let directory = bed.directory("tmp").await;
    bed.set_owner(directory, 1001, 100).await;
    bed.set_mode(directory, 0o1777).await;
    let replace = RenameMode::Replace;
    for (caller, is_allowed) in [(alice(), true), (bob(), true), (carol(), false)] {
        let want = (!is_allowed).then_some(FileError::NotOwner);
        let context = format!("user {}", caller.uid);
        for at in ["a", "b"] {
            let file = bed.create(alice(), directory, at, NewKind::File, 0o666);
            file.await.unwrap();
        }
        let own = bed.create(caller, directory, "own", NewKind::File, 0o666);
        own.await.unwrap();
        let rename = |old, new, mode| {
            let (from, to) = ((directory, old), (directory, new));
            let bed = bed.clone();
            async move { bed.try_rename(caller, from, to, mode).await.err() }
        };
        assert_eq!(
            rename("a", "c", replace).await,
            want,
            "{context}: moved away"
        );
        let a = if is_allowed { "c" } else { "a" };
        let exchange = RenameMode::Exchange;
        assert_eq!(
            rename("own", a, exchange).await,
            want,
            "{context}: exchanged"
        );
        assert_eq!(rename("own", a, replace).await, want, "{context}: replaced");
        let removed = bed.try_remove(caller, directory, "b", RemoveKind::File);
        assert_eq!(removed.await.err(), want, "{context}: removed");
        for at in bed.names(directory).await {
            bed.remove(directory, &at).await;
        }
    }
}

pub(super) async fn moving_a_directory_needs_permission_to_write_it(bed: Bed) {
    let other = bed.directory("other").await;
    bed.set_mode(other, 0o777).await;
    let directory = bed.directory("directory").await;
    bed.set_mode(directory, 0o555).await;
    let (from, here, there) = (
        (bed.home, "directory"),
        (bed.home, "renamed"),
        (other, "moved"),
    );
    let replace = RenameMode::Replace;
    let moved = bed.try_rename(carol(), from, there, replace).await;
    assert_eq!(moved.err(), Some(FileError::Access));
    bed.try_rename(carol(), from, here, replace).await.unwrap();
    bed.set_mode(directory, 0o777).await;
    bed.try_rename(carol(), here, there, replace).await.unwrap();
}

pub(super) async fn owners_set_attributes(bed: Bed) {
    let file = owned(&bed, bed.file("file").await, 0o662).await;
    let none = SetAttributes::default();
    let mode = SetAttributes {
        mode: Some(0o662),
        ..none
    };
    let old = SetAttributes {
        modified: SetTime::To(Timestamp(5)),
        ..none
    };
    let created = SetAttributes {
        created: Some(Timestamp(5)),
        ..none
    };
    let now = SetAttributes {
        accessed: SetTime::Now,
        modified: SetTime::Now,
        ..none
    };
    let give = SetAttributes {
        uid: Some(1001),
        ..none
    };
    let keep = SetAttributes {
        uid: Some(1000),
        ..none
    };
    let own_group = SetAttributes {
        gid: Some(200),
        ..none
    };
    let other_group = SetAttributes {
        gid: Some(300),
        ..none
    };
    let (yes, no) = (None, Some(FileError::NotOwner));
    let cases = [
        ("mode", mode, [yes, no, no]),
        ("an old time", old, [yes, no, no]),
        ("creation", created, [yes, no, no]),
        ("the present time", now, [yes, yes, yes]),
        ("another owner", give, [no, no, no]),
        ("the same owner", keep, [yes, no, no]),
        ("a group of hers", own_group, [yes, no, no]),
        ("another group", other_group, [no, no, no]),
    ];
    for (context, set, want) in cases {
        for ((caller, _), want) in classes().into_iter().zip(want) {
            let result: FileResult<_> = bed.try_set(caller, file, set).await;
            assert_eq!(result.err(), want, "{context}, user {}", caller.uid);
            owned(&bed, file, 0o662).await;
        }
    }
    owned(&bed, file, 0o600).await;
    let refused = bed.try_set(carol(), file, now).await;
    assert_eq!(refused, Err(FileError::Access));
}

pub(super) async fn setgid_needs_membership(bed: Bed) {
    let file = bed.file("file").await;
    bed.set_owner(file, 1000, 300).await;
    let mode = SetAttributes {
        mode: Some(0o6755),
        ..SetAttributes::default()
    };
    let after = bed.try_set(alice(), file, mode).await.unwrap();
    assert_eq!(after.mode, 0o4755, "she is not in group 300");
    bed.set_owner(file, 1000, 200).await;
    let after = bed.try_set(alice(), file, mode).await.unwrap();
    assert_eq!(after.mode, 0o6755);
}
