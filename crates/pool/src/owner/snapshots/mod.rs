//! Snapshots, clones, rollbacks, promotions, holds.

pub(super) mod holds;
pub(super) mod lineage;
pub(super) mod pending_snapshots;
pub(super) mod snapshot;
pub(super) mod taking;
pub(super) mod used;
