//! Inspection of filesystems.

use backend::file::{
    Caller, FileBackend, Handle, IfExists, Name, NewFile, NewKind, RemoveKind, SetAttributes,
    SetXattr, Stability, WriteAt,
};
use pool::filesystem::FileSystem;
use pool::format::DatasetClass;
use pool::{FileStore, NewFilesystem, Pool};

use crate::world::{inspect, machine, make, run};

const CACHED: Stability = Stability::Cached;

/// A filesystem, and short calls as the superuser.
pub(crate) struct Files {
    files: FileSystem<FileStore>,
    caller: Caller,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

impl Files {
    pub(crate) async fn open(store: FileStore) -> Self {
        let files = FileSystem::open(store, 7).await.expect("opened");
        let caller = Caller::root();
        Self { files, caller }
    }

    pub(crate) async fn make(&self, at: Handle, text: &str, kind: NewKind) -> Handle {
        let new = NewFile {
            kind,
            mode: 0o755,
            acl: None,
        };
        let name = name(text);
        let made = self
            .files
            .create(&self.caller, at, &name, new, IfExists::Fail, CACHED);
        made.await.expect("made").value.object.handle
    }

    pub(crate) async fn write(&self, of: Handle, offset: u64, len: usize, byte: u8) {
        let mut data = io::pool().alloc(len).await;
        data.fill(byte);
        let at = WriteAt::Offset(offset);
        let written = self.files.write(&self.caller, of, at, data, CACHED).await;
        written.expect("written");
    }

    async fn remove(&self, at: Handle, text: &str) {
        let name = name(text);
        let removed = self
            .files
            .remove(&self.caller, at, &name, RemoveKind::Any, CACHED);
        removed.await.expect("removed");
    }

    async fn set_xattr(&self, of: Handle, len: usize) {
        let (value, how) = (Some(vec![7; len]), SetXattr::Either);
        let set = self
            .files
            .set_xattr(&self.caller, of, b"user.a", value, how, CACHED);
        set.await.expect("set");
    }

    /// Directories, files of many sizes, links, symlinks and attributes.
    async fn furnish(&self) {
        let root = self.files.root();
        let (caller, files) = (&self.caller, &self.files);
        let directory = self.make(root, "a", NewKind::Directory).await;
        let inner = self.make(directory, "b", NewKind::Directory).await;
        for n in 0..100 {
            let file = self.make(inner, &format!("f{n}"), NewKind::File).await;
            self.write(file, n * 3000, 100 + 500 * n as usize, 1).await;
            if n % 10 == 0 {
                self.set_xattr(file, 300 * n as usize).await;
                let linked = files.link(caller, file, directory, &name(&format!("l{n}")), CACHED);
                linked.await.expect("linked");
                let linked = files.link(caller, file, root, &name(&format!("k{n}")), CACHED);
                linked.await.expect("linked");
            }
        }
        self.make(root, "s", NewKind::Symlink(vec![b'x'; 2500]))
            .await;
        self.make(root, "p", NewKind::Fifo).await;
    }

    /// Changes of all kinds of entries.
    async fn change(&self) {
        let root = self.files.root();
        let lookup = |at, text: &'static str| async move {
            let name = name(text);
            let found = self.files.lookup(&self.caller, at, &name).await;
            found.expect("found").handle
        };
        let directory = lookup(root, "a").await;
        let inner = lookup(directory, "b").await;
        for text in ["f10", "f11", "f12"] {
            self.remove(inner, text).await;
        }
        self.remove(directory, "l20").await;
        self.remove(root, "p").await;
        let file = lookup(inner, "f90").await;
        self.set_xattr(file, 20_000).await;
        self.write(file, 0, 30_000, 2).await;
        let size = SetAttributes {
            size: Some(10_000),
            ..SetAttributes::default()
        };
        let set = self
            .files
            .set_attributes(&self.caller, file, size, CACHED)
            .await;
        set.expect("set");
        let new = self.make(root, "new", NewKind::Directory).await;
        let file = self.make(new, "file", NewKind::File).await;
        self.write(file, 0, 40_000, 3).await;
        let _durable = self.files.commit_all().await.expect("durable");
    }
}

pub(crate) fn new_files(name: &str) -> NewFilesystem {
    NewFilesystem {
        record_size: 16 << 10,
        compression: pool::format::Packing::Off,
        ..NewFilesystem::new(name)
    }
}

pub(crate) async fn create(pool: &Pool, name: &str) -> Files {
    let store = pool.create_filesystem(new_files(name)).await;
    Files::open(store.expect("a filesystem")).await
}

#[test]
fn a_sound_filesystem_with_snapshots_and_clones_is_sound() {
    run(async {
        let node = machine();
        let done = node.spawn(async {
            let pool = make().await;
            let files = create(&pool, "home").await;
            files.furnish().await;
            pool.create_snapshot("home", "then").await.expect("taken");
            files.change().await;
            pool.checkpoint().await.expect("a checkpoint");
            let clone = pool.clone_snapshot("home", "then", "clone").await;
            drop(clone.expect("a clone"));
            let clone = pool.filesystem("clone").expect("it is there");
            Files::open(clone).await.change().await;
            pool.checkpoint().await.expect("a checkpoint");
            pool.close().await.expect("closed");
        });
        done.await.expect("it ran");
        node.kill();
        let view = node.spawn(inspect()).await.expect("it ran");
        view.assert_sound();
        let found = &view.found;
        let names: Vec<_> = found.datasets.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["home@then", "home", "clone"]);
        assert_eq!(found.datasets[0].class, DatasetClass::FilesystemSnapshot);
        let datasets: u64 = found.datasets.iter().map(|d| d.used).sum();
        assert_eq!(datasets + found.lists + found.journal, found.saved);
    });
}
