//! File handles and LOOKUP (§18.8, §18.13, §18.14, §18.19 to §18.21, §18.27 to §18.29, §18.45).

use super::context::Compound;
use super::context::{Object, Target};
use super::status::{name, status_of};
use crate::rpc::{AUTH_NONE, AUTH_SYS};
use crate::wire::Status;
use backend::file::{FileError, FileKind};

impl Compound<'_> {
    /// PUTFH (§18.19).
    pub(super) fn putfh(&mut self, handle: &[u8]) -> Result<(), Status> {
        let object = self.context.object(handle)?;
        self.context.set_current(object);
        Ok(())
    }

    /// PUTROOTFH (§18.21), and PUTPUBFH (§18.20): the public handle is the root.
    pub(super) fn putrootfh(&mut self) -> Result<(), Status> {
        let root = self.context.node(self.context.tree.root())?;
        self.context.set_current(root);
        Ok(())
    }

    /// GETFH (§18.8).
    pub(super) fn getfh(&mut self) -> Result<(), Status> {
        let handle = self.context.handle(self.context.current()?);
        self.out.opaque(&handle);
        Ok(())
    }

    /// SAVEFH (§18.28): with the current stateid.
    pub(super) fn savefh(&mut self) -> Result<(), Status> {
        self.context.saved = Some(self.context.current()?.clone());
        self.context.saved_stateid = self.context.current_stateid;
        Ok(())
    }

    /// RESTOREFH (§18.27): with the saved stateid.
    pub(super) fn restorefh(&mut self) -> Result<(), Status> {
        let saved = self.context.saved.clone().ok_or(Status::Restorefh)?;
        self.context.current = Some(saved);
        self.context.current_stateid = self.context.saved_stateid;
        Ok(())
    }

    /// The object of a name in the current directory.
    pub(super) async fn find(&self, bytes: &[u8]) -> Result<Object, Status> {
        let context = &self.context;
        let entry = name(bytes)?;
        let (node, target) = match context.current()? {
            Object::Pseudo(id) => (*id, None),
            Object::File(export, handle) if *handle == export.files().root() => {
                (export.node, Some(context.target(Status::Notdir)?))
            }
            Object::File(..) => (0, Some(context.target(Status::Notdir)?)),
        };
        if let Some(child) = context.tree.child(node, bytes, context.peer) {
            return Ok(context.node(child.id)?);
        }
        let Some(target) = target else {
            return Err(Status::Noent);
        };
        let found = target.files().lookup(&target.caller, target.handle, &entry);
        match found.await {
            Ok(found) => Ok(Object::File(target.export.clone(), found.handle)),
            Err(FileError::NotDirectory) => Err(self.no_directory(&target).await),
            Err(error) => Err(status_of(error)),
        }
    }

    /// The status for an object that is no directory: `Symlink` or `Notdir`.
    pub(super) async fn no_directory(&self, target: &Target) -> Status {
        match target.files().attributes(target.handle).await {
            Ok(found) if found.kind == FileKind::Symlink => Status::Symlink,
            Ok(_) => Status::Notdir,
            Err(error) => status_of(error),
        }
    }

    /// LOOKUP (§18.13).
    pub(super) async fn lookup(&mut self, name: &[u8]) -> Result<(), Status> {
        let found = self.find(name).await?;
        self.context.set_current(found);
        Ok(())
    }

    /// The directory above the current one.
    async fn parent(&self) -> Result<Object, Status> {
        let context = &self.context;
        let node = match context.current()? {
            Object::Pseudo(id) => *id,
            Object::File(export, handle) if *handle == export.files().root() => export.node,
            Object::File(..) => {
                let target = context.target(Status::Notdir)?;
                let parent = target.files().parent(&target.caller, target.handle).await;
                return match parent {
                    Ok(parent) => Ok(Object::File(target.export.clone(), parent.handle)),
                    Err(FileError::NotDirectory) => Err(self.no_directory(&target).await),
                    Err(error) => Err(status_of(error)),
                };
            }
        };
        if node == context.tree.root() {
            return Err(Status::Noent);
        }
        let node = context.tree.node(node, context.peer).ok_or(Status::Stale)?;
        Ok(context.node(node.parent)?)
    }

    /// LOOKUPP (§18.14).
    pub(super) async fn lookupp(&mut self) -> Result<(), Status> {
        let parent = self.parent().await?;
        self.context.set_current(parent);
        Ok(())
    }

    fn write_flavors(&mut self) {
        self.out.count(2);
        self.out.u32(AUTH_SYS);
        self.out.u32(AUTH_NONE);
        // §2.6.3.1.1.8: the current file handle is consumed.
        self.context.current = None;
        self.context.current_stateid = None;
    }

    /// SECINFO (§18.29).
    pub(super) async fn secinfo(&mut self, name: &[u8]) -> Result<(), Status> {
        self.find(name).await?;
        self.write_flavors();
        Ok(())
    }

    /// SECINFO_NO_NAME (§18.45).
    pub(super) async fn secinfo_no_name(&mut self, style: u32) -> Result<(), Status> {
        match style {
            0 => drop(self.context.current()?),
            _ => drop(self.parent().await?),
        }
        self.write_flavors();
        Ok(())
    }
}
