//! Command line of `wirepool bench` and `wirepool demo`.

use crate::size::{parse_size, parse_time};
use crate::targets::Address;
use crate::workload::fill::Fill;
use crate::workload::{Access, Sync, Workload};
use crate::{Error, Result};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Benchmark local and remote disks.
#[derive(Debug, Args)]
pub struct Bench {
    /// The subcommand.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// Subcommands of `wirepool bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Run one workload on one target: file:PATH, /dev/DISK, mem:SIZE, nvme-tcp://HOST:PORT/NQN?ns=1,
    /// nvme-rdma://HOST:PORT/NQN?ns=1, iscsi://HOST/IQN/LUN, iser://HOST/IQN/LUN, nfs://HOST/PATH/FILE
    /// or nfs-rdma://HOST/PATH/FILE
    Run(RunArgs),
    /// Run every combination of modes, block sizes and depths, on one or more targets
    Matrix(MatrixArgs),
    /// Compare several targets in alternation (A B A B …), with ratios against the first
    Compare(CompareArgs),
    /// Write stamped blocks and verify them, also after a restart of server or client (--state FILE)
    Verify(VerifyArgs),
    /// Make one self-contained page of machine, doctor, probes, results, stages and published results
    Report(super::report_args::ReportArgs),
    /// Make the table of RDMA on this machine: devices, verbs beside TCP, NVMe/RDMA beside NVMe/TCP
    RdmaReport(super::rdma_report_args::RdmaReportArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Target to measure
    pub target: Address,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// Targets to measure
    #[arg(required = true)]
    pub targets: Vec<Address>,
    #[command(flatten)]
    pub(super) grid: GridArgs,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Targets to measure; ratios are against the first
    #[arg(required = true, num_args = 2..)]
    pub targets: Vec<Address>,
    /// Measure targets one after the other instead of in alternation (the rows are flagged)
    #[arg(long)]
    pub sequential: bool,
    #[command(flatten)]
    pub(super) grid: GridArgs,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Sets of modes, sizes and depths.
#[derive(Debug, Args)]
pub(super) struct GridArgs {
    /// Modes, such as randread,randwrite
    #[arg(long, value_delimiter = ',')]
    pub(super) modes: Vec<String>,
    /// Depths and threads, such as Q1T1,Q32T1
    #[arg(long, value_delimiter = ',', value_parser = parse_point)]
    pub(super) points: Vec<(u32, u32)>,
    /// Block sizes, such as 4k,16k,128k
    #[arg(long, value_delimiter = ',', value_parser = parse_block)]
    pub(super) sizes: Vec<u32>,
    /// Also measure durable writes
    #[arg(long)]
    pub(super) sync: bool,
}

/// One workload.
#[derive(Debug, Args)]
pub(super) struct WorkloadArgs {
    /// read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread")]
    rw: String,
    /// Size of each I/O
    #[arg(long, default_value = "4k", value_parser = parse_block)]
    bs: u32,
    /// I/Os in flight per job
    #[arg(long, short = 'q', default_value_t = 1)]
    depth: u32,
    /// Threads, each with its own ring and its own queues
    #[arg(long, short = 'j', default_value_t = 1)]
    jobs: u32,
    /// Time measured in each round
    #[arg(long, short = 't', default_value = "5s", value_parser = parse_time)]
    runtime: Duration,
    /// Time before measuring starts
    #[arg(long, default_value = "500ms", value_parser = parse_time)]
    ramp: Duration,
    /// End a round after this many bytes
    #[arg(long, value_parser = parse_size)]
    bytes: Option<u64>,
    /// Use only this many bytes from the start of the target
    #[arg(long, value_parser = parse_size)]
    region: Option<u64>,
    /// Percentage of reads of rw and randrw
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    read_percent: u8,
    /// Make every write durable (FUA)
    #[arg(long, conflicts_with = "flush_every")]
    fua: bool,
    /// Flush after this number of writes of a job
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    flush_every: Option<u32>,
    /// Contents of writes: random, zero or compress=PERCENT
    #[arg(long, default_value = "random", value_parser = Fill::parse)]
    fill: Fill,
    /// Zipf distribution of blocks with this skew (0.99 is common) instead of a uniform one
    #[arg(long)]
    zipf: Option<f64>,
    /// Open loop: I/Os per second over all jobs; latency counts from the moment at which an I/O was due
    #[arg(long)]
    rate: Option<f64>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl WorkloadArgs {
    /// The workload of these arguments. Errors: `Usage`.
    pub(super) fn workload(&self) -> Result<Workload> {
        let mut w = Workload {
            block_size: self.bs,
            depth: self.depth,
            jobs: self.jobs,
            ramp: self.ramp,
            runtime: if self.bytes.is_some() {
                crate::limits::RUNTIME_MAX
            } else {
                self.runtime
            },
            bytes: self.bytes,
            region: self.region,
            sync: match (self.fua, self.flush_every) {
                (true, _) => Sync::Fua,
                (_, Some(n)) => Sync::FlushEvery(n),
                _ => Sync::None,
            },
            fill: self.fill,
            rate: self.rate,
            seed: self.seed,
            ..Workload::default()
        }
        .with_mode(&self.rw)?;
        if w.reads() && w.writes() {
            w.read_percent = self.read_percent;
        }
        match (self.zipf, w.access) {
            (Some(_), Access::Sequential) => Err(Error::usage("zipf", "expected a random mode")),
            (Some(theta), _) => {
                w.access = Access::Zipf(theta);
                Ok(w)
            }
            (None, _) => Ok(w),
        }
    }
}

/// Arguments of the execution.
#[derive(Debug, Args)]
pub(super) struct HowArgs {
    /// Number of rounds of each workload; targets alternate
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::limits::ROUNDS_MAX)))]
    pub(super) rounds: u32,
    /// Processors for the jobs, such as 1,2
    #[arg(long, value_delimiter = ',')]
    pub(super) cpus: Vec<usize>,
    /// Time that a job's ring spins before it sleeps, µs
    #[arg(long, default_value_t = 0)]
    pub(super) spin_us: u64,
    /// Process of the server, if it cannot be found by its address
    #[arg(long)]
    pub(super) server_pid: Option<u32>,
    /// Create a missing file with this size
    #[arg(long, value_parser = parse_size)]
    pub(super) create: Option<u64>,
    /// Fill the target before measuring, so that reads find data
    #[arg(long)]
    pub(super) precondition: bool,
    /// Confirm that the data on the target is overwritten
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Run workloads that the rules refuse, and flag them
    #[arg(long)]
    pub(super) force: bool,
}

impl HowArgs {
    /// The defaults, with this number of rounds.
    pub(super) fn rounds(rounds: u32) -> HowArgs {
        HowArgs {
            rounds,
            cpus: Vec::new(),
            spin_us: 0,
            server_pid: None,
            create: None,
            precondition: false,
            overwrite: false,
            force: false,
        }
    }
}

/// Arguments of the output.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Print JSON in fio's format instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Also write comma-separated values to this file
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Also write an HTML page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Also print published results for comparison
    #[arg(long)]
    pub(super) field: bool,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Target to write and verify; without it, verify the target of --state
    pub(super) target: Option<Address>,
    /// File that records written and acknowledged blocks; without a target: verify them
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// New address of the target of --state
    #[arg(long, conflicts_with = "target")]
    pub(super) at: Option<Address>,
    /// Size of each block [default: 4k, or the target's block size if that is larger]
    #[arg(long, value_parser = parse_block)]
    pub(super) bs: Option<u32>,
    /// Use this many bytes from the start of the target [default: 256M]
    #[arg(long, value_parser = parse_size)]
    pub(super) region: Option<u64>,
    /// Duration of the random writes and checks
    #[arg(long, short = 't', default_value = "10s", value_parser = parse_time)]
    pub(super) runtime: Duration,
    /// I/Os in flight per job
    #[arg(long, short = 'q', default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::limits::DEPTH_MAX)))]
    pub(super) depth: u32,
    /// Threads, each with its own blocks
    #[arg(long, short = 'j', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::limits::JOBS_MAX)))]
    pub(super) jobs: u32,
    /// Flush after this number of writes of a job
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) flush_every: u32,
    /// Allow the server to lose writes that were not durable during the run (power cut, RAM disk)
    #[arg(long)]
    pub(super) lossy: bool,
    /// Create a missing file with this size
    #[arg(long, value_parser = parse_size)]
    pub(super) create: Option<u64>,
    /// Confirm that the data on the target is overwritten
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Seed of all random choices [default: a random one]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Serve a file and a RAM disk over NVMe/TCP on this machine, and compare both with the local file.
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep serving until Ctrl-C
    #[arg(long)]
    pub keep: bool,
    /// Directory of the disk's file [default: target/demo, or the system's directory for temporary files]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Size of the file and of each of the two volumes
    #[arg(long, default_value = "2G", value_parser = parse_size)]
    pub size: u64,
    /// Print JSON in fio's format instead of a table
    #[arg(long)]
    pub json: bool,
    /// Also write an HTML page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn parse_block(text: &str) -> Result<u32> {
    u32::try_from(parse_size(text)?)
        .map_err(|_| Error::usage(format!("block size {text:?}"), "expected at most 1M"))
}

/// `Q32T1` or `32x1`.
fn parse_point(text: &str) -> Result<(u32, u32)> {
    let bad = || {
        Error::usage(
            format!("point {text:?}"),
            "expected depth and threads, such as Q32T1",
        )
    };
    let lower = text.to_ascii_lowercase();
    let (depth, jobs) = lower
        .trim_start_matches('q')
        .split_once(['t', 'x'])
        .ok_or_else(bad)?;
    Ok((
        depth.parse().map_err(|_| bad())?,
        jobs.parse().map_err(|_| bad())?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        bench: Bench,
    }

    fn parse(line: &str) -> std::result::Result<Bench, clap::Error> {
        Program::try_parse_from(std::iter::once("bench").chain(line.split(' '))).map(|p| p.bench)
    }

    fn workload(line: &str) -> Result<Workload> {
        match parse(line).expect("clap takes it").command {
            BenchCommand::Run(a) => a.workload.workload(),
            other => panic!("{other:?} is not a run"),
        }
    }

    #[test]
    fn options_become_the_workload_they_name() {
        let w = workload(
            "run mem:1M --rw randrw --read-percent 70 --bs 16k -q 8 -j 2 -t 250ms --flush-every 4 --rate 5000",
        );
        assert_eq!(
            w.expect("it makes sense").to_string(),
            "16K randrw Q8T2 70%r flush/4 @5000/s"
        );
        let w = workload("run mem:1M --rw write --fua --fill zero --zipf 0.9");
        assert!(w.is_err(), "no skew in a sequence");
        let w = workload("run mem:1M --zipf 0.9 --bytes 1G").expect("it makes sense");
        assert_eq!(
            (w.access, w.bytes, w.read_percent),
            (Access::Zipf(0.9), Some(1 << 30), 100)
        );
        assert!(workload("run mem:1M --rw sideways").is_err());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (line, word) in [
            ("run", "TARGET"),
            ("run disk", "expected file:PATH"),
            ("run mem:1M --bs 4x", "expected a number"),
            ("run mem:1M --fua --flush-every 2", "cannot be used with"),
            ("run mem:1M --rounds 0", "not in 1"),
            ("compare mem:1M", "2"),
            ("matrix mem:1M --points Q1", "expected depth and threads"),
        ] {
            let e = parse(line).expect_err(line).to_string();
            assert!(e.contains(word), "{line}: {e}");
        }
    }

    #[test]
    fn points_are_read_both_ways() {
        assert_eq!(parse_point("Q32T4").expect("well formed"), (32, 4));
        assert_eq!(parse_point("8x1").expect("well formed"), (8, 1));
    }
}
