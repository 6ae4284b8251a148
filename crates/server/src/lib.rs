//! The server: configuration, disks, exports, the control API, metrics.
//!
//! **Owns** disks, exports, access lists, and the process around them. **Called by** the binary (which runs it), by
//! its command line (through [`api`]) and by simulations (through [`Server`]). **Invariants**: the data path runs on
//! the shards and uses only crate `io`; the control plane (tokio, HTTP, signals) runs on a thread of its own and
//! reaches the server only through [`Handle`].

#![forbid(unsafe_code)]

mod absent;
mod accounts;
mod advertise;
pub mod advice;
pub mod api;
mod change;
pub mod config;
mod console;
mod control;
mod diagnosis;
mod disks;
mod dry_start;
pub mod durable;
mod error;
mod group_queue;
mod grouped;
mod host_names;
mod last_answers;
pub mod limits;
mod listen;
mod listing;
mod metrics;
mod own_addresses;
mod pools;
mod process;
mod protocols;
mod rates;
mod rdma_ports;
mod readiness;
pub mod recent_log;
mod reports;
mod reservation_requests;
mod reservations;
mod server;
mod shards;
mod size;
mod taken;
mod view;
mod watchdog;
pub mod wear;
pub mod why;
mod word;

pub use control::openapi;
pub use diagnosis::doctor_facts;
pub use dry_start::{DryStart, dry_start};
pub use error::{Error, Result};
pub use metrics::{alert_rules, grafana_dashboard, metrics_page};
pub use pools::filesystems::FilesystemUser;
pub use process::{End, serve};
pub use server::{Handle, Server};
pub use shards::Shards;
pub use size::{ByteSize, SizeError};
