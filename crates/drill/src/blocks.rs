//! Expected contents of the blocks of a load.
//!
//! **Owns** the generations of each block, and the judgement of a block that was read. **Called by** the load.
//! **Invariants**: `floor`, `durable` and `acked` never exceed `issued`. A read returns a whole block with a generation from
//! `floor` to `issued`. `floor` is the newest acknowledged write; the loss of the server lowers it to the newest durable
//! write, and a read raises it to the generation that was found.

use crate::limits::TOLD_MAX;
use lab::verify::stamp::{Found, Stamp, examine};
use serde::Serialize;

/// One block.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// The newest generation that was sent; 0 for the contents before the load.
    issued: u32,
    /// The newest one that must survive the loss of the server.
    durable: u32,
    /// The oldest one that may be read.
    floor: u32,
    /// A read or write of the load is under way.
    is_busy: bool,
    /// It was found wrong, and counted.
    is_bad: bool,
}

/// Blocks whose contents are not allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Blocks that lost an acknowledged write.
    pub lost_blocks: u64,
    /// Of these, blocks that lost a write acknowledged as durable.
    pub lost_durable_blocks: u64,
    /// Blocks with contents that nobody wrote there: torn, misplaced, foreign, or newer than the newest write.
    pub wrong_blocks: u64,
    /// Descriptions of the first of them.
    pub examples: Vec<String>,
}

/// The blocks of a load.
pub(crate) struct Blocks {
    seed: u64,
    blocks: Vec<Block>,
    /// Acknowledged writes that no flush covers yet.
    pending: Vec<(u64, u32)>,
    /// Number of losses of the server.
    losses: u64,
    findings: Findings,
}

/// Writes that a flush covers if it succeeds.
pub(crate) struct Covered {
    losses: u64,
    writes: Vec<(u64, u32)>,
}

impl Blocks {
    pub(crate) fn new(seed: u64, blocks: u64) -> Blocks {
        Blocks {
            seed,
            blocks: vec![Block::default(); blocks as usize],
            pending: Vec::new(),
            losses: 0,
            findings: Findings::default(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(crate) fn findings(&self) -> Findings {
        self.findings.clone()
    }

    fn at(&mut self, block: u64) -> &mut Block {
        &mut self.blocks[block as usize]
    }

    /// Takes a block for one read or write. False if another one is under way.
    pub(crate) fn take(&mut self, block: u64) -> bool {
        !std::mem::replace(&mut self.at(block).is_busy, true)
    }

    /// Gives a block back.
    pub(crate) fn release(&mut self, block: u64) {
        self.at(block).is_busy = false;
    }

    /// Fills `data` with the next generation of a block. Returns the generation.
    pub(crate) fn issue(&mut self, block: u64, data: &mut [u8]) -> u32 {
        let seed = self.seed;
        let state = self.at(block);
        state.issued += 1;
        let generation = state.issued;
        let stamp = Stamp {
            seed,
            block,
            generation,
        };
        stamp.write(data);
        generation
    }

    /// A write was acknowledged. `by_lost_server`: by a server that has been lost since, so that only a durable write counts.
    pub(crate) fn acknowledged(
        &mut self,
        block: u64,
        generation: u32,
        durable: bool,
        by_lost_server: bool,
    ) {
        let state = self.at(block);
        if durable {
            state.durable = state.durable.max(generation);
        }
        if durable || !by_lost_server {
            state.floor = state.floor.max(generation);
        }
        if !durable && !by_lost_server {
            self.pending.push((block, generation));
        }
    }

    /// A flush is about to be sent.
    pub(crate) fn flush(&mut self) -> Covered {
        Covered {
            losses: self.losses,
            writes: std::mem::take(&mut self.pending),
        }
    }

    /// The flush was acknowledged. After a loss of the server in between it may have reached the next one only, and covers
    /// nothing.
    pub(crate) fn flushed(&mut self, covered: Covered) {
        if covered.losses != self.losses {
            return;
        }
        for (block, generation) in covered.writes {
            let state = self.at(block);
            state.durable = state.durable.max(generation);
        }
    }

    /// The flush failed: its writes wait for the next one.
    pub(crate) fn not_flushed(&mut self, covered: Covered) {
        if covered.losses == self.losses {
            self.pending.extend(covered.writes);
        }
    }

    /// The server was lost: writes that were not durable may be gone.
    pub(crate) fn server_lost(&mut self) {
        self.losses += 1;
        self.pending.clear();
        for block in &mut self.blocks {
            block.floor = block.durable;
        }
    }

    /// Judges a block that was read while no write of it was under way. `from_lost_server`: the answer came from a server
    /// that has been lost since, so that it promises nothing for later reads.
    pub(crate) fn judge(&mut self, block: u64, data: &[u8], from_lost_server: bool) {
        let found = examine(data, self.seed, block);
        let state = *self.at(block);
        let generation = match found {
            Found::Whole(generation) => Some(generation),
            Found::Zero | Found::Foreign | Found::OtherRun(_) if state.floor == 0 => Some(0),
            // A volume of the drill's own begins with zeroes.
            Found::Zero => Some(0),
            Found::Foreign | Found::OtherRun(_) | Found::Misplaced(_) | Found::Damaged(_) => None,
        };
        let generation = generation.filter(|g| *g <= state.issued);
        let is_lost = generation.is_some_and(|g| g < state.floor);
        if let Some(generation) = generation.filter(|_| !is_lost) {
            if !from_lost_server {
                self.at(block).floor = generation;
            }
            return;
        }
        if std::mem::replace(&mut self.at(block).is_bad, true) {
            return;
        }
        let findings = &mut self.findings;
        let was_durable = generation.is_some_and(|g| g < state.durable);
        findings.lost_blocks += u64::from(is_lost);
        findings.lost_durable_blocks += u64::from(is_lost && was_durable);
        findings.wrong_blocks += u64::from(!is_lost);
        if findings.examples.len() < TOLD_MAX {
            let least = match was_durable {
                true => "durable",
                false => "acknowledged",
            };
            findings.examples.push(format!(
                "block {block}: found {found}, expected generation {} ({least}) to {}",
                state.floor, state.issued
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    fn data(block: u64, generation: u32) -> Vec<u8> {
        let mut data = vec![0; 512];
        let stamp = Stamp {
            seed: SEED,
            block,
            generation,
        };
        stamp.write(&mut data);
        data
    }

    /// Block 2 with a durable generation 1, an acknowledged 2 and an issued 3.
    fn blocks() -> Blocks {
        let mut blocks = Blocks::new(SEED, 4);
        let mut buf = vec![0; 512];
        for durable in [true, false] {
            let generation = blocks.issue(2, &mut buf);
            blocks.acknowledged(2, generation, durable, false);
        }
        blocks.issue(2, &mut buf);
        blocks
    }

    fn judged(mut blocks: Blocks, data: &[u8]) -> (u64, u64, u64) {
        blocks.judge(2, data, false);
        let f = blocks.findings();
        (f.lost_blocks, f.lost_durable_blocks, f.wrong_blocks)
    }

    #[test]
    fn an_acknowledged_write_must_be_there_while_the_server_lives() {
        assert_eq!(judged(blocks(), &data(2, 1)), (1, 0, 0));
        assert_eq!(judged(blocks(), &data(2, 2)), (0, 0, 0));
        assert_eq!(judged(blocks(), &data(2, 3)), (0, 0, 0));
        assert_eq!(judged(blocks(), &[0; 512]), (1, 1, 0));
    }

    #[test]
    fn after_the_loss_of_the_server_a_durable_write_must_be_there() {
        let lost = || {
            let mut blocks = blocks();
            blocks.server_lost();
            blocks
        };
        assert_eq!(judged(lost(), &data(2, 1)), (0, 0, 0));
        assert_eq!(judged(lost(), &[0; 512]), (1, 1, 0));
        assert_eq!(judged(lost(), &data(2, 3)), (0, 0, 0));
    }

    #[test]
    fn contents_that_nobody_wrote_are_wrong() {
        assert_eq!(judged(blocks(), &data(2, 4)), (0, 0, 1), "newer than any");
        assert_eq!(judged(blocks(), &data(1, 2)), (0, 0, 1), "misplaced");
        let mut torn = data(2, 2);
        torn[300] ^= 1;
        assert_eq!(judged(blocks(), &torn), (0, 0, 1));
        assert_eq!(judged(blocks(), &[9; 512]), (0, 0, 1), "foreign");
    }

    #[test]
    fn a_read_does_not_go_back_in_time() {
        let mut blocks = blocks();
        blocks.server_lost();
        blocks.judge(2, &data(2, 3), false);
        blocks.judge(2, &data(2, 1), false);
        assert_eq!(blocks.findings().lost_blocks, 1);
    }

    #[test]
    fn a_flush_covers_acknowledged_writes_of_the_same_server() {
        let mut same = blocks();
        let covered = same.flush();
        same.flushed(covered);
        same.server_lost();
        assert_eq!(judged(same, &data(2, 1)), (1, 1, 0));
        let mut next = blocks();
        let covered = next.flush();
        next.server_lost();
        next.flushed(covered);
        assert_eq!(judged(next, &data(2, 1)), (0, 0, 0));
    }

    #[test]
    fn an_answer_of_the_lost_server_that_arrives_late_promises_only_durable_writes() {
        let mut blocks = blocks();
        blocks.server_lost();
        blocks.acknowledged(2, 3, false, true);
        blocks.judge(2, &data(2, 1), false);
        assert_eq!(blocks.findings().lost_blocks, 0);
        blocks.acknowledged(2, 3, true, true);
        blocks.judge(2, &data(2, 1), false);
        assert_eq!(blocks.findings().lost_durable_blocks, 1);
    }
}
