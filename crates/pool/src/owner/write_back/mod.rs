//! Write-back: dirty records become blocks and batches of the journal.

pub(super) mod commit;
pub(super) mod committer;
pub(super) mod durable_way;
pub(super) mod gathering;
pub(super) mod group_batch;
pub(super) mod group_data;
pub(super) mod group_write;
pub(super) mod journaled;
pub(super) mod moves;
pub(super) mod place;
pub(super) mod preparation;
pub(super) mod preparations;
pub(super) mod transactions;
pub(super) mod waits;
