//! Outgoing PDUs of a connection, as bytes of a stream or as messages (iSER).
//!
//! **Owns** the PDUs that are to be sent next. **Called by** the engine, which adds PDUs, and by the senders, which take them. **Invariants**: a message
//! has one PDU, without digests and padding; payload is not copied.

use super::tasks::{Data, Slot};
use io::{Payload, SendBatch};
use iscsi::wire::Bhs;
use iscsi::wire::bhs::padding;
use iscsi::wire::decode::Rules;
use session::digest::{Crc32c, DIGEST_LEN, crc32c};

/// A PDU over iSER. Its iSER header is made when the memory of its task is exposed.
pub(super) struct Message {
    pub(super) bhs: Bhs,
    /// The data segment.
    pub(super) data: Payload,
    /// The slot of the task that the PDU begins.
    pub(super) task: Option<u16>,
}

/// PDUs that are to be sent next.
pub(super) enum Outgoing {
    /// Bytes of a stream, with the digests that were negotiated.
    Stream(SendBatch, Rules),
    /// Messages.
    Messages(Vec<Message>),
}

impl Outgoing {
    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Outgoing::Stream(batch, _) => batch.is_empty(),
            Outgoing::Messages(messages) => messages.is_empty(),
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        match self {
            Outgoing::Stream(batch, _) => batch.clear(),
            Outgoing::Messages(messages) => messages.clear(),
        }
    }

    /// Adds a PDU without a data segment.
    pub(super) fn put(&mut self, bhs: Bhs) {
        match self {
            Outgoing::Stream(batch, rules) => put_pdu(batch, rules, bhs, &[]),
            Outgoing::Messages(messages) => messages.push(Message {
                bhs,
                data: Payload::zeroes(0),
                task: None,
            }),
        }
    }

    /// Adds a PDU with `len` bytes of a task's data from byte `offset` on. It begins the task in slot `begins`, or no task.
    pub(super) fn put_part(
        &mut self,
        mut bhs: Bhs,
        (slot, begins): (&Slot, Option<u16>),
        (offset, len): (u32, u32),
    ) {
        bhs.set_data_len(len);
        match self {
            Outgoing::Stream(batch, rules) => {
                put_header(batch, rules, &bhs);
                put_data(batch, rules, slot, offset, len);
            }
            Outgoing::Messages(messages) => {
                let whole = payload(&slot.data).filter(|_| len > 0);
                let data = whole.map(|p| p.sub(offset as usize, len as usize));
                messages.push(Message {
                    bhs,
                    data: data.unwrap_or_else(|| Payload::zeroes(0)),
                    task: begins,
                });
            }
        }
    }
}

/// All data that a task sends; `None` if it sends none.
pub(super) fn payload(data: &Data) -> Option<Payload> {
    match data {
        Data::Out(buf) => Some(Payload::shared(buf.clone())),
        Data::Small(bytes) => Some(Payload::from(bytes.to_vec())),
        Data::None | Data::In(_) => None,
    }
}

/// Appends a data segment from a task's data, with padding and digest.
fn put_data(batch: &mut SendBatch, rules: &Rules, slot: &Slot, offset: u32, len: u32) {
    let (offset, len) = (offset as usize, len as usize);
    let Some(bytes) = slot.data.outgoing().map(|all| &all[offset..offset + len]) else {
        return;
    };
    if bytes.is_empty() {
        return;
    }
    match &slot.data {
        Data::Out(buf) => batch.put_payload(Payload::shared(buf.clone()).sub(offset, len)),
        _ => batch.put(bytes),
    }
    put_trailer(batch, rules, bytes);
}

/// Appends a PDU with a short data segment to the batch.
pub(super) fn put_pdu(batch: &mut SendBatch, rules: &Rules, mut bhs: Bhs, data: &[u8]) {
    bhs.set_data_len(data.len() as u32);
    put_header(batch, rules, &bhs);
    if data.is_empty() {
        return;
    }
    batch.put(data);
    put_trailer(batch, rules, data);
}

/// Appends a header and its digest to the batch.
fn put_header(batch: &mut SendBatch, rules: &Rules, bhs: &Bhs) {
    batch.put(&bhs.0);
    if rules.header_digest {
        batch.put(&crc32c(&bhs.0).to_le_bytes());
    }
}

/// Appends padding and digest of the data segment `data` to the batch.
fn put_trailer(batch: &mut SendBatch, rules: &Rules, data: &[u8]) {
    let pad = &[0; 3][..padding(data.len() as u32)];
    if !pad.is_empty() {
        batch.put(pad);
    }
    if rules.data_digest {
        batch.put(&digest(data, pad).to_le_bytes());
    }
}

fn digest(data: &[u8], pad: &[u8]) -> u32 {
    if pad.is_empty() {
        return crc32c(data);
    }
    let mut digest = Crc32c::new();
    digest.update(data);
    digest.update(pad);
    digest.value()
}

/// Whether `trailer`, padding and digest, ends with the digest of `data` and padding.
pub(super) fn digest_matches(trailer: &[u8], data: &[u8]) -> bool {
    let Some((pad, sent)) = trailer.split_last_chunk::<DIGEST_LEN>() else {
        return false;
    };
    u32::from_le_bytes(*sent) == digest(data, pad)
}
