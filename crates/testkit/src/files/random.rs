//! Random operations on names and attributes of a filesystem, with few names, so that they meet.
//!
//! **Owns** the objects that one task knows, and its open files. **Called by** the simulator's scenario `files` and by the pool's
//! tests of filesystems. **Invariant**: a seed chooses the same operations as long as
//! the filesystem answers the same.

use backend::file::{
    Access, Ace, AceFlags, AceKind, AceMask, Acl, Caller, FileBackend, FileResult, Handle, Hold,
    IfExists, Name, NewFile, NewKind, RemoveKind, RenameMode, SetAttributes, SetXattr, Stability,
    Who, WriteAt,
};
use io::rng::Prng;
use pool::filesystem::{FileSystem, Store};

/// The names in each directory.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Entries of a list that needs several values.
const ACES: usize = 90;

/// Random operations on a few names in a few directories, by the superuser.
pub struct Random {
    rng: Prng,
    caller: Caller,
    /// Chance that a mutation is durable when it is answered.
    durable: f64,
    /// The directories that it knows.
    pub directories: Vec<Handle>,
    /// The files that it knows.
    pub files: Vec<Handle>,
    holds: Vec<Hold>,
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a name")
}

impl Random {
    /// A task that knows the root directory. `durable` is the chance that a mutation is durable when it is answered.
    #[must_use]
    pub fn new(seed: u64, root: Handle, durable: f64) -> Self {
        Self {
            rng: Prng::new(seed),
            caller: Caller::root(),
            durable,
            directories: vec![root],
            files: Vec::new(),
            holds: Vec::new(),
        }
    }

    fn stability(&mut self) -> Stability {
        match self.durable > 0.0 && self.rng.chance(self.durable) {
            true => Stability::Durable,
            false => Stability::Cached,
        }
    }

    fn place(&mut self) -> (Handle, Name) {
        let directory = self.rng.below(self.directories.len() as u64) as usize;
        let at = NAMES[self.rng.below(NAMES.len() as u64) as usize];
        (self.directories[directory], name(at))
    }

    fn any(&mut self) -> Handle {
        let all = [&self.files[..], &self.directories[..]].concat();
        all[self.rng.below(all.len() as u64) as usize]
    }

    async fn create(&mut self, files: &FileSystem<impl Store>) -> FileResult<()> {
        let (directory, at) = self.place();
        let kind = match self.rng.below(5) {
            0 | 1 => NewKind::Directory,
            2 => NewKind::Symlink(vec![b'x'; 1 + self.rng.below(3000) as usize]),
            _ => NewKind::File,
        };
        let is_directory = kind == NewKind::Directory;
        let new = NewFile {
            kind,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let stability = self.stability();
        let made = files.create(&self.caller, directory, &at, new, IfExists::Fail, stability);
        let made = made.await?.value.object;
        match is_directory {
            true => self.directories.push(made.handle),
            false => self.files.push(made.handle),
        }
        Ok(())
    }

    async fn change(&mut self, files: &FileSystem<impl Store>) -> FileResult<()> {
        let of = self.any();
        let stability = self.stability();
        match self.rng.below(7) {
            0 => {
                let set = SetAttributes {
                    size: Some(self.rng.below(40_000)),
                    ..SetAttributes::default()
                };
                let set = files.set_attributes(&self.caller, of, set, stability);
                set.await.map(drop)
            }
            1 => {
                let value = Some(vec![7; self.rng.below(3000) as usize]);
                let at = format!("user.{}", self.rng.below(3));
                let how = SetXattr::Either;
                let set = files.set_xattr(&self.caller, of, at.as_bytes(), value, how, stability);
                set.await.map(drop)
            }
            2 => {
                let ace = Ace {
                    kind: AceKind::Allow,
                    flags: AceFlags::FILE_INHERIT,
                    mask: AceMask::ALL,
                    who: Who::Everyone,
                };
                let acl = self.rng.chance(0.7).then(|| Acl::new(vec![ace; ACES]));
                let acl = acl.transpose()?;
                let set = files.set_acl(&self.caller, of, acl, stability);
                set.await.map(drop)
            }
            3 => {
                let held = files.open(&self.caller, of, Access::READ).await?;
                self.holds.push(held);
                Ok(())
            }
            4 => {
                drop(self.holds.pop());
                Ok(())
            }
            5 => {
                let mut number = || self.rng.chance(0.7).then(|| self.rng.below(3) as u32);
                let set = SetAttributes {
                    uid: number(),
                    gid: number(),
                    ..SetAttributes::default()
                };
                let set = files.set_attributes(&self.caller, of, set, stability);
                set.await.map(drop)
            }
            _ => {
                let at = WriteAt::Offset(self.rng.below(30_000));
                let mut data = io::pool().alloc(9000).await;
                data.fill(3);
                let written = files.write(&self.caller, of, at, data.into(), stability);
                written.await.map(drop)
            }
        }
    }

    async fn rename(&mut self, files: &FileSystem<impl Store>) -> FileResult<()> {
        let modes = [
            RenameMode::Replace,
            RenameMode::Replace,
            RenameMode::NoReplace,
            RenameMode::Exchange,
        ];
        let mode = modes[self.rng.below(4) as usize];
        let ((from, old), (to, new)) = (self.place(), self.place());
        let stability = self.stability();
        let renamed = files.rename(&self.caller, from, &old, to, &new, mode, stability);
        renamed.await.map(drop)
    }

    /// One operation. Fails as the operation does; many do.
    pub async fn step(&mut self, files: &FileSystem<impl Store>) -> FileResult<()> {
        match self.rng.below(10) {
            0..3 => self.create(files).await,
            3..5 => self.change(files).await,
            5 => {
                let (to, at) = self.place();
                let (of, stability) = (self.any(), self.stability());
                let linked = files.link(&self.caller, of, to, &at, stability);
                linked.await.map(drop)
            }
            6 | 7 => {
                let (from, at) = self.place();
                let (kind, stability) = (RemoveKind::Any, self.stability());
                let removed = files.remove(&self.caller, from, &at, kind, stability);
                removed.await.map(drop)
            }
            8 if self.rng.chance(0.3) => files.free_orphan().await.map(drop),
            _ => self.rename(files).await,
        }
    }
}
