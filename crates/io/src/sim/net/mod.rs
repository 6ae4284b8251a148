//! TCP between simulated nodes.
//!
//! **Owns** sockets and links. **Invariants**: the bytes of one direction of a connection arrive once and in order, or the
//! connection ends; a sender buffers at most 128 KiB beyond the receiver's window. A lost segment is sent
//! again, so loss appears as delay; a cut link delays sent bytes until it heals or the sender gives up.

mod link;
mod operations;
mod sockets;
mod stream;
mod transport;

pub use link::LinkConfig;
pub(super) use link::Links;
pub(super) use sockets::{Net, ip_of, node_of};
