//! Snapshots below `.zfs/snapshot`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backend::file::{
    Access, Attributes, Caller, Cookie, FileBackend, FileError, FileResult, Handle, IfExists,
    NewFile, NewKind, RemoveKind, RenameMode, Stability, Timestamp, WriteAt,
};
use pool::filesystem::{
    FileSystem, SnapshotDirectory, SnapshotEntry, SnapshotVisibility, Snapshots,
};
use testkit::Runs;

use crate::filesystem::bed::{Bed, CACHED, name, new_filesystem, run};
use testkit::store::{Durables, MemoryStore};

struct State {
    visibility: SnapshotVisibility,
    snapshots: Vec<(SnapshotEntry, Durables)>,
    change: u64,
    opened: u64,
}

/// Snapshots of a store in memory.
#[derive(Clone)]
struct Source(Arc<Mutex<State>>);

impl Source {
    fn new(visibility: SnapshotVisibility) -> Self {
        Self(Arc::new(Mutex::new(State {
            visibility,
            snapshots: Vec::new(),
            change: 1,
            opened: 0,
        })))
    }

    fn take(&self, at: &str, of: &MemoryStore) {
        let mut state = self.0.lock().unwrap();
        state.change += 1;
        let number = state.change;
        let entry = SnapshotEntry {
            name: name(at),
            id: 1000 + number,
            number,
        };
        state.snapshots.push((entry, of.now()));
    }

    fn destroy(&self, at: &str) {
        let mut state = self.0.lock().unwrap();
        state.change += 1;
        state.snapshots.retain(|(of, _)| of.name != name(at));
    }
}

impl Snapshots for Source {
    type Files = FileSystem<MemoryStore>;

    fn visibility(&self) -> SnapshotVisibility {
        self.0.lock().unwrap().visibility
    }

    fn last_change(&self) -> (u64, Timestamp) {
        let change = self.0.lock().unwrap().change;
        (change, Timestamp(change as i64))
    }

    fn list(&self, after: u64, max: usize) -> Vec<SnapshotEntry> {
        let state = self.0.lock().unwrap();
        let all = state.snapshots.iter().map(|(of, _)| of.clone());
        all.filter(|of| of.number > after).take(max).collect()
    }

    fn by_name(&self, at: &backend::file::Name) -> Option<SnapshotEntry> {
        self.list(0, usize::MAX)
            .into_iter()
            .find(|of| of.name == *at)
    }

    fn exists(&self, id: u64) -> bool {
        self.list(0, usize::MAX).iter().any(|of| of.id == id)
    }

    async fn open(&self, id: u64) -> FileResult<Self::Files> {
        let of = {
            let mut state = self.0.lock().unwrap();
            state.opened += 1;
            let found = state.snapshots.iter().find(|(of, _)| of.id == id);
            found.ok_or(FileError::Stale)?.1.clone()
        };
        let store = MemoryStore::with(of, 3);
        store.set(|settings| settings.is_read_only = true);
        FileSystem::open(store, id).await
    }
}

struct World {
    bed: Bed,
    source: Source,
    all: SnapshotDirectory<FileSystem<MemoryStore>, Source>,
    caller: Caller,
}

impl World {
    async fn new(visibility: SnapshotVisibility) -> Self {
        let bed = Bed::new(1).await;
        let source = Source::new(visibility);
        Self {
            all: SnapshotDirectory::new(bed.files.clone(), source.clone()),
            bed,
            source,
            caller: Caller::root(),
        }
    }

    async fn lookup(&self, directory: Handle, at: &str) -> FileResult<Attributes> {
        self.all.lookup(&self.caller, directory, &name(at)).await
    }

    /// The handle of a path.
    async fn walk(&self, path: &str) -> FileResult<Handle> {
        let mut at = self.all.root();
        for part in path.split('/') {
            at = self.lookup(at, part).await?.handle;
        }
        Ok(at)
    }

    async fn list(&self, of: Handle, after: Cookie, max: usize) -> (Vec<String>, Cookie, bool) {
        let listed = self.all.read_directory(&self.caller, of, after, max, true);
        let listed = listed.await.expect("listed");
        let last = listed.entries.last().map_or(after, |entry| entry.cookie);
        let text = |of: &backend::file::Entry| String::from_utf8_lossy(of.name.as_bytes()).into();
        let names = listed.entries.iter().map(text).collect();
        (names, last, listed.is_end)
    }

    async fn read(&self, of: Handle) -> FileResult<Vec<u8>> {
        let read = self.all.read(of, 0, 100).await?;
        let mut bytes = vec![0; read.bytes.len()];
        read.bytes.copy_to(&mut bytes);
        Ok(bytes)
    }
}

#[test]
fn a_snapshot_has_the_files_of_its_time() {
    run(|| async {
        let world = World::new(SnapshotVisibility::Hidden).await;
        let bed = &world.bed;
        let file = bed.file("file").await;
        bed.write(file, 0, b"monday").await.unwrap();
        world.source.take("monday", &bed.store);
        bed.write(file, 0, b"sunday").await.unwrap();
        bed.file("later").await;
        let old = world.walk(".zfs/snapshot/monday/file").await.unwrap();
        assert_eq!((old.object, old.generation), (file.object, file.generation));
        assert_ne!(old.filesystem, file.filesystem);
        assert_eq!(world.read(old).await.unwrap(), b"monday");
        assert_eq!(world.read(file).await.unwrap(), b"sunday");
        let missing = world.walk(".zfs/snapshot/monday/later").await;
        assert_eq!(missing, Err(FileError::NotFound));
        let missing = world.walk(".zfs/snapshot/tuesday").await;
        assert_eq!(missing, Err(FileError::NotFound));
        let copied = world.all.copy(&world.caller, (old, 0), (file, 6), 99).await;
        assert_eq!(copied, Ok(6));
        assert_eq!(world.read(file).await.unwrap(), b"sundaymonday");
        let held = world.all.open(&world.caller, old, Access::READ).await;
        assert!(held.is_ok());
        assert_eq!(world.source.0.lock().unwrap().opened, 1, "it stays open");
    });
}

#[test]
fn parents_lead_back_to_the_root() {
    run(|| async {
        let world = World::new(SnapshotVisibility::Hidden).await;
        world.bed.directory(world.bed.root, "d").await;
        world.source.take("a", &world.bed.store);
        let mut at = world.walk(".zfs/snapshot/a/d").await.unwrap();
        for path in [".zfs/snapshot/a", ".zfs/snapshot", ".zfs"] {
            let parent = world.all.parent(&world.caller, at).await.unwrap().handle;
            assert_eq!(parent, world.walk(path).await.unwrap());
            let attributes = world.all.attributes(parent).await.unwrap();
            assert_eq!(attributes.handle, parent);
            at = parent;
        }
        let root = world.all.parent(&world.caller, at).await.unwrap().handle;
        assert_eq!(root, world.all.root());
    });
}

#[test]
fn nothing_is_changed_in_snapshots_and_above_them() {
    run(|| async {
        let world = World::new(SnapshotVisibility::Hidden).await;
        let live = world.bed.file("file").await;
        world.source.take("a", &world.bed.store);
        let all = &world.all;
        let caller = &world.caller;
        let new = || NewFile {
            kind: NewKind::Directory,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let create = |of, at: &str| {
            let fail = IfExists::Fail;
            all.create(caller, of, &name(at), new(), fail, CACHED)
        };
        let remove = |of, at: &str| all.remove(caller, of, &name(at), RemoveKind::Any, CACHED);
        for path in [".zfs", ".zfs/snapshot", ".zfs/snapshot/a"] {
            let of = world.walk(path).await.unwrap();
            let read_only = Some(FileError::ReadOnly);
            assert_eq!(create(of, "new").await.err(), read_only);
            assert_eq!(remove(of, "file").await.err(), read_only);
            let (old, new) = (name("file"), name("new"));
            for (from, to) in [(of, all.root()), (all.root(), of)] {
                let mode = RenameMode::Replace;
                let renamed = all.rename(caller, from, &old, to, &new, mode, CACHED);
                assert_eq!(renamed.await.err(), read_only);
            }
            let linked = all.link(caller, live, of, &new, CACHED).await;
            assert_eq!(linked.err(), read_only);
        }
        let old = world.walk(".zfs/snapshot/a/file").await.unwrap();
        let linked = all
            .link(caller, old, all.root(), &name("new"), CACHED)
            .await;
        assert_eq!(linked.err(), Some(FileError::ReadOnly));
        let data = io::pool().alloc(1).await;
        let written = all.write(caller, old, WriteAt::End, data.into(), Stability::Cached);
        assert_eq!(written.await.err(), Some(FileError::ReadOnly));

        assert_eq!(
            create(all.root(), ".zfs").await.err(),
            Some(FileError::Exists)
        );
        assert_eq!(
            remove(all.root(), ".zfs").await.err(),
            Some(FileError::NotOwner)
        );
    });
}

#[test]
fn the_directory_is_listed_if_it_is_visible() {
    run(|| async {
        for visibility in [
            SnapshotVisibility::Disabled,
            SnapshotVisibility::Hidden,
            SnapshotVisibility::Visible,
        ] {
            let world = World::new(visibility).await;
            for at in ["a", "b", "c"] {
                world.bed.file(at).await;
            }
            for page in 1..6 {
                let (mut names, mut at, mut is_end) = (Vec::new(), Cookie::START, false);
                while !is_end {
                    let (more, next, end) = world.list(world.all.root(), at, page).await;
                    assert!(more.len() <= page && (end || !more.is_empty()));
                    names.extend(more);
                    (at, is_end) = (next, end);
                }
                names.sort();
                match visibility == SnapshotVisibility::Visible {
                    true => assert_eq!(names, [".zfs", "a", "b", "c"]),
                    false => assert_eq!(names, ["a", "b", "c"]),
                }
            }
            let found = world.walk(".zfs").await;
            assert_eq!(found.is_ok(), visibility != SnapshotVisibility::Disabled);
        }
    });
}

#[test]
fn snapshots_are_listed_once_while_others_come_and_go() {
    run(|| async {
        let world = World::new(SnapshotVisibility::Hidden).await;
        for at in ["a", "b", "c", "d"] {
            world.source.take(at, &world.bed.store);
        }
        let of = world.walk(".zfs/snapshot").await.unwrap();
        let before = world.all.attributes(of).await.unwrap();
        let (names, at, is_end) = world.list(of, Cookie::START, 2).await;
        assert_eq!((names, is_end), (vec!["a".into(), "b".into()], false));
        world.source.destroy("a");
        world.source.destroy("c");
        world.source.take("e", &world.bed.store);
        let (names, _, is_end) = world.list(of, at, 2).await;
        assert_eq!((names, is_end), (vec!["d".into(), "e".into()], true));
        let after = world.all.attributes(of).await.unwrap();
        assert!(after.change > before.change && after.modified > before.modified);
        let control = world.walk(".zfs").await.unwrap();
        let (names, at, is_end) = world.list(control, Cookie::START, 9).await;
        assert_eq!((names, is_end), (vec!["snapshot".into()], true));
        assert_eq!(world.list(control, at, 9).await, (vec![], at, true));
        assert_eq!(
            world.source.0.lock().unwrap().opened,
            0,
            "listing opens nothing"
        );
    });
}

#[test]
fn handles_of_a_destroyed_snapshot_are_stale() {
    run(|| async {
        let world = World::new(SnapshotVisibility::Hidden).await;
        world.bed.file("file").await;
        world.source.take("a", &world.bed.store);
        let root = world.walk(".zfs/snapshot/a").await.unwrap();
        let old = world.walk(".zfs/snapshot/a/file").await.unwrap();
        world.source.destroy("a");
        world.source.take("a", &world.bed.store);
        for of in [root, old] {
            assert_eq!(world.all.attributes(of).await, Err(FileError::Stale));
            let size = backend::file::SetAttributes::default();
            let set = world.all.set_attributes(&world.caller, of, size, CACHED);
            assert_eq!(set.await.err(), Some(FileError::Stale));
        }
        let parent = world.all.parent(&world.caller, root).await;
        assert_eq!(parent, Err(FileError::Stale));
        let again = world.walk(".zfs/snapshot/a/file").await.unwrap();
        assert_ne!(again.filesystem, old.filesystem);
    });
}

#[test]
fn many_snapshots_are_used_one_after_the_other() {
    run(|| async {
        let world = World::new(SnapshotVisibility::Hidden).await;
        world.bed.file("file").await;
        let mut handles = Vec::new();
        for n in 0..100 {
            world.source.take(&n.to_string(), &world.bed.store);
            let path = format!(".zfs/snapshot/{n}/file");
            handles.push(world.walk(&path).await.unwrap());
        }
        for of in handles {
            assert_eq!(world.all.attributes(of).await.unwrap().handle, of);
        }
    });
}

/// The filesystem is as it was, except for one name.
#[test]
fn a_filesystem_with_snapshots_has_every_behaviour() {
    const RUNS: Runs = Runs {
        seeds: 1,
        limit: Duration::from_secs(60),
    };
    testkit::files::check_all(|behaviour| {
        RUNS.simulated(|| async {
            let store = MemoryStore::new(1);
            let live = new_filesystem(&store).await;
            let source = Source::new(SnapshotVisibility::Hidden);
            let all = SnapshotDirectory::new(live, source);
            behaviour.check(Arc::new(all)).await;
        });
    });
}
