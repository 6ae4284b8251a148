//! Replies: into a message, and into memory that the client named (RFC 8166, sections 3.4.6 and 3.5).
//!
//! **Called by** the core, for each reply. **Invariants**: an item is placed apart only if it is eligible (RFC 8267), into the write chunk of its
//! number, without its padding; data is written before the message that announces it is sent; a reply that does not fit writes nothing.

use super::framing::RdmaFraming;
use super::memory::{Placement, ReplyMemory};
use crate::limits::RDMA_CREDITS;
use crate::rpc::rdma::chunks::{Chunks, Segment, len_of, written};
use crate::rpc::rdma::{Fault, Kind, RdmaHeader};
use crate::xdr::{Part, Writer, padding};
use io::Payload;
use io::rdma::{Remote, RemoteKey};
use session::output::Output;

/// The parts of a reply.
#[derive(Default)]
struct Parts {
    /// The reply without the items that are placed apart.
    rest: Vec<Payload>,
    rest_len: usize,
    /// Bytes for the client's memory.
    work: Vec<(Payload, Remote)>,
    /// The write chunks with the bytes that are written to each.
    writes: Vec<Vec<Segment>>,
}

impl Parts {
    /// The parts of a reply. `None` if an item is longer than its chunk.
    fn of(reply: Writer, memory: &ReplyMemory) -> Option<Parts> {
        let mut parts = Parts::default();
        let mut chunks = memory.writes.iter();
        // Padding of an item that is placed apart.
        let mut skipped = 0;
        let mut fits = true;
        reply.into_parts(|part| match part {
            Part::Bytes(bytes) => {
                let bytes = &bytes[std::mem::take(&mut skipped)..];
                parts.keep(Payload::from(bytes.to_vec()));
            }
            Part::Payload(payload) => parts.keep(payload),
            Part::Item(payload) => match chunks.next() {
                None => parts.keep(payload),
                Some(chunk) if payload.len() > len_of(chunk) => fits = false,
                Some(chunk) => {
                    skipped = padding(payload.len());
                    parts.writes.push(written(chunk, payload.len()));
                    let mut placement = Placement::new(chunk, &mut parts.work);
                    placement.put(payload);
                }
            },
        });
        parts.writes.extend(chunks.map(|unused| written(unused, 0)));
        fits.then_some(parts)
    }

    fn keep(&mut self, payload: Payload) {
        self.rest_len += payload.len();
        if !payload.is_empty() {
            self.rest.push(payload);
        }
    }
}

impl RdmaFraming {
    /// Longest reply that fits a message, or the memory for it, with the items that are placed apart, bytes.
    pub(in crate::connection) fn reply_max(&self, memory: &ReplyMemory) -> usize {
        let message = self.inline_max.saturating_sub(memory.header_len());
        let apart = memory.writes.iter().map(|chunk| len_of(chunk));
        message.max(memory.whole_len()) + apart.sum::<usize>()
    }

    /// Adds a reply. Errors: it does not fit, and the client was told (`ERR_CHUNK`).
    pub(in crate::connection) fn put_reply(
        &mut self,
        output: &mut Output,
        reply: Writer,
        memory: &ReplyMemory,
    ) -> Result<(), &'static str> {
        self.call_ended();
        let Some(parts) = Parts::of(reply, memory) else {
            self.put_fault(output, memory.xid, Fault::Chunk);
            return Err("a write chunk that is shorter than its item of a reply");
        };
        let Parts {
            rest,
            rest_len,
            mut work,
            writes,
        } = parts;
        let fits_message = memory.header_len() + rest_len <= self.inline_max;
        let mut chunks = Chunks {
            writes,
            ..Chunks::default()
        };
        let (kind, body) = if fits_message {
            chunks.reply = memory.whole.as_ref().map(|whole| written(whole, 0));
            (Kind::Inline(chunks), rest)
        } else if rest_len <= memory.whole_len() {
            let whole = memory.whole.as_deref().unwrap_or_default();
            let mut placement = Placement::new(whole, &mut work);
            rest.into_iter().for_each(|part| placement.put(part));
            chunks.reply = Some(written(whole, rest_len));
            (Kind::Chunked(chunks), Vec::new())
        } else {
            self.put_fault(output, memory.xid, Fault::Chunk);
            return Err("a reply that is longer than a message and the memory for it");
        };
        for (payload, to) in work {
            self.chain().write(output, payload, to);
        }
        let header = RdmaHeader {
            xid: memory.xid,
            credits: RDMA_CREDITS.into(),
            kind,
        };
        let mut message = header.encode();
        for part in body {
            let start = message.len();
            message.resize(start + part.len(), 0);
            part.copy_to(&mut message[start..]);
        }
        let key = memory.key.filter(|_| self.invalidates).map(RemoteKey);
        self.chain().send(output, message, key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(len: u32, address: u64) -> Segment {
        Segment {
            key: 3,
            len,
            address,
        }
    }

    fn reply() -> Writer {
        let mut writer = Writer::new();
        writer.u32(1);
        writer.item(vec![7; 5].into());
        writer.u32(2);
        writer.payload(vec![8; 6].into());
        writer.item(vec![9; 4].into());
        writer
    }

    fn lens(chunks: &[Vec<Segment>]) -> Vec<Vec<u32>> {
        let of = |chunk: &Vec<Segment>| chunk.iter().map(|s| s.len).collect();
        chunks.iter().map(of).collect()
    }

    #[test]
    fn items_go_to_the_chunks_of_their_number_without_padding() {
        let memory = ReplyMemory {
            writes: vec![
                vec![segment(2, 100), segment(9, 200)],
                vec![segment(4, 300)],
                vec![segment(4, 400)],
            ],
            ..ReplyMemory::default()
        };
        let parts = Parts::of(reply(), &memory).unwrap();
        assert_eq!(
            lens(&parts.writes),
            [vec![2, 3], vec![4], vec![0]],
            "a chunk that is not needed comes back empty"
        );
        let places: Vec<_> = parts
            .work
            .iter()
            .map(|(p, to)| (to.address, p.len()))
            .collect();
        assert_eq!(places, [(100, 2), (200, 3), (300, 4)]);
        // Two numbers, three lengths, the payload that is no item, and its padding.
        assert_eq!(parts.rest_len, 2 * 4 + 3 * 4 + 6 + 2);
    }

    #[test]
    fn without_chunks_everything_stays_together() {
        let whole = reply().len();
        let parts = Parts::of(reply(), &ReplyMemory::default()).unwrap();
        assert_eq!((parts.rest_len, parts.work.len()), (whole, 0));
    }

    #[test]
    fn an_item_that_is_longer_than_its_chunk_does_not_fit() {
        let memory = ReplyMemory {
            writes: vec![vec![segment(4, 100)]],
            ..ReplyMemory::default()
        };
        assert!(Parts::of(reply(), &memory).is_none());
    }
}
