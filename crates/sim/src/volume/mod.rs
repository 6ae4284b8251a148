//! Scenarios `pool`, `full`, `aimed`, `spares` and `cached`: a volume of a pool without a network, with power cuts and failing media.

mod aimed;
mod expansions;
mod hot_spares;
mod lapses;
mod opening;
mod others;
mod plan;
mod relocations;
mod removals;
mod resizes;

use crate::Report;
use crate::access::Direct;
use crate::churn::{self, Media};
use crate::classes::{Classes, PAUSE_MAX, caches};
use crate::crowd::Tally;
use crate::model::{Model, Violation};
use crate::rewind::{self, Past};
use crate::settings::SimSettings;
use crate::snapshots::{self, Snapshots};
use crate::store::Wrap;
use crate::workload::{Job, verify_all};
use aimed::Aim;
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use io::{JoinHandle, spawn, timeout};
use plan::{End, Fault, Plan};
pub(crate) use plan::{durable_writes, space_bytes};
use pool::Pool;
use pool::vdev::MemberState;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const VOLUME: &str = "model";

/// The kind of pool of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any parameters, with free space.
    Any,
    /// Nearly full.
    Full,
    /// Small, with faults aimed at the steps where a promise could break.
    Aimed,
    /// Small, with hot spares that stand in for members that fail.
    Spares,
    /// Any parameters, with a cache device.
    Cached,
}

/// Returns the parameters that the seed chooses. Each later extension has its own random numbers, so that the runs of older
/// seeds do not change.
fn plan_of(seed: u64, kind: Kind, [rng, harder, openings]: [&mut Prng; 3]) -> Plan {
    let mut plan = Plan::new(rng);
    plan.furnish(&mut Prng::new(seed ^ 0x9001_f000));
    plan.resizes = Prng::new(seed ^ 0x9001_d000).chance(0.4);
    plan.shrink_journal(openings);
    match kind {
        Kind::Any => plan.tighten(harder),
        Kind::Full => plan.crowd(&mut Prng::new(seed ^ 0x9001_c000)),
        Kind::Aimed => {
            plan.aim(harder);
            plan.aim_at_removals(&mut Prng::new(seed ^ 0x9001_4e30));
            plan.aim_at_relocations(&mut Prng::new(seed ^ 0x9001_4e10));
        }
        Kind::Spares => plan.hot(harder),
        Kind::Cached => {
            plan.tighten(harder);
            plan.is_cached = true;
            plan.close_often(&mut Prng::new(seed ^ 0x9001_c105));
        }
    }
    let mut layout = Prng::new(seed ^ 0x9001_4a1d);
    let is_raidz = layout.chance(0.4);
    match kind {
        Kind::Full if is_raidz => plan.crowd_rows(&mut layout),
        Kind::Any | Kind::Aimed | Kind::Cached
            if is_raidz
                && !matches!(
                    plan.aim,
                    Some(Aim::Readers | Aim::Rot | Aim::Removal | Aim::Relocation)
                ) =>
        {
            plan.stripe(&mut layout);
            if kind == Kind::Aimed {
                plan.aim_at_rows(&mut Prng::new(seed ^ 0x9001_e4a5));
            }
        }
        Kind::Spares if is_raidz => {
            plan.stripe(&mut layout);
            (plan.disks, plan.may_be_away) = (plan.members, false);
            (plan.fault, plan.overloads, plan.judges_rows) = (Fault::None, false, false);
            plan.spares = 2;
        }
        _ => {}
    }
    plan.choose_classes(&mut Prng::new(seed ^ 0x9001_c1a5));
    plan.classes = plan.fitting(Classes::draw(seed));
    plan.is_cached |= plan.classes.has_cache;
    plan
}

/// Runs one seed inside the present simulation. Fails with the violation.
pub async fn run(seed: u64, wrap: Wrap, kind: Kind) -> Result<Report, Violation> {
    let full = kind == Kind::Full;
    let mut rng = Prng::new(seed ^ 0x9001_e000);
    let mut harder = Prng::new(seed ^ 0x9001_a000);
    let mut openings = Prng::new(seed ^ 0x9001_0be0);
    let plan = plan_of(seed, kind, [&mut rng, &mut harder, &mut openings]);
    let node = Node::new();
    let disks = plan.create_disks(node);
    let mut faults = caches::create(node, (plan.is_cached, &plan.disk), seed);
    let block_size = plan.volume.block_size;
    let blocks = plan.volume.size / u64::from(block_size);
    let model = Rc::new(RefCell::new(Model::new(block_size, blocks)));
    let kept = Rc::new(RefCell::new(Snapshots::default()));
    let tally = Tally::default();
    if full {
        let filled = node.spawn(fill(plan.clone(), tally.clone(), rng.u64()));
        filled.await.transpose()?;
        node.kill();
    }
    let mut crashes = 0;
    for life in 0..=plan.lives.len() {
        if life > 0 && !full {
            disks.iter().for_each(|disk| disk.heal());
            crashes += cut_openings(node, &plan, &model, &mut openings).await?;
        }
        let end = plan.lives.get(life).copied().unwrap_or(End::Close);
        let is_early = match full {
            true => rng.chance(0.2),
            false => !plan.cuts_at_work,
        };
        if let End::PowerCut(steps) = end
            && is_early
        {
            node.power_cut_after(steps);
        }
        caches::break_device(node, &mut faults);
        if life > 0 {
            plan.break_disks(&disks, &mut rng);
            plan.leave(&mut harder);
            if plan.away.may_lack() {
                // A failing disk may be the only complete one.
                disks.iter().for_each(|disk| disk.heal());
            }
        }
        remark(|| format!("life {life}: {end:?}, {}", plan.trouble()));
        let shared = (model.clone(), kept.clone());
        let work = live(plan.clone(), shared, tally.clone(), rng.u64(), wrap, end);
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
                // Data that was only in the memory of the process is lost.
                model.borrow_mut().crash();
            }
            node.kill();
        }
        if let Some(v) = model.borrow().violation() {
            return Err(v.clone());
        }
    }
    disks.iter().for_each(|disk| disk.heal());
    caches::break_device(node, &mut faults);
    plan.away.set(std::iter::empty());
    let outside = (model.clone(), kept);
    let check = node.spawn(check(plan.clone(), outside, rng.u64(), wrap));
    if let Some(past) = check.await.transpose()?.flatten() {
        node.kill();
        let back = node.spawn(go_back(plan, past));
        back.await.transpose()?;
    } else if plan.judges_rows {
        node.kill();
        let judged = node.spawn(async move { plan.judge_rows().await });
        judged.await.transpose()?;
    }
    let model = model.borrow();
    match model.violation() {
        Some(v) => Err(v.clone()),
        None => Ok(Report {
            answered: model.answered,
            crashes,
            placements: tally.total(),
        }),
    }
}

/// Opens the pool once, and then cuts the power during further openings. Returns the number of power cuts.
async fn cut_openings(
    node: Node,
    plan: &Plan,
    model: &Rc<RefCell<Model>>,
    rng: &mut Prng,
) -> Result<u64, Violation> {
    let cuts = plan.cut_openings(rng);
    if cuts.is_empty() {
        return Ok(0);
    }
    let whole = plan.clone();
    let whole = node.spawn(async move { whole.open().await.map(drop) });
    whole.await.transpose()?;
    node.kill();
    for steps in &cuts {
        let opening = node.spawn(plan.clone().open_cut(*steps));
        opening.await.transpose()?;
        if node.is_on() {
            node.power_cut();
        }
        model.borrow_mut().crash();
        node.power_on();
    }
    Ok(cuts.len() as u64)
}

/// The first incarnation, without faults: creates the pool, and fills it if it is to be full.
async fn fill(plan: Plan, tally: Tally, seed: u64) -> Result<(), Violation> {
    let pool = plan.open().await?;
    if let Some(crowd) = plan.crowd {
        crowd.fill(&pool, seed).await?;
    }
    tally.see(&pool);
    let closed = pool.close().await;
    closed.map_err(|e| Violation(format!("closing: {e}")))
}

/// The model and the snapshots, which outlive the server.
type Outside = (Rc<RefCell<Model>>, Rc<RefCell<Snapshots>>);

async fn check(
    plan: Plan,
    (model, kept): Outside,
    seed: u64,
    wrap: Wrap,
) -> Result<Option<Past>, Violation> {
    let mut rng = Prng::new(seed);
    let pool = plan.open_cached().await?;
    if plan.hot {
        hot_spares::settle(&pool, &plan.names()).await?;
    }
    if plan.resizes {
        resizes::restore(&pool, &model).await?;
    }
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
    if let Some(crowd) = plan.crowd {
        crowd.check(&pool).await?;
    }
    if plan.judges_rows {
        // Now, so that the scrub meets it: reads have repaired what rotted before.
        plan.rot_rows();
    }
    if plan.fault == Fault::Rot {
        churn::mend_copies(&pool).await?;
    }
    if let Some(crowd) = plan.crowd {
        crowd.empty(&pool, seed).await?;
        sound(&pool, 7).await?;
    }
    let past = match pool.volume(VOLUME) {
        // A full pool has no space for a rewind. Rows of an older checkpoint may be free when a scrub mends rows.
        _ if plan.crowd.is_some() || plan.aim == Some(Aim::Mover) || plan.judges_rows => None,
        // A removal that ends takes away the disks that an older checkpoint needs.
        _ if pool.removing().is_some() => None,
        Some(volume) => rewind::prepare(&pool, &volume, &mut rng).await?,
        None => None,
    };
    // Closing the pool writes another checkpoint.
    if past.is_none() {
        let closed = pool.close().await;
        closed.map_err(|e| Violation(format!("closing: {e}")))?;
    }
    Ok(past)
}

/// Rewinds the pool. Its contents must be those of the checkpoint, and its space must add up.
async fn go_back(plan: Plan, past: Past) -> Result<(), Violation> {
    let pool = plan.open_at(Some(past.sequence)).await?;
    if plan.is_cached {
        caches::open(&pool).await;
    }
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

/// Verifies the pool: no block is wrong, and space adds up.
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

/// One incarnation of the server: reads the whole volume, then runs its jobs until they end or the power is cut.
async fn live(
    plan: Plan,
    (model, kept): Outside,
    tally: Tally,
    seed: u64,
    wrap: Wrap,
    end: End,
) -> Result<(), Violation> {
    let pool = Rc::new(plan.open_cached().await?);
    remark(|| format!("open, {}: {:?}", plan.trouble(), pool.vdevs().status()));
    let tally = tally.next();
    if plan.hot {
        hot_spares::settle(&pool, &plan.names()).await?;
    }
    let volume = match pool.volume(VOLUME) {
        Some(volume) => volume,
        None => {
            let created = pool.create_volume(plan.volume.clone()).await;
            created.map_err(|e| Violation(format!("a volume cannot be made: {e}")))?
        }
    };
    if plan.resizes {
        resizes::restore(&pool, &model).await?;
    }
    let access = Direct(wrap(Arc::new(volume)));
    verify_all(&access, &model, 16).await;
    if plan.is_cached {
        caches::read_again(&access, &model).await;
    }
    Snapshots::check(&kept, &pool, VOLUME).await?;
    sound(&pool, 3).await?;
    snapshots::remove_clone(&pool, VOLUME).await?;
    let mut rng = Prng::new(seed);
    if let (Some(crowd), End::PowerCut(_)) = (plan.crowd, end) {
        crowd.check(&pool).await?;
    }
    if let End::PowerCut(steps) = end
        && (plan.crowd.is_some() || plan.cuts_at_work)
    {
        Node::current().power_cut_after(steps);
    }
    plan.begin_classes(&pool, seed).await?;
    if plan.aim.is_none() {
        let settings = SimSettings::new(&mut Prng::new(seed ^ 0x5e77));
        settings.apply(&pool, VOLUME, &model).await?;
    }
    let is_mended = !plan.hot && plan.aim != Some(Aim::Expansion);
    if plan.members > 1 && is_mended && rng.chance(0.4) && !plan.away.is_one() {
        if plan.spares > 0 {
            plan.heal();
            churn::gather(&pool, &plan.names()).await?;
        }
        mend(&plan, &pool).await?;
    }
    let outside = (model.clone(), kept.clone());
    let others = begin_churn(&plan, &pool, &outside, &tally, &mut rng, (seed, end));
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
    tally.see(&pool);
    for other in others {
        if let Some(Err(violation)) = other.await {
            return Err(violation);
        }
    }
    if let End::Close = end {
        drop(access);
        let _aborted = checkpoints.await;
        let Ok(pool) = Rc::try_unwrap(pool) else {
            return Err(Violation(
                "a task of the workload still holds the pool".into(),
            ));
        };
        let has_failed = pool.trouble().is_some();
        match pool.close().await {
            // More members failed than the layout can lack: writes that were not flushed may be lost, as after a kill.
            Err(_) if plan.overloads && has_failed => model.borrow_mut().crash(),
            closed => closed.map_err(|e| Violation(format!("closing: {e}")))?,
        }
    }
    Ok(())
}

/// Starts the churn beside the jobs.
fn begin_churn(
    plan: &Plan,
    pool: &Rc<Pool>,
    (model, kept): &Outside,
    tally: &Tally,
    rng: &mut Prng,
    (seed, end): (u64, End),
) -> Vec<JoinHandle<Result<(), Violation>>> {
    let mut others = Vec::new();
    if plan.hot {
        let may_cut = matches!(end, End::PowerCut(_));
        let churn = hot_spares::churn(pool.clone(), plan.names(), may_cut, rng.u64());
        others.push(spawn(churn));
    } else if plan.aim == Some(Aim::Expansion) {
        let may_cut = matches!(end, End::PowerCut(_));
        let churn = expansions::churn(pool.clone(), plan.names(), may_cut, seed ^ 0xe4a2);
        others.push(spawn(churn));
    } else if plan.aim == Some(Aim::Removal) {
        let may_cut = matches!(end, End::PowerCut(_));
        let churn = removals::churn(pool.clone(), plan.names(), may_cut, seed ^ 0x4e30);
        others.push(spawn(churn));
    } else if plan.aim == Some(Aim::Relocation) {
        let may_cut = matches!(end, End::PowerCut(_));
        let churn = relocations::churn(pool.clone(), may_cut, seed ^ 0x4e10);
        others.push(spawn(churn));
    } else if plan.spares > 0 {
        let media = Media {
            names: plan.names(),
            bad: plan.bad(),
            grows: plan.crowd.is_none(),
        };
        others.push(spawn(churn::churn(pool.clone(), media, rng.u64())));
    }
    let changes = plan.classes.churn(pool.clone(), seed ^ 0xc1a5);
    others.push(spawn(changes));
    if plan.is_cached {
        let churn = caches::churn(pool.clone(), PAUSE_MAX, seed ^ 0xcace);
        others.push(spawn(churn));
    }
    if plan.lapses() && !plan.away.is_one() {
        let most = plan.lapsing_max();
        others.push(spawn(lapses::churn(pool.clone(), most, seed ^ 0x1a95)));
    }
    if let Some(crowd) = plan.crowd {
        let churn = crowd.churn(pool.clone(), tally.clone(), rng.u64());
        others.push(spawn(churn));
    }
    if plan.churn {
        others.push(spawn(others::churn(pool.clone(), rng.u64())));
    }
    if plan.resizes {
        let seed = seed ^ 0x4e51;
        let churn = resizes::churn(pool.clone(), model.clone(), plan.crowd.is_some(), seed);
        others.push(spawn(churn));
    }
    if plan.snapshots {
        let (name, kept) = (VOLUME.to_owned(), kept.clone());
        let seed = rng.u64();
        let known = (kept, model.clone());
        let crowded = plan.crowd.is_some();
        let churn = snapshots::churn(pool.clone(), name, known, crowded, seed);
        others.push(spawn(churn));
    }
    others
}

/// Makes both members of each mirror complete. From then on the other one fails.
async fn mend(plan: &Plan, pool: &Pool) -> Result<(), Violation> {
    plan.heal();
    let vdevs = pool.vdevs();
    let members = || vdevs.status().into_iter().flat_map(|vdev| vdev.members);
    for member in members().filter(|member| member.state == MemberState::Faulted) {
        let online = vdevs.online(member.guid, None).await;
        online.map_err(|e| Violation(format!("a member does not come back: {e}")))?;
    }
    remark(|| format!("resilvers {:?}", vdevs.status()));
    let resilvered = pool.resilver(|_| ()).await;
    resilvered.map_err(|e| Violation(format!("resilvering: {e}")))?;
    if let Some(member) = members().find(|member| member.state != MemberState::Online) {
        return Err(Violation(format!(
            "a resilvered member is not in: {member:?}"
        )));
    }
    churn::scrub(pool, churn::SCRUB_PART).await?;
    plan.away.mended();
    // A scrub does not cover labels and journal: rot may affect them on one member only.
    if plan.fault != Fault::Rot {
        let before = plan.faulty.get();
        plan.pass_fault_on();
        let bad = plan.bad();
        let sound = |vdev: pool::vdev::VdevStatus| {
            let sound = vdev.members.iter().filter(|s| !bad.contains(&s.path));
            sound.count() >= vdev.kind.needed(vdev.members.len())
        };
        // After replacements, the other member may be the last sound one.
        if !vdevs.status().into_iter().all(sound) {
            plan.faulty.set(before);
        }
    }
    Ok(())
}
