//! Requests in the form of the device, and the memory that they use.
//!
//! **Owns** the choice of that memory: copied into the request, a registered slab, or a registration of its own. **Called by** the queue pair.
//! **Invariants**: the memory of a request is held until the request has ended.

use super::abi::{self, SendWr, Sge};
use super::device::{RdmaDevice, Registration};
use crate::buf::{IoBuf, Payload};
use crate::rdma::{Returned, Verb};
use std::sync::Arc;

/// Bytes that are copied into a request instead of being read from registered memory.
pub(super) const INLINE_MAX: u32 = 64;
/// The first number of requests: smaller ones are slots of receives.
pub(super) const SERIAL_FIRST: u64 = 1 << 32;

/// The memory that a posted request uses.
pub(super) enum Held {
    /// The buffer of a READ, after its registration if it has one of its own.
    Into(Option<Registration>, IoBuf),
    /// Bytes that are sent, after their registration if they have one of their own.
    Outgoing(Option<Registration>, Payload),
}

/// The memory that comes back with the end of a request.
pub(super) fn returned(held: Held) -> Returned {
    match held {
        Held::Into(registration, buf) => {
            drop(registration);
            Returned::Buffer(buf)
        }
        Held::Outgoing(registration, payload) => {
            drop(registration);
            drop(payload);
            Returned::Nothing
        }
    }
}

/// The key of a buffer: that of its slab, which is registered once, or, if the process may not lock a whole slab, that of a registration
/// of the buffer alone. Errors: `Exhausted` if the process may not lock the buffer either.
fn key_of(
    device: &Arc<RdmaDevice>,
    buf: &IoBuf,
    access: i32,
) -> crate::Result<(u32, Option<Registration>)> {
    if let Ok(lkey) = buf.lkey(device) {
        return Ok((lkey, None));
    }
    // SAFETY: the caller keeps the buffer beside its registration until the request has ended.
    let registration = unsafe { device.register(buf.as_ptr(), buf.len(), access)? };
    Ok((registration.lkey(), Some(registration)))
}

/// The form of a request for the device. Errors: the memory of a request that cannot be registered.
pub(super) fn prepare(
    device: &Arc<RdmaDevice>,
    serial: u64,
    work: Verb,
) -> std::result::Result<(SendWr, Sge, Held), Returned> {
    let id = SERIAL_FIRST + serial;
    match work {
        Verb::Send {
            head,
            data,
            invalidate,
        } => {
            let mut request = SendWr::new(id, abi::WR_SEND);
            if let Some(key) = invalidate {
                request.opcode = abi::WR_SEND_WITH_INV;
                request.invalidate_rkey = key.0;
            }
            let payload = match data {
                None => Payload::from(head),
                Some(data) => joined(head, &data),
            };
            outgoing(device, request, payload)
        }
        Verb::Write { data, to } => {
            let mut request = SendWr::new(id, abi::WR_RDMA_WRITE);
            request.remote_addr = to.address;
            request.rkey = to.key.0;
            outgoing(device, request, data)
        }
        Verb::Read { into, at, from } => {
            let mut request = SendWr::new(id, abi::WR_RDMA_READ);
            request.remote_addr = from.address;
            request.rkey = from.key.0;
            match key_of(device, &into, abi::ACCESS_LOCAL_WRITE) {
                Ok((lkey, registration)) => {
                    let element = Sge {
                        addr: into[at..].as_ptr() as u64,
                        length: (into.len() - at) as u32,
                        lkey,
                    };
                    Ok((request, element, Held::Into(registration, into)))
                }
                Err(_) => Err(Returned::Buffer(into)),
            }
        }
        Verb::Withdraw { .. } => unreachable!("a withdrawal is no request of the device"),
    }
}

/// One message of two parts, in a buffer of the pool if it has room.
fn joined(mut head: Vec<u8>, data: &Payload) -> Payload {
    let (at, len) = (head.len(), head.len() + data.len());
    match registered_buffer(len) {
        Some(mut buf) => {
            buf[..at].copy_from_slice(&head);
            data.copy_to(&mut buf[at..]);
            Payload::from(buf)
        }
        None => {
            head.resize(len, 0);
            data.copy_to(&mut head[at..]);
            Payload::from(head)
        }
    }
}

/// A buffer of the pool, whose slab is registered once. `None` if the pool has no room, or bytes that are few are copied into their request.
fn registered_buffer(len: usize) -> Option<IoBuf> {
    let is_wanted = len > INLINE_MAX as usize && len <= crate::limits::BUF_LEN_MAX;
    is_wanted.then(|| crate::pool().try_alloc(len)).flatten()
}

/// The payload in a buffer of the pool: memory of a RAM disk or of the process is registered for one request only, which takes longer than
/// a copy. RAM disks are not registered as a whole: that would take all their memory, and keep the device on pages that they gave back.
fn in_registered_memory(payload: Payload) -> Payload {
    if payload.io_buf().is_some() {
        return payload;
    }
    match registered_buffer(payload.len()) {
        Some(mut buf) => {
            payload.copy_to(&mut buf);
            Payload::from(buf)
        }
        None => payload,
    }
}

/// A request that sends bytes: copied into it if they are few, else from the registered slab of a buffer, else from memory that is registered
/// for this request.
fn outgoing(
    device: &Arc<RdmaDevice>,
    mut request: SendWr,
    payload: Payload,
) -> std::result::Result<(SendWr, Sge, Held), Returned> {
    let payload = in_registered_memory(payload);
    let mut element = Sge {
        addr: payload.as_ptr() as u64,
        length: payload.len() as u32,
        lkey: 0,
    };
    let mut registration = None;
    if element.length <= INLINE_MAX {
        request.send_flags |= abi::SEND_INLINE;
    } else if let Some(buf) = payload.io_buf() {
        (element.lkey, registration) = key_of(device, buf, 0).map_err(|_| Returned::Nothing)?;
    } else {
        // SAFETY: the payload is kept beside its registration until the request has ended.
        let registered = unsafe { device.register(payload.as_ptr(), payload.len(), 0) };
        let registered = registered.map_err(|_| Returned::Nothing)?;
        element.lkey = registered.lkey();
        registration = Some(registered);
    }
    let held = Held::Outgoing(registration, payload);
    Ok((request, element, held))
}
