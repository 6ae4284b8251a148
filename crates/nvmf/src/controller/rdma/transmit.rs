//! Sender of a connection: posts what became ready in a turn.
//!
//! **Called by** the turns of a connection, which poll [`transmit`] in every turn. **Invariants**: one call of the device for each turn; several
//! chains may be in flight, since their ends come in order.

use super::carrier::RdmaCarrier;
use crate::controller::counters::CloseReason;
use crate::controller::framing::AnyFraming;
use crate::controller::phase::Connection;
use std::future::poll_fn;
use std::task::Poll;

/// Posts what becomes ready, for ever: the receiver hears of the end.
pub(super) async fn transmit(conn: &Connection, carrier: &RdmaCarrier) -> CloseReason {
    let mut chain = Vec::new();
    poll_fn(|cx| {
        let mut core = conn.core().borrow_mut();
        if let Some((exchange, common)) = core.exchange_mut()
            && let AnyFraming::Rdma(rdma) = exchange.framing_mut()
        {
            let replies = common.link.take_messages();
            rdma.take(&mut chain, replies);
            carrier.queue_pair().post(&mut chain);
        }
        carrier.probe_if_due(cx);
        Poll::Pending
    })
    .await
}
