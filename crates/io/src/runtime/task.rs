//! Tasks: the table, the ready queue, and wakes from this and other threads.
//!
//! **Invariants**: a task is in the ready queue at most once (its `queued` flag); a wake from another thread goes through
//! [`Remote`] and interrupts the driver's sleep at most once per sleep; the tasks of several simulated shards run in turns
//! ([`Driver::next_shard`]).

use super::driver::{Driver, NodeId, ShardId};
use super::progress::{Polled, Progress};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;
use std::time::Duration;

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The part of a runtime that other threads use to wake it.
pub(crate) struct Remote {
    woken: Mutex<Vec<Arc<Header>>>,
    pending: AtomicBool,
    sleeping: AtomicBool,
    event: OwnedFd,
    progress: Progress,
}

impl Remote {
    fn new() -> Remote {
        // SAFETY: eventfd has no memory arguments; the descriptor is checked and owned from here on.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        assert!(fd >= 0, "eventfd: {}", std::io::Error::last_os_error());
        Remote {
            woken: Mutex::default(),
            pending: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            // SAFETY: the descriptor was just created and has no other owner.
            event: unsafe { OwnedFd::from_raw_fd(fd) },
            progress: Progress::default(),
        }
    }

    /// What the runtime had done just now.
    pub(crate) fn progress(&self) -> Polled {
        self.progress.read()
    }

    fn wake(&self, header: Arc<Header>) {
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(header);
        self.pending.store(true, Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            let one = 1u64.to_ne_bytes();
            // SAFETY: writes 8 bytes from a live array; a full counter already wakes the reader.
            unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Whether another thread woke a task that was not polled since.
    pub(crate) fn pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    /// Announces a sleep: later wakes write to the event descriptor. Returns false if a wake came before.
    pub(crate) fn going_to_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        if self.pending() {
            self.sleeping.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    pub(crate) fn event_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

/// The part of a task that wakers share.
pub(crate) struct Header {
    key: usize,
    shard: ShardId,
    serial: u64,
    queued: AtomicBool,
    thread: ThreadId,
    remote: Arc<Remote>,
}

thread_local! {
    static READY: RefCell<VecDeque<Arc<Header>>> = const { RefCell::new(VecDeque::new()) };
    static THREAD: ThreadId = std::thread::current().id();
}

impl Wake for Header {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        if THREAD.try_with(|t| *t == self.thread).unwrap_or(false) {
            let _ = READY.try_with(|r| r.borrow_mut().push_back(self));
        } else {
            let remote = self.remote.clone();
            remote.wake(self);
        }
    }
}

struct Task {
    header: Arc<Header>,
    /// Type of its future.
    name: &'static str,
    waker: Waker,
    future: Option<LocalFuture>,
    node: NodeId,
}

/// The tasks of one runtime.
pub(crate) struct Tasks {
    table: RefCell<Slab<Task>>,
    remote: Arc<Remote>,
    node: Cell<NodeId>,
    shard: Cell<ShardId>,
    /// Number of simulated shards. With one shard, no turns are taken.
    shards: Cell<ShardId>,
    running: Cell<Option<usize>>,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks {
            table: RefCell::default(),
            remote: Arc::new(Remote::new()),
            node: Cell::new(0),
            shard: Cell::new(0),
            shards: Cell::new(1),
            running: Cell::new(None),
        }
    }

    pub(crate) fn remote(&self) -> Arc<Remote> {
        self.remote.clone()
    }

    /// The node of the running task.
    pub(crate) fn node(&self) -> NodeId {
        self.node.get()
    }

    /// The shard of the running task.
    pub(crate) fn shard(&self) -> ShardId {
        self.shard.get()
    }

    /// Starts the first task of a new simulated shard.
    #[cfg(feature = "sim")]
    pub(crate) fn spawn_on_new_shard<T: 'static>(
        &self,
        node: NodeId,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let shard = self.shards.get();
        self.shards.set(shard + 1);
        let outer = self.shard.replace(shard);
        let handle = self.spawn_on(node, future);
        self.shard.set(outer);
        handle
    }

    pub(crate) fn spawn<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.spawn_on(self.node(), future)
    }

    pub(crate) fn spawn_on<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        node: NodeId,
        future: F,
    ) -> JoinHandle<T> {
        let slot = Rc::new(Slot {
            value: RefCell::new(None),
            waiter: RefCell::new(None),
            finished: Cell::new(false),
        });
        let ended = Ended(slot.clone());
        let done = async move {
            let value = future.await;
            *ended.0.value.borrow_mut() = Some(value);
        };
        let mut table = self.table.borrow_mut();
        let entry = table.vacant_entry();
        let header = Arc::new(Header {
            key: entry.key(),
            shard: self.shard.get(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            queued: AtomicBool::new(true),
            thread: std::thread::current().id(),
            remote: self.remote.clone(),
        });
        let (key, serial) = (header.key, header.serial);
        let waker = Waker::from(header.clone());
        entry.insert(Task {
            header: header.clone(),
            name: std::any::type_name::<F>(),
            waker,
            future: Some(Box::pin(done)),
            node,
        });
        drop(table);
        READY.with(|r| r.borrow_mut().push_back(header));
        JoinHandle { slot, key, serial }
    }

    pub(crate) fn has_ready(&self) -> bool {
        READY.with(|r| !r.borrow().is_empty()) || self.remote.pending()
    }

    /// Time until a task can run: `None` if no task is ready; more than zero if all ready tasks belong to paused shards.
    pub(crate) fn ready_after(&self, driver: &RefCell<Box<dyn Driver>>) -> Option<Duration> {
        if !self.has_ready() {
            return None;
        }
        if self.shards.get() == 1 || self.remote.pending() {
            return Some(Duration::ZERO);
        }
        Some(driver.borrow().pause(&ready_shards()))
    }

    /// Polls every ready task once; of several simulated shards, only the tasks of one. Tasks that are woken meanwhile are
    /// polled in the next round.
    pub(crate) fn poll_ready(&self, driver: &RefCell<Box<dyn Driver>>) {
        if self.remote.pending.swap(false, Ordering::SeqCst) {
            let woken = std::mem::take(
                &mut *self
                    .remote
                    .woken
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            READY.with(|r| r.borrow_mut().extend(woken));
        }
        if self.shards.get() > 1 {
            return self.poll_shard(driver);
        }
        let round = READY.with(|r| r.borrow().len());
        for left in (1..=round).rev() {
            let pick = driver.borrow_mut().choose(left);
            let header = READY.with(|r| {
                let mut ready = r.borrow_mut();
                if pick > 0 {
                    ready.swap(0, pick);
                }
                ready.pop_front()
            });
            let Some(header) = header else { break };
            header.queued.store(false, Ordering::Release);
            self.poll(&header);
        }
    }

    /// Polls the ready tasks of one simulated shard.
    fn poll_shard(&self, driver: &RefCell<Box<dyn Driver>>) {
        let Some(shard) = driver.borrow_mut().next_shard(&ready_shards()) else {
            return;
        };
        let is_of = |header: &&Arc<Header>| header.shard == shard;
        let round = READY.with(|r| r.borrow().iter().filter(is_of).count());
        for left in (1..=round).rev() {
            let pick = driver.borrow_mut().choose(left);
            let header = READY.with(|r| {
                let mut ready = r.borrow_mut();
                let mut of_shard = (0..ready.len()).filter(|i| ready[*i].shard == shard);
                let at = of_shard.nth(pick)?;
                ready.remove(at)
            });
            let Some(header) = header else { break };
            header.queued.store(false, Ordering::Release);
            self.poll(&header);
        }
    }

    fn poll(&self, header: &Arc<Header>) {
        let taken = {
            let mut table = self.table.borrow_mut();
            match table.get_mut(header.key) {
                Some(t) if t.header.serial == header.serial => t
                    .future
                    .take()
                    .map(|f| (f, t.waker.clone(), t.node, t.name)),
                _ => None,
            }
        };
        let Some((mut future, waker, node, name)) = taken else {
            return;
        };
        let outer = (self.node.replace(node), self.shard.replace(header.shard));
        self.running.set(Some(header.key));
        self.remote.progress.begin(name);
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.remote.progress.end();
        self.running.set(None);
        self.node.set(outer.0);
        self.shard.set(outer.1);
        let mut table = self.table.borrow_mut();
        match table.get_mut(header.key) {
            Some(t) if poll.is_pending() && t.header.serial == header.serial => {
                t.future = Some(future)
            }
            Some(t) if t.header.serial == header.serial => {
                let task = table.remove(header.key);
                drop(table);
                drop(task);
            }
            _ => {
                drop(table);
                drop(future);
            }
        }
    }

    /// Drops a task without polling it again. A task cannot drop itself this way.
    fn kill(&self, key: usize, serial: u64) {
        let task = {
            let mut table = self.table.borrow_mut();
            match table.get(key) {
                Some(t) if t.header.serial == serial => {
                    assert_ne!(
                        self.running.get(),
                        Some(key),
                        "a task ends itself by returning"
                    );
                    Some(table.remove(key))
                }
                _ => None,
            }
        };
        drop(task);
    }

    /// Drops every task of a node, as a power cut does.
    pub(crate) fn kill_node(&self, node: NodeId) {
        loop {
            let next = self
                .table
                .borrow()
                .iter()
                .find(|(_, t)| t.node == node)
                .map(|(k, t)| (k, t.header.serial));
            let Some((key, serial)) = next else { return };
            self.kill(key, serial);
        }
    }

    /// Drops all tasks. Dropping a task may wake or spawn others.
    pub(crate) fn clear(&self) {
        // A task that panicked is still recorded as running.
        self.running.set(None);
        loop {
            let next = self
                .table
                .borrow()
                .iter()
                .next()
                .map(|(k, t)| (k, t.header.serial));
            let Some((key, serial)) = next else { break };
            self.kill(key, serial);
        }
        READY.with(|r| r.borrow_mut().clear());
    }
}

/// The shards of all ready tasks, in order.
fn ready_shards() -> Vec<ShardId> {
    let shards: BTreeSet<ShardId> = READY.with(|r| r.borrow().iter().map(|h| h.shard).collect());
    shards.into_iter().collect()
}

struct Slot<T> {
    value: RefCell<Option<T>>,
    waiter: RefCell<Option<Waker>>,
    finished: Cell<bool>,
}

/// Marks a task as ended when it is dropped, finished or not.
struct Ended<T>(Rc<Slot<T>>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        self.0.finished.set(true);
        if let Some(w) = self.0.waiter.borrow_mut().take() {
            w.wake();
        }
    }
}

/// Future of a task's value; `None` if the task was aborted. Dropping the handle lets the task go on.
pub struct JoinHandle<T> {
    slot: Rc<Slot<T>>,
    key: usize,
    serial: u64,
}

impl<T> JoinHandle<T> {
    /// True once the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.slot.finished.get()
    }

    pub(crate) fn try_take(&self) -> Option<T> {
        self.slot.value.borrow_mut().take()
    }

    /// Drops the task at its next await point. Does nothing if the task has ended. Panics if a task aborts itself.
    pub fn abort(&self) {
        if let Some(rt) = super::try_current() {
            rt.tasks.kill(self.key, self.serial);
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if self.slot.finished.get() {
            return Poll::Ready(self.slot.value.borrow_mut().take());
        }
        *self.slot.waiter.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}
