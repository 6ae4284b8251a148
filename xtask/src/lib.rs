//! The repository's tools, which belong neither to the product nor to its tests.
//!
//! **Owns** the source rules (`tidy`), the broken promises that the simulator must notice (`mutants`), the tests with a
//! stock Linux kernel as client (`vm`), foreign suites that judge file systems (`posix`) and the NFS service (`pynfs`), and the
//! Debian package (`package`) with its generated files (`pages`).
//! **Called by** `cargo xtask` and by this crate's tests, so that both run under the workspace's test runner too. **Invariants**: nothing outside `target/` is written; only processes
//! started here are ended, by their id.

#![forbid(unsafe_code)]

mod checkout;
pub mod mutants;
pub mod package;
pub mod pages;
mod pool_server;
pub mod posix;
mod program;
pub mod pynfs;
pub mod repo;
pub mod tidy;
pub mod verdicts;
pub mod vm;
