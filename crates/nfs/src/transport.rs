//! Transports of NFS.
//!
//! **Called by** connections, the registration with rpcbind, and the control plane. **Invariants**: a connection has one transport.

/// A transport of NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NfsTransport {
    /// TCP, also with TLS.
    Tcp,
    /// RDMA (RFC 8166).
    Rdma,
}

impl NfsTransport {
    /// The transport as a word of the control API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NfsTransport::Tcp => "tcp",
            NfsTransport::Rdma => "rdma",
        }
    }
}
