//! The vdevs that the journal is on: its moves to others, and the loss of logs.
pub(in crate::owner) mod state;

mod loss;
mod lost_changes;
mod moves;
