//! State of each verified block: requested, acknowledged and durable writes.
//!
//! **Owns** the state of one job's blocks. **Called by** the run, which feeds it with events as they occur, and by
//! the check, which feeds it from the journal: both with the same [`Event`]s. **Invariants**: `durable <= acked <=
//! issued` for every block; a flush makes writes durable that were acknowledged before it began, on the same
//! connection.

use std::collections::HashMap;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A write of this block is about to be sent.
    Issued {
        /// Which block.
        block: u64,
        /// Its generation.
        generation: u32,
    },
    /// It was acknowledged.
    Acked {
        /// Which block.
        block: u64,
        /// Its generation.
        generation: u32,
        /// It promised stable storage (FUA).
        durable: bool,
    },
    /// A flush is about to be sent.
    FlushBegun {
        /// Its number.
        id: u64,
    },
    /// It was acknowledged.
    FlushEnded {
        /// Its number.
        id: u64,
    },
    /// The connection was lost and made again: the server may have lost writes that were not durable, and a later
    /// flush does not cover them.
    Reconnected,
}

/// One block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    /// The newest generation that must survive; 0 if none.
    pub durable: u32,
    /// The newest that was acknowledged.
    pub acked: u32,
    /// The newest that was sent.
    pub issued: u32,
}

/// Strictness of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// No loss: the newest acknowledged write must be read.
    Exact,
    /// A crash: server or client may have stopped at any moment.
    AfterLoss,
}

/// The blocks of one job: those whose number leaves the job's index when divided by the number of jobs.
#[derive(Debug, Clone)]
pub struct Ledger {
    jobs: u64,
    blocks: Vec<Block>,
    /// Acknowledged writes that no flush covers yet.
    pending: Vec<(u64, u32)>,
    /// The writes that each flush in flight covers.
    covered: HashMap<u64, Vec<(u64, u32)>>,
}

impl Ledger {
    /// For job `job` of `jobs` in a region of `blocks` blocks.
    #[must_use]
    pub fn new(job: u64, jobs: u64, blocks: u64) -> Ledger {
        let mine = blocks / jobs + u64::from(job < blocks % jobs);
        Ledger {
            jobs,
            blocks: vec![Block::default(); mine as usize],
            pending: Vec::new(),
            covered: HashMap::new(),
        }
    }

    /// Number of this job's blocks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// True if none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// A block, by its number in the region; `None` if it is another job's or beyond the end.
    #[must_use]
    pub fn get(&self, block: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(block / self.jobs).ok()?)
    }

    fn get_mut(&mut self, block: u64) -> Option<&mut Block> {
        self.blocks
            .get_mut(usize::try_from(block / self.jobs).ok()?)
    }

    /// Applies an event. An event about a block of another job (a damaged journal) is ignored.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Issued { block, generation } => {
                if let Some(b) = self.get_mut(block) {
                    b.issued = b.issued.max(generation);
                }
            }
            Event::Acked {
                block,
                generation,
                durable,
            } => {
                let Some(b) = self.get_mut(block) else { return };
                b.issued = b.issued.max(generation);
                b.acked = b.acked.max(generation);
                if durable {
                    b.durable = b.durable.max(generation);
                } else {
                    self.pending.push((block, generation));
                }
            }
            Event::FlushBegun { id } => {
                let covers = std::mem::take(&mut self.pending);
                self.covered.insert(id, covers);
            }
            Event::FlushEnded { id } => {
                for (block, generation) in self.covered.remove(&id).unwrap_or_default() {
                    if let Some(b) = self.get_mut(block) {
                        b.durable = b.durable.max(generation);
                    }
                }
            }
            Event::Reconnected => {
                self.pending.clear();
                self.covered.clear();
            }
        }
    }

    /// The generations that may be read from a block with no write in flight, smallest and largest; 0 stands for the
    /// contents before the run.
    #[must_use]
    pub fn allowed(&self, block: u64, how: Judgement) -> (u32, u32) {
        let b = self.get(block).copied().unwrap_or_default();
        match how {
            Judgement::Exact => (b.acked, b.acked),
            // A journal may have lost its end with the client: a whole block with a newer generation is valid too.
            Judgement::AfterLoss => (b.durable, u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slow model: evaluates the whole history each time.
    fn model(history: &[Event], block: u64) -> Block {
        let mut b = Block::default();
        for (i, e) in history.iter().enumerate() {
            let Event::Acked {
                block: at,
                generation,
                durable,
            } = *e
            else {
                if let Event::Issued {
                    block: at,
                    generation,
                } = *e
                    && at == block
                {
                    b.issued = b.issued.max(generation);
                }
                continue;
            };
            if at != block {
                continue;
            }
            b.issued = b.issued.max(generation);
            b.acked = b.acked.max(generation);
            // Durable if the first flush that begins afterwards ends, with no reconnection from the acknowledgement on.
            let mut flush = None;
            let mut flushed = durable;
            for later in &history[i + 1..] {
                match (*later, flush) {
                    (Event::Reconnected, _) => break,
                    (Event::FlushBegun { id }, None) => flush = Some(id),
                    (Event::FlushEnded { id }, Some(f)) if id == f => flushed = true,
                    _ => {}
                }
            }
            if flushed {
                b.durable = b.durable.max(generation);
            }
        }
        b
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = (0..6u8, 0u64..4).prop_map(|(kind, block)| (kind, block));
        prop::collection::vec(event, 0..60).prop_map(|choices| {
            let (mut generations, mut flushes, mut open, mut all) =
                ([0u32; 4], 0u64, Vec::new(), Vec::new());
            for (kind, block) in choices {
                let generation = &mut generations[block as usize];
                match kind {
                    0 | 1 => {
                        *generation += 1;
                        all.push(Event::Issued {
                            block,
                            generation: *generation,
                        });
                        all.push(Event::Acked {
                            block,
                            generation: *generation,
                            durable: kind == 1,
                        });
                    }
                    2 => {
                        *generation += 1;
                        all.push(Event::Issued {
                            block,
                            generation: *generation,
                        });
                    }
                    3 => {
                        all.push(Event::FlushBegun { id: flushes });
                        open.push(flushes);
                        flushes += 1;
                    }
                    4 if !open.is_empty() => {
                        let id = open.remove(block as usize % open.len());
                        all.push(Event::FlushEnded { id });
                    }
                    _ => {
                        all.push(Event::Reconnected);
                        open.clear();
                    }
                }
            }
            all
        })
    }

    proptest! {
        #[test]
        fn the_ledger_knows_what_the_history_says(history in events()) {
            let mut l = Ledger::new(0, 1, 4);
            history.iter().for_each(|e| l.apply(*e));
            for block in 0..4 {
                let b = *l.get(block).expect("ours");
                prop_assert_eq!(b, model(&history, block), "block {}", block);
                prop_assert!(b.durable <= b.acked && b.acked <= b.issued);
            }
        }
    }

    #[test]
    fn every_block_belongs_to_one_job() {
        for (jobs, blocks) in [(1, 7), (3, 7), (4, 4), (5, 3)] {
            let all: u64 = (0..jobs).map(|j| Ledger::new(j, jobs, blocks).len()).sum();
            assert_eq!(all, blocks);
        }
    }
}
