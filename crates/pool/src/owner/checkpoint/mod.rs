//! Checkpoints: layers are merged into the trees, and the result becomes the pool.

pub(super) mod checkpoint_snapshot;
pub(super) mod checkpointer;
pub(super) mod idle;
pub(super) mod merges;
pub(super) mod nodes;
pub(super) mod pause;
pub(super) mod run;
pub(super) mod yielder;
