//! RPC-over-RDMA version 1 (RFC 8166): the forms of messages.
//!
//! | module | owns |
//! |---|---|
//! | [`header`] | the header of a message, and errors of the transport |
//! | [`chunks`] | the lists of chunks in a header |
//! | [`assembly`] | the parts of a message that chunks were taken out of |
//! | [`private`] | private data of the connection manager (RFC 8797) |
//!
//! **Owns** the limits of a message. **Called by** both ends, for each message. **Invariants**: a header names at most [`SEGMENTS_MAX`] segments; its
//! chunks are ordered and do not overlap.

pub mod assembly;
pub mod chunks;
pub mod header;
pub mod private;

pub use header::{Fault, HEADER_MIN, HeaderError, Kind, RPC_RDMA_VERSION, RdmaHeader};

/// Most segments of all chunks of one message.
pub const SEGMENTS_MAX: usize = 64;
/// Longest message of a peer that announced no length, bytes (RFC 8166, section 3.3.2).
pub const INLINE_DEFAULT: u32 = 1024;
