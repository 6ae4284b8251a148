//! Waiting for addresses, sockets and locks that are still in use when a server starts.
//!
//! **Owns** the time of this wait. **Called by** [`crate::listen`] and [`crate::process`]. **Invariants**: only "in
//! use" is tried again, for [`BUSY_WAIT_MAX`]; the first failure is logged. Reason: the kernel releases the rings of
//! a killed process after the process has ended, and a listening socket that a ring refers to stays bound until then.

use crate::limits::{BUSY_POLL, BUSY_WAIT_MAX};
use crate::{Error, Result, own_addresses};
use io::linux::{command_name, listener};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Calls `attempt` until its result differs from "in use", or [`BUSY_WAIT_MAX`] has passed; `sleep` is that of the
/// caller's runtime. Errors: those of the last attempt.
pub(crate) async fn until_free<T>(
    mut attempt: impl FnMut() -> Result<T>,
    sleep: impl AsyncFn(Duration),
) -> Result<T> {
    let mut waited = Duration::ZERO;
    loop {
        match attempt() {
            Err(e) if is_taken(&e) && waited < BUSY_WAIT_MAX => {
                if waited.is_zero() {
                    tracing::info!("{e}; trying again for {} s", BUSY_WAIT_MAX.as_secs());
                }
                sleep(BUSY_POLL).await;
                waited += BUSY_POLL;
            }
            result => return result,
        }
    }
}

fn is_taken(e: &Error) -> bool {
    matches!(
        e,
        Error::AddressTaken { .. } | Error::Locked(_) | Error::ControlInUse { .. }
    )
}

/// Listens on `address` of `setting`, inside a tokio runtime. Errors: `Listen`, `AddressTaken`, `AddressAbsent`.
pub(crate) fn bind(address: SocketAddr, setting: &'static str) -> Result<TcpListener> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(|e| refused(address, setting, e.into()))
}

/// The error for an address that this machine does not have. Blocks for files of the kernel.
pub(crate) fn absent(address: SocketAddr, setting: &'static str) -> Error {
    Error::AddressAbsent {
        address,
        setting,
        own: own_addresses::for_people(),
    }
}

/// The error for `address`, of the configuration's `setting`.
pub(crate) fn refused(address: SocketAddr, setting: &'static str, source: io::Error) -> Error {
    match source {
        io::Error::Busy(_) => Error::AddressTaken {
            address,
            setting,
            holder: String::new(),
        },
        io::Error::Unreachable(_) => absent(address, setting),
        source => Error::Listen { address, source },
    }
}

/// Adds the process that holds the address to an error.
pub(crate) fn with_holder(e: Error) -> Error {
    match e {
        Error::AddressTaken {
            address, setting, ..
        } => Error::AddressTaken {
            address,
            setting,
            holder: listener(address).map_or_else(String::new, |pid| {
                format!(" by process {pid} ({})", command_name(pid))
            }),
        },
        e => e,
    }
}
