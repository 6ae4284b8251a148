//! An offline reader of everything on a pool's disks: the second opinion.
//!
//! **Owns** its own rules of trust, its own way through journal and trees, and its own account of space. **Called by**
//! `wirepool inspect` and simulations. **Invariants**: nothing is ever written; of the rest of the pool it shares only the
//! formats, the geometry of labels and ring, and nodes' walk, never the owner or the allocator, so that a mistake there
//! is not repeated here; bytes from a disk never panic it.
//!
//! **Memory**: two bits for each sector of regions that are not all free, 64 MiB for each used TiB at 4 KiB sectors; the
//! sums of at most [`limits::MEMO_MAX`] nodes; the journal's blocks that no checkpoint has, at most what its ring holds.
//! Nodes and records pass through [`limits::BUFFER_BYTES`].

mod contents;
mod copies;
mod disks;
mod found;
mod freeing;
mod journal;
pub mod limits;
mod lists;
mod owners;
mod replayed;
mod space;
mod sums;
mod trees;
mod verify;

pub use contents::{Contents, SeenDataset};
pub use disks::{Copied, Flaw, Image, InspectError, LabelCopy, SeenDisk, SeenSide, SeenVdev, Slot};
pub use found::{Finding, FindingKind, Findings};
pub use journal::{JournalEnd, SeenBatch, SeenJournal};
pub use sums::Sums;
pub use trees::{TreeEntry, TreeStats};
pub use verify::{DatasetSpace, Inspected, Progress};
