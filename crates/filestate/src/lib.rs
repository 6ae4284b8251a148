//! File state: opens with share reservations, byte-range locks and delegations of the users of exported files, sans-I/O.
//!
//! The model is that of NFS 4.1, and sections are those of RFC 8881: it has what hosts of NFS 3, programs on mounts of the server and another
//! file protocol need, too. `docs/decisions/0336`.
//!
//! | module | owns |
//! |---|---|
//! | `stateid` | names of states, and the errors of using them |
//! | `shards` | the shards of all states |
//! | `table` | the states of one shard, by stateid, file and client |
//! | `totals` | numbers and limits of all shards together |
//! | `entry` | one state, by kind |
//! | `opens` | opens and share reservations |
//! | `index` | the opens of one file, by owner and by what they exclude |
//! | `locks` | lock states |
//! | `delegations` | delegations, from grant to return or revocation |
//! | `held` | times of a file that the holder of a delegation keeps |
//! | `local_locks` | locks of programs on the server |
//! | `ranges` | the locked ranges of one file |
//! | `waiters` | clients that wait for locks |
//! | `withdrawn` | states of file systems that are not exported, and revocation by the administrator |
//! | `names` | the numbers of states in stateids |
//!
//! **Called by** the file protocols (crate `nfs`), and by mounts through them. **Invariants**: the state of a client is reached only by this client; a share
//! reservation or lock conflict is decided and taken in one step; the numbers of states are bounded for each client and in all.

#![forbid(unsafe_code)]

#[cfg(test)]
mod delegation_tests;
mod delegations;
mod entry;
mod held;
mod index;
pub mod limits;
mod local_locks;
mod locks;
mod names;
mod opens;
mod ranges;
#[cfg(test)]
mod shard_tests;
mod shards;
mod stateid;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod waiters;
mod withdrawn;

pub use delegations::{Asked, DelegationArgs, Recall, Seen, Why};
pub use entry::Waiter;
pub use held::{HeldTimes, ReportedTimes};
pub use locks::LockFrom;
pub use opens::{OpenArgs, OpenBefore};
pub use ranges::{Locked, Range, Ranges};
pub use shards::States;
pub use stateid::{Origin, Revocation, StateError, Stateid};
pub use table::{Denied, Refused, Table};

/// The number of users that are no clients of version 4: hosts of version 3, and mounts on the server. No client has it.
pub const NO_CLIENT: u64 = 0;

/// Access for reading, and its denial to others (`OPEN4_SHARE_ACCESS_READ`).
pub const READ: u32 = 1;
/// The same for writing (`OPEN4_SHARE_ACCESS_WRITE`).
pub const WRITE: u32 = 2;
/// `OPEN4_SHARE_ACCESS_BOTH`, and `OPEN4_SHARE_DENY_BOTH`.
pub const BOTH: u32 = 3;
