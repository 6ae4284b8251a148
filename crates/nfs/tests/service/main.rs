//! The NFS service against a client of our own, in the simulated world.

mod back;
mod bad_input;
mod callbacks;
mod client;
mod delegations;
mod exports;
mod files;
mod fixture;
mod sessions;
mod sharing;
