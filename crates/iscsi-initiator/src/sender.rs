//! Sending task of a connection. One send is in flight at a time; the next batch collects meanwhile.

use super::connection::{ConnectionShared, Link};
use super::error::Error;
use io::SendBatch;
use std::rc::Rc;

/// Sends batches until the connection ends.
pub(super) async fn run(queue: Rc<ConnectionShared>, link: Rc<Link>) {
    let mut spare = SendBatch::new();
    loop {
        queue.send_wanted.notified().await;
        loop {
            if queue.is_ending() {
                return;
            }
            if queue.engine.borrow().batch.is_empty() {
                break;
            }
            let batch = queue.engine.borrow_mut().take_batch(spare);
            let (result, back) = link.stream.send(batch).await;
            spare = back;
            if result.is_err() {
                return queue.fail(Error::Disconnected);
            }
        }
    }
}
