//! Entry points of `wirepool bench`, `wirepool demo` and the probes: runs a command, prints its error, returns its exit code.

use super::args::{Bench, BenchCommand, Demo};
use super::coordinator::block_on;
use super::network_args::Probe;
use super::probe_args::{Ioping, Ping};
use super::report::Surroundings;
use super::{bench, network, probes, rdma_report, report, verify};
use crate::{Error, Result};
use std::process::ExitCode;

/// Runs `wirepool bench`. `examine` is called for a report that is not of stored files alone.
#[must_use]
pub fn run(args: Bench, examine: impl FnOnce() -> Surroundings) -> ExitCode {
    told(match args.command {
        BenchCommand::Run(a) => bench::run(a),
        BenchCommand::Matrix(a) => bench::matrix(a),
        BenchCommand::Compare(a) => bench::compare(a),
        BenchCommand::Verify(a) => verify::verify(a),
        BenchCommand::Report(a) => report::report(&a, examine),
        BenchCommand::RdmaReport(a) => rdma_report::rdma_report(a),
    })
}

/// Runs `wirepool demo`.
#[must_use]
pub fn demo(args: Demo) -> ExitCode {
    told(block_on(async move { crate::demo::demo(&args).await }))
}

/// Runs `wirepool ping`.
#[must_use]
pub fn ping(args: &Ping, json: bool) -> ExitCode {
    probed(probes::run_ping(args, json))
}

/// Runs `wirepool ioping`.
#[must_use]
pub fn ioping(args: &Ioping, json: bool) -> ExitCode {
    probed(probes::run_ioping(args, json))
}

/// Runs `wirepool probe`.
#[must_use]
pub fn probe(args: &Probe, json: bool) -> ExitCode {
    probed(network::run_probe(args, json))
}

/// The exit code of a probe, which has printed its result: 1 if it was not answered.
fn probed(result: Result<bool>) -> ExitCode {
    match result {
        Ok(false) => ExitCode::FAILURE,
        other => told(other.map(drop)),
    }
}

/// The exit code of a result, whose error is printed: 2 for an invalid request, 1 for a failure.
pub fn told(result: Result<()>) -> ExitCode {
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
