//! The simulated world: seeded scheduler, virtual clock, network and failing disks.
//!
//! **Owns** simulated nodes, their sockets and their disks ([`World`]). **Called by** the executor through its driver, and by
//! tests through [`Sim`], [`Node`], [`SimDisk`] and [`network`]. **Invariants**: one seed and one program give one history,
//! bit by bit (see [`Sim::trace_hash`]); the clock advances when no task can run, and by
//! [`SimConfig::read_cost`] each time that it is read; media guarantee nothing beyond the
//! assumptions of `docs/simulation.md`, which lists everything that is modelled.

mod control;
mod core;
mod disk;
mod driver;
mod event;
mod fork;
mod handle;
mod net;
pub mod network;
mod shards;
mod trace;
mod verbs;
mod world;

pub use control::{Node, Sim, remark};
pub use disk::{DiskConfig, Latency, PowerCutFate, SimDisk, Snapshot};
pub use fork::{Forked, ProcessCopy, Report, fork};
pub(crate) use handle::{SimulatedDisk, SimulatedSocket, is_running};
pub use net::LinkConfig;
pub use verbs::control as rdma;
pub(crate) use verbs::{SimulatedEndpoint, SimulatedVerbsListener};
pub use world::World;

use std::time::Duration;

/// A simulated socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SocketId(u32);

/// An open simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct DiskId(u32);

/// Configuration of a simulation besides its seed.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// Limit of the buffer pool of each shard, bytes. The first shards of all nodes share one pool.
    pub buffer_limit: usize,
    /// Virtual time that one turn of the executor takes, so that time passes for tasks that never sleep.
    pub turn_cost: Duration,
    /// Virtual time that one reading of the clock takes, so that time passes within a task's poll too. Zero: the clock
    /// stands still while tasks run.
    pub read_cost: Duration,
    /// Virtual time after which the run panics as a livelock.
    pub time_max: Duration,
    /// Number of events after which the run panics as a livelock.
    pub events_max: u64,
    /// Whether all events are printed to standard error.
    pub trace: bool,
    /// The command that repeats this run, printed when it panics.
    pub replay: Option<String>,
    /// Links between nodes that [`network::set_link`] was not called for.
    pub link: LinkConfig,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            buffer_limit: 1 << 30,
            turn_cost: Duration::from_nanos(200),
            read_cost: Duration::ZERO,
            time_max: Duration::from_secs(30 * 24 * 3600),
            events_max: 1_000_000_000,
            trace: false,
            replay: None,
            link: LinkConfig::default(),
        }
    }
}
