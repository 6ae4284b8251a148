//! Sent bytes of a connection: one send is in flight at a time, and the next batch collects meanwhile.
//!
//! **Owns** [`run`], the sending task. **Called by** all initiators. **Invariants**: nothing is sent after [`Outbox::is_ended`].

use io::SendBatch;
use io::net::TcpStream;
use io::sync::Notify;

/// What a connection has to send.
pub trait Outbox {
    /// Notified when there is something to send, and when the connection ends.
    fn wanted(&self) -> &Notify;

    /// Whether nothing is to be sent any more.
    fn is_ended(&self) -> bool;

    /// Swaps `batch`, which is empty, for the batch to send. Returns whether there is something to send.
    fn swap(&self, batch: &mut SendBatch) -> bool;

    /// Sending failed.
    fn fail(&self);
}

/// Sends batches until the connection ends.
pub async fn run(outbox: &impl Outbox, stream: &TcpStream) {
    let mut batch = SendBatch::new();
    loop {
        outbox.wanted().notified().await;
        loop {
            if outbox.is_ended() {
                return;
            }
            if !outbox.swap(&mut batch) {
                break;
            }
            let (result, back) = stream.send(batch).await;
            batch = back;
            if result.is_err() {
                return outbox.fail();
            }
        }
    }
}
