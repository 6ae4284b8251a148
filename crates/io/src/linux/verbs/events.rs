//! Asynchronous events of devices: failures that no completion reports.
//!
//! **Owns** one thread for each device, which waits for its events, and the queue pairs that are told. **Called by** devices and endpoints.
//! **Invariants**: an event is acknowledged after its queue pair was looked up, so that the number of a destroyed one is not mistaken for that
//! of a new one; each event is counted, and logged once a second at most for each kind.

use super::abi::{self, AsyncEvent, Context, Cq, Qp};
use super::library::Library;
use crate::rdma::{DeviceEvent, count_device_event};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

/// Time between two log lines about events of one kind.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// An event that ends a queue pair, for its endpoint.
#[derive(Default)]
pub(super) struct Trouble(Mutex<(Option<DeviceEvent>, Option<Waker>)>);

impl Trouble {
    /// The event, once there was one; else the task is woken when there is.
    pub(super) fn poll(&self, cx: &TaskContext<'_>) -> Option<DeviceEvent> {
        let (event, waker) = &mut *lock(&self.0);
        if event.is_none() && !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        *event
    }

    fn tell(&self, what: DeviceEvent) {
        let (event, waker) = &mut *lock(&self.0);
        event.get_or_insert(what);
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }
}

/// The queue pairs of a device that get events, by the addresses of the queue pair and of its completion queue.
#[derive(Default)]
pub(super) struct Told(Mutex<BTreeMap<usize, Arc<Trouble>>>);

impl Told {
    /// Adds a queue pair with its completion queue.
    pub(super) fn add(&self, qp: *mut Qp, cq: *mut Cq) -> Arc<Trouble> {
        let trouble = Arc::new(Trouble::default());
        let mut told = lock(&self.0);
        told.insert(qp as usize, trouble.clone());
        told.insert(cq as usize, trouble.clone());
        trouble
    }

    /// Removes a queue pair, before it and its completion queue are destroyed.
    pub(super) fn remove(&self, qp: *mut Qp, cq: *mut Cq) {
        let mut told = lock(&self.0);
        told.remove(&(qp as usize));
        told.remove(&(cq as usize));
    }

    /// Passes an event on: to its queue pair, or to all.
    fn pass(&self, what: DeviceEvent, element: u64) {
        let told = lock(&self.0);
        match what {
            DeviceEvent::DeviceFatal => told.values().for_each(|t| t.tell(what)),
            DeviceEvent::PortError | DeviceEvent::PortActive => {}
            DeviceEvent::CompletionQueueError
            | DeviceEvent::QueuePairFatal
            | DeviceEvent::QueuePairAccess
            | DeviceEvent::PathMigration
            | DeviceEvent::LastWorkReached => {
                if let Some(trouble) = told.get(&(element as usize)) {
                    trouble.tell(what);
                }
            }
        }
    }
}

/// The event of a code; `None` for events that need no action.
fn event_of(code: i32) -> Option<DeviceEvent> {
    Some(match code {
        abi::EVENT_CQ_ERR => DeviceEvent::CompletionQueueError,
        abi::EVENT_QP_FATAL | abi::EVENT_QP_REQ_ERR => DeviceEvent::QueuePairFatal,
        abi::EVENT_QP_ACCESS_ERR => DeviceEvent::QueuePairAccess,
        abi::EVENT_PATH_MIG_ERR => DeviceEvent::PathMigration,
        abi::EVENT_DEVICE_FATAL => DeviceEvent::DeviceFatal,
        abi::EVENT_PORT_ACTIVE => DeviceEvent::PortActive,
        abi::EVENT_PORT_ERR => DeviceEvent::PortError,
        abi::EVENT_QP_LAST_WQE_REACHED => DeviceEvent::LastWorkReached,
        _ => return None,
    })
}

/// A context for a thread.
struct Source(*mut Context);

// SAFETY: libibverbs locks its objects, and the context is never closed.
unsafe impl Send for Source {}

/// Starts the thread that waits for the events of a device. Without a thread the device has no events, and everything else works.
pub(super) fn watch(
    library: &'static Library,
    context: *mut Context,
    name: &str,
    told: &Arc<Told>,
) {
    let (source, device, told) = (Source(context), name.to_owned(), told.clone());
    let started = std::thread::Builder::new()
        .name(format!("rdma-{name}"))
        .spawn(move || {
            let source = source;
            wait(library, source.0, &device, &told);
        });
    if let Err(error) = started {
        tracing::warn!(device = name, %error, "no thread for the events of an RDMA device");
    }
}

/// Waits for events until the device is gone.
fn wait(library: &'static Library, context: *mut Context, device: &str, told: &Told) {
    let mut logged: BTreeMap<DeviceEvent, Instant> = BTreeMap::new();
    loop {
        let mut event = AsyncEvent {
            element: 0,
            event: 0,
        };
        // SAFETY: the context is never closed, and its descriptor blocks; the call fills a local structure.
        let result = unsafe { (library.ibv_get_async_event)(context, &raw mut event) };
        if result != 0 {
            if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            // A removed device has no events any longer.
            return;
        }
        let what = event_of(event.event);
        if let Some(what) = what {
            told.pass(what, event.element);
        }
        // SAFETY: the event was filled in, and is acknowledged once.
        unsafe { (library.ibv_ack_async_event)(&raw mut event) };
        let Some(what) = what else { continue };
        count_device_event(what);
        let is_due = logged.get(&what).is_none_or(|at| at.elapsed() >= LOG_PAUSE);
        if is_due {
            logged.insert(what, Instant::now());
            let port = what.has_port().then_some(event.element as u32);
            match what {
                DeviceEvent::PortActive => tracing::info!(device, port, "RDMA: {what}"),
                _ => tracing::warn!(device, port, "RDMA: {what}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reaches_its_queue_pair_or_all() {
        let told = Told::default();
        let one = (0x10 as *mut Qp, 0x11 as *mut Cq);
        let first = told.add(one.0, one.1);
        let second = told.add(0x20 as *mut Qp, 0x21 as *mut Cq);
        let third = told.add(0x30 as *mut Qp, 0x31 as *mut Cq);
        let cx = TaskContext::from_waker(Waker::noop());
        told.pass(DeviceEvent::QueuePairFatal, 0x10);
        told.pass(DeviceEvent::QueuePairAccess, 0x40);
        told.pass(DeviceEvent::CompletionQueueError, 0x31);
        told.pass(DeviceEvent::PortError, 1);
        assert_eq!(first.poll(&cx), Some(DeviceEvent::QueuePairFatal));
        assert_eq!(second.poll(&cx), None);
        told.pass(DeviceEvent::DeviceFatal, 0);
        assert_eq!(second.poll(&cx), Some(DeviceEvent::DeviceFatal));
        assert_eq!(
            first.poll(&cx),
            Some(DeviceEvent::QueuePairFatal),
            "the first stays"
        );
        let why = Some(DeviceEvent::CompletionQueueError);
        assert_eq!(third.poll(&cx), why);
        told.remove(one.0, one.1);
        assert_eq!(lock(&told.0).len(), 4);
    }
}
