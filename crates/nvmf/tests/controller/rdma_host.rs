//! A small scripted host over RDMA: it sends exactly the messages that a test wants, and exposes exactly the memory.

use crate::host::{BLOCK, connect, host_id, host_nqn, nqn};
use io::rdma::{
    ConnectError, Ending, Exposed, Memory, QueuePair, QueuePairConfig, QueuePairEvent, Received,
    Verb, WorkRequest,
};
use io::{IoBuf, Payload};
use nvmf::wire::command::{Sgl, SglDescriptor, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::fabrics::{Cc, ConnectAccepted, ConnectData, Property, property};
use nvmf::wire::rdma::{CmReject, CmRequest, RejectStatus};
use nvmf::wire::status::Status;
use std::net::SocketAddr;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

/// Entries of its queues.
pub(crate) const ENTRIES: u16 = 32;

/// The sizes of its queue pairs.
pub(crate) fn sizes() -> QueuePairConfig {
    QueuePairConfig {
        receives: ENTRIES,
        receive_len: 16,
        ..QueuePairConfig::default()
    }
}

pub(crate) struct RdmaHost {
    pub(crate) queue_pair: QueuePair,
    next_cid: u16,
    pub(crate) cntlid: u16,
    kept: Option<Received>,
}

/// A reply, with the memory that it withdrew.
pub(crate) struct Reply {
    pub(crate) cqe: Cqe,
    pub(crate) withdrawn: Option<Memory>,
}

impl Reply {
    pub(crate) fn status(&self) -> Status {
        self.cqe.status()
    }
}

/// Connects with this private data. Errors: the status of the rejection.
pub(crate) async fn ask(
    addr: SocketAddr,
    config: QueuePairConfig,
    private: &[u8],
) -> Result<QueuePair, RejectStatus> {
    match QueuePair::connect(addr, config, private).await {
        Ok((queue_pair, _)) => Ok(queue_pair),
        Err(ConnectError::Rejected(private)) => {
            Err(CmReject::parse(&private).expect("a rejection says why"))
        }
        Err(ConnectError::Failed(e)) => panic!("{e}"),
    }
}

impl RdmaHost {
    /// A connection for queue `qid`, without Connect.
    pub(crate) async fn open(addr: SocketAddr, qid: u16, config: QueuePairConfig) -> RdmaHost {
        let private = CmRequest::new(qid, ENTRIES, 0);
        let asked = ask(addr, config, private.as_bytes()).await;
        RdmaHost {
            queue_pair: asked.expect("it is accepted"),
            next_cid: 0,
            cntlid: 0xffff,
            kept: None,
        }
    }

    /// The enabled admin queue of host number `host`.
    pub(crate) async fn admin(addr: SocketAddr, host: u8, kato_ms: u32) -> RdmaHost {
        let mut h = RdmaHost::open(addr, 0, sizes()).await;
        let data = ConnectData::new(host_id(host), 0xffff, &nqn(), &host_nqn(host));
        let reply = h.connect(0, kato_ms, &data).await;
        assert!(reply.status().is_success(), "{}", reply.status());
        h.cntlid = ConnectAccepted::from_result(reply.cqe.result()).cntlid;
        let enable = Property::set(property::CC, false, u64::from(Cc::enabled(0).bits()));
        let cid = h.send(enable, &[]);
        assert!(h.reply(cid).await.status().is_success());
        h
    }

    /// An I/O queue of the controller of `admin`.
    pub(crate) async fn io(
        addr: SocketAddr,
        admin: &RdmaHost,
        host: u8,
        (qid, config): (u16, QueuePairConfig),
    ) -> RdmaHost {
        let mut h = RdmaHost::open(addr, qid, config).await;
        let data = ConnectData::new(host_id(host), admin.cntlid, &nqn(), &host_nqn(host));
        if config.receives == 1 {
            // The only receive is kept, so that no other reply comes.
            h.send_connect(qid, 0, &data);
            h.kept = Some(h.received().await);
            return h;
        }
        let reply = h.connect(qid, 0, &data).await;
        assert!(reply.status().is_success(), "{}", reply.status());
        h
    }

    fn send_connect(&mut self, qid: u16, kato_ms: u32, data: &ConnectData) -> u16 {
        let mut sqe = connect(qid, ENTRIES - 1, kato_ms).to_sqe();
        let readable = Memory::Readable(Payload::from(data.as_bytes().to_vec()));
        sqe.sgl = keyed(self.queue_pair.expose(readable).expect("it is connected"));
        self.send(sqe, &[])
    }

    /// Connect, with its data in memory that the target reads.
    pub(crate) async fn connect(&mut self, qid: u16, kato_ms: u32, data: &ConnectData) -> Reply {
        let cid = self.send_connect(qid, kato_ms, data);
        self.reply(cid).await
    }

    /// Sends a command with `data` in its capsule; returns its CID.
    pub(crate) fn send(&mut self, mut sqe: Sqe, data: &[u8]) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        sqe.cid = U16::new(self.next_cid);
        self.message([sqe.as_bytes(), data].concat());
        self.next_cid
    }

    /// Sends a message.
    pub(crate) fn message(&self, head: Vec<u8>) {
        let work = Verb::Send {
            head,
            data: None,
            invalidate: None,
        };
        self.queue_pair
            .post(&mut vec![WorkRequest { tag: None, work }]);
    }

    /// The next message.
    pub(crate) async fn received(&self) -> Received {
        loop {
            match self.queue_pair.event().await {
                QueuePairEvent::Received(message) => return message,
                QueuePairEvent::Ended(why) => panic!("the connection ended: {why}"),
                QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
            }
        }
    }

    /// The reply to a command, which is the next message.
    pub(crate) async fn reply(&self, cid: u16) -> Reply {
        let mut message = self.received().await;
        let cqe = Cqe::read_from_bytes(&message).expect("a reply");
        assert_eq!(cqe.cid().0, cid);
        let withdrawn = message.withdrawn.take().map(|(_, memory)| memory);
        Reply { cqe, withdrawn }
    }

    /// Sends a command and waits for its reply.
    pub(crate) async fn command(&mut self, sqe: Sqe, data: &[u8]) -> Reply {
        let cid = self.send(sqe, data);
        self.reply(cid).await
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

/// The SGL of exposed memory, whose key is to be invalidated with the reply.
pub(crate) fn keyed(exposed: Exposed) -> SglDescriptor {
    SglDescriptor::new(Sgl::Keyed {
        address: exposed.at.address,
        length: exposed.len,
        key: exposed.at.key.0,
        invalidate: true,
    })
}

/// A buffer of whole blocks.
pub(crate) async fn buffer(blocks: u32, byte: u8) -> IoBuf {
    let mut buf = io::pool().alloc(blocks as usize * BLOCK).await;
    buf.fill(byte);
    buf
}
