//! The executor: one thread, its tasks, its timers and its driver.
//!
//! **Owns** the tasks of one shard. **Called by** all code that runs tasks: [`spawn`], [`crate::time`], [`crate::net`] and
//! [`crate::disk`] find the runtime of their thread.
//! **Invariants**: a task runs on the thread that spawned it and is never polled re-entrantly; between two waits every woken
//! task is polled once, so that the requests of many tasks become one submission.

mod blocking;
mod driver;
mod op;
mod progress;
mod shard;
mod task;

pub use blocking::blocking;
pub(crate) use blocking::blocking_detached;
pub use progress::Polled;
pub use shard::{Shard, ShardConfig};
pub use task::JoinHandle;

pub(crate) use driver::{Completion, Driver, ShardId, Wait};
pub use driver::{KernelCalls, NodeId};
pub(crate) use op::{Op, OpFuture, OpTable, Outcome};
pub(crate) use task::{Remote, Tasks};

use crate::Result;
use crate::buf::BufPool;
use crate::clock::{Instant, Timers};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Shared>>> = const { RefCell::new(None) };
}

/// Waits of 10 ms each for cancelled operations, when a runtime ends.
const DRAIN_ROUNDS: u32 = 500;

/// Configuration of a runtime on the Linux driver.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeConfig {
    /// Longest time to poll for completions before sleeping, while there is traffic. Zero never polls.
    pub spin_max: Duration,
    /// Limit of the buffer pool, bytes.
    pub buffer_limit: usize,
    /// Most disk transfers that are collected before one system call submits them, at least 1. More save processor time; 1
    /// starts each transfer at once.
    pub transfers_max: usize,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        RuntimeConfig {
            spin_max: Duration::from_micros(50),
            buffer_limit: 32 << 20,
            transfers_max: 8,
        }
    }
}

/// One thread's executor.
pub struct Runtime {
    pub(crate) shared: Rc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) ops: RefCell<OpTable>,
    pub(crate) driver: RefCell<Box<dyn Driver>>,
    pub(crate) tasks: Tasks,
    pub(crate) timers: RefCell<Timers>,
    pool: BufPool,
    /// Pools of the simulated shards except the first.
    pools: RefCell<BTreeMap<ShardId, BufPool>>,
    locals: RefCell<HashMap<(ShardId, TypeId), Rc<dyn Any>>>,
    completions: RefCell<Vec<Completion>>,
    /// Turns of the loop so far, which show other threads that the shard is alive.
    turns: Cell<u64>,
}

impl Runtime {
    /// Creates a runtime on io_uring for the calling thread. Errors: `Unsupported` or `Denied` if io_uring is not available,
    /// `Exhausted` if memory is.
    pub fn new(config: RuntimeConfig) -> Result<Runtime> {
        let tasks = Tasks::new();
        let driver = crate::linux::UringDriver::new(&config, tasks.remote())?;
        Ok(Runtime::with_driver(
            Box::new(driver),
            tasks,
            BufPool::new(config.buffer_limit),
        ))
    }

    pub(crate) fn with_driver(driver: Box<dyn Driver>, tasks: Tasks, pool: BufPool) -> Runtime {
        let shared = Rc::new(Shared {
            ops: RefCell::default(),
            driver: RefCell::new(driver),
            tasks,
            timers: RefCell::default(),
            pool,
            pools: RefCell::default(),
            locals: RefCell::default(),
            completions: RefCell::default(),
            turns: Cell::new(0),
        });
        Runtime { shared }
    }

    /// Runs tasks until `main` has ended, and returns its value. The other tasks are dropped with the runtime. Panics inside
    /// another runtime.
    pub fn block_on<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let _here = Enter::new(&self.shared);
        let handle = self.shared.tasks.spawn(main);
        loop {
            if let Some(value) = handle.try_take() {
                return value;
            }
            self.shared.turn(&handle);
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _here = Enter::new(&self.shared);
        self.shared.tasks.clear();
        // Operations in the kernel must complete before their buffers are freed.
        let mut rounds = 0;
        while self.shared.ops.borrow().len() > 0 && rounds < DRAIN_ROUNDS {
            let until = self.shared.now() + Duration::from_millis(10);
            self.shared.drive(Wait::Until(until));
            rounds += 1;
        }
        if self.shared.ops.borrow().len() > 0 {
            // A device hangs. The kernel may still write into its buffers, so they are leaked.
            tracing::warn!("a runtime ends while the kernel still holds some of its buffers");
            std::mem::forget(self.shared.clone());
        }
    }
}

struct Enter {
    outer: Option<Rc<Shared>>,
}

impl Enter {
    fn new(shared: &Rc<Shared>) -> Enter {
        Enter {
            outer: CURRENT.with(|c| c.replace(Some(shared.clone()))),
        }
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        let outer = self.outer.take();
        CURRENT.with(|c| *c.borrow_mut() = outer);
    }
}

impl Shared {
    /// Polls the ready tasks, then waits for the driver or the next timer.
    fn turn<T>(&self, main: &JoinHandle<T>) {
        self.turns.set(self.turns.get() + 1);
        // A woken task can add its requests to the same submission, for example a connection's task after a command's.
        let rounds = self.driver.borrow().rounds();
        for _ in 0..rounds {
            self.poll_ready();
            if !self.tasks.has_ready() {
                break;
            }
        }
        if main.is_finished() {
            return;
        }
        // Shards pause only in the simulator.
        let wait = match self.tasks.ready_after(&self.driver) {
            Some(Duration::ZERO) => Wait::Poll,
            pause => {
                let paused = pause.map(|pause| self.now() + pause);
                let next = self.next_deadline().into_iter().chain(paused).min();
                next.map_or(Wait::Forever, Wait::Until)
            }
        };
        self.drive(wait);
    }

    fn poll_ready(&self) {
        self.tasks.poll_ready(&self.driver);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.borrow_mut().next()
    }

    /// Waits for the driver, and wakes the tasks whose operations completed or whose timers fired.
    fn drive(&self, wait: Wait) {
        let mut done = self.completions.take();
        let time_passed = {
            let mut ops = self.ops.borrow_mut();
            self.driver.borrow_mut().wait(wait, &mut ops, &mut done)
        };
        for c in done.drain(..) {
            let (waker, data) = self.ops.borrow_mut().complete(c.key, c.outcome);
            drop(data);
            if let Some(w) = waker {
                w.wake();
            }
        }
        self.completions.replace(done);
        // Dropped tasks close their sockets, which needs the driver.
        let crashed = self.driver.borrow_mut().crashed();
        for node in crashed {
            self.tasks.kill_node(node);
        }
        if time_passed && !self.timers.borrow().is_empty() {
            let now = self.now();
            for w in self.timers.borrow_mut().expire(now) {
                w.wake();
            }
        }
    }

    fn pool(&self) -> BufPool {
        match self.tasks.shard() {
            0 => self.pool.clone(),
            shard => {
                let new = || BufPool::new(self.pool.stats().limit);
                self.pools
                    .borrow_mut()
                    .entry(shard)
                    .or_insert_with(new)
                    .clone()
            }
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.driver.borrow().now()
    }

    /// Submits an operation to the driver.
    pub(crate) fn submit(self: &Rc<Self>, op: Op) -> OpFuture {
        let key = {
            let mut ops = self.ops.borrow_mut();
            let key = ops.insert(op);
            self.driver.borrow_mut().push(key, &mut ops);
            key
        };
        OpFuture {
            key,
            rt: self.clone(),
            done: false,
        }
    }
}

/// The runtime of this thread. Panics if there is none.
pub(crate) fn current() -> Rc<Shared> {
    try_current().expect("this needs a runtime: call it inside Runtime::block_on")
}

pub(crate) fn try_current() -> Option<Rc<Shared>> {
    CURRENT.with(|c| c.borrow().clone())
}

/// Starts a task on this thread. It goes on if the handle is dropped.
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    current().tasks.spawn(future)
}

/// The buffer pool of this thread's runtime.
#[must_use]
pub fn pool() -> BufPool {
    current().pool()
}

/// Returns the calling task's shard's value of this type. `make` creates it at the first call.
pub fn shard_local<T: 'static>(make: impl FnOnce() -> T) -> Rc<T> {
    let rt = current();
    let key = (rt.tasks.shard(), TypeId::of::<T>());
    let known = rt.locals.borrow().get(&key).cloned();
    if let Some(Ok(value)) = known.map(Rc::downcast) {
        return value;
    }
    let value = Rc::new(make());
    rt.locals.borrow_mut().insert(key, value.clone());
    value
}

/// Turns of this thread's runtime so far: shows that it is alive, and how often it wakes.
#[must_use]
pub fn turns() -> u64 {
    current().turns.get()
}

/// System calls and timers of this thread's runtime so far; zero in the simulator.
#[must_use]
pub fn kernel_calls() -> KernelCalls {
    current().driver.borrow().kernel_calls()
}

/// Lets every other ready task run once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
