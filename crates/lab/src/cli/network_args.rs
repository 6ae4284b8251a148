//! Command line of `wirepool probe`.

use super::probe_args::within;
use crate::probe::network::run::Probe as Plan;
use crate::probe::network::serve::Serve as ServePlan;
use crate::probe::network::wire::{MILLIS_MAX, SIZE_MAX};
use crate::size::parse_size;
use crate::targets::address_text::resolve;
use crate::{Error, Result};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  wirepool probe serve 10.0.0.7:4421         on one machine: the address to listen on
  wirepool probe run 10.0.0.7:4421           on the other one: latency and bandwidth, in both directions; SEND, WRITE and READ over RDMA
  wirepool probe run 10.0.0.7:4421 --streams 8 --time 5s --json

Nothing listens unless `probe serve` runs; it ends after 10 minutes. It asks for no password, and only drops or makes up data: start it
on networks that you trust. docs/probes.md

Exit codes: 0 measured, 1 not reachable, refused or failed, 2 wrong command line.";

/// Measure latency and bandwidth of TCP and RDMA between two machines.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Probe {
    /// The subcommand.
    #[command(subcommand)]
    pub(super) command: ProbeCommand,
}

/// Subcommands of `wirepool probe`.
#[derive(Debug, Subcommand)]
pub(super) enum ProbeCommand {
    /// Be the other end of measurements, for a limited time
    Serve(Serve),
    /// Measure latency and bandwidth to a machine on which `wirepool probe serve` runs
    Run(Run),
}

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Address to listen on, such as 10.0.0.7:4421
    listen: SocketAddr,
    /// Time after which it ends
    #[arg(long = "for", default_value = "10m", value_parser = parse_life)]
    time: Duration,
    /// Connections served at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
}

impl Serve {
    pub(super) fn plan(&self) -> ServePlan {
        ServePlan {
            listen: self.listen,
            time: self.time,
            connections: self.connections,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// HOST:PORT of the other machine
    host: String,
    /// Time of each part
    #[arg(short, long, default_value = "2s", value_parser = parse_part)]
    time: Duration,
    /// Streams of the parts with several
    #[arg(short = 'n', long, default_value_t = 4, value_parser = parse_streams)]
    streams: u32,
    /// Size of each message of the latency measurement
    #[arg(short, long, default_value = "64", value_parser = parse_message)]
    size: u32,
    /// Congestion control of this side, such as cubic [default: the system's]
    #[arg(long)]
    congestion: Option<String>,
    /// Measure only TCP, also where both machines have RDMA
    #[arg(long)]
    no_rdma: bool,
}

impl Run {
    /// Errors: `Target` for an unknown host.
    pub(super) fn plan(&self) -> Result<Plan> {
        Ok(Plan {
            address: resolve(&self.host)?,
            time: self.time,
            streams: self.streams,
            message: self.size,
            congestion: self.congestion.clone(),
            rdma: !self.no_rdma,
        })
    }
}

fn parse_life(text: &str) -> Result<Duration> {
    within(text, Duration::from_secs(1), Duration::from_secs(24 * 3600))
}

pub(super) fn parse_part(text: &str) -> Result<Duration> {
    let most = Duration::from_millis(MILLIS_MAX.into());
    within(text, Duration::from_millis(10), most)
}

/// Streams of a transfer: 1 to 128.
fn parse_streams(text: &str) -> Result<u32> {
    match text.parse() {
        Ok(n) if (1..=128).contains(&n) => Ok(n),
        _ => Err(Error::usage(
            format!("streams {text:?}"),
            "expected 1 to 128",
        )),
    }
}

fn parse_message(text: &str) -> Result<u32> {
    match u32::try_from(parse_size(text)?) {
        Ok(n) if (1..=SIZE_MAX).contains(&n) => Ok(n),
        _ => Err(Error::usage(format!("size {text:?}"), "expected 1 to 1M")),
    }
}
