//! Command line of the lab: `wirepool bench run|matrix|compare|verify|suite` and `wirepool demo`.
//!
//! **Called by** the `wirepool` binary, which flattens [`Bench`] and [`Demo`] into its own. **Invariants**: results
//! go to standard output, progress and errors to standard error; exit codes are 0 for success, 1 for a failure or
//! wrong data, 2 for an invalid request.

mod args;
mod bench;
mod output;
pub(crate) mod progress;
mod verify;

pub use args::{Bench, BenchCommand, Demo};
pub(crate) use bench::fill;
pub(crate) use output::{print, write};

use crate::{Error, Result};
use io::{Runtime, RuntimeConfig};
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

/// Runs `wirepool bench`.
#[must_use]
pub fn run(args: Bench) -> ExitCode {
    told(match args.command {
        BenchCommand::Run(a) => bench::run(a),
        BenchCommand::Matrix(a) => bench::matrix(a),
        BenchCommand::Compare(a) => bench::compare(a),
        BenchCommand::Verify(a) => verify::verify(a),
        BenchCommand::Suite(a) => block_on(crate::suite::suite(a.extent())),
    })
}

/// Runs `wirepool demo`.
#[must_use]
pub fn demo(args: Demo) -> ExitCode {
    told(block_on(async move { crate::demo::demo(&args).await }))
}

fn told(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("wirepool: {}", io::printable::printable(&e.to_string()));
            ExitCode::from(if matches!(e, Error::Usage { .. }) {
                2
            } else {
                1
            })
        }
    }
}

/// Runs `f` on a runtime of this thread, which sleeps when it is idle: the coordinator measures nothing itself.
pub(crate) fn block_on<T: 'static>(f: impl Future<Output = Result<T>> + 'static) -> Result<T> {
    Runtime::new(RuntimeConfig {
        spin_max: Duration::ZERO,
        ..RuntimeConfig::default()
    })?
    .block_on(f)
}
