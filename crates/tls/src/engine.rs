//! One TLS connection without a socket (RFC 8446): encrypted bytes in, plain bytes out, and the other way round.
//!
//! **Owns** [`Engine`]. **Called by** [`crate::Stream`], tests and properties. **Invariants**: plain bytes are taken before more encrypted
//! bytes are decrypted, so at most two records lie decrypted; after a failure nothing is decrypted any more.

use crate::name::{certificate_identity, certificate_name};
use rustls::{Connection, ProtocolVersion};
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use thiserror::Error;

/// Why a TLS connection cannot begin, or cannot go on.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TlsError {
    /// A message of the peer is refused, or the peer refused one of ours.
    #[error("{0}")]
    Protocol(#[from] rustls::Error),
    /// The peer sent more than a handshake may have.
    #[error("a handshake message is too long")]
    TooLong,
    /// The peer closed the connection before the end of the handshake.
    #[error("the connection was closed during the handshake")]
    Closed,
    /// The network failed.
    #[error("{0}")]
    Network(io::Error),
}

/// What was agreed in a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The version, such as `1.3`.
    pub version: &'static str,
    /// The cipher suite, as RFC 8446 names it.
    pub cipher: String,
    /// The name in the peer's certificate, if it has shown one: printable, and empty if the certificate has no name.
    pub peer: Option<String>,
    /// The identity in the peer's certificate ([`certificate_identity`]).
    pub identity: Option<Arc<[u8]>>,
}

/// A TLS connection without a socket.
pub struct Engine {
    connection: Connection,
    is_closed: bool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    pub(crate) fn new(mut connection: Connection) -> Self {
        // The stream sends what it has encrypted before it encrypts more.
        connection.set_buffer_limit(None);
        Self {
            connection,
            is_closed: false,
        }
    }

    /// Takes encrypted bytes, up to the first plain bytes. Returns the number of bytes that were taken: not zero while the peer has not closed
    /// the connection and no plain bytes wait. Errors: `Protocol`, `TooLong`; an alert for the peer is in the output then.
    pub fn decrypt(&mut self, mut bytes: &[u8]) -> Result<usize, TlsError> {
        let all = bytes.len();
        while !bytes.is_empty() && !self.is_closed {
            let taken = self.connection.read_tls(&mut bytes);
            // The only failure of a read from memory is a full buffer.
            taken.map_err(|_| TlsError::TooLong)?;
            let state = self.connection.process_new_packets()?;
            self.is_closed = state.peer_has_closed();
            if state.plaintext_bytes_to_read() > 0 {
                break;
            }
        }
        Ok(all - bytes.len())
    }

    /// Moves plain bytes into `out`. Returns their number; zero if there are none.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        // A failure says that nothing waits, or that the peer has closed its direction.
        self.connection.reader().read(out).unwrap_or(0)
    }

    /// Encrypts bytes; they are in the output then.
    pub fn encrypt(&mut self, bytes: &[u8]) {
        let written = self.connection.writer().write_all(bytes);
        written.expect("the buffer has no limit");
    }

    /// Moves the output to the end of `out`: messages of a handshake, encrypted bytes, alerts.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let written = self.connection.write_tls(out);
            written.expect("memory takes all bytes");
        }
    }

    /// Ends our direction: `close_notify` is in the output then.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether the handshake goes on.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the peer has closed its direction.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// What was agreed; `None` during the handshake.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        if self.is_handshaking() {
            return None;
        }
        let suite = self.connection.negotiated_cipher_suite()?.suite();
        let certificates = self.connection.peer_certificates();
        let own = certificates.and_then(<[_]>::first);
        Some(Session {
            version: match self.connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "1.3",
                _ => "unknown",
            },
            cipher: suite
                .as_str()
                .unwrap_or("unknown")
                .replacen("TLS13_", "TLS_", 1),
            peer: own.map(|certificate| certificate_name(certificate).unwrap_or_default()),
            identity: own.map(|certificate| certificate_identity(certificate).into()),
        })
    }
}
