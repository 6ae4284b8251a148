//! `wirepool bench suite`: the table of goals, measured with a peer in one run.
//!
//! **Owns** the files, our server, the peer's server and the order of the measurements. **Called by** the command
//! line.
//! **Invariants**: both servers are pinned to one processor and both clients to another, if there are two; rounds
//! alternate; a missed goal is a result, not a failure; a failed measurement is reported, never guessed.

mod goal;
mod iscsi;
mod lab;
mod load;
mod nfs;
mod nvme;
mod peer;
mod point;
mod pool;
mod rows;
mod tables;
mod tgt;

pub(crate) use lab::{Extent, Table};
pub(crate) use tables::suite;
