//! Error numbers: the answer to the kernel for each error.
//!
//! **Owns** the one mapping from [`FileError`] and [`StorageError`] to error numbers of Linux. **Called by** every operation.
//! **Invariants**: the mapping has no catch-all, so that a new error must be given its number.

use backend::StorageError;
use backend::file::FileError;
use fuser::Errno;

/// Result of an operation.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The error number of an error (errno(3)).
pub(crate) fn of_file(e: FileError) -> Errno {
    match e {
        FileError::NotFound => Errno::ENOENT,
        FileError::Exists => Errno::EEXIST,
        FileError::NotDirectory => Errno::ENOTDIR,
        FileError::IsDirectory => Errno::EISDIR,
        FileError::NotEmpty => Errno::ENOTEMPTY,
        FileError::Access => Errno::EACCES,
        FileError::NotOwner => Errno::EPERM,
        FileError::Invalid => Errno::EINVAL,
        FileError::NameTooLong => Errno::ENAMETOOLONG,
        FileError::NameNotUtf8 => Errno::EILSEQ,
        FileError::TooLarge => Errno::EFBIG,
        FileError::Links => Errno::EMLINK,
        FileError::Stale => Errno::ESTALE,
        FileError::NoAttribute => Errno::ENODATA,
        FileError::NoData => Errno::ENXIO,
        FileError::Guard => Errno::EAGAIN,
        FileError::Quota => Errno::EDQUOT,
        FileError::NoSpace => Errno::ENOSPC,
        FileError::ReadOnly => Errno::EROFS,
        FileError::Unsupported => Errno::EOPNOTSUPP,
        FileError::Busy => Errno::EBUSY,
        FileError::Storage(e) => of_storage(e),
    }
}

/// The error number of an error of an extended attribute (setxattr(2)): a value that is too large is E2BIG.
pub(crate) fn of_xattr(e: FileError) -> Errno {
    match e {
        FileError::TooLarge => Errno::E2BIG,
        FileError::NameTooLong => Errno::ERANGE,
        other => of_file(other),
    }
}

/// The error number of an error of the medium.
fn of_storage(e: StorageError) -> Errno {
    match e {
        StorageError::ReadOnly => Errno::EROFS,
        StorageError::NoSpace => Errno::ENOSPC,
        StorageError::Unsupported => Errno::EOPNOTSUPP,
        StorageError::Exhausted => Errno::ENOMEM,
        StorageError::OutOfRange
        | StorageError::MediaRead
        | StorageError::MediaWrite
        | StorageError::Corrupt
        | StorageError::Offline
        | StorageError::Aborted
        | StorageError::Miscompare(_) => Errno::EIO,
    }
}
