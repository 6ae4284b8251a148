//! Behaviours of watches.
//!
//! **Owns** these behaviours. **Called by** the list of all. **Invariants**: as every behaviour; equal events that follow each
//! other count as one.

use backend::file::{Event, FileError, Handle, RenameMode, SetXattr, WATCH_EVENTS_MAX, Watch};

use super::bed::{Bed, CACHED, name};

fn added(at: &str, object: Handle) -> Event {
    let name = name(at);
    Event::Added { name, object }
}

fn removed(at: &str, object: Handle) -> Event {
    let name = name(at);
    Event::Removed { name, object }
}

fn renamed(old: &str, new: &str, object: Handle) -> Event {
    let (old, new) = (name(old), name(new));
    Event::Renamed { old, new, object }
}

fn contents(at: &str, object: Handle) -> Event {
    let name = name(at);
    Event::Contents { name, object }
}

fn attributes(at: &str, object: Handle) -> Event {
    let name = name(at);
    Event::Attributes { name, object }
}

async fn watch(bed: &Bed, directory: Handle) -> Watch {
    bed.files.watch(directory).await.expect("watch")
}

/// Checks that exactly these events come, and no other before `bed` makes one more.
async fn expect(bed: &Bed, directory: Handle, watch: &Watch, want: Vec<Event>) {
    let last = bed.file_in(directory, "last").await;
    let want = [want, vec![added("last", last)]].concat();
    let mut have = Vec::new();
    while have.len() < want.len() {
        have.push(watch.next().await.expect("the directory is there"));
    }
    assert_eq!(have, want);
    assert_eq!(watch.try_next(), None);
    bed.remove(directory, "last").await;
    assert_eq!(watch.next().await, Some(removed("last", last)));
}

pub(super) async fn names_that_change_are_told(bed: Bed) {
    let (a, b) = (bed.directory("a").await, bed.directory("b").await);
    let early = bed.file_in(a, "early").await;
    let (of_a, of_b) = (watch(&bed, a).await, watch(&bed, b).await);
    let x = bed.file_in(a, "x").await;
    let d = bed.directory_in(a, "d").await;
    bed.link(x, b, "y").await.unwrap();
    bed.rename((a, "x"), (a, "z")).await.unwrap();
    bed.rename((a, "early"), (a, "z")).await.unwrap();
    bed.rename((a, "z"), (b, "z")).await.unwrap();
    let exchange = RenameMode::Exchange;
    let pairs = [((b, "y"), (b, "z")), ((a, "d"), (b, "y"))];
    for (from, to) in pairs {
        bed.try_rename(&bed.root, from, to, exchange).await.unwrap();
    }
    bed.remove(b, "z").await;
    let want = vec![
        added("x", x),
        added("d", d),
        renamed("x", "z", x),
        removed("z", x),
        renamed("early", "z", early),
        removed("z", early),
        removed("d", d),
        added("d", early),
    ];
    expect(&bed, a, &of_a, want).await;
    let want = vec![
        added("y", x),
        added("z", early),
        renamed("y", "z", x),
        renamed("z", "y", early),
        added("y", d),
        removed("y", early),
        removed("z", x),
    ];
    expect(&bed, b, &of_b, want).await;
}

pub(super) async fn contents_and_attributes_are_told(bed: Bed) {
    let (a, b) = (bed.directory("a").await, bed.directory("b").await);
    let file = bed.file_in(a, "file").await;
    bed.link(file, b, "second").await.unwrap();
    let below = bed.directory_in(a, "below").await;
    let (of_a, of_b) = (watch(&bed, a).await, watch(&bed, b).await);
    bed.write(file, 0, b"abc").await;
    bed.write(file, 3, b"abc").await;
    bed.set_mode(file, 0o600).await;
    bed.set_size(file, 1).await;
    let value = Some(b"v".to_vec());
    let set = bed
        .files
        .set_xattr(&bed.root, file, b"user.a", value, SetXattr::Either, CACHED);
    set.await.unwrap();
    bed.set_mode(below, 0o700).await;
    // Looks are no changes, and neither is what happens below.
    bed.contents(file).await;
    bed.file_in(below, "deep").await;
    let want = vec![
        contents("file", file),
        attributes("file", file),
        contents("file", file),
        attributes("file", file),
        attributes("below", below),
    ];
    expect(&bed, a, &of_a, want).await;
    let want = vec![
        contents("second", file),
        attributes("second", file),
        contents("second", file),
        attributes("second", file),
    ];
    expect(&bed, b, &of_b, want).await;
}

pub(super) async fn a_refused_change_is_not_told(bed: Bed) {
    let file = bed.file("file").await;
    let of_home = watch(&bed, bed.home).await;
    let refused = bed.link(file, bed.home, "file").await;
    assert_eq!(refused.err(), Some(FileError::Exists));
    let refused = bed.rename((bed.home, "missing"), (bed.home, "x")).await;
    assert_eq!(refused.err(), Some(FileError::NotFound));
    expect(&bed, bed.home, &of_home, vec![]).await;
}

pub(super) async fn lost_events_are_told(bed: Bed) {
    let of_home = watch(&bed, bed.home).await;
    for _ in 0..WATCH_EVENTS_MAX {
        bed.file("x").await;
        bed.remove(bed.home, "x").await;
    }
    let mut events = 0;
    while of_home.next().await.expect("it is there") != Event::Overflow {
        events += 1;
    }
    assert_eq!(events, WATCH_EVENTS_MAX);
    expect(&bed, bed.home, &of_home, vec![]).await;
}

pub(super) async fn a_watch_ends_with_its_directory(bed: Bed) {
    let directory = bed.directory("directory").await;
    let (first, second) = (watch(&bed, directory).await, watch(&bed, directory).await);
    drop(second);
    let file = bed.file_in(directory, "file").await;
    bed.remove(directory, "file").await;
    bed.remove(bed.home, "directory").await;
    assert_eq!(first.next().await, Some(added("file", file)));
    assert_eq!(first.next().await, Some(removed("file", file)));
    assert_eq!(first.next().await, None);
}

pub(super) async fn only_directories_are_watched(bed: Bed) {
    let file = bed.file("file").await;
    let refused = bed.files.watch(file).await.err();
    assert_eq!(refused, Some(FileError::NotDirectory));
}
