//! The tests of the pool: one program, since each would compile most of the pool again.

mod blocks;
mod filesystem;
mod hex;
mod inspect;
mod journal;
mod parts;
mod raidz;
mod snapshots;
mod tree;
mod vdev;
mod volume;
