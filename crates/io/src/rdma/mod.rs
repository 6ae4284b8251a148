//! RDMA: reliable connected queue pairs with remote memory, real or simulated.
//!
//! | module | owns |
//! |---|---|
//! | `config`, `error` | sizes and limits; why things end |
//! | `events` | failures of devices that no completion reports |
//! | `work` | work requests, their ends, and memory that peers may use |
//! | `listen` | listeners and connection requests |
//! | `memory` | memory that this process may lock |
//! | `support` | the reasons why a machine has no RDMA |
//! | `handle` | the choice of the driver |
//!
//! **Owns** queue pairs ([`QueuePair`]) with their receives. **Called by** the server's protocols and by initiators.
//! **Invariants**: memory of a work request belongs to the queue pair until the request has ended, even if the queue pair is
//! dropped; a receive is posted again when its bytes are dropped; after a failure or a disconnect of either side every posted
//! request ends, with an error if it was not carried out; requests of one queue pair end in the order in which they were posted.
//!
//! Sections named "IBA" are of the InfiniBand Architecture Specification, volume 1, release 1.4: 9.7 (reliable service), 10.7.3
//! (work requests), 11.6.2 (completion status), 12.6 (messages of the connection manager).

mod config;
mod error;
mod events;
mod handle;
mod listen;
mod memory;
mod support;
mod work;

pub use config::{QueuePairConfig, RNR_RETRIES_UNLIMITED};
pub use error::{ConnectError, Ending, NoRdma, WorkError};
pub(crate) use events::count_device_event;
pub use events::{DeviceEvent, device_events};
pub(crate) use handle::EndpointHandle;
pub use listen::{DetachedIncoming, Incoming, RdmaListener};
pub use memory::{LockedMemory, locked_memory};
pub use support::support;
pub use work::{Exposed, Memory, QueuePairEvent, Remote, RemoteKey, Returned, Verb, WorkRequest};

use crate::linux::ReceiveSlot;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

/// Most private data of a connection request, bytes (IBA 12.6.5; the connection manager of Linux takes the rest for addresses).
pub const PRIVATE_DATA_MAX: usize = 56;

/// Numbers of a queue pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RdmaInfo {
    /// The device.
    pub device: String,
    /// Our queue pair's number.
    pub queue_pair: u32,
    /// The peer's queue pair's number.
    pub peer_queue_pair: u32,
    /// Path MTU, bytes; 0 before the connection is established.
    pub path_mtu: u32,
    /// READs that this side may have outstanding.
    pub reads_out: u8,
    /// READs that the peer may have outstanding.
    pub reads_in: u8,
    /// Messages of ours that found no receive and were sent again; `None` if the device does not count them by queue pair.
    pub rnr_retries: Option<u64>,
    /// Receives that are posted now; of a shared queue, all of them.
    pub receives: u32,
    /// Receives of the shared queue that it takes from; 0 if it has its own.
    pub shared_receives: u32,
    /// Bytes of each receive.
    pub receive_len: u32,
    /// Most bytes that are copied into a request, so that they need no registered memory.
    pub inline_max: u32,
}

/// A connected queue pair. Dropping it disconnects it.
pub struct QueuePair {
    endpoint: Rc<EndpointHandle>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl QueuePair {
    pub(crate) fn new(endpoint: EndpointHandle, local: SocketAddr, peer: SocketAddr) -> QueuePair {
        QueuePair {
            endpoint: Rc::new(endpoint),
            local,
            peer,
        }
    }

    /// Connects to a listener at `addr`, with at most [`PRIVATE_DATA_MAX`] bytes of private data. Returns the queue pair and the
    /// private data of the acceptance. Errors: `Rejected`; `Unsupported` without a device, `Unreachable`, `TimedOut`, `Exhausted`.
    pub async fn connect(
        addr: SocketAddr,
        config: QueuePairConfig,
        private: &[u8],
    ) -> Result<(QueuePair, Vec<u8>), ConnectError> {
        assert!(private.len() <= PRIVATE_DATA_MAX, "private data is short");
        let endpoint = EndpointHandle::connect(addr, config, private)?;
        let answer = poll_fn(|cx| endpoint.poll_connected(cx)).await?;
        let (local, peer) = endpoint.addresses();
        Ok((QueuePair::new(endpoint, local, peer), answer))
    }

    /// Our address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Numbers of the queue pair.
    #[must_use]
    pub fn info(&self) -> RdmaInfo {
        self.endpoint.info()
    }

    /// Posts all requests of `chain` in their order, with one call of the device, and leaves `chain` empty. A queue pair that has failed
    /// ends them as flushed.
    pub fn post(&self, chain: &mut Vec<WorkRequest>) {
        if !chain.is_empty() {
            self.endpoint.post(chain);
        }
    }

    /// Gives the peer access to `memory` until one of: the peer invalidates its key by a message ([`Received::withdrawn`]), this side
    /// withdraws it ([`Verb::Withdraw`]), the queue pair ends ([`QueuePairEvent::Released`]). Work that is posted later finds the access in force.
    ///
    /// # Errors
    /// The memory, if the queue pair has ended or the device cannot register it.
    pub fn expose(&self, memory: Memory) -> Result<Exposed, Memory> {
        self.endpoint.expose(memory)
    }

    /// The next event. After [`QueuePairEvent::Ended`] there is none. One task at a time may poll.
    pub fn poll_event(&self, cx: &mut Context<'_>) -> Poll<QueuePairEvent> {
        self.endpoint
            .poll_event(cx)
            .map(|raised| event_of(raised, &self.endpoint))
    }

    /// Waits for the next event; for ever after [`QueuePairEvent::Ended`].
    pub async fn event(&self) -> QueuePairEvent {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Disconnects: posted requests end, both sides see [`QueuePairEvent::Ended`].
    pub fn disconnect(&self) {
        self.endpoint.disconnect();
    }
}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePair({} -> {})", self.local, self.peer)
    }
}

/// A message from the peer. Its receive is posted again when this is dropped.
pub struct Received {
    bytes: ReceiveBuffer,
    owner: Weak<EndpointHandle>,
    /// Memory that the message withdrew from the peer (Send with Invalidate), with its key.
    pub withdrawn: Option<(RemoteKey, Memory)>,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Received {
    /// Posts the receive again, if it is one of a shared queue, and keeps a copy of the bytes: a message that has to wait takes no receive
    /// from other peers. A receive of this queue pair alone is kept, because it bounds what the peer may send.
    pub fn release_shared(&mut self) {
        if self.bytes.is_shared() {
            self.bytes = ReceiveBuffer::Copy(self.bytes.to_vec());
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if self.bytes.is_owned()
            && let Some(owner) = self.owner.upgrade()
        {
            let bytes = std::mem::replace(&mut self.bytes, ReceiveBuffer::Heap(Vec::new()));
            owner.post_receive(bytes);
        }
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received({} bytes)", self.bytes.len())
    }
}

/// The buffer of a receive.
pub(crate) enum ReceiveBuffer {
    /// Of a simulated device.
    Heap(Vec<u8>),
    /// Of a real device.
    Slot(ReceiveSlot),
    /// Of a shared queue of a simulated device, to which it returns when it is dropped.
    #[cfg_attr(
        not(feature = "sim"),
        expect(dead_code, reason = "made by the simulated device")
    )]
    Shared(Box<dyn Deref<Target = [u8]>>),
    /// A copy, whose receive was posted again.
    Copy(Vec<u8>),
}

impl ReceiveBuffer {
    /// Whether it returns to a shared queue when it is dropped.
    fn is_shared(&self) -> bool {
        match self {
            ReceiveBuffer::Slot(slot) => slot.is_shared(),
            ReceiveBuffer::Shared(_) => true,
            ReceiveBuffer::Heap(_) | ReceiveBuffer::Copy(_) => false,
        }
    }

    /// Whether its queue pair posts it again.
    fn is_owned(&self) -> bool {
        !self.is_shared() && !matches!(self, ReceiveBuffer::Copy(_))
    }
}

impl Deref for ReceiveBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ReceiveBuffer::Heap(bytes) | ReceiveBuffer::Copy(bytes) => bytes,
            ReceiveBuffer::Slot(slot) => slot,
            ReceiveBuffer::Shared(receive) => receive,
        }
    }
}

/// A message in the buffer of its receive, and the memory that it withdrew from the peer.
pub(crate) type Message = (ReceiveBuffer, Option<(RemoteKey, Memory)>);

/// What a driver raises: a message, or another event.
pub(crate) type Raised = Result<Message, QueuePairEvent>;

fn event_of(raised: Raised, owner: &Rc<EndpointHandle>) -> QueuePairEvent {
    match raised {
        Ok((bytes, withdrawn)) => QueuePairEvent::Received(Received {
            bytes,
            owner: Rc::downgrade(owner),
            withdrawn,
        }),
        Err(event) => event,
    }
}
