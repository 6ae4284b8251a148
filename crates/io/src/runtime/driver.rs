//! The driver trait between the executor and the operating system: real ([`crate::linux`]) or simulated
//! ([`crate::sim`]).

use super::op::{OpTable, Outcome};
use super::task::NodeId;
use crate::time::Instant;

/// An operation that ended.
pub(crate) struct Completion {
    pub(crate) key: usize,
    pub(crate) outcome: Outcome,
}

/// What a runtime asked of the kernel since its start: what I/Os cost beside their own work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCalls {
    /// System calls that submitted requests or waited for their ends.
    pub enters: u64,
    /// Timers that the kernel had to set.
    pub timers: u64,
}

/// How long a driver waits for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all: tasks are ready.
    Poll,
    /// Until something happens, or this moment.
    Until(Instant),
    /// Until something happens.
    Forever,
}

/// What drives operations to their end and knows the time.
pub(crate) trait Driver {
    /// Takes operation `key` of `ops`. It completes later through [`Driver::wait`].
    fn push(&mut self, key: usize, ops: &mut OpTable);

    /// Nobody waits for `key` any more: end it soon. It still completes through [`Driver::wait`].
    fn cancel(&mut self, key: usize);

    /// Submits what was pushed and waits for completions, or a wake from another thread. Appends to `done`. Returns
    /// false if the moment of `wait` is known not to have come.
    fn wait(&mut self, wait: Wait, ops: &mut OpTable, done: &mut Vec<Completion>) -> bool;

    /// What was asked of the kernel so far.
    fn kernel_calls(&self) -> KernelCalls {
        KernelCalls::default()
    }

    /// The driver's clock.
    fn now(&self) -> Instant;

    /// Milliseconds since 1970, for people and for the wire.
    fn wall_clock_ms(&self) -> u64;

    /// Fills `out` with random bytes (seeded in the simulator).
    fn random(&mut self, out: &mut [u8]);

    /// Which of `n` ready tasks runs next; the simulator chooses by its seed.
    fn choose(&mut self, n: usize) -> usize {
        let _ = n;
        0
    }

    /// How often ready tasks are polled before the driver works again, which lets a task that another one just woke
    /// add its requests; at least 1. One in the simulator, where each turn takes time.
    fn rounds(&self) -> usize {
        1
    }

    /// Nodes that lost power since the last call: their tasks are dropped.
    fn crashed(&mut self) -> Vec<NodeId> {
        Vec::new()
    }

    /// The simulator behind this driver, if it is one.
    fn sim(&mut self) -> Option<&mut crate::sim::World> {
        None
    }
}
