//! Scenario `files`: a filesystem of a pool, with power cuts and kills amid all of its operations.
//!
//! **Owns** the incarnations of a run. **Called by** [`run_with`](crate::run_with). **Invariants** that it checks: after each start the
//! state is that after some prefix of the transactions ([`history`]), with all that was durable; it follows the rules of the
//! format ([`check`]); the pool is sound; snapshots have not changed. Where the disks are inspected before, the offline reader finds no
//! damage.

mod data;
mod history;
mod image;
mod owners;
mod plan;
mod rebuild;
mod record_sizes;
mod recorded;
mod snapshots;
mod verdict;
mod weak;

use crate::Report;
use crate::classes::{Classes, PAUSE_MAX, caches};
use crate::model::Violation;
use crate::offline;
use backend::file::{Caller, FileBackend, FileError, Handle, Name};
use backend::file::{IfExists, NewFile, NewKind, Stability};
use data::{Data, refused};
use history::History;
use image::Image;
use io::rng::Prng;
use io::sim::{Node, SimDisk, remark};
use io::time::sleep;
use io::{JoinHandle, spawn, timeout};
use owners::Owners;
use plan::{End, FILESYSTEM, Plan};
use pool::filesystem::{FileSystem, Store};
use pool::inspect::Finding;
use pool::{NewVolume, Placements, Pool};
use rebuild::rebuild;
use record_sizes::RecordSizes;
use recorded::{Recorded, SharedHistory};
use snapshots::Snapshots;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use testkit::files::random::Random;
use testkit::store::{check, check_charges};
use verdict::Between;

/// Files whose contents all tasks change.
const DATA: [&str; 3] = ["data0", "data1", "data2"];
/// Identifies the filesystem in handles.
const FSID: u64 = 7;
/// The other dataset of a nearly full pool.
const BALLAST: &str = "ballast";
/// Quotas are below this many bytes.
const QUOTA_MAX: u64 = 4 << 20;

/// What outlives an incarnation.
#[derive(Clone, Default)]
struct Outside {
    /// The changes of the last incarnation.
    history: Rc<RefCell<Option<SharedHistory>>>,
    snapshots: Snapshots,
    record_sizes: RecordSizes,
    /// Whether the last incarnation closed the pool.
    is_closed: Rc<Cell<bool>>,
    answered: Rc<Cell<u64>>,
    placements: Rc<Cell<Placements>>,
}

/// Runs one seed inside the present simulation. Fails with the violation.
pub(crate) async fn run(seed: u64) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0xf11e_5000);
    let mut plan = Plan::new(&mut rng);
    plan.record_sizes = Prng::new(seed ^ 0x5120_0000).chance(0.5);
    let mut layout = Prng::new(seed ^ 0x4a1d_f11e);
    if layout.chance(0.4) {
        plan.stripe(&mut layout);
    }
    // The seeds of the corpus are not among these.
    plan.is_at_ends = seed % 5 == 4;
    plan.classes = Classes::draw(seed);
    let plan = Rc::new(plan);
    let node = Node::new();
    plan.classes.create_disks(node, &plan.disk);
    let mut faults = caches::create(node, (plan.classes.has_cache, &plan.disk), seed);
    let names = plan.names().into_iter();
    let disks: Vec<SimDisk> = names
        .map(|name| node.create_disk(name, plan.disk.clone()))
        .collect();
    let outside = Outside::default();
    let made = node.spawn(create(plan.clone(), outside.clone()));
    made.await.transpose()?;
    node.kill();
    let mut crashes = 0;
    for life in 0..=plan.lives.len() {
        disks.iter().for_each(|disk| disk.heal());
        let end = plan.lives.get(life).copied().unwrap_or(End::Close);
        // An inspection changes the schedule that follows. The seeds of the corpus are not among these.
        if seed % 5 == 2 {
            node.spawn(inspect(plan.clone())).await.transpose()?;
        }
        caches::break_device(node, &mut faults);
        if let End::EarlyPowerCut(steps) = end {
            node.power_cut_after(steps);
        }
        plan.weak.set_away(plan.may_be_away && layout.chance(0.3));
        let away = plan.weak.away();
        remark(|| format!("life {life}: {end:?}, {away:?}"));
        let work = live(plan.clone(), outside.clone(), rng.u64(), end);
        let work = node.spawn(work);
        let done = match end {
            End::Kill(after) => timeout(after, work).await.ok().flatten(),
            End::PowerCut(_) | End::EarlyPowerCut(_) | End::Close => work.await,
        };
        done.transpose()?;
        match end {
            End::PowerCut(_) | End::EarlyPowerCut(_) => {
                if node.is_on() {
                    node.power_cut();
                }
                crashes += 1;
                node.power_on();
            }
            End::Kill(_) | End::Close => node.kill(),
        }
    }
    disks.iter().for_each(|disk| disk.heal());
    plan.weak.set_away(false);
    let last = async move |plan: Rc<Plan>, outside: Outside| {
        inspect(plan.clone()).await?;
        let pool = plan.open().await?;
        restart(&pool, &outside).await?;
        sound(&pool).await?;
        pool.checkpoint()
            .await
            .map_err(|e| failed("a checkpoint", &e))?;
        sound(&pool).await?;
        pool.close().await.map_err(|e| failed("closing", &e))
    };
    let last = node.spawn(last(plan, outside.clone()));
    last.await.transpose()?;
    Ok(Report {
        answered: outside.answered.get(),
        crashes,
        placements: outside.placements.get(),
    })
}

fn failed(what: &str, e: &dyn std::fmt::Display) -> Violation {
    Violation(format!("{what}: {e}"))
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a good name")
}

/// The first incarnation, without trouble: makes the pool, the filesystem, and the files of [`DATA`].
async fn create(plan: Rc<Plan>, outside: Outside) -> Result<(), Violation> {
    let pool = plan.create().await?;
    let store = pool.create_filesystem(plan.filesystem()).await;
    let store = store.map_err(|e| failed("a filesystem", &e))?;
    let files = FileSystem::open(store.clone(), FSID).await;
    let files = files.map_err(|e| failed("opening a filesystem", &e))?;
    for at in DATA {
        let new = NewFile {
            kind: NewKind::File,
            mode: 0o644,
            umask: None,
            acl: None,
        };
        let (caller, stability) = (Caller::root(), Stability::Cached);
        let (root, fail) = (files.root(), IfExists::Fail);
        let made = files.create(&caller, root, &name(at), new, fail, stability);
        made.await.map_err(|e| failed("a file", &e))?;
    }
    if let Some(left) = plan.left {
        let ballast = pool.create_volume(NewVolume::new(BALLAST, 1 << 30)).await;
        ballast.map_err(|e| failed("another volume", &e))?;
        let space = pool.space();
        let free = space.free.saturating_sub(space.reserved);
        let mut reservation = free.saturating_sub(left);
        // the pool keeps some space for itself
        while pool.set_limits(BALLAST, 0, reservation).await.is_err() {
            reservation -= (reservation / 8).max(1);
        }
    }
    drop(files);
    pool.close().await.map_err(|e| failed("closing", &e))?;
    outside.is_closed.set(true);
    Ok(())
}

/// Inspects the disks of the pool, which is not open: blocks, space, and the filesystem's contents at the checkpoint.
async fn inspect(plan: Rc<Plan>) -> Result<(), Violation> {
    let mut disks = plan.open_disks().await;
    if plan.spares > 0 || plan.classes.has_vdevs() {
        disks = offline::labelled(disks).await;
    }
    let found = offline::inspect(disks).await?;
    let found = found.ok_or_else(|| Violation("the offline reader: no uberblock".into()))?;
    // A disk that failed lacks blocks, which follow from the other disks.
    let wrong = |finding: &&Finding| finding.lost || !plan.fails;
    match found.damage.iter().find(wrong) {
        None => Ok(()),
        Some(finding) => Err(offline::wrong(finding)),
    }
}

/// Verifies the pool: no block is wrong, and space adds up.
async fn sound(pool: &Pool) -> Result<(), Violation> {
    let report = pool.verify().await;
    let report = report.map_err(|e| failed("the pool cannot be verified", &e))?;
    match report.problems.is_empty() {
        true => Ok(()),
        false => Err(Violation(format!(
            "the pool is not sound: {:?}",
            report.problems
        ))),
    }
}

/// Judges the filesystem after a start. Returns its new, empty history. An end amid it changes nothing that is known: the next start
/// is judged by the same history.
async fn restart(pool: &Pool, outside: &Outside) -> Result<SharedHistory, Violation> {
    let store = pool.filesystem(FILESYSTEM);
    let store = store.ok_or_else(|| Violation("the filesystem is gone".into()))?;
    let found = Image::read(&store).await?;
    check(&found.state);
    check_charges(&found.state);
    let before = outside.history.borrow().clone();
    if let Some(history) = before {
        snapshots::check_all(&outside.snapshots, pool, &history).await?;
        let history = history.lock();
        let end = history.mark();
        let between = Between {
            floor: outside.is_closed.get().then_some(end),
            end,
            is_exact: outside.is_closed.get(),
        };
        // Equal: nothing was changed since the opening before, so that the next one may have its epoch.
        if found.change_floor < history.highest_change() {
            return Err(Violation(format!(
                "the filesystem tells change from {:#x} on, but {:#x} was told before the restart",
                found.change_floor,
                history.highest_change()
            )));
        }
        let judged = history.judge(&found, between);
        let rolled = outside.snapshots.borrow().rolling.clone();
        match (judged, rolled) {
            (Ok(has), _) => remark(|| format!("found {has} of {} transactions", end.transactions)),
            (Err(_), Some(image)) if image.is_same(&found) => {}
            (Err(violation), _) => return Err(violation),
        }
    }
    let settings = store.settings();
    outside.record_sizes.judge(settings.record_size)?;
    outside.is_closed.set(false);
    outside.snapshots.borrow_mut().rolling = None;
    let history = History::new(found, settings.base_record_size);
    let history = SharedHistory::new(history);
    *outside.history.borrow_mut() = Some(history.clone());
    Ok(history)
}

/// One incarnation of the server.
async fn live(plan: Rc<Plan>, outside: Outside, seed: u64, end: End) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    let pool = Rc::new(plan.open().await?);
    plan.classes.begin(&pool, seed).await?;
    let mut history = restart(&pool, &outside).await?;
    sound(&pool).await?;
    if let End::PowerCut(steps) = end {
        Node::current().power_cut_after(steps);
    }
    if plan.snapshots
        && rng.chance(0.2)
        && let Some(image) = snapshots::roll_back(&outside.snapshots, &pool).await?
    {
        let record_size = plan.filesystem().record_size;
        history = SharedHistory::new(History::new((*image).clone(), record_size));
        *outside.history.borrow_mut() = Some(history.clone());
    }
    let rebuilds = plan.may_be_away && !plan.weak.away().is_one() && rng.chance(0.5);
    let is_beside = rebuilds && rng.chance(0.5);
    if rebuilds && !is_beside {
        rebuild(plan.clone(), pool.clone(), rng.u64()).await?;
    }
    if plan.fails && !is_beside {
        plan.weak.fail(rng.below(30) as f64 / 100.0);
    }
    let store = pool.filesystem(FILESYSTEM);
    let store = store.ok_or_else(|| Violation("the filesystem is gone".into()))?;
    let recorded = Recorded {
        store,
        history: history.clone(),
    };
    let files = FileSystem::open(recorded, FSID).await;
    let files = files.map_err(|e| failed("opening the filesystem", &e))?;
    let rebuild = is_beside.then(|| rebuild(plan.clone(), pool.clone(), rng.u64()));
    let rebuild = rebuild.map(spawn);
    work(&plan, &outside, &pool, &files, &mut rng).await?;
    if let Some(rebuild) = rebuild {
        rebuild.await.transpose()?;
    }
    outside.placements.set(pool.placements());
    if let End::Close = end {
        drop(files);
        // tasks that were ended still hold the pool for a moment
        let mut pool = Err(pool);
        for _ in 0..1000 {
            pool = pool.or_else(Rc::try_unwrap);
            if pool.is_ok() {
                break;
            }
            sleep(Duration::from_micros(10)).await;
        }
        let pool =
            pool.map_err(|_| Violation("a task of the workload still holds the pool".into()))?;
        pool.close().await.map_err(|e| failed("closing", &e))?;
        outside.is_closed.set(true);
    }
    Ok(())
}

/// Runs all tasks of an incarnation to their end.
async fn work(
    plan: &Rc<Plan>,
    outside: &Outside,
    pool: &Rc<Pool>,
    files: &FileSystem<Recorded>,
    rng: &mut Prng,
) -> Result<(), Violation> {
    let orphans = spawn(files.clone().free_orphans());
    let checkpoints = spawn(checkpoint(pool.clone(), plan.checkpoints));
    let caller = Caller::root();
    let mut handles = Vec::new();
    for at in DATA {
        let found = files.lookup(&caller, files.root(), &name(at)).await;
        handles.push(found.map_err(|e| failed("a file is gone", &e))?.handle);
    }
    handles.extend(record_sizes::made(files).await?);
    let directories = directories(files).await?;
    let mut tasks: Vec<JoinHandle<Result<(), Violation>>> = Vec::new();
    let data = |seed: u64| Data {
        files: files.clone(),
        handles: handles.clone(),
        rng: Prng::new(seed),
        durable: plan.durable,
        caller: caller.clone(),
        has_quota: plan.quotas,
        is_at_ends: plan.is_at_ends,
    };
    for _ in 0..plan.tasks {
        let data = data(rng.u64());
        let mut names = Random::new(rng.u64(), files.root(), plan.durable);
        names.directories.clone_from(&directories);
        names.files.clone_from(&handles);
        let (plan, outside) = (plan.clone(), outside.clone());
        tasks.push(spawn(task(plan, outside, data, names, rng.u64())));
    }
    if plan.snapshots {
        let history = files.store().history.clone();
        let known = outside.snapshots.clone();
        let churn = snapshots::churn(known, pool.clone(), history, rng.u64());
        tasks.push(spawn(churn));
    }
    let owners = Owners::of(files).await?;
    if plan.owner_quotas {
        tasks.push(spawn(owners.clone().churn(files.clone(), rng.u64())));
    }
    if plan.quotas {
        tasks.push(spawn(quotas(pool.clone(), rng.u64())));
    }
    if plan.record_sizes {
        let sizes = outside.record_sizes.clone();
        let churn = sizes.churn(pool.clone(), data(rng.u64()), rng.u64());
        tasks.push(spawn(churn));
    }
    tasks.push(spawn(plan.classes.churn(pool.clone(), rng.u64())));
    if plan.classes.has_cache {
        tasks.push(spawn(caches::churn(pool.clone(), PAUSE_MAX, rng.u64())));
    }
    for task in tasks {
        task.await.transpose()?;
    }
    checkpoints.abort();
    orphans.abort();
    let _ended = (checkpoints.await, orphans.await);
    // nothing is in flight: the model knows all
    let store = &files.store().store;
    let found = Image::read(store).await?;
    owners.judge(files, &found).await?;
    let history = files.store().history.lock();
    let end = history.mark();
    let between = Between {
        floor: Some(end),
        end,
        is_exact: true,
    };
    let judged = history.judge(&found, between);
    judged
        .map(drop)
        .map_err(|v| Violation(format!("at rest: {}", v.0)))
}

/// The root and the directories in it.
async fn directories(files: &FileSystem<Recorded>) -> Result<Vec<Handle>, Violation> {
    let (caller, root) = (Caller::root(), files.root());
    let mut found = vec![root];
    for at in testkit::files::random::NAMES {
        match files.lookup(&caller, root, &name(at)).await {
            Ok(object) if object.kind == backend::file::FileKind::Directory => {
                found.push(object.handle);
            }
            Ok(_) | Err(FileError::NotFound) => {}
            Err(e) => return Err(failed("looking a name up", &e)),
        }
    }
    Ok(found)
}

/// Random operations, one after the other.
async fn task(
    plan: Rc<Plan>,
    outside: Outside,
    mut data: Data,
    mut names: Random,
    seed: u64,
) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..plan.steps {
        if rng.chance(0.5) {
            if let Some(Some(violation)) = refused(data.step().await)? {
                return Err(violation);
            }
        } else {
            refused(names.step(&data.files).await)?;
        }
        outside.answered.set(outside.answered.get() + 1);
        if rng.chance(0.3) {
            let pause = rng.below(plan.pause.as_micros() as u64);
            sleep(Duration::from_micros(pause)).await;
        }
    }
    Ok(())
}

async fn checkpoint(pool: Rc<Pool>, pause: Duration) {
    loop {
        sleep(pause).await;
        if pool.checkpoint().await.is_err() {
            return;
        }
    }
}

/// Sets quotas, so that writes meet them, and takes the last one back.
async fn quotas(pool: Rc<Pool>, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(4) {
        sleep(Duration::from_micros(rng.below(8000))).await;
        match pool.set_limits(FILESYSTEM, rng.below(QUOTA_MAX), 0).await {
            // a full pool refuses a change of reservations
            Ok(()) | Err(pool::Error::NoSpace) => {}
            Err(e) => return Err(failed("setting a quota", &e)),
        }
    }
    match pool.set_limits(FILESYSTEM, 0, 0).await {
        Ok(()) | Err(pool::Error::NoSpace) => Ok(()),
        Err(e) => Err(failed("setting a quota", &e)),
    }
}
