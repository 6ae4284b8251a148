//! `wirepool drill`: rehearses failures on a scratch volume, and judges.
//!
//! **Owns** the kinds of drill. **Called by** `main`. **Invariants**: the only volume that a drill writes to is one that it made
//! under a name that did not exist; a server is killed only if the drill started it (decision 0409); exit code 0 means that the
//! drill passed.

mod cable;
mod carry_out;
mod full;
mod ground;
mod interrupt;
mod kill;
mod lost_class;
mod lost_disk;
mod mark;
mod observer;
mod own;
mod powercut;
mod request;
mod scratch;
mod slow_disk;

use crate::ask::{exact, print};
use crate::cli::drill::{
    CableArgs, Common, DrillArgs, DrillKind, FullArgs, KillArgs, LostClass, LostDiskArgs,
    SlowDiskArgs,
};
use anyhow::{Context, Result};
use cable::CableCut;
use carry_out::{Exercise, Means, carry_out, quota};
use drill::Report;
use full::{Full, Limit};
use ground::Ground;
use kill::Kill;
use lost_class::{DeviceLoss, Loss};
use lost_disk::MemberLoss;
use powercut::{Power, PowerCut};
use server::api::VolumeSync;
use slow_disk::Slow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Carries out a drill and prints its report.
pub(crate) fn run(args: DrillArgs, control: Option<PathBuf>, json: bool) -> Result<ExitCode> {
    let interrupt = interrupt::handle()?;
    let (report, common) = match args.kind {
        DrillKind::Cable(args) => (cable_drill(&args, control, interrupt)?, args.common),
        DrillKind::Kill(args) => (kill_drill(&args, interrupt)?, args.common),
        DrillKind::Powercut(args) => (powercut_drill(&args, interrupt)?, args.common),
        DrillKind::SlowDisk(args) => (slow_disk_drill(&args, interrupt)?, args.common),
        DrillKind::LostDisk(args) => (lost_disk_drill(&args, control, interrupt)?, args.common),
        DrillKind::Full(args) => (full_drill(&args, control, interrupt)?, args.common),
    };
    tell(&report, &common, json)
}

fn tell(report: &Report, common: &Common, json: bool) -> Result<ExitCode> {
    if let Some(path) = &common.html {
        let page = drill::html(report);
        std::fs::write(path, page).with_context(|| path.display().to_string())?;
        eprintln!("wrote {}", path.display());
    }
    match json {
        true => print(&exact(&serde_json::to_string_pretty(report)?))?,
        false => print(&report.text())?,
    }
    Ok(match report.passed() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn cable_drill(
    args: &CableArgs,
    control: Option<PathBuf>,
    interrupt: Arc<AtomicBool>,
) -> Result<Report> {
    let common = &args.common;
    let pool = args.pool.as_deref();
    let ground = Ground::choose(control, pool, common.dir.as_deref(), common.size)?;
    let cuts = match args.cut.is_empty() {
        true => cable::default_cuts(common.time),
        false => args.cut.clone(),
    };
    let exercise = Exercise {
        kind: "cable",
        volume: args.volume.as_deref(),
        sync: None,
        common,
        notes: Vec::new(),
        interrupt,
    };
    carry_out(exercise, &ground, |Means { relay, .. }| {
        let cut = |cut| CableCut {
            relay: relay.clone(),
            cut,
        };
        cuts.into_iter().map(cut).collect()
    })
}

/// The drill of a server that crashes.
fn crash<'a>(
    kind: &'static str,
    note: &str,
    args: &'a KillArgs,
    interrupt: Arc<AtomicBool>,
) -> Exercise<'a> {
    let mut notes = vec![note.to_owned()];
    notes.extend(args.sync_disabled.then(|| {
        "sync=disabled: the server confirms flushes without stable storage, so this drill is expected to fail".to_owned()
    }));
    Exercise {
        kind,
        volume: None,
        sync: args.sync_disabled.then_some(VolumeSync::Disabled),
        common: &args.common,
        notes,
        interrupt,
    }
}

fn kill_drill(args: &KillArgs, interrupt: Arc<AtomicBool>) -> Result<Report> {
    let common = &args.common;
    let ground = Ground::own(common.dir.as_deref(), common.size)?;
    let server = ground
        .own_server()
        .context("a server of the drill's own")?
        .clone();
    let times = kill::default_times(common.time);
    let note = "after SIGKILL the kernel keeps data that the server had written: see `wirepool drill powercut`";
    let exercise = crash("kill", note, args, interrupt);
    carry_out(
        exercise,
        &ground,
        move |Means {
                  relay, timeline, ..
              }| {
            let kill = |dead| Kill {
                server: server.clone(),
                relay: relay.clone(),
                timeline: timeline.clone(),
                dead,
            };
            times.into_iter().map(kill).collect()
        },
    )
}

fn powercut_drill(args: &KillArgs, interrupt: Arc<AtomicBool>) -> Result<Report> {
    let common = &args.common;
    let ground = Ground::recorded(common.dir.as_deref(), common.size)?;
    let server = ground
        .own_server()
        .context("a server of the drill's own")?
        .clone();
    let seed = u64::from(std::process::id());
    let power = Power::new(&server.borrow(), ground::disk_size(common.size), seed)?;
    let power = Rc::new(RefCell::new(power));
    let times = kill::default_times(common.time);
    let note = "writes that no flush had covered were lost, torn or kept; disks that confirm a flush and do not make it are not rehearsed";
    let exercise = crash("powercut", note, args, interrupt);
    carry_out(
        exercise,
        &ground,
        move |Means {
                  relay, timeline, ..
              }| {
            let cut = |dead| PowerCut {
                server: server.clone(),
                power: power.clone(),
                relay: relay.clone(),
                timeline: timeline.clone(),
                dead,
            };
            times.into_iter().map(cut).collect()
        },
    )
}

fn slow_disk_drill(args: &SlowDiskArgs, interrupt: Arc<AtomicBool>) -> Result<Report> {
    let common = &args.common;
    let ground = Ground::own(common.dir.as_deref(), common.size)?;
    let server = ground
        .own_server()
        .context("a server of the drill's own")?
        .clone();
    let note =
        "one disk of the mirror was slow at a time; none was slow enough to be faulted as hung";
    let exercise = Exercise {
        kind: "slow-disk",
        volume: None,
        sync: None,
        common,
        notes: vec![note.to_owned()],
        interrupt,
    };
    let times = slow_disk::default_times(common.time);
    carry_out(exercise, &ground, move |Means { timeline, .. }| {
        let slow = |(length, delay, disk)| Slow {
            server: server.clone(),
            timeline: timeline.clone(),
            disk,
            delay,
            length,
        };
        times.into_iter().map(slow).collect()
    })
}

fn lost_disk_drill(
    args: &LostDiskArgs,
    control: Option<PathBuf>,
    interrupt: Arc<AtomicBool>,
) -> Result<Report> {
    let exercise = |notes| Exercise {
        kind: "lost-disk",
        volume: None,
        sync: None,
        common: &args.common,
        notes,
        interrupt,
    };
    let offline = "members went offline by request, as with `wirepool pool offline`: their disks were not harmed";
    match &args.pool {
        Some(pool) => lost_members(args, (control, pool), offline, exercise),
        None => lost_classes(args, offline, exercise),
    }
}

/// Members of a pool of the running server are lost in turn.
fn lost_members<'a>(
    args: &LostDiskArgs,
    (control, pool): (Option<PathBuf>, &str),
    offline: &str,
    exercise: impl FnOnce(Vec<String>) -> Exercise<'a>,
) -> Result<Report> {
    let ground = Ground::running(control, pool)?;
    let members = lost_disk::check(ground.client(), pool, &args.member)?;
    eprintln!(
        "if this drill is killed, a member may stay offline: `wirepool pool online {pool} DISK` for {}",
        members.join(", ")
    );
    let kept = "members whose vdevs would not be redundant without them were not taken";
    let notes = vec![offline.to_owned(), kept.to_owned()];
    let times = lost_disk::default_times(args.common.time, 0);
    let (client, pool) = (ground.client().clone(), pool.to_owned());
    carry_out(
        exercise(notes),
        &ground,
        move |Means { timeline, .. }| {
            let in_turn = times.into_iter().zip(members.iter().cycle());
            let loss = |(time, member): (_, &String)| {
                Loss::Member(MemberLoss {
                    client: client.clone(),
                    pool: pool.clone(),
                    member: member.clone(),
                    time,
                    timeline: timeline.clone(),
                })
            };
            in_turn.map(loss).collect()
        },
    )
}

/// Disks of each class of a pool of the drill's own are lost in turn.
fn lost_classes<'a>(
    args: &LostDiskArgs,
    offline: &str,
    exercise: impl FnOnce(Vec<String>) -> Exercise<'a>,
) -> Result<Report> {
    let ground = Ground::with_classes(args.common.dir.as_deref(), args.common.size)?;
    let server = ground
        .own_server()
        .context("a server of the drill's own")?
        .clone();
    let notes = vec![
        offline.to_owned(),
        "the log and the cache device failed every operation, as if they were pulled out, and were added again".to_owned(),
        "records were not kept in memory (primarycache=none), so that reads asked the devices".to_owned(),
    ];
    let in_turn = lost_class::in_turn(&args.class);
    let times = lost_disk::default_times(args.common.time, lost_class::least(&args.class));
    let client = ground.client().clone();
    carry_out(
        exercise(notes),
        &ground,
        move |Means { timeline, .. }| {
            let loss = |(time, (class, disk)): (_, (LostClass, &'static str))| match class {
                LostClass::Data | LostClass::Special => Loss::Member(MemberLoss {
                    client: client.clone(),
                    pool: own::POOL.to_owned(),
                    member: server.borrow().path(disk).display().to_string(),
                    time,
                    timeline: timeline.clone(),
                }),
                LostClass::Log | LostClass::Cache => Loss::Device(DeviceLoss {
                    server: server.clone(),
                    client: client.clone(),
                    timeline: timeline.clone(),
                    disk,
                    is_log: class == LostClass::Log,
                    time,
                }),
            };
            times.into_iter().zip(in_turn).map(loss).collect()
        },
    )
}

fn full_drill(
    args: &FullArgs,
    control: Option<PathBuf>,
    interrupt: Arc<AtomicBool>,
) -> Result<Report> {
    let common = &args.common;
    let pool = args.pool.as_deref();
    let ground = Ground::choose(control, pool, common.dir.as_deref(), common.size)?;
    let is_own = ground.own_server().is_some();
    let note = match is_own {
        true => "the pool was full: another volume had reserved all of its space",
        false => "only the quota of the scratch volume was used up: the pool was not filled",
    };
    let exercise = Exercise {
        kind: "full",
        volume: None,
        sync: None,
        common,
        notes: vec![note.to_owned()],
        interrupt,
    };
    let times = full::default_times(common.time);
    let quota = quota(common.size);
    let (client, pool) = (ground.client().clone(), ground.pool().to_owned());
    carry_out(
        exercise,
        &ground,
        move |Means {
                  timeline, volume, ..
              }| {
            let full = |time| Full {
                client: client.clone(),
                pool: pool.clone(),
                volume: volume.clone(),
                limit: match is_own {
                    true => Limit::Pool,
                    false => Limit::Quota(quota),
                },
                time,
                timeline: timeline.clone(),
            };
            times.into_iter().map(full).collect()
        },
    )
}
