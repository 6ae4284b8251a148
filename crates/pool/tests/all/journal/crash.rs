//! Power cuts at every step: replay returns a prefix of the appended batches that includes all acknowledged ones.

use pool::Error;
use pool::format::{
    Address, Birth, BlockPtr, Checksum, ChecksumKind, Compression, Incarnation, Key, Kind,
    ObjectId, Record, TreeId,
};
use pool::journal::{BatchWrite, Flush, Start, Ticket, Writer, replay};

use crate::journal::disk::{DATA_START, Mirror, Random, SECTOR, at, now, ring};

/// Data slots. A ring this small never has pointers to all of them.
const SLOTS: u64 = 800;

struct Append {
    records: Vec<Record>,
    ticket: Option<Ticket>,
}

struct Run {
    random: Random,
    disk: Mirror,
    writer: Writer,
    /// Batches appended since `tail`, oldest first.
    log: Vec<Append>,
    tail: Start,
    batches: Vec<BatchWrite>,
    data: Vec<(Ticket, Address)>,
    /// Writes completed and not flushed.
    completed: Vec<Address>,
    flush: Option<(Flush, Vec<Address>)>,
    slot: u64,
    number: u64,
    lives: u64,
    full: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let ring = ring(4, 8 << 10);
        let tail = ring.start();
        Self {
            random: Random(seed),
            disk: Mirror::new(1 + (seed % 2) as usize),
            writer: Writer::new(ring, tail, tail, Incarnation(1), Birth(1)),
            log: Vec::new(),
            tail,
            batches: Vec::new(),
            data: Vec::new(),
            completed: Vec::new(),
            flush: None,
            slot: 0,
            number: 0,
            lives: 1,
            full: 0,
        }
    }

    fn append(&mut self) {
        self.number += 1;
        let mut records = vec![Record::State(self.number.to_le_bytes().into())];
        let mut blocks = Vec::new();
        for _ in 0..self.random.below(4) {
            let place = at(DATA_START + (self.slot + blocks.len() as u64) % SLOTS * SECTOR as u64);
            // Few values, so that a block that is written again after a crash may equal a lost one.
            let bytes = vec![self.random.below(2) as u8; SECTOR];
            records.push(Record::PutFresh(
                TreeId(1),
                Key::new(ObjectId(1), Kind(1), self.number),
                BlockPtr {
                    vdev: place.vdev,
                    offset: place.offset,
                    logical_size: SECTOR as u32,
                    physical_size: SECTOR as u32,
                    compression: Compression::Off,
                    checksum_kind: ChecksumKind::Xxh3,
                    is_fragment: false,
                    birth: Birth(1),
                    placed: Birth(1),
                    checksum: Checksum::of(ChecksumKind::Xxh3, place, &bytes),
                }
                .into(),
            ));
            blocks.push((place, bytes));
        }
        let padding = self.random.below(3) * self.random.below(900);
        records.push(Record::State(vec![7; padding as usize].into()));
        match self.writer.append(&records, blocks.len() as u32) {
            Ok(ticket) => {
                self.slot += blocks.len() as u64;
                for (place, bytes) in blocks {
                    self.disk.put(place, &bytes);
                    self.data.push((ticket, place));
                }
                let ticket = Some(ticket);
                self.log.push(Append { records, ticket });
            }
            Err(error) => {
                assert_eq!(error, Error::JournalFull);
                self.full += 1;
                self.release();
            }
        }
    }

    fn release(&mut self) {
        let Some(start) = self.writer.start_after(self.writer.durable()) else {
            return;
        };
        self.writer.release(start);
        self.log
            .retain(|a| a.ticket.is_some_and(|t| t.sequence() >= start.sequence));
        self.tail = start;
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..4 => self.append(),
            4..6 => {
                if let Some(write) = self.writer.next_write(true) {
                    self.disk.put(write.at, &write.bytes);
                    self.batches.push(write);
                }
            }
            6..8 if !self.batches.is_empty() => {
                let index = self.random.below(self.batches.len() as u64) as usize;
                let write = self.batches.swap_remove(index);
                self.writer.written(write.sequence);
                self.completed.push(write.at);
            }
            8..10 if !self.data.is_empty() => {
                let index = self.random.below(self.data.len() as u64) as usize;
                let (ticket, place) = self.data.swap_remove(index);
                self.writer.data_written(ticket);
                self.completed.push(place);
            }
            10 => match self.flush.take() {
                Some((flush, covered)) => {
                    covered.into_iter().for_each(|place| self.disk.keep(place));
                    self.writer.flushed(flush);
                }
                None => {
                    if let Some(flush) = self.writer.begin_flush() {
                        self.flush = Some((flush, std::mem::take(&mut self.completed)));
                    }
                }
            },
            11 if self.random.below(10) == 0 => self.release(),
            _ => {}
        }
    }

    /// Cuts the power and starts again.
    fn crash(&mut self) {
        self.disk.power_cut(&mut self.random);
        let ring = ring(4, 8 << 10);
        let replayed = now(replay(&self.disk, &ring, self.tail)).expect("nothing is rotten");
        let mut rest = replayed.batches.iter().flat_map(|b| &b.records).peekable();
        let mut survivors = 0;
        while rest.peek().is_some() {
            let append = self.log.get(survivors).expect("more than was appended");
            for record in &append.records {
                assert_eq!(rest.next(), Some(record), "life {}", self.lives);
            }
            survivors += 1;
        }
        let lost = &self.log[survivors..];
        let writer = &self.writer;
        let acknowledged = |a: &Append| a.ticket.is_none_or(|t| writer.is_durable(t));
        assert!(!lost.iter().any(acknowledged), "lost what was acknowledged");
        let again = now(replay(&self.disk, &ring, self.tail)).expect("nothing is rotten");
        assert_eq!(
            (again.head, &again.batches),
            (replayed.head, &replayed.batches)
        );
        assert_eq!(again.repaired, 0, "every member has what survived");
        let blocks = |a: &Append| a.records.iter().filter(|r| r.fresh().is_some()).count() as u64;
        self.slot -= lost.iter().map(blocks).sum::<u64>();
        self.log.truncate(survivors);
        let members = self.disk.members.borrow();
        for ptr in replayed
            .batches
            .iter()
            .flat_map(|b| &b.records)
            .filter_map(Record::fresh)
        {
            let start = ptr.offset.0 as usize;
            for member in members.iter() {
                assert_eq!(
                    ptr.verify(&member[start..start + SECTOR]),
                    Ok(()),
                    "data is lost"
                );
            }
        }
        drop(members);
        self.log.iter_mut().for_each(|a| a.ticket = None);
        self.lives += 1;
        let life = Incarnation(self.lives);
        self.writer = Writer::new(ring, self.tail, replayed.head, life, Birth(1));
        self.batches.clear();
        self.data.clear();
        self.completed.clear();
        self.flush = None;
    }
}

#[test]
fn every_power_cut_leaves_a_prefix_with_all_that_was_acknowledged() {
    let (mut full, mut laps) = (0, 0);
    for seed in 0..800 {
        let mut run = Run::new(seed);
        for _ in 0..30 {
            for _ in 0..run.random.below(60) {
                run.step();
            }
            run.crash();
        }
        full += run.full;
        laps += run.tail.position.segment / 4;
    }
    assert!(full > 50 && laps > 50, "{full} times full, {laps} laps");
}
