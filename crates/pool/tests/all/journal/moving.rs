//! Moves of the journal between rings that overlap, against a list of all batches.

use pool::Error;
use pool::format::{Birth, Incarnation, Record};
use pool::journal::{Ring, Start, Writer, replay};
use proptest::prelude::*;

use super::disk::{Mirror, POOL, SECTOR, at, commit, now};

/// Bytes of a segment.
const SEGMENT: u32 = 4096;
/// Slots of three rings: the third one overlaps both others.
const SLOTS: [std::ops::Range<u64>; 3] = [0..4, 4..8, 1..7];

#[derive(Debug, Clone, Copy)]
enum Act {
    Append,
    /// A checkpoint that ends, or is cut off before its uberblock.
    Checkpoint(bool),
    /// The next checkpoint moves the journal.
    Move(usize),
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => Just(Act::Append),
        3 => any::<bool>().prop_map(Act::Checkpoint),
        2 => (0..SLOTS.len()).prop_map(Act::Move),
        2 => Just(Act::Crash),
    ]
}

fn ring(which: usize, first: u64) -> Ring {
    let segments = SLOTS[which].clone();
    Ring {
        pool: POOL,
        first,
        segments: segments.map(|n| at(n * u64::from(SEGMENT))).collect(),
        segment_size: SEGMENT,
        sector: SECTOR as u32,
    }
}

/// A journal, and what a crash leaves of it.
struct Journal {
    mirror: Mirror,
    writer: Writer,
    /// The ring of the newest durable checkpoint's journal, and its start.
    ring: Ring,
    start: Start,
    next: Option<Ring>,
    /// The records since that checkpoint.
    records: Vec<[u8; 8]>,
    count: u64,
}

impl Journal {
    fn new() -> Self {
        let ring = ring(0, 0);
        let start = ring.start();
        Self {
            mirror: Mirror::new(1),
            writer: Writer::new(ring.clone(), start, start, Incarnation(1), Birth(1)),
            ring,
            start,
            next: None,
            records: Vec::new(),
            count: 0,
        }
    }

    fn append(&mut self) {
        if !self.writer.has_room(8) {
            self.checkpoint(true);
        }
        self.count += 1;
        let record = self.count.to_le_bytes();
        commit(&mut self.writer, record, |write| {
            self.mirror.put(write.at, &write.bytes);
            self.mirror.keep(write.at);
        });
        self.records.push(record);
    }

    fn checkpoint(&mut self, ends: bool) {
        self.writer.end_epoch();
        self.writer.begin_checkpoint();
        self.writer.hold_for_move();
        let last = self.writer.last().sequence();
        if last < self.start.sequence {
            // nothing was appended since the last one, and that may have moved the journal
            assert!(self.records.is_empty());
        }
        if self.next.is_some() {
            let refused = self.writer.append(&[Record::State([1; 8].into())], 0);
            assert_eq!(refused, Err(Error::JournalFull));
        }
        if !ends {
            return self.crash();
        }
        let start = self.writer.start_after(last).expect("durable");
        self.writer.release(start);
        self.ring = self.next.take().unwrap_or(self.ring.clone());
        assert!(start.position.segment >= self.ring.first);
        self.start = start;
        self.records.clear();
        assert!(self.writer.has_room(8));
    }

    fn crash(&mut self) {
        let replayed = now(replay(&self.mirror, &self.ring, self.start)).expect("all are there");
        let found = replayed.batches.iter().flat_map(|batch| &batch.records);
        let wanted = self.records.iter().map(|r| Record::State((*r).into()));
        assert!(found.eq(&wanted.collect::<Vec<_>>()), "{:?}", self.start);
        self.next = None;
        self.writer = Writer::new(
            self.ring.clone(),
            self.start,
            replayed.head,
            Incarnation(self.count + 2),
            Birth(1000 * (self.count + 1)),
        );
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Append => self.append(),
            Act::Checkpoint(ends) => self.checkpoint(ends),
            Act::Crash => self.crash(),
            Act::Move(which) => {
                let (_, head) = self.writer.segments();
                let ring = ring(which, head.max(self.ring.first) + 100);
                self.next = Some(ring.clone());
                self.writer.move_to(ring);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_crash_leaves_each_batch_since_the_last_checkpoint(acts in prop::collection::vec(act(), 1..120)) {
        let mut journal = Journal::new();
        for act in acts {
            journal.act(act);
        }
        journal.crash();
    }
}
