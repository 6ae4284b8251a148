//! Entry points of `wirepool bench` and `wirepool demo`: runs a command, prints its error, returns its exit code.

use super::args::{Bench, BenchCommand, Demo};
use super::coordinator::block_on;
use super::{bench, verify};
use crate::{Error, Result};
use std::process::ExitCode;

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
