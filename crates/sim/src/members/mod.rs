//! Scenario `members`: every sequence of a few operations on a mirror or raidz, with restarts and missing members in between.
//!
//! **Owns** the run of one sequence and of a seed's. **Called by** scenario `members`, the search and the tests.
//! **Invariants**: after each sequence the pool opens if and only if a complete set of members is present; every durable
//! write is there; no member that missed a write is trusted; an operation that would remove the last complete member is
//! refused; a split brain is refused.

mod choices;
mod ops;
mod report;
mod search;
mod start;
mod state;
mod tank;
mod world;

use std::collections::BTreeMap;

use crate::Outcome;
use crate::model::Violation;
use io::rng::Prng;
use io::sim::{Sim, SimConfig};
use pool::Placements;
use pool::format::VdevClass;

pub use ops::Op;
pub use search::{Plan, Searched, prove, search};
pub use start::Start;

use world::World;

/// Length of a sequence that a seed chooses.
const LENGTH: usize = 6;

/// The hash of a state's canonical form.
type Key = u128;

/// End of a sequence.
pub(crate) struct End {
    /// Key of the state: members, labels and disks, without values that only grow.
    key: Key,
    /// Operations that are possible next.
    next: Vec<Op>,
    is_open: bool,
    /// Whether the state was checked, and a split brain was made and refused.
    was_split: bool,
    /// Operations that the pool had to refuse.
    refused: u64,
    /// Hash of all events.
    trace: u64,
}

/// Initial pools: mirrors of one to three members, a raidz whose members that suffice to open it always intersect, and one
/// that can be split in two halves; with and without a memory of the last labels. Then a mirrored log, a special mirror, and pools with a cache
/// device.
pub const STARTS: [Start; 16] = [
    Start::new(1, false),
    Start::new(1, true),
    Start::new(2, false),
    Start::new(2, true),
    Start::new(3, false),
    Start::new(3, true),
    Start::raidz(3, 1, false),
    Start::raidz(3, 1, true),
    Start::raidz(4, 2, false),
    Start::raidz(4, 2, true),
    Start::new(2, false).of_class(VdevClass::Log),
    Start::new(2, true).of_class(VdevClass::Log),
    Start::new(2, false).of_class(VdevClass::Special),
    Start::new(2, true).of_class(VdevClass::Special),
    Start::new(2, false).cached(),
    Start::new(2, true).cached(),
];

/// Configuration of the simulation of a sequence.
fn config(start: Start, ops: &[Op], trace: bool) -> SimConfig {
    SimConfig {
        trace,
        replay: Some(name(start, ops)),
        ..SimConfig::default()
    }
}

/// The sequence, for people.
fn name(start: Start, ops: &[Op]) -> String {
    let text = ops.iter().map(ToString::to_string).collect::<Vec<_>>();
    format!("{start:?}: {}", text.join(", "))
}

/// Runs one sequence, and checks the state at its end. Fails with the violation and the sequence.
fn run_sequence(start: Start, ops: &[Op], trace: bool) -> Result<End, Violation> {
    let sim = Sim::new(1, config(start, ops, trace));
    let text = name(start, ops);
    let ops = ops.to_vec();
    let end = sim.block_on(async move {
        let mut world = World::new(start).await?;
        for op in &ops {
            world.apply(op).await?;
        }
        world.finish(|_| true).await
    });
    match end {
        Ok(end) => Ok(End {
            trace: sim.trace_hash(),
            ..end
        }),
        Err(v) => Err(Violation(format!("{text}: {}", v.0))),
    }
}

/// Runs one sequence of `LENGTH` operations that the seed chooses, and each of its prefixes. Fails with the violation and the
/// sequence.
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
