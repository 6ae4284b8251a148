//! Turns of simulated shards.
//!
//! **Owns** the pauses of shards. **Called by** the simulator's driver. **Invariants**: with one shard there is no choice,
//! so that runs with one shard do not change; between two turns of a shard, others may have any number of turns, as if the
//! thread had lost its processor. No shard interrupts a task's poll.

use crate::clock::Instant;
use crate::runtime::ShardId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Mean number of turns between two pauses of a shard.
const PAUSES_ONE_IN: usize = 24;
/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_nanos(200);
/// Maximum number of doublings of a pause: 1.6 ms.
const PAUSE_DOUBLINGS: usize = 14;

/// The pauses of all shards.
#[derive(Debug, Default)]
pub(super) struct Turns {
    paused: BTreeMap<ShardId, Instant>,
}

impl Turns {
    fn is_free(&self, shard: ShardId, now: Instant) -> bool {
        self.paused.get(&shard).is_none_or(|until| *until <= now)
    }

    /// Chooses the shard that runs now among `ready`; `None` if all of them are paused.
    pub(super) fn next(
        &mut self,
        ready: &[ShardId],
        now: Instant,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> Option<ShardId> {
        self.paused.retain(|_, until| *until > now);
        let free: Vec<ShardId> = ready
            .iter()
            .copied()
            .filter(|s| self.is_free(*s, now))
            .collect();
        if free.is_empty() {
            return None;
        }
        let shard = free[choose(free.len())];
        if choose(PAUSES_ONE_IN) == 0 {
            let pause = PAUSE_MIN * (1 << choose(PAUSE_DOUBLINGS));
            self.paused.insert(shard, now + pause);
        }
        Some(shard)
    }

    /// Time until one of the shards in `ready` may run.
    pub(super) fn pause(&self, ready: &[ShardId], now: Instant) -> Duration {
        let left = |shard: &ShardId| {
            let until = self.paused.get(shard);
            until.map_or(Duration::ZERO, |until| until.since(now))
        };
        ready.iter().map(left).min().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_shard_has_no_turn_before_its_pause_ends() {
        let mut turns = Turns::default();
        let start = Instant(1_000);
        // Choice 0: the first shard, and the shortest pause.
        assert_eq!(turns.next(&[1, 2], start, &mut |_| 0), Some(1));
        assert_eq!(turns.next(&[1], start, &mut |_| 0), None);
        assert_eq!(turns.pause(&[1], start), PAUSE_MIN);
        assert_eq!(turns.pause(&[1, 2], start), Duration::ZERO);
        assert_eq!(turns.next(&[1, 2], start, &mut |n| n - 1), Some(2));
        assert_eq!(turns.next(&[1], start + PAUSE_MIN, &mut |n| n - 1), Some(1));
    }
}
