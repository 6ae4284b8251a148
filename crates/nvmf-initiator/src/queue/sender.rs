//! Sending task of a connection. One send is in flight at a time; the next batch collects meanwhile.

use std::rc::Rc;

use io::SendBatch;

use super::shared::QueueShared;
use crate::error::Error;
use crate::link::Link;

/// Sends batches until the connection ends.
pub(super) async fn run(queue: Rc<QueueShared>, link: Rc<Link>) {
    let mut spare = SendBatch::new();
    loop {
        queue.send_wanted.notified().await;
        if queue.is_ending() && !queue.terminating.get() {
            return;
        }
        if queue.batch.borrow().is_empty() {
            continue;
        }
        let batch = queue.batch.replace(spare);
        queue.batch_number.set(queue.batch_number.get() + 1);
        let (result, back) = link.stream.send(batch).await;
        spare = back;
        if result.is_err() {
            return queue.fail(Error::Disconnected);
        }
        if queue.is_ending() && queue.batch.borrow().is_empty() {
            return;
        }
        if !queue.batch.borrow().is_empty() {
            queue.send_wanted.notify();
        }
    }
}
