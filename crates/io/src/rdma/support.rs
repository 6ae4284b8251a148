//! Whether programs of this machine can use RDMA, and the reason if they cannot.
//!
//! **Called by** the server, and by commands that show the state of RDMA.

use super::error::NoRdma;
use crate::linux;
use crate::sim::SimulatedVerbsListener;

/// Whether a listener or a connection can be made here. Errors: the reason why not. Loads rdma-core if it is not loaded.
pub fn support() -> Result<(), NoRdma> {
    match SimulatedVerbsListener::support() {
        Some(simulated) => simulated,
        None => linux::verbs_support(),
    }
}
