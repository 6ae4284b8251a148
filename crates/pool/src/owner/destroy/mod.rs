//! Destroys: datasets disappear at once, and checkpoints free their blocks.

pub(super) mod deadlists;
pub(super) mod destroyer;
pub(super) mod freeing;
