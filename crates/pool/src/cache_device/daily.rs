//! Daily write budget of a cache device.
//!
//! **Owns** the bytes of the last 24 hours, by hour. **Called by** a cache device, under its lock. **Invariant**: within any 24 hours, less than the
//! budget is granted, also over restarts: the tables on the device have the time at which they were written.

use std::collections::BTreeMap;

const HOUR_MS: u64 = 3_600_000;
const HOURS: u64 = 24;

/// See the module header.
pub(super) struct DailyWrites {
    /// Most bytes in 24 hours.
    most: u64,
    hours: BTreeMap<u64, u64>,
}

impl DailyWrites {
    /// A budget of `most` bytes in 24 hours, of which nothing is taken.
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            hours: BTreeMap::new(),
        }
    }

    /// Bytes that may be written in 24 hours.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Bytes that were written in the last 24 hours. Times of a clock that was ahead do not count.
    pub(super) fn written(&self, now_ms: u64) -> u64 {
        let now = now_ms / HOUR_MS;
        let hours = self.hours.range((now + 1).saturating_sub(HOURS)..=now + 1);
        hours.map(|(_, bytes)| bytes).sum()
    }

    /// Takes `bytes` of the budget. Returns whether they were left.
    pub(super) fn take(&mut self, now_ms: u64, bytes: u64) -> bool {
        let is_left = self.written(now_ms) + bytes <= self.most;
        if is_left {
            self.note(now_ms, bytes);
        }
        is_left
    }

    /// These bytes were written at this time.
    pub(super) fn note(&mut self, at_ms: u64, bytes: u64) {
        *self.hours.entry(at_ms / HOUR_MS).or_default() += bytes;
        while self.hours.len() as u64 > HOURS + 1 {
            self.hours.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_budget_and_no_more() {
        let mut daily = DailyWrites::new(100);
        let noon = 1_000_000 * HOUR_MS;
        assert!(daily.take(noon, 60) && !daily.take(noon, 60) && daily.take(noon + 1, 40));
        assert_eq!(daily.written(noon + 23 * HOUR_MS), 100);
        assert!(!daily.take(noon + 23 * HOUR_MS, 1));
        assert!(daily.take(noon + 24 * HOUR_MS, 100));
        let mut daily = DailyWrites::new(100);
        daily.note(noon - 2 * HOUR_MS, 70);
        daily.note(noon + 1000 * HOUR_MS, 70);
        assert_eq!(
            daily.written(noon),
            70,
            "a clock that was ahead does not stop the cache"
        );
        for hour in 0..1000 {
            daily.note(noon + hour * HOUR_MS, 1);
        }
        assert!(daily.hours.len() <= 25);
    }
}
