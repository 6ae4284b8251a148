//! Contents of a simulated disk: durable blocks, and their newer versions in the volatile cache.
//!
//! **Invariants**: reads see the newest version of a block; a version leaves the cache by becoming durable, by being
//! superseded by a later durable one, or by a power cut.

use crate::rng::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// The content of a block; `None` reads as zero and takes no space.
type Block = Option<Rc<[u8]>>;

/// Each byte of a deallocated block that does not read as zero.
const GARBAGE: u8 = 0xdb;

/// The data of a write.
#[derive(Debug)]
pub(super) enum Source {
    Blocks(Vec<Rc<[u8]>>),
    Zeroes(u64),
    /// Garbage, for blocks that hold data.
    Garbage(u64),
    /// Bytes that are no whole number of blocks.
    Ragged,
}

impl Source {
    pub(super) fn of(bytes: &[u8], block: u32) -> Source {
        let chunks = bytes.chunks_exact(block as usize);
        if !chunks.remainder().is_empty() {
            return Source::Ragged;
        }
        Source::Blocks(chunks.map(Rc::from).collect())
    }

    pub(super) fn blocks(&self) -> u64 {
        match self {
            Source::Blocks(b) => b.len() as u64,
            Source::Zeroes(n) | Source::Garbage(n) => *n,
            Source::Ragged => 0,
        }
    }
}

/// Effect of a power cut on unflushed writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCutFate {
    /// The seed chooses among all possible effects.
    Any,
    /// All are lost.
    AllLost,
    /// All survive.
    AllKept,
    /// Some operations are torn: a part of their blocks survives. All other operations survive.
    Torn,
}

/// Number of last operations to reach the cache of which one may be torn.
const LAST_OPS: u64 = 4;

/// The operations that a power cut tears, for [`PowerCutFate::Torn`].
enum Torn {
    One(u64),
    /// Each with this probability.
    Some(f64),
}

impl Torn {
    /// Chooses one of the last operations with blocks in the cache, a part of all operations, or all.
    fn choose(cells: &BTreeMap<u64, Cell>, rng: &mut Prng) -> Torn {
        match rng.below(5) {
            0 | 1 => Torn::Some(1.0),
            2 => Torn::Some(0.25),
            _ => {
                let cached = cells.values().flat_map(|c| &c.cached);
                let ops: BTreeSet<u64> = cached.map(|v| v.by).collect();
                let back = rng.below(LAST_OPS) as usize;
                Torn::One(ops.into_iter().nth_back(back).unwrap_or_default())
            }
        }
    }

    fn has(&self, by: u64, salt: u64) -> bool {
        match self {
            Torn::One(one) => *one == by,
            Torn::Some(chance) => Prng::new(by ^ salt).chance(*chance),
        }
    }
}

struct Version {
    at: u64,
    /// The operation that wrote the version.
    by: u64,
    data: Block,
}

#[derive(Default)]
struct Cell {
    durable: Block,
    cached: Vec<Version>,
}

impl Cell {
    fn current(&self) -> &Block {
        self.cached.last().map_or(&self.durable, |v| &v.data)
    }

    /// Makes version `i` durable, and drops all older ones.
    fn make_durable(&mut self, i: usize) {
        if let Some(v) = self.cached.drain(..=i).next_back() {
            self.durable = v.data;
        }
    }
}

/// See the module header.
pub(super) struct Medium {
    block: usize,
    cells: BTreeMap<u64, Cell>,
    /// The blocks that have versions in the cache. A flush visits no others.
    unflushed: BTreeSet<u64>,
    /// Blocks with allocated space, with or without data.
    reserved: BTreeSet<u64>,
    versions: u64,
}

impl Medium {
    pub(super) fn new(block: u32) -> Medium {
        Medium {
            block: block as usize,
            cells: BTreeMap::new(),
            unflushed: BTreeSet::new(),
            reserved: BTreeSet::new(),
            versions: 0,
        }
    }

    /// Number of versions created so far.
    pub(super) fn next_version(&self) -> u64 {
        self.versions
    }

    /// Puts blocks `from..to` of `source` into the cache, for operation `by`. Block 0 of `source` belongs at `first`.
    pub(super) fn put(&mut self, first: u64, source: &Source, from: u64, to: u64, by: u64) {
        self.versions += 1;
        let at = self.versions;
        match source {
            Source::Blocks(blocks) => {
                for i in from..to {
                    let data = Some(blocks[i as usize].clone());
                    let cell = self.cells.entry(first + i).or_default();
                    cell.cached.push(Version { at, by, data });
                    self.unflushed.insert(first + i);
                }
            }
            Source::Zeroes(_) => {
                for (block, c) in self.cells.range_mut(first + from..first + to) {
                    c.cached.push(Version { at, by, data: None });
                    self.unflushed.insert(*block);
                }
            }
            Source::Garbage(_) => {
                let garbage: Rc<[u8]> = vec![GARBAGE; self.block].into();
                for (block, c) in self.cells.range_mut(first + from..first + to) {
                    let data = Some(garbage.clone());
                    c.cached.push(Version { at, by, data });
                    self.unflushed.insert(*block);
                }
            }
            Source::Ragged => {}
        }
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        self.read_by(offset, out, Cell::current);
    }

    pub(super) fn read_durable(&self, offset: u64, out: &mut [u8]) {
        self.read_by(offset, out, |c| &c.durable);
    }

    fn read_by(&self, offset: u64, out: &mut [u8], which: impl Fn(&Cell) -> &Block) {
        let first = offset / self.block as u64;
        let blocks = out.len().div_ceil(self.block) as u64;
        out.fill(0);
        for (at, cell) in self.cells.range(first..first + blocks) {
            let start = (at - first) as usize * self.block;
            let end = (start + self.block).min(out.len());
            if let Some(b) = which(cell) {
                out[start..end].copy_from_slice(&b[..end - start]);
            }
        }
    }

    /// Makes the blocks that operation `by` wrote in `first..first + blocks` durable.
    pub(super) fn make_durable(&mut self, first: u64, blocks: u64, by: u64) {
        for (block, c) in self.cells.range_mut(first..first + blocks) {
            if let Some(i) = c.cached.iter().rposition(|v| v.by == by) {
                c.make_durable(i);
                if c.cached.is_empty() {
                    self.unflushed.remove(block);
                }
            }
        }
    }

    /// Makes all versions up to number `upto` durable, except those of operations in flight.
    pub(super) fn flush(&mut self, upto: u64, in_flight: &BTreeSet<u64>) {
        let cells = &mut self.cells;
        self.unflushed.retain(|block| {
            let c = cells.get_mut(block).expect("an unflushed block is stored");
            let is_covered = |v: &Version| v.at <= upto && !in_flight.contains(&v.by);
            if let Some(i) = c.cached.iter().rposition(is_covered) {
                c.make_durable(i);
            }
            !c.cached.is_empty()
        });
    }

    /// Number of blocks with versions that are not durable.
    pub(super) fn unflushed(&self) -> usize {
        self.unflushed.len()
    }

    /// Whether a block takes space.
    fn takes_space(&self, block: u64) -> bool {
        let stored = |c: &Cell| c.current().is_some();
        self.reserved.contains(&block) || self.cells.get(&block).is_some_and(stored)
    }

    /// Number of blocks that take space.
    fn taken(&self) -> u64 {
        let holds = |(block, cell): &(&u64, &Cell)| {
            cell.current().is_some() && !self.reserved.contains(block)
        };
        (self.cells.iter().filter(holds).count() + self.reserved.len()) as u64
    }

    /// Returns how many of `blocks` blocks from `first` on can be written before more than `most` blocks take space.
    pub(super) fn fitting(&self, first: u64, blocks: u64, most: u64) -> u64 {
        let mut left = most.saturating_sub(self.taken());
        for i in 0..blocks {
            if !self.takes_space(first + i) {
                if left == 0 {
                    return i;
                }
                left -= 1;
            }
        }
        blocks
    }

    /// Allocates space for blocks. Returns false, and does nothing, if more than `most` blocks would take space.
    pub(super) fn reserve(&mut self, blocks: Range<u64>, most: u64) -> bool {
        let lacking = blocks.clone().filter(|block| !self.takes_space(*block));
        let lacking = lacking.count() as u64;
        if lacking > 0 && lacking > most.saturating_sub(self.taken()) {
            return false;
        }
        self.reserved.extend(blocks);
        true
    }

    /// Ends the allocation of blocks: they take space only while they hold data.
    pub(super) fn unreserve(&mut self, first: u64, blocks: u64) {
        self.reserved
            .retain(|b| !(first..first + blocks).contains(b));
    }

    /// Bytes that take space.
    pub(super) fn used(&self) -> u64 {
        self.taken() * self.block as u64
    }

    pub(super) fn truncate(&mut self, size: u64) {
        let end = size.div_ceil(self.block as u64);
        drop(self.cells.split_off(&end));
        drop(self.unflushed.split_off(&end));
        drop(self.reserved.split_off(&end));
    }

    /// Flips a bit of every stored block in `first..last`, both in the cache and durable.
    pub(super) fn rot(&mut self, first: u64, last: u64, rng: &mut Prng) {
        for (_, c) in self.cells.range_mut(first..last) {
            let at = rng.below(self.block as u64) as usize;
            let bit = 1u8 << rng.below(8);
            let flip = |b: &mut Block| {
                if let Some(b) = b {
                    let mut bytes = b.to_vec();
                    bytes[at] ^= bit;
                    *b = bytes.into();
                }
            };
            flip(&mut c.durable);
            c.cached.iter_mut().for_each(|v| flip(&mut v.data));
        }
    }

    /// Applies a power cut: decides which cached versions survive, and empties the cache.
    pub(super) fn power_cut(&mut self, rng: &mut Prng, fate: PowerCutFate, unit: u32) {
        let way = match fate {
            PowerCutFate::Any => rng.below(5),
            PowerCutFate::AllLost => 0,
            PowerCutFate::AllKept => 1,
            PowerCutFate::Torn => 5,
        };
        let torn = (way == 5).then(|| Torn::choose(&self.cells, rng));
        let prefix = rng.below(self.versions + 1);
        let salt = rng.u64();
        let block = self.block;
        for at in std::mem::take(&mut self.unflushed) {
            let c = self
                .cells
                .get_mut(&at)
                .expect("an unflushed block is stored");
            let n = c.cached.len();
            let survivor = match way {
                0 => None,
                1 => Some(n - 1),
                // The cache was written back in order, up to this version.
                2 => c.cached.iter().rposition(|v| v.at <= prefix),
                // Whole operations survived or were lost, in any order.
                3 => c
                    .cached
                    .iter()
                    .rposition(|v| Prng::new(v.by ^ salt).chance(0.5)),
                // The newest version whose operation is not torn, or whose block survived.
                5 => c.cached.iter().rposition(|v| {
                    let is_torn = torn.as_ref().is_some_and(|torn| torn.has(v.by, salt));
                    !is_torn || rng.chance(0.5)
                }),
                // Each block independently.
                _ => usize::try_from(rng.below(n as u64 + 1))
                    .ok()
                    .and_then(|i| i.checked_sub(1)),
            };
            let Some(i) = survivor else {
                c.cached.clear();
                continue;
            };
            let before = c.durable.clone();
            c.make_durable(i);
            c.cached.clear();
            if (unit as usize) < block && rng.chance(0.2) {
                let whole = rng.below((block / unit as usize) as u64 + 1) as usize * unit as usize;
                c.durable = tear(before.as_ref(), c.durable.as_ref(), block, whole);
            }
        }
    }
}

/// Returns the first `at` bytes of `new`, followed by the rest of `old`.
fn tear(old: Option<&Rc<[u8]>>, new: Option<&Rc<[u8]>>, block: usize, at: usize) -> Block {
    let mut bytes = old.map_or_else(|| vec![0; block], |b| b.to_vec());
    match new {
        Some(b) => bytes[..at].copy_from_slice(&b[..at]),
        None => bytes[..at].fill(0),
    }
    Some(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(m: &mut Medium, at: u64, byte: u8, by: u64) {
        m.put(at, &Source::of(&[byte; 512], 512), 0, 1, by);
    }

    /// Blocks with versions in the cache, counted one by one.
    fn counted(m: &Medium) -> usize {
        m.cells.values().filter(|c| !c.cached.is_empty()).count()
    }

    fn durable(m: &Medium, at: u64) -> u8 {
        let mut out = [0; 512];
        m.read_durable(at * 512, &mut out);
        out[0]
    }

    #[test]
    fn a_flush_covers_exactly_the_completed_writes() {
        let mut m = Medium::new(512);
        put(&mut m, 0, 1, 10);
        put(&mut m, 0, 2, 11);
        put(&mut m, 1, 3, 12);
        let upto = m.next_version();
        put(&mut m, 1, 4, 13);
        m.flush(upto, &BTreeSet::from([11]));
        assert_eq!((durable(&m, 0), durable(&m, 1)), (1, 3));
        assert_eq!(m.unflushed(), 2);
        assert_eq!(m.unflushed(), counted(&m));
        m.power_cut(&mut Prng::new(1), PowerCutFate::AllKept, 512);
        assert_eq!((durable(&m, 0), durable(&m, 1)), (2, 4));
        assert_eq!((m.unflushed(), counted(&m)), (0, 0));
    }

    /// A flush visited every block that was ever written: a durable write cost more on a disk with more data.
    #[test]
    fn the_blocks_that_a_flush_visits_are_the_unflushed_ones() {
        let mut rng = Prng::new(7);
        let mut m = Medium::new(512);
        for by in 0..2000 {
            let at = rng.below(64);
            match rng.below(6) {
                0 => m.flush(m.next_version(), &BTreeSet::from([by - by % 3])),
                1 => m.make_durable(at, 4, rng.below(by + 1)),
                2 => m.put(at, &Source::Zeroes(4), 0, 4, by),
                3 => m.put(at, &Source::Garbage(4), 0, 4, by),
                4 if rng.chance(0.1) => m.truncate(512 * at),
                4 if rng.chance(0.1) => m.power_cut(&mut rng, PowerCutFate::Any, 512),
                _ => put(&mut m, at, by as u8, by),
            }
            assert_eq!(m.unflushed(), counted(&m), "after {by} steps");
        }
    }

    #[test]
    fn a_write_through_is_durable_alone_and_not_undone_by_an_older_write() {
        let mut m = Medium::new(512);
        put(&mut m, 0, 1, 10);
        put(&mut m, 1, 1, 10);
        put(&mut m, 0, 2, 11);
        m.make_durable(0, 1, 11);
        for seed in 0..50 {
            let mut copy = Medium::new(512);
            std::mem::swap(&mut copy, &mut m);
            assert_eq!(
                (durable(&copy, 0), durable(&copy, 1)),
                (2, 0),
                "seed {seed}"
            );
            std::mem::swap(&mut copy, &mut m);
        }
        m.power_cut(&mut Prng::new(3), PowerCutFate::AllLost, 512);
        assert_eq!((durable(&m, 0), durable(&m, 1)), (2, 0));
    }

    #[test]
    fn a_power_cut_reaches_every_outcome_of_two_writes() {
        let mut seen = BTreeSet::new();
        for seed in 0..300 {
            let mut m = Medium::new(512);
            for (by, byte) in [(1, 1), (2, 2)] {
                put(&mut m, 0, byte, by);
                put(&mut m, 1, byte, by);
            }
            m.power_cut(&mut Prng::new(seed), PowerCutFate::Any, 512);
            seen.insert((durable(&m, 0), durable(&m, 1)));
        }
        assert_eq!(seen.len(), 9, "{seen:?}");
    }
}
