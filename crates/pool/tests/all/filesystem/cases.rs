//! Names that differ only in case (`casesensitivity=insensitive`).

use backend::file::{FileBackend, FileError, IfExists, Name, NewFile, NewKind, RenameMode};
use pool::filesystem::NewFileSystem;

use crate::filesystem::bed::{Bed, CACHED, quiet_filesystem, run};
use testkit::store::MemoryStore;
use testkit::store::check;

async fn insensitive() -> Bed {
    let store = MemoryStore::new(1);
    let new = NewFileSystem {
        is_case_insensitive: true,
        ..NewFileSystem::default()
    };
    let files = quiet_filesystem(&store, new).await;
    assert!(files.limits().is_case_insensitive);
    Bed::of(store, files)
}

async fn names(bed: &Bed) -> Vec<String> {
    let start = backend::file::Cookie::START;
    let listed = bed
        .files
        .read_directory(&bed.caller, bed.root, start, 100, false);
    let entries = listed.await.expect("listed").entries;
    let text = |e: &backend::file::Entry| String::from_utf8_lossy(e.name.as_bytes()).into_owned();
    let mut names: Vec<String> = entries.iter().map(text).collect();
    names.sort();
    names
}

#[test]
fn a_name_is_found_in_any_case_and_keeps_its_own() {
    run(|| async {
        let bed = insensitive().await;
        let file = bed.file("Straße").await;
        for other in ["straße", "STRASSE", "Straße"] {
            assert_eq!(bed.lookup(bed.root, other).await.unwrap().handle, file);
        }
        let again = bed.create(bed.root, "STRASSE", NewKind::File).await;
        assert_eq!(again.err(), Some(FileError::Exists));
        assert_eq!(names(&bed).await, ["Straße"]);
        bed.remove(bed.root, "strasse").await.unwrap();
        assert_eq!(names(&bed).await, [""; 0]);
        check(&bed.store.now());
    });
}

#[test]
fn a_rename_changes_the_case_of_a_name() {
    run(|| async {
        let bed = insensitive().await;
        let file = bed.file("readme").await;
        let (old, new) = ((bed.root, "README"), (bed.root, "ReadMe"));
        let renamed = bed.rename(old, new, RenameMode::NoReplace).await.unwrap();
        assert_eq!(names(&bed).await, ["ReadMe"]);
        assert!(renamed.object.after.change > renamed.object.before.change);
        let same = bed.rename(old, new, RenameMode::Replace).await.unwrap();
        assert_eq!(
            same.object.after, same.object.before,
            "nothing is left to do"
        );
        let exchanged = bed.rename(old, new, RenameMode::Exchange).await.unwrap();
        assert_eq!(exchanged.from.after, exchanged.from.before);
        assert_eq!(bed.lookup(bed.root, "readme").await.unwrap().handle, file);
        bed.file("other").await;
        let replaced = bed.rename((bed.root, "OTHER"), new, RenameMode::Replace);
        assert_eq!(replaced.await.unwrap().other.unwrap().after.links, 0);
        assert_eq!(names(&bed).await, ["ReadMe"]);
        check(&bed.store.now());
    });
}

#[test]
fn new_names_must_be_utf8() {
    run(|| async {
        let bed = insensitive().await;
        let bad = Name::new(b"a\xff").unwrap();
        let found = bed.files.lookup(&bed.caller, bed.root, &bad).await;
        assert_eq!(found, Err(FileError::NotFound));
        let new = NewFile {
            kind: NewKind::File,
            mode: 0o644,
            umask: None,
            acl: None,
        };
        let created = bed
            .files
            .create(&bed.caller, bed.root, &bad, new, IfExists::Fail, CACHED);
        assert_eq!(created.await.err(), Some(FileError::NameNotUtf8));
    });
}
