//! Behaviours of listings. POSIX `readdir`; RFC 8881, section 18.23.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour.

use std::collections::BTreeMap;

use backend::file::{Cookie, Entry, FileError, Listing, RemoveKind};

use super::bed::{Bed, CACHED, alice, carol, name, new};
use backend::file::{Handle, IfExists, NewKind};

/// Entries of the large directory.
const MANY: usize = 20_000;

async fn page(bed: &Bed, directory: Handle, after: Cookie, max: usize) -> Listing {
    let listing = bed
        .files
        .read_directory(&bed.root, directory, after, max, false);
    listing.await.unwrap()
}

/// Creates an empty file without the checks of [`Bed`], which would make a large directory slow.
async fn quick_file(bed: &Bed, directory: Handle, at: &str) {
    let (at, new) = (name(at), new(NewKind::File, 0o644));
    let created = bed
        .files
        .create(&bed.root, directory, &at, new, IfExists::Fail, CACHED);
    created.await.unwrap();
}

/// How often each name was met.
fn counts(entries: &[Entry]) -> BTreeMap<Vec<u8>, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.name.as_bytes().to_vec()).or_default() += 1;
    }
    counts
}

pub(super) async fn every_name_is_listed_once(bed: Bed) {
    assert_eq!(bed.list(bed.home, 10).await, []);
    let mut want = BTreeMap::new();
    for (at, kind, handle) in bed.one_of_each().await {
        want.insert(at.as_bytes().to_vec(), (kind, handle));
    }
    for i in 0..50 {
        let at = format!("directory {i}");
        let handle = bed.directory(&at).await;
        want.insert(
            at.into_bytes(),
            (backend::file::FileKind::Directory, handle),
        );
    }
    for size in [1, 2, 7, 56, 57, 1000, usize::MAX] {
        let entries = bed.list(bed.home, size).await;
        let have: BTreeMap<_, _> = entries
            .iter()
            .map(|e| (e.name.as_bytes().to_vec(), (e.kind, e.handle)))
            .collect();
        assert_eq!(entries.len(), want.len(), "pages of {size}");
        assert_eq!(have, want, "pages of {size}");
    }
}

pub(super) async fn attributes_are_listed_on_request(bed: Bed) {
    let directory = bed.directory("directory").await;
    let file = bed.file_in(directory, "file").await;
    let list = async |caller, with| {
        let start = Cookie::START;
        let listing = bed.files.read_directory(caller, directory, start, 9, with);
        Ok::<_, FileError>(listing.await?.entries[0].attributes)
    };
    let attributes = bed.attributes(file).await;
    assert_eq!(list(alice(), true).await, Ok(Some(attributes)));
    assert_eq!(list(alice(), false).await, Ok(None));
    bed.set_mode(directory, 0o744).await;
    assert_eq!(list(carol(), true).await, Ok(None), "no search permission");
    bed.set_mode(directory, 0o711).await;
    assert_eq!(list(carol(), true).await, Err(FileError::Access));
    let start = Cookie::START;
    let listed = bed.files.read_directory(&bed.root, file, start, 9, false);
    assert_eq!(listed.await.err(), Some(FileError::NotDirectory));
}

pub(super) async fn the_end_is_told(bed: Bed) {
    let empty = page(&bed, bed.home, Cookie::START, 10).await;
    assert!(empty.is_end && empty.entries.is_empty());
    for at in ["a", "b", "c"] {
        bed.file(at).await;
    }
    let all = page(&bed, bed.home, Cookie::START, 3).await;
    let last = all.entries.last().unwrap().cookie;
    let end = page(&bed, bed.home, last, 3).await;
    assert!(end.is_end && end.entries.is_empty());
    let far = page(&bed, bed.home, Cookie((1 << 63) - 1), 3).await;
    assert!(far.is_end && far.entries.is_empty());
    let first = page(&bed, bed.home, Cookie::START, 1).await;
    assert!(!first.is_end && first.entries.len() == 1);
}

pub(super) async fn cookies_survive_removals_and_additions(bed: Bed) {
    for i in 0..100 {
        quick_file(&bed, bed.home, &format!("old {i}")).await;
    }
    let before = bed.list(bed.home, 1000).await;
    let mut met = Vec::new();
    let mut after = Cookie::START;
    let mut round = 0;
    loop {
        let listing = page(&bed, bed.home, after, 7).await;
        met.extend(listing.entries.iter().cloned());
        // The position that the next page starts from is gone by then.
        if let Some(last) = listing.entries.last() {
            after = last.cookie;
            if last.name.as_bytes().starts_with(b"old") {
                let kind = RemoveKind::File;
                let gone = bed
                    .files
                    .remove(&bed.root, bed.home, &last.name, kind, CACHED);
                gone.await.unwrap();
            }
            if round < 10 {
                quick_file(&bed, bed.home, &format!("new {round}")).await;
            }
            round += 1;
        }
        if listing.is_end {
            break;
        }
    }
    let counts = counts(&met);
    for entry in &before {
        let name = entry.name.as_bytes();
        assert_eq!(counts.get(name), Some(&1), "{:?}", entry.name);
    }
    assert!(counts.values().all(|count| *count == 1));
    let now = bed.list(bed.home, 1000).await;
    for entry in now.iter().filter(|e| e.name.as_bytes().starts_with(b"old")) {
        let old = before.iter().find(|e| e.name == entry.name).unwrap();
        assert_eq!(old.cookie, entry.cookie, "a name keeps its cookie");
    }
}

pub(super) async fn a_directory_has_many_names(bed: Bed) {
    for i in 0..MANY {
        quick_file(&bed, bed.home, &format!("file number {i}")).await;
    }
    let mut met = Vec::with_capacity(MANY);
    let mut after = Cookie::START;
    loop {
        let listing = page(&bed, bed.home, after, 500).await;
        after = listing.entries.last().map_or(after, |last| last.cookie);
        met.extend(listing.entries);
        if listing.is_end {
            break;
        }
    }
    assert_eq!(met.len(), MANY);
    assert_eq!(counts(&met).len(), MANY, "each name once");
    let last = format!("file number {}", MANY - 1);
    assert!(bed.lookup(bed.home, &last).await.is_ok());
    for entry in &met {
        let kind = RemoveKind::File;
        let removed = bed
            .files
            .remove(&bed.root, bed.home, &entry.name, kind, CACHED);
        removed.await.unwrap();
    }
    assert_eq!(bed.names(bed.home).await, [""; 0]);
    bed.remove(bed.files.root(), "listing::a_directory_has_many_names")
        .await;
}
