//! A tree of directories with small files: filled, and walked as `find` with `stat` does.
//!
//! **Called by** rows of device classes. **Invariants**: files are created in directories at random, so that neighbours in a directory are not
//! neighbours on the disk; a walk asks for one thing at a time.

use super::place::refused;
use crate::rows::BLOCK;
use backend::file::{
    Caller, Cookie, FileBackend, Handle, IfExists, Name, NewFile, NewKind, Stability, WriteAt,
};
use io::rng::Prng;
use lab::Result;
use pool::filesystem::FileSystem;
use pool::{FileStore, NewFilesystem, Pool};

const NAME: &str = "files";
const FSID: u64 = 1;
/// Files of a directory, on average.
const FILES_PER_DIRECTORY: u32 = 100;
/// Entries that a listing asks for at once, as getdents64 does for a buffer of 32 KiB.
const ENTRIES_AT_ONCE: usize = 1000;

/// A filesystem of a pool, as the superuser sees it.
pub(super) struct Tree {
    files: FileSystem<FileStore>,
    caller: Caller,
}

impl Tree {
    /// A new filesystem with this number of files, each of one block. The pool has written all of it.
    pub(super) async fn filled(pool: &Pool, files: u32) -> Result<()> {
        let new = NewFilesystem::new(NAME);
        let store = pool.create_filesystem(new).await.map_err(refused)?;
        let tree = Self::of(store).await?;
        let mut directories = Vec::new();
        for n in 0..(files / FILES_PER_DIRECTORY).max(1) {
            let root = tree.files.root();
            let name = format!("directory {n}");
            directories.push(tree.create(root, &name, NewKind::Directory).await?);
        }
        let mut rng = Prng::new(11);
        for n in 0..files {
            let directory = directories[rng.below(directories.len() as u64) as usize];
            let name = format!("file {n}");
            let file = tree.create(directory, &name, NewKind::File).await?;
            let mut data = io::pool().alloc(BLOCK as usize).await;
            rng.fill(&mut data);
            let written = tree.files.write(
                &tree.caller,
                file,
                WriteAt::Offset(0),
                data.into(),
                Stability::Cached,
            );
            written.await.map_err(refused)?;
        }
        pool.checkpoint().await.map_err(refused)
    }

    /// The filesystem of a pool that was filled before.
    pub(super) async fn open(pool: &Pool) -> Result<Self> {
        let store = pool.filesystem(NAME).ok_or_else(|| refused("no tree"))?;
        Self::of(store).await
    }

    async fn of(store: FileStore) -> Result<Self> {
        Ok(Self {
            files: FileSystem::open(store, FSID).await.map_err(refused)?,
            caller: Caller::root(),
        })
    }

    async fn create(&self, directory: Handle, name: &str, kind: NewKind) -> Result<Handle> {
        let name = Name::new(name.as_bytes()).map_err(refused)?;
        let new = NewFile {
            kind,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let how = (IfExists::Fail, Stability::Cached);
        let created = self
            .files
            .create(&self.caller, directory, &name, new, how.0, how.1);
        Ok(created.await.map_err(refused)?.value.object.handle)
    }

    /// Lists all directories, and asks for the attributes of each file by its name. Returns the number of files.
    pub(super) async fn walk(&self) -> Result<u64> {
        let mut found = 0;
        for directory in self.list(self.files.root()).await? {
            let directory = self.stat(self.files.root(), &directory).await?;
            for file in self.list(directory).await? {
                self.stat(directory, &file).await?;
                found += 1;
            }
        }
        Ok(found)
    }

    async fn stat(&self, directory: Handle, name: &Name) -> Result<Handle> {
        let found = self.files.lookup(&self.caller, directory, name);
        Ok(found.await.map_err(refused)?.handle)
    }

    async fn list(&self, directory: Handle) -> Result<Vec<Name>> {
        let (mut names, mut after) = (Vec::new(), Cookie::START);
        loop {
            let part =
                self.files
                    .read_directory(&self.caller, directory, after, ENTRIES_AT_ONCE, false);
            let part = part.await.map_err(refused)?;
            after = part.entries.last().map_or(after, |entry| entry.cookie);
            names.extend(part.entries.into_iter().map(|entry| entry.name));
            if part.is_end {
                return Ok(names);
            }
        }
    }
}
