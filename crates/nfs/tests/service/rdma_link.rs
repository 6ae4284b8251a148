//! A connection over RDMA whose messages the tests choose, valid or not.

use io::rdma::{
    Ending, Memory, QueuePair, QueuePairConfig, QueuePairEvent, Received, RemoteKey, Returned,
    Verb, WorkRequest,
};
use io::{IoBuf, Payload};
use nfs::rpc::rdma::chunks::{Chunks, ReadChunk, Segment, len_of};
use nfs::rpc::rdma::private::Properties;
use nfs::rpc::rdma::{HEADER_MIN, Kind, RdmaHeader};
use nfs::rpc::reply_number;
use nfs::xdr::Reader;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Longest message of both ends, bytes.
pub(crate) const INLINE: u32 = 4096;

pub(crate) struct RdmaLink {
    pub(crate) queue_pair: QueuePair,
    /// Bytes of the memory for long replies that calls name; none for 0.
    pub(crate) reply_len: usize,
    /// Callbacks that the client takes at a time.
    pub(crate) callbacks: u32,
    /// Credits of the last reply.
    pub(crate) granted: u32,
    /// Keys of the memory that calls named for long replies, by transaction number.
    replies: RefCell<BTreeMap<u32, Vec<RemoteKey>>>,
    arrived: VecDeque<Received>,
}

/// A reply with the memory that came back.
pub(crate) struct Answer {
    pub(crate) header: RdmaHeader,
    /// The bytes behind the header.
    pub(crate) inline: Vec<u8>,
    /// The key that the message withdrew.
    pub(crate) withdrawn: Option<RemoteKey>,
    /// That memory.
    pub(crate) memory: Option<Memory>,
}

impl Answer {
    pub(crate) fn chunks(&self) -> &Chunks {
        match &self.header.kind {
            Kind::Inline(chunks) | Kind::Chunked(chunks) => chunks,
            other => panic!("a reply, not {other:?}"),
        }
    }
}

pub(crate) fn sizes() -> QueuePairConfig {
    QueuePairConfig {
        receives: 160,
        receive_len: INLINE,
        ..QueuePairConfig::default()
    }
}

impl RdmaLink {
    pub(crate) async fn open(addr: SocketAddr, invalidates: bool) -> RdmaLink {
        let own = Properties {
            invalidates,
            sends: INLINE,
            receives: INLINE,
        };
        let connected = QueuePair::connect(addr, sizes(), &own.build()).await;
        let (queue_pair, private) = connected.expect("it is accepted");
        let server = Properties::parse(&private);
        assert_eq!((server.sends, server.receives), (INLINE, INLINE));
        RdmaLink {
            queue_pair,
            reply_len: 0,
            callbacks: 8,
            granted: 0,
            replies: RefCell::default(),
            arrived: VecDeque::new(),
        }
    }

    /// Sends a message as it is.
    pub(crate) fn message(&self, head: Vec<u8>) {
        let work = Verb::Send {
            head,
            data: None,
            invalidate: None,
        };
        self.queue_pair
            .post(&mut vec![WorkRequest { tag: None, work }]);
    }

    /// Sends a message with these chunks.
    pub(crate) fn put(&self, xid: u32, kind: Kind, inline: &[u8]) {
        let header = RdmaHeader {
            xid,
            credits: 64,
            kind,
        };
        self.message([&header.encode()[..], inline].concat());
    }

    pub(crate) fn expose(&self, memory: Memory) -> Segment {
        let exposed = self.queue_pair.expose(memory).expect("it is connected");
        Segment {
            key: exposed.at.key.0,
            len: exposed.len,
            address: exposed.at.address,
        }
    }

    /// A call that fits no message, in a chunk.
    pub(crate) fn long(&self, record: Vec<u8>) -> ReadChunk {
        let memory = Memory::Readable(Payload::from(record));
        ReadChunk {
            position: 0,
            segments: vec![self.expose(memory)],
        }
    }

    /// Sends a record: in a message if it fits, else in a chunk. Calls name memory for long replies.
    pub(crate) async fn send(&self, record: Vec<u8>) {
        let xid = u32::from_be_bytes(*record.first_chunk().expect("a number"));
        if reply_number(&record).is_some() {
            let header = RdmaHeader {
                xid,
                credits: self.callbacks,
                kind: Kind::Inline(Chunks::default()),
            };
            return self.message([&header.encode()[..], &record].concat());
        }
        let mut chunks = Chunks::default();
        let mut keys = Vec::new();
        if self.reply_len > 0 {
            let memory = Memory::Writable(buffer(self.reply_len).await);
            chunks.reply = Some(vec![self.expose(memory)]);
        }
        let header = HEADER_MIN + 24;
        let is_short = header + record.len() <= INLINE as usize;
        let kind = if is_short {
            Kind::Inline(chunks.clone())
        } else {
            chunks.reads = vec![self.long(record.clone())];
            Kind::Chunked(chunks.clone())
        };
        let read = chunks.reads.iter().flat_map(|chunk| &chunk.segments);
        keys.extend(read.map(|s| RemoteKey(s.key)));
        // The memory for the reply is the last one.
        keys.extend(chunks.reply.iter().flatten().map(|s| RemoteKey(s.key)));
        self.replies.borrow_mut().insert(xid, keys);
        self.put(xid, kind, if is_short { &record } else { &[] });
    }

    /// The next event that is no end of other work: a message, or memory of this key; `None` if the connection ended.
    async fn next(&mut self, key: Option<RemoteKey>) -> Option<Result<Received, Memory>> {
        loop {
            match self.queue_pair.event().await {
                QueuePairEvent::Received(message) => return Some(Ok(message)),
                QueuePairEvent::Done {
                    tag,
                    returned: Returned::Memory(memory),
                    ..
                } if key == Some(RemoteKey(tag as u32)) => return Some(Err(memory)),
                QueuePairEvent::Ended(_) => return None,
                QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
            }
        }
    }

    /// Withdraws memory.
    pub(crate) async fn withdraw(&mut self, key: RemoteKey) -> Memory {
        self.queue_pair.post(&mut vec![WorkRequest {
            tag: Some(u64::from(key.0)),
            work: Verb::Withdraw { key },
        }]);
        loop {
            match self.next(Some(key)).await.expect("it is connected") {
                Ok(message) => self.arrived.push_back(message),
                Err(memory) => return memory,
            }
        }
    }

    /// The next message as it is; `None` if the connection ended.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let mut message = match self.arrived.pop_front() {
            Some(message) => message,
            None => match self.next(None).await? {
                Ok(message) => message,
                Err(_) => unreachable!("no memory is awaited"),
            },
        };
        let (withdrawn, memory) = message.withdrawn.take().unzip();
        let mut reader = Reader::new(&message);
        let header = RdmaHeader::decode(&mut reader).expect("a header");
        Some(Answer {
            inline: reader.rest().to_vec(),
            header,
            withdrawn,
            memory,
        })
    }

    /// The next message, whose receive is not posted again before it is dropped.
    pub(crate) async fn message_kept(&mut self) -> Option<Received> {
        self.next(None).await.map(|one| one.expect("a message"))
    }

    /// The next record; `None` if the connection ended.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let answer = self.answer().await?;
        if reply_number(&answer.inline).is_none() && answer.inline.len() > 4 {
            return Some(answer.inline);
        }
        self.granted = answer.header.credits;
        assert!(self.granted > 0, "credits are granted");
        let keys = self.replies.borrow_mut().remove(&answer.header.xid);
        let mut memory = answer.memory;
        for key in keys.unwrap_or_default() {
            if answer.withdrawn != Some(key) {
                memory = Some(self.withdraw(key).await);
            }
        }
        match answer.header.kind {
            Kind::Inline(chunks) => {
                assert!(chunks.reads.is_empty() && chunks.writes.is_empty());
                assert_eq!(chunks.reply.as_deref().map_or(0, len_of), 0);
                Some(answer.inline)
            }
            Kind::Chunked(chunks) => {
                let len = len_of(&chunks.reply.expect("a long reply is in its memory"));
                let Some(Memory::Writable(buf)) = memory else {
                    panic!("the memory came back");
                };
                Some(buf[..len].to_vec())
            }
            other => panic!("a reply, not {other:?}"),
        }
    }

    /// Why the connection ended.
    pub(crate) async fn ended(&self) -> Ending {
        loop {
            if let QueuePairEvent::Ended(why) = self.queue_pair.event().await {
                return why;
            }
        }
    }
}

/// A buffer of zeroes.
pub(crate) async fn buffer(len: usize) -> IoBuf {
    let mut buf = io::pool().alloc(len).await;
    buf.set_len(len);
    buf.fill(0);
    buf
}
