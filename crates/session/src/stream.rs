//! Output of a connection over a byte stream.
//!
//! **Called by** protocols, as the `transmit` of [`crate::turn::run`]. **Invariants**: everything that became ready in a turn leaves
//! with one send.

use crate::carrier::ByteStream;
use crate::signal::Ended;
use crate::turn::Turns;
use io::SendBatch;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

/// Sends what becomes ready, until the stream fails.
pub async fn transmit<C: Turns>(core: &RefCell<C>, stream: &impl ByteStream) -> C::Reason {
    let mut spare = SendBatch::new();
    loop {
        let batch = poll_fn(|_| match core.borrow_mut().link().take_output(&mut spare) {
            Some(batch) => Poll::Ready(batch),
            None => Poll::Pending,
        })
        .await;
        let (result, back) = stream.send(batch).await;
        spare = back;
        match result {
            Ok(()) => sent(&mut *core.borrow_mut()),
            Err(io::Error::TimedOut) => return Ended::SendStall.into(),
            Err(_) => return Ended::Network.into(),
        }
    }
}

fn sent<C: Turns>(core: &mut C) {
    let congested = core.is_congested();
    let link = core.link();
    link.sent();
    if congested {
        // The receiver has had its poll of this turn: it needs another.
        link.waker().wake_by_ref();
    }
}
