//! One connected queue pair of NVMe/RDMA: capsules by SEND, data through memory that the controller may use.
//!
//! **Owns** the replies that came before the memory of their commands. **Called by** a queue, which submits capsules, and by its receiving
//! task. **Invariants**: a key belongs to one command; memory comes back when the queue pair ends, so that a command may be sent again.
//!
//! Sections named "RDMA" are of the NVMe RDMA Transport Specification 1.0.

use std::net::SocketAddr;

use io::Payload;
use io::rdma::{
    ConnectError, Exposed, Memory, QueuePair, QueuePairConfig, RemoteKey, Verb, WorkRequest,
};
use zerocopy::IntoBytes;

use crate::error::{self, Error};
use crate::limits::RDMA_READS_SERVED;
use crate::queue::{Data, Slots};
use initiator::rdma::ExposedMemory;
use nvmf::wire::command::{Sgl, SglDescriptor, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::rdma::{CmAccept, CmReject, CmRequest};

/// Bytes of a reply.
const REPLY_LEN: u32 = size_of::<Cqe>() as u32;

/// Gives a command its buffer back.
pub(crate) fn put_back(slots: &mut Slots, slot: u16, memory: Memory) {
    if let Memory::Writable(buf) = memory {
        slots.get_mut(slot).data = Data::In(buf);
    }
}

/// A connected queue pair.
pub(crate) struct RdmaLink {
    queue_pair: QueuePair,
    /// With the reply, if it came before the memory.
    exposed: ExposedMemory<Option<Cqe>>,
}

impl RdmaLink {
    /// Connects a queue of `entries` entries.
    pub(crate) async fn open(
        addr: SocketAddr,
        (qid, entries): (u16, u16),
        cntlid: u16,
    ) -> error::Result<RdmaLink> {
        let config = QueuePairConfig {
            receives: entries,
            receive_len: REPLY_LEN,
            sends: 2 * entries,
            reads_out: 0,
            reads_in: RDMA_READS_SERVED,
            ..QueuePairConfig::default()
        };
        let request = CmRequest::new(qid, entries, cntlid);
        let connected = QueuePair::connect(addr, config, request.as_bytes()).await;
        let (queue_pair, private) = connected.map_err(|e| match e {
            ConnectError::Rejected(private) => Error::Rejected(CmReject::parse(&private)),
            ConnectError::Failed(e) => Error::Unreachable(e),
        })?;
        match CmAccept::parse(&private) {
            Some(_) => Ok(RdmaLink {
                queue_pair,
                exposed: ExposedMemory::default(),
            }),
            None => Err(Error::NotReady("it is no NVMe controller")),
        }
    }

    /// The queue pair.
    pub(crate) fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    /// Sends the command in a slot: its data is in the capsule if it has at most `capsule_max` bytes. If its memory cannot be exposed, the
    /// command keeps it and the queue pair ends.
    pub(crate) fn submit(&self, slots: &mut Slots, slot: u16, mut sqe: Sqe, capsule_max: u32) {
        let command = slots.get_mut(slot);
        let len = command.data_len;
        let outgoing = match &command.data {
            Data::Out(buf) => Some(Payload::shared(buf.clone())),
            Data::Small(bytes) => Some(Payload::from(bytes.to_vec())),
            Data::None | Data::In(_) => None,
        };
        let mut in_capsule = None;
        let sgl = match outgoing {
            Some(payload) if len <= capsule_max => {
                in_capsule = Some(payload);
                Sgl::InCapsule {
                    offset: 0,
                    length: len,
                }
            }
            Some(payload) => match self.expose(slot, Memory::Readable(payload)) {
                Ok(sgl) => sgl,
                Err(_) => return self.queue_pair.disconnect(),
            },
            None => match std::mem::replace(&mut command.data, Data::None) {
                Data::In(buf) => match self.expose(slot, Memory::Writable(buf)) {
                    Ok(sgl) => sgl,
                    Err(memory) => {
                        put_back(slots, slot, memory);
                        return self.queue_pair.disconnect();
                    }
                },
                _ => Sgl::Keyed {
                    address: 0,
                    length: 0,
                    key: 0,
                    invalidate: false,
                },
            },
        };
        sqe.sgl = SglDescriptor::new(sgl);
        let capsule = Verb::Send {
            head: sqe.as_bytes().to_vec(),
            data: in_capsule,
            invalidate: None,
        };
        let work = WorkRequest {
            tag: None,
            work: capsule,
        };
        self.queue_pair.post(&mut vec![work]);
    }

    /// Fails with the memory, as the queue pair does.
    fn expose(&self, slot: u16, memory: Memory) -> Result<Sgl, Memory> {
        let Exposed {
            at,
            len,
            can_invalidate,
        } = self
            .exposed
            .expose(&self.queue_pair, (slot, None), memory)?;
        Ok(Sgl::Keyed {
            address: at.address,
            length: len,
            key: at.key.0,
            invalidate: can_invalidate,
        })
    }

    /// Keeps the reply of a command whose memory is still exposed, and withdraws the memory. False if it is not exposed.
    pub(crate) fn keep_reply(&self, slot: u16, cqe: Cqe) -> bool {
        let is_exposed = self.exposed.change(slot, |reply| *reply = Some(cqe));
        if is_exposed {
            self.exposed.withdraw(&self.queue_pair, slot);
        }
        is_exposed
    }

    /// Memory came back. Returns the slot of its command, and the command's reply if it came before.
    pub(crate) fn came_back(&self, key: RemoteKey) -> Option<(u16, Option<Cqe>)> {
        self.exposed.came_back(key)
    }
}
