//! The initiator against our service, and against a scripted server, in the simulator and on io_uring.

mod fake;
mod lies;
mod pair;
mod rdma;

use testkit::Runs;

/// Seeds and time limit of a test.
const RUNS: Runs = Runs {
    seeds: 2,
    limit: std::time::Duration::from_secs(600),
};
