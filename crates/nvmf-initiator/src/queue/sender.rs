//! Sending task of a connection. One send is in flight at a time; the next batch collects meanwhile.

use std::rc::Rc;

use io::{Payload, SendBatch};

use super::{Data, Shared};
use crate::error::Error;
use crate::link::Link;
use session::digest::crc32c;

/// Sends batches until the connection ends.
pub(super) async fn run(queue: Rc<Shared>, link: Rc<Link>) {
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

/// Appends `len` bytes of outgoing data from `offset` on, and with `digest` their digest.
pub(super) fn put_data(batch: &mut SendBatch, data: &Data, offset: u32, len: u32, digest: bool) {
    let (offset, len) = (offset as usize, len as usize);
    let Some(bytes) = data.outgoing().map(|all| &all[offset..offset + len]) else {
        return;
    };
    match data {
        Data::Out(buf) => batch.put_payload(Payload::shared(buf.clone()).sub(offset, len)),
        _ => batch.put(bytes),
    }
    if digest {
        batch.put(&crc32c(bytes).to_le_bytes());
    }
}
