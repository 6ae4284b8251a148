//! Validity rules: when a measurement cannot be trusted.
//!
//! **Owns** the rules. **Called by** plans: [`before`] a row is run and [`after`]. **Invariants**: a rule uses the
//! values in effect and the counted I/Os, never the requested values; each finding has a text with the observation
//! and its effect; the thresholds are in [`Thresholds`], with their reasons.

mod caches;
mod rules;
mod verdict;

pub use rules::{after, before};
pub use verdict::{Circumstances, Finding, Rule, Thresholds, Verdict, Weight};
