//! Disks of simulated nodes.
//!
//! **Owns** media, their volatile caches and their faults. **Invariants**: writes that a completed flush or write-through
//! covered survive a power cut; all other writes may vanish, survive or tear per atomic unit, in any order; an operation
//! takes effect between its start and its end, in one step or two.

mod config;
mod control;
mod faults;
mod medium;
mod state;
mod table;

pub use config::{DiskConfig, Latency};
pub use control::{SimDisk, Snapshot};
pub use medium::PowerCutFate;
pub(super) use table::Disks;
