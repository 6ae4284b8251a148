//! The userspace iSCSI initiator.
//!
//! **Owns** the initiator's side of sessions: login, discovery, tasks, their data and their recovery. **Called by** the
//! lab, the simulation and the tests. **Invariants**: nothing that a target sends is trusted for an allocation or an
//! index; a task is sent again only where doing it twice is doing it once.
//!
//! A [`Session`] has one connection at a time and lives on the shard that made it. It keeps itself alive, and
//! reconnects when its connection breaks (session reinstatement, §6.3.5). A [`Unit`] is a logical unit to do I/O on.
//!
//! | module | owns | section |
//! |---|---|---|
//! | [`config`], [`limits`], [`error`] | what a session is made with, and how it fails | |
//! | `login`, `chap` | the initiator's half of a login, without I/O | §6.3, §12.1.3 |
//! | `channel` | PDUs one at a time: logins and discovery | §11 |
//! | `tasks` | SCSI tasks by their tag | §11.2.1.8 |
//! | `engine` | a session without I/O: serial numbers, data, R2Ts, what goes out | §4.2 |
//! | `receiver`, `sender`, `queue` | the same over a socket | |
//! | [`session`], `recovery` | the session's handle; keeping it, losing it, getting it back | §7 |
//! | [`unit`], `commands`, [`data`], [`sense`] | SCSI commands and what they answer | SPC-4, SBC-3 |
//! | [`discovery`] | SendTargets | appendix C |

#![forbid(unsafe_code)]

mod channel;
mod chap;
mod commands;
pub mod config;
pub mod data;
pub mod discovery;
mod engine;
pub mod error;
pub mod limits;
mod login;
mod pass_through;
mod queue;
mod receiver;
mod recovery;
mod sender;
pub mod sense;
pub mod session;
mod tasks;
pub mod unit;

pub use config::{Chap, Config, Proposal, Reconnect};
pub use discovery::{DiscoveredTarget, discover};
pub use error::{Error, ProtocolError, Result};
pub use sense::Sense;
pub use session::{Event, LinkInfo, Session, State, Stats};
pub use unit::{Unit, WriteOptions};
