//! Buffers for data that initiators send unasked: immediate data, and unsolicited Data-Out (§4.2.4.2).
//!
//! **Owns** the buffer for the next command's unsolicited data, and the bytes outside of the pool. **Called by** a full feature
//! phase, before it takes a command with such data. **Invariants**: unsolicited data is held of the shard's ledger like any other
//! data. While the ledger has no bytes for it, the receiver waits, unless a command of this connection needs PDUs that follow in
//! the byte stream. Then at most [`EARLY_OUTSIDE_MAX`] bytes lie outside of the pool, and further commands end with TASK SET FULL
//! (SAM-5 5.3.1), which initiators repeat.

use super::transport::PortalTransport;
use crate::limits::EARLY_OUTSIDE_MAX;
use io::IoBuf;
use session::Hold;
use std::cell::Cell;
use std::rc::Rc;

/// Buffers of one connection for unsolicited data.
#[derive(Default)]
pub(crate) struct EarlyBuffers {
    /// For the next command.
    next: Option<Early>,
    /// Bytes outside of the pool.
    outside: Rc<Cell<usize>>,
    /// Whether the receiver waits for the ledger.
    is_waiting: bool,
}

/// Unsolicited data of a command.
pub(crate) enum Early {
    /// In a buffer that takes all of the command's first piece.
    Whole(IoBuf, Hold),
    /// In a buffer for just this data.
    Part(IoBuf, Hold),
    /// Outside of the pool.
    Outside { bytes: Vec<u8>, _counted: Outside },
}

/// Bytes that are counted as outside of the pool until this is dropped.
pub(crate) struct Outside(Rc<Cell<usize>>, usize);

impl Drop for Outside {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// Lengths of the buffers that a command with unsolicited data may get, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct EarlyLen {
    /// Unsolicited data, at most.
    pub(crate) unsolicited: usize,
    /// The command's first piece.
    pub(crate) piece: usize,
}

/// Whether the receiver may take a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has a buffer, or needs none.
    Ready,
    /// It must wait for a later turn.
    Later,
    /// It must be refused, because PDUs that follow it must be received.
    None,
}

impl Early {
    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Early::Whole(buf, _) | Early::Part(buf, _) => buf,
            Early::Outside { bytes, .. } => bytes,
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Early::Whole(buf, _) | Early::Part(buf, _) => buf,
            Early::Outside { bytes, .. } => bytes,
        }
    }
}

impl EarlyBuffers {
    /// Takes the buffer for the next command.
    pub(crate) fn take(&mut self) -> Option<Early> {
        self.next.take()
    }

    /// Whether the receiver waits for the ledger.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Reserves a pool buffer for the next command if there is one now.
    pub(crate) fn reserve(&mut self, transport: &mut PortalTransport, len: EarlyLen) -> bool {
        self.next = in_pool(transport, len.piece).map(|(b, h)| Early::Whole(b, h));
        if self.next.is_none() {
            self.next = in_pool(transport, len.unsolicited).map(|(b, h)| Early::Part(b, h));
        }
        if self.next.is_some() {
            self.stop_waiting(transport);
        }
        self.next.is_some()
    }

    /// Reserves memory outside of the pool, within the limit.
    pub(crate) fn reserve_outside(
        &mut self,
        transport: &mut PortalTransport,
        len: EarlyLen,
    ) -> Room {
        self.stop_waiting(transport);
        if self.outside.get() + len.unsolicited > EARLY_OUTSIDE_MAX {
            return Room::None;
        }
        self.next = Some(self.outside(len.unsolicited));
        Room::Ready
    }

    /// Waits in the ledger's queue for bytes for the next command.
    pub(crate) fn reserve_later(&mut self, transport: &mut PortalTransport, len: EarlyLen) -> Room {
        let len = len.unsolicited;
        self.is_waiting = true;
        let Some(hold) = transport.link_mut().hold(io::buf::capacity_of(len)) else {
            return Room::Later;
        };
        self.is_waiting = false;
        self.next = Some(match transport.link().pool().try_alloc(len) {
            Some(buf) => Early::Part(buf, hold),
            None => self.outside(len),
        });
        Room::Ready
    }

    fn stop_waiting(&mut self, transport: &mut PortalTransport) {
        if std::mem::take(&mut self.is_waiting) {
            transport.link_mut().forget_request();
        }
    }

    fn outside(&self, len: usize) -> Early {
        self.outside.set(self.outside.get() + len);
        Early::Outside {
            bytes: vec![0; len],
            _counted: Outside(self.outside.clone(), len),
        }
    }

    /// A copy of `data` in the smallest memory: of the pool, else outside of it.
    pub(crate) fn copy(&mut self, transport: &PortalTransport, data: &[u8]) -> Early {
        let mut early = match in_pool(transport, data.len()) {
            Some((buf, hold)) => Early::Part(buf, hold),
            None => self.outside(data.len()),
        };
        early.bytes_mut().copy_from_slice(data);
        early
    }
}

fn in_pool(transport: &PortalTransport, len: usize) -> Option<(IoBuf, Hold)> {
    let link = transport.link();
    let hold = link.account().try_hold(io::buf::capacity_of(len))?;
    Some((link.pool().try_alloc(len)?, hold))
}
