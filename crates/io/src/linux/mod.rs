//! The Linux driver: io_uring, sockets and files.
//!
//! **Owns** the ring of each runtime and every system call on the data path. **Called by** [`crate::runtime`] through
//! the driver trait, and by [`crate::net`] and [`crate::disk`] for set-up calls.

mod diag;
mod disk;
mod driver;
mod health;
mod local;
mod lookup;
mod memory;
mod mount;
mod net;
mod process;
mod signatures;
mod timers;
mod verbs;

pub use diag::congestion_at;
pub(crate) use disk::{LinuxDisk, allocated, discard, open_disk, reserve, resize_disk, stat_disk};
pub(crate) use driver::{UringDriver, monotonic, random, wall_clock_ms};
pub use health::{HealthDevice, HealthSource, LogPage, NoHealth};
pub use local::LocalStream;
pub use lookup::{LookupError, addresses_of, interface_index};
pub use mount::{
    MountFlags, UnmountMode, ask_file_system, mount, receive_descriptor, sync_file_system, unmount,
    user_and_group,
};
pub use net::check_congestion;
pub(crate) use net::{
    bind, bind_privileged, local_addr, new_stream, peer_addr, set_options, shutdown, tcp_info,
};
pub use process::{
    command_name, is_root, listener, process_cpu_time, raise_fd_limit, thread_cpu_time,
};
pub use signatures::{Signature, age_of_data, ago, signatures};
pub(crate) use verbs::{
    LinuxEndpoint, LinuxRequest, LinuxVerbsListener, RdmaDevice, ReceiveSlot, RegisteredSlab,
    locked_memory, verbs_support,
};

/// Pins the calling thread to one processor. Does nothing if the processor does not exist.
pub fn pin_to(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty set, CPU_SET checks its bounds, and the call only reads the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Sends SIGTERM to a process. Does nothing if it has ended.
pub fn terminate(pid: u32) {
    if let Ok(pid @ 1..) = i32::try_from(pid) {
        // SAFETY: no memory is passed.
        unsafe {
            libc::kill(pid, libc::SIGTERM);
        }
    }
}
