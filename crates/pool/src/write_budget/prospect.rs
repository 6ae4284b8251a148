//! The prospect that the row mover frees rows for waiting writes.
//!
//! **Owns** the dead bytes of the pool's rows, and with how many of them another walk may help. **Called by** the write budget.
//! **Invariant**: a write waits for the mover only while a walk may gain something. `docs/decisions/0165`.

/// Whether the row mover may free rows for waiting writes.
#[derive(Debug, Default)]
pub(super) struct Prospect {
    /// Bytes of dead sectors in used rows, as of the last checkpoint.
    pub(super) dead: u64,
    /// With fewer dead bytes, the mover gains too little. `u64::MAX` without rows, or if the pool takes no changes.
    pub(super) least: u64,
    /// Whether a write waits for the mover.
    pub(super) is_awaited: bool,
    /// Bytes of extents that were given to records of clients since the pool was opened.
    pub(super) put: u64,
}

impl Prospect {
    /// No rows can be freed.
    pub(super) fn none() -> Self {
        Self {
            least: u64::MAX,
            ..Self::default()
        }
    }

    /// Whether the mover may free rows. If so, it is awaited.
    pub(super) fn wait(&mut self) -> bool {
        let is_possible = self.dead >= self.least;
        self.is_awaited |= is_possible;
        is_possible
    }

    /// Records of clients got extents of `bytes` bytes.
    pub(super) fn put(&mut self, bytes: u64) {
        self.put += bytes;
    }

    /// Blocks that only destroyed datasets held can be moved, or are freed.
    pub(super) fn destroyed(&mut self) {
        if self.least != u64::MAX {
            self.least = 0;
        }
    }
}
