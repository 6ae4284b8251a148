//! Expansion of a raidz by one disk.

pub(super) mod state;
mod work;
