//! Whole-system simulation: crash, fault and network runs against a slow model.
//!
//! **Owns** the model, the workloads, the scenarios and their seeds; no product code. **Called by** the binary `wirepool-sim`
//! and by the tests. **Invariants**: a seed and a commit give one run, bit by bit; a failure prints the seed and the command
//! that repeats it. `docs/simulation.md` has the details.

#![forbid(unsafe_code)]

mod absence;
pub mod access;
mod churn;
mod classes;
mod crowd;
mod files;
pub mod members;
pub mod model;
mod offline;
pub mod pattern;
mod raidz;
pub mod remote;
pub mod remote_unit;
mod rewind;
mod settings;
mod snapshots;
pub mod store;
pub mod system;
pub mod volume;
mod workers;
pub mod workload;

use backend::BlockBackend;
use io::sim::{Sim, SimConfig};
use iscsi::portal::IscsiTransport;
use model::Violation;
use nfs::service::NfsTransport;
use nvmf::controller::Transport;
use pool::Placements;
use std::sync::Arc;
use std::time::Duration;
use system::Protocol;

/// The kinds of simulated runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// A raw disk, without a network.
    Store,
    /// A server and its clients over NVMe/TCP.
    System,
    /// A server and its clients over NVMe/RDMA.
    Rdma,
    /// A server and its clients over iSCSI.
    Iscsi,
    /// As `System`, over iSER.
    Iser,
    /// A server and its clients over NFS.
    Nfs,
    /// As `Nfs`, over RDMA.
    NfsRdma,
    /// As `System` or `Iscsi`, with a server of several shards, over a raw disk or a pool.
    Shards,
    /// Hosts that reserve a namespace.
    Fence,
    /// A volume of a pool.
    Pool,
    /// A volume of a nearly full pool.
    Full,
    /// Volumes of small pools, with faults aimed at the steps where a promise could break.
    Aimed,
    /// Volumes of small pools, with hot spares that stand in for members that fail.
    Spares,
    /// A volume of a pool with a cache device.
    Cached,
    /// Members of a mirror that leave and return.
    Members,
    /// A filesystem of a pool.
    Files,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Scenario; 16] = [
        Scenario::Store,
        Scenario::System,
        Scenario::Rdma,
        Scenario::Iscsi,
        Scenario::Iser,
        Scenario::Nfs,
        Scenario::NfsRdma,
        Scenario::Shards,
        Scenario::Fence,
        Scenario::Pool,
        Scenario::Full,
        Scenario::Aimed,
        Scenario::Spares,
        Scenario::Cached,
        Scenario::Members,
        Scenario::Files,
    ];

    /// The scenario's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Store => "store",
            Scenario::System => "system",
            Scenario::Rdma => "rdma",
            Scenario::Iscsi => "iscsi",
            Scenario::Iser => "iser",
            Scenario::Nfs => "nfs",
            Scenario::NfsRdma => "nfs_rdma",
            Scenario::Shards => "shards",
            Scenario::Fence => "fence",
            Scenario::Pool => "pool",
            Scenario::Full => "full",
            Scenario::Aimed => "aimed",
            Scenario::Spares => "spares",
            Scenario::Cached => "cached",
            Scenario::Members => "members",
            Scenario::Files => "files",
        }
    }

    /// The scenario with this name; `None` if there is none.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Scenario> {
        Scenario::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// Virtual time after which a run is considered a livelock.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Counts of a scenario's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Requests answered.
    pub answered: u64,
    /// Power cuts of the server.
    pub crashes: u64,
    /// Number of records in fragments and groups in parts, because no extent was large enough.
    pub placements: Placements,
}

/// Counts and hash of a run without a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Requests answered.
    pub answered: u64,
    /// Power cuts of the server.
    pub crashes: u64,
    /// Number of records in fragments and groups in parts, because no extent was large enough.
    pub placements: Placements,
    /// Hash of all events.
    pub trace: u64,
}

/// Returns the command that repeats a run.
#[must_use]
pub fn replay(scenario: Scenario, seed: u64) -> String {
    format!(
        "cargo run -p wirepool-sim -- --scenario {} --seed {seed} --trace",
        scenario.name()
    )
}

/// Runs one seed. Fails with the violation, if there is one. Panics (with the seed) on deadlock, livelock or a panic of the
/// code under test.
pub fn run(scenario: Scenario, seed: u64, trace: bool) -> Result<Outcome, Violation> {
    run_with(scenario, seed, trace, |b| b)
}

/// Virtual time of one reading of the clock. In one run of eight, polls take time as they do on a busy machine.
fn read_cost(seed: u64) -> Duration {
    match seed % 8 {
        7 => Duration::from_micros(1 + seed / 8 % 20),
        _ => Duration::ZERO,
    }
}

/// Runs one seed, with `wrap` between workload and backend.
pub fn run_with(
    scenario: Scenario,
    seed: u64,
    trace: bool,
    wrap: fn(Arc<dyn BlockBackend>) -> Arc<dyn BlockBackend>,
) -> Result<Outcome, Violation> {
    if scenario == Scenario::Members {
        return members::run(seed, trace);
    }
    let config = SimConfig {
        trace,
        time_max: TIME_MAX,
        read_cost: read_cost(seed),
        replay: Some(replay(scenario, seed)),
        ..SimConfig::default()
    };
    let sim = Sim::new(seed, config);
    let report = sim.block_on(async move {
        match scenario {
            Scenario::Store => store::run(seed, wrap).await,
            Scenario::System => system::run(seed, wrap, Protocol::Nvme(Transport::Tcp)).await,
            Scenario::Rdma => system::run(seed, wrap, Protocol::Nvme(Transport::Rdma)).await,
            Scenario::Iscsi => system::run(seed, wrap, Protocol::Iscsi(IscsiTransport::Tcp)).await,
            Scenario::Iser => system::run(seed, wrap, Protocol::Iscsi(IscsiTransport::Iser)).await,
            Scenario::Nfs => system::run_nfs(seed, wrap, NfsTransport::Tcp).await,
            Scenario::NfsRdma => system::run_nfs(seed, wrap, NfsTransport::Rdma).await,
            Scenario::Shards => system::run_shards(seed, wrap).await,
            Scenario::Fence => system::run_fence(seed, wrap).await,
            Scenario::Pool => volume::run(seed, wrap, volume::Kind::Any).await,
            Scenario::Full => volume::run(seed, wrap, volume::Kind::Full).await,
            Scenario::Aimed => volume::run(seed, wrap, volume::Kind::Aimed).await,
            Scenario::Spares => volume::run(seed, wrap, volume::Kind::Spares).await,
            Scenario::Cached => volume::run(seed, wrap, volume::Kind::Cached).await,
            Scenario::Files => files::run(seed).await,
            Scenario::Members => unreachable!("it has simulations of its own"),
        }
    })?;
    Ok(Outcome {
        answered: report.answered,
        crashes: report.crashes,
        placements: report.placements,
        trace: sim.trace_hash(),
    })
}
