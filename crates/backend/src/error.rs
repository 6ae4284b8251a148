//! Storage errors, classified by the answer of the protocol.

use thiserror::Error;

/// Result of a backend operation.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Why a backend refused or failed. Each protocol maps every variant to its own status, without a catch-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StorageError {
    /// The range lies partly or wholly beyond the end. Nothing was done.
    #[error("the range lies beyond the end of the disk")]
    OutOfRange,
    /// The disk is write protected.
    #[error("the disk is read-only")]
    ReadOnly,
    /// No space for the data. No acknowledged write is lost.
    #[error("no space left")]
    NoSpace,
    /// Reading failed and no other copy is left.
    #[error("the medium failed to read")]
    MediaRead,
    /// Writing failed: the range may hold old or new data.
    #[error("the medium failed to write")]
    MediaWrite,
    /// The stored data does not match its checksum and cannot be repaired.
    #[error("the stored data is damaged")]
    Corrupt,
    /// The disk is temporarily unavailable; the same request may work later.
    #[error("the disk is temporarily unavailable")]
    Offline,
    /// Resources are temporarily exhausted; the same request may work later.
    #[error("temporarily out of resources")]
    Exhausted,
    /// The request timed out or was aborted.
    #[error("the request was aborted")]
    Aborted,
    /// A compare found different data, first at this byte of the request.
    #[error("the data differs at byte {0}")]
    Miscompare(u64),
    /// The backend does not offer this operation.
    #[error("not supported by this disk")]
    Unsupported,
}

impl StorageError {
    /// The storage error for an I/O error while reading.
    #[must_use]
    pub fn reading(e: io::Error) -> StorageError {
        StorageError::of(e, StorageError::MediaRead)
    }

    /// The storage error for an I/O error while writing, flushing or deallocating.
    #[must_use]
    pub fn writing(e: io::Error) -> StorageError {
        StorageError::of(e, StorageError::MediaWrite)
    }

    fn of(e: io::Error, media: StorageError) -> StorageError {
        match e {
            io::Error::NoSpace => StorageError::NoSpace,
            io::Error::Gone(_)
            | io::Error::NotFound
            | io::Error::Closed
            | io::Error::Unreachable(_) => StorageError::Offline,
            io::Error::Exhausted(_) | io::Error::Busy(_) => StorageError::Exhausted,
            io::Error::TimedOut | io::Error::Cancelled => StorageError::Aborted,
            io::Error::Unsupported(_) => StorageError::Unsupported,
            io::Error::Denied(_) => StorageError::ReadOnly,
            io::Error::Media(_) | io::Error::Truncated | io::Error::Os(_) => media,
        }
    }
}
