//! What can go wrong in the pool, by what the caller does next.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::format::{Address, Defect, Sequence};

/// Result of a pool operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the pool refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// What is stored at the address is not what was written there: read another copy, repair, and count the error.
    #[error("damaged at {at}: {defect}")]
    Corrupt {
        /// Where it was read.
        at: Address,
        /// What is wrong with it.
        defect: Defect,
    },
    /// A batch of the journal was durable and no side has it whole: what was acknowledged is lost. Replay stops; only
    /// an operator may decide to go on without.
    #[error("journal batch {} was durable and cannot be read at {at}", sequence.0)]
    JournalCorrupt {
        /// The batch.
        sequence: Sequence,
        /// Where it should be.
        at: Address,
    },
    /// The journal has no room: checkpoint, release, and append again.
    #[error("the journal is full until the next checkpoint")]
    JournalFull,
    /// More records than one batch takes: append them in parts, or as something else.
    #[error("{bytes} bytes of records do not fit into one batch of the journal")]
    BatchTooLarge {
        /// Bytes of the records.
        bytes: usize,
    },
    /// No space for more data, also after a checkpoint. Nothing that was acknowledged is lost.
    #[error("no space left in the pool")]
    NoSpace,
    /// The volume and its snapshots take what its quota allows. Nothing that was acknowledged is lost.
    #[error("the volume's quota is used up")]
    Quota,
    /// A reservation above the quota.
    #[error("more would be reserved than its quota lets it take")]
    OverQuota,
    /// There is a dataset of this name.
    #[error("there is a dataset of this name")]
    Exists,
    /// There is no dataset of this name.
    #[error("there is no dataset of this name")]
    NotFound,
    /// A name that cannot be: 1 to 255 letters, digits, `-`, `_`, `.`, `:`.
    #[error("a name has 1 to 255 letters, digits, '-', '_', '.' or ':'")]
    BadName,
    /// Something else that uses it goes first: snapshots, clones, a newer snapshot, writes on their way.
    #[error("it is in use: snapshots or clones of it, or what was written since, come first")]
    Busy,
    /// A snapshot that somebody holds: release the hold first.
    #[error("it is held as {tag:?}: release that hold first")]
    Held {
        /// The oldest hold.
        tag: String,
    },
    /// There is no hold of this tag.
    #[error("there is no hold of this tag")]
    NoHold,
    /// Only a clone can be promoted.
    #[error("it is no clone")]
    NotAClone,
    /// A setting that cannot be.
    #[error("{0}")]
    Invalid(Defect),
    /// A change that this version does not know: a later one wrote it.
    #[error("the journal holds a change of a kind that is not known here")]
    Unknown,
    /// The volume was destroyed, or its pool is closed.
    #[error("the volume is gone")]
    Closed,
    /// No side of the vdev can be read there: report it, count the error.
    #[error("cannot be read at {at}")]
    Unreadable {
        /// Where.
        at: Address,
    },
    /// The pool was opened for reading only.
    #[error("the pool was opened for reading only: open it for writing")]
    ReadOnly,
    /// The file system that a disk of the pool is a file of has no space left: make room there. Nothing that was acknowledged
    /// is lost.
    #[error("{}; the pool goes on by itself then", file_system_full(path))]
    FileSystemFull {
        /// The file.
        path: PathBuf,
    },
    /// A write or flush failed: what is not durable yet may be lost. Nothing more is taken.
    #[error("the device failed")]
    Device,
}

/// What is said of a file system without space, which has the file `path`.
pub(crate) fn file_system_full(path: &Path) -> String {
    format!(
        "the file system below {} is full: free space there",
        path.display()
    )
}

impl Error {
    /// The block that no side has, if that is what is wrong.
    pub(crate) fn at(&self) -> Option<Address> {
        match self {
            Error::Corrupt { at, .. } | Error::Unreadable { at } => Some(*at),
            _ => None,
        }
    }
}
