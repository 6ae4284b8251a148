//! Behaviours of attributes: times, change counter, sizes, owners, setuid and setgid. POSIX `utimensat`, `chmod`, `chown`,
//! `open`, `write`, section 4.8; Linux `mount(8)` (relatime).
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour; that a time moved is seen by
//! setting it to a time long ago before.

use backend::file::{
    Allocate, Attributes, Cookie, FileError, Handle, NewKind, RenameMode, SetAttributes, SetTime,
    SetXattr, Timestamp, WriteAt,
};

use super::bed::{Bed, CACHED, alice, bob, carol, name};

/// A time long ago.
const OLD: Timestamp = Timestamp(1_000_000_007);

fn set() -> SetAttributes {
    SetAttributes::default()
}

/// Which of access, modification and change were noted.
type Noted = (bool, bool, bool);

/// Sets the times of an object to a time long ago. Returns its attributes then.
async fn age(bed: &Bed, of: Handle) -> Attributes {
    let times = SetAttributes {
        accessed: SetTime::To(OLD),
        modified: SetTime::To(OLD),
        ..set()
    };
    let after = bed.set(of, times).await;
    assert_eq!((after.accessed, after.modified), (OLD, OLD));
    after
}

/// What was noted since `before`.
async fn noted(bed: &Bed, before: &Attributes) -> Noted {
    let after = bed.attributes(before.handle).await;
    assert!(after.changed >= before.changed && after.created == before.created);
    let is_changed = after.change > before.change;
    assert!(is_changed || after.changed == before.changed);
    (after.accessed != OLD, after.modified != OLD, is_changed)
}

const NOTHING: Noted = (false, false, false);
const ACCESS: Noted = (true, false, false);
const MODIFIED: Noted = (false, true, true);
const CHANGED: Noted = (false, false, true);

pub(super) async fn a_new_object_has_the_present_time(bed: Bed) {
    let file = bed.file("file").await;
    let is = bed.attributes(file).await;
    assert_eq!((is.accessed, is.modified), (is.created, is.created));
    assert_eq!(is.changed, is.created);
    let day = 24 * 3600 * 1_000_000_000;
    let ahead = is.created.0 - io::time::wall_clock_ms() as i64 * 1_000_000;
    assert!(ahead.abs() < day, "the clock is the clock of io");
}

pub(super) async fn operations_on_contents_note_times(bed: Bed) {
    let file = bed.file("file").await;
    let (files, root) = (&bed.files, &bed.root);
    bed.write(file, 0, &[1; 10_000]).await;

    let before = age(&bed, file).await;
    bed.read(file, 0, 10).await;
    assert_eq!(noted(&bed, &before).await, ACCESS, "read");
    let before = age(&bed, file).await;
    bed.write(file, 0, b"x").await;
    assert_eq!(noted(&bed, &before).await, MODIFIED, "write");
    let before = age(&bed, file).await;
    bed.set_size(file, 100).await;
    assert_eq!(noted(&bed, &before).await, MODIFIED, "set the size");
    let before = age(&bed, file).await;
    if bed
        .allocate(file, 0..10, Allocate::Zero, false)
        .await
        .is_ok()
    {
        assert_eq!(noted(&bed, &before).await, MODIFIED, "zero");
    }
    let before = age(&bed, file).await;
    let other = bed.file("other").await;
    files.copy(root, (file, 0), (other, 0), 9).await.unwrap();
    let source = noted(&bed, &before).await;
    assert_eq!((source.1, source.2), (false, false), "the source of a copy");
    let before = age(&bed, other).await;
    files.copy(root, (file, 0), (other, 0), 9).await.unwrap();
    assert_eq!(noted(&bed, &before).await, MODIFIED, "the target of a copy");

    let before = age(&bed, file).await;
    files.attributes(file).await.unwrap();
    bed.access(root, file).await;
    files.xattrs(root, file).await.unwrap();
    files.seek(file, 0, backend::file::Seek::Data).await.ok();
    let _proof = files.commit(file).await.unwrap();
    assert_eq!(noted(&bed, &before).await, NOTHING, "looks");
}

pub(super) async fn operations_on_attributes_note_times(bed: Bed) {
    let file = bed.file("file").await;
    let before = age(&bed, file).await;
    bed.set_mode(file, 0o600).await;
    assert_eq!(noted(&bed, &before).await, CHANGED, "mode");
    let before = age(&bed, file).await;
    bed.set_owner(file, 5, 6).await;
    assert_eq!(noted(&bed, &before).await, CHANGED, "owner");
    let before = age(&bed, file).await;
    let set_xattr = |value| {
        let how = SetXattr::Either;
        bed.files
            .set_xattr(&bed.root, file, b"user.a", value, how, CACHED)
    };
    set_xattr(Some(vec![1])).await.unwrap();
    assert_eq!(noted(&bed, &before).await, CHANGED, "set an attribute");
    let before = age(&bed, file).await;
    set_xattr(None).await.unwrap();
    assert_eq!(noted(&bed, &before).await, CHANGED, "remove an attribute");
    let before = age(&bed, file).await;
    bed.link(file, bed.home, "second").await.unwrap();
    assert_eq!(noted(&bed, &before).await, CHANGED, "link");
    let before = age(&bed, file).await;
    bed.remove(bed.home, "second").await;
    assert_eq!(noted(&bed, &before).await, CHANGED, "remove a name");
    let before = age(&bed, file).await;
    bed.rename((bed.home, "file"), (bed.home, "new"))
        .await
        .unwrap();
    assert_eq!(noted(&bed, &before).await, CHANGED, "rename");
    let before = age(&bed, file).await;
    assert_eq!(bed.set(file, set()).await, before, "nothing is set");
}

pub(super) async fn operations_on_names_note_times_of_directories(bed: Bed) {
    let (a, b) = (bed.directory("a").await, bed.directory("b").await);
    let before = age(&bed, a).await;
    let file = bed.file_in(a, "file").await;
    assert_eq!(noted(&bed, &before).await, MODIFIED, "create");
    let before = age(&bed, a).await;
    bed.directory_in(a, "directory").await;
    assert_eq!(noted(&bed, &before).await, MODIFIED, "create a directory");
    let before = age(&bed, a).await;
    bed.link(file, a, "second").await.unwrap();
    assert_eq!(noted(&bed, &before).await, MODIFIED, "link");
    let before = age(&bed, a).await;
    bed.remove(a, "second").await;
    assert_eq!(noted(&bed, &before).await, MODIFIED, "remove");
    let before = age(&bed, a).await;
    bed.rename((a, "file"), (a, "renamed")).await.unwrap();
    assert_eq!(noted(&bed, &before).await, MODIFIED, "rename");
    let before = (age(&bed, a).await, age(&bed, b).await);
    bed.rename((a, "renamed"), (b, "renamed")).await.unwrap();
    assert_eq!(noted(&bed, &before.0).await, MODIFIED, "renamed from");
    assert_eq!(noted(&bed, &before.1).await, MODIFIED, "renamed to");
    let before = (age(&bed, a).await, age(&bed, b).await);
    let exchange = RenameMode::Exchange;
    let (from, to) = ((a, "directory"), (b, "renamed"));
    bed.try_rename(&bed.root, from, to, exchange).await.unwrap();
    assert_eq!(noted(&bed, &before.0).await, MODIFIED, "exchanged");
    assert_eq!(noted(&bed, &before.1).await, MODIFIED, "exchanged");

    let before = age(&bed, a).await;
    bed.write(file, 0, b"x").await;
    bed.lookup(a, "directory").await.unwrap();
    bed.lookup(a, "missing").await.unwrap_err();
    let refused = bed.create(&bed.root, a, "directory", NewKind::File, 0o600);
    refused.await.unwrap_err();
    assert_eq!(noted(&bed, &before).await, NOTHING, "no change of names");
    let start = Cookie::START;
    let listed = bed.files.read_directory(&bed.root, a, start, 9, false);
    listed.await.unwrap();
    assert_eq!(noted(&bed, &before).await, ACCESS, "list");
}

pub(super) async fn accesses_are_noted_as_relatime_does(bed: Bed) {
    let file = bed.file("file").await;
    bed.write(file, 0, b"abc").await;
    let far = Timestamp(i64::MAX / 2);
    let times = SetAttributes {
        accessed: SetTime::To(far),
        ..set()
    };
    bed.set(file, times).await;
    bed.read(file, 0, 3).await;
    assert_eq!(
        bed.attributes(file).await.accessed,
        far,
        "newer than the change"
    );
    let target = NewKind::Symlink(b"x".to_vec());
    let link = bed.create(&bed.root, bed.home, "link", target, 0).await;
    let before = age(&bed, link.unwrap().handle).await;
    bed.files.read_link(before.handle).await.unwrap();
    assert_eq!(noted(&bed, &before).await, ACCESS, "read a link");
}

pub(super) async fn times_are_set(bed: Bed) {
    let file = bed.file("file").await;
    let extremes = [
        Timestamp(0),
        Timestamp(-1),
        Timestamp(i64::MIN),
        Timestamp(i64::MAX),
        Timestamp::from_parts(1_700_000_000, 123_456_789),
    ];
    for time in extremes {
        let before = bed.attributes(file).await;
        let times = SetAttributes {
            accessed: SetTime::To(time),
            modified: SetTime::To(Timestamp(!time.0)),
            created: Some(time),
            ..set()
        };
        let after = bed.set(file, times).await;
        assert_eq!((after.accessed, after.created), (time, time));
        assert_eq!(after.modified, Timestamp(!time.0));
        assert!(after.change > before.change);
    }
    age(&bed, file).await;
    let one = SetAttributes {
        modified: SetTime::Now,
        ..set()
    };
    let after = bed.set(file, one).await;
    assert_eq!(after.accessed, OLD);
    assert_eq!(after.modified, after.changed);
    let with_size = SetAttributes {
        size: Some(5),
        modified: SetTime::To(OLD),
        ..set()
    };
    assert_eq!(bed.set(file, with_size).await.modified, OLD);
}

/// A client that held a file's times set an access time, and every other client lost its cache of the file, since its last change moved.
pub(super) async fn held_times_change_nothing_else(bed: Bed) {
    let file = bed.file("file").await;
    let before = bed.attributes(file).await;
    let accessed = Timestamp(before.changed.0 + 1_000);
    let access = SetAttributes {
        accessed: SetTime::Held(accessed),
        ..set()
    };
    let after = bed.set(file, access).await;
    assert_eq!(after, Attributes { accessed, ..before });
    for (modified, changed) in [
        (OLD, before.changed),
        (
            Timestamp(before.changed.0 + 5),
            Timestamp(before.changed.0 + 5),
        ),
    ] {
        let modification = SetAttributes {
            modified: SetTime::Held(modified),
            ..set()
        };
        let last = bed.attributes(file).await;
        let after = bed.set(file, modification).await;
        assert_eq!((after.modified, after.changed), (modified, changed));
        assert!(after.change > last.change);
    }
    bed.set_owner(file, 1000, 100).await;
    let refused = bed.try_set(bob(), file, access).await;
    assert_eq!(refused, Err(FileError::NotOwner));
    let last = bed.attributes(file).await;
    let with_mode = SetAttributes {
        mode: Some(0o600),
        ..access
    };
    assert!(bed.set(file, with_mode).await.changed >= last.changed);
}

pub(super) async fn a_guard_that_does_not_match_sets_nothing(bed: Bed) {
    let file = bed.file("file").await;
    let before = bed.attributes(file).await;
    let guarded = |guard| SetAttributes {
        mode: Some(0o600),
        guard: Some(guard),
        ..set()
    };
    let other = Timestamp(before.changed.0 - 1);
    let refused = bed.try_set(&bed.root, file, guarded(other)).await;
    assert_eq!(refused, Err(FileError::Guard));
    assert_eq!(bed.set(file, guarded(before.changed)).await.mode, 0o600);
}

pub(super) async fn a_refused_change_sets_nothing(bed: Bed) {
    let file = bed.file("file").await;
    bed.set_owner(file, 1000, 100).await;
    bed.write(file, 0, b"abc").await;
    let all = SetAttributes {
        mode: Some(0o777),
        size: Some(1),
        modified: SetTime::To(OLD),
        uid: Some(1),
        ..set()
    };
    let refused = bed.try_set(alice(), file, all).await;
    assert_eq!(refused, Err(FileError::NotOwner));
    assert_eq!(bed.contents(file).await, b"abc");
    let large = SetAttributes {
        mode: Some(0o777),
        size: Some(u64::MAX),
        ..set()
    };
    let refused = bed.try_set(alice(), file, large).await;
    assert_eq!(refused, Err(FileError::TooLarge));
    for (of, error) in [
        (bed.home, FileError::IsDirectory),
        (bed.one_link().await, FileError::Invalid),
    ] {
        let size = SetAttributes {
            size: Some(0),
            ..set()
        };
        assert_eq!(bed.try_set(&bed.root, of, size).await, Err(error));
    }
}

impl Bed {
    /// A symbolic link in the home directory.
    async fn one_link(&self) -> Handle {
        let kind = NewKind::Symlink(b"x".to_vec());
        let link = self.create(&self.root, self.home, "a link", kind, 0).await;
        link.unwrap().handle
    }
}

pub(super) async fn the_mode_of_a_symbolic_link_stays(bed: Bed) {
    let link = bed.one_link().await;
    let mode = SetAttributes {
        mode: Some(0o600),
        ..set()
    };
    let refused = bed.try_set(&bed.root, link, mode).await;
    assert_eq!(refused, Err(FileError::Unsupported));
    assert_eq!(bed.set_owner(link, 5, 6).await.mode, 0o777);
}

async fn setuid_file(bed: &Bed, at: &str, mode: u16) -> Handle {
    let file = bed.file(at).await;
    bed.write(file, 0, b"program").await;
    bed.set_owner(file, 1000, 100).await;
    assert_eq!(bed.set_mode(file, mode).await.mode, mode);
    file
}

pub(super) async fn writing_clears_setuid_and_setgid(bed: Bed) {
    for (i, (caller, mode, want)) in [
        (alice(), 0o6777, 0o777),
        (bob(), 0o6777, 0o777),
        (bob(), 0o6767, 0o2767),
        (carol(), 0o6767, 0o767),
        (&bed.root, 0o6777, 0o6777),
    ]
    .into_iter()
    .enumerate()
    {
        let file = setuid_file(&bed, &i.to_string(), mode).await;
        let written = bed.try_write(caller, file, WriteAt::End, b"").await;
        assert_eq!(
            written.unwrap().object.after.mode,
            mode,
            "nothing is written"
        );
        let written = bed.try_write(caller, file, WriteAt::End, b"x").await;
        assert_eq!(written.unwrap().object.after.mode, want, "{i}: write");
        bed.set_mode(file, mode).await;
        let size = SetAttributes {
            size: Some(3),
            ..set()
        };
        let cut = bed.try_set(caller, file, size).await.unwrap();
        assert_eq!(cut.mode, want, "{i}: size");
        bed.set_mode(file, mode).await;
        let zero = bed.files.allocate(caller, file, 0..3, Allocate::Zero, true);
        match zero.await {
            Err(FileError::Unsupported) => {}
            zeroed => assert_eq!(zeroed.unwrap().after.mode, want, "{i}: zero"),
        }
        bed.set_mode(file, mode).await;
        // Regression: a reservation of bytes that are there kept setuid.
        let reserved = bed
            .files
            .allocate(caller, file, 0..3, Allocate::Reserve, true);
        match reserved.await {
            Err(FileError::Unsupported) => {}
            reserved => assert_eq!(reserved.unwrap().after.mode, want, "{i}: reserve"),
        }
        let source = bed.file(&format!("source {i}")).await;
        bed.write(source, 0, b"abc").await;
        bed.set_mode(file, mode).await;
        let copied = bed.files.copy(caller, (source, 0), (file, 0), 3).await;
        assert_eq!(copied, Ok(3));
        assert_eq!(bed.attributes(file).await.mode, want, "{i}: copy");
    }
}

pub(super) async fn a_new_owner_clears_setuid_and_setgid(bed: Bed) {
    for (i, (mode, want)) in [(0o6777, 0o777), (0o6767, 0o2767)].into_iter().enumerate() {
        let file = setuid_file(&bed, &i.to_string(), mode).await;
        assert_eq!(bed.set_owner(file, 1000, 200).await.mode, want);
        bed.set_mode(file, mode).await;
        let group = SetAttributes {
            gid: Some(100),
            ..set()
        };
        let handed = bed.try_set(alice(), file, group).await.unwrap();
        assert_eq!((handed.mode, handed.gid), (want, 100));
    }
    let directory = bed.directory("directory").await;
    bed.set_mode(directory, 0o6777).await;
    assert_eq!(bed.set_owner(directory, 1000, 100).await.mode, 0o6777);
}

pub(super) async fn setgid_directories_hand_on_their_group(bed: Bed) {
    let directory = bed.directory("directory").await;
    bed.set_owner(directory, 0, 500).await;
    bed.set_mode(directory, 0o2777).await;
    let make = |at, kind, mode| bed.create(alice(), directory, at, kind, mode);
    let file = make("file", NewKind::File, 0o644).await.unwrap();
    assert_eq!((file.uid, file.gid, file.mode), (1000, 500, 0o644));
    let program = make("program", NewKind::File, 0o2755).await.unwrap();
    assert_eq!((program.gid, program.mode), (500, 0o755), "no member");
    let below = make("below", NewKind::Directory, 0o700).await.unwrap();
    assert_eq!((below.gid, below.mode), (500, 0o2700));
    let link = make("link", NewKind::Symlink(b"x".to_vec()), 0).await;
    assert_eq!(link.unwrap().gid, 500);
    let moved = bed.rename((directory, "file"), (bed.home, "file")).await;
    assert_eq!(moved.unwrap().object.after.gid, 500);
    let own = bed.create(alice(), bed.home, "own", NewKind::File, 0o2755);
    let own = own.await.unwrap();
    assert_eq!((own.gid, own.mode), (100, 0o2755));
    let at = name("own");
    assert_eq!(
        bed.files.lookup(bob(), bed.home, &at).await.unwrap().gid,
        100
    );
}
