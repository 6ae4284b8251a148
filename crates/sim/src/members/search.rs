//! Search through all sequences of operations, in the order of their lengths.
//!
//! **Owns** the frontier, the known states, and the processes that share the work. **Called by** the tests and
//! `wirepool-sim --members`. **Invariants**: a sequence is not continued if it ends in a state that a sequence of at most its
//! length has reached (`state` tells why both have the same continuations); each state is checked once; the counts do not
//! depend on the number of processes.
//!
//! The sequences of one length are continued in turn. A sequence is run once; then a copy of the process
//! ([`io::sim::fork`]) applies each possible operation, checks the state if it is new, and reports. Each copy has the same
//! future as a run of its own, so that a violation is repeated by running its sequence alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

use io::sim::{Forked, Sim, fork};

use super::Key;
use super::ops::Op;
use super::report::{Step, line, step, steps, text};
use super::start::Start;
use super::world::World;
use super::{config, name, run_sequence};
use crate::model::Violation;

/// Sequences that the processes continue between two questions to the caller.
const SHARE: usize = 48;

/// Counts of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Searched {
    /// Sequences that were run.
    pub runs: u64,
    /// Different states at the end of a sequence.
    pub states: u64,
    /// Sequences after which the pool must not open.
    pub closed: u64,
    /// States in which a split brain was made, and refused.
    pub splits: u64,
    /// Operations that the pool had to refuse, and refused without a change.
    pub refused: u64,
    /// Length of the longest sequence.
    pub length: usize,
    /// Whether all sequences were covered.
    pub is_whole: bool,
}

/// Extent of a search.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Most operations of a sequence.
    pub length: usize,
    /// Processes that share the work.
    pub workers: usize,
}

type Path = Vec<Op>;

/// States that need no check, if there are any.
type Known = Option<Rc<RefCell<HashSet<Key>>>>;

fn died(what: std::io::Error) -> Violation {
    Violation(format!("a copy of the process: {what}"))
}

/// Runs `path`, and each possible operation after it. A state that is not among the known ones is checked, and joins them if
/// there is a set of them.
fn expand(start: Start, path: &[Op], known: &Known) -> Result<Vec<Step>, Violation> {
    let sim = Sim::new(1, config(start, path, false));
    let (path, known) = (path.to_vec(), known.clone());
    sim.block_on(async move {
        let mut world = World::new(start).await?;
        for op in &path {
            world.apply(op).await?;
        }
        let mut continued = Vec::new();
        for op in world.next() {
            let copy = match fork().map_err(died)? {
                Forked::Original(copy) => copy,
                Forked::Copy(report) => {
                    let is_new = |key| known.as_ref().is_none_or(|k| !k.borrow().contains(&key));
                    let step = apply(world, op, is_new).await;
                    report.send(line(&step).as_bytes());
                }
            };
            let report = copy.wait().map_err(died)?.unwrap_or_default();
            let reported = std::str::from_utf8(&report).ok().and_then(step);
            let reported = reported.unwrap_or(Step::failed(op));
            if let Some(known) = &known {
                known.borrow_mut().insert(reported.key);
            }
            continued.push(reported);
        }
        Ok(continued)
    })
}

/// In a copy: applies the operation, and checks the state if it is new.
async fn apply(mut world: World, op: Op, is_new: impl FnOnce(Key) -> bool) -> Step {
    let end = match world.apply(&op).await {
        Ok(()) => world.finish(is_new).await,
        Err(violation) => Err(violation),
    };
    end.map_or(Step::failed(op), |end| Step::of(op, &end))
}

/// Continues all `paths`, in several processes. Without `known` states, all are checked.
fn share(
    start: Start,
    paths: &[Path],
    known: Option<&HashSet<Key>>,
    workers: usize,
) -> Result<Vec<Vec<Step>>, Violation> {
    let workers = workers.max(1);
    let mut copies = Vec::new();
    for worker in 0..workers {
        match fork().map_err(died)? {
            Forked::Original(copy) => copies.push(copy),
            Forked::Copy(report) => {
                let known: Known = known.map(|known| Rc::new(RefCell::new(known.clone())));
                let own = paths.iter().skip(worker).step_by(workers);
                let continued = own.map(|path| expand(start, path, &known));
                match continued.collect::<Result<Vec<_>, _>>() {
                    Ok(continued) => report.send(text(&continued).as_bytes()),
                    // The original finds the reason when it runs the sequences itself.
                    Err(_) => drop(report),
                }
            }
        }
    }
    let mut all = vec![Vec::new(); paths.len()];
    for (worker, copy) in copies.into_iter().enumerate() {
        let report = copy.wait().map_err(died)?.unwrap_or_default();
        let report = std::str::from_utf8(&report).ok().and_then(steps);
        let own = (worker..paths.len()).step_by(workers);
        match report.filter(|all| all.len() == own.len()) {
            Some(continued) => own.zip(continued).for_each(|(i, steps)| all[i] = steps),
            None => repeat(start, own.map(|i| &paths[i]))?,
        }
    }
    Ok(all)
}

/// Runs the sequences one by one, because a process that continued them died.
fn repeat<'a>(start: Start, paths: impl Iterator<Item = &'a Path>) -> Result<(), Violation> {
    for path in paths {
        run_sequence(start, path, false)?;
    }
    let text = "a process that continued sequences died, and each of them passes alone";
    Err(Violation(text.into()))
}

/// The violation of a sequence that failed in a copy.
fn violation(start: Start, ops: &[Op]) -> Violation {
    match run_sequence(start, ops, false) {
        Err(violation) => violation,
        Ok(_) => Violation(format!("{start:?}: {ops:?} fails in a copy only")),
    }
}

impl Searched {
    fn count(&mut self, step: &Step) {
        self.runs += 1;
        self.closed += u64::from(!step.is_open);
        self.splits += u64::from(step.was_split);
        self.refused += step.refused;
    }
}

/// Runs all sequences, as long as `goes_on` returns true, which is called between shares of the work. Fails with the
/// violation and the sequence.
pub fn search(
    start: Start,
    plan: Plan,
    mut goes_on: impl FnMut(&Searched) -> bool,
) -> Result<Searched, Violation> {
    let mut searched = Searched::default();
    let root = run_sequence(start, &[], false)?;
    searched.states = 1;
    searched.count(&Step::of(Op::Restart, &root));
    let mut known = HashSet::from([root.key]);
    let mut frontier = vec![Path::new()];
    for length in 1..=plan.length {
        let mut next = Vec::new();
        for paths in frontier.chunks(SHARE) {
            if !goes_on(&searched) {
                return Ok(searched);
            }
            let continued = share(start, paths, Some(&known), plan.workers)?;
            for (path, steps) in paths.iter().zip(continued) {
                for step in steps {
                    let ops = [&path[..], &[step.op]].concat();
                    if step.has_failed {
                        return Err(violation(start, &ops));
                    }
                    searched.count(&step);
                    if known.insert(step.key) {
                        searched.states += 1;
                        searched.length = length;
                        next.push(ops);
                    }
                }
            }
        }
        frontier = next;
    }
    searched.is_whole = true;
    Ok(searched)
}

/// The states behind a state: for each possible operation its kind and the key.
type Continuations = BTreeSet<(u8, Key)>;

/// Runs all sequences, each to its end, and checks that sequences with one key behave alike: all of them leave the pool open
/// or none, all of them can be split or none, and their continuations have the same keys. Checks also that [`search`] finds
/// the same states. Returns the numbers of sequences and states. Fails with the violation and the sequence.
pub fn prove(start: Start, plan: Plan) -> Result<(u64, u64), Violation> {
    let root = run_sequence(start, &[], false)?;
    let mut ends = BTreeMap::from([(root.key, (root.is_open, root.was_split))]);
    let mut behind: BTreeMap<Key, (Continuations, Path)> = BTreeMap::new();
    let mut frontier = vec![(Path::new(), root.key)];
    let mut runs = 1;
    for _ in 0..plan.length {
        let paths: Vec<Path> = frontier.iter().map(|(path, _)| path.clone()).collect();
        let continued = share(start, &paths, None, plan.workers)?;
        let mut next = Vec::new();
        for ((path, key), steps) in frontier.into_iter().zip(continued) {
            let found: Continuations = steps.iter().map(|s| (s.op.kind(), s.key)).collect();
            let first = behind.entry(key);
            let (first, of) = first.or_insert_with(|| (found.clone(), path.clone()));
            if *first != found {
                let (one, other) = (name(start, &path), name(start, of));
                let text = format!("one key and other continuations: {one}\n{other}");
                return Err(Violation(text));
            }
            for step in steps {
                let ops = [&path[..], &[step.op]].concat();
                if step.has_failed {
                    return Err(violation(start, &ops));
                }
                let end = (step.is_open, step.was_split);
                if *ends.entry(step.key).or_insert(end) != end {
                    let text = format!("{}: it ends unlike its equals", name(start, &ops));
                    return Err(Violation(text));
                }
                runs += 1;
                next.push((ops, step.key));
            }
        }
        frontier = next;
    }
    let merged = search(start, plan, |_| true)?.states;
    if ends.len() as u64 != merged {
        let text = format!("{start:?}: {} states, {merged} by search", ends.len());
        return Err(Violation(text));
    }
    Ok((runs, merged))
}
