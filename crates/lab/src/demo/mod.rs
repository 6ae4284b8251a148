//! `wirepool demo`: a disk served over NVMe/TCP to our own initiator, measured against the same disk without network.
//!
//! **Owns** the disk's file, the server (a child process) and the plan. **Called by** the command line.
//! **Invariants**: it cleans up after itself, also when interrupted; it serves loopback addresses only; local, remote
//! and RAM are measured in turn in one run. It takes less than two minutes: on a slow disk, a smaller part of it is
//! filled and used, and that is said.

use crate::cli::progress::Teller;
use crate::cli::{Demo, fill, write};
use crate::engine::Setup;
use crate::plan::{Contender, Plan, Report};
use crate::report::{fio, html, table};
use crate::served::{
    NQN, Scratch, ServeConfig, Served, ServedDisk, interrupt_is_the_end, on_interrupt,
    scratch_parent,
};
use crate::size::size;
use crate::stats::process::machine_memory;
use crate::target::{Address, AnyTarget, OpenAs};
use crate::validity::Thresholds;
use crate::workload::Workload;
use crate::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time to fill the disk; a slower one is used in part.
const FILL_MAX: Duration = Duration::from_secs(35);
/// What is filled first, to see how fast the disk is, bytes.
const FILL_FIRST: u64 = 256 << 20;
/// Largest RAM disk, bytes, and the largest part of the machine's memory for it.
const RAM_MAX: u64 = 1 << 30;
const RAM_SHARE: u64 = 8;
/// Rounds of each workload, and their times.
const ROUNDS: u32 = 2;
const RUNTIME: Duration = Duration::from_millis(1600);
const RAMP: Duration = Duration::from_millis(300);

/// Runs the demo. Errors: the first thing that fails.
pub(crate) async fn demo(args: &Demo) -> Result<()> {
    on_interrupt()?;
    let mut teller = Teller::new();
    let place = Scratch::directory(&args.dir.clone().unwrap_or_else(scratch_parent))?;
    let file = place.0.join("disk.img");
    let ram = (machine_memory() / RAM_SHARE).min(RAM_MAX).min(args.size) / 4096 * 4096;
    let region = make_disk(&file, args.size, &teller).await?;
    let config = ServeConfig {
        disks: vec![ServedDisk::File(file.clone()), ServedDisk::Memory(ram)],
        luns: Vec::new(),
        shards: 0,
        cpus: String::new(),
        known_ports: true,
        metrics: true,
    };
    teller.say("starting wirepool serve");
    let mut served = Served::start(&config).await?;
    tell_ports(&served, &teller);
    let report = measure(&file, &served, region, ram, &mut teller).await;
    teller.done();
    deliver(&report?, args, &served)?;
    if args.keep {
        interrupt_is_the_end();
        eprintln!("serving until Ctrl-C");
        served.wait();
        return Err(Error::program("wirepool serve", "ended by itself"));
    }
    served.stop()
}

/// Makes the file and fills it with bytes that cannot be compressed. Returns how much of it is filled.
async fn make_disk(file: &Path, bytes: u64, teller: &Teller) -> Result<u64> {
    let address = Address::File {
        path: file.into(),
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
    let first = FILL_FIRST.min(bytes);
    let started = Instant::now();
    fill(
        &target,
        "the disk (first part, to see how fast it is)",
        Some(first),
        &Setup::default(),
        teller,
    )
    .await?;
    let per_second = first as f64 / started.elapsed().as_secs_f64();
    let affordable = (per_second * FILL_MAX.as_secs_f64()) as u64 / FILL_FIRST * FILL_FIRST;
    let region = bytes.min(affordable.max(first));
    if region < bytes {
        let speed = per_second / f64::from(1 << 20);
        teller.say(&format!(
            "this disk writes {speed:.0} MiB/s: only {} of {} are used",
            size(region),
            size(bytes)
        ));
    }
    fill(&target, "the disk", Some(region), &Setup::default(), teller).await?;
    Ok(region)
}

fn tell_ports(served: &Served, teller: &Teller) {
    for (what, at, known) in [
        ("NVMe/TCP", served.nvme, 4420),
        ("discovery", served.discovery, 8009),
    ] {
        if at.port() != known {
            teller.say(&format!("port {known} is taken: {what} is on {at}"));
        }
    }
    if let Some(m) = served.metrics {
        teller.say(&format!("metrics: GET /metrics on {m}"));
    }
}

/// The six points of the table.
fn workloads(region: u64) -> Result<Vec<Workload>> {
    let base = Workload {
        ramp: RAMP,
        runtime: RUNTIME,
        region: Some(region),
        ..Workload::default()
    };
    let mut all = Vec::new();
    for (mode, block_size, depth) in [
        ("randread", 4096, 1),
        ("randread", 4096, 32),
        ("randwrite", 4096, 1),
        ("randwrite", 4096, 32),
        ("read", 128 << 10, 8),
        ("write", 128 << 10, 8),
    ] {
        all.push(
            Workload {
                block_size,
                depth,
                ..base.clone()
            }
            .with_mode(mode)?,
        );
    }
    Ok(all)
}

async fn measure(
    file: &Path,
    served: &Served,
    region: u64,
    ram: u64,
    teller: &mut Teller,
) -> Result<Report> {
    let how = OpenAs {
        writable: true,
        create: None,
    };
    let mut contenders = Vec::new();
    for (label, address) in [
        (
            "local file",
            Address::File {
                path: file.into(),
                buffered: false,
                shared: true,
            },
        ),
        ("remote file", served.address(1, false)),
        ("remote RAM disk", served.address(2, true)),
    ] {
        let target = AnyTarget::open(&address, how).await?;
        contenders.push(Contender {
            label: label.into(),
            address: address.to_string(),
            target,
        });
    }
    fill(
        &contenders[2].target,
        "the RAM disk",
        Some(ram),
        &Setup::default(),
        teller,
    )
    .await?;
    let plan = Plan {
        title: "A disk here, the same disk over NVMe/TCP, and memory over NVMe/TCP".into(),
        contenders,
        workloads: workloads(region)?,
        rounds: ROUNDS,
        interleaved: true,
        force: false,
        thresholds: Thresholds::for_memory(machine_memory()),
        setup: Setup {
            server_pid: Some(served.pid()),
            ..Setup::default()
        },
    };
    teller.say(&format!("measuring for {} s", plan.duration().as_secs()));
    plan.execute(teller).await
}

fn deliver(report: &Report, args: &Demo, served: &Served) -> Result<()> {
    if args.json {
        return crate::cli::print(&format!("{:#}\n", fio::render(report)));
    }
    if let Some(path) = &args.html {
        write(path, &html::render(report))?;
    }
    let (nvme, discovery) = (served.nvme, served.discovery);
    crate::cli::print(&format!(
        "{}\nA Linux client, as root (modprobe nvme-tcp), while it serves (--keep):\n  \
         nvme discover -t tcp -a {} -s {}\n  nvme connect -t tcp -a {} -s {} -n {NQN}\n  nvme disconnect -n {NQN}\n",
        table::render(report, false),
        discovery.ip(),
        discovery.port(),
        nvme.ip(),
        nvme.port(),
    ))
}
