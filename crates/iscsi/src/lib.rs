//! iSCSI (RFC 7143): the target side of the transport, under the SCSI device of crate `scsi`, and an initiator.
//!
//! **Owns** PDUs and text keys ([`wire`]), login with its negotiation and authentication ([`login`]), sessions,
//! connections and commands of a [`target`], and those of an [`initiator`]. **Called by** the server, which hands
//! [`target::Target`] every accepted stream, and by the lab and the simulation, whose initiator it is. **Invariants**:
//! [`wire`] and [`login`] do no I/O; nothing that a peer sends is trusted for an allocation or an index; SCSI itself is
//! known to the initiator alone.
//!
//! Sections named "§" are of RFC 7143 unless another document is named.

#![forbid(unsafe_code)]

pub mod initiator;
pub mod limits;
pub mod login;
pub mod target;
pub mod wire;
