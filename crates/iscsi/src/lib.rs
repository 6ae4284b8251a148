//! iSCSI (RFC 7143): the server's end of the transport, under the SCSI device of crate `scsi`.
//!
//! **Owns** PDUs and text keys ([`wire`]), login with its negotiation and authentication ([`login`]), and sessions,
//! connections and commands ([`portal`]). **Called by** the server, which hands every accepted stream to
//! [`portal::Target`], and by crate `iscsi_initiator`, which uses formats and negotiation. **Invariants**: [`wire`] and
//! [`login`] do no I/O; nothing that a peer sends is trusted for an allocation or an index.
//!
//! Sections named "§" are of RFC 7143 unless another document is named.

#![forbid(unsafe_code)]

pub mod limits;
pub mod login;
pub mod portal;
pub mod wire;
