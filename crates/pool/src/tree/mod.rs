//! Copy-on-write B+trees, and the layers of changes above them.
//!
//! The state of a dataset is the root of an immutable tree on disk and a list of [`Layer`]s, newest first. A read searches
//! the layers, then the tree. A change goes to the top layer. [`Merge`] turns frozen layers and a root into a new root;
//! nothing else writes trees.
//!
//! **Owns** the algorithms: [`Lookup`], [`Scan`], [`Merge`], [`Walk`], [`Reap`], [`Compare`], and [`NodeCache`]. **Called
//! by** datasets, checkpoints, scrub, send and receive. **Invariants**: the algorithms are synchronous state machines without
//! I/O: `step` returns the node that is needed ([`Need`]), and goes on when that is supplied. Every supplied node is checked
//! against its parent's entry. Layouts: `docs/format.md`.

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
pub use cursor::Direction;
pub use deltas::Freed;
pub use layer::{Delta, Layer};
pub use lookup::{Lookup, LookupStep};
pub use merge::{Merge, MergeStep, NewNode, TreeParams};
pub(crate) use need::lost;
pub use need::{Need, Root, load};
pub use reap::{Reap, ReapStep};
pub use scan::{Scan, ScanStep};
pub use walk::{Visit, Walk, WalkStep};
