//! One end of a connection, over rdma-core.
//!
//! **Owns** the identifier of the connection manager and its queue pair. **Called by** [`crate::rdma`]. **Invariants**: after a failure or a
//! disconnect, the queue pair is in its error state, so every posted request ends; the end of the connection is the last event, after the ends of
//! all requests; what may block, runs on a helper thread when the endpoint is dropped.

use super::abi::{self, CmId, ConnParam};
use super::channel::{CmChannel, Said, Watch};
use super::library::check;
use super::queue::VerbsQueue;
use super::request::INLINE_MAX;
use super::slot::ReceiveSlot;
use crate::rdma::{
    ConnectError, Ending, Exposed, Memory, QueuePairConfig, QueuePairEvent, Raised, RdmaInfo,
    WorkRequest,
};
use crate::{Error, Result};
use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Time to resolve an address or a route, ms.
const RESOLVE_MS: i32 = 5000;
/// Retries of the transport (IBA 9.7.6.1.3): the most.
const RETRIES: u8 = 7;

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Address, route and answer are awaited.
    Connecting,
    /// The peer's request was not answered.
    Requested,
    /// The peer's request was accepted.
    Accepting,
    /// Connected.
    Established,
    /// Requests end.
    Ending(Ending),
    /// The end was reported.
    Ended,
}

struct State {
    stage: Stage,
    queue: Option<VerbsQueue>,
    config: QueuePairConfig,
    private: Vec<u8>,
    answer: Option<std::result::Result<Vec<u8>, ConnectError>>,
    /// READs that the peer serves, and that it wants to have outstanding.
    reads_out: u8,
    reads_in: u8,
    events: VecDeque<Raised>,
    said: Watch,
    completed: Watch,
}

/// An identifier of the connection manager; destroyed when it is dropped.
struct Identifier {
    channel: Arc<CmChannel>,
    raw: *mut CmId,
}

// SAFETY: librdmacm locks its objects.
unsafe impl Send for Identifier {}

impl Drop for Identifier {
    fn drop(&mut self) {
        // SAFETY: our own identifier, without a queue pair; its events were acknowledged.
        unsafe { (self.channel.library.rdma_destroy_id)(self.raw) };
    }
}

/// One end of a connection.
pub(crate) struct LinuxEndpoint {
    /// `None` once it was dropped.
    id: Option<Identifier>,
    state: RefCell<State>,
    /// Path MTU and the peer's queue pair, read once the connection is established: reading asks the device.
    path: OnceCell<Option<(u32, u32)>>,
}

/// A connection request that no shard owns. Its answer is awaited nowhere, so all of it may move between threads.
pub(crate) struct LinuxRequest {
    id: Identifier,
    /// READs that the peer serves, and that it wants to have outstanding.
    reads: (u8, u8),
}

impl LinuxRequest {
    /// The endpoint of the request, on this shard.
    pub(crate) fn attach(self) -> LinuxEndpoint {
        let endpoint = LinuxEndpoint::new(self.id, Stage::Requested, QueuePairConfig::default());
        {
            let mut state = endpoint.state.borrow_mut();
            (state.reads_out, state.reads_in) = self.reads;
        }
        endpoint
    }
}

impl LinuxEndpoint {
    fn new(id: Identifier, stage: Stage, config: QueuePairConfig) -> LinuxEndpoint {
        LinuxEndpoint {
            id: Some(id),
            state: RefCell::new(State {
                stage,
                queue: None,
                config,
                private: Vec::new(),
                answer: None,
                reads_out: 0,
                reads_in: 0,
                events: VecDeque::new(),
                said: Watch::default(),
                completed: Watch::default(),
            }),
            path: OnceCell::new(),
        }
    }

    fn id(&self) -> &Identifier {
        self.id
            .as_ref()
            .expect("an endpoint has its identifier until it is dropped")
    }

    /// The endpoint of a connection request that came to a listener. It gets a channel of its own.
    pub(super) fn of_request(said: &Said) -> Result<LinuxEndpoint> {
        let channel = CmChannel::open();
        let channel = channel.inspect_err(|_| {
            if let Ok(library) = super::library::library() {
                // SAFETY: the identifier of the event, which nothing else has.
                unsafe { (library.rdma_destroy_id)(said.id) };
            }
        })?;
        let id = Identifier {
            channel,
            raw: said.id,
        };
        // SAFETY: identifier and channel exist; the event was acknowledged.
        check(unsafe { (id.channel.library.rdma_migrate_id)(id.raw, id.channel.raw()) })?;
        let reads = (said.serves, said.wants);
        Ok(LinuxRequest { id, reads }.attach())
    }

    /// Takes a connection request that was not answered from this shard. Events that its channel has meanwhile are heard on the next one.
    pub(crate) fn detach(mut self) -> LinuxRequest {
        let id = self.id.take().expect("a request has its identifier");
        let state = self.state.borrow();
        assert_eq!(state.stage, Stage::Requested, "only a request moves");
        let reads = (state.reads_out, state.reads_in);
        drop(state);
        LinuxRequest { id, reads }
    }

    /// Sends a connection request, when address and route are resolved.
    pub(crate) fn connect(
        addr: SocketAddr,
        config: QueuePairConfig,
        private: &[u8],
    ) -> Result<LinuxEndpoint> {
        let channel = CmChannel::open()?;
        let raw = channel.new_id()?;
        let id = Identifier { channel, raw };
        let to = socket2::SockAddr::from(addr);
        // SAFETY: the call copies the address.
        check(unsafe {
            (id.channel.library.rdma_resolve_addr)(
                raw,
                std::ptr::null_mut(),
                to.as_ptr().cast_mut().cast(),
                RESOLVE_MS,
            )
        })?;
        let endpoint = LinuxEndpoint::new(id, Stage::Connecting, config);
        endpoint.state.borrow_mut().private = private.to_vec();
        Ok(endpoint)
    }

    pub(crate) fn poll_connected(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<std::result::Result<Vec<u8>, ConnectError>> {
        loop {
            let is_ready = self.hear(cx);
            if let Some(answer) = self.state.borrow_mut().answer.take() {
                return Poll::Ready(answer);
            }
            if !is_ready {
                return Poll::Pending;
            }
        }
    }

    pub(crate) fn accept(&self, config: QueuePairConfig, private: &[u8]) -> Result<()> {
        let id = self.id();
        let mut state = self.state.borrow_mut();
        if state.stage != Stage::Requested {
            return Err(Error::Closed);
        }
        state.queue = Some(VerbsQueue::new(id.raw, config)?);
        state.reads_out = state.reads_out.min(config.reads_out);
        state.reads_in = state.reads_in.min(config.reads_in);
        let mut parameters = parameters(config, private, (state.reads_in, state.reads_out));
        // SAFETY: the identifier exists; the call copies parameters and private data.
        check(unsafe { (id.channel.library.rdma_accept)(id.raw, &raw mut parameters) })?;
        state.stage = Stage::Accepting;
        Ok(())
    }

    pub(crate) fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let is_ready = self.hear(cx);
            match self.state.borrow().stage {
                Stage::Established => return Poll::Ready(Ok(())),
                Stage::Ending(_) | Stage::Ended => return Poll::Ready(Err(Error::Closed)),
                Stage::Connecting | Stage::Requested | Stage::Accepting => {}
            }
            if !is_ready {
                return Poll::Pending;
            }
        }
    }

    pub(crate) fn reject(&self, private: &[u8]) {
        let id = self.id();
        let len = private.len() as u8;
        // SAFETY: the identifier exists; the call copies the private data. Without an answer the peer's request times out.
        unsafe { (id.channel.library.rdma_reject)(id.raw, private.as_ptr().cast(), len) };
    }

    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        let raw = self.id().raw;
        // SAFETY: the identifier exists, and has addresses of the families that it was made with.
        unsafe { (address(&(*raw).src), address(&(*raw).dst)) }
    }

    pub(crate) fn info(&self) -> RdmaInfo {
        let state = self.state.borrow();
        let (device, queue_pair) = state
            .queue
            .as_ref()
            .map(VerbsQueue::names)
            .unwrap_or_default();
        let path = match (&state.queue, state.stage) {
            (Some(queue), Stage::Established) => *self.path.get_or_init(|| queue.path()),
            _ => self.path.get().copied().flatten(),
        };
        let (path_mtu, peer_queue_pair) = path.unwrap_or_default();
        let config = state.queue.as_ref().map(VerbsQueue::config);
        RdmaInfo {
            device,
            queue_pair,
            peer_queue_pair,
            path_mtu,
            reads_out: state.reads_out,
            reads_in: state.reads_in,
            // Devices count them for a port, not for a queue pair.
            rnr_retries: None,
            receives: state.queue.as_ref().map_or(0, VerbsQueue::receives),
            shared_receives: config.map_or(0, |c| c.shared_receives),
            receive_len: config.map_or(0, |c| c.receive_len),
            inline_max: INLINE_MAX,
        }
    }

    pub(crate) fn post(&self, chain: &mut Vec<WorkRequest>) {
        let state = &mut *self.state.borrow_mut();
        if let Some(queue) = &mut state.queue {
            queue.post(chain, &mut state.events);
        }
    }

    pub(crate) fn post_receive(&self, slot: ReceiveSlot) {
        if let Some(queue) = &mut self.state.borrow_mut().queue {
            queue.post_receive(slot);
        }
    }

    pub(crate) fn expose(&self, memory: Memory) -> std::result::Result<Exposed, Memory> {
        match self.state.borrow_mut().queue.as_mut() {
            Some(queue) => queue.expose(memory),
            None => Err(memory),
        }
    }

    pub(crate) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Raised> {
        loop {
            if let Some(event) = self.state.borrow_mut().events.pop_front() {
                return Poll::Ready(event);
            }
            let heard = self.hear(cx);
            let reaped = self.reap(cx);
            if self.state.borrow().events.is_empty() && !heard && !reaped {
                return Poll::Pending;
            }
        }
    }

    /// Takes completions. Returns whether there may be more.
    fn reap(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.state.borrow_mut();
        let State {
            queue,
            events,
            completed,
            ..
        } = &mut *state;
        let Some(queue) = queue else { return false };
        let mut is_ready = queue.reap(events);
        if !is_ready && completed.poll(queue.channel(), cx) {
            queue.channel().take();
            queue.arm();
            is_ready = true;
        }
        let trouble = queue.trouble(cx);
        let failed = Ending::of_failures(queue.failure(), trouble, queue.has_lost_receives());
        let is_idle = queue.is_idle();
        let stage = state.stage;
        drop(state);
        match (stage, failed) {
            (Stage::Established, Some(why)) => self.fail(why),
            (Stage::Ending(why), _) if is_idle && !is_ready => {
                self.report(why);
                is_ready = true;
            }
            _ => {}
        }
        is_ready
    }

    /// Reports the end, after everything else.
    fn report(&self, why: Ending) {
        let state = &mut *self.state.borrow_mut();
        if let Some(queue) = &mut state.queue {
            queue.release(&mut state.events);
        }
        state.events.push_back(Err(QueuePairEvent::Ended(why)));
        state.stage = Stage::Ended;
    }

    /// Takes events of the connection manager, if its channel has become readable: asking the channel is a call of the kernel, which a
    /// connection would make several times for each message. Returns whether there may be more.
    fn hear(&self, cx: &mut Context<'_>) -> bool {
        if self.state.borrow().stage == Stage::Ended {
            return false;
        }
        let channel = self.id().channel.clone();
        if !self.state.borrow_mut().said.poll(&channel, cx) {
            return false;
        }
        while let Some(said) = channel.next() {
            if let Err(e) = self.act_on(&said) {
                self.refuse(e.into());
            }
        }
        true
    }

    fn act_on(&self, said: &Said) -> Result<()> {
        let id = self.id();
        let library = id.channel.library;
        match said.event {
            abi::CM_ADDR_RESOLVED => {
                // SAFETY: the identifier exists.
                check(unsafe { (library.rdma_resolve_route)(id.raw, RESOLVE_MS) })
            }
            abi::CM_ROUTE_RESOLVED => self.request(),
            abi::CM_ADDR_ERROR | abi::CM_ROUTE_ERROR | abi::CM_CONNECT_ERROR => {
                Err(Error::Unreachable(libc::EHOSTUNREACH))
            }
            abi::CM_UNREACHABLE => Err(Error::TimedOut),
            abi::CM_REJECTED => {
                self.refuse(match said.status {
                    abi::REJECTED_BY_CONSUMER => ConnectError::Rejected(said.private.clone()),
                    _ => Error::Unreachable(libc::ECONNREFUSED).into(),
                });
                Ok(())
            }
            abi::CM_ESTABLISHED => {
                let mut state = self.state.borrow_mut();
                if state.stage == Stage::Connecting {
                    state.reads_out = state.config.reads_out.min(said.serves);
                    state.reads_in = state.config.reads_in.min(said.wants);
                    state.answer = Some(Ok(said.private.clone()));
                }
                if matches!(state.stage, Stage::Connecting | Stage::Accepting) {
                    state.stage = Stage::Established;
                    if let Some(queue) = &state.queue {
                        queue.established();
                    }
                }
                Ok(())
            }
            abi::CM_DISCONNECTED => {
                self.fail(Ending::Peer);
                Ok(())
            }
            abi::CM_DEVICE_REMOVAL => {
                self.fail(Ending::DeviceRemoved);
                Ok(())
            }
            // Other events need no action: the end of a time wait, a changed address.
            _ => Ok(()),
        }
    }

    /// Address and route are known: the connection request goes out.
    fn request(&self) -> Result<()> {
        let id = self.id();
        let mut state = self.state.borrow_mut();
        let config = state.config;
        state.queue = Some(VerbsQueue::new(id.raw, config)?);
        let reads = (config.reads_in, config.reads_out);
        let mut parameters = parameters(config, &state.private, reads);
        // SAFETY: the identifier exists; the call copies parameters and private data.
        check(unsafe { (id.channel.library.rdma_connect)(id.raw, &raw mut parameters) })
    }

    /// The connection was not made.
    fn refuse(&self, why: ConnectError) {
        let mut state = self.state.borrow_mut();
        if state.stage == Stage::Connecting {
            state.answer = Some(Err(why));
        }
        drop(state);
        self.fail(Ending::Peer);
    }

    /// The connection ends; the first reason stays. Posted requests end with a flush.
    fn fail(&self, why: Ending) {
        let mut state = self.state.borrow_mut();
        if matches!(state.stage, Stage::Ending(_) | Stage::Ended) {
            return;
        }
        state.stage = Stage::Ending(why);
        drop(state);
        let id = self.id();
        // SAFETY: the identifier exists. An error says that it is disconnected already.
        unsafe { (id.channel.library.rdma_disconnect)(id.raw) };
    }

    pub(crate) fn disconnect(&self) {
        self.fail(Ending::Here);
    }
}

impl Drop for LinuxEndpoint {
    fn drop(&mut self) {
        if self.id.is_none() {
            // It was detached.
            return;
        }
        self.fail(Ending::Here);
        let Some(id) = self.id.take() else { return };
        let queue = self.state.borrow_mut().queue.take();
        crate::runtime::blocking_detached(move || {
            let mut queue = queue;
            if let Some(queue) = &mut queue {
                queue.wait_for_last_work();
                queue.give_back();
                queue.leave();
                // SAFETY: the identifier has its queue pair; afterwards the device uses no memory of it.
                unsafe { (id.channel.library.rdma_destroy_qp)(id.raw) };
            }
            if let Some(mut queue) = queue {
                queue.give_back();
                queue.destroy();
            }
            drop(id);
        });
    }
}

/// Parameters of a request or an acceptance; `reads` are the READs that this side serves, and the READs that it wants to have outstanding.
fn parameters(config: QueuePairConfig, private: &[u8], reads: (u8, u8)) -> ConnParam {
    ConnParam {
        private_data: private.as_ptr().cast(),
        private_data_len: private.len() as u8,
        responder_resources: reads.0,
        initiator_depth: reads.1,
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: config.rnr_retries,
        srq: 0,
        qp_num: 0,
    }
}

/// An address of the connection manager; unspecified if it has another family than IPv4 and IPv6.
pub(super) fn address(of: &libc::sockaddr_storage) -> SocketAddr {
    let mut storage = socket2::SockAddrStorage::zeroed();
    let len = size_of::<libc::sockaddr_storage>();
    // SAFETY: both are storage for any address, of the same size.
    unsafe {
        *storage.view_as::<libc::sockaddr_storage>() = *of;
    }
    // SAFETY: the storage has an address, or zeroes, which are no address.
    let address = unsafe { socket2::SockAddr::new(storage, len as libc::socklen_t) };
    address
        .as_socket()
        .unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
}
