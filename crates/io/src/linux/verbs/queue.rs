//! One queue pair with its completion queue, and the memory of its requests.
//!
//! **Owns** posted requests and receives. **Called by** the endpoint. **Invariants**: the last request of each post is signalled, so that
//! entries of the send queue come back; a signalled completion ends all requests before it; a slot is posted again after its message was
//! dropped.

use super::abi::{self, CmId, Cq, Qp, QpAttr, QpCap, QpInitAttr, SendWr, Sge, Srq, Wc};
use super::channel::CompletionChannel;
use super::device::{Area, RdmaDevice, Registration};
use super::events::Trouble;
use super::library::{check, check_pointer};
use super::request::{Held, INLINE_MAX, SERIAL_FIRST, prepare, returned};
use super::shared::SharedReceives;
use super::slot::ReceiveSlot;
use crate::rdma::{
    DeviceEvent, Exposed, Memory, QueuePairConfig, QueuePairEvent, Raised, ReceiveBuffer, Remote,
    RemoteKey, Returned, Verb, WorkError, WorkRequest,
};
use crate::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::ptr::null_mut;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

/// The highest code of a path MTU (`IBV_MTU_4096`), and the bytes that each code doubles.
const MTU_CODE_MAX: u32 = 5;
const MTU_OF_CODE_0: u32 = 128;
/// Completions that are taken with one call.
const COMPLETIONS: usize = 32;
/// Requests that are posted with one call.
const CHAIN_MAX: usize = 64;

/// Code of the pause before a message is sent again that found no shared receive: 0.64 ms (IBA table 45).
const RNR_TIMER: u8 = 12;
/// Longest wait for the event that a failed queue pair uses no shared receive any longer.
const LAST_WORK_MAX: Duration = Duration::from_millis(20);

/// A posted request.
struct Posted {
    serial: u64,
    tag: Option<u64>,
    held: Held,
}

/// Where its receives are.
enum Receives {
    /// Its own slots.
    Own(Arc<Area>),
    /// A queue that it shares.
    Shared(Arc<SharedReceives>),
}

/// A queue pair that an identifier of the connection manager has.
pub(super) struct VerbsQueue {
    device: Arc<RdmaDevice>,
    qp: *mut Qp,
    cq: *mut Cq,
    channel: Arc<CompletionChannel>,
    /// Events of the device that end the queue pair.
    trouble: Arc<Trouble>,
    receives: Receives,
    config: QueuePairConfig,
    /// Requests that wait for entries of the send queue.
    waiting: VecDeque<WorkRequest>,
    posted: VecDeque<Posted>,
    next_serial: u64,
    /// Memory that the peer may use; its registration is dropped first.
    exposed: BTreeMap<RemoteKey, (Registration, Memory)>,
    /// The first error of a request.
    failure: Option<WorkError>,
    /// A receive ended without a message: the peer sent what cannot be carried out, or the queue pair was flushed.
    has_lost_receives: bool,
}

// SAFETY: libibverbs locks its objects, and the memory is only used through them.
unsafe impl Send for VerbsQueue {}

impl Receives {
    /// The shared queue for the device; null without one.
    fn srq(&self) -> *mut Srq {
        match self {
            Receives::Own(_) => null_mut(),
            Receives::Shared(shared) => shared.raw(),
        }
    }
}

impl VerbsQueue {
    /// Makes the queue pair of an identifier that is bound to a device, and posts all its receives. Errors: `Exhausted` if the device
    /// or the memory that the process may lock is used up.
    pub(super) fn new(id: *mut CmId, config: QueuePairConfig) -> Result<VerbsQueue> {
        // SAFETY: the identifier exists, and is bound, so it has a context.
        let context = unsafe { (*id).verbs };
        let device = RdmaDevice::of(context)?;
        let library = device.library;
        let channel = CompletionChannel::open(library, context)?;
        let receives = match SharedReceives::of(&device, &config)? {
            Some(shared) => Receives::Shared(shared),
            None => {
                let slot_len = (config.receive_len as usize).next_multiple_of(64);
                let area = Area::new(&device, usize::from(config.receives), slot_len)?;
                Receives::Own(Arc::new(area))
            }
        };
        // A peer may use up all shared receives before completions are taken.
        let most = match &receives {
            Receives::Own(_) => u32::from(config.receives),
            Receives::Shared(_) => config.shared_receives,
        };
        let entries = i32::from(config.sends) + i32::try_from(most).unwrap_or(i32::MAX / 2);
        // SAFETY: the context and the channel exist.
        let cq = unsafe { (library.ibv_create_cq)(context, entries, null_mut(), channel.raw(), 0) };
        let cq = check_pointer(cq)?;
        let made = VerbsQueue::make(id, &device, cq, (config, receives.srq()));
        if made.is_err() {
            // SAFETY: our own queue, which nothing uses.
            unsafe { (library.ibv_destroy_cq)(cq) };
        }
        let qp = made?;
        let trouble = device.told.add(qp, cq, receives.srq());
        let mut queue = VerbsQueue {
            device,
            trouble,
            qp,
            cq,
            channel,
            receives,
            config,
            waiting: VecDeque::new(),
            posted: VecDeque::new(),
            next_serial: 1,
            exposed: BTreeMap::new(),
            failure: None,
            has_lost_receives: false,
        };
        if let Receives::Own(_) = queue.receives {
            for index in 0..usize::from(config.receives) {
                queue.post_slot(index);
            }
        }
        queue.arm();
        Ok(queue)
    }

    fn make(
        id: *mut CmId,
        device: &Arc<RdmaDevice>,
        cq: *mut Cq,
        (config, srq): (QueuePairConfig, *mut Srq),
    ) -> Result<*mut Qp> {
        let mut attributes = QpInitAttr {
            qp_context: null_mut(),
            send_cq: cq,
            recv_cq: cq,
            srq,
            cap: QpCap {
                max_send_wr: u32::from(config.sends),
                max_recv_wr: u32::from(config.receives).max(1),
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: INLINE_MAX,
            },
            qp_type: abi::QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: identifier, domain and queue exist; the call copies the attributes.
        let created =
            unsafe { (device.library.rdma_create_qp)(id, device.pd(), &raw mut attributes) };
        check(created).map_err(|e| match e {
            Error::Os(libc::EINVAL) => Error::Exhausted(libc::ENOMEM),
            other => other,
        })?;
        // SAFETY: the identifier has its queue pair now.
        Ok(unsafe { (*id).qp })
    }

    /// The device's name, and the number of the queue pair.
    pub(super) fn names(&self) -> (String, u32) {
        // SAFETY: the queue pair exists until the endpoint destroys it.
        (self.device.name.clone(), unsafe { (*self.qp).qp_num })
    }

    /// The path MTU in bytes, and the number of the peer's queue pair, of a connected queue pair. `None` if the device does not tell.
    pub(super) fn path(&self) -> Option<(u32, u32)> {
        let mut attributes = QpAttr::new();
        let mut initial = QpInitAttr {
            qp_context: null_mut(),
            send_cq: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            cap: QpCap::default(),
            qp_type: 0,
            sq_sig_all: 0,
        };
        let mask = abi::QP_PATH_MTU | abi::QP_DEST_QPN;
        // SAFETY: the queue pair exists until the endpoint destroys it; the call fills local structures.
        let result = unsafe {
            (self.device.library.ibv_query_qp)(self.qp, &raw mut attributes, mask, &raw mut initial)
        };
        let mtu = u32::try_from(attributes.path_mtu).ok()?;
        let is_known = result == 0 && (1..=MTU_CODE_MAX).contains(&mtu);
        is_known.then(|| (MTU_OF_CODE_0 << mtu, attributes.dest_qp_num))
    }

    /// Sizes as they are configured.
    pub(super) fn config(&self) -> QueuePairConfig {
        self.config
    }

    /// The channel of its completions.
    pub(super) fn channel(&self) -> &Arc<CompletionChannel> {
        &self.channel
    }

    /// An event of the device that ends the queue pair.
    pub(super) fn trouble(&self, cx: &Context<'_>) -> Option<DeviceEvent> {
        self.trouble.poll(cx)
    }

    /// The queue pair is about to be destroyed: it hears of no event any longer.
    pub(super) fn leave(&self) {
        self.device.told.remove(self.qp, self.cq);
    }

    /// The first error of a request.
    pub(super) fn failure(&self) -> Option<WorkError> {
        self.failure
    }

    /// Whether receives ended without a message. Those of a shared queue do not end with the queue pair; the event of its last one says that it
    /// has failed.
    pub(super) fn has_lost_receives(&self) -> bool {
        let is_shared = matches!(self.receives, Receives::Shared(_));
        let is_last = self.trouble.event() == Some(DeviceEvent::LastWorkReached);
        self.has_lost_receives || is_shared && is_last
    }

    /// Gives receives of a shared queue back that the device has used up and nothing has taken. The queue pair is in its error state, or
    /// destroyed.
    pub(super) fn give_back(&mut self) {
        let Receives::Shared(_) = self.receives else {
            return;
        };
        let mut raised = VecDeque::new();
        self.waiting.clear();
        while self.reap(&mut raised) {
            raised.clear();
        }
    }

    /// Waits until a queue pair in its error state uses no receive of its shared queue, or for [`LAST_WORK_MAX`]: not each device tells.
    pub(super) fn wait_for_last_work(&self) {
        if let Receives::Shared(_) = self.receives {
            self.trouble.wait_for_last_work(LAST_WORK_MAX);
        }
    }

    /// Whether no request is posted.
    pub(super) fn is_idle(&self) -> bool {
        self.posted.is_empty()
    }

    /// Has the next completion announced.
    pub(super) fn arm(&self) {
        // SAFETY: the queue has its context, whose functions the provider has set.
        unsafe {
            if let Some(arm) = (*(*self.cq).context).req_notify_cq {
                arm(self.cq, 0);
            }
        }
    }

    /// Receives that are posted; of its own ones all that it has.
    pub(super) fn receives(&self) -> u32 {
        match &self.receives {
            Receives::Own(_) => u32::from(self.config.receives),
            Receives::Shared(shared) => shared.posted(),
        }
    }

    /// The queue pair is connected: peers that find no shared receive come back soon. The connection manager asks them to wait 0.65 s, which
    /// is meant for receives that never come.
    pub(super) fn established(&self) {
        let Receives::Shared(_) = self.receives else {
            return;
        };
        let mut attributes = QpAttr::new();
        attributes.min_rnr_timer = RNR_TIMER;
        // SAFETY: the queue pair exists until the endpoint destroys it; the call reads local structures.
        let result = unsafe {
            (self.device.library.ibv_modify_qp)(self.qp, &raw mut attributes, abi::QP_MIN_RNR_TIMER)
        };
        if result != 0 {
            tracing::debug!(errno = result, "peers without a shared receive wait 0.65 s");
        }
    }

    fn post_slot(&mut self, index: usize) {
        let Receives::Own(area) = &self.receives else {
            return;
        };
        let result = area.post_receive(index, self.config.receive_len, |request, bad| {
            // SAFETY: the area lives as long as the queue pair, and nothing else uses the slot.
            unsafe {
                (*(*self.qp).context)
                    .post_recv
                    .map(|post| post(self.qp, request, bad))
            }
        });
        if result != Some(0) {
            self.has_lost_receives = true;
        }
    }

    /// A message was dropped: its slot is posted again.
    pub(super) fn post_receive(&mut self, slot: ReceiveSlot) {
        let index = slot.index();
        drop(slot);
        self.post_slot(index);
    }

    /// Posts requests while the send queue has free entries, and keeps the others in line. A request that the device refuses ends with an
    /// error.
    pub(super) fn post(&mut self, chain: &mut Vec<WorkRequest>, raised: &mut VecDeque<Raised>) {
        self.waiting.extend(chain.drain(..));
        self.post_waiting(raised);
    }

    /// Posts requests that wait.
    pub(super) fn post_waiting(&mut self, raised: &mut VecDeque<Raised>) {
        while !self.waiting.is_empty() && self.posted.len() < usize::from(self.config.sends) {
            let room = usize::from(self.config.sends) - self.posted.len();
            if !self.post_chain(room.min(CHAIN_MAX), raised) {
                return;
            }
        }
    }

    /// Posts up to `most` requests with one call. False if the queue pair takes none.
    fn post_chain(&mut self, most: usize, raised: &mut VecDeque<Raised>) -> bool {
        let mut requests: Vec<SendWr> = Vec::with_capacity(most);
        let mut elements: Vec<Sge> = Vec::with_capacity(most);
        let mut held = Vec::with_capacity(most);
        while requests.len() < most
            && let Some(WorkRequest { tag, work }) = self.waiting.pop_front()
        {
            let serial = self.next_serial;
            self.next_serial += 1;
            if let Verb::Withdraw { key } = work {
                self.withdraw(tag, key, raised);
                continue;
            }
            let prepared = prepare(&self.device, serial, work);
            let (request, element, memory) = match prepared {
                Ok(prepared) => prepared,
                Err(returned) => {
                    self.failure.get_or_insert(WorkError::LocalMemory);
                    raised.push_back(done(tag, Err(WorkError::LocalMemory), returned));
                    continue;
                }
            };
            requests.push(request);
            elements.push(element);
            held.push(Posted {
                serial,
                tag,
                held: memory,
            });
        }
        let count = requests.len();
        for at in 0..count {
            let is_signalled = held[at].tag.is_some() || at + 1 == count;
            if is_signalled {
                requests[at].send_flags |= abi::SEND_SIGNALED;
            }
            if elements[at].length > 0 {
                requests[at].sg_list = &raw mut elements[at];
                requests[at].num_sge = 1;
            }
        }
        for at in (1..count).rev() {
            let next: *mut SendWr = &raw mut requests[at];
            requests[at - 1].next = next;
        }
        self.posted.extend(held);
        let Some(first) = requests.first_mut() else {
            return true;
        };
        let mut bad = null_mut();
        // SAFETY: requests and elements live until the call returns; the memory that they name is held until its completion.
        let result = unsafe {
            (*(*self.qp).context)
                .post_send
                .map(|post| post(self.qp, first, &raw mut bad))
        };
        if result == Some(0) {
            return true;
        }
        // Requests from `bad` on were not taken.
        let taken = requests
            .iter()
            .position(|r| std::ptr::eq(r, bad))
            .unwrap_or(0);
        for _ in taken..count {
            if let Some(not_posted) = self.posted.pop_back() {
                let returned = returned(not_posted.held);
                raised.push_back(done(not_posted.tag, Err(WorkError::Flushed), returned));
            }
        }
        self.failure.get_or_insert(WorkError::Flushed);
        false
    }

    /// Takes completions. Returns whether there were any.
    pub(super) fn reap(&mut self, raised: &mut VecDeque<Raised>) -> bool {
        // SAFETY: all-zero completions are valid.
        let mut completions: [Wc; COMPLETIONS] = unsafe { std::mem::zeroed() };
        // SAFETY: fills at most as many completions as there are.
        let count = unsafe {
            (*(*self.cq).context).poll_cq.map_or(0, |poll| {
                poll(self.cq, COMPLETIONS as i32, completions.as_mut_ptr())
            })
        };
        let count = usize::try_from(count).unwrap_or(0);
        for completion in &completions[..count] {
            // The opcode of a failed completion is not valid: receives have the numbers of slots, requests have serials above.
            match completion.wr_id < SERIAL_FIRST {
                true => self.received(completion, raised),
                false => self.ended(completion, raised),
            }
        }
        self.post_waiting(raised);
        count > 0
    }

    fn received(&mut self, completion: &Wc, raised: &mut VecDeque<Raised>) {
        let (index, len) = (completion.wr_id as usize, completion.byte_len as usize);
        let is_message = completion.status == abi::WC_SUCCESS;
        self.has_lost_receives |= !is_message;
        let slot = match &self.receives {
            Receives::Own(area) if is_message => ReceiveSlot::new(area.clone(), index, len),
            Receives::Own(_) => return,
            Receives::Shared(shared) => {
                shared.taken();
                if !is_message {
                    return shared.post(index);
                }
                ReceiveSlot::of_shared(shared, index, len)
            }
        };
        raised.push_back(Ok((ReceiveBuffer::Slot(slot), None)));
    }

    fn ended(&mut self, completion: &Wc, raised: &mut VecDeque<Raised>) {
        let serial = completion.wr_id - SERIAL_FIRST;
        let result = match completion.status {
            abi::WC_SUCCESS => Ok(()),
            abi::WC_REM_INV_REQ_ERR | abi::WC_REM_OP_ERR => Err(WorkError::RemoteInvalid),
            abi::WC_REM_ACCESS_ERR => Err(WorkError::RemoteAccess),
            abi::WC_RETRY_EXC_ERR => Err(WorkError::RetriesExceeded),
            abi::WC_RNR_RETRY_EXC_ERR => Err(WorkError::RnrExceeded),
            _ => Err(WorkError::Flushed),
        };
        if let Err(why) = result
            && why != WorkError::Flushed
        {
            self.failure.get_or_insert(why);
        }
        while let Some(first) = self.posted.front()
            && first.serial <= serial
        {
            let is_named = first.serial == serial;
            let Some(ended) = self.posted.pop_front() else {
                return;
            };
            // Requests before a completed one were carried out.
            let result = if is_named { result } else { Ok(()) };
            if ended.tag.is_some() || result.is_err() {
                raised.push_back(done(ended.tag, result, returned(ended.held)));
            }
        }
    }

    /// Gives the peer access to memory: a registration of its own. Returns the memory if the device cannot register it.
    pub(super) fn expose(&mut self, memory: Memory) -> std::result::Result<Exposed, Memory> {
        let (at, access) = match &memory {
            Memory::Writable(buf) => {
                let access = abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_WRITE;
                (buf.as_ptr(), access)
            }
            Memory::Readable(payload) => (payload.as_ptr(), abi::ACCESS_REMOTE_READ),
        };
        let len = memory.len();
        // SAFETY: the memory is kept beside its registration, and dropped after it.
        let Ok(registration) = (unsafe { self.device.register(at, len, access) }) else {
            return Err(memory);
        };
        let key = RemoteKey(registration.rkey());
        self.exposed.insert(key, (registration, memory));
        Ok(Exposed {
            at: Remote {
                address: at as u64,
                key,
            },
            len: len as u32,
            can_invalidate: false,
        })
    }

    fn withdraw(&mut self, tag: Option<u64>, key: RemoteKey, raised: &mut VecDeque<Raised>) {
        let event = match self.exposed.remove(&key) {
            Some((registration, memory)) => {
                drop(registration);
                done(tag, Ok(()), Returned::Memory(memory))
            }
            None => done(tag, Err(WorkError::LocalKey), Returned::Nothing),
        };
        raised.push_back(event);
    }

    /// The queue pair has ended: all requests end, and exposed memory comes back.
    pub(super) fn release(&mut self, raised: &mut VecDeque<Raised>) {
        for WorkRequest { tag, work } in self.waiting.drain(..) {
            let returned = match work {
                Verb::Read { into, .. } => Returned::Buffer(into),
                _ => Returned::Nothing,
            };
            raised.push_back(done(tag, Err(WorkError::Flushed), returned));
        }
        for (key, (registration, memory)) in std::mem::take(&mut self.exposed) {
            drop(registration);
            raised.push_back(Err(QueuePairEvent::Released { key, memory }));
        }
    }

    /// Destroys the completion queue. The queue pair was destroyed before.
    pub(super) fn destroy(self) {
        // SAFETY: our own queue; no queue pair uses it, and all announcements were acknowledged.
        unsafe { (self.device.library.ibv_destroy_cq)(self.cq) };
    }
}

fn done(
    tag: Option<u64>,
    result: std::result::Result<(), WorkError>,
    returned: Returned,
) -> Raised {
    Err(QueuePairEvent::Done {
        tag: tag.unwrap_or(0),
        result,
        returned,
    })
}
