//! Framing: the form that PDUs have on a connection's carrier, as bytes of a stream or as messages (iSER, RFC 7145).
//!
//! **Owns** the work chain of a connection over RDMA, and the memory that the present message advertises. **Called by** the transport, for each
//! PDU and for data by remote memory. **Invariants**: over iSER a PDU is one message behind an iSER header; read data goes to the memory
//! that its command advertised, before the response, and data of writes is read from there; the response withdraws the key of its command if the
//! initiator can have that.

use super::config::IscsiTransport;
use crate::limits::LOGIN_DATA_MAX;
use crate::wire::Bhs;
use crate::wire::bhs::{BHS_LEN, padding};
use crate::wire::iser::{Advertised, ISER_HEADER_LEN, IserHeader};
use io::rdma::{Remote, RemoteKey};
use io::{IoBuf, Payload};
use session::output::Output;
use session::rdma::carrier::RdmaCarrier;
use session::rdma::chain::WorkChain;

/// The form of PDUs on one connection.
pub(crate) enum AnyFraming {
    /// Bytes of a stream.
    Tcp,
    /// Messages and remote memory.
    Iser(IserFraming),
}

impl AnyFraming {
    /// The transport.
    pub(crate) fn transport(&self) -> IscsiTransport {
        match self {
            AnyFraming::Tcp => IscsiTransport::Tcp,
            AnyFraming::Iser(_) => IscsiTransport::Iser,
        }
    }
}

/// Messages and remote memory of one connection.
pub(crate) struct IserFraming {
    chain: WorkChain,
    /// Whether messages may withdraw keys of the initiator.
    invalidates: bool,
    /// Memory that the message advertises which is dispatched now.
    advertised: IserHeader,
    /// Longest data segment that the initiator has receives for, bytes.
    data_max: u32,
}

impl IserFraming {
    /// The framing of a connection that was just accepted.
    pub(crate) fn new(carrier: &RdmaCarrier, invalidates: bool) -> IserFraming {
        IserFraming {
            chain: WorkChain::new(carrier),
            invalidates,
            advertised: IserHeader::default(),
            data_max: LOGIN_DATA_MAX,
        }
    }

    /// The work that is not posted yet.
    pub(crate) fn chain(&mut self) -> &mut WorkChain {
        &mut self.chain
    }

    /// Memory that the message advertises which is dispatched now.
    pub(crate) fn advertised(&self) -> IserHeader {
        self.advertised
    }

    /// A message that advertises this memory is dispatched from now on.
    pub(crate) fn set_advertised(&mut self, memory: IserHeader) {
        self.advertised = memory;
    }

    /// Longest data segment that the initiator has receives for, bytes.
    pub(crate) fn data_max(&self) -> u32 {
        self.data_max
    }

    /// The initiator has receives for data segments of at most `most` bytes from now on.
    pub(crate) fn set_data_max(&mut self, most: u32) {
        self.data_max = most;
    }

    /// Adds a message with a PDU. A response withdraws the key of the `memory` that its command advertised.
    pub(crate) fn send(&mut self, output: &mut Output, bhs: &Bhs, data: &[u8], memory: IserHeader) {
        let pad = padding(data.len() as u32);
        let len = ISER_HEADER_LEN + BHS_LEN + data.len() + pad;
        let mut message = Vec::with_capacity(len);
        message.extend_from_slice(&IserHeader::default().build());
        message.extend_from_slice(&bhs.0);
        message.extend_from_slice(data);
        message.resize(len, 0);
        let named = memory.read.or(memory.write);
        let withdrawn = named.filter(|_| self.invalidates);
        let key = withdrawn.map(|m| RemoteKey(m.key));
        self.chain.send(output, message, key);
    }

    /// Adds a WRITE of read data to the memory `to`, `offset` bytes behind its beginning.
    pub(crate) fn write(
        &mut self,
        output: &mut Output,
        payload: Payload,
        (to, offset): (Advertised, u32),
    ) {
        self.chain.write(output, payload, remote(to, offset));
    }

    /// Adds a READ from the memory `from`, `offset` bytes behind its beginning, into `into.0[into.1..]`, for the command in `slot`.
    pub(crate) fn read(
        &mut self,
        slot: usize,
        into: (IoBuf, usize),
        (from, offset): (Advertised, u32),
    ) {
        self.chain.read(slot, into, remote(from, offset));
    }
}

/// A place in the initiator's memory. The address is the initiator's, and its device checks it.
fn remote(memory: Advertised, offset: u32) -> Remote {
    Remote {
        address: memory.address.wrapping_add(u64::from(offset)),
        key: RemoteKey(memory.key),
    }
}
