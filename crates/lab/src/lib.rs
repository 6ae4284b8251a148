//! Benchmarks: workloads, targets, validity rules, statistics, reports.
//!
//! **Owns** the implementation of `wirepool bench` and `wirepool demo`. **Called by** the `wirepool` binary, through
//! [`cli`], and by the suite (crate `suite`). **Invariants**: one engine and one histogram for every target, so that numbers are comparable; an
//! untrusted row has a verdict with a reason ([`validity`]); compared targets are measured in alternation in one run.

#![forbid(unsafe_code)]

pub mod child;
pub mod cli;
mod demo;
pub mod engine;
mod error;
pub mod limits;
pub mod plan;
pub mod probe;
pub mod rdma_report;
pub mod report;
pub mod served;
mod signals;
pub mod size;
pub mod stats;
pub mod targets;
pub mod terminal;
pub mod validity;
pub mod verify;
pub mod workload;

pub use error::{Error, Result};
