//! Sender of a connection over RDMA: posts what became ready in a turn.
//!
//! **Called by** the turns of a connection, which poll [`transmit`] in every turn. **Invariants**: one call of the device for each turn; several
//! chains may be in flight, since their ends come in order.

use super::carrier::RdmaCarrier;
use super::chain::WorkChain;
use crate::link::Link;
use crate::turn::Turns;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

/// A connection whose output is a work chain.
pub trait Chained: Turns {
    /// The chain, and the link whose output counts it; `None` in a phase without output.
    fn chain(&mut self) -> Option<(&mut WorkChain, &mut Link<Self::Reason>)>;
}

/// Posts what becomes ready, for ever: the receiver hears of the end.
pub async fn transmit<C: Chained>(core: &RefCell<C>, carrier: &RdmaCarrier) -> C::Reason {
    let mut posted = Vec::new();
    poll_fn(|cx| {
        if let Some((chain, link)) = core.borrow_mut().chain() {
            let replies = link.take_messages();
            chain.take(&mut posted, replies);
            carrier.queue_pair().post(&mut posted);
        }
        carrier.probe_if_due(cx);
        Poll::Pending
    })
    .await
}
