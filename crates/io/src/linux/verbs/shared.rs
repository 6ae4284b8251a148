//! Shared receive queues (IBA 10.2.9).
//!
//! **Owns** a queue of the device with its receives. **Called by** queue pairs of one device and one thread with the same sizes, and by messages,
//! which return their receives from any thread. **Invariants**: the queue is made with its first queue pair and destroyed after its last one and
//! the last message; each receive is posted, has a message, or was lost with a queue pair that ended without reporting it.

use super::abi::{self, Srq, SrqAttr, SrqInitAttr};
use super::device::{Area, RdmaDevice};
use super::events::Shortage;
use super::library::check_pointer;
use crate::rdma::QueuePairConfig;
use crate::sync::lock;
use crate::{Error, Result};
use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, Weak};

/// The part of the receives that is few.
const LOW: u32 = 8;

/// A shared receive queue.
pub(super) struct SharedReceives {
    device: Arc<RdmaDevice>,
    srq: *mut Srq,
    area: Arc<Area>,
    count: u32,
    receive_len: u32,
    /// Receives that are posted now, as far as they were reported.
    posted: Mutex<u32>,
    /// Set by the event of few receives.
    shortage: Arc<Shortage>,
}

// SAFETY: libibverbs locks its objects, and the memory is only used through them.
unsafe impl Send for SharedReceives {}
// SAFETY: as above; posting is a call of the library.
unsafe impl Sync for SharedReceives {}

thread_local! {
    /// The queues of this thread that are in use.
    static OF_THREAD: RefCell<Vec<Weak<SharedReceives>>> = const { RefCell::new(Vec::new()) };
}

impl SharedReceives {
    /// The queue of this thread and device for these sizes, which is made if there is none. `None` if the queue pair has its own receives.
    /// Errors: `Exhausted` if the device has none left, or the process may not lock its memory.
    pub(super) fn of(
        device: &Arc<RdmaDevice>,
        config: &QueuePairConfig,
    ) -> Result<Option<Arc<SharedReceives>>> {
        let (count, receive_len) = (config.shared_receives, config.receive_len);
        if count == 0 {
            return Ok(None);
        }
        OF_THREAD.with_borrow_mut(|all| {
            all.retain(|known| known.strong_count() > 0);
            let known = all.iter().filter_map(Weak::upgrade).find(|s| {
                Arc::ptr_eq(&s.device, device) && (s.count, s.receive_len) == (count, receive_len)
            });
            if let Some(known) = known {
                return Ok(Some(known));
            }
            let made = SharedReceives::make(device, count, receive_len)?;
            all.push(Arc::downgrade(&made));
            Ok(Some(made))
        })
    }

    fn make(device: &Arc<RdmaDevice>, count: u32, receive_len: u32) -> Result<Arc<Self>> {
        let slot_len = (receive_len as usize).next_multiple_of(64);
        let area = Arc::new(Area::new(device, count as usize, slot_len)?);
        let mut attributes = SrqInitAttr {
            srq_context: null_mut(),
            attr: SrqAttr {
                max_wr: count,
                max_sge: 1,
                srq_limit: 0,
            },
        };
        // SAFETY: the domain exists; the call copies the attributes.
        let srq = unsafe { (device.library.ibv_create_srq)(device.pd(), &raw mut attributes) };
        // A device says EINVAL to more receives than it can have.
        let srq = check_pointer(srq).map_err(|e| match e {
            Error::Os(libc::EINVAL) => Error::Exhausted(libc::ENOMEM),
            other => other,
        });
        let srq = srq.inspect_err(|e| device.tell_shared(count, *e))?;
        let shared = Arc::new(SharedReceives {
            device: device.clone(),
            srq,
            area,
            count,
            receive_len,
            posted: Mutex::new(0),
            shortage: device.told.add_shared(srq),
        });
        for index in 0..count as usize {
            shared.post(index);
        }
        shared.arm();
        Ok(shared)
    }

    /// The queue for the attributes of a queue pair.
    pub(super) fn raw(&self) -> *mut Srq {
        self.srq
    }

    /// The memory of its receives.
    pub(super) fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// Receives that are posted now.
    pub(super) fn posted(&self) -> u32 {
        *lock(&self.posted)
    }

    /// A receive was used up: it has a message, or was flushed.
    pub(super) fn taken(&self) {
        let posted = &mut *lock(&self.posted);
        *posted = posted.saturating_sub(1);
    }

    /// Posts a receive, which has no message any longer.
    pub(super) fn post(&self, index: usize) {
        let result = self
            .area
            .post_receive(index, self.receive_len, |request, bad| {
                // SAFETY: the area lives as long as the queue, and nothing else uses the slot.
                unsafe {
                    (*(*self.srq).context)
                        .post_srq_recv
                        .map(|post| post(self.srq, request, bad))
                }
            });
        if result != Some(0) {
            tracing::warn!(
                device = self.device.name,
                ?result,
                "a shared receive was lost"
            );
            return;
        }
        let posted = {
            let posted = &mut *lock(&self.posted);
            *posted += 1;
            *posted
        };
        if posted >= 2 * self.count / LOW && self.shortage.take() {
            self.arm();
        }
    }

    /// Has the device report when few receives are left. A device without this event works nevertheless.
    fn arm(&self) {
        let mut attributes = SrqAttr {
            srq_limit: self.count / LOW,
            ..SrqAttr::default()
        };
        // SAFETY: the queue exists; the call copies the attributes.
        let result = unsafe {
            (self.device.library.ibv_modify_srq)(self.srq, &raw mut attributes, abi::SRQ_LIMIT)
        };
        if result != 0 {
            tracing::debug!(errno = result, "no event when few shared receives are left");
        }
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        self.device.told.remove_shared(self.srq);
        // SAFETY: our own queue, which no queue pair uses any longer.
        let result = unsafe { (self.device.library.ibv_destroy_srq)(self.srq) };
        if result != 0 {
            tracing::warn!(errno = result, "a shared receive queue stays");
        }
    }
}
