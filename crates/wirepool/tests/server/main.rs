//! The binary as people use it: real server processes, the command line, our own initiator as the client.
//!
//! **Invariants**: every port is the kernel's choice, every file is in a directory of the test's own.

mod addresses;
mod api;
mod browser;
mod classes;
mod commands;
mod common;
mod conformance;
mod console;
mod cuts;
mod doctor;
mod drills;
mod filesystems;
mod hostile;
mod inspect;
mod iscsi;
mod iscsi_reservations;
mod kills;
mod lifecycle;
mod limits;
mod members;
mod memory;
mod metrics;
mod network_probe;
mod nfs;
mod nfs_client;
mod nfs_services;
mod pools;
mod printing;
mod probes;
mod properties;
mod rdma;
mod recovery;
mod recursive;
mod schema;
mod spares;
mod top;
mod trim;
mod trouble;
mod vdevs;
mod writes;
