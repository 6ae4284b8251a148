//! CREATE, MKDIR, SYMLINK, MKNOD (§3.3.8 to §3.3.11).

use super::attributes::set_attributes;
use super::procedure::{Procedure, name};
use super::wire::{At, CreateHow, NewNode, Status};
use crate::access::{self, Target};
use crate::attribute::device;
use backend::file::{Created, FileKind, IfExists, NewFile, NewKind, SetAttributes, Stability};

/// Mode of a new directory and of another new object whose creation names none.
const DIRECTORY_MODE: u16 = 0o700;
const FILE_MODE: u16 = 0o600;

impl Procedure<'_> {
    /// Creates an object, with the attributes that a new one gets.
    async fn make(
        &mut self,
        at: &At<'_>,
        kind: NewKind,
        mode: u16,
        set: &SetAttributes,
        if_exists: IfExists,
    ) -> Result<(Target, Created), Status> {
        let target = self.target(at.directory)?.writable()?;
        let entry = name(at.name, Status::Exist)?;
        let file = NewFile {
            kind,
            mode: set.mode.unwrap_or(mode),
            umask: None,
            acl: None,
        };
        let done = target.files().create(
            &target.caller,
            target.handle,
            &entry,
            file,
            if_exists,
            Stability::Durable,
        );
        let mut created = done.await?.value;
        if created.is_new {
            let (handle, kind) = (created.object.handle, created.object.kind);
            if let Some(change) =
                access::finish_creation((self.view.shared, None), &target, handle, *set, kind)
                    .await?
            {
                created.object = change.after;
            }
        }
        Ok((target, created))
    }

    fn write_created(&mut self, target: &Target, created: &Created) {
        self.out.bool(true);
        self.write_handle(target, created.object.handle);
        self.write_known(target, Some(&created.object));
        self.write_change(target, &created.directory);
    }

    /// CREATE.
    pub(super) async fn create(&mut self, at: &At<'_>, how: &CreateHow) -> Result<(), Status> {
        let none = SetAttributes::default();
        let (set, if_exists) = match how {
            CreateHow::Unchecked(set) => (set, IfExists::Open),
            CreateHow::Guarded(set) => (set, IfExists::Fail),
            CreateHow::Exclusive(verifier) => {
                let verifier = u64::from_be_bytes(*verifier);
                (&none, IfExists::SameVerifier(verifier))
            }
        };
        let (target, mut created) = self
            .make(at, NewKind::File, FILE_MODE, set, if_exists)
            .await?;
        let is_truncated = !created.is_new && created.object.kind == FileKind::File;
        if is_truncated && let Some(size) = set.size {
            // Of an existing file only the size is set.
            let file = self.view.target(&target.export, created.object.handle)?;
            let _changing = self.changing_data(file.handle)?;
            let size = SetAttributes {
                size: Some(size),
                ..none
            };
            created.object = set_attributes(&file, size).await?.value.after;
        }
        self.write_created(&target, &created);
        Ok(())
    }

    async fn create_other(
        &mut self,
        at: &At<'_>,
        kind: NewKind,
        mode: u16,
        set: &SetAttributes,
    ) -> Result<(), Status> {
        let (target, created) = self.make(at, kind, mode, set, IfExists::Fail).await?;
        self.write_created(&target, &created);
        Ok(())
    }

    /// MKDIR.
    pub(super) async fn mkdir(&mut self, at: &At<'_>, set: &SetAttributes) -> Result<(), Status> {
        self.create_other(at, NewKind::Directory, DIRECTORY_MODE, set)
            .await
    }

    /// SYMLINK. Links have no mode of their own.
    pub(super) async fn symlink(
        &mut self,
        at: &At<'_>,
        set: &SetAttributes,
        path: &[u8],
    ) -> Result<(), Status> {
        let set = SetAttributes { mode: None, ..*set };
        let kind = NewKind::Symlink(path.to_vec());
        self.create_other(at, kind, 0o777, &set).await
    }

    /// MKNOD.
    pub(super) async fn mknod(&mut self, at: &At<'_>, node: &NewNode) -> Result<(), Status> {
        let (kind, set) = match node {
            NewNode::BlockDevice(set, major, minor) => {
                (NewKind::BlockDevice(device(*major, *minor)), set)
            }
            NewNode::CharDevice(set, major, minor) => {
                (NewKind::CharDevice(device(*major, *minor)), set)
            }
            NewNode::Socket(set) => (NewKind::Socket, set),
            NewNode::Fifo(set) => (NewKind::Fifo, set),
            NewNode::Other(_) => return Err(Status::Badtype),
        };
        self.create_other(at, kind, FILE_MODE, set).await
    }
}
