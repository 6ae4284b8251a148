//! Copy-on-write B+trees, and the layers of changes above them.
//!
//! A dataset's state is the root of an immutable tree on disk and a list of [`Layer`]s, newest first. Reading looks
//! into the layers, then the tree. Changing goes to the top layer; [`Merge`] turns frozen layers and a root into a new
//! root, and nothing else writes a tree.
//!
//! **Owns** the algorithms: [`Lookup`], [`Scan`], [`Merge`], [`Walk`], [`Reap`], [`Compare`], and [`NodeCache`]. **Called by**
//! datasets, checkpoints, scrub, send and receive. **Invariants**: everything is pure and synchronous, a state machine
//! whose `step` says what it needs ([`Need`]) and goes on when that is supplied; nothing here waits, reads or writes.
//! Every node that is supplied is checked against what its parent says about it. Layouts: `docs/format.md`.

mod cache;
mod compare;
mod cursor;
mod deltas;
mod layer;
mod lookup;
pub mod memory;
mod merge;
mod need;
mod reap;
mod scan;
mod walk;

pub(crate) use cache::AddressHasher;
pub use cache::{CacheStats, NodeCache};
pub use compare::{Change, Compare, CompareStep};
pub use layer::{Delta, Layer};
pub use lookup::{Lookup, LookupStep};
pub use merge::{Freed, Merge, MergeStep, NewNode, TreeParams};
pub use need::{Need, Root, load};
pub use reap::{Reap, ReapStep};
pub use scan::{Direction, Scan, ScanStep};
pub use walk::{Visit, Walk, WalkStep};
