//! The device layer in the simulator: labels, mirrors, power cuts, disks that lie.

mod crash;
mod files;
mod heal;
mod journal;
mod refuse;
mod sides;
mod stale;
mod world;
