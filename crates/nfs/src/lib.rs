//! NFS 4.1 (RFC 8881), 4.2 (RFC 7862) and 3 (RFC 1813) over ONC RPC (RFC 5531): the server's end.
//!
//! | module | owns |
//! |---|---|
//! | [`xdr`], [`rpc`], [`wire`] | encodings, sans-I/O, used by both ends |
//! | [`client`] | clients and sessions, sans-I/O; opens, locks and delegations are crate `filestate` |
//! | [`handle`], [`export`], `attribute` | file handles, exports and the pseudo file system, attributes |
//! | [`identity`] | users and groups as text, groups of a user |
//! | `access` | what all versions do with files: handles, rights, writes, creations |
//! | `dispatch`, `compound` | execution of calls, COMPOUNDs of version 4 |
//! | `callback` | calls to clients |
//! | `guard` | the same files for users that are no clients |
//! | [`v3`] | version 3, and MOUNT |
//! | [`rpcbind`] | registration with rpcbind |
//! | `shared`, `transport`, `connection`, [`service`] | the state of a service, its connections, and the calls that configure it |
//!
//! **Called by** the server, tests and fuzz targets. **Invariants**: this crate uses sockets, clock and
//! randomness only through crate `io`; nothing that a peer sends is trusted for an allocation or an index; a reply that promises
//! stable storage is made from a `Durable`.
//!
//! Sections named "§" are of RFC 8881 unless another document is named.

#![forbid(unsafe_code)]

mod access;
mod attribute;
mod callback;
pub mod client;
mod compound;
mod connection;
mod dispatch;
pub mod export;
mod guard;
pub mod handle;
pub mod identity;
pub mod limits;
pub mod rpc;
pub mod rpcbind;
pub mod service;
mod shared;
mod transport;
pub mod v3;
pub mod wire;
pub mod xdr;
