//! iSCSI initiator in user space.
//!
//! **Owns** the initiator's side of sessions: login, discovery, tasks, their data and their recovery. **Called by** the lab,
//! the simulation and the tests. **Invariants**: no value that a target sends is trusted as a size of an allocation or as an
//! index; only idempotent tasks are sent again.
//!
//! A [`Session`] has one connection at a time and lives on the shard that created it. It pings a silent target, and
//! reconnects when its connection breaks (session reinstatement, §6.3.5). A [`Unit`] is a logical unit to do I/O on.
//!
//! | module | owns | section |
//! |---|---|---|
//! | [`config`], [`limits`], [`error`] | configuration, limits and errors of a session | |
//! | `login`, `chap` | the initiator's half of a login, without I/O | §6.3, §12.1.3 |
//! | `channel` | a connection with one PDU at a time, for logins and discovery | §11 |
//! | `tasks` | SCSI tasks by their tag | §11.2.1.8 |
//! | `engine` | a session without I/O: serial numbers, data, R2Ts, the batch to be sent | §4.2 |
//! | `outgoing` | PDUs that are to be sent, as bytes or as messages | §11 |
//! | `queue`, `connection`, `receiver` | the engine's connection: socket and tasks | |
//! | `iser`, `iser_receiver` | the same over RDMA: queue pair, exposed memory, tasks | RFC 7145 |
//! | [`session`], `state`, `shared`, `recovery` | the session's handle and state; login, keep-alive, reconnection | §7 |
//! | [`unit`](mod@unit), `commands`, [`data`], [`sense`], `verdict` | SCSI commands and their answers | SPC-4, SBC-3 |
//! | [`discovery`] | SendTargets | appendix C |

#![forbid(unsafe_code)]

mod channel;
mod chap;
mod commands;
pub mod config;
mod connection;
pub mod data;
pub mod discovery;
mod engine;
pub mod error;
mod iser;
mod iser_receiver;
pub mod limits;
mod login;
mod outgoing;
mod pass_through;
mod queue;
mod receiver;
mod recovery;
pub mod sense;
pub mod session;
mod shared;
mod state;
mod tasks;
pub mod unit;
mod verdict;

pub use config::{Chap, Config, Proposal, Reconnect};
pub use discovery::{DiscoveredTarget, discover, discover_over};
pub use error::{Error, ProtocolError, Result};
pub use initiator::LinkState;
pub use sense::Sense;
pub use session::Session;
pub use state::{Event, LinkInfo, Stats};
pub use unit::{Unit, WriteOptions};
