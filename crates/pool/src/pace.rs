//! How fast changes are let in while a checkpoint is written.
//!
//! What is left of the journal and of space when a checkpoint begins has to last until it ends and gives more back. Half of
//! it is there for whoever comes; the other half is let go bit by bit as the checkpoint gets on, so that writers who are
//! faster than it are slowed down to its speed, where without this they would run into the end and all stand still.
//!
//! **Owns** how far a checkpoint is. **Called by** the owner, who tells the journal and [`crate::room`] of each tick.
//! **Invariants**: during a checkpoint the ticks left never grow; there are none when it has ended; no clock is read.

/// Parts that a checkpoint has.
const TICKS: u64 = 256;
/// Of them, what comes when all volumes are merged: the pool's own trees, flushes, an uberblock.
const TAIL: u64 = TICKS / 8;

/// How far a checkpoint is.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Steps until the tail, about.
    steps: u64,
    done: u64,
    /// Ticks that are left, as was told last.
    left: u64,
}

impl Pace {
    /// One that begins, of about so many steps.
    pub(crate) fn begin(steps: u64) -> Self {
        Self {
            steps,
            done: 0,
            left: TICKS,
        }
    }

    /// So many steps were done. Returns the ticks that are left, if these are fewer now.
    pub(crate) fn advance(&mut self, steps: u64) -> Option<u64> {
        self.done = self.done.saturating_add(steps).min(self.steps);
        let done = (self.done * (TICKS - TAIL)).checked_div(self.steps);
        let left = TICKS - done.unwrap_or(TICKS - TAIL);
        let is_less = left < self.left;
        self.left = self.left.min(left);
        is_less.then_some(left)
    }
}

/// Bytes that nobody may have yet.
#[derive(Debug, Default)]
pub(crate) struct HeldBack {
    /// Those that are let go bit by bit during the checkpoint that is being written.
    later: u64,
    now: u64,
}

impl HeldBack {
    /// A checkpoint begins, with so many bytes left, of which it will take `kept` for itself.
    pub(crate) fn begin(left: u64, kept: u64) -> Self {
        let mut held = Self {
            later: (left - kept) / 2 + kept,
            now: 0,
        };
        held.tick(TICKS);
        held
    }

    /// It has so many ticks to go.
    pub(crate) fn tick(&mut self, ticks: u64) {
        self.now = self.later / TICKS * ticks;
    }

    /// How many they are.
    pub(crate) fn bytes(&self) -> u64 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever takes all that there is gets as much in each part of a checkpoint, and all of it by the end.
    #[test]
    fn what_is_left_lasts_until_the_end() {
        let (left, steps) = (1u64 << 30, 10_000);
        let mut pace = Pace::begin(steps);
        let free = |ticks| {
            let mut held = HeldBack::begin(left, 0);
            held.tick(ticks);
            left - held.bytes()
        };
        let mut taken = free(TICKS);
        assert_eq!(taken, left / 2);
        let mut gaps = Vec::new();
        let mut last = 0;
        for step in 1..=steps {
            let Some(ticks) = pace.advance(1) else {
                continue;
            };
            let free = free(ticks);
            assert!(free > taken, "nothing for anybody at step {step}");
            assert!(free <= left / 2 + left / 2 * step / steps, "too early");
            taken = free;
            gaps.push(step - last);
            last = step;
        }
        assert!(gaps.iter().all(|gap| *gap <= steps / 100), "{gaps:?}");
        assert_eq!(pace.advance(u64::MAX), None, "the tail is what is left");
        assert_eq!(taken, free(TAIL));
        assert_eq!(free(0), left);
    }

    #[test]
    fn a_checkpoint_of_nothing_is_all_tail() {
        assert_eq!(Pace::begin(0).advance(0), Some(TAIL));
    }
}
