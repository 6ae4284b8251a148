//! NVMe over Fabrics, TCP transport: the wire formats and the server's end.
//!
//! **Owns** the formats ([`wire`], sans-I/O, used by both ends) and subsystems, controllers and queues ([`controller`]).
//! **Called by** the server, which hands every accepted stream to [`controller::Target`], and by crate `nvmf_initiator`,
//! which uses the formats. **Invariants**: this crate uses sockets, disks, clock and randomness only through
//! crate `io`.

#![forbid(unsafe_code)]

pub mod controller;
pub mod wire;
