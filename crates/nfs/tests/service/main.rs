//! The NFS service against a client of our own, in the simulated world.

mod accounts;
mod acls;
mod back;
mod bad_input;
mod callbacks;
mod changes;
mod client;
mod delegations;
mod exports;
mod fairness;
mod files;
mod fixture;
mod grace;
mod limits;
mod minor2;
mod mount_locks;
mod ports;
mod recalls;
mod sessions;
mod sharing;
mod strangers;
mod tls_sessions;
mod v3;
mod waiting;
mod withdrawal;
mod xattrs;
