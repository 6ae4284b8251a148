//! Errors of file operations, classified by the answer of the protocol.

use thiserror::Error;

use crate::StorageError;

/// Result of a file operation.
pub type FileResult<T> = Result<T, FileError>;

/// Why a file system refused an operation, or failed. Each protocol maps every variant to its own status, without a catch-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FileError {
    /// No object of this name (ENOENT).
    #[error("no such file or directory")]
    NotFound,
    /// The name exists (EEXIST).
    #[error("the name exists")]
    Exists,
    /// A directory was needed (ENOTDIR).
    #[error("not a directory")]
    NotDirectory,
    /// A directory was refused (EISDIR).
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries (ENOTEMPTY).
    #[error("the directory is not empty")]
    NotEmpty,
    /// The caller lacks permission (EACCES).
    #[error("permission denied")]
    Access,
    /// Only the owner or the superuser may do this (EPERM).
    #[error("only the owner may do this")]
    NotOwner,
    /// An argument is invalid for this object (EINVAL).
    #[error("invalid argument")]
    Invalid,
    /// The name is longer than 255 bytes (ENAMETOOLONG).
    #[error("the name is too long")]
    NameTooLong,
    /// The name is not UTF-8, and the file system folds the case of names (EILSEQ).
    #[error("the name is not valid UTF-8")]
    NameNotUtf8,
    /// The file, or the attribute, would be too large (EFBIG, E2BIG).
    #[error("too large")]
    TooLarge,
    /// The file has the most names that it may have (EMLINK).
    #[error("too many links")]
    Links,
    /// The object is gone (ESTALE).
    #[error("stale handle")]
    Stale,
    /// The extended attribute does not exist (ENODATA).
    #[error("no such attribute")]
    NoAttribute,
    /// No data, or no hole, from there on (ENXIO).
    #[error("no data from there on")]
    NoData,
    /// The guard of a change does not match (NFS3ERR_NOT_SYNC).
    #[error("the object has changed")]
    Guard,
    /// A limit of the owner, the group or the dataset is reached (EDQUOT).
    #[error("quota exceeded")]
    Quota,
    /// No space left (ENOSPC).
    #[error("no space left")]
    NoSpace,
    /// The file system is read-only, or is a snapshot (EROFS).
    #[error("read-only file system")]
    ReadOnly,
    /// The file system does not offer this (EOPNOTSUPP).
    #[error("not supported by this file system")]
    Unsupported,
    /// The object is in use (EBUSY).
    #[error("busy")]
    Busy,
    /// The medium failed, or the file system is unavailable.
    #[error(transparent)]
    Storage(StorageError),
}

impl From<StorageError> for FileError {
    fn from(e: StorageError) -> Self {
        match e {
            StorageError::NoSpace => FileError::NoSpace,
            StorageError::ReadOnly => FileError::ReadOnly,
            StorageError::Unsupported => FileError::Unsupported,
            StorageError::OutOfRange
            | StorageError::MediaRead
            | StorageError::MediaWrite
            | StorageError::Corrupt
            | StorageError::Offline
            | StorageError::Exhausted
            | StorageError::Aborted
            | StorageError::Miscompare(_) => FileError::Storage(e),
        }
    }
}
