//! Session core: the parts of a connection that are the same for every protocol.
//!
//! | module | owns |
//! |---|---|
//! | [`admission`], [`connections`] | limits of connections by phase, the register of open ones, drain |
//! | [`signal`] | flags that wake and interrupt a connection |
//! | [`Ledger`], [`Account`], [`rate`] | buffer budgets by host, deadlines that follow from a size |
//! | [`refused`] | the hosts that access lists refused |
//! | [`counters`], [`tally`], [`latency`], [`stages`] | totals of a service, counts of a connection, histograms, time of requests by stage |
//! | [`deferred`] | commands that wait for buffers |
//! | [`link`], [`turn`] | the state that every connection has, and the order of its turns |
//! | [`carrier`], [`stream`] | the transport's connection below a session: TCP, or a layer above it; output over a byte stream |
//! | [`rdma`] | the same over RDMA: queue pair, work chains, arrivals |
//! | [`output`], [`staging`] | output batches, and staging areas for received bytes |
//! | [`digest`] | CRC32C |
//! | [`reservation`] | saved reservations of a namespace or logical unit |
//!
//! **Called by** `nvmf`, `iscsi` and `nfs`, by `tls` (byte streams), by initiators (digests, deadlines), by `scsi` (reservations), and by
//! `server` (counters, stages, refused hosts). **Invariants**: it knows no protocol; one thread uses a connection's state and a shard's
//! ledger, which need no lock; what others see of a connection is published once a turn, under an uncontended lock.

#![forbid(unsafe_code)]

mod account;
pub mod admission;
pub mod carrier;
pub mod connections;
pub mod counters;
pub mod deferred;
pub mod digest;
mod entry;
pub mod latency;
mod ledger;
pub mod limits;
pub mod link;
pub mod output;
pub mod rate;
pub mod rdma;
pub mod refused;
pub mod reservation;
pub mod signal;
pub mod stages;
pub mod staging;
pub mod stream;
pub mod tally;
pub mod turn;

pub use account::{Account, Hold};
pub use ledger::{HostKey, Ledger, LedgerStats};
