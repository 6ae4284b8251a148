//! Position of the receiver in the byte stream.
//!
//! **Owns** the PDU whose data segment is arriving, and the place that its data is for. **Called by** the receiver, which moves
//! on from PDU to PDU, and by a full feature phase whose command ends while its data arrives.

use crate::wire::Bhs;
use crate::wire::request::{DataOut, Request};
use crate::wire::response::RejectReason;
use session::digest::Crc32c;

/// Position in the byte stream.
pub(crate) enum Position {
    /// At the beginning of a PDU.
    Header,
    /// Within a data segment.
    Data(Incoming),
    /// At the padding and the digest that follow a data segment.
    Trailer(Incoming),
}

/// A PDU whose data segment is arriving.
pub(crate) struct Incoming {
    pub(crate) bhs: Bhs,
    /// Bytes of the data segment that have not arrived.
    pub(crate) missing: usize,
    /// Bytes of padding and digest.
    pub(crate) trailer: usize,
    pub(crate) digest: Crc32c,
    pub(crate) destination: Destination,
}

/// What a PDU is, checked once, and where its data segment belongs.
pub(crate) enum Destination {
    /// Immediate data of the command in this slot, from byte `at` of its buffer.
    Command { slot: usize, at: usize },
    /// A Data-Out PDU for the command in this slot, from byte `at` of its buffer.
    DataOut {
        slot: usize,
        at: usize,
        pdu: DataOut,
    },
    /// Any other request of full feature phase.
    Request(Result<Request, RejectReason>, Vec<u8>),
    /// A PDU before full feature phase.
    Login(Vec<u8>),
    /// The data is dropped.
    Nothing,
}

impl Destination {
    /// Memory for the `len` bytes of data of a request that is not a command.
    pub(crate) fn of_request(request: Result<Request, RejectReason>, len: u32) -> Destination {
        Destination::Request(request, Vec::with_capacity(len as usize))
    }

    /// The command's slot and the offset in its buffer, if the data is for a command.
    pub(crate) fn command(&self) -> Option<(usize, usize)> {
        match self {
            Destination::Command { slot, at } | Destination::DataOut { slot, at, .. } => {
                Some((*slot, *at))
            }
            Destination::Request(..) | Destination::Login(_) | Destination::Nothing => None,
        }
    }

    /// `n` bytes of data for a command have arrived.
    pub(crate) fn advance(&mut self, n: usize) {
        if let Destination::Command { at, .. } | Destination::DataOut { at, .. } = self {
            *at += n;
        }
    }
}

impl Position {
    /// The command in this slot is gone: data that still arrives for it is dropped.
    pub(crate) fn disown(&mut self, gone: usize) {
        if let Position::Data(i) | Position::Trailer(i) = self
            && i.destination
                .command()
                .is_some_and(|(slot, _)| slot == gone)
        {
            i.destination = Destination::Nothing;
        }
    }
}
