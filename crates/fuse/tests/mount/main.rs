//! Mounts in the kernel of this machine, over a file system in memory.
//!
//! Where there is no /dev/fuse, or it may not be used, each test prints a line that begins with `SKIPPED`; with
//! `WIREPOOL_FUSE=1` in the environment it fails instead.

mod acls;
mod data;
mod locks;
mod names;
mod points;
mod server;
mod tools;
mod unmount;
