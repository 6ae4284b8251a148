//! `wirepool bench suite`: the table of goals, measured with a peer in one run.
//!
//! **Owns** the files, our server, the peer's server and the order of the measurements. **Called by** the command
//! line.
//! **Invariants**: both servers are pinned to one processor and both clients to another, if there are two; rounds
//! alternate; a missed goal is a result, not a failure; a failed measurement is reported, never guessed.

mod goal;
mod iscsi;
mod load;
mod nvme;
mod peer;
mod pool;
mod rows;
mod tgt;

use crate::cli::progress::Teller;
use crate::cli::{fill, print};
use crate::engine::{Setup, run};
use crate::plan::{Machine, Progress};
use crate::served::{Scratch, ServedDisk, on_interrupt};
use crate::size::{count, digits};
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::workload::Workload;
use crate::{Error, Result};
use goal::{Goal, median};
use rows::RowPlan;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One measured point of one contender in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    iops: f64,
    bytes_per_s: f64,
    p50_us: f64,
    server_us: Option<f64>,
}

/// Extent of the measurements.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// Size of the files and of the RAM disk, bytes.
    pub(crate) bytes: u64,
    /// Rounds of each row.
    pub(crate) rounds: u32,
    /// Time of each round.
    pub(crate) runtime: Duration,
    /// Time for which the idle server is observed.
    pub(crate) idle: Duration,
    /// Connections (I/O queues) of the idle and memory rows.
    pub(crate) queues: u16,
    /// Time that client rings spin.
    pub(crate) spin: Duration,
    /// Directory of the disk-backed file.
    pub(crate) dir: PathBuf,
    /// Do not run the peer.
    pub(crate) no_peer: bool,
    /// Time of the pool's rows with accumulating effects.
    pub(crate) long: Duration,
    /// Number of snapshots in the row of many snapshots.
    pub(crate) snapshots: u32,
    /// The tables to measure.
    pub(crate) tables: Vec<Table>,
    /// Text that the names of the measured rows contain; none for all rows.
    pub(crate) row: Option<String>,
}

/// A table of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Table {
    /// NVMe/TCP compared with qemu-storage-daemon
    Nvme,
    /// iSCSI compared with tgt
    Iscsi,
    /// A pool compared with a raw file
    Pool,
}

/// State that all tables share.
struct Lab<'a> {
    extent: &'a Extent,
    /// Servers have processor 0 and clients 1; not if there is only one.
    pinned: bool,
    setup: Setup,
    /// A file in memory and one on a disk, and whether O_DIRECT is possible.
    files: [(PathBuf, bool); 2],
    /// Directory of the other files.
    place: &'a Path,
    /// Directory of files in memory.
    memory: &'a Path,
    steps: Steps<'a>,
}

impl Lab<'_> {
    /// Processors of the servers, and of the clients.
    fn processors(&self) -> (&'static str, &'static str) {
        if self.pinned { ("0", "1") } else { ("", "") }
    }

    /// Our server's disks: a RAM disk and the two files.
    fn disks(&self) -> Vec<ServedDisk> {
        let files = self.files.iter().map(|(path, _)| path.clone());
        let ram = ServedDisk::Memory(self.extent.bytes);
        std::iter::once(ram)
            .chain(files.map(ServedDisk::File))
            .collect()
    }

    /// Writes a served RAM disk completely.
    async fn fill(&self, address: &Address) -> Result<()> {
        let how = OpenAs {
            writable: true,
            create: None,
        };
        let ram = AnyTarget::open(address, how).await?;
        fill(&ram, "a RAM disk", None, &self.setup, self.steps.teller).await
    }
}

/// Prints the row that is being measured.
struct Steps<'a> {
    teller: &'a mut Teller,
    wanted: Vec<&'static str>,
    at: usize,
}

impl Steps<'_> {
    /// Whether the next row, `row`, is to be measured.
    fn next(&mut self, row: &str) -> bool {
        let is_wanted = self.wanted.contains(&row);
        if is_wanted {
            self.at += 1;
            self.teller.step(self.at, self.wanted.len(), row);
        }
        is_wanted
    }
}

impl Table {
    /// Names of its rows.
    fn rows(self) -> Vec<&'static str> {
        match self {
            Table::Nvme => nvme::rows(),
            Table::Iscsi => iscsi::rows(),
            Table::Pool => pool::rows(),
        }
    }

    /// Its rows with `part` in their name, and the rows that they are computed from.
    fn wanted(self, part: Option<&str>) -> Vec<&'static str> {
        let is_meant = |row: &str| part.is_none_or(|part| row.contains(part));
        let mut rows = self.rows();
        let meant = rows.iter().filter(|row| is_meant(row));
        let needed: Vec<_> = meant.filter_map(|row| pool::needed(row)).collect();
        rows.retain(|row| is_meant(row) || needed.contains(row));
        rows
    }
}

impl Extent {
    /// The rows to measure; a table without one is removed. Errors: no row matches.
    fn choose(&mut self) -> Result<Vec<&'static str>> {
        let part = self.row.as_deref();
        let all: Vec<_> = self.tables.iter().flat_map(|t| t.rows()).collect();
        self.tables.retain(|t| !t.wanted(part).is_empty());
        if self.tables.is_empty() {
            let why = format!("no row has this text in its name: {}", all.join(", "));
            return Err(Error::usage("--row", why));
        }
        Ok(self.tables.iter().flat_map(|t| t.wanted(part)).collect())
    }
}

/// Measures everything and prints the table. Errors: the row that could not be measured.
pub(crate) async fn suite(mut extent: Extent) -> Result<()> {
    let wanted = extent.choose()?;
    on_interrupt()?;
    let mut teller = Teller::new();
    let result = measure(extent, wanted, &mut teller).await;
    teller.done();
    print(&result?)
}

async fn measure(extent: Extent, wanted: Vec<&'static str>, teller: &mut Teller) -> Result<String> {
    let machine = Machine::here();
    let pinned = machine.processors > 1;
    let shm = Scratch::directory(shared_memory())?;
    let place = Scratch::directory(&extent.dir)?;
    let mut lab = Lab {
        pinned,
        setup: Setup {
            cpus: if pinned { vec![1] } else { Vec::new() },
            spin: extent.spin,
            ..Setup::default()
        },
        files: [
            (shm.0.join("ram.img"), false),
            (place.0.join("disk.img"), true),
        ],
        place: &place.0,
        memory: &shm.0,
        steps: Steps {
            wanted,
            at: 0,
            teller,
        },
        extent: &extent,
    };
    if extent.tables.iter().any(|t| *t != Table::Pool) {
        for (path, _) in &lab.files {
            make(path, extent.bytes, lab.steps.teller).await?;
        }
    }
    let (mut tables, mut missing) = (Vec::new(), Vec::new());
    for table in &extent.tables {
        let lacks = match table {
            Table::Nvme => peer::missing(),
            Table::Iscsi => tgt::missing(),
            Table::Pool => Vec::new(),
        };
        let with_peer = lacks.is_empty() && !extent.no_peer;
        tables.push(match table {
            Table::Nvme => nvme::table(&mut lab, with_peer).await?,
            Table::Iscsi => iscsi::table(&mut lab, with_peer).await?,
            Table::Pool => pool::table(&mut lab).await?,
        });
        missing.extend(lacks.into_iter().filter(|_| !extent.no_peer));
    }
    Ok(describe(
        &machine,
        &extent,
        pinned,
        &missing,
        &tables.join("\n"),
    ))
}

fn shared_memory() -> &'static Path {
    Path::new("/dev/shm")
}

/// Makes a file and fills it.
async fn make(path: &Path, bytes: u64, teller: &Teller) -> Result<()> {
    let address = Address::File {
        path: path.into(),
        buffered: false,
        shared: false,
    };
    let target = AnyTarget::open(
        &address,
        OpenAs {
            writable: true,
            create: Some(bytes),
        },
    )
    .await?;
    fill(
        &target,
        &address.to_string(),
        None,
        &Setup::default(),
        teller,
    )
    .await
}

/// One round of our own client, with the processor time of the server.
async fn point(
    address: &Address,
    w: &Workload,
    setup: &Setup,
    server_pid: Option<u32>,
) -> Result<Point> {
    let how = OpenAs {
        writable: w.writes(),
        create: None,
    };
    let target = AnyTarget::open(address, how).await?;
    let setup = Setup {
        server_pid,
        ..setup.clone()
    };
    let run = run(&target, w, &setup).await?;
    Ok(Point {
        iops: run.iops(),
        bytes_per_s: run.bandwidth(),
        p50_us: run.latency().percentile(50.0) as f64 / 1000.0,
        server_us: run.server_us(),
    })
}

/// The workload of a row.
fn workload(row: &RowPlan, extent: &Extent) -> Result<Workload> {
    Workload {
        block_size: row.block_size,
        depth: row.depth,
        runtime: extent.runtime,
        ramp: extent.runtime / 5,
        ..Workload::default()
    }
    .with_mode(row.mode)
}

/// Rate, p50 and server time of one contender, short.
fn summary(points: &[Point], block_size: u32) -> String {
    let Some(iops) = median(points, |p| Some(p.iops)) else {
        return "–".into();
    };
    let rate = if block_size >= 64 << 10 {
        format!(
            "{} MiB/s",
            digits(median(points, |p| Some(p.bytes_per_s)).unwrap_or(0.0) / f64::from(1 << 20))
        )
    } else {
        count(iops)
    };
    let p50 = median(points, |p| Some(p.p50_us)).unwrap_or(0.0);
    let cpu =
        median(points, |p| p.server_us).map_or(String::new(), |c| format!(", CPU {}", digits(c)));
    format!("{rate}, p50 {}{cpu}", digits(p50))
}

fn describe(m: &Machine, e: &Extent, pinned: bool, missing: &[&str], table: &str) -> String {
    let mut out = format!("{table}\n");
    let _ = writeln!(
        out,
        "  {} × {}, {} GiB, Linux {}",
        m.processors,
        m.processor,
        m.memory >> 30,
        m.kernel
    );
    let _ = writeln!(
        out,
        "  median of {} × {} s, in turn; rates in IOPS or MiB/s, p50 and server CPU per I/O in µs; TCP cubic on our sockets",
        e.rounds,
        digits(e.runtime.as_secs_f64())
    );
    let pins = if pinned {
        "servers pinned to processor 0, clients to 1"
    } else {
        "one processor: nothing is pinned"
    };
    let _ = writeln!(
        out,
        "  {pins}; only ratios carry over to another machine or hour"
    );
    if let Some(text) = m.busy() {
        let _ = writeln!(out, "  {text}");
    }
    if !missing.is_empty() {
        let _ = writeln!(
            out,
            "  no peer: {} missing (Debian's qemu-system-common, fio and tgt have them)",
            missing.join(", ")
        );
    }
    out
}
