//! Churn of members under load: offline, online, attach, detach, replace, add, grow, removal of vdevs; scrubs and trims.
//!
//! **Owns** that churn. **Called by** scenarios `pool` and `files`, on pools whose disks are sound, and by `full`, also where
//! members of each vdev are on failing disks. Each refusal is a violation, with three exceptions: the vdev would have fewer complete
//! members than it needs, the operation concerns a failing disk, or it would take a member of a raidz away. A raidz is expanded where a
//! mirror gets a member more.
//! **Invariant**: a member on a sound disk leaves only if its vdev has enough other sound members that are in, because data
//! that needs a failing disk is not promised.

use crate::model::Violation;
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::Node;
use io::time::sleep;
use pool::Pool;
use pool::format::{MemberGuid, PoolProperty, VdevId, VdevKind};
use pool::vdev::{MemberState, SetupError};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of each part of a scrub that must repair everything.
pub(crate) const SCRUB_PART: u64 = 256 << 10;
/// Most members of a mirror.
const MEMBERS_MAX: usize = 3;

/// A member and its present state.
struct Member {
    vdev: VdevId,
    kind: VdevKind,
    /// Number of members that its vdev needs.
    needed: usize,
    guid: MemberGuid,
    path: PathBuf,
    state: MemberState,
}

/// The disks of the machine.
pub(crate) struct Media {
    pub(crate) names: Vec<String>,
    /// Failing disks.
    pub(crate) bad: BTreeSet<PathBuf>,
    /// Whether vdevs are added, and grow.
    pub(crate) grows: bool,
}

impl Media {
    /// Ignores the refusal of an operation on a failing disk.
    fn unless_bad(&self, member: &Member, done: Result<(), Violation>) -> Result<(), Violation> {
        match self.bad.contains(&member.path) {
            true => Ok(()),
            false => done,
        }
    }

    /// Whether all promised data is on other members.
    fn may_leave(&self, pool: &Pool, member: &Member) -> bool {
        let is_sound = |s: &Member| s.state == MemberState::Online && !self.bad.contains(&s.path);
        let others = |s: &Member| s.vdev == member.vdev && s.guid != member.guid;
        let is_needed = !self.bad.is_empty() && !self.bad.contains(&member.path);
        let now = members(pool);
        let others = now.iter().filter(|s| others(s) && is_sound(s));
        !is_needed || others.count() >= member.needed
    }

    /// Disks that are not members.
    fn free(&self, now: &[Member]) -> Vec<&String> {
        let is_free = |name: &&String| !now.iter().any(|s| s.path.as_os_str() == name.as_str());
        self.names.iter().filter(is_free).collect()
    }
}

fn members(pool: &Pool) -> Vec<Member> {
    let vdevs = pool.vdevs().status();
    let members = vdevs.into_iter().flat_map(|vdev| {
        let needed = vdev.kind.needed(vdev.members.len());
        let member = move |member: pool::vdev::MemberStatus| Member {
            vdev: vdev.id,
            kind: vdev.kind,
            needed,
            guid: member.guid,
            path: member.path,
            state: member.state,
        };
        vdev.members.into_iter().map(member)
    });
    members.collect()
}

/// The paths of all members.
pub(crate) fn paths(pool: &Pool) -> Vec<PathBuf> {
    let members = members(pool).into_iter();
    members.map(|member| member.path).collect()
}

/// Replaces the first member of a raidz that is on one of the disks `of` by a free disk, if there is one.
pub(crate) async fn replace_one_of(
    pool: &Pool,
    of: &[PathBuf],
    names: &[String],
) -> Result<(), Violation> {
    match members(pool).iter().find(|m| of.contains(&m.path)) {
        Some(member) => replace(pool, member, names).await,
        None => Ok(()),
    }
}

/// The members of vdevs that are not being removed: the others may be gone at any time.
fn staying(pool: &Pool) -> Vec<Member> {
    let leaving = pool.removing().map(|removing| removing.vdev);
    let mut all = members(pool);
    all.retain(|member| Some(member.vdev) != leaving);
    all
}

fn wrong(what: &str, e: SetupError) -> Violation {
    Violation(format!("{what}: {e}"))
}

fn unless_last(what: &str, done: Result<(), SetupError>) -> Result<(), Violation> {
    match done {
        Err(SetupError::LastMember { .. }) => Ok(()),
        other => other.map_err(|e| wrong(what, e)),
    }
}

/// Detaches a member. A raidz refuses it.
async fn detach(pool: &Pool, member: &Member) -> Result<(), Violation> {
    let done = pool.vdevs().detach(member.guid).await;
    match (member.kind, done) {
        (VdevKind::Raidz { .. }, Err(SetupError::FixedMembers { .. })) => Ok(()),
        (VdevKind::Raidz { .. }, done) => {
            Err(Violation(format!("a member of a raidz leaves: {done:?}")))
        }
        (_, done) => unless_last("detaching", done),
    }
}

/// Opens a disk that is no member any more. Operations in flight hold it for a while; `None` if it is held for a second.
async fn released(name: &str) -> Option<Disk> {
    for _ in 0..100 {
        if let Ok(disk) = Disk::open(name, OpenOptions::default()).await {
            return Some(disk);
        }
        sleep(Duration::from_millis(10)).await;
    }
    None
}

/// Puts a free disk in the place of a member of a raidz.
async fn replace(pool: &Pool, member: &Member, names: &[String]) -> Result<(), Violation> {
    let now = members(pool);
    let is_free = |name: &&String| !now.iter().any(|s| s.path.as_os_str() == name.as_str());
    let Some(name) = names.iter().find(is_free) else {
        return Ok(());
    };
    let Some(disk) = released(name).await else {
        return Ok(());
    };
    match pool.vdevs().replace(member.guid, disk, true).await {
        // The vdev has grown beyond the disk.
        Err(SetupError::Truncated { .. }) => Ok(()),
        done => unless_last("replacing", done.map(drop)),
    }
}

/// Brings every member that is out back and resilvers it. Detaches a member whose attach was cut short: the pool knows it,
/// but its disk is not a member. A raidz gets another disk in its place.
pub(crate) async fn gather(pool: &Pool, names: &[String]) -> Result<(), Violation> {
    let vdevs = pool.vdevs();
    for member in members(pool) {
        let mut lacks_disk = member.state == MemberState::Missing;
        if matches!(member.state, MemberState::Offline | MemberState::Faulted) {
            match vdevs.online(member.guid, None).await {
                Err(SetupError::Absent { .. }) => lacks_disk = true,
                // its vdev was removed meanwhile
                Err(SetupError::NoMember { .. }) => continue,
                other => other.map_err(|e| wrong("a member does not come back", e))?,
            }
        }
        if lacks_disk && matches!(member.kind, VdevKind::Raidz { .. }) {
            replace(pool, &member, names).await?;
        } else if lacks_disk {
            let gone = vdevs.detach(member.guid).await;
            gone.map_err(|e| wrong("detaching what is not there", e))?;
        }
    }
    let resilvered = pool.resilver(|_| ()).await;
    resilvered.map_err(|e| wrong("resilvering", e))?;
    match members(pool)
        .iter()
        .find(|s| s.state != MemberState::Online)
    {
        Some(member) => Err(Violation(format!(
            "{} is {:?} after all were resilvered",
            member.path.display(),
            member.state
        ))),
        None => Ok(()),
    }
}

/// Expands a raidz by a free disk. It may be refused while a member is not in, and while an expansion is in progress.
async fn expand(pool: &Pool, media: &Media, vdev: VdevId) -> Result<(), Violation> {
    let now = members(pool);
    let Some(name) = media.free(&now).first().copied() else {
        return Ok(());
    };
    // Operations in flight still hold a disk that was replaced.
    let Ok(disk) = Disk::open(name, OpenOptions::default()).await else {
        return Ok(());
    };
    let is_bad = media.bad.contains(&disk.info().path);
    match pool.expand(vdev, disk, true).await {
        // The vdev has grown beyond the disk.
        Err(SetupError::Truncated { .. }) => Ok(()),
        Err(SetupError::Degraded { .. } | SetupError::Expanding { .. }) => Ok(()),
        Err(_) if is_bad => Ok(()),
        done => done.map(drop).map_err(|e| wrong("expanding", e)),
    }
}

/// Attaches a free disk to a mirror with fewer than the most members. A raidz is expanded by it.
async fn attach(pool: &Pool, media: &Media, rng: &mut Prng) -> Result<Option<VdevId>, Violation> {
    let now = staying(pool);
    let any = &now[rng.below(now.len() as u64) as usize];
    let vdev = any.vdev;
    if matches!(any.kind, VdevKind::Raidz { .. }) {
        expand(pool, media, vdev).await?;
        return Ok(None);
    }
    let (Some(name), true) = (
        media.free(&now).first().copied(),
        now.iter().filter(|s| s.vdev == vdev).count() < MEMBERS_MAX,
    ) else {
        return Ok(None);
    };
    // Operations in flight still hold a disk that was detached.
    let Ok(disk) = Disk::open(name, OpenOptions::default()).await else {
        return Ok(None);
    };
    let is_bad = media.bad.contains(&disk.info().path);
    match pool.vdevs().attach(vdev, disk, true).await {
        // The vdev has grown beyond the disk.
        Err(SetupError::Truncated { .. }) => Ok(None),
        Err(_) if is_bad => Ok(None),
        other => other.map(|_| Some(vdev)).map_err(|e| wrong("attaching", e)),
    }
}

/// Adds a vdev of one or two free disks.
async fn add(pool: &Pool, media: &Media, rng: &mut Prng) -> Result<(), Violation> {
    let now = members(pool);
    let mut disks = Vec::new();
    for name in media.free(&now).into_iter().take(1 + rng.below(2) as usize) {
        if let Ok(disk) = Disk::open(name, OpenOptions::default()).await {
            disks.push(disk);
        }
    }
    if disks.is_empty() {
        return Ok(());
    }
    // blocks that leave the pool with a vdev take space of it with them
    let is_removing = pool.removing().is_some();
    let before = pool.space().size;
    let added = pool.add_vdev(disks, true).await;
    added.map_err(|e| wrong("adding a vdev", e))?;
    match pool.space().size > before || is_removing {
        true => Ok(()),
        false => Err(Violation("a vdev more gives no space".into())),
    }
}

/// Bytes of the vdevs of all classes.
fn size(pool: &Pool) -> u64 {
    let special = pool.special_class();
    pool.space().size + special.map_or(0, |class| class.space.size)
}

/// Enlarges all disks of a vdev, and lets the vdev use the new space.
async fn grow(pool: &Pool, vdev: VdevId, rng: &mut Prng) -> Result<(), Violation> {
    let more = (1 + rng.below(16)) << 20;
    if pool.vdevs().expansion(vdev).is_some() {
        return Ok(());
    }
    for member in members(pool).into_iter().filter(|s| s.vdev == vdev) {
        if let Some(disk) = Node::current().disk(&member.path) {
            disk.set_size(disk.size() + more);
        }
    }
    let is_removing = pool.removing().is_some();
    let before = size(pool);
    let grown = pool.grow(vdev).await;
    let grown = grown.map_err(|e| wrong("growing", e))?;
    match size(pool) > before {
        now if now == grown || is_removing => Ok(()),
        _ => Err(Violation(format!(
            "a vdev that grew ({grown}) had {before} bytes"
        ))),
    }
}

/// Begins to remove a vdev, or gives up the removal in progress.
async fn remove(pool: &Pool, vdev: VdevId, rng: &mut Prng) -> Result<(), Violation> {
    let done = match pool.removing() {
        Some(_) if rng.chance(0.5) => pool.stop_removal().await,
        Some(_) => Ok(()),
        None => pool.remove_vdev(vdev).await,
    };
    match done {
        Err(
            SetupError::LastVdev { .. }
            | SetupError::HasJournal { .. }
            | SetupError::NoRoom { .. }
            | SetupError::NoVdev { .. }
            | SetupError::Removing { .. }
            | SetupError::NotRemoving
            | SetupError::RemovalEnds { .. }
            | SetupError::Expanding { .. },
        ) => Ok(()),
        done => done.map_err(|e| wrong("removing a vdev", e)),
    }
}

/// Trims all free space, which then reads as garbage.
async fn trim(pool: &Pool) -> Result<(), Violation> {
    let failed = |e| Violation(format!("trimming: {e}"));
    let mut next = Some(pool.begin_trim().await.map_err(failed)?);
    while let Some(at) = next {
        (_, next) = pool.trim_part(at).await.map_err(failed)?;
    }
    Ok(())
}

/// Brings all members that are out back, as far as failing disks permit.
async fn gather_some(pool: &Pool, media: &Media) -> Result<(), Violation> {
    match gather(pool, &media.names).await {
        Err(_) if !media.bad.is_empty() => Ok(()),
        other => other,
    }
}

/// Scrubs the pool in parts of `part` bytes. Unrecoverable blocks are a violation. Returns the number of wrong copies.
pub(crate) async fn scrub(pool: &Pool, part: u64) -> Result<u64, Violation> {
    let failed = |e: pool::Error| Violation(format!("scrubbing: {e}"));
    let mut repaired = 0;
    let mut next = Some(pool.begin_scrub().await.map_err(failed)?);
    while let Some(at) = next {
        let found;
        (found, next) = pool.scrub_part(at, part).await.map_err(failed)?;
        if !found.lost.is_empty() || !found.damaged.is_empty() {
            return Err(Violation(format!("a scrub found damage: {found:?}")));
        }
        repaired += found.repaired;
    }
    Ok(repaired)
}

/// Scrubs twice: the second scrub finds no wrong copy, as no disk fails any longer.
pub(crate) async fn mend_copies(pool: &Pool) -> Result<(), Violation> {
    scrub(pool, SCRUB_PART).await?;
    match scrub(pool, SCRUB_PART).await? {
        0 => Ok(()),
        wrong => Err(Violation(format!("a scrub left {wrong} wrong copies"))),
    }
}

/// Runs operations on members for a while.
pub(crate) async fn churn(pool: Rc<Pool>, media: Media, seed: u64) -> Result<(), Violation> {
    let mut rng = Prng::new(seed);
    for _ in 0..rng.below(6) {
        sleep(Duration::from_micros(rng.below(5000))).await;
        let now = staying(&pool);
        let any = &now[rng.below(now.len() as u64) as usize];
        match rng.below(11) {
            0 if media.may_leave(&pool, any) => {
                let done = unless_last("offline", pool.vdevs().offline(any.guid).await);
                media.unless_bad(any, done)?;
            }
            1 if media.may_leave(&pool, any) => {
                let done = detach(&pool, any).await;
                media.unless_bad(any, done)?;
            }
            2 => drop(attach(&pool, &media, &mut rng).await?),
            3 if matches!(any.kind, VdevKind::Raidz { .. }) => {
                if media.may_leave(&pool, any) {
                    let done = replace(&pool, any, &media.names).await;
                    media.unless_bad(any, done)?;
                }
                gather_some(&pool, &media).await?;
            }
            3 => {
                if let Some(vdev) = attach(&pool, &media, &mut rng).await? {
                    gather_some(&pool, &media).await?;
                    let old = now.iter().find(|s| s.vdev == vdev);
                    let old = old.expect("it has a member");
                    if media.may_leave(&pool, old) {
                        let done = unless_last("replacing", pool.vdevs().detach(old.guid).await);
                        media.unless_bad(old, done)?;
                    }
                }
            }
            4 => gather_some(&pool, &media).await?,
            5 if media.grows => add(&pool, &media, &mut rng).await?,
            6 if media.grows => grow(&pool, any.vdev, &mut rng).await?,
            7 => trim(&pool).await?,
            8 if media.grows => remove(&pool, any.vdev, &mut rng).await?,
            9 => {
                let on = rng.chance(0.8);
                let set = pool.set_property(PoolProperty::Autotrim, on).await;
                set.map_err(|e| Violation(format!("setting autotrim: {e}")))?;
            }
            _ => drop(scrub(&pool, 4096 << rng.below(14)).await?),
        }
    }
    Ok(())
}
