//! Offline reader: reads everything on a pool's disks independently of the pool's own code.
//!
//! **Owns** its own rule of trust, its own readers of journal and trees, and its own account of space. **Called by**
//! `wirepool inspect` and simulations. **Invariants**: it never writes; it shares only formats, the geometry of labels and
//! ring, the arithmetic of parity, and the walk of nodes with the rest of the pool, never the owner or the allocator, so that it does not repeat their
//! mistakes; bytes from a disk never panic it.
//!
//! **Memory**: bitmaps of regions with used sectors, two bits a sector: 64 MiB for each used TiB at sectors of 4 KiB. Block
//! counts and sizes below [`limits::MEMO_MAX`] nodes. One entry for each block that only the journal refers to; the size of the
//! journal limits their number. Buffers for nodes and records: [`limits::BUFFER_BYTES`].

mod contents;
mod copies;
mod disks;
mod files;
mod found;
mod freeing;
mod inspected;
mod journal;
pub mod limits;
mod lists;
mod moved;
mod moved_space;
mod owners;
mod part;
mod raidz;
mod relocated;
mod replayed;
mod space;
mod summaries;
mod sums;
mod trees;
mod verify;

pub use contents::{Contents, SeenDataset};
pub use disks::{
    Copied, Flaw, Image, InspectError, LabelCopy, SeenDisk, SeenMember, SeenVdev, Slot,
};
pub use found::{Finding, FindingKind, Findings};
pub use inspected::{DatasetSpace, Inspected, Progress};
pub use journal::{JournalEnd, SeenBatch, SeenJournal};
pub use sums::Sums;
pub use trees::{TreeEntry, TreeStats};
