//! The engine: runs a workload against a target and returns the measurements.
//!
//! **Owns** the jobs of one run: each is a thread with its own ring and its own session. **Called by** plans,
//! preconditioning and the suite. **Invariants**: an I/O counts if it began (in an open loop: was due) inside the
//! window after the ramp, also when it ends after it, so that slow I/Os are not left out; the first error ends the
//! run, because a run with errors is not a measurement.

mod job;
mod observe;
pub mod precondition;
mod result;
mod run;
mod window;

pub use result::{Direction, Run};
pub use run::{Setup, run};
