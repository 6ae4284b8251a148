//! NFS initiator in user space: versions 4.1 and 4.2 (RFC 8881, RFC 7862).
//!
//! **Owns** the client's side of sessions: their creation, slots, connections, calls and their replies. **Called by** the lab
//! and the tests. **Invariants**: no value that a server sends is trusted as a size of an allocation or as an index; a slot has
//! one call at a time.
//!
//! A [`Session`] has one or several connections and lives on the shard that created it. It has no back channel, so the server
//! grants no delegations. A connection that breaks ends the session: its calls fail, and the caller connects again, and may reclaim
//! opens and locks that it had before a restart of the server ([`Config::reclaims`]).
//!
//! | module | owns | section |
//! |---|---|---|
//! | [`config`], [`limits`], [`error`] | configuration, limits and errors of a session | |
//! | [`channel`] | a connection with one call at a time: creation of sessions, raw calls of tests | RFC 5531 |
//! | [`results`] | results of a COMPOUND, read one by one | §16.2 |
//! | `establish` | client ID, session, further connections | §18.34 to §18.36 |
//! | `engine`, `reply` | a session without I/O: slots, calls to be sent, replies | §2.10.6 |
//! | `connection`, `receiver` | the engine's connections: sockets and tasks | |
//! | `rdma` | connections over RDMA: queue pairs, credits, memory of calls | RFC 8166 |
//! | [`session`] | the handle of a session; time limits, lease | §8.3 |
//! | [`attributes`] | values of attributes | §5 |
//! | [`files`], [`locks`], [`directories`] | operations on files and directories | §18 |

#![forbid(unsafe_code)]

pub mod attributes;
pub mod channel;
pub mod config;
mod connection;
pub mod directories;
mod engine;
pub mod error;
mod establish;
pub mod files;
pub mod limits;
pub mod locks;
mod rdma;
mod receiver;
mod reply;
pub mod results;
pub mod session;

pub use attributes::{Attributes, Kind};
pub use channel::Channel;
pub use config::Config;
pub use directories::Entry;
pub use error::{Error, ProtocolError, Result};
pub use files::{File, FileHandle, OpenOptions, Stable};
pub use initiator::LinkState;
pub use locks::{LockOptions, LockOwner};
pub use nfs::service::NfsTransport;
pub use results::Results;
pub use session::Session;
