//! NFS version 3 and MOUNT.

pub(crate) mod client;
mod data;
mod directory;
mod mount;
mod names;
mod refusals;
mod repeats;
