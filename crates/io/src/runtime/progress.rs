//! Progress of a runtime, as other threads see it: how many tasks were polled, and which one is polled now.
//!
//! **Owns** these facts of one thread. **Called by** the task table before and after each poll, and by a watchdog on another
//! thread through [`super::Shard::progress`]. **Invariants**: one thread writes; a reader never sees the name of one task with the
//! length of another's; a poll costs a few stores and no locked instruction.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// See the module header. The count is odd while a task is polled.
#[derive(Default)]
pub(crate) struct Progress {
    steps: AtomicU64,
    name: AtomicPtr<u8>,
    name_len: AtomicUsize,
}

/// What a runtime had done at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// Begins and ends of polls since the runtime's start.
    pub steps: u64,
    /// The type of the task that was being polled; `None` between two polls.
    pub task: Option<&'static str>,
}

impl Progress {
    /// A poll of a task of this type begins.
    #[inline]
    pub(crate) fn begin(&self, name: &'static str) {
        // Between two polls only this thread uses the name: a reader that sees it half written sees an even count too, or a
        // changed one.
        fence(Ordering::Release);
        self.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        self.name_len.store(name.len(), Ordering::Relaxed);
        self.step();
    }

    /// The poll has ended.
    #[inline]
    pub(crate) fn end(&self) {
        self.step();
    }

    #[inline]
    fn step(&self) {
        let next = self.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.steps.store(next, Ordering::Release);
    }

    /// What the runtime had done just now. Called on any thread.
    pub(crate) fn read(&self) -> Polled {
        let steps = self.steps.load(Ordering::Acquire);
        let name = self.name.load(Ordering::Relaxed);
        let len = self.name_len.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = steps % 2 == 1 && self.steps.load(Ordering::Relaxed) == steps;
        let task = is_whole.then(|| {
            // SAFETY: the count was odd and the same before and after the two loads, so that both values are of one call of
            // `begin`, whose argument was a `&'static str`.
            unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(name, len)) }
        });
        Polled { steps, task }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_whole_names_of_running_tasks_only() {
        let progress = Progress::default();
        assert_eq!(progress.read().task, None);
        let names = ["a", "a longer name", "medium"];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..300_000 {
                    progress.begin(names[n % 3]);
                    progress.end();
                }
                progress.begin("the last");
            });
            while progress.read().task != Some("the last") {
                if let Some(name) = progress.read().task {
                    assert!(names.contains(&name) || name == "the last", "{name:?}");
                }
            }
        });
        assert_eq!(progress.read().steps, 600_001);
    }
}
