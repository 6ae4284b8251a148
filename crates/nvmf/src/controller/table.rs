//! Table of parked commands: commands that wait for a buffer, for data, for the other half of a pair, or for the backend.
//!
//! **Owns** the parked commands of one connection and the identifiers of all commands without a reply. **Called by** the
//! exchange and by the handlers. **Invariants**: TTAG is the slot, so finding a command takes no search; commands that are in
//! the table when their connection ends are abandoned.

use super::command::Command;
use crate::wire::command::Cid;
use crate::wire::status::Status;
use io::IoBuf;
use io::time::Instant;
use slab::Slab;

/// A command that waits.
pub(super) struct Parked {
    pub(super) command: Command,
    pub(super) awaiting: Awaiting,
    /// The status that the command ends with as soon as none of its data is on its way.
    pub(super) aborted: Option<Status>,
}

/// What a parked command waits for.
pub(super) enum Awaiting {
    /// The budget (a Read), or the budget and a buffer of `len` bytes (data from the host).
    Deferred { len: usize },
    /// Data from the host.
    Transfer(Transfer),
    /// The other half of a fused pair.
    Fused,
    /// The backend.
    Executing,
}

/// Data on its way from the host.
pub(super) struct Transfer {
    /// `None` while the socket has it.
    buf: Option<IoBuf>,
    received: usize,
    len: usize,
    /// When all of the data must be here. Parts that arrive do not move the deadline.
    due: Instant,
    /// A data digest did not match.
    is_damaged: bool,
    /// Where the PDU that is being received began, for its digest.
    pdu_start: usize,
}

impl Transfer {
    /// `len` bytes for `buf`, which must be here by `due`.
    pub(super) fn new(buf: IoBuf, len: usize, due: Instant) -> Transfer {
        Transfer {
            buf: Some(buf),
            received: 0,
            len,
            due,
            is_damaged: false,
            pdu_start: 0,
        }
    }

    /// Bytes that were asked for.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that have arrived.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// The data of another PDU begins.
    pub(super) fn begin_pdu(&mut self) {
        self.pdu_start = self.received;
    }

    /// Copies bytes that had to be received elsewhere. Returns whether the buffer is here to take them.
    pub(super) fn put(&mut self, data: &[u8]) -> bool {
        let Some(buf) = &mut self.buf else {
            return false;
        };
        buf[self.received..self.received + data.len()].copy_from_slice(data);
        self.received += data.len();
        true
    }

    /// Lends the buffer to the socket. Returns it and the position of the first byte that is missing.
    pub(super) fn lend(&mut self) -> Option<(IoBuf, usize)> {
        Some((self.buf.take()?, self.received))
    }

    /// The socket returns the buffer with `n` more bytes in it.
    pub(super) fn put_back(&mut self, buf: IoBuf, n: usize) {
        self.buf = Some(buf);
        self.received += n;
    }

    /// Bytes of the PDU that is being received, as far as they are here.
    pub(super) fn pdu_bytes(&self) -> Option<&[u8]> {
        let buf = self.buf.as_ref()?;
        Some(&buf[self.pdu_start..self.received])
    }

    /// A data digest did not match.
    pub(super) fn mark_damaged(&mut self) {
        self.is_damaged = true;
    }

    /// The data, or `None` if it is damaged.
    pub(super) fn into_data(self) -> Option<IoBuf> {
        self.buf.filter(|_| !self.is_damaged)
    }
}

/// The identifiers of commands that have no reply yet.
#[derive(Default)]
struct CidSet(Option<Box<[u64; 1024]>>);

impl CidSet {
    fn contains(&self, cid: Cid) -> bool {
        let at = usize::from(cid.0);
        self.0
            .as_ref()
            .is_some_and(|bits| bits[at / 64] >> (at % 64) & 1 == 1)
    }

    fn insert(&mut self, cid: Cid) {
        let at = usize::from(cid.0);
        self.0.get_or_insert_with(|| Box::new([0; 1024]))[at / 64] |= 1 << (at % 64);
    }

    fn remove(&mut self, cid: Cid) {
        let at = usize::from(cid.0);
        if let Some(bits) = &mut self.0 {
            bits[at / 64] &= !(1 << (at % 64));
        }
    }
}

/// The parked commands of one connection.
#[derive(Default)]
pub(super) struct CommandTable {
    parked: Slab<Parked>,
    cids: CidSet,
}

impl CommandTable {
    /// Parked commands.
    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }

    /// Whether a command without a reply has this identifier.
    #[inline]
    pub(super) fn has_cid(&self, cid: Cid) -> bool {
        self.cids.contains(cid)
    }

    /// A command that waits outside of the table has this identifier.
    pub(super) fn insert_cid(&mut self, cid: Cid) {
        self.cids.insert(cid);
    }

    /// The command that waits outside of the table with this identifier ends.
    pub(super) fn remove_cid(&mut self, cid: Cid) {
        self.cids.remove(cid);
    }

    /// Parks a command. Returns its slot.
    #[inline]
    pub(super) fn park(&mut self, command: Command, awaiting: Awaiting) -> usize {
        self.cids.insert(command.cid());
        self.parked.insert(Parked {
            command,
            awaiting,
            aborted: None,
        })
    }

    /// Takes a parked command out of the table.
    #[inline]
    pub(super) fn unpark(&mut self, slot: usize) -> Option<Parked> {
        let parked = self.parked.try_remove(slot)?;
        self.cids.remove(parked.command.cid());
        Some(parked)
    }

    /// The parked command in a slot.
    pub(super) fn get(&self, slot: usize) -> Option<&Parked> {
        self.parked.get(slot)
    }

    /// The parked command in a slot.
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Parked> {
        self.parked.get_mut(slot)
    }

    /// The parked command with this identifier, and its slot.
    pub(super) fn find(&mut self, cid: Cid) -> Option<(usize, &mut Parked)> {
        self.parked.iter_mut().find(|(_, p)| p.command.cid() == cid)
    }

    /// The data of a slot that is on its way.
    #[inline]
    pub(super) fn transfer(&mut self, slot: usize) -> Option<&mut Transfer> {
        match self.parked.get_mut(slot).map(|p| &mut p.awaiting) {
            Some(Awaiting::Transfer(t)) => Some(t),
            _ => None,
        }
    }

    /// When the first of the transfers must have ended; `None` without transfers.
    pub(super) fn first_due(&self) -> Option<Instant> {
        let due = |p: &Parked| match &p.awaiting {
            Awaiting::Transfer(t) => Some(t.due),
            _ => None,
        };
        self.parked.iter().filter_map(|(_, p)| due(p)).min()
    }
}

impl Drop for CommandTable {
    /// The connection ends: nothing is owed to its host any longer.
    fn drop(&mut self) {
        for parked in self.parked.drain() {
            parked.command.abandon();
        }
    }
}
