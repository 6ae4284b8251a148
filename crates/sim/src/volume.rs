//! A volume of a pool, without a network: power cuts and failing media against the model.

use crate::Report;
use crate::access::Direct;
use crate::model::{Model, Violation};
use crate::rewind::{self, Past};
use crate::settings::Settings;
use crate::sides;
use crate::snapshots::{self, Snapshots};
use crate::store::Wrap;
use crate::workload::{Expected, Job, Profile, verify_all};
use backend::{BlockBackend, StorageError};
use io::disk::{self, Disk};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, SimDisk};
use io::time::sleep;
use io::{spawn, timeout};
use pool::format::{ChecksumKind, Host, JournalLayout, Packing, Sync};
use pool::inspect::{Findings, Image};
use pool::vdev::{OpenOptions, PoolSpec, Scan, SetupError, SideState, create, open, scan};
use pool::{NewVolume, Options, Pool};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const VOLUME: &str = "model";
/// What a small volume's nodes may take beyond its quota.
const QUOTA_SLACK: u64 = 64 << 10;

/// What a seed decides.
#[derive(Debug, Clone)]
struct Plan {
    disks: usize,
    disk: DiskConfig,
    /// Of each vdev.
    sides: usize,
    /// Of all vdevs.
    ashift: Option<u8>,
    journal: JournalLayout,
    volume: NewVolume,
    options: Options,
    lives: Vec<End>,
    jobs: u64,
    profile: Profile,
    /// Longest pause between two checkpoints that somebody asks for.
    checkpoints: Duration,
    /// Other volumes come and go.
    churn: bool,
    /// Snapshots and clones come and go.
    snapshots: bool,
    /// Sides are taken out, attached, detached and replaced; disks that may become one.
    spares: usize,
    fault: Fault,
    /// Which side of each mirror: it changes when the mirrors are whole again.
    faulty: Rc<Cell<usize>>,
}

/// What is the matter with one side of each mirror. The other one is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// What it holds changes by itself.
    Rot,
    /// Reads, writes and flushes fail now and then.
    Errors,
    /// It takes long.
    Stalls,
}

#[derive(Debug, Clone, Copy)]
enum End {
    /// The power goes after so many disk steps, or when the work is done.
    PowerCut(u64),
    /// The process is killed after this time, or when the work is done.
    Kill(Duration),
    /// The pool is closed when the work is done.
    Close,
}

impl Plan {
    fn new(rng: &mut Prng) -> Plan {
        let block_size: u32 = if rng.chance(0.5) { 512 } else { 4096 };
        let record_size = 4096 << rng.below(4);
        let blocks = 16 + rng.below(600);
        let hot = blocks / (1 + rng.below(8));
        let lives = (0..rng.below(6))
            .map(|_| {
                let longest = 1 << (4 + rng.below(9));
                match rng.below(6) {
                    0 => End::Kill(Duration::from_micros(10 * rng.below(longest))),
                    1 => End::Close,
                    _ => End::PowerCut(rng.below(longest)),
                }
            })
            .collect();
        let disk = DiskConfig {
            size: (64 + rng.below(64)) << 20,
            logical_block: 4096,
            physical_block: 4096,
            atomic_unit: 4096,
            volatile_cache: rng.chance(0.9),
            trims_to_garbage: true,
            ..DiskConfig::default()
        };
        let profile = Profile {
            requests: 5 + rng.below(120) as u32,
            blocks_max: 1 + rng.below(64),
            hot: 0..hot.max(1),
            pause: Duration::from_micros(rng.below(500)),
            fused_max: 4,
            latency_max: None,
            expected: Expected::default(),
        };
        let sides = 1 + rng.below(2) as usize;
        let mut plan = Plan {
            disks: sides * (1 + rng.below(2) as usize),
            disk,
            sides,
            ashift: None,
            journal: JournalLayout {
                segment_size: (64 + 64 * rng.below(8) as u32) << 10,
                segments: 4 + rng.below(8) as u32,
            },
            volume: NewVolume {
                name: VOLUME.into(),
                size: blocks * u64::from(block_size),
                block_size,
                record_size,
                sync: if rng.chance(0.2) {
                    Sync::Always
                } else {
                    Sync::Standard
                },
                compression: Packing::Off,
                checksum: ChecksumKind::Xxh3,
            },
            options: Options {
                cache_bytes: 64 << 10,
                record_cache_bytes: 0,
                dirty_bytes: 256 << 10 << rng.below(6),
                buffer_bytes: 8 << 20,
                freeing_max: 0,
            },
            lives,
            jobs: 1 + rng.below(8),
            profile,
            checkpoints: Duration::from_micros(100 + rng.below(20_000)),
            churn: rng.chance(0.5),
            snapshots: rng.chance(0.6),
            spares: 0,
            faulty: Rc::default(),
            fault: match rng.below(6) {
                0 if sides > 1 => Fault::Rot,
                1 if sides > 1 => Fault::Errors,
                2 => Fault::Stalls,
                _ => Fault::None,
            },
        };
        plan.options.freeing_max = 1 << rng.below(12);
        // of its own, so that older seeds are what they were
        let mut rng = Prng::new(rng.u64() ^ 0x51de);
        if plan.fault == Fault::None && rng.chance(0.4) {
            plan.spares = 1 + rng.below(2) as usize;
        }
        plan
    }

    /// How the volume's records are stored. Every other disk has sectors of 512 bytes, so that most records can be smaller.
    fn furnish(&mut self, rng: &mut Prng) {
        if rng.chance(0.5) {
            self.ashift = Some(9);
            self.disk.logical_block = 512;
            self.disk.physical_block = 512;
            self.disk.atomic_unit = 512;
        }
        let set = Settings::new(rng);
        self.volume.compression = set.compression;
        self.volume.checksum = set.checksum;
        if rng.chance(0.7) {
            self.options.record_cache_bytes = 64 << 10 << rng.below(6);
        }
    }

    fn break_disks(&self, disks: &[SimDisk], rng: &mut Prng) {
        for disk in disks.iter().skip(self.faulty.get()).step_by(self.sides) {
            match self.fault {
                Fault::None => {}
                Fault::Rot => {
                    let start = rng.below(self.disk.size);
                    let len = 1 << rng.below(24);
                    disk.rot(start..(start + len).min(self.disk.size));
                }
                Fault::Errors => {
                    let rate = rng.below(30) as f64 / 100.0;
                    disk.error_rates(rate, rate, rate / 4.0);
                }
                Fault::Stalls => disk.stall_next(Duration::from_secs(30)),
            }
        }
    }

    fn heal(&self) {
        let disks = (0..self.disks).filter_map(|n| Node::current().disk(format!("disk{n}")));
        disks.for_each(SimDisk::heal);
    }

    fn names(&self) -> Vec<String> {
        let disks = 0..self.disks + self.spares;
        disks.map(|n| format!("disk{n}")).collect()
    }

    /// The disks that a pool is made of, or all that may have become one of its sides.
    async fn disks(&self, all: bool) -> Vec<Disk> {
        let mut names = self.names();
        names.truncate(if all { names.len() } else { self.disks });
        let mut disks = Vec::new();
        for name in names {
            loop {
                match Disk::open(&name, disk::OpenOptions::default()).await {
                    Ok(disk) => break disks.push(disk),
                    // Requests of a killed process still hold it.
                    Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
                    Err(e) => panic!("a disk that is there opens: {e}"),
                }
            }
        }
        disks
    }

    /// The pool, which is made if there is none yet.
    async fn open(&self) -> Result<Pool, Violation> {
        self.open_at(None).await
    }

    /// The same as of an older uberblock.
    async fn open_at(&self, rewind: Option<u64>) -> Result<Pool, Violation> {
        let host = Host {
            id: [7; 16],
            name: "sim".into(),
        };
        let inspected = self.inspect().await?;
        let Scan { mut pools, unread } = scan(self.disks(true).await).await;
        let opened = match pools.pop() {
            Some(found) if !found.uberblocks.is_empty() => {
                let options = OpenOptions {
                    rewind,
                    ..OpenOptions::new(host.clone())
                };
                match open(found, options).await {
                    // of a side that fails now and then, not one copy of the label could be read
                    Err(SetupError::SideMissing { .. }) if self.fault == Fault::Errors => {
                        self.heal();
                        let found = scan(self.disks(true).await).await.pools.pop();
                        open(found.expect("a pool"), OpenOptions::new(host)).await
                    }
                    other => other,
                }
            }
            // its making was cut short
            other => {
                drop((other, unread));
                // nobody makes a pool of disks that fail
                self.heal();
                let mut disks = self.disks(false).await;
                let mut vdevs = Vec::new();
                while !disks.is_empty() {
                    vdevs.push(disks.drain(..self.sides.min(disks.len())).collect());
                }
                let mut spec = PoolSpec::new("tank", vdevs, host);
                spec.journal = Some(self.journal);
                spec.ashift = self.ashift;
                spec.force = true;
                create(spec).await
            }
        };
        let opened = opened.map_err(|e| Violation(format!("the devices do not open: {e}")))?;
        let pool = Pool::open(opened, self.options).await;
        let pool = pool.map_err(|e| Violation(format!("the pool does not open: {e}")))?;
        let space = pool.space();
        match inspected {
            Some(taken) if rewind.is_none() && taken != space.used + space.freeing => {
                Err(Violation(format!(
                    "the offline reader has {taken} bytes taken, the pool {space:?}"
                )))
            }
            _ => Ok(pool),
        }
    }

    /// The disks that an offline reader is given: one that was detached, or never attached, is no pool's.
    async fn labelled(&self) -> Vec<Disk> {
        let disks = self.disks(true).await;
        if self.spares == 0 {
            return disks;
        }
        let mut labelled = Vec::new();
        for disk in disks {
            let found = scan(vec![disk.clone()]).await;
            if !found.pools.is_empty() {
                labelled.push(disk);
            }
        }
        labelled
    }

    /// What an offline reader says of the disks as the last life left them: bytes that are taken. What one side of a
    /// mirror has wrong is told, and no violation, where that side is made to fail.
    async fn inspect(&self) -> Result<Option<u64>, Violation> {
        let faulty = matches!(self.fault, Fault::Rot | Fault::Errors);
        let image = match Image::open(self.labelled().await).await {
            Ok(image) if !image.uberblocks.is_empty() => image,
            _ => return Ok(None),
        };
        let wrong = |e: &dyn std::fmt::Display| Violation(format!("the offline reader: {e}"));
        let mut findings = Findings::default();
        image.check_disks(&mut findings);
        let newest = image.uberblock(None).map_err(|e| wrong(&e))?;
        let contents = image.contents(newest, &mut findings).await;
        let contents = contents.map_err(|e| wrong(&e))?;
        let journal = image.journal(&newest).await;
        let found = image.verify(&contents, &journal, true, |_| ()).await;
        let mut damage = findings.damage.iter().chain(&found.findings.damage);
        // nor is what cannot be read now lost, if reads fail by chance
        let by_chance = matches!(self.fault, Fault::Errors);
        match damage.find(|finding| !faulty || finding.lost && !by_chance) {
            Some(finding) => Err(wrong(finding)),
            // a side that fails may come to be out before the pool says what is used
            None => Ok((!faulty).then_some(found.taken)),
        }
    }
}

/// Runs inside the simulation that is running. Errors: what must not have happened.
pub async fn run(seed: u64, wrap: Wrap) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x9001_e000);
    let mut plan = Plan::new(&mut rng);
    plan.furnish(&mut Prng::new(seed ^ 0x9001_f000));
    let node = Node::new();
    let names = plan.names().into_iter();
    let disks: Vec<SimDisk> = names
        .map(|name| node.create_disk(name, plan.disk.clone()))
        .collect();
    let block_size = plan.volume.block_size;
    let blocks = plan.volume.size / u64::from(block_size);
    let model = Rc::new(RefCell::new(Model::new(block_size, blocks)));
    let kept = Rc::new(RefCell::new(Snapshots::default()));
    let mut crashes = 0;
    for life in 0..=plan.lives.len() {
        let end = plan.lives.get(life).copied().unwrap_or(End::Close);
        if let End::PowerCut(steps) = end {
            node.power_cut_after(steps);
        }
        if life > 0 {
            plan.break_disks(&disks, &mut rng);
        }
        let shared = (model.clone(), kept.clone());
        let work = live(plan.clone(), shared, rng.u64(), wrap, end);
        let work = node.spawn(work);
        let done = match end {
            End::Kill(after) => timeout(after, work).await.ok().flatten(),
            End::PowerCut(_) | End::Close => work.await,
        };
        if let Some(Err(violation)) = done {
            return Err(violation);
        }
        if let End::PowerCut(_) = end {
            if node.is_on() {
                node.power_cut();
            }
            crashes += 1;
            model.borrow_mut().crash();
            node.power_on();
        } else {
            if let End::Kill(_) = end {
                // what was only in the memory of the process is gone
                model.borrow_mut().crash();
            }
            node.kill();
        }
        if let Some(v) = model.borrow().violation() {
            return Err(v.clone());
        }
    }
    disks.iter().for_each(|disk| disk.heal());
    let outside = (model.clone(), kept);
    let check = node.spawn(check(plan.clone(), outside, rng.u64(), wrap));
    if let Some(past) = check.await.transpose()?.flatten() {
        node.kill();
        let back = node.spawn(go_back(plan, past));
        back.await.transpose()?;
    }
    let model = model.borrow();
    match model.violation() {
        Some(v) => Err(v.clone()),
        None => Ok(Report {
            answered: model.answered,
            crashes,
        }),
    }
}

/// What outlives the server.
type Outside = (Rc<RefCell<Model>>, Rc<RefCell<Snapshots>>);

async fn check(
    plan: Plan,
    (model, kept): Outside,
    seed: u64,
    wrap: Wrap,
) -> Result<Option<Past>, Violation> {
    let mut rng = Prng::new(seed);
    let pool = plan.open().await?;
    let volume = pool.volume(VOLUME);
    if let Some(volume) = volume {
        verify_all(&Direct(wrap(Arc::new(volume))), &model, 64).await;
    }
    Snapshots::check(&kept, &pool, VOLUME).await?;
    sound(&pool, 1).await?;
    let done = pool.checkpoint().await;
    done.map_err(|e| Violation(format!("a checkpoint: {e}")))?;
    sound(&pool, 2).await?;
    while pool.is_freeing() {
        let done = pool.checkpoint().await;
        done.map_err(|e| Violation(format!("a checkpoint: {e}")))?;
    }
    sound(&pool, 4).await?;
    let past = match pool.volume(VOLUME) {
        Some(volume) => rewind::prepare(&pool, &volume, &mut rng).await?,
        None => None,
    };
    // closing writes a checkpoint more
    if past.is_none() {
        let closed = pool.close().await;
        closed.map_err(|e| Violation(format!("closing: {e}")))?;
    }
    Ok(past)
}

/// The pool is what it was, and its space adds up.
async fn go_back(plan: Plan, past: Past) -> Result<(), Violation> {
    let pool = plan.open_at(Some(past.sequence)).await?;
    let volume = pool.volume(VOLUME);
    let volume = volume.ok_or_else(|| Violation("a rewind lost the volume".into()))?;
    if snapshots::contents(volume).await? != past.contents {
        return Err(Violation("a rewind brought something else back".into()));
    }
    sound(&pool, 5).await?;
    let done = pool.checkpoint().await;
    done.map_err(|e| Violation(format!("a checkpoint: {e}")))?;
    sound(&pool, 6).await?;
    let closed = pool.close().await;
    closed.map_err(|e| Violation(format!("closing: {e}")))
}

/// Nothing of the pool is wrong, and its space adds up.
async fn sound(pool: &Pool, n: u32) -> Result<(), Violation> {
    let found = pool.verify().await;
    match found {
        Ok(report) if report.problems.is_empty() => Ok(()),
        Ok(report) => Err(Violation(format!(
            "the pool is not sound {n}: {:?}",
            report.problems
        ))),
        Err(e) => Err(Violation(format!("the pool cannot be verified: {e}"))),
    }
}

/// One life of the server: reads what the last one left, then works until it is done or without power.
async fn live(
    plan: Plan,
    (model, kept): Outside,
    seed: u64,
    wrap: Wrap,
    end: End,
) -> Result<(), Violation> {
    let pool = Rc::new(plan.open().await?);
    let volume = match pool.volume(VOLUME) {
        Some(volume) => volume,
        None => {
            let created = pool.create_volume(plan.volume.clone()).await;
            created.map_err(|e| Violation(format!("a volume cannot be made: {e}")))?
        }
    };
    let access = Direct(wrap(Arc::new(volume)));
    verify_all(&access, &model, 16).await;
    Snapshots::check(&kept, &pool, VOLUME).await?;
    sound(&pool, 3).await?;
    snapshots::remove_clone(&pool, VOLUME).await?;
    let mut rng = Prng::new(seed);
    let settings = Settings::new(&mut Prng::new(seed ^ 0x5e77));
    settings.apply(&pool, VOLUME, &model).await?;
    if plan.sides > 1 && rng.chance(0.4) {
        if plan.spares > 0 {
            sides::gather(&pool).await?;
        }
        mend(&plan, &pool).await?;
    }
    let mut others = Vec::new();
    if plan.spares > 0 {
        let names = plan.names();
        others.push(spawn(sides::churn(pool.clone(), names, rng.u64())));
    }
    if plan.churn {
        others.push(spawn(churn(pool.clone(), rng.u64())));
    }
    if plan.snapshots {
        let (name, kept) = (VOLUME.to_owned(), kept.clone());
        let seed = rng.u64();
        let churn = snapshots::churn(pool.clone(), name, kept, model.clone(), seed);
        others.push(spawn(churn));
    }
    let (checkpoints, of) = (plan.checkpoints, pool.clone());
    let checkpoints = spawn(async move {
        loop {
            sleep(checkpoints).await;
            if of.checkpoint().await.is_err() {
                return;
            }
        }
    });
    let jobs: Vec<_> = (0..plan.jobs)
        .map(|_| {
            let (access, model) = (access.clone(), model.clone());
            spawn(Job::new(access, model, rng.u64(), plan.profile.clone()).run())
        })
        .collect();
    for job in jobs {
        job.await;
    }
    checkpoints.abort();
    for other in others {
        if let Some(Err(violation)) = other.await {
            return Err(violation);
        }
    }
    if let End::Close = end {
        drop(access);
        let _aborted = checkpoints.await;
        let Ok(pool) = Rc::try_unwrap(pool) else {
            return Err(Violation("somebody still holds the pool".into()));
        };
        let closed = pool.close().await;
        closed.map_err(|e| Violation(format!("closing: {e}")))?;
    }
    Ok(())
}

/// Both sides of each mirror have everything again; the other one fails from now on.
async fn mend(plan: &Plan, pool: &Pool) -> Result<(), Violation> {
    plan.heal();
    let vdevs = pool.vdevs();
    let sides = || vdevs.status().into_iter().flat_map(|vdev| vdev.sides);
    for side in sides().filter(|side| side.state == SideState::Faulted) {
        let online = vdevs.online(side.guid, None).await;
        online.map_err(|e| Violation(format!("a side does not come back: {e}")))?;
    }
    let resilvered = pool.resilver(|_| ()).await;
    resilvered.map_err(|e| Violation(format!("resilvering: {e}")))?;
    if let Some(side) = sides().find(|side| side.state != SideState::Online) {
        return Err(Violation(format!("a resilvered side is not in: {side:?}")));
    }
    let scrubbed = pool.scrub(|_| ()).await;
    let scrubbed = scrubbed.map_err(|e| Violation(format!("scrubbing: {e}")))?;
    if !scrubbed.lost.is_empty() || !scrubbed.damaged.is_empty() {
        return Err(Violation(format!(
            "a scrub found what is lost: {scrubbed:?}"
        )));
    }
    // labels and journal are not scrubbed: rot is to meet them on one side only
    if plan.fault != Fault::Rot {
        plan.faulty.set(1 - plan.faulty.get());
    }
    Ok(())
}

/// Another volume that comes, is written to, and goes.
async fn churn(pool: Rc<Pool>, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let wrong = |what: &str, e: &dyn std::fmt::Debug| Violation(format!("{what}: {e:?}"));
    for round in 0..rng.below(4) {
        let name = format!("other{}", rng.below(3));
        if pool.volume(&name).is_some() {
            let gone = pool.destroy_volume(&name).await;
            gone.map_err(|e| wrong("destroying", &e))?;
            continue;
        }
        let new = NewVolume {
            name,
            size: 4 << 20,
            block_size: 4096,
            record_size: 4096 << rng.below(3),
            sync: Sync::Standard,
            compression: Packing::Lz4,
            checksum: ChecksumKind::Xxh3,
        };
        let volume = pool.create_volume(new).await;
        let volume = volume.map_err(|e| wrong("creating", &e))?;
        // nothing of it is promised, and that is to change nothing for the model's volume
        if rng.chance(0.3) {
            let name = volume.dataset().name;
            let set = pool.change_volume(&name, |d| d.sync = Sync::Disabled);
            set.await.map_err(|e| wrong("setting", &e))?;
        }
        let quota = if rng.chance(0.5) {
            64 << 10 << rng.below(4)
        } else {
            0
        };
        let reservation = rng.below(1 << 18).min(quota);
        let limited = pool
            .set_limits(&volume.dataset().name, quota, reservation)
            .await;
        limited.map_err(|e| wrong("limiting", &e))?;
        for _ in 0..rng.below(32) {
            let mut buf = io::pool().alloc(4096 << rng.below(5)).await;
            buf.fill(round as u8 + 1);
            let at = backend::Lba(rng.below(900));
            let written = volume.write(at, buf).await;
            match written {
                Err(StorageError::NoSpace) if quota != 0 => {}
                other => other.map_err(|e| wrong("writing", &e))?,
            }
            let space = pool.volume_spaces().remove(&volume.dataset().name);
            let space = space.ok_or_else(|| Violation("a volume takes no space".into()))?;
            if quota != 0 && space.used > quota + QUOTA_SLACK {
                return Err(Violation(format!("beyond its quota: {space:?}")));
            }
        }
        if rng.chance(0.5) {
            let _proof = volume.flush().await.map_err(|e| wrong("flushing", &e))?;
        }
        sleep(Duration::from_micros(rng.below(5000))).await;
        if rng.chance(0.3) {
            let (old, new) = (volume.dataset().name, format!("other{}", 3 + rng.below(3)));
            match pool.rename_volume(&old, &new).await {
                Err(pool::Error::Exists) => {
                    let gone = pool.destroy_volume(&new).await;
                    gone.map_err(|e| wrong("destroying", &e))?;
                }
                other => other.map_err(|e| wrong("renaming", &e))?,
            }
        }
    }
    Ok(())
}
