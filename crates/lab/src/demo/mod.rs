//! `wirepool demo`: compares a volume of a mirrored pool over NVMe/TCP, a volume of a second pool without network,
//! and a plain file.
//!
//! **Owns** the files, the server (a child process) and the plan. **Called by** the command line. **Invariants**: it
//! removes its files and processes, also when interrupted; it serves loopback addresses only; all three are on the
//! same disk and measured in alternation in one run. It takes about two minutes: on a slow disk, it fills and uses a
//! smaller part, and reports that.

use crate::child::{Scratch, interrupt_is_the_end, on_interrupt, scratch_parent};
use crate::cli::Demo;
use crate::engine::Setup;
use crate::plan::{Contender, Plan, Report, Row};
use crate::report::wrap::wrap;
use crate::report::{fio, html, table};
use crate::served::{NQN, ServeConfig, Served, ServedDisk};
use crate::size::size;
use crate::stats::process::machine_memory;
use crate::targets::volume::{NewPool, VolumeTarget};
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::terminal::{Teller, fill, print, write};
use crate::validity::Thresholds;
use crate::workload::{Sync, Workload};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time to fill the file and the two pools, whose mirrors write everything twice; a slower disk is used in part.
const FILL_MAX: Duration = Duration::from_secs(35);
const FILLS: u64 = 5;
/// Bytes that are filled first, to measure the speed of the disk.
const FILL_FIRST: u64 = 256 << 20;
/// Each member of a mirror is larger than its volume by a quarter and this many bytes.
const ROOM: u64 = 512 << 20;
const POOL: &str = "tank";
const VOLUME: &str = "vm1";
/// Rounds of each workload, and their times.
const ROUNDS: u32 = 2;
const RUNTIME: Duration = Duration::from_millis(1600);
const RAMP: Duration = Duration::from_millis(300);

/// Runs the demo. Errors: the first thing that fails.
pub(crate) async fn demo(args: &Demo) -> Result<()> {
    on_interrupt()?;
    let mut teller = Teller::stderr();
    let place = Scratch::directory(&args.dir.clone().unwrap_or_else(scratch_parent))?;
    let file = place.0.join("disk.img");
    let size = args.size / 4096 * 4096;
    let region = make_disk(&file, size, &teller).await?;
    let sides = |name: &str| [1, 2].map(|n| place.0.join(format!("{name}{n}.img")));
    let (local, served) = (sides("local"), sides(POOL));
    // closed at once: the server opens it
    drop(VolumeTarget::make(new_pool(POOL, &served, size)).await?);
    let volume = VolumeTarget::make(new_pool("local", &local, size)).await?;
    let program = std::env::current_exe().map_err(Error::file(Path::new("/proc/self/exe")))?;
    let config = ServeConfig {
        pools: vec![(POOL.into(), served.to_vec())],
        shards: 0,
        known_ports: true,
        metrics: true,
        console: args.keep,
        ..ServeConfig::of(
            program,
            vec![ServedDisk::Volume(format!("{POOL}/{VOLUME}"))],
            "",
        )
    };
    teller.say("starting wirepool serve");
    let mut served = Served::start(&config).await?;
    tell_ports(&served, &teller);
    let report = measure(&file, volume, &served, region, &mut teller).await;
    teller.done();
    deliver(&report?, args, &served)?;
    if args.keep {
        interrupt_is_the_end();
        tell_console(&served)?;
        eprintln!("serving until Ctrl-C");
        served.wait();
        return Err(Error::program("wirepool serve", "ended by itself"));
    }
    served.stop()
}

fn new_pool(name: &str, disks: &[PathBuf; 2], volume_size: u64) -> NewPool {
    NewPool {
        name: name.into(),
        disks: disks.to_vec(),
        disk_size: (volume_size / 4 * 5 + ROOM).next_multiple_of(ROOM),
        volume: VOLUME.into(),
        volume_size,
    }
}

/// Creates the file and fills it with incompressible bytes. Returns the number of filled bytes.
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
        "the disk (first part, to measure its speed)",
        Some(first),
        &Setup::default(),
        teller,
    )
    .await?;
    let per_second = first as f64 / started.elapsed().as_secs_f64();
    let affordable = (per_second * FILL_MAX.as_secs_f64()) as u64 / FILLS / FILL_FIRST * FILL_FIRST;
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
    let at = served.addresses();
    for (what, at, known) in [
        ("NVMe/TCP", at.nvme, 4420),
        ("discovery", at.discovery, 8009),
    ] {
        if at.port() != known {
            teller.say(&format!("port {known} is taken: {what} is on {at}"));
        }
    }
    if let Some(m) = at.metrics {
        teller.say(&format!("metrics: GET /metrics on {m}"));
    }
}

/// Prints the address of the web console, and how to log in. Errors: those of the command that adds the user.
fn tell_console(served: &Served) -> Result<()> {
    let Some(login) = served.add_console_user("demo")? else {
        return Ok(());
    };
    print(&format!(
        "\nThe web console: https://{}/\n  user {}, password {}\n  The browser warns of a certificate that it does not know: the server made it for itself ({}).\n",
        login.address,
        login.user,
        login.password,
        login.certificate.display(),
    ))
}

/// The six points of the table. At depth 1 each write is flushed, else each four queues full of them: without flushes a short run measures
/// how much fits into memory.
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
        let mut workload = Workload {
            block_size,
            depth,
            ..base.clone()
        }
        .with_mode(mode)?;
        if workload.writes() {
            workload.sync = Sync::FlushEvery(if depth == 1 { 1 } else { 4 * depth });
        }
        all.push(workload);
    }
    Ok(all)
}

async fn measure(
    file: &Path,
    volume: VolumeTarget,
    served: &Served,
    region: u64,
    teller: &mut Teller,
) -> Result<Report> {
    let how = OpenAs {
        writable: true,
        create: None,
    };
    let address = Address::File {
        path: file.into(),
        buffered: false,
        shared: false,
    };
    let remote = served.address(1, false);
    let contenders = vec![
        Contender {
            label: "local file".into(),
            address: address.to_string(),
            target: AnyTarget::open(&address, how).await?,
        },
        Contender {
            label: "pool here".into(),
            address: format!("local/{VOLUME}"),
            target: AnyTarget::Volume(volume),
        },
        Contender {
            label: "pool over NVMe/TCP".into(),
            address: remote.to_string(),
            target: AnyTarget::open(&remote, how).await?,
        },
    ];
    for contender in &contenders[1..] {
        let setup = Setup::default();
        let (target, label) = (&contender.target, &contender.label);
        fill(target, label, Some(region), &setup, teller).await?;
    }
    let plan = Plan {
        title: "A file, a volume of a mirrored pool, and such a volume over NVMe/TCP, on one disk"
            .into(),
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

/// A sentence on the rates of the pool over NVMe/TCP, the last target, beside those of the file, the first one.
fn conclusion(report: &Report) -> String {
    let last = report.targets.len() - 1;
    let rows = report.rows.iter().filter(|row| row.target == last);
    let is_doubtful = |row: &&Row| row.verdict.weight().is_some();
    let doubtful = rows.clone().filter(is_doubtful).count();
    let ratios = rows.filter(|row| !is_doubtful(row)).filter_map(|row| {
        let ratio = row.ratio(report.base(row)?)?;
        Some((row.workload.writes(), ratio.median))
    });
    let (writes, reads): (Vec<_>, Vec<_>) = ratios.partition(|(writes, _)| *writes);
    let span = |rates: &[(bool, f64)]| {
        let low = rates.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
        let high = rates.iter().map(|r| r.1).fold(0.0, f64::max);
        match rates.is_empty() {
            true => "no valid row of".to_owned(),
            false if rates.len() == 1 => format!("{low:.2} times the file's rate in"),
            false => format!("{low:.2} to {high:.2} times the file's rate in"),
        }
    };
    let mut text = format!(
        "This shows: a volume of a mirrored pool, over NVMe/TCP, with checksums and two copies of each block, does {} reads, and \
         {} writes. Both copies go to one disk here: 0.5 is the most for large writes.",
        span(&reads),
        span(&writes)
    );
    if doubtful > 0 {
        let rows = if doubtful == 1 { "row" } else { "rows" };
        text += &format!(" {doubtful} {rows} of it, flagged or refused above, are not counted.");
    }
    wrap(&text, "", 110)
}

fn deliver(report: &Report, args: &Demo, served: &Served) -> Result<()> {
    if args.json {
        return print(&fio::text(report));
    }
    if let Some(path) = &args.html {
        write(path, &html::render(report))?;
    }
    let at = served.addresses();
    let (nvme, discovery) = (at.nvme, at.discovery);
    print(&format!(
        "{}\n{}\nA Linux client, as root (modprobe nvme-tcp), while it serves (--keep):\n  \
         nvme discover -t tcp -a {} -s {}\n  nvme connect -t tcp -a {} -s {} -n {NQN}\n  nvme disconnect -n {NQN}\n",
        table::render(report, false),
        conclusion(report),
        discovery.ip(),
        discovery.port(),
        nvme.ip(),
        nvme.port(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::sample;

    #[test]
    fn the_conclusion_counts_no_doubtful_rows() {
        let report = sample();
        let last = report.targets.len() - 1;
        let text = conclusion(&report).replace('\n', " ");
        let of_last = report.rows.iter().filter(|r| r.target == last);
        let doubtful = of_last.filter(|r| r.verdict.weight().is_some()).count();
        assert!(doubtful > 0, "the sample has some");
        assert!(text.contains(&format!("{doubtful} row")), "{text}");
        assert!(
            text.contains("times the file's rate") || text.contains("no valid row"),
            "{text}"
        );
    }
}
