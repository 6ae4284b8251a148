//! When a pool is idle enough for a checkpoint, so that a crash leaves little to replay.
//!
//! **Owns** how long little has come. **Called by** the owner's tick. **Invariants**: a checkpoint of an idle pool shortens
//! the journal by [`WORTH_BYTES`] or a sixteenth of the ring; a pool without changes gets none; a pool with few gets one in
//! [`BUSY_PART`] times [`IDLE_TICKS`] ticks at most, so that older checkpoints stay for a rewind.

/// Ticks of the owner, of a second each, without many changes.
const IDLE_TICKS: u32 = 5;
/// A pool is busy if the journal grows by this part within [`IDLE_TICKS`].
const BUSY_PART: u64 = 16;
/// Bytes of the journal for which a checkpoint is written, unless the ring is small.
const WORTH_BYTES: u64 = 1 << 20;
/// This part of a small ring is enough.
const WORTH_PART: u64 = 16;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    /// Bytes of the journal when the quiet time began.
    begun_at: u64,
    ticks: u32,
}

impl Idleness {
    /// A tick passed, and the journal holds `used` bytes of a ring of `size` bytes. Whether a checkpoint is due.
    pub(super) fn tick(&mut self, used: u64, size: u64) -> bool {
        let grown = used.checked_sub(self.begun_at);
        if grown.is_none_or(|grown| grown > used / BUSY_PART) {
            self.begun_at = used;
            self.ticks = 0;
        }
        self.ticks += 1;
        let is_idle = self.ticks > IDLE_TICKS;
        is_idle && used >= WORTH_BYTES.min(size / WORTH_PART)
    }
}
