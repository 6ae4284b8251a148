//! RPC-over-RDMA (RFC 8166): connections over queue pairs.
//!
//! | module | owns |
//! |---|---|
//! | this one | a connection from its request to its end |
//! | `framing` | the state of the transport: credits, work requests, callbacks |
//! | `receive` | from messages to calls, and replies to callbacks |
//! | `pull` | calls whose parts are read from the client's memory |
//! | `reply`, `memory` | replies into messages, and into the client's memory |
//!
//! Queue pair, work chains and their posting are those of [`session::rdma`].
//!
//! **Called by** [`crate::service::Service::serve_rdma`]. **Invariants**: the sizes of a queue pair follow from limits of ours, so that a client
//! decides no allocation; a client has at most [`RDMA_CREDITS`] calls outstanding, or its connection ends; every buffer comes back when the
//! connection ends.

mod framing;
mod memory;
mod pull;
mod receive;
mod reply;

pub(super) use framing::RdmaFraming;
pub(super) use memory::ReplyMemory;

use super::framing::AnyFraming;
use super::{Connection, Core};
use crate::limits::{RDMA_CALLBACKS_MAX, RDMA_CREDITS, RDMA_INLINE_MAX, RDMA_READS_MAX};
use crate::rpc::rdma::private::Properties;
use crate::shared::Shared;
use crate::shared::counters::{CloseReason, ConnectionState};
use io::rdma::{Incoming, QueuePair, QueuePairConfig};
use receive::receive;
use session::link::Link;
use session::rdma::carrier::RdmaCarrier;
use session::rdma::chain::WorkChain;
use session::rdma::transmit::{Chained, transmit};
use session::turn;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Our end of every connection.
const OWN: Properties = Properties {
    // This server exposes no memory.
    invalidates: false,
    sends: RDMA_INLINE_MAX,
    receives: RDMA_INLINE_MAX,
};

/// The sizes of a queue pair: receives for calls and for replies to callbacks, room for the WRITEs and the message of each reply.
fn sizes() -> QueuePairConfig {
    let receives = RDMA_CREDITS + RDMA_CALLBACKS_MAX;
    QueuePairConfig {
        receives,
        receive_len: RDMA_INLINE_MAX,
        sends: 3 * receives,
        reads_out: RDMA_READS_MAX,
        // A client has no memory of ours to read.
        reads_in: 0,
        ..QueuePairConfig::default()
    }
}

/// Answers one connection request, and serves the connection until it ends.
pub(crate) async fn serve_rdma(shared: Arc<Shared>, mut incoming: Incoming) {
    let all = &shared.connections;
    let stall = shared.config.stall_timeout;
    let admitted = all.admit(&incoming, ConnectionState::Connecting, stall);
    let Some(admitted) = admitted.await else {
        return refuse(&shared, incoming, "too many connections");
    };
    let (link, key) = admitted.into_link(&incoming, shared.config.connection_budget);
    let client = Properties::parse(incoming.private_data());
    let why = match accept(&shared, &mut incoming).await {
        Ok(queue_pair) => {
            serve_accepted(&shared, RdmaCarrier::new(queue_pair), (link, key), client).await;
            return all.closed();
        }
        Err(why) => why,
    };
    match why {
        CloseReason::Protocol => refuse(&shared, incoming, "the client serves no READs"),
        CloseReason::Limit => refuse(&shared, incoming, "no resources of the RDMA device"),
        _ => {}
    }
    drop(link);
    all.ended(key, ConnectionState::Connecting, why);
    all.closed();
}

/// Accepts a connection request. Errors: `Protocol` without READs, since no call could be longer than a message then; `Limit` if the device has
/// no resources; `Network`.
async fn accept(shared: &Shared, incoming: &mut Incoming) -> Result<QueuePair, CloseReason> {
    if incoming.reads_allowed() == 0 {
        return Err(CloseReason::Protocol);
    }
    let private = OWN.build();
    let accepting = incoming.accept(sizes(), &private);
    match io::timeout(shared.config.establish_timeout, accepting).await {
        Ok(Ok(queue_pair)) => Ok(queue_pair),
        Ok(Err(io::Error::Exhausted(_))) => Err(CloseReason::Limit),
        Ok(Err(_)) | Err(_) => Err(CloseReason::Network),
    }
}

/// Serves an accepted connection until it ends.
async fn serve_accepted(
    shared: &Arc<Shared>,
    carrier: RdmaCarrier,
    (link, key): (Link<CloseReason>, usize),
    client: Properties,
) {
    let framing = RdmaFraming::new(&carrier, client);
    let framing = AnyFraming::Rdma(Box::new(framing));
    let core = Core::new(shared.clone(), (link, key), framing);
    let connection = Rc::new(Connection {
        carrier,
        core: RefCell::new(core),
    });
    let (core, carrier) = (&connection.core, &connection.carrier);
    let why = turn::run(core, carrier, receive(&connection), transmit(core, carrier)).await;
    carrier.disconnect();
    core.borrow_mut().ended(key, why);
}

impl Chained for Core {
    fn chain(&mut self) -> Option<(&mut WorkChain, &mut Link<CloseReason>)> {
        match &mut self.framing {
            AnyFraming::Stream => None,
            AnyFraming::Rdma(rdma) => Some((rdma.chain(), &mut self.link)),
        }
    }
}

/// Rejects a connection request. RPC-over-RDMA has no codes for the reason.
fn refuse(shared: &Shared, incoming: Incoming, why: &'static str) {
    if shared.connections.counters.log.may_log(io::time::now()) {
        let peer = incoming.peer_addr();
        tracing::warn!(%peer, why, "connection request for NFS over RDMA rejected");
    }
    incoming.reject(&[]);
}
