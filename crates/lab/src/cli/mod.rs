//! Command line of the lab: `wirepool bench run|matrix|compare|verify|report|rdma-report`, `wirepool demo`, `wirepool ping`, `wirepool ioping`
//! and `wirepool probe`.
//!
//! **Called by** the `wirepool` binary, which has these commands among its own. **Invariants**: results
//! go to standard output, progress and errors to standard error; exit codes are 0 for success, 1 for a failure or
//! wrong data, 2 for an invalid request.

mod args;
mod bench;
mod coordinator;
mod dispatch;
mod network;
mod network_args;
mod output;
mod probe_args;
mod probe_output;
mod probes;
mod rdma_report;
mod rdma_report_args;
mod report;
mod report_args;
mod verify;

pub use args::{Bench, BenchCommand, Demo};
pub use coordinator::block_on;
pub use dispatch::{demo, ioping, ping, probe, run, told};
pub use network_args::Probe;
pub use probe_args::{Ioping, Ping};
pub use report::Surroundings;
