//! Listeners, over rdma-core.
//!
//! **Called by** [`crate::rdma`]. **Invariants**: a connection request gets a channel of its own before anything else of it is looked at.

use super::abi::{self, CmId};
use super::channel::{CmChannel, Watch};
use super::endpoint::LinuxEndpoint;
use super::library::check;
use crate::limits::RDMA_BACKLOG;
use crate::{Error, Result};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A listener.
pub(crate) struct LinuxVerbsListener {
    channel: Arc<CmChannel>,
    id: *mut CmId,
    said: RefCell<Watch>,
}

impl LinuxVerbsListener {
    /// Listens on `addr`. Errors: `Unsupported` without RDMA, `Busy`, `Unreachable`.
    pub(crate) fn listen(addr: SocketAddr) -> Result<(LinuxVerbsListener, SocketAddr)> {
        let channel = CmChannel::open()?;
        let id = channel.new_id()?;
        let listener = LinuxVerbsListener {
            channel,
            id,
            said: RefCell::default(),
        };
        let library = listener.channel.library;
        let at = socket2::SockAddr::from(addr);
        // SAFETY: the call copies the address.
        check(unsafe { (library.rdma_bind_addr)(id, at.as_ptr().cast_mut().cast()) }).map_err(
            |e| match e {
                // The address is of no RDMA device.
                Error::Gone(_) => Error::Unreachable(libc::EADDRNOTAVAIL),
                other => other,
            },
        )?;
        // SAFETY: the identifier is bound.
        check(unsafe { (library.rdma_listen)(id, RDMA_BACKLOG as i32) })?;
        // SAFETY: a bound identifier has its address.
        let local = super::endpoint::address(unsafe { &(*id).src });
        Ok((listener, local))
    }

    pub(crate) fn poll_arrived(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(LinuxEndpoint, Vec<u8>)>> {
        loop {
            while let Some(said) = self.channel.next() {
                match said.event {
                    abi::CM_CONNECT_REQUEST => match LinuxEndpoint::of_request(&said) {
                        Ok(endpoint) => return Poll::Ready(Ok((endpoint, said.private))),
                        Err(error) => {
                            tracing::warn!(%error, "a connection request over RDMA was lost");
                        }
                    },
                    abi::CM_DEVICE_REMOVAL => {
                        return Poll::Ready(Err(Error::Gone(libc::ENODEV)));
                    }
                    _ => {}
                }
            }
            if !self.said.borrow_mut().poll(&self.channel, cx) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for LinuxVerbsListener {
    fn drop(&mut self) {
        // SAFETY: our own identifier, whose events were acknowledged.
        unsafe { (self.channel.library.rdma_destroy_id)(self.id) };
    }
}
