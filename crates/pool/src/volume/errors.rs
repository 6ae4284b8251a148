//! Errors of a volume, as protocols see them.
//!
//! **Owns** the meaning of the pool's errors for a client. **Called by** the volume's requests. **Invariant**: only a failed read
//! reports [`StorageError::Corrupt`].

use backend::StorageError;

use crate::Error;

/// Converts an error of a read.
pub(super) fn reading(e: Error) -> StorageError {
    match e {
        Error::Corrupt { .. } => StorageError::Corrupt,
        other => writing(other),
    }
}

/// Converts an error of a write or flush.
pub(super) fn writing(e: Error) -> StorageError {
    match e {
        Error::NoSpace | Error::Quota | Error::FileSystemFull { .. } => StorageError::NoSpace,
        Error::Closed => StorageError::Offline,
        Error::Corrupt { .. } | Error::JournalCorrupt { .. } | Error::Unreadable { .. } => {
            StorageError::MediaRead
        }
        Error::ReadOnly => StorageError::ReadOnly,
        Error::Device => StorageError::MediaWrite,
        Error::JournalFull | Error::BatchTooLarge { .. } => StorageError::Exhausted,
        Error::Exists
        | Error::NotFound
        | Error::BadName
        | Error::NoParent
        | Error::NotAParent
        | Error::BelowItself
        | Error::NoProperty(_)
        | Error::Busy
        | Error::Held { .. }
        | Error::NoHold
        | Error::NotAClone
        | Error::OverQuota
        | Error::Invalid(_)
        | Error::BeforeRemoval { .. }
        | Error::Unknown => StorageError::Unsupported,
    }
}
