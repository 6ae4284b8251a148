//! Connections over RDMA (iSER): their begin, and PDUs from messages to the phase.
//!
//! **Owns** the messages that were not dispatched yet. **Called by** [`crate::portal::Target::serve_rdma`] and by the turns of a connection.
//! **Invariants**: the sizes of a queue pair follow from limits of ours, so that an initiator decides no allocation; a PDU is in one message,
//! and a message that is no PDU ends the connection before any part of it takes effect; a receive is posted again when its message
//! was dispatched, so that an initiator that sends more than is taken waits for receives.

use super::{Connection, Core, Phase};
use crate::limits::{ISER_AHS_MAX, ISER_OTHER_PDUS, ISER_READS_MAX, ISER_RECV_DATA_MAX};
use crate::portal::config::Config;
use crate::portal::counters::{CloseReason, ConnectionState};
use crate::portal::early::Room;
use crate::portal::framing::{AnyFraming, IserFraming};
use crate::portal::incoming::Incoming;
use crate::portal::shared::PortalShared;
use crate::portal::transport::PortalTransport;
use crate::wire::bhs::BHS_LEN;
use crate::wire::decode::{Decoded, decode};
use crate::wire::iser::{Capabilities, ISER_HEADER_LEN, IserHeader};
use crate::wire::request::Request;
use io::IoBuf;
use io::rdma::{self, QueuePair, QueuePairConfig, Received};
use session::digest::Crc32c;
use session::link::Link;
use session::rdma::arrived::{Arrivals, RdmaReason, take_arrivals};
use session::rdma::carrier::RdmaCarrier;
use session::rdma::chain::WorkChain;
use session::rdma::transmit::{Chained, transmit};
use session::turn;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Messages of one connection that were not dispatched.
#[derive(Default)]
struct Receiver {
    arrived: VecDeque<Received>,
}

impl Receiver {
    /// Takes all events of the queue pair, and dispatches the messages. Returns why the connection ends, if it does.
    fn turn(
        &mut self,
        core: &mut Core,
        carrier: &RdmaCarrier,
        cx: &mut Context<'_>,
    ) -> Poll<CloseReason> {
        let ended = take_arrivals(core, carrier, &mut self.arrived, cx);
        self.dispatch(core);
        ended
    }

    /// Dispatches messages, until there are none, too much lies unsent, or a buffer is missing.
    fn dispatch(&mut self, core: &mut Core) {
        while let Some(message) = self.arrived.front() {
            let t = &core.transport;
            if t.is_closing() {
                return self.arrived.clear();
            }
            if core.is_reinstating() || t.is_congested() || t.link().ending().is_some() {
                return;
            }
            if !core.message(message) {
                // The ledger makes a turn when it has bytes for the command.
                return;
            }
            self.arrived.pop_front();
        }
    }
}

impl Core {
    /// Dispatches a message. False if it must wait for a buffer.
    fn message(&mut self, message: &[u8]) -> bool {
        let (memory, pdu) = match IserHeader::parse(message) {
            Ok(parts) => parts,
            Err(e) => return self.malformed(e.words()),
        };
        let header = match decode(pdu, self.transport.rules()) {
            Ok(Decoded::Header(header)) => header,
            Ok(Decoded::NeedMore(_)) => return self.malformed("a message without a whole header"),
            Err(e) => {
                self.undecodable(e, pdu);
                return true;
            }
        };
        // Padding may be missing: Linux sends none.
        let end = header.len + header.data_len as usize;
        if !(end..=end + header.trailer).contains(&pdu.len()) {
            return self.malformed("a message of another length than its PDU");
        }
        let request = Request::parse(&header.bhs);
        let room = self.reserve_early(&header, &request);
        if room == Room::Later {
            return false;
        }
        if let Some(iser) = self.transport.iser_mut() {
            iser.set_advertised(memory);
        }
        let ahs = &pdu[BHS_LEN..BHS_LEN + header.ahs_len];
        let mut destination = self.route(&header, ahs, request, room);
        self.deposit(&mut destination, &pdu[header.len..end]);
        let whole = Incoming {
            bhs: header.bhs,
            missing: 0,
            trailer: 0,
            digest: Crc32c::new(),
            destination,
        };
        self.pdu_arrived(whole, true);
        true
    }

    fn malformed(&mut self, complaint: &'static str) -> bool {
        self.transport.complain(complaint);
        self.end(CloseReason::Protocol);
        true
    }
}

impl Arrivals for Core {
    fn arrived(&mut self, bytes: usize) {
        Core::arrived(self, bytes);
    }

    fn data_read(&mut self, slot: usize, buf: IoBuf) {
        if let Some(iser) = self.transport.iser_mut() {
            iser.chain().read_ended();
        }
        if let Phase::FullFeature(f) = &mut self.phase {
            let next = f.data_read(&mut self.transport, slot, buf);
            self.go_on(next);
        }
    }
}

impl Chained for Core {
    fn chain(&mut self) -> Option<(&mut WorkChain, &mut Link<CloseReason>)> {
        self.transport.chain()
    }
}

impl RdmaReason for CloseReason {
    const PROTOCOL: CloseReason = CloseReason::Protocol;
    const DEVICE: CloseReason = CloseReason::Device;
    const MEMORY_ACCESS: CloseReason = CloseReason::MemoryAccess;
}

/// The sizes of a queue pair: receives for the command window and for other requests, room for a READ, or a WRITE and a message, for each.
fn sizes(config: &Config) -> QueuePairConfig {
    let window = u16::try_from(config.command_window).unwrap_or(u16::MAX);
    let receives = window.saturating_add(ISER_OTHER_PDUS);
    let headers = (ISER_HEADER_LEN + BHS_LEN + ISER_AHS_MAX) as u32;
    QueuePairConfig {
        receives,
        receive_len: headers + ISER_RECV_DATA_MAX,
        sends: receives.saturating_mul(3),
        reads_out: ISER_READS_MAX,
        // An initiator has no memory of ours to read.
        reads_in: 0,
        ..QueuePairConfig::default()
    }
}

/// Answers one connection request, and serves the connection until it ends.
pub(crate) async fn serve_rdma(shared: Arc<PortalShared>, mut incoming: rdma::Incoming) {
    let all = &shared.connections;
    let stall = shared.config.stall_timeout;
    let admitted = all.admit(&incoming, ConnectionState::Login, stall).await;
    let Some(admitted) = admitted else {
        return refuse(&shared, incoming, "too many connections");
    };
    let (link, key) = admitted.into_link(&incoming, shared.config.connection_budget);
    let announced = Capabilities::parse(incoming.private_data());
    let why = match accept(&shared, &mut incoming, announced).await {
        Ok(queue_pair) => {
            let carrier = RdmaCarrier::new(queue_pair);
            let framing = IserFraming::new(&carrier, announced.invalidates);
            let framing = AnyFraming::Iser(framing);
            let transport = PortalTransport::new(shared.clone(), link, framing);
            return serve_accepted(&shared, &carrier, transport, key).await;
        }
        Err(why) => why,
    };
    match why {
        CloseReason::Protocol => refuse(&shared, incoming, "the initiator serves no READs"),
        CloseReason::Limit => refuse(&shared, incoming, "no resources of the RDMA device"),
        _ => {}
    }
    drop(link);
    all.ended(key, ConnectionState::Login, why);
    all.closed();
}

/// Accepts a connection request. Errors: `Protocol` without READs, since no write could bring more than immediate data then; `Limit` if the
/// device has no resources; `Network`.
async fn accept(
    shared: &PortalShared,
    incoming: &mut rdma::Incoming,
    announced: Capabilities,
) -> Result<QueuePair, CloseReason> {
    if incoming.reads_allowed() == 0 {
        return Err(CloseReason::Protocol);
    }
    let private = announced.build();
    let accepting = incoming.accept(sizes(&shared.config), &private);
    match io::timeout(shared.config.login_timeout, accepting).await {
        Ok(Ok(queue_pair)) => Ok(queue_pair),
        Ok(Err(io::Error::Exhausted(_))) => Err(CloseReason::Limit),
        Ok(Err(_)) | Err(_) => Err(CloseReason::Network),
    }
}

/// Serves an accepted connection until it ends.
async fn serve_accepted(
    shared: &PortalShared,
    carrier: &RdmaCarrier,
    transport: PortalTransport,
    key: usize,
) {
    let conn = Connection::new(transport);
    let mut receiver = Receiver::default();
    let received = poll_fn(|cx| receiver.turn(&mut conn.core.borrow_mut(), carrier, cx));
    let sent = transmit(&conn.core, carrier);
    let why = turn::run(&conn.core, carrier, received, sent).await;
    carrier.disconnect();
    conn.ended(shared, key, why);
}

/// Rejects a connection request. iSER has no codes for the reason.
fn refuse(shared: &PortalShared, incoming: rdma::Incoming, why: &'static str) {
    if shared.connections.counters.log.may_log(io::time::now()) {
        let peer = incoming.peer_addr();
        tracing::warn!(%peer, why, "connection request over RDMA rejected");
    }
    incoming.reject(&[]);
}
