//! The pool: copy-on-write, checksummed storage.
//!
//! **Owns** the on-disk format ([`mod@format`]), the devices ([`vdev`]), the journal ([`journal`]) and the trees that map
//! keys to blocks ([`tree`]). **Called by** the server, through volumes. **Invariants**: bytes from a disk are checked before
//! they are used and never panic the process; disks, clock and sockets are used only through `io`. Layouts: `docs/format.md`.

#![forbid(unsafe_code)]

mod accesses;
mod account;
mod block_reads;
mod cache;
mod cache_device;
mod checkpoint_throttle;
mod compress;
mod dataset;
mod dirty;
mod ends;
mod error;
mod files;
pub mod filesystem;
pub mod format;
pub mod inspect;
pub mod journal;
mod lost;
mod node_reads;
mod options;
mod owner;
mod record;
mod reuse;
mod scattered;
mod shared;
pub mod space;
pub mod tree;
pub mod vdev;
mod volume;
mod workers;
mod write_budget;
mod written;

pub use accesses::Accesses;
pub use cache::RecordCacheStats;
pub use cache_device::{CacheCounts, CacheFault, CacheStatus};
pub use compress::{stored_size, unpack};
pub use error::{Error, Result};
pub use files::{FileChange, FileChangeKind, FileStore, INLINE_MAX, OwnerSpace};
pub use lost::{LOST_MAX, LostBlock};
pub use node_reads::NodeReads;
pub use options::{DurableWrites, Options};
pub use owner::{
    BalanceMoves, Choice, ClassReason, Damage, DamagedObjects, Damages, DurableTimes, DurableWaits,
    Expanding, ExpansionWait, LastChange, LostChanges, NewFilesystem, NewVolume, OrderMoves,
    Placements, Pool, PoolSpace, PoolWrites, RegionMoves, RemovalWait, Removing, Resilvering,
    RowMoves, ScrubPosition, Scrubbed, SnapshotUse, Source, SpaceMaps, SpecialClass, TrimPosition,
    Trimmed, Verified, VolumeSpace,
};
pub use reuse::ReuseDistances;
pub use volume::Volume;
pub use written::{DatasetWrites, WriteClass, WrittenBytes};
