//! NVMe initiator in user space, over TCP and RDMA.
//!
//! **Owns** the host's end of connections: discovery, controllers, their queues and their recovery. **Called by** the lab,
//! the simulation and the tests. **Invariants**: no value that a controller sends is trusted as a size of an allocation or as
//! an index.
//!
//! A [`Controller`] lives on the shard that connected it. It sends keep-alives, delivers events, and reconnects when a
//! connection breaks. A [`Namespace`] sends I/O through the controller's queues. [`nvmf::wire`] has the formats; [`raw`]
//! sends arbitrary bytes for tests.
//!
//! Sources: NVM Express Base Specification 2.0, NVMe/TCP Transport Specification 1.0, NVMe RDMA Transport Specification 1.0.

#![forbid(unsafe_code)]

mod admin;
mod config;
mod controller;
mod discovery;
mod error;
mod io_commands;
pub mod limits;
mod link;
mod queue;
pub mod raw;
mod rdma;
mod recovery;
mod state;

pub use config::{Config, Reconnect};
pub use controller::Controller;
pub use discovery::{DiscoveredPath, Discovery, discover};
pub use error::{Error, Result};
pub use initiator::LinkState;
pub use io_commands::{Namespace, WriteOptions};
pub use link::{LinkInfo, Offer};
pub use nvmf::controller::Transport;
pub use state::{ControllerInfo, Stats};
