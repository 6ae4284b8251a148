//! Whoever remembers, off the pool's disks, which labels were written last.
//!
//! **Owns** that seam. **Called by** whoever opens a pool and whoever writes labels. **Invariant**: no labels count before
//! their epoch is recorded. `docs/decisions/0101`, "A missing side".

use std::fmt::Debug;
use std::pin::Pin;

use crate::format::LabelEpoch;

/// Whether the epoch is recorded, or nothing older is left: labels may count then.
pub type Witnessed = Pin<Box<dyn Future<Output = bool>>>;

/// Remembers the epoch of a pool's last labels on another medium.
pub trait Witness: Debug + Send + Sync {
    /// The epoch that was recorded last, as of when the pool was looked for; none if that is not known.
    fn last(&self) -> Option<LabelEpoch>;

    /// Records an epoch, durably. False if that failed and an older one may still be recorded.
    fn record(&self, epoch: LabelEpoch) -> Witnessed;
}
