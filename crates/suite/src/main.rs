//! Command line of the suite: `wirepool-suite`, which `make bench` runs.

#![forbid(unsafe_code)]

use clap::Parser;
use lab::child::on_interrupt;
use lab::cli::told;
use lab::terminal::print;
use std::process::ExitCode;
use suite::Extent;

fn main() -> ExitCode {
    let extent = Extent::parse();
    told(on_interrupt().and_then(|()| print(&suite::measure(extent)?)))
}
