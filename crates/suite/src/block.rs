//! Servers and targets of the NVMe/TCP and iSCSI tables; resources of an idle and of a loaded server.
//!
//! **Owns** our server with RAM disks and two files, and the other server with the same files.
//! **Invariant**: rows about resources have a server with a null disk, so that its memory does not include a RAM disk.

use crate::bench::{Bench, Files, local};
use crate::peers::{Nbd, Tgt};
use crate::point::{Point, Sample, open, point, sample};
use crate::rows::{Backing, Row, Table, Work};
use io::linux::process_cpu_time;
use lab::engine::{Setup, run};
use lab::served::{Served, ServedDisk};
use lab::stats::process::{processors, resident};
use lab::targets::nvme_address::Nvme;
use lab::targets::{Address, Session, Target};
use lab::workload::Workload;
use lab::{Error, Result};
use std::time::Duration;

/// Our RAM disk, and the first of the two files, as logical units: a namespace is one more.
const MEMORY: u16 = 0;
const FIRST_FILE: u16 = 1;
/// Connections (I/O queues) of the idle and memory rows, and jobs that share the busy ones.
pub(crate) const QUEUES: u16 = 100;
const JOBS: u16 = 4;
/// Commands in flight on a busy queue.
const DEPTH: u32 = 32;
/// Size of the null disk, bytes.
const NULL_SIZE: u64 = 1 << 30;
/// Processors that two shards and two clients need.
const FOUR: usize = 4;

/// Servers of a table.
pub(crate) struct BlockServers {
    ours: Served,
    nbd: Option<Nbd>,
    tgt: Option<Tgt>,
    files: Files,
}

impl BlockServers {
    pub(crate) async fn start(
        bench: &Bench,
        table: Table,
        rows: &[&Row],
        peer: bool,
    ) -> Result<BlockServers> {
        let files = [
            (bench.memory.0.join("ram.img"), false),
            (bench.place.0.join("disk.img"), true),
        ];
        let has_io = rows.iter().any(|row| matches!(row.work, Work::Io(..)));
        let ram = || ServedDisk::Memory(bench.extent.size);
        let mut disks = vec![ServedDisk::Null(NULL_SIZE)];
        if has_io {
            disks = vec![ram()];
            for (path, _) in &files {
                if !path.exists() {
                    bench.make(&local(path.clone(), false)).await?;
                }
                disks.push(ServedDisk::File(path.clone()));
            }
        }
        let mut config = bench.serve(disks);
        if table == Table::Iscsi {
            config.luns = std::mem::replace(&mut config.disks, vec![ram()]);
        }
        let ours = Served::start(&config).await?;
        let (mut nbd, mut tgt) = (None, None);
        if has_io {
            bench.fill(&ours.address(1, true)).await?;
            if table == Table::Iscsi {
                bench.fill(&ours.unit(MEMORY, true)).await?;
            }
            match table {
                Table::Nvme if peer => nbd = Some(Nbd::start(bench, &files).await?),
                Table::Iscsi if peer => tgt = Some(Tgt::start(bench, &files).await?),
                _ => {}
            }
        }
        Ok(BlockServers {
            ours,
            nbd,
            tgt,
            files,
        })
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.ours.stop()?;
        self.nbd.map_or(Ok(()), |nbd| nbd.server.stop())
    }

    pub(crate) async fn round(&self, bench: &Bench, row: &Row) -> Result<Vec<Sample>> {
        match (row.table, row.work) {
            (_, Work::Idle) => idle(bench).await,
            (_, Work::Memory) => memory(bench).await,
            (_, Work::TwoShards) => two_shards(bench).await,
            (Table::Iscsi, Work::Io(medium, ..)) => self.iscsi(bench, row, medium).await,
            (_, Work::Io(medium, ..)) => self.nvme(bench, row, medium).await,
            _ => unreachable!("{} is of another table", row.name),
        }
    }

    async fn nvme(&self, bench: &Bench, row: &Row, medium: Backing) -> Result<Vec<Sample>> {
        let (w, pid) = (bench.workload(row)?, Some(self.ours.pid()));
        let (is_ram, file) = (medium == Backing::Ram, medium as usize);
        let namespace = |lun: u16| self.ours.address(u32::from(lun) + 1, is_ram);
        let mut samples = Vec::new();
        if is_ram {
            let p = point(&namespace(MEMORY), &w, &bench.setup, pid).await?;
            samples.push(sample(0, p));
        } else {
            let file = local(self.files[file].0.clone(), true);
            samples.push(sample(3, point(&file, &w, &bench.setup, None).await?));
        }
        let served = namespace(FIRST_FILE + file as u16);
        samples.push(sample(1, point(&served, &w, &bench.setup, pid).await?));
        if let Some(nbd) = &self.nbd {
            samples.push(sample(2, nbd.run(bench, file, &w)?));
        }
        Ok(samples)
    }

    async fn iscsi(&self, bench: &Bench, row: &Row, medium: Backing) -> Result<Vec<Sample>> {
        let (w, ours) = (bench.workload(row)?, self.ours.pid());
        let (is_ram, file) = (medium == Backing::Ram, medium as u16);
        let mut contenders = vec![(0, self.ours.unit(FIRST_FILE + file, is_ram), ours)];
        if let Some(tgt) = &self.tgt {
            contenders.push((1, tgt.unit(file, is_ram), tgt.server.pid()));
        }
        if is_ram {
            contenders.push((2, self.ours.unit(MEMORY, true), ours));
            contenders.push((3, self.ours.address(1, true), ours));
        }
        let mut samples = Vec::new();
        for (column, address, pid) in contenders {
            let p = point(&address, &w, &bench.setup, Some(pid)).await?;
            samples.push(sample(column, p));
        }
        Ok(samples)
    }
}

fn gone() -> Error {
    Error::program("the server", "its processor time or memory cannot be read")
}

/// Processor time of a process within `time`, percent of a processor. Errors: `Program`.
pub(crate) async fn idle_percent(pid: u32, time: Duration) -> Result<Point> {
    // The cost of connecting is not part of the idle time.
    io::time::sleep(Duration::from_millis(500)).await;
    let before = process_cpu_time(pid).ok_or_else(gone)?;
    let start = io::time::now();
    io::time::sleep(time).await;
    let after = process_cpu_time(pid).ok_or_else(gone)?;
    let used = after.saturating_sub(before).as_secs_f64();
    Ok(Point {
        idle_percent: Some(used / start.elapsed().as_secs_f64() * 100.0),
        ..Point::default()
    })
}

/// Resident memory of a process, and its maximum, bytes. Errors: `Program`.
pub(crate) fn memory_of(pid: u32) -> Result<(u64, u64)> {
    resident(pid).ok_or_else(gone)
}

/// Our server with a null disk, and its namespace with this number of queues.
async fn null_disk(bench: &Bench, shards: u32, queues: u16) -> Result<(Served, Address)> {
    let mut config = bench.serve(vec![ServedDisk::Null(NULL_SIZE)]);
    if shards > 1 {
        (config.shards, config.cpus) = (shards, "0,1".into());
    }
    let served = Served::start(&config).await?;
    let address = match served.address(1, true) {
        Address::Nvme(t) => Address::Nvme(Nvme { queues, ..t }),
        other => other,
    };
    Ok((served, address))
}

async fn idle(bench: &Bench) -> Result<Vec<Sample>> {
    let (served, address) = null_disk(bench, 1, QUEUES).await?;
    let session = open(&address, false).await?.connect(QUEUES.into()).await?;
    let granted = session.facts().transport.map_or(0, |t| t.queues);
    if granted < u32::from(QUEUES) {
        return Err(Error::target(
            address,
            format!("{granted} of {QUEUES} queues"),
        ));
    }
    let p = idle_percent(served.pid(), bench.extent.idle).await?;
    session.close().await;
    served.stop()?;
    Ok(vec![sample(0, p)])
}

async fn memory(bench: &Bench) -> Result<Vec<Sample>> {
    let queues = QUEUES / JOBS;
    let (served, address) = null_disk(bench, 1, queues).await?;
    let target = open(&address, true).await?;
    for (mode, block_size) in [
        ("randwrite", 4096),
        ("randwrite", 64 << 10),
        ("randread", 64 << 10),
    ] {
        let w = Workload {
            block_size,
            depth: DEPTH * u32::from(queues),
            jobs: JOBS.into(),
            runtime: bench.extent.runtime,
            ..Workload::default()
        };
        let setup = Setup {
            cpus: bench.setup.cpus.clone(),
            ..Setup::default()
        };
        run(&target, &w.with_mode(mode)?, &setup).await?;
    }
    let (_, most) = memory_of(served.pid())?;
    served.stop()?;
    let p = Point {
        bytes: Some(most as f64),
        ..Point::default()
    };
    Ok(vec![sample(0, p)])
}

/// Two connections on two shards (column 0) against one on one (column 2).
async fn two_shards(bench: &Bench) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    if processors() < FOUR {
        return Ok(samples);
    }
    let (served, address) = null_disk(bench, 2, 1).await?;
    let setup = Setup {
        cpus: vec![2, 3],
        ..Setup::default()
    };
    for (column, jobs) in [(2, 1), (0, 2)] {
        let w = Workload {
            depth: DEPTH,
            jobs,
            runtime: bench.extent.runtime,
            ..Workload::default()
        };
        samples.push(sample(column, point(&address, &w, &setup, None).await?));
    }
    served.stop()?;
    Ok(samples)
}
