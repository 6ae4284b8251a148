//! What the tests work with: runs, filesystems on a store in memory, and short calls.

use std::ops::Range;
use std::time::Duration;

use backend::file::{
    Allocate, Attributes, Caller, FileBackend, FileResult, Handle, IfExists, Name, NewFile,
    NewKind, RemoveKind, Removed, RenameMode, Renamed, SetAttributes, Stability, WriteAt,
};
use pool::filesystem::{FileSystem, NewFileSystem, Store, create_filesystem};
use testkit::Runs;

use testkit::store::MemoryStore;

pub(crate) const CACHED: Stability = Stability::Cached;

/// Runs a test in the simulator, with several orders of its tasks.
pub(crate) fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    let runs = Runs {
        seeds: 1,
        limit: Duration::from_secs(3600),
    };
    runs.simulated(test);
}

/// A new filesystem, whose orphans are freed in the background.
pub(crate) async fn new_filesystem(store: &MemoryStore) -> FileSystem<MemoryStore> {
    let files = quiet_filesystem(store, NewFileSystem::default()).await;
    drop(io::spawn(files.clone().free_orphans()));
    files
}

/// A new filesystem without tasks.
pub(crate) async fn quiet_filesystem(
    store: &MemoryStore,
    new: NewFileSystem,
) -> FileSystem<MemoryStore> {
    create_filesystem(store, &new).await.expect("a filesystem");
    open(store).await
}

pub(crate) async fn open(store: &MemoryStore) -> FileSystem<MemoryStore> {
    FileSystem::open(store.clone(), 7).await.expect("opened")
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a name")
}

/// Calls as the superuser.
pub(crate) struct Bed<S = MemoryStore> {
    pub(crate) store: S,
    pub(crate) files: FileSystem<S>,
    pub(crate) root: Handle,
    pub(crate) caller: Caller,
}

impl Bed {
    pub(crate) async fn new(seed: u64) -> Self {
        let store = MemoryStore::new(seed);
        let files = quiet_filesystem(&store, NewFileSystem::default()).await;
        Self::of(store, files)
    }
}

impl<S: Store> Bed<S> {
    pub(crate) fn of(store: S, files: FileSystem<S>) -> Self {
        Self {
            store,
            root: files.root(),
            files,
            caller: Caller::root(),
        }
    }

    pub(crate) async fn create(
        &self,
        directory: Handle,
        at: &str,
        kind: NewKind,
    ) -> FileResult<Attributes> {
        let new = NewFile {
            kind,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let at = name(at);
        let created = self
            .files
            .create(&self.caller, directory, &at, new, IfExists::Fail, CACHED);
        Ok(created.await?.value.object)
    }

    pub(crate) async fn file(&self, at: &str) -> Handle {
        let file = self.create(self.root, at, NewKind::File).await;
        file.expect("a file").handle
    }

    pub(crate) async fn directory(&self, directory: Handle, at: &str) -> Handle {
        let made = self.create(directory, at, NewKind::Directory).await;
        made.expect("a directory").handle
    }

    pub(crate) async fn lookup(&self, directory: Handle, at: &str) -> FileResult<Attributes> {
        self.files.lookup(&self.caller, directory, &name(at)).await
    }

    pub(crate) async fn link(&self, of: Handle, directory: Handle, at: &str) -> FileResult<()> {
        let at = name(at);
        let linked = self.files.link(&self.caller, of, directory, &at, CACHED);
        linked.await.map(|_| ())
    }

    pub(crate) async fn remove(&self, directory: Handle, at: &str) -> FileResult<Removed> {
        let at = name(at);
        let removed = self
            .files
            .remove(&self.caller, directory, &at, RemoveKind::Any, CACHED);
        Ok(removed.await?.value)
    }

    pub(crate) async fn rename(
        &self,
        (from, old): (Handle, &str),
        (to, new): (Handle, &str),
        mode: RenameMode,
    ) -> FileResult<Renamed> {
        let (old, new) = (name(old), name(new));
        let renamed = self
            .files
            .rename(&self.caller, from, &old, to, &new, mode, CACHED);
        Ok(renamed.await?.value)
    }

    pub(crate) async fn write(&self, of: Handle, offset: u64, bytes: &[u8]) -> FileResult<()> {
        let mut data = io::pool().alloc(bytes.len().max(1)).await;
        data.set_len(bytes.len());
        data.copy_from_slice(bytes);
        let at = WriteAt::Offset(offset);
        let written = self.files.write(&self.caller, of, at, data.into(), CACHED);
        written.await.map(|_| ())
    }

    pub(crate) async fn read(&self, of: Handle, offset: u64, len: usize) -> FileResult<Vec<u8>> {
        let read = self.files.read(of, offset, len).await?;
        let mut bytes = vec![0; read.bytes.len()];
        read.bytes.copy_to(&mut bytes);
        Ok(bytes)
    }

    pub(crate) async fn set_size(&self, of: Handle, size: u64) -> FileResult<()> {
        let set = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let set = self.files.set_attributes(&self.caller, of, set, CACHED);
        set.await.map(|_| ())
    }

    pub(crate) async fn punch(&self, of: Handle, range: Range<u64>) -> FileResult<()> {
        let how = Allocate::Punch;
        let punched = self.files.allocate(&self.caller, of, range, how, false);
        punched.await.map(|_| ())
    }

    pub(crate) async fn set_xattr(&self, of: Handle, name: &str, len: usize) -> FileResult<()> {
        let value = Some(vec![7; len]);
        let how = backend::file::SetXattr::Either;
        let set = self
            .files
            .set_xattr(&self.caller, of, name.as_bytes(), value, how, CACHED);
        set.await.map(|_| ())
    }

    /// Frees all orphans that can be freed.
    pub(crate) async fn free_orphans(&self) {
        while self.files.free_orphan().await.expect("no error") {}
    }
}
