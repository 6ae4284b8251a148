//! Parts that addresses of several kinds have: `HOST:PORT`, and switches in a query.

use crate::{Error, Result};
use std::net::{SocketAddr, ToSocketAddrs};

/// The socket address of `HOST:PORT`. Errors: `Target` if the name cannot be resolved.
pub(crate) fn resolve(host: &str) -> Result<SocketAddr> {
    let found = host.to_socket_addrs();
    let mut found = found.map_err(|e| Error::target(host, e))?;
    found
        .next()
        .ok_or_else(|| Error::target(host, "cannot resolve the name"))
}

/// The socket address of `HOST` or `HOST:PORT`. Errors: as [`resolve`].
pub(super) fn resolve_or(host: &str, default_port: u16) -> Result<SocketAddr> {
    let named = host.rsplit_once(':').is_some_and(|(host, port)| {
        // A colon in a bare IPv6 address does not begin a port.
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    match named {
        true => resolve(host),
        false => resolve(&format!("{host}:{default_port}")),
    }
}

/// A switch in a query.
pub(super) fn flag(v: &str) -> std::result::Result<bool, String> {
    match v {
        "1" | "on" => Ok(true),
        "0" | "off" => Ok(false),
        _ => Err(format!("expected 0 or 1, found {v:?}")),
    }
}
