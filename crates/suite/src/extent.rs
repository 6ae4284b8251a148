//! Extent of a run: the command line of the suite.

use crate::rows::{LARGE, ROWS, Row, Table};
use clap::Parser;
use lab::child::scratch_parent;
use lab::limits::ROUNDS_MAX;
use lab::size::{parse_size, parse_time};
use lab::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Passes of random overwrites before those of a raidz are measured.
const AGEING: u64 = 2;

/// Measure the goals: Wirepool compared with qemu-storage-daemon, tgt and nfs-ganesha, a pool with a raw file
#[derive(Debug, Clone, Parser)]
#[command(name = "wirepool-suite")]
pub struct Extent {
    /// Use tiny files and short rounds, to test the suite itself
    #[arg(long)]
    pub(crate) quick: bool,
    /// Number of rounds of each row
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(ROUNDS_MAX)))]
    pub(crate) rounds: u32,
    /// Time measured in each round
    #[arg(long, short = 't', default_value = "3s", value_parser = parse_time)]
    pub(crate) runtime: Duration,
    /// Size of the files and of the RAM disk
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    pub(crate) size: u64,
    /// Time that our client's ring spins before it sleeps, µs
    #[arg(long, default_value_t = 0)]
    pub(crate) spin_us: u64,
    /// Directory of the disk-backed file [default: target/demo, or the system's directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Do not run the other servers
    #[arg(long)]
    pub(crate) no_peer: bool,
    /// Time of the pool's rows with accumulating effects: bytes written, snapshots, a full pool
    #[arg(long, default_value = "30s", value_parser = parse_time)]
    pub(crate) long: Duration,
    /// Measure only these tables
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["nvme", "iscsi", "nfs", "pool"])]
    pub(crate) only: Vec<Table>,
    /// Measure only the rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    row: Option<String>,
    /// The program to measure [default: wirepool beside this program]
    #[arg(long, env = "WIREPOOL_BIN", value_name = "PATH")]
    wirepool: Option<PathBuf>,
    /// Time for which idle servers are observed
    #[arg(skip = Duration::from_secs(5))]
    pub(crate) idle: Duration,
    /// Snapshots in the row of many snapshots.
    #[arg(skip = 1000u32)]
    pub(crate) snapshots: u32,
    /// Entries of the listed directory.
    #[arg(skip = 50_000u32)]
    pub(crate) entries: u32,
    /// Files of the tree of a pool.
    #[arg(skip = 100_000u32)]
    pub(crate) files: u32,
}

impl Extent {
    /// The extent with the small values of `--quick`, if it was given.
    pub(crate) fn settled(self) -> Self {
        let short = Duration::from_millis(100);
        match self.quick {
            false => self,
            true => Self {
                size: 32 << 20,
                rounds: 1,
                runtime: short,
                idle: short,
                long: short,
                snapshots: 20,
                entries: 500,
                files: 500,
                ..self
            },
        }
    }

    /// The rows to measure of each table that has any. Errors: `Usage` if no row matches.
    pub(crate) fn choose(&self) -> Result<Vec<(Table, Vec<&'static Row>)>> {
        let of = |table: &Table| {
            let table = *table;
            ROWS.iter().filter(move |row| row.table == table)
        };
        let is_meant = |row: &&Row| self.row.as_ref().is_none_or(|part| row.name.contains(part));
        let chosen = self.only.iter();
        let chosen = chosen.map(|t| (*t, of(t).filter(is_meant).collect::<Vec<_>>()));
        let chosen: Vec<_> = chosen.filter(|(_, rows)| !rows.is_empty()).collect();
        if chosen.is_empty() {
            let all: Vec<_> = self.only.iter().flat_map(of).map(|row| row.name).collect();
            let why = format!("no row has this text in its name: {}", all.join(", "));
            return Err(Error::usage("--row", why));
        }
        Ok(chosen)
    }

    /// Overwrites of `blocks` blocks before a measurement, and during it.
    pub(crate) fn overwrites(&self, blocks: u64) -> (u64, u64) {
        match self.quick {
            true => (0, blocks / 64),
            false => (AGEING * blocks, blocks),
        }
    }

    /// Bytes of a volume that takes `percent` of a pool of `size` bytes.
    pub(crate) fn part_of_pool(&self, size: u64, percent: u64) -> u64 {
        let part = match self.quick {
            true => self.size,
            false => size / 100 * percent,
        };
        part / LARGE * LARGE
    }

    /// Directory of the disk-backed files.
    pub(crate) fn place(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(scratch_parent)
    }

    /// The program `wirepool`. Errors: `Program` if it does not exist.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let here = std::env::current_exe().map_err(Error::file(Path::new("/proc/self/exe")))?;
        let beside = here.with_file_name("wirepool");
        let path = self.wirepool.clone().unwrap_or(beside);
        match path.is_file() {
            true => path.canonicalize().map_err(Error::file(&path)),
            false => {
                let name = path.display().to_string();
                Err(Error::program(
                    &name,
                    "not there: build it, or name it with --wirepool",
                ))
            }
        }
    }
}
