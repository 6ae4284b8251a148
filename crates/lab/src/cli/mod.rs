//! Command line of the lab: `wirepool bench run|matrix|compare|verify|suite` and `wirepool demo`.
//!
//! **Called by** the `wirepool` binary, which flattens [`Bench`] and [`Demo`] into its own. **Invariants**: results
//! go to standard output, progress and errors to standard error; exit codes are 0 for success, 1 for a failure or
//! wrong data, 2 for an invalid request.

mod args;
mod bench;
mod coordinator;
mod dispatch;
mod output;
mod verify;

pub use args::{Bench, BenchCommand, Demo};
pub use dispatch::{demo, run};
