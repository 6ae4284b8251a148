//! Room for data that comes without being asked for: immediate data, and unsolicited Data-Out (§4.2.4.2).
//!
//! **Called by** the receiver, before it takes a command whose data follows unasked. **Invariants**: such data is held of the
//! shard's ledger like any other; while there is no room for it nothing is received, unless a command of this connection
//! waits for what lies behind. Then at most [`EARLY_OUTSIDE_MAX`] bytes lie outside of the pool, and further commands end
//! with TASK SET FULL (SAM-5 5.3.1), which initiators repeat.

use super::connection::Core;
use super::counters::ConnectionState;
use crate::limits::EARLY_OUTSIDE_MAX;
use crate::wire::decode::Header;
use crate::wire::request::Request;
use io::IoBuf;
use session::Hold;
use std::cell::Cell;
use std::rc::Rc;

/// What a connection has for the next command's early data.
#[derive(Default)]
pub(super) struct EarlyRoom {
    next: Option<Early>,
    /// Bytes outside of the pool.
    outside: Rc<Cell<usize>>,
    /// The receiver waits for the ledger.
    is_waiting: bool,
}

/// A command's early data.
pub(super) enum Early {
    /// In a buffer that takes all of the command's first piece.
    Whole(IoBuf, Hold),
    /// In a buffer for just this.
    Part(IoBuf, Hold),
    /// Outside of the pool.
    Outside { bytes: Vec<u8>, _counted: Outside },
}

/// Counts bytes outside of the pool, until it is dropped.
pub(super) struct Outside(Rc<Cell<usize>>, usize);

impl Drop for Outside {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// Whether the receiver may take a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room, or none is needed.
    There,
    /// In a later turn.
    Later,
    /// The command cannot be taken, and what lies behind it must be.
    None,
}

impl Early {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Early::Whole(buf, _) | Early::Part(buf, _) => buf,
            Early::Outside { bytes, .. } => bytes,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Early::Whole(buf, _) | Early::Part(buf, _) => buf,
            Early::Outside { bytes, .. } => bytes,
        }
    }
}

impl EarlyRoom {
    /// What was made room for.
    pub(super) fn take(&mut self) -> Option<Early> {
        self.next.take()
    }

    /// Whether the receiver waits for the ledger.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn outside(&self, len: usize) -> Early {
        self.outside.set(self.outside.get() + len);
        Early::Outside {
            bytes: vec![0; len],
            _counted: Outside(self.outside.clone(), len),
        }
    }
}

impl Core {
    /// Bytes that come unasked with this command, and bytes of its first piece.
    fn early_len(&self, header: &Header) -> Option<(usize, usize)> {
        let Ok(Request::Scsi(c)) = Request::parse(&header.bhs) else {
            return None;
        };
        let ready = c.write
            && matches!(
                self.state(),
                ConnectionState::FullFeature | ConnectionState::LogoutRequested
            );
        if !ready || (header.data_len == 0 && c.last) {
            return None;
        }
        let most = match c.last {
            true => header.data_len,
            false => self.parameters.first_burst,
        };
        let piece = c.expected_len.min(scsi::limits::PIECE_BYTES_MAX);
        Some((most.min(c.expected_len) as usize, piece as usize))
    }

    /// Makes room for the data that comes unasked with the command of this header.
    pub(super) fn early_room(&mut self, header: &Header) -> Room {
        let Some((most, piece)) = self.early_len(header).filter(|(most, _)| *most > 0) else {
            return Room::There;
        };
        self.early.next = self.early_in_pool(piece).map(|(b, h)| Early::Whole(b, h));
        if self.early.next.is_none() {
            self.early.next = self.early_in_pool(most).map(|(b, h)| Early::Part(b, h));
        }
        if self.early.next.is_some() {
            self.stop_waiting();
            return Room::There;
        }
        let others = self.commands.iter().any(|(_, c)| c.awaits_what_follows());
        let alone = self
            .member
            .as_ref()
            .is_none_or(|m| m.session.parameters.max_connections == 1);
        if !others && alone {
            return self.early_later(most);
        }
        self.stop_waiting();
        if self.early.outside.get() + most > EARLY_OUTSIDE_MAX {
            return Room::None;
        }
        self.early.next = Some(self.early.outside(most));
        Room::There
    }

    /// Waits for the ledger, in line unless a command of this connection is in line.
    fn early_later(&mut self, most: usize) -> Room {
        if self.deferred.is_empty() {
            let bytes = io::buf::capacity_of(most);
            self.early.is_waiting = true;
            if let Some(hold) = self.link.hold(bytes) {
                self.early.is_waiting = false;
                self.early.next = Some(match self.link.pool().try_alloc(most) {
                    Some(buf) => Early::Part(buf, hold),
                    None => self.early.outside(most),
                });
                return Room::There;
            }
        }
        Room::Later
    }

    fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.early.is_waiting) {
            self.link.forget_request();
        }
    }

    fn early_in_pool(&mut self, len: usize) -> Option<(IoBuf, Hold)> {
        let hold = self.link.account().try_hold(io::buf::capacity_of(len))?;
        Some((self.link.pool().try_alloc(len)?, hold))
    }

    /// The same data in as little room as there is: of the pool, else outside of it.
    pub(super) fn early_copy(&mut self, data: &[u8]) -> Early {
        let mut early = match self.early_in_pool(data.len()) {
            Some((buf, hold)) => Early::Part(buf, hold),
            None => self.early.outside(data.len()),
        };
        early.bytes_mut().copy_from_slice(data);
        early
    }
}
