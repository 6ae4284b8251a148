//! Arguments of `bench rdma-report`.

use super::network_args::parse_part;
use crate::size::parse_time;
use crate::targets::Address;
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  wirepool bench rdma-report                                              devices, drivers, versions of this machine
  wirepool bench rdma-report nvme-rdma://10.0.0.7:4420/NQN                and NVMe/TCP beside NVMe/RDMA
  wirepool bench rdma-report nvme-rdma://10.0.0.7:4420/NQN --probe 10.0.0.7:4421 --json > report.json

--probe names a machine on which `wirepool probe serve` runs. Nothing is written to the target. docs/lab.md";

/// Make the table of RDMA on this machine: devices, verbs beside TCP, NVMe/RDMA beside NVMe/TCP
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RdmaReportArgs {
    /// A namespace, over either transport: nvme-rdma://HOST:PORT/NQN?ns=1; it is measured over both
    pub(super) target: Option<Address>,
    /// The same namespace over TCP, if its address over TCP is another one
    #[arg(requires = "target")]
    pub(super) tcp: Option<Address>,
    /// HOST:PORT of `wirepool probe serve`: measure verbs beside TCP
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) probe: Option<String>,
    /// Time of each round of a workload
    #[arg(short, long, default_value = "5s", value_parser = parse_time)]
    pub(super) time: Duration,
    /// Time of each part of the probe
    #[arg(long, default_value = "2s", value_parser = parse_part)]
    pub(super) probe_time: Duration,
    /// Rounds of each workload, in turn over both transports
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::limits::ROUNDS_MAX)))]
    pub(super) rounds: u32,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
