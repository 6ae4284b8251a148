//! Errors of the pool, by what the caller does next.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::format::{Address, Defect, Sequence, VdevId};

/// Result of a pool operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of the pool failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// Damaged bytes at the address: read another copy, repair, and count the error.
    #[error("damaged at {at}: {defect}")]
    Corrupt {
        /// Where they were read.
        at: Address,
        /// What is wrong with them.
        defect: Defect,
    },
    /// No member has an intact copy of a journal batch that was durable: acknowledged writes are lost. Replay stops; only an
    /// operator may decide to continue without the batch.
    #[error("journal batch {} was durable and cannot be read at {at}", sequence.0)]
    JournalCorrupt {
        /// The batch.
        sequence: Sequence,
        /// Where it should be.
        at: Address,
    },
    /// The checkpoint has blocks on a vdev that was removed later, and not all of their copies: choose a newer one.
    #[error("the checkpoint is from before the removal of vdev {}, whose disks have left the pool: choose a newer one", vdev.0)]
    BeforeRemoval {
        /// The vdev.
        vdev: VdevId,
    },
    /// The journal has no room: checkpoint, release, and append again.
    #[error("the journal is full until the next checkpoint")]
    JournalFull,
    /// More records than fit into one batch: append them in parts.
    #[error("{bytes} bytes of records do not fit into one batch of the journal")]
    BatchTooLarge {
        /// Bytes of the records.
        bytes: usize,
    },
    /// No space for more data, not even after a checkpoint. No acknowledged write is lost.
    #[error("no space left in the pool")]
    NoSpace,
    /// The volume and its snapshots have used the volume's quota. No acknowledged write is lost.
    #[error("the volume's quota is used up")]
    Quota,
    /// The reservation would exceed the quota.
    #[error("the reservation would exceed the quota")]
    OverQuota,
    /// A dataset with this name exists.
    #[error("a dataset with this name exists already")]
    Exists,
    /// No dataset has this name.
    #[error("no dataset has this name")]
    NotFound,
    /// Invalid name: 1 to 255 letters, digits, `-`, `_`, `.`, `:` are possible, and slashes between a dataset and the
    /// datasets above it.
    #[error("invalid name: use 1 to 255 letters, digits, '-', '_', '.' or ':'")]
    BadName,
    /// The dataset above a name does not exist.
    #[error("the dataset above it does not exist: create that first")]
    NoParent,
    /// The dataset above a name cannot have datasets below it.
    #[error("the dataset above it is a volume, and only filesystems have datasets below them")]
    NotAParent,
    /// A dataset cannot move below itself.
    #[error("a dataset cannot be renamed to a name below its own")]
    BelowItself,
    /// The dataset does not have the property.
    #[error("datasets of this class do not have the property {0:?}")]
    NoProperty(&'static str),
    /// The dataset is in use: it has snapshots, clones or newer snapshots, datasets below it, or writes in flight.
    #[error(
        "the dataset is in use: it has snapshots, clones or newer snapshots, datasets below it, or writes in flight"
    )]
    Busy,
    /// The snapshot has a hold: release the hold first.
    #[error("the snapshot has the hold {tag:?}: release it first")]
    Held {
        /// The oldest hold.
        tag: String,
    },
    /// The snapshot has no hold with this tag.
    #[error("the snapshot has no hold with this tag")]
    NoHold,
    /// Only a clone can be promoted.
    #[error("the volume is not a clone")]
    NotAClone,
    /// An invalid setting.
    #[error("{0}")]
    Invalid(Defect),
    /// A change of an unknown kind, which a later version wrote.
    #[error("the journal has a change of an unknown kind: use a newer version")]
    Unknown,
    /// The volume was destroyed, or its pool is closed.
    #[error("the volume was destroyed, or its pool was closed")]
    Closed,
    /// No member of the vdev can be read at the address: report it, count the error.
    #[error("no member can be read at {at}")]
    Unreadable {
        /// The address.
        at: Address,
    },
    /// The pool was opened for reading only.
    #[error("the pool was opened for reading only: open it for writing")]
    ReadOnly,
    /// The file system below a disk of the pool is full: free space there. No acknowledged write is lost.
    #[error("{}; the pool then continues by itself", file_system_full(path))]
    FileSystemFull {
        /// The file.
        path: PathBuf,
    },
    /// A write or flush failed: writes that are not durable may be lost. No further changes are accepted.
    #[error("the devices failed: writes that were not flushed may be lost")]
    Device,
}

/// Describes that the file system with the file `path` is full.
pub(crate) fn file_system_full(path: &Path) -> String {
    format!(
        "the file system below {} is full: free space there",
        path.display()
    )
}

impl Error {
    /// The block that no member has, if this is the error.
    pub(crate) fn at(&self) -> Option<Address> {
        match self {
            Error::Corrupt { at, .. } | Error::Unreadable { at } => Some(*at),
            _ => None,
        }
    }
}
