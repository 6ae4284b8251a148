//! `wirepool-cuts`: both ends of a test of real power cuts.
//!
//! **Owns** the command line. **Called by** `cargo xtask vm pool_cuts`: `write` in the guest, whose server's disks lie on the
//! kernel's dm-log-writes, and `replay` on the log afterwards.

#![forbid(unsafe_code)]

mod replay;
mod write;

use anyhow::Result;
use clap::Parser;
use io::{Runtime, RuntimeConfig};

/// A writer that marks promises in the kernel's log of writes, and a replay of that log with power cuts
#[derive(Parser)]
#[command(name = "wirepool-cuts")]
enum Args {
    /// Write to a disk, and mark durable writes in a log
    Write(write::Args),
    /// Replay a log, cut the power at each flush, and check the pool
    Replay(replay::Args),
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = Runtime::new(RuntimeConfig::default())?;
    match args {
        Args::Write(args) => runtime.block_on(write::run(args)),
        Args::Replay(args) => runtime.block_on(replay::run(args)),
    }
}
