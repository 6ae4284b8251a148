//! Drills: a verifying load under disturbances, and a verdict.
//!
//! **Owns** the load ([`Load`]), the expected contents of its blocks, the cable that a drill cuts ([`Relay`]), the course of a
//! drill ([`run()`]), its timeline and its report. **Called by** `wirepool drill`, which owns the volume, the server and the
//! disturbances. **Invariants**: nothing outside of the session's target is written; a block that differs from every allowed
//! content fails the drill; the server's word alone is never taken for durable data.

#![forbid(unsafe_code)]

mod blocks;
mod client;
mod error;
mod limits;
mod load;
mod page;
mod relay;
mod report;
mod run;
mod timeline;

pub use blocks::Findings;
pub use client::{Client, Watched, connect};
pub use error::{Error, Result};
pub use load::{Counts, Load, Plan};
pub use page::html;
pub use relay::{Cut, Relay, Traffic};
pub use report::{About, LayerFacts, Report, conclude};
pub use run::{Course, Disturbance, Ended, Outcome, run};
pub use timeline::{Event, Layer, Pause, Timeline};
