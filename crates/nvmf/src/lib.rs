//! NVMe over Fabrics, TCP transport: the wire formats, the target and the initiator.
//!
//! `wire` is sans-I/O and shared by both sides. Nothing here touches a socket, a disk, a clock or
//! randomness but through crate `io`.

#![forbid(unsafe_code)]

pub mod initiator;
pub mod target;
pub mod wire;
