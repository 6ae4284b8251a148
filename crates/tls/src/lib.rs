//! TLS 1.3 between TCP and the connections of a protocol.
//!
//! | module | owns |
//! |---|---|
//! | [`Acceptor`], [`Connector`], [`first_certificate`] | certificates and keys of a server, of a client |
//! | [`Engine`] | one TLS connection without a socket: bytes in, bytes out |
//! | [`Stream`] | a TCP stream that TLS may be started on |
//! | [`certificate_name`], [`certificate_identity`] | the name in a certificate, and what its successors have in common with it |
//!
//! **Called by** protocols, whose connections receive and send through [`Stream`]. **Invariants**: the cryptography and the
//! messages are those of `rustls`; sockets and the clock come from `io`; memory of a connection is bounded by [`limits`]; a key never
//! appears in a message.

#![forbid(unsafe_code)]

mod config;
mod engine;
pub mod limits;
mod name;
mod stream;

pub use config::{Acceptor, ConfigError, Connector, Identity, first_certificate};
pub use engine::{Engine, Session, TlsError};
pub use name::{certificate_identity, certificate_name};
pub use stream::Stream;
