//! iSCSI (RFC 7143): the target side of the transport, under the SCSI device of crate `scsi`.
//!
//! **Owns** PDUs and text keys ([`wire`]), login with its negotiation and authentication ([`login`]), and sessions,
//! connections and commands ([`target`]). **Called by** the server, which hands [`target::Target`] every accepted
//! stream. **Invariants**: [`wire`] and [`login`] do no I/O; nothing that a peer sends is trusted for an allocation or
//! an index; SCSI itself is not known here.
//!
//! Sections named "§" are of RFC 7143 unless another document is named.

#![forbid(unsafe_code)]

pub mod limits;
pub mod login;
pub mod target;
pub mod wire;
