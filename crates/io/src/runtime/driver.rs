//! The driver trait between the executor and the operating system: real ([`crate::linux`]) or simulated
//! (`crate::sim`).

use super::op::{OpTable, Outcome};
use crate::clock::Instant;
use std::time::Duration;

/// The simulated machine of a task; 0 on the Linux driver. A task inherits it from the task that spawned it.
pub type NodeId = u32;

/// The simulated shard of a task; 0 on the Linux driver, where each shard has its own runtime. A task inherits it from the
/// task that spawned it.
pub(crate) type ShardId = u32;

/// A completed operation.
pub(crate) struct Completion {
    pub(crate) key: usize,
    pub(crate) outcome: Outcome,
}

/// System calls and timers of a runtime since its start: the kernel's cost besides the I/O itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCalls {
    /// System calls that submitted requests or waited for completions.
    pub enters: u64,
    /// Timers set in the kernel.
    pub timers: u64,
    /// Waits for completions that slept.
    pub sleeps: u64,
}

/// How long a driver waits for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Do not wait: tasks are ready.
    Poll,
    /// Wait for a completion or a wake, at most until this time.
    Until(Instant),
    /// Wait for a completion or a wake.
    Forever,
}

/// Carries out operations, and provides the clock.
pub(crate) trait Driver {
    /// Starts operation `key` of `ops`. A later [`Driver::wait`] returns its completion.
    fn push(&mut self, key: usize, ops: &mut OpTable);

    /// Cancels operation `key`, which no task awaits any longer. A later [`Driver::wait`] returns its completion.
    fn cancel(&mut self, key: usize);

    /// Submits the pushed operations, and waits for completions or for a wake from another thread. Appends completions to
    /// `done`. Returns false if the time of `wait` is known not to have come.
    fn wait(&mut self, wait: Wait, ops: &mut OpTable, done: &mut Vec<Completion>) -> bool;

    /// System calls and timers so far.
    fn kernel_calls(&self) -> KernelCalls {
        KernelCalls::default()
    }

    /// The driver's clock.
    fn now(&self) -> Instant;

    /// Milliseconds since 1970-01-01 UTC.
    fn wall_clock_ms(&self) -> u64;

    /// Fills `out` with random bytes; from the seed in the simulator.
    fn random(&mut self, out: &mut [u8]);

    /// Returns which of `n` ready tasks runs next. In the simulator the seed decides.
    fn choose(&mut self, n: usize) -> usize {
        let _ = n;
        0
    }

    /// How many times ready tasks are polled before the driver submits, so that a task that was just woken can add its
    /// requests. At least 1; 1 in the simulator, where each turn takes time.
    fn rounds(&self) -> usize {
        1
    }

    /// Returns the nodes that lost power since the last call. Their tasks must be dropped.
    fn crashed(&mut self) -> Vec<NodeId> {
        Vec::new()
    }

    /// Chooses the shard that runs now among the simulated shards in `ready`; `None` if all of them are paused.
    fn next_shard(&mut self, ready: &[ShardId]) -> Option<ShardId> {
        ready.first().copied()
    }

    /// Time until one of the simulated shards in `ready` may run.
    fn pause(&self, ready: &[ShardId]) -> Duration {
        let _ = ready;
        Duration::ZERO
    }

    /// The simulated world, if this driver is the simulator's.
    #[cfg(feature = "sim")]
    fn sim(&mut self) -> Option<&mut crate::sim::World> {
        None
    }
}
