//! The way of small durable writes: at once to blocks of their own, or first with their contents in the journal.
//!
//! Through the journal, a durable write is one write to each disk and a flush. With blocks at once it is two writes to different
//! places and a flush: on a hard disk a seek more, on a raidz a row with its parity. But contents in the journal are written twice.
//! So both ways are measured, and the journal's is taken only where it is much faster.
//!
//! **Owns** the measured times, and the choice. **Called by** write-back. **Invariant**: contents go to the journal only after the
//! labels have the feature. `docs/decisions/0171`.

use std::time::Duration;

use io::time::Instant;

use crate::journal::{Ticket, Writer};
use crate::options::DurableWrites;

/// Where durable writes take less time than this with blocks at once, nothing else is tried.
const SLOW: Duration = Duration::from_micros(500);
/// Groups from one choice to the next, at least.
const CYCLE_MIN: u32 = 256;
/// The first groups of a cycle go the way that is not preferred, which may have become the faster one. They are several, since other
/// work of the disk may make one of them slow.
const TRIES: u32 = 8;
/// The tries take at most this part of the time of a cycle, as a divisor: with a log before hard disks a try takes a hundred times as long as
/// the preferred way.
const TRIES_PART: u32 = 50;
/// The weight of a new measurement, as a divisor: the tries of one cycle outweigh what was measured before.
const WEIGHT: u32 = 4;
/// A measurement counts as this many times the usual time at most: one write that waited for other work of a disk says little about the way.
const OUTLIER: u32 = 4;

/// A measurement that has begun.
#[derive(Debug)]
struct Probe {
    ticket: Ticket,
    in_journal: bool,
    at: Instant,
}

/// The ways of small durable writes of an open pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DurableTimes {
    /// The usual time of such a write with blocks at once. `None` before one was measured.
    pub blocks: Option<Duration>,
    /// The same with its contents in the journal.
    pub journal: Option<Duration>,
    /// Number of records whose contents went to the journal.
    pub journaled: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The feature of contents in the journal, in the labels of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    /// It is not needed yet, or could not be set.
    Absent,
    /// It is needed, and not being set.
    Wanted,
    /// The labels are being written.
    BeingSet,
    /// All labels have it.
    Set,
}

/// See the module header.
#[derive(Debug)]
pub(super) struct DurableWay {
    setting: DurableWrites,
    feature: Feature,
    times: DurableTimes,
    probe: Option<Probe>,
    /// Whether the journal was the much faster way at the last choice.
    prefers_journal: bool,
    /// Number of groups of this cycle.
    groups: u32,
}

impl DurableWay {
    pub(super) fn new(setting: DurableWrites) -> Self {
        Self {
            setting,
            feature: match setting {
                DurableWrites::Journal => Feature::Wanted,
                DurableWrites::Measured | DurableWrites::Blocks => Feature::Absent,
            },
            times: DurableTimes::default(),
            probe: None,
            prefers_journal: false,
            groups: 0,
        }
    }

    /// Whether the contents of the next group go to the journal.
    pub(super) fn takes_journal(&mut self) -> bool {
        let takes = match self.setting {
            DurableWrites::Blocks => false,
            DurableWrites::Journal => true,
            DurableWrites::Measured => self.is_chosen(),
        };
        if takes && self.feature == Feature::Absent {
            self.feature = Feature::Wanted;
        }
        takes && self.feature == Feature::Set
    }

    fn is_chosen(&mut self) -> bool {
        let DurableTimes {
            blocks: Some(blocks),
            journal,
            ..
        } = self.times
        else {
            return false;
        };
        if blocks < SLOW || self.feature != Feature::Set {
            return blocks >= SLOW;
        }
        if self.groups == TRIES {
            self.prefers_journal = journal.is_some_and(|time| time + time / 4 < blocks);
        }
        let is_try = self.groups < TRIES;
        self.groups += 1;
        if self.groups >= self.cycle() {
            self.groups = 0;
        }
        self.prefers_journal != is_try
    }

    /// Groups from one choice to the next. It becomes shorter as soon as the preferred way takes more time.
    fn cycle(&self) -> u32 {
        let (Some(blocks), Some(journal)) = (self.times.blocks, self.times.journal) else {
            return CYCLE_MIN;
        };
        let (preferred, other) = match self.prefers_journal {
            true => (journal, blocks),
            false => (blocks, journal),
        };
        let of_tries = u128::from(TRIES * TRIES_PART) * other.as_micros();
        let groups = of_tries / preferred.as_micros().max(1);
        u32::try_from(groups).unwrap_or(u32::MAX).max(CYCLE_MIN)
    }

    /// Whether the feature must be set in the labels. The caller begins that, and says how it ended.
    pub(super) fn take_wish(&mut self) -> bool {
        let is_wanted = self.feature == Feature::Wanted;
        if is_wanted {
            self.feature = Feature::BeingSet;
        }
        is_wanted
    }

    /// Setting the feature has ended: all labels have it, or some could not be written.
    pub(super) fn feature_ended(&mut self, is_set: bool) {
        self.feature = match is_set {
            true => Feature::Set,
            false => Feature::Absent,
        };
    }

    /// A small group for which a client waits is in the batch `ticket`. `journaled` are the number and the bytes of its records whose
    /// contents went to the journal.
    pub(super) fn began(&mut self, ticket: Ticket, journaled: Option<(u64, u64)>, at: Instant) {
        if let Some((records, bytes)) = journaled {
            self.times.journaled += records;
            self.times.bytes += bytes;
        }
        let in_journal = journaled.is_some();
        self.probe.get_or_insert(Probe {
            ticket,
            in_journal,
            at,
        });
    }

    /// A flush has ended.
    pub(super) fn flushed(&mut self, journal: &Writer) {
        let is_durable = |probe: &mut Probe| journal.is_durable(probe.ticket);
        let Some(probe) = self.probe.take_if(is_durable) else {
            return;
        };
        self.measured(probe.in_journal, probe.at.elapsed());
    }

    /// A small group took this time until it was durable.
    fn measured(&mut self, in_journal: bool, took: Duration) {
        let usual = match in_journal {
            true => &mut self.times.journal,
            false => &mut self.times.blocks,
        };
        *usual = Some(match *usual {
            Some(before) => (before * (WEIGHT - 1) + took.min(before * OUTLIER)) / WEIGHT,
            None => took,
        });
    }

    pub(super) fn times(&self) -> DurableTimes {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(blocks: u64, journal: Option<u64>) -> DurableWay {
        let mut way = DurableWay::new(DurableWrites::Measured);
        way.feature_ended(true);
        way.times.blocks = Some(Duration::from_micros(blocks));
        way.times.journal = journal.map(Duration::from_micros);
        way
    }

    fn taken(way: &mut DurableWay) -> usize {
        (0..2000).filter(|_| way.takes_journal()).count()
    }

    #[test]
    fn the_journal_is_tried_only_where_blocks_are_slow() {
        assert!(!DurableWay::new(DurableWrites::Measured).takes_journal());
        assert!(!way(499, None).takes_journal());
        assert!(way(500, None).takes_journal());
    }

    #[test]
    fn the_journal_is_taken_if_it_is_much_faster_and_the_other_way_is_tried_again() {
        // cycles of 800 groups, of which the first one tries the journal, and of 360
        assert_eq!(taken(&mut way(10_000, Some(5_000))), 2000 - 2 * 8);
        assert_eq!(taken(&mut way(10_000, Some(9_000))), 6 * 8);
        assert_eq!(taken(&mut way(400, Some(100))), 0);
    }

    /// Regression: with a log before hard disks, three quarters of the time were spent on tries of the slow way.
    #[test]
    fn tries_take_little_time() {
        let mut way = way(15_000, Some(100));
        let tries = |way: &mut DurableWay, groups: usize| {
            let journal = (0..groups).filter(|_| way.takes_journal()).count();
            groups - journal
        };
        assert_eq!(
            tries(&mut way, 60_000),
            0,
            "the first cycle tries the journal"
        );
        assert_eq!(tries(&mut way, 60_000), 8);
        // the log is gone
        way.times.journal = Some(Duration::from_millis(11));
        let journal = (0..1000).filter(|_| way.takes_journal()).count();
        assert_eq!(journal, 1000 - 2 * 8, "it is tried again at once");
    }

    /// Regression: one slow try, while the labels were written, kept the journal from being taken for thousands of writes.
    #[test]
    fn one_slow_try_does_not_decide() {
        let mut way = way(24_000, None);
        let ms = |ms| Duration::from_millis(ms);
        for time in [32, 16, 16, 16, 16, 16, 16, 16] {
            assert!(way.takes_journal());
            way.measured(true, ms(time));
        }
        assert!(way.takes_journal(), "{:?}", way.times);
    }

    #[test]
    fn the_journal_waits_for_the_feature() {
        let mut way = DurableWay::new(DurableWrites::Journal);
        assert!(way.take_wish());
        assert!(!way.takes_journal());
        assert!(!way.take_wish(), "it is being set");
        way.feature_ended(false);
        assert!(!way.takes_journal());
        assert!(way.take_wish(), "again");
        way.feature_ended(true);
        assert!(way.takes_journal());
        assert!(!way.take_wish());
    }
}
