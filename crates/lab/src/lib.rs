//! Measurement as a feature: workloads, targets, validity rules, statistics, reports.
//!
//! **Owns** everything behind `wirepool bench` and `wirepool demo`. **Called by** the `wirepool` binary, through
//! [`cli`]. **Invariants**: one engine and one histogram for every target, so that numbers compare; a row that
//! cannot be trusted says so and why ([`validity`]); what is measured side by side is interleaved in one run.

#![forbid(unsafe_code)]

pub mod cli;
mod demo;
pub mod engine;
mod error;
pub mod limits;
pub mod plan;
pub mod report;
mod served;
pub mod size;
pub mod stats;
mod suite;
pub mod target;
pub mod validity;
pub mod verify;
pub mod workload;

pub use error::{Error, Result};
