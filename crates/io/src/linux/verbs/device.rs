//! Devices: their protection domain, and registered memory.
//!
//! **Owns** one protection domain for each device of the process, and registrations. **Called by** endpoints. **Invariants**: a registration
//! ends before its memory is freed, and after the last request that uses it.

use super::abi::{Context, Mr, Pd, RecvWr, Sge};
use super::events::{Told, watch};
use super::library::{Library, check_pointer, library};
use crate::buf::Mapping;
use crate::rdma::LockedMemory;
use crate::sync::lock;
use crate::{Error, Result};
use libc::c_int;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A device in use.
pub(crate) struct RdmaDevice {
    pub(super) library: &'static Library,
    /// Freed by the end of the process only: a removed device may still have endpoints that end.
    pd: *mut Pd,
    pub(super) name: String,
    /// A registration failed, which was logged.
    has_told: AtomicBool,
    /// A shared receive queue was refused, which was logged.
    has_told_shared: AtomicBool,
    /// Its queue pairs, for its events.
    pub(super) told: Arc<Told>,
}

// SAFETY: libibverbs locks its objects; the pointers are valid until the process ends.
unsafe impl Send for RdmaDevice {}
// SAFETY: as above.
unsafe impl Sync for RdmaDevice {}

/// The devices in use, by the address of their context.
static DEVICES: Mutex<BTreeMap<usize, Arc<RdmaDevice>>> = Mutex::new(BTreeMap::new());

impl RdmaDevice {
    /// The device of a context that librdmacm has opened.
    pub(super) fn of(context: *mut Context) -> Result<Arc<RdmaDevice>> {
        let mut devices = lock(&DEVICES);
        if let Some(known) = devices.get(&(context as usize)) {
            return Ok(known.clone());
        }
        let library = library()?;
        // SAFETY: librdmacm keeps the contexts of its identifiers open.
        let pd = check_pointer(unsafe { (library.ibv_alloc_pd)(context) })?;
        // SAFETY: a context has its device, whose name ends with a zero.
        let name = unsafe { CStr::from_ptr((*(*context).device).name.as_ptr()) };
        let device = Arc::new(RdmaDevice {
            library,
            pd,
            name: name.to_string_lossy().into_owned(),
            has_told: AtomicBool::new(false),
            has_told_shared: AtomicBool::new(false),
            told: Arc::default(),
        });
        watch(library, context, &device.name, &device.told);
        devices.insert(context as usize, device.clone());
        Ok(device)
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> *mut Pd {
        self.pd
    }

    /// Registers memory. Errors: `Exhausted` if the process may not lock that many bytes.
    ///
    /// # Safety
    /// The memory must live longer than the registration.
    pub(super) unsafe fn register(
        self: &Arc<RdmaDevice>,
        at: *const u8,
        len: usize,
        access: i32,
    ) -> Result<Registration> {
        let pointer = at.cast_mut().cast();
        // SAFETY: the caller keeps the memory; the library only pins it.
        let mr = unsafe { (self.library.ibv_reg_mr)(self.pd, pointer, len, access) };
        Ok(Registration {
            mr: check_pointer(mr).inspect_err(|error| self.tell(len, *error))?,
            device: self.clone(),
        })
    }

    /// Logs the first refusal of a shared receive queue of `count` receives.
    pub(super) fn tell_shared(&self, count: u32, error: Error) {
        if self.has_told_shared.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            device = self.name, count, %error,
            "the RDMA device has no room for a queue of that many shared receives, so connections are rejected: lower [nvmf] \
             rdma_shared_receives (`ibv_devinfo -v` shows max_srq and max_srq_wr), or set it to 0"
        );
    }

    /// Counts a registration that failed, and logs the first one.
    fn tell(&self, bytes: usize, error: Error) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        if self.has_told.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            device = self.name, bytes, %error,
            "memory cannot be locked for RDMA, so buffers are registered one by one, and connections may be refused; {}",
            locked_memory()
        );
    }
}

/// Registrations that failed.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// See [`crate::rdma::locked_memory`].
pub(crate) fn locked_memory() -> LockedMemory {
    LockedMemory {
        limit: memory_lock_limit(),
        refused: REFUSED.load(Ordering::Relaxed),
    }
}

/// The limit of locked memory of this process (RLIMIT_MEMLOCK), bytes; `None` if there is none.
fn memory_lock_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills a local structure.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Registered memory.
pub(super) struct Registration {
    mr: *mut Mr,
    device: Arc<RdmaDevice>,
}

// SAFETY: libibverbs locks its objects.
unsafe impl Send for Registration {}
// SAFETY: shared access only reads the keys.
unsafe impl Sync for Registration {}

impl Registration {
    /// The key for requests of this side.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: the registration exists until it is dropped.
        unsafe { (*self.mr).lkey }
    }

    /// The key for the peer.
    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.mr).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: our own registration, which no request uses any longer.
        let result = unsafe { (self.device.library.ibv_dereg_mr)(self.mr) };
        if result != 0 {
            tracing::warn!(errno = result, "memory stays registered for RDMA");
        }
    }
}

/// Memory for the receives of one endpoint, registered once and cut into equal slots.
pub(super) struct Area {
    /// Ends before the memory.
    registration: Registration,
    memory: Mapping,
    slot_len: usize,
}

impl Area {
    /// Maps and registers `count` slots of `slot_len` bytes.
    pub(super) fn new(device: &Arc<RdmaDevice>, count: usize, slot_len: usize) -> Result<Area> {
        let len = (count * slot_len)
            .max(1)
            .next_multiple_of(crate::limits::BUF_ALIGN);
        let memory = Mapping::new(len)?;
        let at = memory.ptr().as_ptr();
        // SAFETY: the area drops its registration before its mapping.
        let registration = unsafe { device.register(at, len, super::abi::ACCESS_LOCAL_WRITE)? };
        Ok(Area {
            registration,
            memory,
            slot_len,
        })
    }

    /// Bytes of a slot.
    pub(super) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Address of a slot.
    pub(super) fn slot(&self, index: usize) -> NonNull<u8> {
        assert!(
            (index + 1) * self.slot_len <= self.memory.len(),
            "a slot is in its area"
        );
        // SAFETY: the slot lies within the mapping, as was just checked.
        unsafe { self.memory.ptr().add(index * self.slot_len) }
    }

    /// Has `post` post a receive of `length` bytes into a slot, whose index is the number of the request. The request and the place for a
    /// bad one, which `post` gets, live as long as its call. Returns its result.
    pub(super) fn post_receive(
        &self,
        index: usize,
        length: u32,
        post: impl FnOnce(*mut RecvWr, *mut *mut RecvWr) -> Option<c_int>,
    ) -> Option<c_int> {
        let mut sge = Sge {
            addr: self.slot(index).as_ptr() as u64,
            length,
            lkey: self.lkey(),
        };
        let mut request = RecvWr {
            wr_id: index as u64,
            next: null_mut(),
            sg_list: &raw mut sge,
            num_sge: 1,
        };
        let mut bad = null_mut();
        post(&raw mut request, &raw mut bad)
    }

    /// The key of all slots.
    pub(super) fn lkey(&self) -> u32 {
        self.registration.lkey()
    }
}

/// The registrations of a slab of buffers, one for each device that used it.
#[derive(Default)]
pub(crate) struct RegisteredSlab(Vec<Registration>);

impl RegisteredSlab {
    /// Whether no device has the slab.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key of the slab for requests to `device`; the first use registers all of it.
    ///
    /// # Safety
    /// The slab must live longer than this.
    pub(crate) unsafe fn lkey(
        &mut self,
        device: &Arc<RdmaDevice>,
        (at, len): (*const u8, usize),
    ) -> Result<u32> {
        let known = self.0.iter().find(|r| Arc::ptr_eq(&r.device, device));
        if let Some(known) = known {
            return Ok(known.lkey());
        }
        // SAFETY: the caller keeps the slab.
        let registration = unsafe { device.register(at, len, super::abi::ACCESS_LOCAL_WRITE)? };
        let lkey = registration.lkey();
        self.0.push(registration);
        Ok(lkey)
    }
}

#[cfg(test)]
mod tests;
