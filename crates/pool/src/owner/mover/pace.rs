//! The pace of movers in the background.
//!
//! **Owns** the rests between two parts of their work. **Called by** the order mover and the balance mover. **Invariants**: a rate that
//! a dataset has is kept, whether clients work or not; without one, clients that work get three quarters of the time; a mover with more
//! urgent work does not rest. `docs/decisions/0176`.

use std::time::Duration;

use io::time::{Instant, now, sleep};

use crate::format::Autodefrag;
use crate::owner::Owner;

/// While clients work, the mover rests this many times as long as a part of its work took.
const REST: u32 = 3;
/// Longest part of a rest. The mover looks for more urgent work between two parts.
const REST_PART: Duration = Duration::from_millis(20);

/// The begin of a part of the work, and what clients had done until then.
pub(super) struct Pace {
    begun: Instant,
    reads: u64,
    put: u64,
}

impl Owner {
    /// A part of the work begins.
    pub(super) fn begin_pace(&self) -> Pace {
        Pace {
            begun: now(),
            reads: self.shared.scattered.reads(),
            put: self.shared.budget.all_put(),
        }
    }

    /// Rests after a part of the work, in which `bytes` bytes were moved.
    pub(super) async fn keep_pace(&self, pace: Pace, rate: Autodefrag, bytes: u64) {
        let took = now().since(pace.begun);
        let Pace { reads, put, .. } = self.begin_pace();
        let is_alone = (reads, put) == (pace.reads, pace.put);
        let mut left = match rate {
            Autodefrag::Rate(rate) => {
                let least = Duration::from_nanos((bytes * 1_000_000_000) / rate);
                least.saturating_sub(took)
            }
            _ if is_alone => Duration::ZERO,
            _ => took * REST,
        };
        while !left.is_zero() && self.may_move() && !self.needs_rows() {
            let part = left.min(REST_PART);
            sleep(part).await;
            left -= part;
        }
    }
}
