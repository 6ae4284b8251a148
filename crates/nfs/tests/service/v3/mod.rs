//! NFS version 3 and MOUNT.

mod client;
mod data;
mod directory;
mod mount;
mod names;
mod refusals;
mod repeats;
