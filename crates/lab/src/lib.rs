//! Benchmarks: workloads, targets, validity rules, statistics, reports.
//!
//! **Owns** the implementation of `wirepool bench` and `wirepool demo`. **Called by** the `wirepool` binary, through
//! [`cli`]. **Invariants**: one engine and one histogram for every target, so that numbers are comparable; an
//! untrusted row has a verdict with a reason ([`validity`]); compared targets are measured in alternation in one run.

#![forbid(unsafe_code)]

pub mod cli;
mod demo;
pub mod engine;
mod error;
pub mod limits;
pub mod plan;
pub mod probe;
pub mod report;
mod served;
pub mod size;
pub mod stats;
mod suite;
pub mod targets;
mod terminal;
pub mod validity;
pub mod verify;
pub mod workload;

pub use error::{Error, Result};
