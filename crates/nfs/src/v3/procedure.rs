//! A call that is being executed: its objects, and the results of failures.
//!
//! **Owns** [`Procedure`] and the status of errors. **Called by** every procedure. **Invariants**: the attributes in the result of a failure are
//! those of now, and never a state before.

use super::wire::{Arguments, At, Status, attributes};
use crate::access::{NoObject, Object, Origin, ReadOnly, Target, View};
use crate::export::Export;
use crate::rpc::Credential;
use crate::shared::Shared;
use crate::xdr::Writer;
use backend::StorageError;
use backend::file::{Attributes, Change, FileError, Handle, Name};
use io::SharedBuf;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::sync::Arc;

/// A call that is being executed.
pub(super) struct Procedure<'a> {
    pub(super) view: View<'a>,
    pub(super) out: Writer,
    /// The record of the call.
    pub(super) record: &'a SharedBuf,
    /// Most bytes that READ returns.
    pub(super) read_max: u32,
    /// Whether the client used a file handle of this server.
    pub(super) is_established: bool,
}

impl From<NoObject> for Status {
    fn from(error: NoObject) -> Self {
        match error {
            NoObject::Forged => Status::Badhandle,
            NoObject::Stale => Status::Stale,
            NoObject::Insecure => Status::Access,
            NoObject::Unprivileged => Status::Perm,
            NoObject::Undecided => Status::Jukebox,
        }
    }
}

impl From<ReadOnly> for Status {
    fn from(_: ReadOnly) -> Self {
        Status::Rofs
    }
}

impl From<FileError> for Status {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotFound | FileError::NoAttribute => Status::Noent,
            FileError::Exists => Status::Exist,
            FileError::NotDirectory => Status::Notdir,
            FileError::IsDirectory => Status::Isdir,
            FileError::NotEmpty => Status::Notempty,
            FileError::Access | FileError::Busy => Status::Access,
            FileError::NotOwner => Status::Perm,
            FileError::Invalid | FileError::NameNotUtf8 => Status::Inval,
            FileError::NameTooLong => Status::Nametoolong,
            FileError::TooLarge => Status::Fbig,
            FileError::Links => Status::Mlink,
            FileError::Stale => Status::Stale,
            FileError::NoData => Status::Nxio,
            FileError::Guard => Status::NotSync,
            FileError::Quota => Status::Dquot,
            FileError::NoSpace => Status::Nospc,
            FileError::ReadOnly => Status::Rofs,
            FileError::Unsupported => Status::Notsupp,
            FileError::Storage(error) => match error {
                StorageError::Offline | StorageError::Exhausted | StorageError::Aborted => {
                    Status::Jukebox
                }
                StorageError::NoSpace => Status::Nospc,
                StorageError::ReadOnly => Status::Rofs,
                StorageError::Unsupported => Status::Notsupp,
                StorageError::OutOfRange => Status::Inval,
                StorageError::MediaRead
                | StorageError::MediaWrite
                | StorageError::Corrupt
                | StorageError::Miscompare(_) => Status::Io,
            },
        }
    }
}

/// A name in arguments. Errors: `Access` for an empty name, `reserved` for `.` and `..`, `Nametoolong`, `Inval`.
pub(super) fn name(bytes: &[u8], reserved: Status) -> Result<Name, Status> {
    match bytes {
        b"" => Err(Status::Access),
        b"." | b".." => Err(reserved),
        _ => Ok(Name::new(bytes)?),
    }
}

/// The number of a file system for clients. It follows from the export and the file system, so that a snapshot is a file system
/// of its own. Two of them have the same number with a probability of 2^-64.
fn fsid(export: &Export, handle: Handle) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write_u32(export.config.id);
    hasher.write_u64(handle.filesystem);
    hasher.finish()
}

impl<'a> Procedure<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        origin: Origin,
        credentials: (&'a Credential, &'a Credential),
        record: &'a SharedBuf,
        out: Writer,
        read_max: u32,
    ) -> Self {
        Self {
            view: View::new(shared, origin, credentials),
            out,
            record,
            read_max,
            is_established: false,
        }
    }

    /// The object of a handle. Errors: `Badhandle`; `Stale` if the export is gone, the host may not use it, or the handle is one of the
    /// pseudo file system.
    pub(super) fn target(&mut self, handle: &[u8]) -> Result<Target, Status> {
        match self.view.object(handle)? {
            Object::Pseudo(_) => Err(Status::Stale),
            Object::File(export, handle) => {
                let target = self.view.target(&export, handle)?;
                self.is_established = true;
                Ok(target)
            }
        }
    }

    /// Writes a file handle.
    pub(super) fn write_handle(&mut self, target: &Target, handle: Handle) {
        let object = Object::File(target.export.clone(), handle);
        self.out.opaque(&self.view.handle(&object));
    }

    /// Writes `fattr3`.
    pub(super) fn write_attributes(&mut self, target: &Target, of: &Attributes) {
        attributes::encode(of, fsid(&target.export, of.handle), &mut self.out);
    }

    /// Writes `post_op_attr` of attributes that are known, or cannot be read.
    pub(super) fn write_known(&mut self, target: &Target, of: Option<&Attributes>) {
        let fsid = of.map_or(0, |of| fsid(&target.export, of.handle));
        attributes::encode_after(of, fsid, &mut self.out);
    }

    /// Writes `post_op_attr` of an object as it is now.
    pub(super) async fn write_now(&mut self, target: &Target) {
        let now = target.files().attributes(target.handle).await.ok();
        self.write_known(target, now.as_ref());
    }

    /// Writes `wcc_data` of a change.
    pub(super) fn write_change(&mut self, target: &Target, change: &Change) {
        let fsid = fsid(&target.export, change.after.handle);
        attributes::encode_change(change, fsid, &mut self.out);
    }

    /// Writes `wcc_data` of an object that was not changed: its state before is not known.
    pub(super) async fn write_unchanged(&mut self, target: &Target) {
        let now = target.files().attributes(target.handle).await.ok();
        let fsid = fsid(&target.export, target.handle);
        attributes::encode_unchanged(now.as_ref(), fsid, &mut self.out);
    }

    async fn failed_after(&mut self, handle: &[u8]) {
        match self.target(handle) {
            Ok(target) => self.write_now(&target).await,
            Err(_) => self.out.bool(false),
        }
    }

    async fn failed_change(&mut self, handle: &[u8]) {
        self.out.bool(false);
        self.failed_after(handle).await;
    }

    /// Writes the part of the result that follows the status of a failure (`resfail`).
    pub(super) async fn write_failure(&mut self, arguments: &Arguments<'_>) {
        match arguments {
            Arguments::Null | Arguments::GetAttr { .. } => {}
            Arguments::Lookup(At {
                directory: handle, ..
            })
            | Arguments::Access { object: handle, .. }
            | Arguments::ReadLink { object: handle }
            | Arguments::Read { file: handle, .. }
            | Arguments::ReadDir {
                directory: handle, ..
            }
            | Arguments::ReadDirPlus {
                directory: handle, ..
            }
            | Arguments::FsStat { object: handle }
            | Arguments::FsInfo { object: handle }
            | Arguments::PathConf { object: handle } => self.failed_after(handle).await,
            Arguments::SetAttr { object: handle, .. }
            | Arguments::Write { file: handle, .. }
            | Arguments::Create {
                at: At {
                    directory: handle, ..
                },
                ..
            }
            | Arguments::MkDir {
                at: At {
                    directory: handle, ..
                },
                ..
            }
            | Arguments::SymLink {
                at: At {
                    directory: handle, ..
                },
                ..
            }
            | Arguments::MkNod {
                at: At {
                    directory: handle, ..
                },
                ..
            }
            | Arguments::Remove(At {
                directory: handle, ..
            })
            | Arguments::RmDir(At {
                directory: handle, ..
            })
            | Arguments::Commit { file: handle, .. } => self.failed_change(handle).await,
            Arguments::Rename { from, to } => {
                self.failed_change(from.directory).await;
                self.failed_change(to.directory).await;
            }
            Arguments::Link { object, to } => {
                self.failed_after(object).await;
                self.failed_change(to.directory).await;
            }
        }
    }
}
