//! Rows without a peer: idle connections, memory, and two shards.
//!
//! **Invariants**: the server has a null disk, so that its memory does not include a RAM disk.

use super::goal::Outcome;
use super::lab::{Extent, Lab};
use crate::engine::{Setup, run};
use crate::served::{ServeConfig, Served, ServedDisk};
use crate::size::digits;
use crate::stats::process::{processors, resident};
use crate::targets::address::NvmeTcp;
use crate::targets::{Address, AnyTarget, OpenAs, Session, Target};
use crate::workload::Workload;
use crate::{Error, Result};
use io::linux::process_cpu_time;
use std::time::Duration;

const IDLE: &str = "idle connections";
const MEMORY: &str = "memory under load";
const SHARDS: &str = "two shards";
/// Names of the rows.
pub(super) const ROWS: [&str; 3] = [IDLE, MEMORY, SHARDS];
/// Size of the null disk, bytes.
const NULL_SIZE: u64 = 1 << 30;
/// Share of a processor that an idle server may use, percent.
const IDLE_MAX_PERCENT: f64 = 1.0;
/// Memory that a server may use in addition to its capsules and its buffer pool, bytes.
const MEMORY_BASE: u64 = 64 << 20;
/// In-capsule data of each command, bytes.
const CAPSULE: u64 = 8192;
/// Buffer pool of one shard, bytes: the server's default.
const POOL: u64 = 64 << 20;
/// Required speed of two shards, relative to one.
const TWO_SHARDS: f64 = 1.7;
/// Processors that two shards and two clients need.
const FOUR: usize = 4;

type Line = [String; 4];

/// All rows: name, goal, measured, result.
pub(super) async fn rows(lab: &mut Lab<'_>) -> Result<Vec<Line>> {
    let (extent, pinned) = (lab.extent, lab.pinned);
    let mut lines = Vec::new();
    let served = Served::start(&config(1, lab.processors().0)).await?;
    if lab.steps.next(IDLE) {
        lines.push(idle(&served, extent).await?);
    }
    if lab.steps.next(MEMORY) {
        lines.push(memory(&served, extent, pinned).await?);
    }
    served.stop()?;
    if lab.steps.next(SHARDS) {
        lines.push(two_shards(extent).await?);
    }
    Ok(lines)
}

fn config(shards: u32, cpus: &str) -> ServeConfig {
    ServeConfig {
        shards,
        ..ServeConfig::of(vec![ServedDisk::Null(NULL_SIZE)], cpus)
    }
}

fn address(served: &Served, queues: u16) -> Address {
    match served.address(1, true) {
        Address::NvmeTcp(t) => Address::NvmeTcp(NvmeTcp { queues, ..t }),
        other => other,
    }
}

fn line(row: String, goal: String, measured: String, met: bool) -> Line {
    [
        row,
        goal,
        measured,
        if met { Outcome::Met } else { Outcome::NotMet }
            .text()
            .into(),
    ]
}

/// Processor time of a server whose connections are idle.
async fn idle(served: &Served, extent: &Extent) -> Result<Line> {
    let target = AnyTarget::open(&address(served, extent.queues), OpenAs::default()).await?;
    let session = target.connect(u32::from(extent.queues)).await?;
    let granted = session.facts().transport.map_or(0, |t| t.queues);
    // The cost of connecting is not part of the idle time.
    io::time::sleep(Duration::from_millis(500)).await;
    let gone = || Error::program("wirepool serve", "its processor time cannot be read");
    let before = process_cpu_time(served.pid()).ok_or_else(gone)?;
    let start = io::time::now();
    io::time::sleep(extent.idle).await;
    let used = process_cpu_time(served.pid())
        .ok_or_else(gone)?
        .saturating_sub(before);
    let percent = used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    session.close().await;
    let name = format!("idle, {granted} queues connected");
    let met = percent < IDLE_MAX_PERCENT && granted >= u32::from(extent.queues);
    Ok(line(
        name,
        format!("< {IDLE_MAX_PERCENT} % of a processor"),
        format!("{percent:.2} %"),
        met,
    ))
}

/// Resident memory of a server with every capsule of many queues in use.
async fn memory(served: &Served, extent: &Extent, pinned: bool) -> Result<Line> {
    const JOBS: u32 = 4;
    const DEPTH: u32 = 32;
    let queues = (extent.queues / JOBS as u16).max(1);
    let target = AnyTarget::open(
        &address(served, queues),
        OpenAs {
            writable: true,
            create: None,
        },
    )
    .await?;
    let setup = Setup {
        cpus: if pinned { vec![1] } else { Vec::new() },
        ..Setup::default()
    };
    for (mode, block_size) in [
        ("randwrite", 4096),
        ("randwrite", 64 << 10),
        ("randread", 64 << 10),
    ] {
        let depth = (DEPTH * u32::from(queues)).min(crate::limits::DEPTH_MAX);
        let w = Workload {
            block_size,
            depth,
            jobs: JOBS,
            runtime: extent.runtime,
            ..Workload::default()
        };
        run(&target, &w.with_mode(mode)?, &setup).await?;
    }
    let (_, high) = resident(served.pid())
        .ok_or_else(|| Error::program("wirepool serve", "its memory cannot be read"))?;
    let total = u64::from(queues) * u64::from(JOBS);
    let allowed = MEMORY_BASE + total * u64::from(DEPTH) * CAPSULE + POOL;
    let mib = |b: u64| b as f64 / f64::from(1 << 20);
    Ok(line(
        format!("memory, {total} busy queues of {DEPTH}"),
        format!("≤ {} MiB (64 + capsules + pool)", digits(mib(allowed))),
        format!("{} MiB resident at most", digits(mib(high))),
        high <= allowed,
    ))
}

/// Two connections on two shards against one on one.
async fn two_shards(extent: &Extent) -> Result<Line> {
    let (row, goal) = (
        "two connections on two shards".to_owned(),
        format!("≥ {TWO_SHARDS}x one connection"),
    );
    if processors() < FOUR {
        let why = format!(
            "needs four processors (two shards, two clients); there are {}",
            processors()
        );
        return Ok([row, goal, why, "not measurable here".into()]);
    }
    let served = Served::start(&config(2, "0,1")).await?;
    let target = AnyTarget::open(&address(&served, 1), OpenAs::default()).await?;
    let setup = Setup {
        cpus: vec![2, 3],
        ..Setup::default()
    };
    let mut ratios = Vec::new();
    for _ in 0..extent.rounds {
        let mut rates = Vec::new();
        for jobs in [1, 2] {
            let w = Workload {
                depth: 32,
                jobs,
                runtime: extent.runtime,
                ..Workload::default()
            };
            rates.push(run(&target, &w, &setup).await?.iops());
        }
        ratios.push(rates[1] / rates[0].max(1.0));
    }
    served.stop()?;
    let r = crate::stats::Spread::of(&ratios);
    Ok(line(
        row,
        goal,
        format!("{:.2}x ({:.2}–{:.2})", r.median, r.min, r.max),
        r.median >= TWO_SHARDS,
    ))
}
