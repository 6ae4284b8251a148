//! One connected queue pair of iSER (RFC 7145): PDUs by messages, data of tasks through memory that the target may use.
//!
//! **Owns** the queue pair, and the memory that is exposed for tasks. **Called by** logins and discovery with one PDU at a time, by the sender with the engine's
//! messages, and by the receiver. **Invariants**: a key belongs to one task; a write's memory has its solicited data only; memory comes back
//! when the queue pair ends, so that a task may be sent again.

use super::config::Config;
use super::error::{Error, ProtocolError, Result};
use super::limits::{ISER_OTHER_PDUS, ISER_READS_SERVED, QUEUE_DEPTH_MAX};
use super::outgoing::{Message, payload};
use super::tasks::{Data, Tasks};
use initiator::rdma::ExposedMemory;
use io::Payload;
use io::rdma::{
    ConnectError, Memory, QueuePair, QueuePairConfig, QueuePairEvent, Received, RemoteKey, Verb,
    WorkRequest,
};
use iscsi::limits::ISER_RECV_DATA_MAX;
use iscsi::wire::Bhs;
use iscsi::wire::bhs::{BHS_LEN, padding};
use iscsi::wire::decode::{Decoded, Rules, decode};
use iscsi::wire::iser::{Advertised, Capabilities, ISER_HEADER_LEN, IserHeader};
use std::net::SocketAddr;

/// A connected queue pair.
pub(super) struct IserLink {
    queue_pair: QueuePair,
    exposed: ExposedMemory<()>,
}

/// Sizes of a queue pair over RDMA.
#[derive(Debug, Clone, Copy)]
pub(super) struct IserSizes {
    /// Tasks that may be outstanding.
    depth: u16,
    /// Whether messages of the target may withdraw keys.
    invalidates: bool,
}

impl IserSizes {
    /// The sizes for a session.
    pub(super) fn of(config: &Config) -> IserSizes {
        IserSizes {
            depth: config.queue_depth.min(QUEUE_DEPTH_MAX),
            invalidates: config.remote_invalidation,
        }
    }

    /// The sizes for a discovery.
    pub(super) const DISCOVERY: IserSizes = IserSizes {
        depth: 1,
        invalidates: false,
    };
}

impl IserLink {
    /// Connects. Fails with `Unreachable` or `NotAccepted`.
    pub(super) async fn open(addr: SocketAddr, sizes: IserSizes) -> Result<IserLink> {
        let config = QueuePairConfig {
            receives: sizes.depth + ISER_OTHER_PDUS,
            receive_len: (ISER_HEADER_LEN + BHS_LEN) as u32 + ISER_RECV_DATA_MAX,
            sends: 2 * sizes.depth + ISER_OTHER_PDUS,
            reads_out: 0,
            reads_in: ISER_READS_SERVED,
            ..QueuePairConfig::default()
        };
        let able = Capabilities {
            invalidates: sizes.invalidates,
        };
        let connected = QueuePair::connect(addr, config, &able.build()).await;
        let (queue_pair, _) = connected.map_err(|e| match e {
            ConnectError::Rejected(_) => Error::NotAccepted,
            ConnectError::Failed(e) => Error::Unreachable(e),
        })?;
        Ok(IserLink {
            queue_pair,
            exposed: ExposedMemory::default(),
        })
    }

    /// The queue pair.
    pub(super) fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    /// Sends a PDU of no task.
    pub(super) fn send(&self, mut bhs: Bhs, data: &[u8]) {
        bhs.set_data_len(data.len() as u32);
        let message = Message {
            bhs,
            data: Payload::from(data.to_vec()),
            task: None,
        };
        self.post(message, IserHeader::default());
    }

    /// Receives a PDU during a login or a discovery, while no memory is exposed.
    pub(super) async fn receive(&self, rules: &Rules) -> Result<(Bhs, Vec<u8>)> {
        loop {
            match self.queue_pair.event().await {
                QueuePairEvent::Received(message) => return pdu_of(&message, rules),
                QueuePairEvent::Ended(_) => return Err(Error::Disconnected),
                QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
            }
        }
    }

    /// Sends the engine's messages, and exposes the memory of the tasks that they begin. If memory cannot be exposed, its task keeps it and the
    /// queue pair ends.
    pub(super) fn send_all(&self, tasks: &mut Tasks, messages: Vec<Message>) {
        for message in messages {
            let memory = match message.task {
                Some(index) => match self.expose(tasks, index) {
                    Ok(memory) => memory,
                    Err(memory) => {
                        put_back(tasks, index, memory);
                        return self.queue_pair.disconnect();
                    }
                },
                None => IserHeader::default(),
            };
            self.post(message, memory);
        }
    }

    /// Exposes the memory of a task whose unsolicited data is `moved`. Fails with the memory, as the queue pair does.
    fn expose(&self, tasks: &mut Tasks, index: u16) -> std::result::Result<IserHeader, Memory> {
        let slot = tasks.get_mut(index);
        let mut memory = IserHeader::default();
        if slot.data_len == 0 {
            return Ok(memory);
        }
        let rest = (slot.data_len - slot.moved) as usize;
        if let Some(all) = payload(&slot.data) {
            if rest > 0 {
                let solicited = Memory::Readable(all.sub(slot.moved as usize, rest));
                memory.write = Some(self.expose_for(index, solicited)?);
            }
        } else if let Data::In(buf) = std::mem::replace(&mut slot.data, Data::None) {
            memory.read = Some(self.expose_for(index, Memory::Writable(buf))?);
        }
        Ok(memory)
    }

    fn expose_for(&self, index: u16, memory: Memory) -> std::result::Result<Advertised, Memory> {
        let of = (index, ());
        let at = self.exposed.expose(&self.queue_pair, of, memory)?.at;
        Ok(Advertised {
            key: at.key.0,
            address: at.address,
        })
    }

    fn post(&self, message: Message, memory: IserHeader) {
        let head = [&memory.build()[..], &message.bhs.0].concat();
        let data = Some(message.data).filter(|d| !d.is_empty());
        let work = Verb::Send {
            head,
            data,
            invalidate: None,
        };
        self.queue_pair
            .post(&mut vec![WorkRequest { tag: None, work }]);
    }

    /// Whether the target may use memory of the task in a slot.
    pub(super) fn is_exposed(&self, index: u16) -> bool {
        self.exposed.is_exposed(index)
    }

    /// Withdraws the memory of the task in a slot. It comes back as an event of the queue pair.
    pub(super) fn withdraw(&self, index: u16) {
        self.exposed.withdraw(&self.queue_pair, index);
    }

    /// Memory came back: its task has it again. Returns the slot; `None` if the key is none of ours.
    pub(super) fn came_back(
        &self,
        tasks: &mut Tasks,
        key: RemoteKey,
        memory: Memory,
    ) -> Option<u16> {
        let (index, ()) = self.exposed.came_back(key)?;
        put_back(tasks, index, memory);
        Some(index)
    }
}

/// Gives a task its buffer back.
fn put_back(tasks: &mut Tasks, index: u16, memory: Memory) {
    if let Memory::Writable(buf) = memory {
        tasks.get_mut(index).data = Data::In(buf);
    }
}

/// The PDU in a message.
pub(super) fn pdu_of(message: &Received, rules: &Rules) -> Result<(Bhs, Vec<u8>)> {
    let why = "a message that is no PDU";
    let (_, pdu) = IserHeader::parse(message).map_err(|_| ProtocolError::Unexpected(why))?;
    let header = match decode(pdu, rules).map_err(ProtocolError::from)? {
        Decoded::Header(header) => header,
        Decoded::NeedMore(_) => return Err(ProtocolError::Unexpected(why).into()),
    };
    let end = header.len + header.data_len as usize;
    let padded = end + padding(header.data_len);
    if !(end..=padded).contains(&pdu.len()) {
        return Err(ProtocolError::Unexpected("a message of another length than its PDU").into());
    }
    Ok((header.bhs, pdu[header.len..end].to_vec()))
}
