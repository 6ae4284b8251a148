//! The target, seen from the other end of a connection.

mod admin;
mod bad_input;
mod budget;
mod connect;
mod discovery;
mod disk;
mod end_to_end;
mod events;
mod fairness;
mod fixture;
mod host;
mod io_commands;
mod path;
mod rdma;
mod rdma_host;
mod rdma_recovery;
mod rdma_shared;
mod rdma_storms;
mod reservations;
mod spdk;
mod strangers;
mod trouble;
