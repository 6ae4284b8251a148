//! Asynchronous events of devices: failures that no completion reports.
//!
//! **Owns** one thread for each device, which waits for its events, and the queue pairs that are told. **Called by** devices and endpoints.
//! **Invariants**: an event is acknowledged after its queue pair was looked up, so that the number of a destroyed one is not mistaken for that
//! of a new one; each event is counted, and logged once a second at most for each kind.

use super::abi::{self, AsyncEvent, Context, Cq, Qp, Srq};
use super::library::Library;
use crate::rdma::{DeviceEvent, count_device_event};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

/// Time between two log lines about events of one kind.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Reports of the device about a queue pair.
#[derive(Default)]
struct Reported {
    /// The first event.
    event: Option<DeviceEvent>,
    /// Whether it uses no receive of its shared queue any longer.
    is_last: bool,
    waker: Option<Waker>,
}

/// Events of a queue pair, for its endpoint.
#[derive(Default)]
pub(super) struct Trouble {
    state: Mutex<Reported>,
    /// Announces the last use of a shared receive.
    last: Condvar,
}

impl Trouble {
    /// The event, if there was one.
    pub(super) fn event(&self) -> Option<DeviceEvent> {
        lock(&self.state).event
    }

    /// Blocks until the event of the last use of a shared receive, or for `most`.
    pub(super) fn wait_for_last_work(&self, most: Duration) {
        let state = lock(&self.state);
        let waited = self.last.wait_timeout_while(state, most, |s| !s.is_last);
        drop(waited);
    }

    /// The event, once there was one; else the task is woken when there is.
    pub(super) fn poll(&self, cx: &TaskContext<'_>) -> Option<DeviceEvent> {
        let state = &mut *lock(&self.state);
        let is_known = state.waker.as_ref();
        if state.event.is_none() && !is_known.is_some_and(|w| w.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        state.event
    }

    fn tell(&self, what: DeviceEvent) {
        let state = &mut *lock(&self.state);
        state.event.get_or_insert(what);
        if what == DeviceEvent::LastWorkReached {
            state.is_last = true;
            self.last.notify_all();
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// Whether a shared receive queue has had the event of few receives since it was armed.
#[derive(Default)]
pub(super) struct Shortage(AtomicBool);

impl Shortage {
    /// Whether there was the event; the next call says no, until there is another one.
    pub(super) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// A queue pair that gets events.
struct Listener {
    trouble: Arc<Trouble>,
    /// Address of its shared receive queue; 0 without one.
    srq: usize,
}

/// The queues of a device that get events.
#[derive(Default)]
struct Listeners {
    /// By the addresses of the queue pair and of its completion queue.
    queue_pairs: BTreeMap<usize, Listener>,
    /// By the address of the shared receive queue.
    shared: BTreeMap<usize, Arc<Shortage>>,
}

/// The queues of a device that get events.
#[derive(Default)]
pub(super) struct Told(Mutex<Listeners>);

impl Told {
    /// Adds a queue pair with its completion queue and its shared receive queue, null without one.
    pub(super) fn add(&self, qp: *mut Qp, cq: *mut Cq, srq: *mut Srq) -> Arc<Trouble> {
        let trouble = Arc::new(Trouble::default());
        let told = &mut lock(&self.0).queue_pairs;
        for key in [qp as usize, cq as usize] {
            let listener = Listener {
                trouble: trouble.clone(),
                srq: srq as usize,
            };
            told.insert(key, listener);
        }
        trouble
    }

    /// Adds a shared receive queue.
    pub(super) fn add_shared(&self, srq: *mut Srq) -> Arc<Shortage> {
        let shortage = Arc::new(Shortage::default());
        lock(&self.0).shared.insert(srq as usize, shortage.clone());
        shortage
    }

    /// Removes a shared receive queue, before it is destroyed.
    pub(super) fn remove_shared(&self, srq: *mut Srq) {
        lock(&self.0).shared.remove(&(srq as usize));
    }

    /// Removes a queue pair, before it and its completion queue are destroyed.
    pub(super) fn remove(&self, qp: *mut Qp, cq: *mut Cq) {
        let told = &mut lock(&self.0).queue_pairs;
        told.remove(&(qp as usize));
        told.remove(&(cq as usize));
    }

    /// Passes an event on: to its queue pair, or to all.
    fn pass(&self, what: DeviceEvent, element: u64) {
        let told = lock(&self.0);
        let queue_pairs = &told.queue_pairs;
        let element = element as usize;
        match what {
            DeviceEvent::DeviceFatal => {
                queue_pairs.values().for_each(|q| q.trouble.tell(what));
            }
            DeviceEvent::SharedReceivesError => {
                let users = queue_pairs.values().filter(|q| q.srq == element);
                users.for_each(|q| q.trouble.tell(what));
            }
            DeviceEvent::SharedReceivesLow => {
                if let Some(shortage) = told.shared.get(&element) {
                    shortage.0.store(true, Ordering::Relaxed);
                }
            }
            DeviceEvent::PortError | DeviceEvent::PortActive => {}
            DeviceEvent::CompletionQueueError
            | DeviceEvent::QueuePairFatal
            | DeviceEvent::QueuePairAccess
            | DeviceEvent::PathMigration
            | DeviceEvent::LastWorkReached => {
                if let Some(queue_pair) = queue_pairs.get(&element) {
                    queue_pair.trouble.tell(what);
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
        abi::EVENT_SRQ_LIMIT_REACHED => DeviceEvent::SharedReceivesLow,
        abi::EVENT_SRQ_ERR => DeviceEvent::SharedReceivesError,
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
        let first = told.add(one.0, one.1, std::ptr::null_mut());
        let second = told.add(0x20 as *mut Qp, 0x21 as *mut Cq, 0x22 as *mut Srq);
        let third = told.add(0x30 as *mut Qp, 0x31 as *mut Cq, std::ptr::null_mut());
        let shortage = told.add_shared(0x22 as *mut Srq);
        told.pass(DeviceEvent::SharedReceivesLow, 0x22);
        assert!(shortage.take() && !shortage.take());
        told.pass(DeviceEvent::SharedReceivesError, 0x23);
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
        assert_eq!(lock(&told.0).queue_pairs.len(), 4);
    }

    #[test]
    fn a_failed_shared_queue_reaches_its_queue_pairs() {
        let told = Told::default();
        let srq = 0x12 as *mut Srq;
        let users = [0x10, 0x20].map(|at| told.add(at as *mut Qp, (at + 1) as *mut Cq, srq));
        let other = told.add(0x30 as *mut Qp, 0x31 as *mut Cq, std::ptr::null_mut());
        told.pass(DeviceEvent::SharedReceivesError, srq as u64);
        let cx = TaskContext::from_waker(Waker::noop());
        let why = Some(DeviceEvent::SharedReceivesError);
        assert!(users.iter().all(|u| u.poll(&cx) == why));
        assert_eq!(other.poll(&cx), None);
    }
}
