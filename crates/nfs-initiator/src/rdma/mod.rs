//! One connected queue pair of RPC-over-RDMA (RFC 8166): calls in messages, data and long replies through memory that the server may use.
//!
//! | module | owns |
//! |---|---|
//! | this one | the queue pair, credits, and the memory that is exposed for calls |
//! | [`receiver`] | the receiving task: replies, and memory that comes back |
//!
//! **Called by** the creation of sessions with one call at a time, and by the tasks of a session. **Invariants**: at most as many calls are
//! outstanding as the server granted; a key belongs to one call; the caller of a call gets its buffer when the server can use it no longer.

pub(super) mod receiver;

use super::engine::{Engine, Message};
use super::error::{Error, ProtocolError, Result};
use super::limits::{RDMA_DEPTH_MAX, RDMA_READS_SERVED};
use initiator::rdma::ExposedMemory;
use initiator::slots::Data;
use io::rdma::{
    ConnectError, Memory, QueuePair, QueuePairConfig, QueuePairEvent, RdmaInfo, RemoteKey, Verb,
    WorkRequest,
};
use io::{IoBuf, Payload};
use nfs::limits::RDMA_INLINE_MAX;
use nfs::rpc::rdma::chunks::{Chunks, ReadChunk, Segment};
use nfs::rpc::rdma::private::Properties;
use nfs::rpc::rdma::{HEADER_MIN, Kind, RdmaHeader};
use nfs::xdr::{Reader, padding};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Bytes of a header with one chunk in each list.
const HEADER_MAX: usize = HEADER_MIN + 24 + 24 + 20;

/// The memory of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The data of a WRITE.
    Source,
    /// The buffer of a READ.
    Target,
    /// Memory for a long reply.
    Reply,
}

/// A connected queue pair.
pub(super) struct RdmaLink {
    queue_pair: QueuePair,
    /// Longest message that the server receives, bytes.
    inline_max: usize,
    /// Calls that the server granted, and calls without a reply.
    credits: Cell<u32>,
    outstanding: Cell<u32>,
    /// Calls that wait for a credit.
    waiting: RefCell<VecDeque<Message>>,
    exposed: ExposedMemory<Use>,
    /// Memory for long replies that came back, by slot.
    replies: RefCell<BTreeMap<u16, IoBuf>>,
}

impl RdmaLink {
    /// Connects. Fails with `Unreachable` or `NotAccepted`.
    pub(super) async fn open(addr: SocketAddr, invalidates: bool) -> Result<RdmaLink> {
        let config = QueuePairConfig {
            receives: RDMA_DEPTH_MAX,
            receive_len: RDMA_INLINE_MAX,
            sends: 2 * RDMA_DEPTH_MAX,
            reads_out: 0,
            reads_in: RDMA_READS_SERVED,
            ..QueuePairConfig::default()
        };
        let own = Properties {
            invalidates,
            sends: RDMA_INLINE_MAX,
            receives: RDMA_INLINE_MAX,
        };
        let connected = QueuePair::connect(addr, config, &own.build()).await;
        let (queue_pair, private) = connected.map_err(|e| match e {
            ConnectError::Rejected(_) => Error::NotAccepted,
            ConnectError::Failed(e) => Error::Unreachable(e),
        })?;
        let server = Properties::parse(&private);
        Ok(RdmaLink {
            queue_pair,
            inline_max: server.receives.min(RDMA_INLINE_MAX) as usize,
            credits: Cell::new(1),
            outstanding: Cell::new(0),
            waiting: RefCell::default(),
            exposed: ExposedMemory::default(),
            replies: RefCell::default(),
        })
    }

    /// The queue pair.
    pub(super) fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    /// Numbers of the queue pair.
    pub(super) fn info(&self) -> RdmaInfo {
        self.queue_pair.info()
    }

    /// Sends a call of no session. Fails with `Invalid` if it is too long for a message.
    pub(super) fn send(&self, record: &[u8]) -> Result<()> {
        if HEADER_MIN + record.len() > self.inline_max {
            return Err(Error::Invalid("the call is too long for a message"));
        }
        self.outstanding.set(self.outstanding.get() + 1);
        self.post(
            record_number(record),
            Kind::Inline(Chunks::default()),
            &[record],
        );
        Ok(())
    }

    /// Receives the reply to a call of no session, while no memory is exposed.
    pub(super) async fn receive(&self) -> Result<Vec<u8>> {
        loop {
            match self.queue_pair.event().await {
                QueuePairEvent::Received(message) => {
                    let (header, at) = header_of(&message)?;
                    self.replied(header.credits);
                    return match header.kind {
                        Kind::Inline(chunks) if chunks.is_empty() => Ok(message[at..].to_vec()),
                        _ => Err(ProtocolError::Transfer(NOT_A_REPLY).into()),
                    };
                }
                QueuePairEvent::Ended(_) => return Err(Error::Disconnected),
                QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
            }
        }
    }

    /// A reply came, which grants `credits` calls.
    fn replied(&self, credits: u32) {
        self.outstanding
            .set(self.outstanding.get().saturating_sub(1));
        let granted = credits.clamp(1, RDMA_DEPTH_MAX.into());
        self.credits.set(granted);
    }

    /// Sends the engine's calls as far as there are credits. If memory of a call cannot be exposed, the queue pair ends.
    pub(super) fn send_all(&self, engine: &mut Engine, messages: Vec<Message>) {
        self.waiting.borrow_mut().extend(messages);
        while self.outstanding.get() < self.credits.get() {
            let Some(message) = self.waiting.borrow_mut().pop_front() else {
                return;
            };
            self.outstanding.set(self.outstanding.get() + 1);
            if let Err((usage, memory)) = self.send_call(engine, &message) {
                self.put_back(engine, (message.index, usage), memory);
                return self.queue_pair.disconnect();
            }
        }
    }

    /// Sends a call, and exposes its memory. Fails with memory that cannot be exposed.
    fn send_call(
        &self,
        engine: &mut Engine,
        message: &Message,
    ) -> std::result::Result<(), (Use, Memory)> {
        let index = message.index;
        let call = engine.calls.get_mut(index);
        let mut chunks = Chunks::default();
        if let Some(memory) = call.command.reply.take() {
            let segment = self.expose_for(index, Use::Reply, Memory::Writable(memory))?;
            chunks.reply = Some(vec![segment]);
        }
        let record = &message.record;
        let mut moved = Vec::new();
        if let Data::Out(buf) = &call.data {
            let pad = padding(buf.len());
            if HEADER_MAX + record.len() + buf.len() + pad <= self.inline_max {
                moved.extend_from_slice(buf);
                moved.resize(buf.len() + pad, 0);
            } else {
                let data = Memory::Readable(Payload::shared(buf.clone()));
                chunks.reads = vec![ReadChunk {
                    position: record.len() as u32,
                    segments: vec![self.expose_for(index, Use::Source, data)?],
                }];
            }
        } else if let Data::In(buf) = std::mem::replace(&mut call.data, Data::None) {
            let segment = self.expose_for(index, Use::Target, Memory::Writable(buf))?;
            chunks.writes = vec![vec![segment]];
        }
        if HEADER_MAX + record.len() + moved.len() <= self.inline_max {
            self.post(message.xid, Kind::Inline(chunks), &[record, &moved]);
            return Ok(());
        }
        let whole = Memory::Readable(Payload::from(record.clone()));
        let whole = ReadChunk {
            position: 0,
            segments: vec![self.expose_for(index, Use::Source, whole)?],
        };
        chunks.reads.insert(0, whole);
        self.post(message.xid, Kind::Chunked(chunks), &[]);
        Ok(())
    }

    fn expose_for(
        &self,
        index: u16,
        usage: Use,
        memory: Memory,
    ) -> std::result::Result<Segment, (Use, Memory)> {
        let exposed = self
            .exposed
            .expose(&self.queue_pair, (index, usage), memory);
        let exposed = exposed.map_err(|memory| (usage, memory))?;
        Ok(Segment {
            key: exposed.at.key.0,
            len: exposed.len,
            address: exposed.at.address,
        })
    }

    fn post(&self, xid: u32, kind: Kind, parts: &[&[u8]]) {
        let header = RdmaHeader {
            xid,
            credits: RDMA_DEPTH_MAX.into(),
            kind,
        };
        let mut head = header.encode();
        parts.iter().for_each(|part| head.extend_from_slice(part));
        let work = Verb::Send {
            head,
            data: None,
            invalidate: None,
        };
        self.queue_pair
            .post(&mut vec![WorkRequest { tag: None, work }]);
    }

    /// Whether the server may use memory of the call in a slot.
    fn is_exposed(&self, index: u16) -> bool {
        self.exposed.is_exposed(index)
    }

    /// Withdraws the memory of the call in a slot. It comes back as events of the queue pair.
    fn withdraw(&self, index: u16) {
        self.exposed.withdraw(&self.queue_pair, index);
    }

    /// Memory came back: its call has it again. Returns the slot; `None` if the key is none of ours.
    fn came_back(&self, engine: &mut Engine, key: RemoteKey, memory: Memory) -> Option<u16> {
        let (index, usage) = self.exposed.came_back(key)?;
        self.put_back(engine, (index, usage), memory);
        Some(index)
    }

    /// Gives the call in a slot memory back.
    fn put_back(&self, engine: &mut Engine, (index, usage): (u16, Use), memory: Memory) {
        match (usage, memory) {
            (Use::Target, Memory::Writable(buf)) => {
                engine.calls.get_mut(index).data = Data::In(buf);
            }
            (Use::Reply, Memory::Writable(buf)) => {
                self.replies.borrow_mut().insert(index, buf);
            }
            _ => {}
        }
    }

    /// Takes the memory for a long reply of the call in a slot.
    fn take_reply(&self, index: u16) -> Option<IoBuf> {
        self.replies.borrow_mut().remove(&index)
    }
}

const NOT_A_REPLY: &str = "a message that is no reply to a call";

/// The transaction number of a record.
fn record_number(record: &[u8]) -> u32 {
    record
        .first_chunk()
        .map_or(0, |xid| u32::from_be_bytes(*xid))
}

/// The header of a message, and where the bytes behind it begin.
fn header_of(message: &[u8]) -> Result<(RdmaHeader, usize)> {
    let mut reader = Reader::new(message);
    let header = RdmaHeader::decode(&mut reader);
    let header = header.map_err(|_| ProtocolError::Transfer(NOT_A_REPLY))?;
    Ok((header, message.len() - reader.rest().len()))
}
