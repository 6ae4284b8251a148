//! What connections of every protocol share: budgets of buffers by host, and the rate that a peer must keep.
//!
//! **Owns** the ledger of a shard ([`Ledger`]), which says who may hold how much of the shard's buffer pool, and the
//! deadlines that follow from a size ([`rate`]). **Called by** the connections of `nvmf` and `iscsi`. **Invariants**: knows no
//! protocol; a shard's ledger is used by its own thread only, so there are no locks.

#![forbid(unsafe_code)]

mod account;
pub mod admission;
pub mod digest;
mod ledger;
pub mod limits;
pub mod rate;
pub mod reservation;

pub use account::{Account, Hold};
pub use ledger::{HostKey, Ledger, LedgerStats};
