//! Operations on names (§18.4, §18.9, §18.24 to §18.26).

use super::context::{Compound, Object, Target};
use super::status::{name, status_of};
use crate::access;
use crate::attribute;
use crate::wire::files::NewType;
use crate::wire::{Attrs, Status};
use crate::xdr::Xdr;
use backend::file::{
    Change, Done, FileError, FileKind, IfExists, Name, NewFile, NewKind, RemoveKind, RenameMode,
    Stability,
};

/// Mode of a new directory and of another new object whose creation names none.
const DIRECTORY_MODE: u16 = 0o700;
const FILE_MODE: u16 = 0o600;

impl Compound<'_> {
    /// Writes `change_info4` of a directory. Both values were taken in one step with the change.
    pub(super) fn write_change(&mut self, change: &Change) {
        self.out.bool(true);
        self.out.u64(change.before.change);
        self.out.u64(change.after.change);
    }

    /// A directory of the pseudo file system, or an export's root, may not change there. Errors: `Exist`.
    pub(super) fn check_mount_point(&self, target: &Target, bytes: &[u8]) -> Result<(), Status> {
        let context = &self.context;
        let is_root = target.handle == target.export.files().root();
        let child = context
            .tree
            .child(target.export.node, bytes, context.peer)
            .filter(|_| is_root);
        match child {
            Some(_) => Err(Status::Exist),
            None => Ok(()),
        }
    }

    /// CREATE (§18.4).
    pub(super) async fn create(
        &mut self,
        kind: &NewType<'_>,
        bytes: &[u8],
        attrs: &Attrs<'_>,
    ) -> Result<(), Status> {
        let target = self.context.target(Status::Rofs)?.writable()?;
        let entry = name(bytes)?;
        self.check_mount_point(&target, bytes)?;
        let new = self.new_attributes(attrs).await?;
        let (kind, of, mode) = match *kind {
            NewType::Directory => (NewKind::Directory, FileKind::Directory, DIRECTORY_MODE),
            NewType::Symlink(path) => (NewKind::Symlink(path.to_vec()), FileKind::Symlink, 0o777),
            NewType::Socket => (NewKind::Socket, FileKind::Socket, FILE_MODE),
            NewType::Fifo => (NewKind::Fifo, FileKind::Fifo, FILE_MODE),
            NewType::CharDevice(major, minor) => {
                let device = attribute::device(major, minor);
                (NewKind::CharDevice(device), FileKind::CharDevice, FILE_MODE)
            }
            NewType::BlockDevice(major, minor) => {
                let device = attribute::device(major, minor);
                (
                    NewKind::BlockDevice(device),
                    FileKind::BlockDevice,
                    FILE_MODE,
                )
            }
            NewType::Other(_) => return Err(Status::Badtype),
        };
        let (mode, umask) = new.first_mode(mode);
        let file = NewFile {
            kind,
            mode,
            umask,
            acl: new.acl.clone(),
        };
        let done = target.files().create(
            &target.caller,
            target.handle,
            &entry,
            file,
            IfExists::Fail,
            Stability::Durable,
        );
        let created = self.done_in(&target, done.await).await?;
        let handle = created.object.handle;
        let client = Some(self.context.client()?);
        let by = (self.context.shared, client);
        let finished = access::finish_creation(by, &target, handle, new.set, of);
        finished.await.map_err(status_of)?;
        self.context
            .set_current(Object::File(target.export.clone(), handle));
        self.write_change(&created.directory);
        new.mask.encode(&mut self.out);
        Ok(())
    }

    /// The result of a change in a directory. `Notdir` becomes `Symlink` where the directory is one.
    pub(super) async fn done_in<T>(
        &self,
        directory: &Target,
        done: Result<Done<T>, FileError>,
    ) -> Result<T, Status> {
        match done {
            Ok(done) => Ok(done.value),
            Err(FileError::NotDirectory) => Err(self.no_directory(directory).await),
            Err(error) => Err(status_of(error)),
        }
    }

    /// REMOVE (§18.25).
    pub(super) async fn remove(&mut self, bytes: &[u8]) -> Result<(), Status> {
        let target = self.context.target(Status::Rofs)?.writable()?;
        let entry = name(bytes)?;
        self.check_mount_point(&target, bytes)
            .map_err(|_| Status::Access)?;
        let _changing = self.changing_name(&target, bytes).await?;
        let done = target.files().remove(
            &target.caller,
            target.handle,
            &entry,
            RemoveKind::Any,
            Stability::Durable,
        );
        let removed = self.done_in(&target, done.await).await?;
        self.write_change(&removed.directory);
        Ok(())
    }

    /// The source and the target directory of RENAME, or the object and the directory of LINK. Errors: `Xdev`.
    fn pair(&self) -> Result<(Target, Target), Status> {
        let to = self.context.target(Status::Rofs)?;
        let from = self.context.saved_target(Status::Rofs)?;
        match from.is_beside(&to) {
            true => Ok((from.writable()?, to.writable()?)),
            false => Err(Status::Xdev),
        }
    }

    /// RENAME (§18.26).
    pub(super) async fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), Status> {
        let (from, to) = self.pair()?;
        let names: (Name, Name) = (name(old)?, name(new)?);
        self.check_mount_point(&from, old)
            .and(self.check_mount_point(&to, new))
            .map_err(|_| Status::Access)?;
        let _changing = self.changing_name(&from, old).await?;
        let replaced = self.changing_name(&to, new).await?;
        let mode = replaced.rename_mode();
        let done = to.files().rename(
            &to.caller,
            from.handle,
            &names.0,
            to.handle,
            &names.1,
            mode,
            Stability::Durable,
        );
        let renamed = match done.await {
            Ok(done) => done.value,
            // An object came to the name meanwhile.
            Err(FileError::Exists) if mode == RenameMode::NoReplace => return Err(Status::Delay),
            // The kinds of both names differ, unless one of the two directories is none.
            Err(FileError::IsDirectory) => return Err(Status::Exist),
            Err(FileError::NotDirectory) => {
                for directory in [&from, &to] {
                    let of = directory.files().attributes(directory.handle).await;
                    if of.map_err(status_of)?.kind != FileKind::Directory {
                        return Err(self.no_directory(directory).await);
                    }
                }
                return Err(Status::Exist);
            }
            Err(error) => return Err(status_of(error)),
        };
        self.write_change(&renamed.from);
        self.write_change(&renamed.to);
        Ok(())
    }

    /// LINK (§18.9).
    pub(super) async fn link(&mut self, bytes: &[u8]) -> Result<(), Status> {
        let (object, directory) = self.pair()?;
        let entry = name(bytes)?;
        self.check_mount_point(&directory, bytes)?;
        let of = object.files().attributes(object.handle).await;
        if of.map_err(status_of)?.kind == FileKind::Directory {
            return Err(Status::Isdir);
        }
        let _changing = self.context.changing(object.handle)?;
        let done = object.files().link(
            &directory.caller,
            object.handle,
            directory.handle,
            &entry,
            Stability::Durable,
        );
        let linked = self.done_in(&directory, done.await).await?;
        self.write_change(&linked.directory);
        Ok(())
    }

    /// READLINK (§18.24).
    pub(super) async fn readlink(&mut self) -> Result<(), Status> {
        let target = self.context.target(Status::WrongType)?;
        let path = match target.files().read_link(target.handle).await {
            Ok(path) => path,
            Err(FileError::Invalid) => return Err(Status::WrongType),
            Err(error) => return Err(status_of(error)),
        };
        self.out.item(path.into());
        Ok(())
    }
}
