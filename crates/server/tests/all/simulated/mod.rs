//! Servers in the simulated world: virtual time, simulated disks, our own initiators as clients.

mod caches;
mod disks;
mod filesystems;
mod fixture;
mod iser;
mod logs;
mod members;
mod nfs_rdma;
mod pools;
mod raidz;
mod rdma;
mod readiness;
mod removal;
mod resilver;
mod spares;
mod special;
