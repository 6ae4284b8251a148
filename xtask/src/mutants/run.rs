//! Building the copy, and running the simulator with one mutant.
//!
//! **Invariants**: only processes that were started here are ended; a run counts as caught only if the simulator named
//! the seed that fails, and the same seed passes without the mutant.

use super::{Mutant, Options};
use crate::repo;
use anyhow::{Context, Result, ensure};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Cargo's profile for these builds.
const PROFILE: &str = "mutants";
/// The simulator prints this with every failure.
const REPEAT: &str = "repeat it: ";
/// Longest time for one seed without a mutant.
const SEED_MAX: Duration = Duration::from_secs(60);
/// Interval at which a run is polled.
const POLL: Duration = Duration::from_millis(20);
/// Characters of a message in the table.
const MESSAGE_MAX: usize = 110;

/// Outcome of a run.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The simulator's message, if it found a failure.
    pub(super) caught: Option<String>,
    /// Seeds that were run until then.
    seeds: Option<u64>,
    took: Duration,
}

impl Outcome {
    /// A line of the table.
    pub(super) fn row(&self, mutant: &Mutant) -> String {
        let seeds = self.seeds.map_or("-".into(), |n| n.to_string());
        let said = match &self.caught {
            Some(message) => message.chars().take(MESSAGE_MAX).collect(),
            None => format!("UNNOTICED: {}", mutant.promise),
        };
        let (name, scenario) = (&mutant.name, &mutant.scenario);
        let took = self.took.as_secs_f64();
        format!("{name:34} {scenario:8} {seeds:>7} {took:>6.1}  {said}")
    }
}

/// Builds the simulator of a tree. Returns its binary.
pub(super) fn build(tree: &Path) -> Result<PathBuf> {
    let target = repo::target().join("mutants/build");
    let built = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args([
            "build",
            "--quiet",
            "--profile",
            PROFILE,
            "-p",
            "wirepool-sim",
        ])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .context("starting cargo")?;
    // warnings are disabled: a replacement may leave an item unused
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(
        built.status.success(),
        "the mutated tree does not build:\n{said}"
    );
    Ok(target.join(PROFILE).join("wirepool-sim"))
}

/// Runs seeds from `first_seed` on until one fails that passes without a mutant, or the time is over. Without a mutant
/// (`number` 0) the first failure ends it.
pub(super) fn one(
    binary: &Path,
    number: usize,
    scenario: &str,
    first_seed: u64,
    limit: Duration,
) -> Result<Outcome> {
    let start = Instant::now();
    let mut seeds = first_seed..u64::MAX;
    loop {
        let left = limit.saturating_sub(start.elapsed());
        let failure = run_seeds(binary, number, scenario, seeds.clone(), left)?;
        let is_own = match &failure {
            Some(Failure { seed, .. }) if number > 0 => {
                let alone = *seed..*seed + 1;
                run_seeds(binary, 0, scenario, alone, SEED_MAX)?.is_none()
            }
            _ => true,
        };
        match failure {
            // any code has this one
            Some(Failure { seed, .. }) if !is_own => seeds.start = seed + 1,
            failure => {
                return Ok(Outcome {
                    seeds: failure.as_ref().map(|f| f.seed - first_seed + 1),
                    caught: failure.map(|f| f.message),
                    took: start.elapsed(),
                });
            }
        }
    }
}

/// What a run found.
struct Failure {
    seed: u64,
    message: String,
}

/// The first failure among these seeds, within a time.
fn run_seeds(
    binary: &Path,
    number: usize,
    scenario: &str,
    seeds: Range<u64>,
    limit: Duration,
) -> Result<Option<Failure>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("said");
    let said = std::fs::File::create(&path)?;
    let start = Instant::now();
    let mut child = Command::new(binary)
        .args(["--scenario", scenario, "--first-failure", "--seeds"])
        .arg(format!("{}..{}", seeds.start, seeds.end))
        .env("WIREPOOL_MUTANT", number.to_string())
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said)
        .spawn()
        .with_context(|| format!("starting {}", binary.display()))?;
    let is_quiet = loop {
        if let Some(status) = child.try_wait()? {
            break status.success();
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            break true;
        }
        std::thread::sleep(POLL);
    };
    let said = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
    let seed = seed_of(&said);
    ensure!(
        is_quiet || seed.is_some(),
        "the simulator ended without a failure: {said}"
    );
    let message = message_of(&said);
    Ok(seed.map(|seed| Failure { seed, message }))
}

/// The seed in the command that repeats a failure.
fn seed_of(said: &str) -> Option<u64> {
    let command = said.split_once(REPEAT)?.1;
    let mut words = command.split_whitespace();
    words.find(|w| *w == "--seed")?;
    words.next()?.parse().ok()
}

/// The failure in one line.
fn message_of(said: &str) -> String {
    let lines = said.lines().take_while(|l| !l.starts_with(REPEAT));
    let lines: Vec<&str> = lines.filter(|l| !l.trim().is_empty()).collect();
    let has = |what: &str| lines.iter().position(|l| l.contains(what));
    match (has(" seed "), has("panicked at")) {
        (_, Some(at)) => format!("panic: {}", lines.get(at + 1).copied().unwrap_or_default()),
        (Some(at), None) => {
            let line = lines[at];
            line.split_once(": ")
                .map_or(line, |(_, what)| what)
                .to_owned()
        }
        (None, None) => lines.last().copied().unwrap_or_default().to_owned(),
    }
}

/// Runs all mutants, one for each processor at a time. Outcomes are in the order of the mutants.
pub(super) fn all(
    binary: &Path,
    mutants: &[(usize, &Mutant)],
    options: &Options,
) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Result<Outcome>>>> =
        mutants.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(mutants.len()) {
            scope.spawn(|| {
                while let Some(at) = claim(&next, mutants.len()) {
                    let (number, mutant) = mutants[at];
                    let first = options.first_seed;
                    let done = one(binary, number, &mutant.scenario, first, options.limit);
                    if let Ok(outcome) = &done {
                        eprintln!("{}", outcome.row(mutant));
                    }
                    *outcomes[at].lock().expect("nobody panics with it") = Some(done);
                }
            });
        }
    });
    let take = |outcome: Mutex<Option<Result<Outcome>>>| {
        let inner = outcome.into_inner().expect("nobody panics with it");
        inner.context("a run was left out")?
    };
    outcomes.into_iter().map(take).collect()
}

fn claim(next: &AtomicUsize, end: usize) -> Option<usize> {
    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_by_its_seed_and_message() {
        let said = "scenario pool seed 17: block 3 is old\nrepeat it: cargo run -p wirepool-sim -- --scenario pool --seed 17 --trace\n";
        assert_eq!(seed_of(said), Some(17));
        assert_eq!(message_of(said), "block 3 is old");
    }

    #[test]
    fn a_panic_is_known_by_what_it_says() {
        let said = "\nthread 'main' panicked at crates/pool/src/a.rs:1:2:\nnot so\nrepeat it: x --seed 5 --trace\n";
        assert_eq!(seed_of(said), Some(5));
        assert_eq!(message_of(said), "panic: not so");
    }

    #[test]
    fn a_usage_error_is_no_catch() {
        assert_eq!(seed_of("error: unexpected argument"), None);
    }
}
