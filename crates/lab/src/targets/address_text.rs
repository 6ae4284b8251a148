//! Parts that addresses of several kinds have: `HOST:PORT`, and switches in a query.

use crate::{Error, Result};
use std::net::{SocketAddr, ToSocketAddrs};

/// The socket address of `HOST:PORT`. Errors: `Target` if the name cannot be resolved.
pub(super) fn resolve(host: &str) -> Result<SocketAddr> {
    let found = host.to_socket_addrs();
    let mut found = found.map_err(|e| Error::target(host, e))?;
    found
        .next()
        .ok_or_else(|| Error::target(host, "cannot resolve the name"))
}

/// A switch in a query.
pub(super) fn flag(v: &str) -> std::result::Result<bool, String> {
    match v {
        "1" | "on" => Ok(true),
        "0" | "off" => Ok(false),
        _ => Err(format!("expected 0 or 1, found {v:?}")),
    }
}
