//! Sending task of a connection. One send is in flight at a time; the next batch collects meanwhile.

use super::connection::ConnectionShared;
use super::error::Error;
use io::SendBatch;
use std::rc::Rc;

/// Sends the batches of a connection until the session ends.
pub(super) async fn run(shared: Rc<ConnectionShared>, connection: usize) {
    let mut spare = SendBatch::new();
    loop {
        shared.send_wanted[connection].notified().await;
        loop {
            if shared.is_ending() {
                return;
            }
            if shared.engine.borrow().has_sent(connection) {
                break;
            }
            let batch = shared.engine.borrow_mut().take_batch(connection, spare);
            let (result, back) = shared.streams[connection].send(batch).await;
            spare = back;
            if result.is_err() {
                return shared.end(Error::Disconnected);
            }
        }
    }
}
