//! Command line of the simulation: runs a seed, a range of seeds, or new seeds for a length of time.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use sim::members::{Plan, STARTS, Searched, prove, search};
use sim::{Outcome, Scenario, replay, run};
use std::time::{Duration, Instant, SystemTime};

/// Seeds per line of progress.
const PROGRESS_EVERY: u64 = 500;
/// Time between two lines of progress of a search.
const SAID_EVERY: Duration = Duration::from_secs(15);

/// Whole-system simulation of Wirepool: crash, fault and network runs against a slow model.
#[derive(Parser)]
#[command(name = "wirepool-sim")]
struct Args {
    /// Only this scenario: store, system, rdma, iscsi, iser, nfs, nfs_rdma, shards, fence, pool, full, aimed, spares, cached, members or files
    #[arg(long)]
    scenario: Option<String>,
    /// One seed
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "hours"])]
    seed: Option<u64>,
    /// A range of seeds, as 100..200
    #[arg(long, conflicts_with_all = ["minutes", "hours"])]
    seeds: Option<String>,
    /// Run new seeds for this many minutes
    #[arg(long)]
    minutes: Option<f64>,
    /// Run new seeds for this many hours
    #[arg(long)]
    hours: Option<f64>,
    /// Instead of seeds, run all sequences of up to this many operations on members of mirrors; --minutes limits the time
    #[arg(long, conflicts_with_all = ["seed", "seeds", "scenario"])]
    members: Option<usize>,
    /// Instead of seeds, check that sequences of up to this many operations behave alike if they end in one state
    #[arg(long, conflicts_with_all = ["seed", "seeds", "scenario", "members", "minutes", "hours"])]
    prove_members: Option<usize>,
    /// Print all events
    #[arg(long)]
    trace: bool,
    /// Stop at the first failure
    #[arg(long)]
    first_failure: bool,
}

/// Sum of all runs.
#[derive(Default)]
struct Sum {
    runs: u64,
    answered: u64,
    crashes: u64,
    in_fragments: u64,
    moved: u64,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.answered += outcome.answered;
        self.crashes += outcome.crashes;
        self.in_fragments += outcome.placements.in_fragments;
        self.moved += outcome.placements.moved;
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} runs, {} requests, {} power cuts, {} records in fragments, {} moved",
            self.runs, self.answered, self.crashes, self.in_fragments, self.moved
        )
    }
}

fn parse_range(text: &str) -> Result<std::ops::Range<u64>> {
    let (a, b) = text
        .split_once("..")
        .context("a range of seeds is written 100..200")?;
    Ok(a.parse().context("the first seed")?..b.parse().context("the end of the seeds")?)
}

/// Runs all sequences of up to `length` operations, for at most `minutes` if that is not zero.
fn search_members(length: usize, minutes: f64) -> Result<()> {
    let all = Duration::from_secs_f64(minutes * 60.0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let first = Instant::now();
    for (index, start) in STARTS.into_iter().enumerate() {
        let began = Instant::now();
        let left = all.saturating_sub(first.elapsed());
        let share = left / (STARTS.len() - index) as u32;
        let mut said = Instant::now();
        let goes_on = |searched: &Searched| {
            if said.elapsed() >= SAID_EVERY {
                said = Instant::now();
                eprintln!("{start:?}: {searched:?}, {:.0?}", began.elapsed());
            }
            all.is_zero() || began.elapsed() < share
        };
        let searched = search(start, Plan { length, workers }, goes_on);
        let searched = searched.map_err(|v| anyhow::anyhow!(v.0))?;
        println!("{start:?}: {searched:?}, {:.0?}", began.elapsed());
    }
    Ok(())
}

/// Checks with all sequences of up to `length` operations that those which end in one state behave alike.
fn prove_members(length: usize) -> Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    for start in STARTS {
        let began = Instant::now();
        let proved = prove(start, Plan { length, workers });
        let (runs, states) = proved.map_err(|v| anyhow::anyhow!(v.0))?;
        let took = began.elapsed();
        println!("{start:?}: {runs} sequences, {states} states that behave alike, {took:.0?}");
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    let scenarios = match &args.scenario {
        None => Scenario::ALL.to_vec(),
        Some(name) => {
            vec![Scenario::of_name(name).with_context(|| format!("there is no scenario {name}"))?]
        }
    };
    let minutes = args.minutes.unwrap_or(0.0) + 60.0 * args.hours.unwrap_or(0.0);
    if let Some(length) = args.members {
        return search_members(length, minutes);
    }
    if let Some(length) = args.prove_members {
        return prove_members(length);
    }
    let (seeds, until) = match (args.seed, &args.seeds) {
        (Some(s), _) => (s..s.saturating_add(1), None),
        (None, Some(range)) => (parse_range(range)?, None),
        (None, None) if minutes > 0.0 => {
            let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            let first = clock.as_nanos() as u64 >> 10;
            (
                first..u64::MAX,
                Some(Instant::now() + Duration::from_secs_f64(minutes * 60.0)),
            )
        }
        (None, None) => bail!("say which seeds: --seed N, --seeds A..B, --minutes M or --hours H"),
    };
    let start = Instant::now();
    let mut sum = Sum::default();
    let mut wrong = Vec::new();
    for seed in seeds {
        let is_over = until.is_some_and(|u| Instant::now() >= u);
        if is_over || (args.first_failure && !wrong.is_empty()) {
            break;
        }
        for scenario in &scenarios {
            match run(*scenario, seed, args.trace) {
                Ok(outcome) => sum.add(&outcome),
                Err(v) => {
                    sum.runs += 1;
                    let again = replay(*scenario, seed);
                    eprintln!(
                        "scenario {} seed {seed}: {}\nrepeat it: {again}",
                        scenario.name(),
                        v.0
                    );
                    wrong.push(again);
                }
            }
        }
        if sum.runs.is_multiple_of(PROGRESS_EVERY) {
            eprintln!("{sum}, {:.0?}", start.elapsed());
        }
    }
    let done = format!("{sum}, {:.0?}", start.elapsed());
    if wrong.is_empty() {
        println!("{done}, nothing wrong");
        return Ok(());
    }
    println!("{done}; something is wrong with\n  {}", wrong.join("\n  "));
    bail!("{} of {} runs went wrong", wrong.len(), sum.runs)
}
