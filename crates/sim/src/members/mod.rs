//! Scenario `members`: every sequence of a few operations on a mirror, with restarts and missing members in between.
//!
//! **Owns** the search through these sequences and the checks after each. **Called by** scenario `members` and by the tests.
//! **Invariants**: a sequence is not continued if it ends in a state that a sequence of at most its length has reached,
//! because both have the same continuations. After each sequence: the pool opens if and only if a complete set of members is
//! present; every durable write is there; no member that missed a write is trusted; a split brain is refused.
//! brain is refused.

mod ops;
mod state;
mod tank;
mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Outcome;
use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Sim, SimConfig};
use pool::Placements;

pub use ops::Op;
pub use world::Start;

use world::World;

/// Length of a sequence that a seed chooses.
const LENGTH: usize = 6;

/// Counts of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Searched {
    /// Sequences that were run.
    pub runs: u64,
    /// Different states at the end of a sequence.
    pub states: u64,
    /// Sequences after which the pool must not open.
    pub closed: u64,
    /// Sequences after which a split brain was made, and refused.
    pub splits: u64,
    /// Length of the longest sequence.
    pub length: usize,
    /// Whether all sequences were covered.
    pub is_whole: bool,
}

impl Searched {
    fn count(&mut self, end: &End) {
        self.runs += 1;
        self.closed += u64::from(!end.is_open);
        self.splits += u64::from(end.was_split);
    }
}

/// End of a sequence.
pub(crate) struct End {
    /// Key of the state: members, labels and disks, without values that only grow.
    key: String,
    /// Operations that are possible next.
    next: Vec<Op>,
    is_open: bool,
    was_split: bool,
    /// Hash of all events.
    trace: u64,
}

/// Initial pools: mirrors of one to three members, with and without a memory of the last labels.
pub const STARTS: [Start; 6] = [
    Start::new(1, false),
    Start::new(1, true),
    Start::new(2, false),
    Start::new(2, true),
    Start::new(3, false),
    Start::new(3, true),
];

/// Runs one sequence. Fails with the violation and the sequence.
fn run_sequence(start: Start, ops: &[Op], trace: bool) -> Result<End, Violation> {
    let text = ops.iter().map(ToString::to_string).collect::<Vec<_>>();
    let text = format!("{start:?}: {}", text.join(", "));
    let config = SimConfig {
        trace,
        replay: Some(text.clone()),
        ..SimConfig::default()
    };
    let ops = ops.to_vec();
    let sim = Sim::new(1, config);
    let end = sim.block_on(async move {
        let mut world = World::new(start).await?;
        for op in &ops {
            world.apply(op).await?;
        }
        world.finish().await
    });
    match end {
        Ok(end) => Ok(End {
            trace: sim.trace_hash(),
            ..end
        }),
        Err(v) => Err(Violation(format!("{text}: {}", v.0))),
    }
}

/// Runs all sequences of up to `length` operations, as long as `goes_on` returns true, which is called before each. Fails
/// with the violation and the sequence.
pub fn search(
    start: Start,
    length: usize,
    mut goes_on: impl FnMut(&Searched) -> bool,
) -> Result<Searched, Violation> {
    let mut searched = Searched::default();
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([Vec::new()]);
    while let Some(ops) = queue.pop_front() {
        if !goes_on(&searched) {
            return Ok(searched);
        }
        let end = run_sequence(start, &ops, false)?;
        searched.count(&end);
        if !seen.insert(end.key) {
            continue;
        }
        searched.states += 1;
        searched.length = ops.len();
        if ops.len() < length {
            let more = end.next.into_iter();
            queue.extend(more.map(|op| [&ops[..], &[op]].concat()));
        }
    }
    searched.is_whole = true;
    Ok(searched)
}

/// Runs one sequence of `LENGTH` operations that the seed chooses, and each of its prefixes. Fails as [`search`].
pub fn run(seed: u64, trace: bool) -> Result<Outcome, Violation> {
    let mut rng = Prng::new(seed ^ 0x3e3b_e500);
    let start = STARTS[rng.below(STARTS.len() as u64) as usize];
    let mut ops = Vec::new();
    let mut end = run_sequence(start, &ops, trace)?;
    let mut outcome = Outcome {
        answered: 1,
        crashes: 0,
        placements: Placements::default(),
        trace: end.trace,
    };
    while ops.len() < LENGTH && !end.next.is_empty() {
        // Each kind is equally likely, independent of the number of members that it can apply to.
        let mut kinds: BTreeMap<_, Vec<Op>> = BTreeMap::new();
        for op in end.next {
            kinds.entry(op.kind()).or_default().push(op);
        }
        let some = kinds.values().nth(rng.below(kinds.len() as u64) as usize);
        let some = some.expect("it is one of them");
        ops.push(some[rng.below(some.len() as u64) as usize]);
        end = run_sequence(start, &ops, trace)?;
        outcome.answered += 1;
        outcome.trace = outcome.trace.rotate_left(1) ^ end.trace;
    }
    Ok(outcome)
}
