//! When a pool is idle enough for a checkpoint. After it, a crash leaves little to replay, and the space of deleted files is free.
//!
//! **Owns** the time since which few changes have come. **Called by** the owner's tick. **Invariants**: a checkpoint
//! of an idle pool shortens the journal by [`WORTH_BYTES`] or a sixteenth of the ring; a pool without changes gets
//! none; a pool with few changes gets at most one in [`BUSY_PART`] times [`IDLE_TICKS`] ticks, so that older
//! checkpoints remain for a rewind.

/// Ticks of one second without many changes after which a pool is idle.
const IDLE_TICKS: u32 = 5;
/// A pool is busy if the journal grows by this part within [`IDLE_TICKS`].
const BUSY_PART: u64 = 16;
/// A checkpoint is worth this many bytes of the journal.
const WORTH_BYTES: u64 = 1 << 20;
/// A checkpoint is worth this part of a small ring.
const WORTH_PART: u64 = 16;

/// A checkpoint is worth this many bytes of deleted contents, once deletions have stopped for a tick.
const WORTH_FREES: u64 = 16 << 20;
/// The same as a part of a small pool.
const WORTH_FREES_PART: u64 = 64;
/// While deletions go on, a checkpoint is worth this part of the pool.
const WORTH_MORE_FREES_PART: u64 = 16;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    /// Bytes of the journal when the quiet time began.
    begun_at: u64,
    ticks: u32,
    /// Bytes of deleted contents at the last tick.
    frees: u64,
}

impl Idleness {
    /// A tick passed, and replay would read `used` bytes of a ring of `size` bytes. Returns whether a checkpoint is
    /// due.
    pub(in crate::owner) fn tick(&mut self, used: u64, size: u64) -> bool {
        let grown = used.checked_sub(self.begun_at);
        if grown.is_none_or(|grown| grown > used / BUSY_PART) {
            self.begun_at = used;
            self.ticks = 0;
        }
        self.ticks += 1;
        let is_idle = self.ticks > IDLE_TICKS;
        is_idle && used >= WORTH_BYTES.min(size / WORTH_PART)
    }

    /// A tick passed, and a checkpoint would free `frees` bytes of a pool of `size` bytes. Returns whether one is due.
    pub(super) fn tick_frees(&mut self, frees: u64, size: u64) -> bool {
        let has_stopped = frees == std::mem::replace(&mut self.frees, frees);
        let worth = match has_stopped {
            true => WORTH_FREES.min(size / WORTH_FREES_PART),
            false => size / WORTH_MORE_FREES_PART,
        };
        frees > 0 && frees >= worth
    }
}
