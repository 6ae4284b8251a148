//! Channels: the descriptors on which events and completions are announced.
//!
//! **Owns** event channels of the connection manager and completion channels. **Called by** listeners and endpoints. **Invariants**: a
//! channel lives until the last poll of its descriptor has ended, on any thread; its identifiers and completion queues are destroyed before.

use super::abi::{CmEvent, CmId, CompChannel, ConnParam, Context, Cq, EventChannel};
use super::library::{Library, check, check_pointer, library};
use crate::runtime::{Op, OpFuture, current};
use crate::{Error, Result};
use std::future::Future;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::ptr::null_mut;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

/// An event channel of the connection manager.
pub(super) struct CmChannel {
    pub(super) library: &'static Library,
    raw: *mut EventChannel,
}

// SAFETY: librdmacm locks its objects.
unsafe impl Send for CmChannel {}
// SAFETY: as above.
unsafe impl Sync for CmChannel {}

/// An event of the connection manager, copied, so that it was acknowledged.
pub(super) struct Said {
    pub(super) id: *mut CmId,
    pub(super) event: i32,
    pub(super) status: i32,
    pub(super) private: Vec<u8>,
    /// READs that the peer serves, and READs that it wants to have outstanding.
    pub(super) serves: u8,
    pub(super) wants: u8,
}

impl CmChannel {
    /// Opens a channel. Errors: `Unsupported` without rdma-core or its kernel module, `Denied`, `Exhausted`.
    pub(super) fn open() -> Result<Arc<CmChannel>> {
        CmChannel::open_with(library()?).map_err(|e| match e {
            // No /dev/infiniband/rdma_cm, or no device.
            Error::NotFound | Error::Gone(_) => Error::Unsupported(libc::EOPNOTSUPP),
            other => other,
        })
    }

    /// Opens a channel. Errors: those of the kernel; `NotFound` or `Gone` without its module or a device.
    pub(super) fn open_with(library: &'static Library) -> Result<Arc<CmChannel>> {
        // SAFETY: creates an object of the library.
        let raw = check_pointer(unsafe { (library.rdma_create_event_channel)() })?;
        let channel = Arc::new(CmChannel { library, raw });
        unblock(channel.as_raw_fd())?;
        Ok(channel)
    }

    /// The channel for calls of the library.
    pub(super) fn raw(&self) -> *mut EventChannel {
        self.raw
    }

    /// A new identifier on this channel.
    pub(super) fn new_id(&self) -> Result<*mut CmId> {
        let mut id = null_mut();
        // SAFETY: fills a local pointer.
        check(unsafe {
            (self.library.rdma_create_id)(self.raw, &raw mut id, null_mut(), super::abi::PS_TCP)
        })?;
        Ok(id)
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Option<Said> {
        let mut event: *mut CmEvent = null_mut();
        // SAFETY: fills a local pointer; the descriptor does not block.
        let result = unsafe { (self.library.rdma_get_cm_event)(self.raw, &raw mut event) };
        if result != 0 || event.is_null() {
            return None;
        }
        // SAFETY: the event is valid until it is acknowledged.
        let said = unsafe {
            let e = &*event;
            Said {
                id: e.id,
                event: e.event,
                status: e.status,
                private: private_data(&e.conn, e.event),
                serves: e.conn.initiator_depth,
                wants: e.conn.responder_resources,
            }
        };
        // SAFETY: acknowledged once; nothing of it is used afterwards.
        unsafe { (self.library.rdma_ack_cm_event)(event) };
        Some(said)
    }
}

/// The private data of an event that has some.
///
/// # Safety
/// The event was not acknowledged yet.
unsafe fn private_data(conn: &ConnParam, event: i32) -> Vec<u8> {
    use super::abi::{CM_CONNECT_REQUEST, CM_ESTABLISHED, CM_REJECTED};
    let has_data = matches!(event, CM_CONNECT_REQUEST | CM_ESTABLISHED | CM_REJECTED);
    if !has_data || conn.private_data.is_null() {
        return Vec::new();
    }
    let len = usize::from(conn.private_data_len);
    // SAFETY: the library gives the pointer and the length of the event's data.
    unsafe { std::slice::from_raw_parts(conn.private_data.cast::<u8>(), len) }.to_vec()
}

impl AsRawFd for CmChannel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel exists until it is dropped.
        unsafe { (*self.raw).fd }
    }
}

impl Drop for CmChannel {
    fn drop(&mut self) {
        // SAFETY: our own channel, on which no identifier is left.
        unsafe { (self.library.rdma_destroy_event_channel)(self.raw) };
    }
}

/// A completion channel.
pub(super) struct CompletionChannel {
    library: &'static Library,
    raw: *mut CompChannel,
}

// SAFETY: libibverbs locks its objects.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    /// Opens a channel of a device.
    pub(super) fn open(library: &'static Library, context: *mut Context) -> Result<Arc<Self>> {
        // SAFETY: librdmacm keeps the contexts of its identifiers open.
        let raw = check_pointer(unsafe { (library.ibv_create_comp_channel)(context) })?;
        let channel = Arc::new(CompletionChannel { library, raw });
        unblock(channel.as_raw_fd())?;
        Ok(channel)
    }

    /// The channel for calls of the library.
    pub(super) fn raw(&self) -> *mut CompChannel {
        self.raw
    }

    /// Takes and acknowledges an announcement. The channel is of one queue, which has one after it was armed: a second call of the kernel would
    /// find none, and if there is one, the descriptor stays readable.
    pub(super) fn take(&self) {
        let mut queue: *mut Cq = null_mut();
        let mut context = null_mut();
        // SAFETY: fills local pointers; the descriptor does not block.
        let result =
            unsafe { (self.library.ibv_get_cq_event)(self.raw, &raw mut queue, &raw mut context) };
        if result == 0 {
            // SAFETY: the queue exists while its channel has announcements of it.
            unsafe { (self.library.ibv_ack_cq_events)(queue, 1) };
        }
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the channel exists until it is dropped.
        unsafe { (*self.raw).fd }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: our own channel, of which no queue is left.
        unsafe { (self.library.ibv_destroy_comp_channel)(self.raw) };
    }
}

/// Makes the calls of the library return at once when there is no event.
fn unblock(fd: RawFd) -> Result<()> {
    // SAFETY: changes a flag of a descriptor.
    let result = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    check(result)
}

/// Waits for a channel's descriptor, again and again.
#[derive(Default)]
pub(super) struct Watch(Option<OpFuture>);

impl Watch {
    /// Whether the descriptor has become readable since the last call that returned true.
    pub(super) fn poll(
        &mut self,
        source: &Arc<impl AsRawFd + Send + Sync + 'static>,
        cx: &mut TaskContext<'_>,
    ) -> bool {
        let waiting = self.0.get_or_insert_with(|| {
            let source = source.clone();
            current().submit(Op::Readable { source })
        });
        let is_ready = matches!(Pin::new(waiting).poll(cx), Poll::Ready(_));
        if is_ready {
            self.0 = None;
        }
        is_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Runtime, RuntimeConfig};
    use std::future::poll_fn;
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::sync::mpsc;
    use std::time::Duration;

    /// Rounds until the averages of the shard know that events come quickly, and rounds after it.
    const ROUNDS: u64 = 64;

    /// A channel is watched by a request of the ring, as a socket is: a shard that spins finds its events without a sleep. An eventfd stands
    /// for the channel, and the shard may spin so long that no delay of the other thread ends it.
    #[test]
    fn a_shard_that_spins_finds_events_of_channels() {
        // SAFETY: makes a descriptor, which is owned from here on.
        let channel =
            Arc::new(unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) });
        let (go, wanted) = mpsc::channel::<()>();
        let writer = channel.clone();
        let other = std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                let one = 1u64.to_ne_bytes();
                // SAFETY: writes a local array.
                unsafe { libc::write(writer.as_raw_fd(), one.as_ptr().cast(), one.len()) };
            }
        });
        let config = RuntimeConfig {
            spin_max: Duration::from_secs(100),
            ..RuntimeConfig::default()
        };
        let runtime = Runtime::new(config).expect("io_uring is there");
        let slept = runtime.block_on(async move {
            let mut watch = Watch::default();
            let mut before = 0;
            for round in 0..2 * ROUNDS {
                if round == ROUNDS {
                    before = crate::runtime::kernel_calls().sleeps;
                }
                go.send(()).expect("the thread waits");
                poll_fn(|cx| match watch.poll(&channel, cx) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
                let mut count = [0u8; 8];
                // SAFETY: reads into a local array.
                unsafe { libc::read(channel.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
            }
            crate::runtime::kernel_calls().sleeps - before
        });
        assert_eq!(slept, 0);
        other.join().expect("it ends with its sender");
    }
}
