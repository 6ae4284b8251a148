//! Hot spares at work: when one takes the place of a disk, which one, and when it is given back.
//!
//! **Owns** this decision. **Called by** the supervisor of a pool, in each round, and by changes of a pool's disks. **Invariants**: a spare
//! is taken for a disk that is away or faulted for longer than `spare_after_s`, or had too many errors; never for one that the operator
//! took offline or is replacing; the configuration has the path of a spare's disk among those of the pool before it becomes a member.
//! `docs/decisions/0161`.

use super::change::refused;
use super::notes::{Notes, warn_unsaved};
use super::open::open_disk;
use super::spares::{is_member, member_text};
use super::supervisor::Supervisor;
use crate::limits::{SPARE_AFTER_S, SPARE_LOOK, SPARE_RETRY};
use crate::server::Server;
use crate::{Error, Result};
use io::time::now;
use pool::Pool;
use pool::format::{MemberGuid, SpareEntry, SpareGuid};
use pool::vdev::{Fault, Layout, MemberState, MemberStatus, spare_label};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Whether a member is out of work and not because the operator wants it.
fn has_failed(s: &MemberStatus) -> bool {
    match s.state {
        MemberState::Missing => true,
        MemberState::Faulted => s.fault != Some(Fault::NoSpace),
        MemberState::Online | MemberState::Stale | MemberState::Offline => false,
    }
}

fn members(pool: &Pool) -> Vec<MemberStatus> {
    let vdevs = pool.vdevs().status();
    vdevs.into_iter().flat_map(|v| v.members).collect()
}

impl Supervisor {
    /// One round of upkeep of the pool's spares.
    pub(super) async fn tend_spares(&self, pool: &Pool, notes: &Notes) {
        let (server, name) = (&self.server, self.name.as_str());
        let mut due = self.lasting(pool);
        if pool.spares().is_empty() && server.with_spares(name, &[]).is_empty() {
            return;
        }
        due.retain(|member| server.wants_spare(pool, notes, *member));
        self.look_for_spares(pool, notes, !due.is_empty()).await;
        server.settle_spares(name, pool, notes).await;
        server.give_spares_back(name, pool, notes).await;
        self.forget_wishes(pool, notes).await;
        for member in due {
            server.take_any_spare(name, pool, notes, member).await;
        }
    }

    /// Looks for the spares, if that is due: regularly, when disks came or went, and before one is needed.
    async fn look_for_spares(&self, pool: &Pool, notes: &Notes, is_needed: bool) {
        let changed = self.server.directories_changed().await;
        let every = if is_needed { SPARE_RETRY } else { SPARE_LOOK };
        let is_old = match &*self.looked.borrow() {
            Some((at, seen)) => *seen != changed || at.elapsed() >= every,
            None => true,
        };
        let entries = pool.spares();
        let waiting = entries.iter().filter(|(_, e)| !is_member(pool, e));
        let (known, have_moved) = {
            let mut state = self.server.state.borrow_mut();
            let entry = state.pools.get_mut(&self.name);
            let entry = entry.map(|p| (p.spares.clone(), std::mem::take(&mut p.spares_moved)));
            entry.unwrap_or_default()
        };
        let is_unknown = waiting.clone().any(|(spare, _)| !known.contains_key(spare));
        if is_old || is_unknown || have_moved {
            let server = &self.server;
            server.look_for_spares(&self.name, pool, notes).await;
            *self.looked.borrow_mut() = Some((now(), changed));
        }
    }

    /// The members that failed for long enough.
    fn lasting(&self, pool: &Pool) -> Vec<MemberGuid> {
        let after = {
            let state = self.server.state.borrow();
            let config = state.file.config().pool(&self.name);
            config
                .and_then(|p| p.spare_after_s)
                .unwrap_or(SPARE_AFTER_S)
        };
        let failed: Vec<_> = members(pool).into_iter().filter(has_failed).collect();
        let mut since = self.failed.borrow_mut();
        since.retain(|member, _| failed.iter().any(|s| s.guid == *member));
        let mut due = Vec::new();
        for s in failed {
            let began = *since.entry(s.guid).or_insert_with(now);
            // Such a disk does not come back by itself.
            let is_final = s.fault == Some(Fault::Errors);
            if is_final || began.elapsed() >= Duration::from_secs(after) {
                due.push(s.guid);
            }
        }
        due
    }

    /// Forgets that the operator wanted no spare for a member, once it is in again or gone.
    async fn forget_wishes(&self, pool: &Pool, notes: &Notes) {
        let wishes = notes.kept().no_spare_for;
        let vdevs = pool.vdevs();
        let is_over = |member: &u64| {
            matches!(
                vdevs.state_of(MemberGuid(*member)),
                None | Some(MemberState::Online)
            )
        };
        if wishes.iter().any(is_over) {
            let noted = notes.change(|k| k.no_spare_for.retain(|m| !is_over(m)));
            warn_unsaved(&self.name, "spares", noted.await);
        }
    }
}

impl Server {
    /// Whether a member that failed gets a spare: it has none, and nobody is replacing it.
    fn wants_spare(&self, pool: &Pool, notes: &Notes, member: MemberGuid) -> bool {
        let kept = notes.kept();
        let is_replaced = kept.replacing.iter().any(|r| r.old == member.0);
        let spares = pool.spares();
        let serves = |e: &SpareEntry| {
            is_member(pool, e) && e.used.is_some_and(|used| used.instead_of == member)
        };
        !is_replaced && !kept.no_spare_for.contains(&member.0) && !spares.values().any(serves)
    }

    /// Takes the smallest spare that fits. One that cannot be used is skipped; if none can, one event reports it.
    async fn take_any_spare(&self, name: &str, pool: &Pool, notes: &Notes, member: MemberGuid) {
        let vdevs = pool.vdevs();
        let waiting = pool.spares().into_iter().filter(|(_, e)| e.used.is_none());
        let (mut fitting, small): (Vec<_>, Vec<_>) =
            waiting.partition(|(_, e)| vdevs.fits(member, e.size));
        fitting.sort_by_key(|(spare, e)| (e.size, *spare));
        let mut reasons: BTreeSet<String> = BTreeSet::new();
        for (spare, _) in small {
            reasons.insert(format!("{} is too small", self.spare_text(notes, spare)));
        }
        for (spare, _) in fitting {
            match self.take_spare(name, pool, notes, spare, member).await {
                Ok(()) => return,
                Err(e) => {
                    reasons.insert(format!("{}: {e}", self.spare_text(notes, spare)));
                }
            }
        }
        let which = member_text(pool, notes, member);
        let why = match reasons.is_empty() {
            true => "all are in use".to_owned(),
            false => reasons.into_iter().collect::<Vec<_>>().join("; "),
        };
        let text = format!("no spare can stand in for {which}: {why}");
        self.event_once(name, "spare.none", text);
    }

    /// Records an event unless the pool's last one of this class says the same.
    fn event_once(&self, name: &str, class: &str, text: String) {
        let is_known = {
            let state = self.state.borrow();
            let of_class = state
                .events
                .iter()
                .filter(|e| e.pool == name && e.class == class);
            of_class.last().is_some_and(|e| e.text == text)
        };
        if !is_known {
            self.event(name, class, text);
        }
    }

    fn spare_text(&self, notes: &Notes, spare: SpareGuid) -> String {
        let path = notes.kept().spares.get(&spare.0).cloned();
        path.map_or_else(
            || format!("{:016x}", spare.0),
            |path| path.display().to_string(),
        )
    }

    async fn take_spare(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        spare: SpareGuid,
        member: MemberGuid,
    ) -> Result<()> {
        let _turn = self.turn().await?;
        self.take_this_spare(name, pool, notes, spare, member).await
    }

    /// Lets a spare stand in for a member. The caller holds the permit for changes.
    pub(super) async fn take_this_spare(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        spare: SpareGuid,
        member: MemberGuid,
    ) -> Result<()> {
        let disk = self.open_spare(name, spare).await;
        let disk = disk.map_err(|reason| Error::Disk {
            name: self.spare_text(notes, spare),
            reason,
        })?;
        let path = disk.info().path.clone();
        let failed_spare = pool.spare_of(member);
        let original = failed_spare.map_or(member, |(_, used)| used.instead_of);
        let (which, failed) = (
            member_text(pool, notes, original),
            member_text(pool, notes, member),
        );
        let former = notes.was_at(member);
        let before = self.state.borrow().file.clone();
        let new = self.with_more(name, std::slice::from_ref(&path), &[])?;
        self.store(new).await?;
        if let Err(e) = pool.take_spare(spare, member, disk).await {
            let is_used = pool
                .spares()
                .get(&spare)
                .is_some_and(|e| is_member(pool, e));
            if !is_used && self.state.borrow().file.text() != before.text() {
                self.store(before).await?;
            }
            return Err(refused(name, e));
        }
        let noted = notes.change(|k| k.spares_taken += 1);
        warn_unsaved(name, "spares", noted.await);
        if let Some((other, _)) = failed_spare.filter(|(other, _)| *other != spare) {
            let text =
                format!("{failed} failed while it stood in for {which}: it is no spare any more");
            self.event(name, "spare.failed", text);
            self.forget_member(name, notes, member, former.clone())
                .await?;
            self.forget_spare(name, notes, other, former).await?;
        }
        let text = format!("the spare {} stands in for {which}", path.display());
        self.event(name, "spare.taken", text);
        self.remember_paths(pool, notes).await;
        self.places_changed();
        Ok(())
    }

    /// Ends what was interrupted: a use that has no member is undone, and one whose disk got no label begins again.
    pub(super) async fn settle_spares(&self, name: &str, pool: &Pool, notes: &Notes) {
        let vdevs = pool.vdevs();
        for (spare, entry) in pool.spares() {
            let Some(used) = entry.used else { continue };
            let state = vdevs.state_of(used.member);
            if !matches!(state, None | Some(MemberState::Missing)) {
                continue;
            }
            let Ok(_turn) = self.turn().await else { return };
            for path in self.places_of_spare(name, notes, spare, used.member) {
                let Ok(disk) = open_disk(&path, None, false).await else {
                    continue;
                };
                let is_it = spare_label(&disk).await.is_some_and(|l| l.spare == spare);
                let settled = match state {
                    None => {
                        let sharers = self.sharers(name, spare);
                        pool.settle_spare(spare, &disk, &sharers).await
                    }
                    Some(_) if is_it => {
                        let taken = pool.take_spare(spare, used.member, disk).await;
                        taken.map(|_| true)
                    }
                    Some(_) => Ok(false),
                };
                match settled {
                    Ok(true) => {
                        let known = [(spare, path.clone())];
                        self.remember_spares(name, notes, &known).await;
                        let shown = path.display();
                        let text =
                            format!("{shown}: the interrupted change of this spare is settled");
                        self.event(name, "spare.settled", text);
                        break;
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(pool = name, %error, "a spare was not settled; will be retried");
                    }
                }
            }
            self.find_spares(name, pool, notes).await;
        }
    }

    /// Paths at which the disk of a spare may be.
    fn places_of_spare(
        &self,
        name: &str,
        notes: &Notes,
        spare: SpareGuid,
        member: MemberGuid,
    ) -> Vec<PathBuf> {
        let kept = notes.kept();
        let mut paths: Vec<PathBuf> = kept.spares.get(&spare.0).cloned().into_iter().collect();
        paths.extend(notes.was_at(member));
        paths.extend(self.with_spares(name, &[]));
        let found = self.waiting_spares(name).into_iter();
        paths.extend(found.filter(|(s, _)| *s == spare).map(|(_, path)| path));
        let mut seen = BTreeSet::new();
        paths.retain(|path| seen.insert(path.clone()));
        paths
    }

    /// Gives back the spares of mirrors whose disks are in again, or were replaced.
    pub(super) async fn give_spares_back(&self, name: &str, pool: &Pool, notes: &Notes) {
        for (spare, entry) in pool.spares() {
            let Some(used) = entry.used.filter(|u| pool.may_give_back(*u)) else {
                continue;
            };
            if !is_member(pool, &entry) {
                continue;
            }
            let Ok(_turn) = self.turn().await else { return };
            let given = self.give_back(name, pool, notes, spare, used.member).await;
            if let Err(error) = given {
                tracing::warn!(pool = name, %error, "a spare was not given back; will be retried");
            }
        }
    }

    /// Gives back a spare that is a member of a mirror. The caller holds the permit for changes.
    pub(super) async fn give_back(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        spare: SpareGuid,
        member: MemberGuid,
    ) -> Result<()> {
        let path = members(pool).into_iter().find(|s| s.guid == member);
        let path = path.map(|s| s.path).filter(|p| !p.as_os_str().is_empty());
        let path = path.or_else(|| notes.was_at(member));
        let sharers = self.sharers(name, spare);
        let given = pool.give_back_spare(spare, &sharers).await;
        given.map_err(|e| refused(name, e))?;
        self.end_use(name, pool, notes, spare, member, path).await
    }

    /// Updates what is kept of a spare whose disk is no member any more.
    pub(super) async fn end_use(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        spare: SpareGuid,
        member: MemberGuid,
        path: Option<PathBuf>,
    ) -> Result<()> {
        let known: Vec<_> = path.iter().map(|path| (spare, path.clone())).collect();
        self.remember_spares(name, notes, &known).await;
        let text = format!("the spare {} waits again", self.spare_text(notes, spare));
        self.event(name, "spare.returned", text);
        let forgotten = self.forget_member(name, notes, member, path).await;
        self.find_spares(name, pool, notes).await;
        self.places_changed();
        forgotten
    }

    /// The disk of the spare that stands in for a member of a raidz is relieved by a new one: see [`Server::replace_member`].
    pub(super) fn spare_in_raidz(
        &self,
        pool: &Pool,
        notes: &Notes,
        disk: &str,
    ) -> Option<(SpareGuid, SpareEntry)> {
        let found = self.spare_instead_of(pool, notes, disk);
        found.filter(|(_, entry)| {
            let member = entry.used.map(|used| used.member);
            let layout = member.and_then(|m| pool.vdevs().layout_of(m));
            matches!(layout, Some(Layout::Raidz { .. }))
        })
    }

    /// Wakes the supervisors of all pools: a spare that they share may be free now, or taken.
    fn places_changed(&self) {
        let mut state = self.state.borrow_mut();
        for entry in state.pools.all_open_mut() {
            entry.spares_moved = true;
            entry.wake.notify();
        }
    }
}
