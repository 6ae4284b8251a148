//! NFS 4.1 (RFC 8881) over ONC RPC (RFC 5531): the server's end.
//!
//! **Owns** the encodings ([`xdr`], [`rpc`], [`wire`]; sans-I/O, used by both ends), and clients with their sessions ([`client`]),
//! opens and locks ([`state`]). **Called by** tests and fuzz targets; the
//! server does not serve NFS yet. **Invariants**: nothing that a peer sends is trusted for an allocation or an index.
//!
//! Sections named "§" are of RFC 8881 unless another document is named.

#![forbid(unsafe_code)]

pub mod client;
pub mod limits;
pub mod rpc;
pub mod state;
pub mod wire;
pub mod xdr;
