//! Record of requested and promised writes, for checks after a power cut.
//!
//! **Owns** that record and its text form. **Called by** writers and by the check afterwards. **Invariants**: a
//! moment is a number that grows during the run (an offset in a recording, the number of a mark). The writes of a
//! block are numbered from 1 and come one at a time, so that after a cut a block holds a write between the last
//! promised and the last requested one.
//!
//! The text form has a line `asked BLOCK MOMENT WRITE` or `promised BLOCK MOMENT WRITE` for each.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Maximum number of blocks.
const BLOCKS_MAX: u64 = 1 << 20;

/// A block's writes, each with its moment.
type Moments = Vec<(u64, u64)>;

/// The writes of one block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Block {
    asked: Moments,
    promised: Moments,
}

/// The writes of all blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known(Vec<Block>);

impl Known {
    /// A record of this number of blocks, without writes.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        Self(vec![Block::default(); blocks as usize])
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.0.len() as u64
    }

    /// Records that a write of a block is about to be requested.
    pub fn asked(&mut self, block: u64, moment: u64, write: u64) {
        self.0[block as usize].asked.push((moment, write));
    }

    /// Records that a write of a block was promised to be durable.
    pub fn promised(&mut self, block: u64, moment: u64, write: u64) {
        self.0[block as usize].promised.push((moment, write));
    }

    /// The writes that a block may hold if the power went at a moment.
    #[must_use]
    pub fn range(&self, block: u64, moment: u64) -> RangeInclusive<u64> {
        let last = |moments: &Moments| {
            let by_then = moments.iter().filter(|(at, _)| *at <= moment);
            by_then.map(|(_, write)| *write).max().unwrap_or(0)
        };
        let block = &self.0[block as usize];
        last(&block.promised)..=last(&block.asked)
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, block) in self.0.iter().enumerate() {
            for (word, moments) in [("asked", &block.asked), ("promised", &block.promised)] {
                for (moment, write) in moments {
                    writeln!(f, "{word} {number} {moment} {write}")?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Known {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut known = Self::default();
        for line in text.lines() {
            let wrong = || format!("{line:?} is not asked or promised BLOCK MOMENT WRITE");
            let mut words = line.split(' ');
            let what = words.next();
            let numbers: Vec<u64> = words
                .map(str::parse)
                .collect::<Result<_, _>>()
                .with_context(wrong)?;
            let [block, moment, write] = numbers[..] else {
                bail!(wrong());
            };
            if block >= BLOCKS_MAX {
                bail!("block {block} is not below {BLOCKS_MAX}");
            }
            if block >= known.blocks() {
                known.0.resize(block as usize + 1, Block::default());
            }
            match what {
                Some("asked") => known.asked(block, moment, write),
                Some("promised") => known.promised(block, moment, write),
                _ => bail!(wrong()),
            }
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_was_promised_to_what_was_asked_by_then() {
        let mut known = Known::new(3);
        known.asked(2, 0, 1);
        known.promised(2, 5, 1);
        known.asked(2, 6, 2);
        assert_eq!(known.range(2, 4), 0..=1);
        assert_eq!(known.range(2, 5), 1..=1);
        assert_eq!(known.range(2, 6), 1..=2);
        assert_eq!(known.range(0, 6), 0..=0);
        assert_eq!(known.to_string().parse::<Known>().unwrap(), known);
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "asked 1 2",
            "wished 1 2 3",
            "asked 1 2 x",
            "asked 99999999 1 1",
        ] {
            assert!(text.parse::<Known>().is_err(), "{text}");
        }
    }
}
