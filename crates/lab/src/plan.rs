//! Plans: workloads, targets, and the order of rounds.
//!
//! **Owns** plans and their execution. **Called by** the command line, the demo and the suite.
//! **Invariants**: rounds of different targets alternate (A B A B …), so that disturbances of the machine affect all
//! of them; a refused row is in the report, with the reason and without numbers.

use crate::Result;
use crate::engine::{Run, Setup, run};
use crate::stats::{Latency, Spread, process};
use crate::targets::{AnyTarget, Facts, Target};
use crate::validity::{Circumstances, Thresholds, Verdict, Weight, after, before};
use crate::workload::Workload;
use std::time::Duration;

/// A target and its name in the report.
#[derive(Clone)]
pub struct Contender {
    /// Its label in the report.
    pub label: String,
    /// Its address.
    pub address: String,
    /// The target.
    pub target: AnyTarget,
}

/// A plan.
#[derive(Clone)]
pub struct Plan {
    /// The heading of the report.
    pub title: String,
    /// The targets; ratios are against the first.
    pub contenders: Vec<Contender>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Number of rounds of each workload.
    pub rounds: u32,
    /// Whether rounds of different targets alternate.
    pub interleaved: bool,
    /// Run refused workloads, and flag them.
    pub force: bool,
    /// Thresholds of the rules.
    pub thresholds: Thresholds,
    /// Placement of jobs.
    pub setup: Setup,
}

/// Receives progress.
pub trait Progress {
    /// Step `at` of `of` begins.
    fn step(&mut self, at: usize, of: usize, what: &str);
}

/// The machine of a report.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its processor.
    pub processor: String,
    /// Number of its processors.
    pub processors: usize,
    /// Memory, bytes.
    pub memory: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Load average of the last minute.
    pub load: f64,
}

impl Machine {
    /// A remark, if other processes kept the machine busy.
    #[must_use]
    pub fn busy(&self) -> Option<String> {
        let (load, n) = (self.load, self.processors);
        (load > n as f64 / 2.0).then(|| {
            format!("other processes kept this machine busy: load {load:.1} on {n} processors at the start")
        })
    }

    /// This machine.
    #[must_use]
    pub fn here() -> Machine {
        Machine {
            processor: process::processor_name(),
            processors: process::processors(),
            memory: process::machine_memory(),
            kernel: process::kernel_release(),
            load: process::load(),
        }
    }
}

/// One workload on one target.
#[derive(Clone)]
pub struct Row {
    /// Index of the target in the report.
    pub target: usize,
    /// The workload.
    pub workload: Workload,
    /// The rounds; none if it was refused.
    pub rounds: Vec<Run>,
    /// The verdict of the rules.
    pub verdict: Verdict,
}

impl Row {
    fn spread(&self, of: impl Fn(&Run) -> f64) -> Spread {
        Spread::of(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    /// I/Os per second over the rounds.
    #[must_use]
    pub fn iops(&self) -> Spread {
        self.spread(Run::iops)
    }

    /// Bytes per second over the rounds.
    #[must_use]
    pub fn bandwidth(&self) -> Spread {
        self.spread(Run::bandwidth)
    }

    /// The latencies of all rounds and directions.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let mut all = Latency::default();
        self.rounds.iter().for_each(|r| all.merge(&r.latency()));
        all
    }

    /// Processor time of the client per I/O, µs.
    #[must_use]
    pub fn client_us(&self) -> f64 {
        self.spread(Run::client_us).median
    }

    /// Processor time of the server per I/O, µs, if it is known.
    #[must_use]
    pub fn server_us(&self) -> Option<f64> {
        let known: Vec<f64> = self.rounds.iter().filter_map(Run::server_us).collect();
        (!known.is_empty()).then(|| Spread::of(&known).median)
    }

    /// Bytes devices wrote for each byte written, if known.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let known: Vec<f64> = self
            .rounds
            .iter()
            .filter_map(Run::write_amplification)
            .collect();
        (!known.is_empty()).then(|| Spread::of(&known).median)
    }

    /// This row's rate over `base`'s, round by round.
    #[must_use]
    pub fn ratio(&self, base: &Row) -> Option<Spread> {
        let pairs = self.rounds.iter().zip(&base.rounds);
        let ratios: Vec<f64> = pairs
            .map(|(a, b)| (a.iops(), b.iops()))
            .filter(|p| p.1 > 0.0)
            .map(|(a, b)| a / b)
            .collect();
        (!ratios.is_empty()).then(|| Spread::of(&ratios))
    }
}

/// Result of a plan.
#[derive(Clone)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// Labels, addresses and facts of the targets.
    pub targets: Vec<(String, String, Facts)>,
    /// For each workload, one row per target.
    pub rows: Vec<Row>,
    /// Its machine.
    pub machine: Machine,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
}

impl Report {
    /// The row that `row` is compared with: the same workload on the first target.
    #[must_use]
    pub fn base<'a>(&'a self, row: &Row) -> Option<&'a Row> {
        self.rows
            .iter()
            .find(|r| r.target == 0 && row.target != 0 && r.workload == row.workload)
    }

    /// The label of a row's target.
    #[must_use]
    pub fn label(&self, row: &Row) -> &str {
        &self.targets[row.target].0
    }
}

impl Plan {
    /// Duration without preparation.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let once: Duration = self.workloads.iter().map(|w| w.ramp + w.runtime).sum();
        once * self.rounds * self.contenders.len() as u32
    }

    /// Runs the plan. Errors: the first error of any run.
    pub async fn execute(&self, progress: &mut dyn Progress) -> Result<Report> {
        let steps = self.workloads.len() * self.contenders.len() * self.rounds as usize;
        let machine = Machine::here();
        let mut rows = Vec::new();
        let mut step = 0;
        for w in &self.workloads {
            let mut group = Vec::new();
            for target in 0..self.contenders.len() {
                group.push(self.prepare(target, w)?);
            }
            for (target, _) in self.order() {
                step += 1;
                if group[target].verdict.weight() == Some(Weight::Refuse) {
                    continue;
                }
                let c = &self.contenders[target];
                progress.step(step, steps, &format!("{w} on {}", c.label));
                let facts = c.target.facts();
                let setup = Setup {
                    server_pid: facts.server_pid.or(self.setup.server_pid),
                    ..self.setup.clone()
                };
                let setup = if facts.transport.is_some() {
                    setup
                } else {
                    Setup {
                        server_pid: None,
                        ..setup
                    }
                };
                let done = run(&c.target, w, &setup).await?;
                group[target].rounds.push(done);
            }
            rows.extend(group.into_iter().map(|row| self.judge(row)));
        }
        let targets = self
            .contenders
            .iter()
            .map(|c| (c.label.clone(), c.address.clone(), c.target.facts()))
            .collect();
        let at_ms = io::time::wall_clock_ms();
        Ok(Report {
            title: self.title.clone(),
            targets,
            rows,
            machine,
            at_ms,
        })
    }

    /// Target and round, in the order of running.
    fn order(&self) -> Vec<(usize, u32)> {
        let (targets, rounds) = (self.contenders.len(), self.rounds);
        if self.interleaved {
            (0..rounds)
                .flat_map(|r| (0..targets).map(move |t| (t, r)))
                .collect()
        } else {
            (0..targets)
                .flat_map(|t| (0..rounds).map(move |r| (t, r)))
                .collect()
        }
    }

    fn prepare(&self, target: usize, w: &Workload) -> Result<Row> {
        let facts = self.contenders[target].target.facts();
        let region = w.check(facts.size, facts.block_size)?;
        let mut found = before(&facts, w, region, &self.thresholds);
        for f in found
            .iter_mut()
            .filter(|f| self.force && f.weight == Weight::Refuse)
        {
            f.weight = Weight::Flag;
        }
        Ok(Row {
            target,
            workload: w.clone(),
            rounds: Vec::new(),
            verdict: Verdict(found),
        })
    }

    fn judge(&self, mut row: Row) -> Row {
        let how = Circumstances {
            compared: self.contenders.len() > 1,
            interleaved: self.interleaved,
            spins: !self.setup.spin.is_zero(),
        };
        row.verdict
            .0
            .extend(after(&row.rounds, how, &self.thresholds));
        row
    }
}

/// The matrix of queue depths and threads: Q1T1 to Q32T32 for each mode.
pub fn matrix(
    base: &Workload,
    modes: &[&str],
    points: &[(u32, u32)],
    sizes: &[u32],
) -> Result<Vec<Workload>> {
    let mut all = Vec::new();
    for mode in modes {
        for size in sizes {
            for (depth, jobs) in points {
                let w = Workload {
                    block_size: *size,
                    depth: *depth,
                    jobs: *jobs,
                    ..base.clone()
                };
                all.push(w.with_mode(mode)?);
            }
        }
    }
    Ok(all)
}
