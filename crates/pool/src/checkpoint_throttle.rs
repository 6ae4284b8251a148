//! Checkpoint throttle: slows writers down to the speed of the checkpoint that is being written.
//!
//! The free space and the free part of the journal at a checkpoint's begin must last until its end. Writers may use one half
//! at once. The other half is held back, and released in proportion to the checkpoint's progress. Without the throttle,
//! writers faster than the checkpoint would run out of space or journal, and all wait for its end.
//!
//! **Owns** the progress of a checkpoint and the bytes held back. **Called by** the owner, which passes the progress to the
//! journal and to [`crate::write_budget`]. **Invariants**: the parts left of a checkpoint never grow; none are left after
//! its end; no clock is read. `docs/decisions/0114`.

/// The parts that a checkpoint's progress is counted in.
const PARTS: u64 = 256;
/// The parts after the merge of all volumes: the pool's own tree, flushes, the uberblock.
const TAIL_PARTS: u64 = PARTS / 8;

/// The progress of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct CheckpointProgress {
    /// Steps before the tail, about.
    steps: u64,
    done: u64,
    /// Parts left, as last returned.
    parts_left: u64,
}

impl CheckpointProgress {
    /// A checkpoint begins that takes about `steps` steps.
    pub(crate) fn begin(steps: u64) -> Self {
        Self {
            steps,
            done: 0,
            parts_left: PARTS,
        }
    }

    /// The checkpoint did `steps` more steps. Returns the parts left, if they are fewer than before.
    pub(crate) fn advance(&mut self, steps: u64) -> Option<u64> {
        self.done = self.done.saturating_add(steps).min(self.steps);
        let done = (self.done * (PARTS - TAIL_PARTS)).checked_div(self.steps);
        let left = PARTS - done.unwrap_or(PARTS - TAIL_PARTS);
        let is_less = left < self.parts_left;
        self.parts_left = self.parts_left.min(left);
        is_less.then_some(left)
    }
}

/// Bytes that writers may not use yet.
#[derive(Debug, Default)]
pub(crate) struct CheckpointThrottle {
    /// Bytes held back when the checkpoint began.
    at_begin: u64,
    held_back: u64,
}

impl CheckpointThrottle {
    /// A checkpoint begins while `left` bytes are free. It takes `kept` of them for itself.
    pub(crate) fn begin(left: u64, kept: u64) -> Self {
        let mut throttle = Self {
            at_begin: (left - kept) / 2 + kept,
            held_back: 0,
        };
        throttle.set_parts_left(PARTS);
        throttle
    }

    /// `parts` parts of the checkpoint are left; 0 after its end.
    pub(crate) fn set_parts_left(&mut self, parts: u64) {
        self.held_back = self.at_begin / PARTS * parts;
    }

    /// Bytes currently held back.
    pub(crate) fn held_back(&self) -> u64 {
        self.held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers that use all bytes they may get equal amounts in each part of a checkpoint, and all bytes by its end.
    #[test]
    fn what_is_left_lasts_until_the_end() {
        let (left, steps) = (1u64 << 30, 10_000);
        let mut progress = CheckpointProgress::begin(steps);
        let free = |parts| {
            let mut throttle = CheckpointThrottle::begin(left, 0);
            throttle.set_parts_left(parts);
            left - throttle.held_back()
        };
        let mut taken = free(PARTS);
        assert_eq!(taken, left / 2);
        let mut gaps = Vec::new();
        let mut last = 0;
        for step in 1..=steps {
            let Some(parts) = progress.advance(1) else {
                continue;
            };
            let free = free(parts);
            assert!(free > taken, "no byte was released at step {step}");
            assert!(free <= left / 2 + left / 2 * step / steps, "too early");
            taken = free;
            gaps.push(step - last);
            last = step;
        }
        assert!(gaps.iter().all(|gap| *gap <= steps / 100), "{gaps:?}");
        assert_eq!(progress.advance(u64::MAX), None, "only the tail is left");
        assert_eq!(taken, free(TAIL_PARTS));
        assert_eq!(free(0), left);
    }

    #[test]
    fn a_checkpoint_of_nothing_is_all_tail() {
        let mut progress = CheckpointProgress::begin(0);
        assert_eq!(progress.advance(0), Some(TAIL_PARTS));
    }
}
