//! Whether programs of this machine can use RDMA, and the reason if they cannot.
//!
//! **Called by** the server, and by commands that show the state of RDMA. **Invariants**: a text names the missing part and the remedy.

use crate::linux;
use crate::sim::SimulatedVerbsListener;
use thiserror::Error as ThisError;

/// Why programs of this machine cannot use RDMA.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum NoRdma {
    /// A library of rdma-core cannot be loaded; has the loader's message.
    #[error(
        "rdma-core is not installed ({0}): install libibverbs1, librdmacm1 and ibverbs-providers (Debian, Ubuntu), or libibverbs and \
         librdmacm (others)"
    )]
    NoLibrary(String),
    /// The installed rdma-core lacks a function.
    #[error("rdma-core is too old: it has no function {0}; install version 15 or later")]
    OldLibrary(&'static str),
    /// The machine has no RDMA device.
    #[error(
        "this machine has no RDMA device: /sys/class/infiniband is empty (load the driver of the card, such as modprobe mlx5_ib)"
    )]
    NoDevice,
    /// The kernel's connection manager is not loaded.
    #[error("the kernel has no /dev/infiniband/rdma_cm: modprobe rdma_ucm")]
    NoModule,
    /// This process may not use the connection manager.
    #[error(
        "this process may not open /dev/infiniband/rdma_cm: check the mode of the file (0666 by the rules of rdma-core), and DeviceAllow of a systemd unit"
    )]
    Denied,
    /// Another reason.
    #[error("the connection manager for RDMA cannot be used: {0}")]
    Other(crate::Error),
}

/// Whether a listener or a connection can be made here. Errors: the reason why not. Loads rdma-core if it is not loaded.
pub fn support() -> Result<(), NoRdma> {
    match SimulatedVerbsListener::support() {
        Some(simulated) => simulated,
        None => linux::verbs_support(),
    }
}
