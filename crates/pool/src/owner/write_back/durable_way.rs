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
/// One group of this number goes the other way, which may have become the faster one.
const RETRY: u32 = 64;
/// The weight of a new measurement, as a divisor.
const WEIGHT: u32 = 8;

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

/// See the module header.
#[derive(Debug)]
pub(super) struct DurableWay {
    setting: DurableWrites,
    /// Whether the labels have the feature.
    is_allowed: bool,
    /// Whether the feature is wanted, and nobody began to set it.
    is_wanted: bool,
    times: DurableTimes,
    probe: Option<Probe>,
    groups: u32,
}

impl DurableWay {
    pub(super) fn new(setting: DurableWrites) -> Self {
        Self {
            setting,
            is_allowed: false,
            is_wanted: setting == DurableWrites::Journal,
            times: DurableTimes::default(),
            probe: None,
            groups: 0,
        }
    }

    /// Whether the contents of the next group go to the journal.
    pub(super) fn takes_journal(&mut self) -> bool {
        let takes = match self.setting {
            DurableWrites::Blocks => false,
            DurableWrites::Journal => true,
            DurableWrites::Measured => self.is_faster(),
        };
        self.is_wanted |= takes && !self.is_allowed;
        takes && self.is_allowed
    }

    fn is_faster(&mut self) -> bool {
        let DurableTimes {
            blocks: Some(blocks),
            journal,
            ..
        } = self.times
        else {
            return false;
        };
        if blocks < SLOW {
            return false;
        }
        let Some(journal) = journal else { return true };
        self.groups += 1;
        let is_faster = journal + journal / 4 < blocks;
        is_faster != self.groups.is_multiple_of(RETRY)
    }

    /// Whether the feature must be set in the labels. The caller begins that.
    pub(super) fn take_wish(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted) && !self.is_allowed
    }

    /// The labels have the feature.
    pub(super) fn allow(&mut self) {
        self.is_allowed = true;
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
        let took = probe.at.elapsed();
        let usual = match probe.in_journal {
            true => &mut self.times.journal,
            false => &mut self.times.blocks,
        };
        *usual = Some(match *usual {
            Some(before) => (before * (WEIGHT - 1) + took) / WEIGHT,
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
        way.allow();
        way.times.blocks = Some(Duration::from_micros(blocks));
        way.times.journal = journal.map(Duration::from_micros);
        way
    }

    fn taken(way: &mut DurableWay) -> usize {
        (0..640).filter(|_| way.takes_journal()).count()
    }

    #[test]
    fn the_journal_is_tried_only_where_blocks_are_slow() {
        assert!(!DurableWay::new(DurableWrites::Measured).takes_journal());
        assert!(!way(499, None).takes_journal());
        assert!(way(500, None).takes_journal());
    }

    #[test]
    fn the_journal_is_taken_if_it_is_much_faster_and_the_other_way_is_tried_again() {
        assert_eq!(taken(&mut way(10_000, Some(5_000))), 630);
        assert_eq!(taken(&mut way(10_000, Some(9_000))), 10);
        assert_eq!(taken(&mut way(400, Some(100))), 0);
    }

    #[test]
    fn the_journal_waits_for_the_feature() {
        let mut way = DurableWay::new(DurableWrites::Journal);
        assert!(way.take_wish());
        assert!(!way.takes_journal());
        assert!(way.take_wish());
        way.allow();
        assert!(way.takes_journal());
        assert!(!way.take_wish());
    }
}
