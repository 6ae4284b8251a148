//! NFS 4.1 (RFC 8881) over ONC RPC (RFC 5531): the server's end.
//!
//! | module | owns |
//! |---|---|
//! | [`xdr`], [`rpc`], [`wire`] | encodings, sans-I/O, used by both ends |
//! | [`client`], [`state`] | clients and sessions, opens and locks, sans-I/O |
//! | [`handle`], [`export`], `attribute` | file handles, exports and the pseudo file system, attributes |
//! | `compound` | execution of requests |
//! | `callback` | calls to clients |
//! | `guard` | the same files for users that are no clients |
//! | `shared`, `connection`, [`service`] | the state of a service, its connections, and the calls that configure it |
//!
//! **Called by** tests and fuzz targets; the server does not serve NFS yet. **Invariants**: this crate uses sockets, clock and
//! randomness only through crate `io`; nothing that a peer sends is trusted for an allocation or an index; a reply that promises
//! stable storage is made from a `Durable`.
//!
//! Sections named "§" are of RFC 8881 unless another document is named.

#![forbid(unsafe_code)]

mod attribute;
mod callback;
pub mod client;
mod compound;
mod connection;
pub mod export;
mod guard;
pub mod handle;
pub mod limits;
pub mod rpc;
pub mod service;
mod shared;
pub mod state;
pub mod wire;
pub mod xdr;
