//! Names: lookup, creation, removal, rename, links; opening and closing of files.

use crate::limits::NEARLY_FULL_BYTES;
use crate::mounted::{Known, Mounted, kernel};
use crate::status::{Answer, of_file};
use backend::file::{
    Access, Caller, Change, FileError, FileKind, Handle, Hold, IfExists, Name, NewKind, RemoveKind,
    RenameMode, SYMLINK_MAX, SetAttributes, Stability,
};
use fuser::Errno;

/// Set in the flags of an open that executes the file (`FMODE_EXEC` of the kernel).
const FOR_EXECUTION: i32 = 0x20;

/// An open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenedFile {
    /// The number of the open handle.
    pub(crate) number: u64,
    /// Whether the kernel must send each write at once instead of keeping it, because there is little space.
    pub(crate) is_direct: bool,
}

/// How a rename treats an existing name (renameat2(2)).
pub(crate) type RenameFlag = RenameMode;

/// The mode of a new object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewMode {
    /// Permission, setuid, setgid and sticky bits.
    pub(crate) bits: u16,
    /// Bits that a new object does not get, unless its directory has a default ACL. The kernel has applied it before, if the mount
    /// has no access control lists.
    pub(crate) umask: u16,
}

impl Mounted {
    /// Looks a name up. `None` if it does not exist.
    pub(crate) async fn lookup(
        &self,
        caller: Caller,
        directory: u64,
        name: &[u8],
    ) -> Answer<Option<Known>> {
        let of = match (self.nodes.handle(directory), self.nodes.object(directory)) {
            (Some(of), _) => of,
            // The kernel opens a file handle whose inode it has forgotten (export), and compares the generation.
            (None, Some(object)) if name == b"." || name == b".." => {
                let found = self.files.numbered(object).await;
                found.map_err(of_file)?.handle
            }
            (None, _) => return Err(Errno::ESTALE),
        };
        let found = match name {
            b"." => self.files.attributes(of).await,
            b".." => self.files.parent(&caller, of).await,
            _ => {
                let name = Name::new(name).map_err(of_file)?;
                self.files.lookup(&caller, of, &name).await
            }
        };
        match found {
            Ok(found) => self.look_up(&found).map(Some),
            Err(FileError::NotFound) => Ok(None),
            Err(e) => Err(of_file(e)),
        }
    }

    /// Creates an object of any kind; fails if the name exists.
    pub(crate) async fn make(
        &self,
        caller: Caller,
        directory: u64,
        name: Name,
        kind: NewKind,
        mode: NewMode,
    ) -> Answer<Known> {
        if let NewKind::Symlink(target) = &kind
            && target.len() > SYMLINK_MAX
        {
            return Err(Errno::ENAMETOOLONG);
        }
        let of = self.handle(directory)?;
        let new = self.new_file(of, kind, mode).await?;
        let done = self
            .files
            .create(&caller, of, &name, new, IfExists::Fail, Stability::Cached)
            .await
            .map_err(of_file)?;
        self.look_up(&done.value.object)
    }

    /// Creates a file and opens it, or opens an existing one unless the flags have O_EXCL. Returns the file and the number of
    /// its open handle.
    pub(crate) async fn create(
        &self,
        caller: Caller,
        directory: u64,
        name: Name,
        mode: NewMode,
        flags: i32,
    ) -> Answer<(Known, OpenedFile)> {
        let of = self.handle(directory)?;
        let if_exists = match flags & libc::O_EXCL {
            0 => IfExists::Open,
            _ => IfExists::Fail,
        };
        let new = self.new_file(of, NewKind::File, mode).await?;
        let created = self
            .files
            .create(&caller, of, &name, new, if_exists, Stability::Cached)
            .await
            .map_err(of_file)?
            .value;
        // The creator may open a new file with any mode.
        let opener = if created.is_new { kernel() } else { caller };
        let cuts = !created.is_new && flags & libc::O_TRUNC != 0;
        let file = created.object.handle;
        let (hold, cut) = self.open_file(&opener, file, flags, cuts).await?;
        let attributes = cut.map_or(created.object, |change| change.after);
        let known = self.look_up(&attributes)?;
        let number = known.attributes.ino.0;
        match self.add_open(&opener, hold, number, flags).await {
            Ok(opened) => {
                // as a file that is open
                let attributes = self.shown(number, &attributes);
                Ok((
                    Known {
                        attributes,
                        ..known
                    },
                    opened,
                ))
            }
            Err(e) => {
                self.nodes.forget(number, 1);
                Err(e)
            }
        }
    }

    /// Opens a file; the kernel cuts it with a request of its own.
    pub(crate) async fn open(&self, caller: Caller, number: u64, flags: i32) -> Answer<OpenedFile> {
        let of = self.handle(number)?;
        let (hold, _) = self.open_file(&caller, of, flags, false).await?;
        let opened = self.add_open(&caller, hold, number, flags).await?;
        if is_for_writing(flags) && self.caching.has_write_back {
            let now = self.files.attributes(of).await;
            if now.is_ok_and(|now| now.used == 0) {
                // the kernel's attributes say that it has no blocks, and go on saying so
                self.mode_changed(number).await?;
            }
        }
        Ok(opened)
    }

    async fn add_open(
        &self,
        caller: &Caller,
        hold: Hold,
        number: u64,
        flags: i32,
    ) -> Answer<OpenedFile> {
        let writes = is_for_writing(flags);
        let is_direct = writes && self.is_nearly_full(caller).await;
        let opened = self.opened.add(hold, writes.then_some(number), is_direct);
        let number = opened.map_err(|_| Errno::ENFILE)?;
        Ok(OpenedFile { number, is_direct })
    }

    /// Whether writes should not stay in the kernel's cache, where they succeed without space.
    async fn is_nearly_full(&self, caller: &Caller) -> bool {
        if !self.caching.has_write_back || self.has_direct_maps.get() != Some(&true) {
            return false;
        }
        let space = self.files.space(caller).await;
        space.is_ok_and(|space| space.available < NEARLY_FULL_BYTES)
    }

    async fn open_file(
        &self,
        caller: &Caller,
        of: Handle,
        flags: i32,
        cuts: bool,
    ) -> Answer<(Hold, Option<Change>)> {
        if (cuts || is_for_writing(flags)) && self.files.limits().is_read_only {
            // write(2) would succeed, and lose its data later
            return Err(Errno::EROFS);
        }
        let hold = self.files.open(caller, of, access_of(flags)).await;
        let hold = hold.map_err(of_file)?;
        let mut cut = None;
        if cuts {
            let set = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            let done = self
                .files
                .set_attributes(caller, of, set, Stability::Cached)
                .await;
            cut = Some(done.map_err(of_file)?.value);
        }
        Ok((hold, cut))
    }

    /// Closes a file.
    pub(crate) async fn release(&self, opened: u64) -> Answer<()> {
        drop(self.opened.remove(opened));
        Ok(())
    }

    /// Removes a name.
    pub(crate) async fn remove(
        &self,
        caller: Caller,
        directory: u64,
        name: Name,
        kind: RemoveKind,
    ) -> Answer<()> {
        let of = self.handle(directory)?;
        let done = self
            .files
            .remove(&caller, of, &name, kind, Stability::Cached)
            .await
            .map_err(of_file)?;
        self.keep_if_gone(&done.value.object);
        Ok(())
    }

    /// Renames an object.
    pub(crate) async fn rename(
        &self,
        caller: Caller,
        from: (u64, Name),
        to: (u64, Name),
        mode: RenameFlag,
    ) -> Answer<()> {
        let (old_in, new_in) = (self.handle(from.0)?, self.handle(to.0)?);
        let done = self
            .files
            .rename(
                &caller,
                old_in,
                &from.1,
                new_in,
                &to.1,
                mode,
                Stability::Cached,
            )
            .await
            .map_err(of_file)?;
        if let Some(other) = &done.value.other
            && mode == RenameMode::Replace
        {
            self.keep_if_gone(other);
        }
        Ok(())
    }

    /// Adds a name to a file.
    pub(crate) async fn link(
        &self,
        caller: Caller,
        number: u64,
        directory: u64,
        name: Name,
    ) -> Answer<Known> {
        let (of, directory) = (self.handle(number)?, self.handle(directory)?);
        let done = self
            .files
            .link(&caller, of, directory, &name, Stability::Cached)
            .await
            .map_err(of_file)?;
        self.look_up(&done.value.object.after)
    }

    /// The target of a symbolic link.
    pub(crate) async fn read_link(&self, number: u64) -> Answer<Vec<u8>> {
        let of = self.handle(number)?;
        self.files.read_link(of).await.map_err(of_file)
    }

    /// Keeps the attributes of an object without names: processes that still use it without having it open (a working
    /// directory, O_PATH, an open pipe) may ask for them.
    fn keep_if_gone(&self, of: &Change) {
        let mut last = of.after;
        if last.kind == FileKind::Directory {
            last.links = 0;
        }
        if last.links == 0 {
            self.nodes.keep_removed(&last);
        }
    }
}

/// Whether open flags ask for writing.
fn is_for_writing(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// The access that open flags ask for.
fn access_of(flags: i32) -> Access {
    if flags & FOR_EXECUTION != 0 {
        return Access::EXECUTE;
    }
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Access::READ,
        libc::O_WRONLY => Access::WRITE,
        _ => Access::READ | Access::WRITE,
    }
}
