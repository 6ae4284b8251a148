//! The binary as people use it: real server processes, the command line, our own initiator as the client.
//!
//! **Invariants**: every port is the kernel's choice, every file is in a directory of the test's own.

mod api;
mod commands;
mod common;
mod conformance;
mod cuts;
mod filesystems;
mod inspect;
mod iscsi;
mod iscsi_reservations;
mod kills;
mod lifecycle;
mod limits;
mod memory;
mod metrics;
mod nfs;
#[allow(dead_code, reason = "the tests of crate nfs use the rest")]
#[path = "../../../nfs/tests/service/client.rs"]
mod nfs_client;
mod pools;
mod printing;
mod properties;
mod recovery;
mod schema;
mod sides;
mod trim;
mod trouble;
mod vdevs;
