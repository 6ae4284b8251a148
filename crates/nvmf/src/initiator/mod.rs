//! The userspace NVMe/TCP initiator.
//!
//! Owns the host's side of connections: discovery, controllers, their queues and their recovery.
//! Called by the lab, the tests and the demo.
//!
//! A [`Controller`] lives on the shard that connected it. It keeps itself alive, delivers events,
//! and reconnects when a connection breaks; a [`Namespace`] sends I/O through its queues. The
//! sans-I/O formats are in [`crate::wire`]; [`raw`] sends whatever a test wants to.
//!
//! Sources: NVM Express Base Specification 2.0, NVMe/TCP Transport Specification 1.0.

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
mod recovery;

pub use config::{Config, Reconnect};
pub use controller::{Controller, ControllerInfo, State, Stats};
pub use discovery::{DiscoveredPath, Discovery, discover};
pub use error::{Error, Result};
pub use io_commands::{Namespace, WriteOptions};
pub use link::{LinkInfo, Offer};
