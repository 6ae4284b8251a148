//! Differences of two snapshots: what is listed, and the cost.

use backend::file::{FileBackend, FileKind, NewKind, RenameMode, SetAttributes};
use pool::filesystem::Store;
use pool::{FileChange, FileChangeKind, Pool};

use crate::filesystem::bed::CACHED;
use crate::filesystem::pooled::{again, create_pool, durables, new_files, on_disk, open};

/// Changes as lines: kind, kind of the object, path, path before, further names.
async fn lines(pool: &Pool, old: &str, new: &str) -> Vec<String> {
    let found = pool.diff("files", (old, new), 1000).await;
    let found = found.expect("compared").expect("few");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = |change: &FileChange| {
        let path = text(&change.path);
        let line = match &change.kind {
            FileChangeKind::Added => format!("+ {path}"),
            FileChangeKind::Removed => format!("- {path}"),
            FileChangeKind::Modified => format!("M {path}"),
            FileChangeKind::Renamed(new) => format!("R {path} -> {}", text(new)),
        };
        match (change.file, change.links) {
            (FileKind::Directory, _) => format!("{line}/"),
            (_, 0) => line,
            (_, links) => format!("{line} ({links:+})"),
        }
    };
    found.iter().map(line).collect()
}

#[test]
fn every_kind_of_change_is_listed() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await.expect("made");
        let bed = open(store).await;
        let directory = bed.directory(bed.root, "directory").await;
        let inner = bed.directory(directory, "inner").await;
        let below = bed.create(inner, "below", NewKind::File).await;
        below.expect("a file");
        for name in ["kept", "written", "removed", "renamed", "linked", "mode"] {
            let file = bed.file(name).await;
            bed.write(file, 0, &[1; 20_000]).await.expect("written");
        }
        pool.create_snapshot("files", "monday")
            .await
            .expect("taken");
        assert_eq!(lines(&pool, "monday", "monday").await, [""; 0]);

        let at = async |name: &str| bed.lookup(bed.root, name).await.expect("found").handle;
        bed.read(at("kept").await, 0, 100).await.expect("read");
        let written = at("written").await;
        bed.write(written, 5000, b"other bytes")
            .await
            .expect("written");
        bed.remove(bed.root, "removed").await.expect("removed");
        let replace = RenameMode::Replace;
        let moved = bed.rename((bed.root, "renamed"), (directory, "new"), replace);
        moved.await.expect("renamed");
        // what is below it keeps its own name
        let moved = bed.rename((directory, "inner"), (directory, "outer"), replace);
        moved.await.expect("renamed");
        let linked = at("linked").await;
        bed.link(linked, bed.root, "again").await.expect("linked");
        bed.remove(bed.root, "linked").await.expect("removed");
        bed.link(linked, bed.root, "third").await.expect("linked");
        let set = SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        };
        let mode = at("mode").await;
        let set = bed.files.set_attributes(&bed.caller, mode, set, CACHED);
        set.await.expect("set");
        let passing = bed.file("passing").await;
        bed.write(passing, 0, b"gone soon").await.expect("written");
        bed.remove(bed.root, "passing").await.expect("removed");
        bed.file("added").await;
        bed.free_orphans().await;
        pool.create_snapshot("files", "tuesday")
            .await
            .expect("taken");

        let mut found = lines(&pool, "monday", "tuesday").await;
        found.sort();
        let expected = [
            "+ /added",
            "- /removed",
            "M //",
            "M /directory/",
            "M /mode",
            "M /written",
            "R /directory/inner -> /directory/outer/",
            "R /linked -> /again (+1)",
            "R /renamed -> /directory/new",
        ];
        assert_eq!(found, expected);
        let few = pool.diff("files", ("monday", "tuesday"), 3).await;
        assert_eq!(few.expect("compared"), None, "more than 3");
        assert!(pool.diff("files", ("monday", "none"), 3).await.is_err());
    });
}

/// The nodes that are read depend on the number of changes, not on that of files.
#[test]
fn the_cost_is_that_of_the_changes() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        let store = pool.create_filesystem(new_files()).await.expect("made");
        let bed = open(store).await;
        for n in 0..6000 {
            bed.file(&format!("file{n}")).await;
        }
        pool.create_snapshot("files", "monday")
            .await
            .expect("taken");
        for name in ["file70", "file5990"] {
            let file = bed.lookup(bed.root, name).await.expect("found").handle;
            bed.write(file, 0, b"some bytes").await.expect("written");
        }
        pool.create_snapshot("files", "tuesday")
            .await
            .expect("taken");
        drop(bed);
        pool.checkpoint().await.expect("a checkpoint");
        pool.close().await.expect("closed");

        let pool = again().await;
        let before = pool.cache().misses;
        let found = lines(&pool, "monday", "tuesday").await;
        assert_eq!(found, ["M /file70", "M /file5990"]);
        let read = pool.cache().misses - before;
        let store = pool.filesystem("files").expect("there");
        assert!(!store.settings().is_read_only);
        let before = pool.cache().misses;
        durables(&store).await;
        let all = pool.cache().misses - before;
        assert!(read < 20 && all > 4 * read, "{read} nodes of {all} others");
    });
}
