//! Witness: remembers the epoch of a pool's last labels outside of its disks.
//!
//! **Owns** that trait; the server implements it with a file. **Called by** the opening of a pool and by each round of
//! labels. **Invariant**: nothing relies on labels before the witness recorded their epoch. `docs/decisions/0101`, "A missing
//! member".

use std::fmt::Debug;
use std::pin::Pin;

use crate::format::LabelEpoch;

/// True if the epoch is recorded or no older one remains: labels of this epoch may be relied on.
pub type Witnessed = Pin<Box<dyn Future<Output = bool>>>;

/// Remembers the epoch of a pool's last labels on another medium.
pub trait Witness: Debug + Send + Sync {
    /// The epoch recorded before the scan of the disks; `None` if it is unknown.
    fn last(&self) -> Option<LabelEpoch>;

    /// Records an epoch durably. Returns false if this failed and an older epoch may still be recorded.
    fn record(&self, epoch: LabelEpoch) -> Witnessed;
}
