//! `wirepool bench suite`: the table of goals, measured beside a peer in one run.
//!
//! **Owns** the files, our server, the peer's server and the order of everything. **Called by** the command line.
//! **Invariants**: both servers are pinned to one processor and both clients to another, where there are two; rounds
//! take turns; a goal that is missed is a result, not a failure; what could not be measured is said, never guessed.

mod goal;
mod iscsi;
mod load;
mod peer;
mod rows;
mod tgt;

use crate::Result;
use crate::cli::progress::Teller;
use crate::cli::{fill, print};
use crate::engine::{Setup, run};
use crate::plan::{Machine, Progress};
use crate::report::table::blank;
use crate::served::{Scratch, ServeConfig, Served, ServedDisk, on_interrupt};
use crate::size::{count, digits};
use crate::target::{Address, AnyTarget, OpenAs};
use crate::workload::Workload;
use goal::{Goal, median};
use peer::Peer;
use rows::{Kind, RowPlan};
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

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// Size of the files and of the RAM disk, bytes.
    pub(crate) bytes: u64,
    /// Rounds of each row.
    pub(crate) rounds: u32,
    /// Time of each round.
    pub(crate) runtime: Duration,
    /// How long the idle server is watched.
    pub(crate) idle: Duration,
    /// Connections (I/O queues) of the idle and memory rows.
    pub(crate) queues: u16,
    /// How long client rings spin.
    pub(crate) spin: Duration,
    /// Where the disk-backed file goes.
    pub(crate) dir: PathBuf,
    /// Do not run the peer.
    pub(crate) no_peer: bool,
}

/// The rounds of a row, for each contender that ran.
#[derive(Default)]
struct Measured {
    local: Vec<Point>,
    memory: Vec<Point>,
    file: Vec<Point>,
    peer: Vec<Point>,
}

struct Lab {
    served: Served,
    peer: Option<Peer>,
    disk: PathBuf,
    setup: Setup,
    extent: Extent,
}

/// The columns of the first table.
const HEAD: [&str; 8] = [
    "row",
    "goal",
    "measured",
    "wirepool mem",
    "wirepool file",
    "peer NBD",
    "local",
    "result",
];
/// Namespaces of our server, and exports of the peer's.
const MEMORY: u32 = 1;
const SHM: u32 = 2;
const DISK: u32 = 3;
const PEER_SHM: usize = 0;
const PEER_DISK: usize = 1;

/// Measures everything and prints the table. Errors: what could not be measured.
pub(crate) async fn suite(extent: Extent) -> Result<()> {
    on_interrupt()?;
    let mut teller = Teller::new();
    let result = measure(extent, &mut teller).await;
    teller.done();
    print(&result?)
}

async fn measure(extent: Extent, teller: &mut Teller) -> Result<String> {
    let machine = Machine::here();
    let pinned = machine.processors > 1;
    let (server_cpus, client_cpus) = if pinned { ("0", "1") } else { ("", "") };
    let (missing, tgt_missing) = if extent.no_peer {
        (Vec::new(), Vec::new())
    } else {
        (peer::missing(), tgt::missing())
    };
    let shm = Scratch::directory(shared_memory())?;
    let place = Scratch::directory(&extent.dir)?;
    let (ram_file, disk) = (shm.0.join("ram.img"), place.0.join("disk.img"));
    for path in [&ram_file, &disk] {
        make(path, extent.bytes, teller).await?;
    }
    let config = ServeConfig {
        pools: Vec::new(),
        disks: vec![
            ServedDisk::Memory(extent.bytes),
            ServedDisk::File(ram_file.clone()),
            ServedDisk::File(disk.clone()),
        ],
        luns: Vec::new(),
        shards: 1,
        cpus: server_cpus.into(),
        known_ports: false,
        metrics: false,
    };
    let served = Served::start(&config).await?;
    let files = [(ram_file.clone(), false), (disk.clone(), true)];
    let peer = match missing.is_empty() && !extent.no_peer {
        true => Some(Peer::start(&files, (server_cpus, client_cpus), &place.0).await?),
        false => None,
    };
    let cpus = if pinned { vec![1] } else { Vec::new() };
    let setup = Setup {
        cpus,
        spin: extent.spin,
        ..Setup::default()
    };
    let lab = Lab {
        served,
        peer,
        disk,
        setup,
        extent: extent.clone(),
    };
    let ram = AnyTarget::open(
        &lab.served.address(MEMORY, true),
        OpenAs {
            writable: true,
            create: None,
        },
    )
    .await?;
    fill(&ram, "the RAM disk", None, &lab.setup, teller).await?;
    let mut t = blank(&HEAD, 9);
    let rows = rows::ALL;
    for (i, row) in rows.iter().enumerate() {
        teller.step(i + 1, rows.len() + load::ROWS + iscsi::ROWS, row.name);
        let m = lab.row(row).await?;
        add(&mut t, row, &m);
    }
    lab.served.stop()?;
    if let Some(p) = lab.peer {
        p.stop()?;
    }
    let bench = iscsi::Bench {
        extent: &extent,
        setup: &lab.setup,
        cpus: server_cpus,
        files: [(&ram_file, false), (&lab.disk, true)],
        place: &place.0,
        with_peer: tgt_missing.is_empty() && !extent.no_peer,
    };
    let over_iscsi = bench.table(teller, rows.len() + load::ROWS).await?;
    for line in load::rows(&extent, pinned, teller, rows.len()).await? {
        let [row, goal, measured, result] = line;
        let none = || "–".to_owned();
        t.add_row([row, goal, measured, none(), none(), none(), none(), result]);
    }
    Ok(describe(
        &machine,
        &extent,
        pinned,
        &[missing, tgt_missing].concat(),
        &format!("{t}\n{over_iscsi}"),
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

impl Lab {
    /// All rounds of a row, contenders in turn.
    async fn row(&self, row: &RowPlan) -> Result<Measured> {
        let w = workload(row, &self.extent)?;
        let mut m = Measured::default();
        for _ in 0..self.extent.rounds {
            match row.kind {
                Kind::Ram => {
                    m.memory
                        .push(self.ours(&self.served.address(MEMORY, true), &w).await?);
                    m.file
                        .push(self.ours(&self.served.address(SHM, true), &w).await?);
                    m.peer.extend(self.peers(PEER_SHM, row)?);
                }
                Kind::Disk => {
                    let local = Address::File {
                        path: self.disk.clone(),
                        buffered: false,
                        shared: true,
                    };
                    m.local.push(self.ours(&local, &w).await?);
                    m.file
                        .push(self.ours(&self.served.address(DISK, false), &w).await?);
                    m.peer.extend(self.peers(PEER_DISK, row)?);
                }
            }
        }
        Ok(m)
    }

    async fn ours(&self, address: &Address, w: &Workload) -> Result<Point> {
        let remote = matches!(address, Address::NvmeTcp(_));
        point(address, w, &self.setup, remote.then(|| self.served.pid())).await
    }

    fn peers(&self, export: usize, row: &RowPlan) -> Result<Option<Point>> {
        let seconds = self.extent.runtime.as_secs_f64();
        self.peer
            .as_ref()
            .map(|p| p.run(export, row.mode, row.block_size, row.depth, seconds))
            .transpose()
    }
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

fn add(t: &mut comfy_table::Table, row: &RowPlan, m: &Measured) {
    let (ours, other) = match row.kind {
        Kind::Ram => (&m.memory, &m.peer),
        Kind::Disk => (&m.file, &m.local),
    };
    let (measured, outcome) = row.goal.judge(ours, other);
    let all = [&m.memory, &m.file, &m.peer, &m.local].map(|p| summary(p, row.block_size));
    let [memory, file, peer, local] = all;
    t.add_row([
        row.name.into(),
        row.goal.text(),
        measured,
        memory,
        file,
        peer,
        local,
        outcome.text().into(),
    ]);
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
