//! Certificates and keys, from PEM (RFC 7468) to what a handshake needs.
//!
//! **Called by** the code that configures a protocol. **Invariants**: only TLS 1.3, no resumption, no early data: a session ticket or a
//! replayed first flight has no use for connections that live for days (RFC 9289, section 5). Certificates are checked against the
//! clock of `io`.

use crate::engine::Engine;
use crate::limits::CERTIFICATES_MAX;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why certificates or keys cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// There is no certificate, there are too many, or one of them is malformed.
    #[error("the file has no usable certificate in PEM format")]
    Certificate,
    /// There is no private key, or it is malformed or encrypted.
    #[error("the file has no usable private key in PEM format")]
    Key,
    /// The certificates of authorities cannot be used.
    #[error("the certificates of the authority cannot be used: {0}")]
    Authority(String),
    /// Certificate and key do not fit, or the key has an unsupported type.
    #[error("certificate and key cannot be used: {0}")]
    Mismatch(rustls::Error),
    /// The name of a server is no name.
    #[error("{0:?} is no name of a server")]
    ServerName(String),
}

/// A certificate with those of its authorities, and its private key, both in PEM format.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The certificates, the own one first.
    pub certificate: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
}

impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// The clock of `io`.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = Duration::from_millis(io::time::wall_clock_ms());
        Some(UnixTime::since_unix_epoch(now))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let all = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX + 1);
    let all: Vec<_> = all
        .collect::<Result<_, _>>()
        .map_err(|_| ConfigError::Certificate)?;
    match (1..=CERTIFICATES_MAX).contains(&all.len()) {
        true => Ok(all),
        false => Err(ConfigError::Certificate),
    }
}

/// The first certificate of a file in PEM format, in DER (X.690). Errors: `Certificate`.
pub fn first_certificate(pem: &[u8]) -> Result<Vec<u8>, ConfigError> {
    let first = certificates(pem)?.into_iter().next();
    first
        .map(|certificate| certificate.to_vec())
        .ok_or(ConfigError::Certificate)
}

fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| ConfigError::Key)
}

fn authorities(pem: &[u8]) -> Result<Arc<RootCertStore>, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        let added = roots.add(certificate);
        added.map_err(|e| ConfigError::Authority(e.to_string()))?;
    }
    Ok(Arc::new(roots))
}

/// A server's end: makes an [`Engine`] for each connection.
#[derive(Clone)]
pub struct Acceptor(Arc<ServerConfig>);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Acceptor {
    /// A server with this identity for the application protocol `alpn` (RFC 7301). With `client_ca` (PEM), clients are asked for
    /// a certificate of one of these authorities; a client without a certificate is let in, one with a certificate of another authority is not.
    /// Errors: `Certificate`, `Key`, `Authority`, `Mismatch`.
    pub fn new(
        identity: Identity<'_>,
        client_ca: Option<&[u8]>,
        alpn: &[u8],
    ) -> Result<Self, ConfigError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_details(provider.clone(), Arc::new(Clock))
            .with_protocol_versions(&[&TLS13])
            .map_err(ConfigError::Mismatch)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = authorities(pem)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| ConfigError::Authority(e.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(certificates(identity.certificate)?, key(identity.key)?)
            .map_err(ConfigError::Mismatch)?;
        config.alpn_protocols = vec![alpn.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Self(Arc::new(config)))
    }

    /// The configuration, for streams of another runtime than that of `io`.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.0.clone()
    }

    /// The engine of a new connection. Errors: `Mismatch` if the configuration cannot be used after all.
    pub fn engine(&self) -> Result<Engine, ConfigError> {
        let connection = ServerConnection::new(self.0.clone()).map_err(ConfigError::Mismatch)?;
        Ok(Engine::new(connection.into()))
    }
}

/// A client's end: makes an [`Engine`] for each connection.
#[derive(Clone)]
pub struct Connector(Arc<ClientConfig>);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// A client that trusts servers with certificates of these authorities (PEM), and shows its own identity, if it has one, to servers that
    /// ask for it. Errors: those of [`Acceptor::new`].
    pub fn new(
        server_ca: &[u8],
        identity: Option<Identity<'_>>,
        alpn: &[u8],
    ) -> Result<Self, ConfigError> {
        let provider = provider();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(authorities(server_ca)?, provider.clone())
                .build()
                .map_err(|e| ConfigError::Authority(e.to_string()))?;
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Clock))
            .with_protocol_versions(&[&TLS13])
            .map_err(ConfigError::Mismatch)?
            .with_webpki_verifier(verifier);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(certificates(identity.certificate)?, key(identity.key)?)
                .map_err(ConfigError::Mismatch)?,
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The engine of a new connection to the server of this name or address. Errors: `ServerName`, `Mismatch`.
    pub fn engine(&self, server: &str) -> Result<Engine, ConfigError> {
        let name = ServerName::try_from(server.to_owned())
            .map_err(|_| ConfigError::ServerName(server.to_owned()))?;
        let connection =
            ClientConnection::new(self.0.clone(), name).map_err(ConfigError::Mismatch)?;
        Ok(Engine::new(connection.into()))
    }
}
