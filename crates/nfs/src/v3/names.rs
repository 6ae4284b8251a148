//! LOOKUP, READLINK, REMOVE, RMDIR, RENAME, LINK (§3.3.3, §3.3.5, §3.3.12 to §3.3.15).

use super::procedure::{Procedure, name};
use super::wire::{At, Status};
use crate::access::Target;
use backend::file::{FileError, RemoveKind, RenameMode, Stability};

impl Procedure<'_> {
    /// LOOKUP. The directory above an export's root is the root itself.
    pub(super) async fn lookup(&mut self, at: &At<'_>) -> Result<(), Status> {
        let target = self.target(at.directory)?;
        let files = target.files();
        let found = match at.name {
            b"." => {
                // Fails unless it is a directory that the caller may search.
                files.parent(&target.caller, target.handle).await?;
                files.attributes(target.handle).await?
            }
            b".." => files.parent(&target.caller, target.handle).await?,
            bytes => {
                let entry = name(bytes, Status::Inval)?;
                files.lookup(&target.caller, target.handle, &entry).await?
            }
        };
        self.write_handle(&target, found.handle);
        self.write_known(&target, Some(&found));
        self.write_now(&target).await;
        Ok(())
    }

    /// READLINK.
    pub(super) async fn readlink(&mut self, object: &[u8]) -> Result<(), Status> {
        let target = self.target(object)?;
        let path = target.files().read_link(target.handle).await?;
        self.write_now(&target).await;
        self.out.item(path.into());
        Ok(())
    }

    async fn remove_of(&mut self, at: &At<'_>, kind: RemoveKind) -> Result<(), Status> {
        let target = self.target(at.directory)?.writable()?;
        let entry = name(at.name, Status::Inval)?;
        let _changing = self.changing_name(&target, &entry).await?;
        let done = target.files().remove(
            &target.caller,
            target.handle,
            &entry,
            kind,
            Stability::Durable,
        );
        let removed = done.await?.value;
        self.write_change(&target, &removed.directory);
        Ok(())
    }

    /// REMOVE.
    pub(super) async fn remove(&mut self, at: &At<'_>) -> Result<(), Status> {
        self.remove_of(at, RemoveKind::File).await
    }

    /// RMDIR.
    pub(super) async fn rmdir(&mut self, at: &At<'_>) -> Result<(), Status> {
        self.remove_of(at, RemoveKind::Directory).await
    }

    /// Two objects of one file system that may be changed. Errors: `Xdev`, `Rofs`.
    fn pair(&mut self, from: &[u8], to: &[u8]) -> Result<(Target, Target), Status> {
        let (from, to) = (self.target(from)?, self.target(to)?);
        match from.is_beside(&to) {
            true => Ok((from.writable()?, to.writable()?)),
            false => Err(Status::Xdev),
        }
    }

    /// RENAME.
    pub(super) async fn rename(&mut self, from: &At<'_>, to: &At<'_>) -> Result<(), Status> {
        let (source, target) = self.pair(from.directory, to.directory)?;
        let old = name(from.name, Status::Inval)?;
        let new = name(to.name, Status::Inval)?;
        let _changing = self.changing_name(&source, &old).await?;
        let replaced = self.changing_name(&target, &new).await?;
        let mode = replaced.rename_mode();
        let done = target.files().rename(
            &target.caller,
            source.handle,
            &old,
            target.handle,
            &new,
            mode,
            Stability::Durable,
        );
        let renamed = match done.await {
            // An object came to the name meanwhile.
            Err(FileError::Exists) if mode == RenameMode::NoReplace => return Err(Status::Jukebox),
            done => done?.value,
        };
        self.write_change(&source, &renamed.from);
        self.write_change(&target, &renamed.to);
        Ok(())
    }

    /// LINK.
    pub(super) async fn link(&mut self, object: &[u8], to: &At<'_>) -> Result<(), Status> {
        let (object, directory) = self.pair(object, to.directory)?;
        let entry = name(to.name, Status::Exist)?;
        let _changing = self.changing(object.handle)?;
        let done = object.files().link(
            &directory.caller,
            object.handle,
            directory.handle,
            &entry,
            Stability::Durable,
        );
        let linked = done.await?.value;
        self.write_known(&object, Some(&linked.object.after));
        self.write_change(&directory, &linked.directory);
        Ok(())
    }
}
