//! Behaviours of renames. POSIX `rename`, Linux `renameat2`.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use backend::file::{FileError, FileKind, Handle, NewKind, RenameMode};

use super::bed::Bed;

/// What stands at a name before a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Nothing,
    File,
    Symlink,
    Empty,
    Full,
}

impl Stands {
    const ALL: [Stands; 5] = [
        Stands::Nothing,
        Stands::File,
        Stands::Symlink,
        Stands::Empty,
        Stands::Full,
    ];

    fn is_directory(self) -> bool {
        matches!(self, Stands::Empty | Stands::Full)
    }

    async fn make(self, bed: &Bed, directory: Handle, at: &str) -> Option<Handle> {
        let kind = match self {
            Stands::Nothing => return None,
            Stands::File => NewKind::File,
            Stands::Symlink => NewKind::Symlink(b"nowhere".to_vec()),
            Stands::Empty | Stands::Full => NewKind::Directory,
        };
        let made = bed.create(&bed.root, directory, at, kind, 0o755).await;
        let handle = made.unwrap().handle;
        if self == Stands::Full {
            bed.file_in(handle, "inside").await;
        }
        Some(handle)
    }
}

/// The error that a rename of `old` to a name where `new` stands must have.
fn expected(old: Stands, new: Stands, mode: RenameMode) -> Option<FileError> {
    if old == Stands::Nothing {
        return Some(FileError::NotFound);
    }
    let both = (old.is_directory(), new.is_directory());
    match (mode, new) {
        (RenameMode::Exchange, Stands::Nothing) => Some(FileError::NotFound),
        (RenameMode::Exchange, _) | (_, Stands::Nothing) => None,
        (RenameMode::NoReplace, _) => Some(FileError::Exists),
        (RenameMode::Replace, _) => match both {
            (true, false) => Some(FileError::NotDirectory),
            (false, true) => Some(FileError::IsDirectory),
            (true, true) if new == Stands::Full => Some(FileError::NotEmpty),
            _ => None,
        },
    }
}

pub(super) async fn every_kind_replaces_what_it_may(bed: Bed) {
    let modes = [
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
    ];
    let mut count = 0;
    for old in Stands::ALL {
        for new in Stands::ALL {
            for mode in modes {
                for is_across in [false, true] {
                    count += 1;
                    one_of_the_matrix(&bed, (old, new, mode, is_across), count).await;
                }
            }
        }
    }
}

async fn one_of_the_matrix(bed: &Bed, case: (Stands, Stands, RenameMode, bool), number: usize) {
    let (old, new, mode, is_across) = case;
    let home = bed.directory(&number.to_string()).await;
    let from = bed.directory_in(home, "from").await;
    let to = match is_across {
        true => bed.directory_in(home, "to").await,
        false => from,
    };
    let object = old.make(bed, from, "old").await;
    let other = new.make(bed, to, "new").await;
    let renamed = bed.try_rename(&bed.root, (from, "old"), (to, "new"), mode);
    let result = renamed.await;
    assert_eq!(
        result.as_ref().err().copied(),
        expected(old, new, mode),
        "{case:?}"
    );

    let found = async |directory, at| bed.lookup(directory, at).await.ok().map(|a| a.handle);
    let now = (found(from, "old").await, found(to, "new").await);
    let Ok(renamed) = result else {
        assert_eq!(now, (object, other), "{case:?}: a failure changes nothing");
        return;
    };
    let is_exchange = mode == RenameMode::Exchange;
    let left = if is_exchange { other } else { None };
    assert_eq!(now, (left, object), "{case:?}");
    assert_eq!(Some(renamed.object.after.handle), object);
    assert_eq!(renamed.other.map(|o| o.after.handle), other, "{case:?}");
    if let (Some(other), false) = (other, is_exchange) {
        assert_eq!(renamed.other.unwrap().after.links, 0);
        bed.becomes_stale(other).await;
    }
    check_tree(bed, &[from, to], case).await;
}

/// Checks links and parents of directories, and that each listing agrees with lookups.
async fn check_tree(bed: &Bed, directories: &[Handle], case: (Stands, Stands, RenameMode, bool)) {
    for directory in directories {
        let entries = bed.list(*directory, 10).await;
        let below = entries.iter().filter(|e| e.kind == FileKind::Directory);
        let links = bed.attributes(*directory).await.links as usize;
        assert_eq!(links, 2 + below.clone().count(), "{case:?}");
        for entry in below {
            let parent = bed.files.parent(&bed.root, entry.handle).await.unwrap();
            assert_eq!(parent.handle, *directory, "{case:?}");
        }
    }
}

pub(super) async fn names_of_one_object_are_no_rename(bed: Bed) {
    let (file, other) = (bed.file("a").await, bed.directory("other").await);
    bed.link(file, bed.home, "b").await.unwrap();
    bed.link(file, other, "c").await.unwrap();
    let state = async || {
        let handles = [bed.home, other, file];
        let mut all = Vec::new();
        for handle in handles {
            all.push(bed.attributes(handle).await);
        }
        all
    };
    let before = state().await;
    for (to, new) in [(bed.home, "a"), (bed.home, "b"), (other, "c")] {
        for mode in [RenameMode::Replace, RenameMode::Exchange] {
            let renamed = bed.try_rename(&bed.root, (bed.home, "a"), (to, new), mode);
            let renamed = renamed.await.unwrap();
            assert_eq!(renamed.object.before, renamed.object.after);
            assert_eq!(renamed.other, None);
        }
        let refused = bed.try_rename(&bed.root, (bed.home, "a"), (to, new), RenameMode::NoReplace);
        assert_eq!(refused.await.err(), Some(FileError::Exists));
    }
    let same = bed.rename((bed.home, "other"), (bed.home, "other")).await;
    assert_eq!(same.unwrap().other, None);
    assert_eq!(state().await, before);
    assert_eq!(bed.names(bed.home).await, ["a", "b", "other"]);
    assert_eq!(bed.names(other).await, ["c"]);
}

pub(super) async fn a_directory_never_gets_into_itself(bed: Bed) {
    let a = bed.directory("a").await;
    let b = bed.directory_in(a, "b").await;
    let c = bed.directory_in(b, "c").await;
    let file = bed.file_in(c, "file").await;
    for to in [a, b, c] {
        for mode in [RenameMode::Replace, RenameMode::NoReplace] {
            let moved = bed.try_rename(&bed.root, (bed.home, "a"), (to, "x"), mode);
            assert_eq!(moved.await.err(), Some(FileError::Invalid));
        }
    }
    let exchange = RenameMode::Exchange;
    for (from, to) in [
        ((bed.home, "a"), (b, "c")),
        ((b, "c"), (bed.home, "a")),
        ((bed.home, "a"), (c, "file")),
        ((c, "file"), (bed.home, "a")),
    ] {
        let moved = bed.try_rename(&bed.root, from, to, exchange).await;
        assert_eq!(moved.err(), Some(FileError::Invalid));
    }
    let onto = bed.rename((b, "c"), (bed.home, "a")).await;
    assert_eq!(onto.err(), Some(FileError::NotEmpty));
    // Up is fine.
    bed.rename((b, "c"), (bed.home, "c")).await.unwrap();
    bed.rename((bed.home, "a"), (c, "a")).await.unwrap();
    assert_eq!(bed.names(bed.home).await, ["c"]);
    assert_eq!(bed.names(c).await, ["a", "file"]);
    let parent = bed.files.parent(&bed.root, a).await.unwrap();
    assert_eq!((parent.handle, parent.links), (c, 3));
    assert_eq!(bed.lookup(c, "file").await.unwrap().handle, file);
}

pub(super) async fn links_follow_directories(bed: Bed) {
    let (from, to) = (bed.directory("from").await, bed.directory("to").await);
    bed.directory_in(from, "moved").await;
    let links = async || {
        let (a, b) = (bed.attributes(from).await, bed.attributes(to).await);
        (a.links, b.links)
    };
    assert_eq!(links().await, (3, 2));
    let renamed = bed.rename((from, "moved"), (to, "moved")).await.unwrap();
    assert_eq!(renamed.object.after.links, 2);
    assert_eq!(links().await, (2, 3));
    bed.directory_in(from, "second").await;
    bed.rename((to, "moved"), (from, "second")).await.unwrap();
    assert_eq!(links().await, (3, 2));
    bed.file_in(to, "file").await;
    let exchange = RenameMode::Exchange;
    let (a, b) = ((from, "second"), (to, "file"));
    bed.try_rename(&bed.root, a, b, exchange).await.unwrap();
    assert_eq!(links().await, (2, 3));
}

pub(super) async fn a_replaced_name_keeps_its_cookie(bed: Bed) {
    for at in ["a", "b", "c"] {
        bed.file(at).await;
    }
    let cookie = async |at: &str| {
        let entries = bed.list(bed.home, 2).await;
        let mut named = entries
            .iter()
            .filter(|e| e.name.as_bytes() == at.as_bytes());
        named.next().unwrap().cookie
    };
    let (a, b) = (cookie("a").await, cookie("b").await);
    bed.rename((bed.home, "c"), (bed.home, "b")).await.unwrap();
    assert_eq!((cookie("a").await, cookie("b").await), (a, b));
    let (from, to) = ((bed.home, "a"), (bed.home, "b"));
    let exchanged = bed.try_rename(&bed.root, from, to, RenameMode::Exchange);
    exchanged.await.unwrap();
    assert_eq!((cookie("a").await, cookie("b").await), (a, b));
}
