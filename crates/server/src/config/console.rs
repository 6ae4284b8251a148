//! The web console in the configuration: `[console]`.

use super::checker::{Checker, Result};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

/// `[console]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleConfig {
    /// Address of the HTTPS port.
    pub listen: SocketAddr,
    /// Certificate and key in PEM format; none for a certificate that the server makes for itself.
    pub identity: Option<ConsoleIdentity>,
    /// Directory of stored reports; none for `reports` in the state directory.
    pub reports: Option<PathBuf>,
}

/// Files with the console's certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleIdentity {
    /// The certificate, then those of authorities.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConsole {
    listen: Spanned<String>,
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    reports: Option<PathBuf>,
}

impl Checker<'_> {
    pub(super) fn console(&self, raw: Option<RawConsole>) -> Result<Option<ConsoleConfig>> {
        let Some(raw) = raw else { return Ok(None) };
        let identity = match (raw.certificate, raw.key) {
            (Some(certificate), Some(key)) => Some(ConsoleIdentity {
                certificate: self.resolve(certificate.get_ref()),
                key: self.resolve(key.get_ref()),
            }),
            (None, None) => None,
            (Some(alone), None) => return self.fail(alone.span(), "expected `key` beside it"),
            (None, Some(alone)) => {
                return self.fail(alone.span(), "expected `certificate` beside it");
            }
        };
        Ok(Some(ConsoleConfig {
            listen: self.address(&raw.listen)?,
            identity,
            reports: raw.reports.map(|dir| self.resolve(&dir)),
        }))
    }
}
