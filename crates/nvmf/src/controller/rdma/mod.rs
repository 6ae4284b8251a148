//! NVMe/RDMA: connections of the target over queue pairs.
//!
//! | module | owns |
//! |---|---|
//! | `accept` | connection requests and their rejections |
//! | [`framing`] | work requests: replies, data by WRITE, READs of data |
//! | `receive` | from messages to commands |
//!
//! Queue pair, work chains and their posting are those of [`session::rdma`].
//!
//! **Owns** a connection from its request to its end. **Called by** [`super::Target::serve_rdma`]. **Invariants**: one task per connection
//! polls receiver, sender and timer, so that a turn is one wake-up; everything that became ready in a turn is posted with one call; a
//! receive is posted again before the reply that lets the host use it leaves; a host that breaks the protocol is disconnected, because
//! NVMe/RDMA has no termination request.
//!
//! Sections named "RDMA" are of the NVMe RDMA Transport Specification 1.0.

mod accept;
mod framing;
mod receive;

pub(super) use framing::Framing;

use super::common::Common;
use super::config::{PortRole, Transport};
use super::connection::ended;
use super::counters::{CloseReason, ConnectionState};
use super::exchange::Exchange;
use super::framing::AnyFraming;
use super::phase::{Connection, Core};
use super::shared::TargetShared;
use crate::wire::rdma::{CmAccept, CmReject, RejectStatus};
use accept::Offer;
use io::rdma::Incoming;
use receive::receive;
use session::link::Link;
use session::rdma::carrier::RdmaCarrier;
use session::rdma::chain::WorkChain;
use session::rdma::transmit::{Chained, transmit};
use session::turn;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Answers one connection request, and serves the connection until it ends.
pub(super) async fn serve(target: Arc<TargetShared>, mut incoming: Incoming, role: PortRole) {
    let offer = match Offer::judge(&target.config, &incoming) {
        Ok(offer) => offer,
        Err(status) => return refuse(&target, incoming, status),
    };
    let stall = target.config.stall_timeout;
    let admitted = target
        .connections
        .admit(&incoming, ConnectionState::AwaitIcReq, stall);
    let Some(admitted) = admitted.await else {
        return refuse(&target, incoming, RejectStatus::NoResources);
    };
    target.counters.admitted(Transport::Rdma);
    let (link, key) = admitted.into_link(&incoming, target.config.connection_budget);
    let conn = Connection::new(Common::new(target.clone(), (Transport::Rdma, role), link));
    let private = CmAccept::new(offer.entries);
    let limit = target.config.establish_timeout;
    let accepting = incoming.accept(offer.queue_pair(), private.as_bytes());
    let queue_pair = match io::timeout(limit, accepting).await {
        Ok(Ok(queue_pair)) => queue_pair,
        Ok(Err(io::Error::Exhausted(_))) => {
            refuse(&target, incoming, RejectStatus::NoResources);
            return ended(&target, &conn, key, CloseReason::Limit);
        }
        Ok(Err(_)) | Err(_) => return ended(&target, &conn, key, CloseReason::Network),
    };
    let carrier = RdmaCarrier::new(queue_pair);
    let framing = AnyFraming::Rdma(Framing::new(&offer, &carrier));
    conn.core()
        .borrow_mut()
        .await_connect(Exchange::new(framing));
    let sent = transmit(conn.core(), &carrier);
    let why = turn::run(
        conn.core(),
        &carrier,
        receive(&conn, &carrier, offer.entries),
        sent,
    )
    .await;
    carrier.disconnect();
    ended(&target, &conn, key, why);
}

impl Chained for Core {
    fn chain(&mut self) -> Option<(&mut WorkChain, &mut Link<CloseReason>)> {
        let (exchange, common) = self.exchange_mut()?;
        match exchange.framing_mut() {
            AnyFraming::Rdma(rdma) => Some((rdma.chain(), &mut common.link)),
            AnyFraming::Tcp(_) => None,
        }
    }
}

fn refuse(target: &TargetShared, incoming: Incoming, status: RejectStatus) {
    target.counters.rejected(status);
    let counters = &target.connections.counters;
    if counters.log.may_log(io::time::now()) {
        let peer = incoming.peer_addr();
        tracing::warn!(%peer, "connection request over RDMA rejected: {status:?}");
    }
    incoming.reject(CmReject::new(status).as_bytes());
}
