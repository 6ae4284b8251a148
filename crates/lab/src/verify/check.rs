//! Reading blocks and judging them.

use super::ledger::{Judgement, Ledger};
use super::stamp::{Found, examine};
use super::{Mismatch, Outcome};

/// What all blocks of a run have in common.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Seed of the run.
    pub seed: u64,
    /// Size of each block, bytes.
    pub block_size: u32,
}

impl Shape {
    /// Where a block starts, bytes.
    #[must_use]
    pub fn offset(&self, block: u64) -> u64 {
        block * u64::from(self.block_size)
    }

    /// Judges what was read from `block`, and takes note of it.
    pub fn judge(
        &self,
        block: u64,
        data: &[u8],
        ledger: &Ledger,
        how: Judgement,
        out: &mut Outcome,
    ) {
        let found = examine(data, self.seed, block);
        let (low, high) = ledger.allowed(block, how);
        let fine = match found {
            Found::Whole(g) => low <= g && g <= high,
            // Nothing of ours has to be there: what was there before may stay, whole.
            Found::Zero | Found::Foreign | Found::OtherRun(_) => low == 0,
            Found::Misplaced(_) | Found::Damaged(_) => false,
        };
        if !fine {
            let expected = match (low, high) {
                (l, h) if l == h => format!("generation {l}"),
                (0, _) => "any whole generation, or what was there before".to_owned(),
                (l, _) => format!("generation {l} or newer"),
            };
            out.wrong(Mismatch {
                block,
                offset: self.offset(block),
                expected,
                found: found.to_string(),
            });
        } else if matches!(found, Found::Whole(_)) {
            out.checked += 1;
        } else {
            out.unknown += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::ledger::Event;
    use crate::verify::stamp::Stamp;

    const SHAPE: Shape = Shape {
        seed: 7,
        block_size: 512,
    };

    fn block(number: u64, generation: u32) -> Vec<u8> {
        let mut b = vec![0; 512];
        Stamp {
            seed: SHAPE.seed,
            block: number,
            generation,
        }
        .write(&mut b);
        b
    }

    fn verdict(ledger: &Ledger, data: &[u8], how: Judgement) -> Outcome {
        let mut out = Outcome::default();
        SHAPE.judge(2, data, ledger, how, &mut out);
        out
    }

    /// Durable generation 3, acknowledged 4, sent 5.
    fn ledger() -> Ledger {
        let mut l = Ledger::new(0, 1, 4);
        l.apply(Event::Acked {
            block: 2,
            generation: 3,
            durable: true,
        });
        l.apply(Event::Acked {
            block: 2,
            generation: 4,
            durable: false,
        });
        l.apply(Event::Issued {
            block: 2,
            generation: 5,
        });
        l
    }

    #[test]
    fn acknowledged_durable_writes_must_be_there_and_others_whole() {
        for (generation, exact, after_loss) in [
            (2, false, false),
            (3, false, true),
            (4, true, true),
            (5, false, true),
        ] {
            let data = block(2, generation);
            assert_eq!(
                verdict(&ledger(), &data, Judgement::Exact).wrong == 0,
                exact,
                "{generation}"
            );
            assert_eq!(
                verdict(&ledger(), &data, Judgement::AfterLoss).wrong == 0,
                after_loss,
                "{generation}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_told_exactly() {
        let lost = verdict(&ledger(), &[0; 512], Judgement::AfterLoss);
        assert_eq!(
            lost.mismatches[0].to_string(),
            "block 2 (byte 1024): expected generation 3 or newer, found zeroes"
        );
        let stale = verdict(&ledger(), &block(2, 3), Judgement::Exact);
        assert_eq!(
            stale.mismatches[0].to_string(),
            "block 2 (byte 1024): expected generation 4, found generation 3"
        );
        let astray = verdict(&ledger(), &block(1, 9), Judgement::AfterLoss);
        assert!(
            astray.mismatches[0]
                .found
                .contains("block 1 of generation 9 in the wrong place")
        );
    }

    #[test]
    fn a_block_that_was_never_durable_may_be_old_or_new_but_not_torn() {
        let mut l = Ledger::new(0, 1, 4);
        l.apply(Event::Issued {
            block: 2,
            generation: 1,
        });
        assert_eq!(verdict(&l, &[0; 512], Judgement::AfterLoss).unknown, 1);
        assert_eq!(verdict(&l, &block(2, 1), Judgement::AfterLoss).checked, 1);
        let mut torn = block(2, 1);
        torn[300] ^= 1;
        assert_eq!(verdict(&l, &torn, Judgement::AfterLoss).wrong, 1);
    }
}
