//! Full feature phase of a discovery session: text requests, pings and logout (§4.3).
//!
//! **Called by** the connection, with each PDU. **Invariants**: every request for a logical unit is rejected.

use super::incoming::Destination;
use super::member::{Held, Member};
use super::transport::PortalTransport;
use crate::wire::decode::Header;
use crate::wire::request::{Ahs, Request};
use crate::wire::response::RejectReason;
use crate::wire::{Bhs, Opcode};
use std::sync::atomic::Ordering;

/// Full feature phase of a discovery session.
pub(crate) struct Discovery {
    member: Member,
}

impl Discovery {
    /// The phase of a connection that has joined a discovery session.
    pub(crate) fn new(member: Member) -> Discovery {
        Discovery { member }
    }

    /// The connection's part in its session.
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// The same, to change it.
    pub(crate) fn member_mut(&mut self) -> &mut Member {
        &mut self.member
    }

    /// Takes a header. Returns where its data segment belongs.
    pub(crate) fn route(
        &mut self,
        transport: &mut PortalTransport,
        header: &Header,
        ahs: &[u8],
        request: Result<Request, RejectReason>,
    ) -> Destination {
        let refused = match request {
            Ok(Request::Scsi(_)) => match Ahs::parse(ahs) {
                Ok(_) => RejectReason::COMMAND_NOT_SUPPORTED,
                Err(reason) => reason,
            },
            Err(reason) if header.bhs.opcode() == Some(Opcode::ScsiCommand) => reason,
            Ok(Request::DataOut(pdu)) => {
                self.member.acknowledged(pdu.exp_stat_sn);
                let counters = &transport.shared().counters;
                counters.discarded_data.fetch_add(1, Ordering::Relaxed);
                return Destination::Nothing;
            }
            request => return Destination::of_request(request, header.data_len),
        };
        self.member.reject(transport, refused, &header.bhs);
        Destination::Nothing
    }

    /// Takes a request that has arrived whole, with its data.
    pub(crate) fn request(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        request: Request,
        data: Vec<u8>,
    ) {
        if let Some((request, data)) = self.member.admit(transport, bhs, request, data) {
            self.perform(transport, bhs, &request, &data);
        }
    }

    /// Performs the held requests whose turn has come.
    pub(crate) fn release_held(&mut self, transport: &mut PortalTransport) {
        for sn in self.member.due() {
            if let Some(Held::Request(bhs, request, data)) = self.member.release(sn) {
                self.perform(transport, &bhs, &request, &data);
            }
        }
    }

    fn perform(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        request: &Request,
        data: &[u8],
    ) {
        self.member.acknowledged_by(request);
        self.member.perform(transport, bhs, request, data);
    }
}
