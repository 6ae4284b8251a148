//! The status of an error of the file system (§15.1).

use crate::access::{NoObject, ReadOnly};
use crate::wire::Status;
use backend::StorageError;
use backend::file::{FileError, FileKind, Name};

impl From<NoObject> for Status {
    fn from(error: NoObject) -> Self {
        match error {
            NoObject::Forged => Status::Badhandle,
            NoObject::Stale => Status::Stale,
            NoObject::Insecure => Status::Wrongsec,
            NoObject::Unprivileged => Status::Perm,
            NoObject::Undecided => Status::Delay,
        }
    }
}

impl From<ReadOnly> for Status {
    fn from(_: ReadOnly) -> Self {
        Status::Rofs
    }
}

/// Whether an object has data. Errors: `Isdir`, `Symlink`, `WrongType`.
pub(super) fn check_file(kind: FileKind) -> Result<(), Status> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(Status::Isdir),
        FileKind::Symlink => Err(Status::Symlink),
        _ => Err(Status::WrongType),
    }
}

/// The status of an error.
pub(super) fn status_of(error: FileError) -> Status {
    match error {
        FileError::NotFound => Status::Noent,
        FileError::Exists => Status::Exist,
        FileError::NotDirectory => Status::Notdir,
        FileError::IsDirectory => Status::Isdir,
        FileError::NotEmpty => Status::Notempty,
        FileError::Access => Status::Access,
        FileError::NotOwner => Status::Perm,
        FileError::Invalid | FileError::NameNotUtf8 => Status::Inval,
        FileError::NameTooLong => Status::Nametoolong,
        FileError::TooLarge => Status::Fbig,
        FileError::Links => Status::Mlink,
        FileError::Stale => Status::Stale,
        FileError::NoAttribute => Status::Noxattr,
        FileError::NoData => Status::Nxio,
        FileError::Guard => Status::NotSame,
        FileError::Quota => Status::Dquot,
        FileError::NoSpace => Status::Nospc,
        FileError::ReadOnly => Status::Rofs,
        FileError::Unsupported => Status::Notsupp,
        FileError::Busy => Status::FileOpen,
        FileError::Storage(error) => status_of_storage(error),
    }
}

fn status_of_storage(error: StorageError) -> Status {
    match error {
        StorageError::Offline | StorageError::Exhausted | StorageError::Aborted => Status::Delay,
        StorageError::NoSpace => Status::Nospc,
        StorageError::ReadOnly => Status::Rofs,
        StorageError::Unsupported => Status::Notsupp,
        StorageError::OutOfRange => Status::Inval,
        StorageError::MediaRead
        | StorageError::MediaWrite
        | StorageError::Corrupt
        | StorageError::Miscompare(_) => Status::Io,
    }
}

/// A name of a directory entry. Errors: `Inval` for an empty name, `Nametoolong`, `Badname` for `.` and `..`, `Badchar`.
pub(super) fn name(bytes: &[u8]) -> Result<Name, Status> {
    match bytes {
        b"" => Err(Status::Inval),
        b"." | b".." => Err(Status::Badname),
        _ => Name::new(bytes).map_err(|error| match error {
            FileError::Invalid => Status::Badchar,
            other => status_of(other),
        }),
    }
}
