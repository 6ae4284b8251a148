//! The doctor: judges the settings of a storage machine, and makes settings for its clients.
//!
//! **Owns** [`facts`] (values that were read from a machine, or the reason why one could not be read), their
//! [`capture`] from `/proc`, `/sys` and a few programs, and [`checks`]: pure functions from facts to findings.
//! [`client_config`] makes the files of a client, and [`rdma_setup`] the plan for RDMA. **Called by** `wirepool doctor`,
//! `wirepool client-config` and `wirepool rdma setup`.
//! **Invariants**: nothing on the machine is changed; a value that could not be read is listed as not checked, and never
//! counts as good; text from the machine reaches a script only as a quoted word.

#![forbid(unsafe_code)]

pub mod capture;
pub mod check;
pub mod checks;
pub mod client_config;
pub mod facts;
pub mod rdma_setup;
pub mod report;
pub mod script;
pub mod source;
pub mod step;

pub use facts::{Facts, Known};
pub use report::{Finding, NotChecked, Report, Severity};
pub use step::Step;
