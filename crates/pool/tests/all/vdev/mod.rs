//! The device layer in the simulator: labels, mirrors, power cuts, faulty disks.

mod add;
mod apart;
mod crash;
mod files;
mod heal;
mod journal;
mod members;
mod open_cuts;
mod raidz;
mod raidz_crash;
mod raidz_recover;
mod recover;
mod refuse;
mod short;
mod stale;
mod world;

/// Compile-time check: shards share the devices.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<pool::vdev::Vdevs>();
};
