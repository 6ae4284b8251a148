//! Mutants: promises broken on purpose, which the simulator must notice.
//!
//! A mutant is a text edit of the product's source: file, exact text, replacement, and the promise that it breaks.
//! All mutants go into one copy of the tree below `target/mutants`, behind a switch each, so that one build serves
//! all. An environment variable chooses the mutant of a run. The working tree is never touched.
//!
//! **Owns** the list, the copy, the runs and their table. **Called by** `cargo xtask mutants` and `make soak`.
//! **Invariants**: a text that does not occur exactly once in its file is an error, also in this crate's tests; the
//! unmutated build must pass every scenario in the list, otherwise the run fails without a verdict on the mutants.
//! `docs/simulation.md`, "Mutants".

mod list;
mod run;
mod tree;

use anyhow::{Result, bail, ensure};
use std::path::Path;
use std::time::Duration;

pub use list::{Mutant, parse};

/// The list, from the root.
pub const LIST: &str = "crates/sim/mutants.toml";

/// How to run mutants.
pub struct Options {
    /// Only these; all of them if none is named.
    pub names: Vec<String>,
    /// Longest time for one of them.
    pub limit: Duration,
    /// Time for each scenario without a mutant.
    pub control: Duration,
    /// The first seed of each run.
    pub first_seed: u64,
}

/// The mutants in the list.
///
/// # Errors
/// The list cannot be read.
pub fn listed(root: &Path) -> Result<Vec<Mutant>> {
    parse(&std::fs::read_to_string(root.join(LIST))?)
}

/// Builds all mutants, runs the named ones, and prints a table. False if one was not caught.
///
/// # Errors
/// A mutant does not apply to the tree, the build fails, or a run without a mutant fails.
pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let mutants = listed(root)?;
    for name in &options.names {
        let known = mutants.iter().any(|m| m.name == *name);
        ensure!(known, "no mutant {name}: `--list` names them");
    }
    let is_wanted = |m: &Mutant| options.names.is_empty() || options.names.contains(&m.name);
    let wanted: Vec<(usize, &Mutant)> = (1..)
        .zip(&mutants)
        .filter(|(_, mutant)| is_wanted(mutant))
        .collect();
    let binary = run::build(&tree::copy(root, &mutants)?)?;
    let mut scenarios: Vec<&str> = wanted.iter().map(|(_, m)| m.scenario.as_str()).collect();
    scenarios.sort_unstable();
    scenarios.dedup();
    for scenario in scenarios {
        let done = run::one(&binary, 0, scenario, options.first_seed, options.control)?;
        if let Some(message) = done.caught {
            bail!("scenario {scenario} fails without a mutant: {message}");
        }
    }
    let outcomes = run::all(&binary, &wanted, options)?;
    println!(
        "{:34} {:8} {:>7} {:>6}  what was said",
        "mutant", "scenario", "seeds", "s"
    );
    for ((_, mutant), outcome) in wanted.iter().zip(&outcomes) {
        println!("{}", outcome.row(mutant));
    }
    let missed = outcomes.iter().filter(|o| o.caught.is_none()).count();
    println!(
        "mutants: {} caught, {missed} unnoticed",
        outcomes.len() - missed
    );
    Ok(missed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_applies_to_the_tree() {
        let root = crate::repo::root();
        let mutants = listed(&root).unwrap();
        assert!(mutants.len() >= 25, "{} mutants", mutants.len());
        let edits = tree::edits(&root, &mutants).unwrap();
        assert!(!edits.is_empty());
    }
}
