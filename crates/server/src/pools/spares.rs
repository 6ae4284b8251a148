//! Hot spares of a pool: added, removed, looked for, and shown.
//!
//! **Owns** the places of spares. **Called by** the control API, creation, import, and the supervisor of a pool. **Invariants**: those of
//! [`crate::change`]; a spare that waits is not open, so that pools can share it; the configuration has its path before it gets a label, and
//! a label without an entry in the pool is removed when the pool is open, because its addition was not answered.

use super::change::{failed, refused};
use super::entry::{SparePlace, SparePlaces};
use super::new_disks::NewDisks;
use super::notes::{Notes, warn_unsaved};
use super::open::open_disk;
use super::search::{list, spares_at};
use crate::api::{self, RemoveDevice, SpareState, VdevSpec};
use crate::config::{Edit, PoolEdit};
use crate::server::{Holdings, Server};
use crate::size::ByteSize;
use crate::{Error, Result};
use io::disk::Disk;
use pool::Pool;
use pool::format::{MemberGuid, SpareEntry, SpareGuid, SparePool};
use pool::vdev::{FoundSpare, MemberStatus};
use std::path::{Path, PathBuf};

/// Whether a spare's disk is a member of the pool.
pub(super) fn is_member(pool: &Pool, entry: &SpareEntry) -> bool {
    let vdevs = pool.vdevs();
    entry
        .used
        .is_some_and(|u| vdevs.state_of(u.member).is_some())
}

fn member_path(pool: &Pool, notes: &Notes, member: MemberGuid) -> Option<PathBuf> {
    let vdevs = pool.vdevs().status();
    let mut members = vdevs.iter().flat_map(|v| &v.members);
    let found = members.find(|s| s.guid == member);
    let present = |s: &MemberStatus| Some(s.path.clone()).filter(|p| !p.as_os_str().is_empty());
    found.and_then(present).or_else(|| notes.was_at(member))
}

/// A member for people: its present or last path, or its GUID.
pub(super) fn member_text(pool: &Pool, notes: &Notes, member: MemberGuid) -> String {
    let path = member_path(pool, notes, member);
    path.map_or_else(
        || format!("{:016x}", member.0),
        |path| path.display().to_string(),
    )
}

impl Server {
    /// Opens disks that become spares or cache devices, and creates missing files with `size`. Errors: `Disk`, `Invalid`; nothing has changed
    /// then.
    pub(super) async fn open_each(
        &self,
        paths: &[PathBuf],
        size: Option<ByteSize>,
    ) -> Result<NewDisks> {
        let one = |path: &PathBuf| VdevSpec::mirror(vec![path.clone()]);
        let each: Vec<VdevSpec> = paths.iter().map(one).collect();
        self.open_new(&each, size).await
    }

    /// Paths of a pool's spares, with several more.
    pub(super) fn with_spares(&self, name: &str, more: &[PathBuf]) -> Vec<PathBuf> {
        let state = self.state.borrow();
        let pool = state.file.config().pool(name);
        let mut paths = pool.map_or(Vec::new(), |p| p.spares.clone());
        for path in more {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        paths
    }

    /// Errors: `Conflict` if the path is that of a member of any pool.
    pub(super) fn check_free_spare(&self, path: &Path) -> Result<()> {
        let state = self.state.borrow();
        let mut pools = state.file.config().pools.iter();
        match pools.find(|p| p.disks.iter().any(|d| d == path)) {
            Some(pool) => Err(Error::Conflict(format!(
                "{} belongs to the pool {:?}",
                path.display(),
                pool.name
            ))),
            None => Ok(()),
        }
    }

    /// Adds spares to an open pool: all of them or none. The caller holds the permit for changes, has checked the disks, and has stored
    /// their paths.
    pub(super) async fn add_spares(
        &self,
        name: &str,
        pool: &Pool,
        disks: &NewDisks,
        force: bool,
    ) -> Result<Vec<(SpareGuid, PathBuf)>> {
        let mut added = Vec::new();
        for disk in disks.vdevs().iter().map(|v| &v.members[0]) {
            match pool.add_spare(disk, force).await {
                Ok(spare) => added.push((spare, disk.info().path.clone())),
                Err(e) => {
                    self.drop_spares(pool, disks, &added).await;
                    return Err(refused(name, e));
                }
            }
        }
        for (_, path) in &added {
            self.event(name, "spare.add", format!("{} is a spare", path.display()));
        }
        Ok(added)
    }

    /// Undoes an addition. What cannot be undone is a spare that waits.
    pub(super) async fn drop_spares(
        &self,
        pool: &Pool,
        disks: &NewDisks,
        added: &[(SpareGuid, PathBuf)],
    ) {
        let open = || disks.vdevs().iter().map(|v| &v.members[0]);
        for (spare, path) in added {
            let disk = open().find(|d| d.info().path == *path);
            let _best_effort = pool.remove_spare(*spare, disk).await;
        }
    }

    /// Remembers the paths of spares.
    pub(super) async fn remember_spares(
        &self,
        name: &str,
        notes: &Notes,
        spares: &[(SpareGuid, PathBuf)],
    ) {
        let known = notes.kept().spares;
        if spares.iter().all(|(s, path)| known.get(&s.0) == Some(path)) {
            return;
        }
        let noted = notes.change(|k| {
            let paths = spares.iter().map(|(spare, path)| (spare.0, path.clone()));
            k.spares.extend(paths);
        });
        warn_unsaved(name, "spares", noted.await);
    }

    /// See [`RemoveDevice`]. Errors: `NoPool`, `NoMember`, `Conflict`, `Pool`, `File`.
    pub async fn remove_device(&self, request: RemoveDevice) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.pool;
        let pool = self.pool_named(name)?;
        let notes = self.notes_of(name)?;
        if self.remove_cache_named(name, &pool, &request.disk).await? {
            return self.pool_view(name);
        }
        let Some((spare, entry)) = self.spare_named(name, &pool, &notes, &request.disk) else {
            return self.remove_vdev(name, &request.disk).await;
        };
        if is_member(&pool, &entry) {
            let text = format!(
                "the spare {} is in use: `wirepool pool detach {name} {0}` ends that first",
                request.disk
            );
            return Err(Error::Conflict(text));
        }
        let path = notes.kept().spares.get(&spare.0).cloned();
        let disk = match &path {
            Some(path) => open_disk(path, None, false).await.ok(),
            None => None,
        };
        let removed = pool.remove_spare(spare, disk.as_ref()).await;
        drop(disk);
        self.forget_spare(name, &notes, spare, path).await?;
        self.event(
            name,
            "spare.remove",
            format!("{} is no spare any more", request.disk),
        );
        removed.map_err(|e| refused(name, e))?;
        self.pool_view(name)
    }

    /// The spare with this path or GUID.
    pub(super) fn spare_named(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        disk: &str,
    ) -> Option<(SpareGuid, SpareEntry)> {
        let kept = notes.kept().spares;
        let state = self.state.borrow();
        let places = state.pools.get(name).map(|p| &p.spares);
        let is_it = |spare: &SpareGuid| {
            let place = places.and_then(|p| p.get(spare)?.path.as_deref());
            let path = place.or(kept.get(&spare.0).map(PathBuf::as_path));
            format!("{:016x}", spare.0) == disk || path == Some(Path::new(disk))
        };
        pool.spares().into_iter().find(|(spare, _)| is_it(spare))
    }

    /// The spare in use that stands in for the disk with this path or GUID.
    pub(super) fn spare_instead_of(
        &self,
        pool: &Pool,
        notes: &Notes,
        disk: &str,
    ) -> Option<(SpareGuid, SpareEntry)> {
        let is_it = |member: MemberGuid| {
            let path = member_path(pool, notes, member);
            format!("{:016x}", member.0) == disk || path.as_deref() == Some(Path::new(disk))
        };
        let mut spares = pool.spares().into_iter();
        spares.find(|(_, e)| is_member(pool, e) && e.used.is_some_and(|u| is_it(u.instead_of)))
    }

    /// Removes what is kept of a spare. Errors: `Pool`.
    pub(super) async fn forget_spare(
        &self,
        name: &str,
        notes: &Notes,
        spare: SpareGuid,
        path: Option<PathBuf>,
    ) -> Result<()> {
        let noted = notes.change(|k| drop(k.spares.remove(&spare.0)));
        warn_unsaved(name, "spares", noted.await);
        if let Some(entry) = self.state.borrow_mut().pools.get_mut(name) {
            entry.spares.remove(&spare);
        }
        let mut paths = self.with_spares(name, &[]);
        paths.retain(|p| Some(p) != path.as_ref());
        self.store_spares(name, paths).await
    }

    async fn store_spares(&self, name: &str, paths: Vec<PathBuf>) -> Result<()> {
        if paths == self.with_spares(name, &[]) {
            return Ok(());
        }
        let new = self.edited(&[&PoolEdit::SetSpares(name.to_owned(), paths)])?;
        let stored = self.store(new).await;
        stored.map_err(|e| {
            failed(
                name,
                format!("the paths of its spares were not stored: {e}"),
            )
        })
    }

    /// The other open pools that share a spare.
    pub(super) fn sharers(&self, name: &str, spare: SpareGuid) -> Vec<SparePool> {
        let state = self.state.borrow();
        let others = state.pools.all_open();
        let others =
            others.filter(|(other, pool)| *other != name && pool.spares().contains_key(&spare));
        let shares = others.map(|(other, pool)| SparePool {
            guid: pool.vdevs().pool(),
            name: other.to_owned(),
        });
        shares.collect()
    }

    /// The other pool of this server that uses a spare.
    fn user_of(&self, name: &str, spare: SpareGuid) -> Option<String> {
        let state = self.state.borrow();
        let uses = |pool: &Pool| {
            let entry = pool.spares().get(&spare).copied();
            entry.is_some_and(|e| is_member(pool, &e))
        };
        let mut others = state.pools.all_open();
        let user = others.find(|(other, pool)| *other != name && uses(pool));
        user.map(|(other, _)| other.to_owned())
    }

    /// Looks for the disks of a pool's spares that are no members, and ends what was interrupted. Takes the permit for changes.
    pub(super) async fn look_for_spares(&self, name: &str, pool: &Pool, notes: &Notes) {
        let found = self.find_spares(name, pool, notes).await;
        self.forget_strays(name, pool, notes, &found).await;
    }

    /// Looks for the disks of a pool's spares that are no members: at their known paths, and in the search directories. Returns all spares
    /// that it met.
    pub(super) async fn find_spares(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
    ) -> Vec<FoundSpare> {
        let entries = pool.spares();
        let configured = self.with_spares(name, &[]);
        if entries.is_empty() && configured.is_empty() {
            return Vec::new();
        }
        let waits = |entry: &SpareEntry| !is_member(pool, entry);
        let wanted: Vec<SpareGuid> = entries
            .iter()
            .filter(|(_, e)| waits(e))
            .map(|e| *e.0)
            .collect();
        let mut paths = configured.clone();
        paths.extend(notes.kept().spares.into_values());
        paths.sort();
        paths.dedup();
        let mut found = spares_at(paths.clone()).await;
        let is_found = |found: &[FoundSpare], spare| found.iter().any(|f| f.label.spare == spare);
        let is_lacking =
            |spare: &SpareGuid| !is_found(&found, *spare) && self.user_of(name, *spare).is_none();
        if wanted.iter().any(is_lacking) && self.state_dir().is_some() {
            let directories = self.search_directories();
            let listed = io::blocking(move || list(&directories, &paths)).await;
            found.extend(spares_at(listed.unwrap_or_default()).await);
        }
        let mut places = SparePlaces::new();
        for spare in wanted {
            let here = found.iter().find(|f| f.label.spare == spare);
            let in_pool = self.user_of(name, spare);
            let reason = match (here, &in_pool) {
                (Some(here), _) => self.adopt(name, pool, here).await.err(),
                (None, Some(other)) => Some(format!("the pool {other:?} uses it")),
                (None, None) => Some("no disk with its label was found".into()),
            };
            let path = here.map(|here| here.path.clone());
            places.insert(
                spare,
                SparePlace {
                    path,
                    reason,
                    in_pool,
                },
            );
        }
        let now = places.iter();
        let now = now.filter_map(|(spare, place)| Some((*spare, place.path.clone()?)));
        let now: Vec<(SpareGuid, PathBuf)> = now.collect();
        self.remember_spares(name, notes, &now).await;
        if let Some(entry) = self.state.borrow_mut().pools.get_mut(name) {
            entry.spares = places;
        }
        found
    }

    /// Gives a spare's label this host and this pool, if they are not in it. Errors: the reason why the spare is not available, for people.
    async fn adopt(
        &self,
        name: &str,
        pool: &Pool,
        here: &FoundSpare,
    ) -> std::result::Result<(), String> {
        let guid = pool.vdevs().pool();
        let label = &here.label;
        if label.host.id == self.host.id && label.is_of(guid) {
            return Ok(());
        }
        let sharers = self.sharers(name, label.spare);
        let is_here = |p: &SparePool| p.guid == guid || sharers.iter().any(|s| s.guid == p.guid);
        if label.host.id != self.host.id && !label.pools.iter().all(is_here) {
            return Err(format!(
                "host {:?} has it as a spare of {}",
                label.host.name,
                label.names()
            ));
        }
        let disk = open_disk(&here.path, None, false).await?;
        let adopted = pool.adopt_spare(label.spare, &disk, &sharers).await;
        adopted.map_err(|e| e.to_string())
    }

    /// Ends additions and removals that were interrupted: removes labels of spares that the pool does not have, and configured paths that
    /// belong to no spare of it.
    async fn forget_strays(&self, name: &str, pool: &Pool, notes: &Notes, found: &[FoundSpare]) {
        let configured = self.with_spares(name, &[]);
        let guid = pool.vdevs().pool();
        let known = |pool: &Pool| pool.spares();
        let is_stray = |f: &&FoundSpare| {
            let is_ours = f.label.is_of(guid) && f.label.host.id == self.host.id;
            is_ours && configured.contains(&f.path) && !known(pool).contains_key(&f.label.spare)
        };
        let is_kept = |path: &PathBuf| {
            let spares = known(pool);
            let noted = notes.kept().spares;
            let of_entry = noted
                .iter()
                .any(|(s, p)| p == path && spares.contains_key(&SpareGuid(*s)));
            let by_label = found
                .iter()
                .any(|f| f.path == *path && spares.contains_key(&f.label.spare));
            of_entry || by_label
        };
        if configured.iter().all(is_kept) {
            return;
        }
        // An addition in progress holds the permit, and has its entry when it ends.
        let Ok(_turn) = self.turn().await else { return };
        for stray in found.iter().filter(is_stray) {
            let Ok(disk) = open_disk(&stray.path, None, false).await else {
                continue;
            };
            if pool
                .vdevs()
                .unlabel_spare(&disk, stray.label.spare)
                .await
                .is_ok()
            {
                let path = stray.path.display();
                let text = format!("{path} was no spare of the pool: its label is removed");
                self.event(name, "spare.forget", text);
            }
        }
        let mut paths = self.with_spares(name, &[]);
        let lacks = |(spare, entry): (&SpareGuid, &SpareEntry)| {
            !is_member(pool, entry) && !notes.kept().spares.contains_key(&spare.0)
        };
        if known(pool).iter().any(lacks) {
            // One of the paths may be that of a spare that was not found yet.
            return;
        }
        paths.retain(is_kept);
        if let Err(error) = self.store_spares(name, paths).await {
            tracing::warn!(pool = name, %error, "the configuration keeps a path of a former spare");
        }
    }

    /// The disk of a spare that waits, opened for use. Errors: the reason, for people.
    pub(super) async fn open_spare(
        &self,
        name: &str,
        spare: SpareGuid,
    ) -> std::result::Result<Disk, String> {
        let path = {
            let state = self.state.borrow();
            let place = state.pools.get(name).and_then(|p| p.spares.get(&spare));
            match place {
                Some(SparePlace {
                    reason: Some(reason),
                    ..
                }) => return Err(reason.clone()),
                Some(SparePlace {
                    path: Some(path), ..
                }) => path.clone(),
                _ => return Err("no disk with its label was found".into()),
            }
        };
        open_disk(&path, None, false).await
    }

    /// Removes the labels of the spares of a pool that is destroyed.
    pub(super) async fn unlabel_spares(
        &self,
        vdevs: &pool::vdev::Vdevs,
        spares: Vec<(SpareGuid, PathBuf)>,
    ) {
        for (spare, path) in spares {
            let Ok(disk) = open_disk(&path, None, false).await else {
                tracing::warn!(disk = %path.display(), "keeps its label of a spare");
                continue;
            };
            if let Err(error) = vdevs.unlabel_spare(&disk, spare).await {
                tracing::warn!(%error, "a spare keeps its label");
            }
        }
    }

    /// The spares of a pool that wait, with their paths.
    pub(super) fn waiting_spares(&self, name: &str) -> Vec<(SpareGuid, PathBuf)> {
        let state = self.state.borrow();
        let places = state.pools.get(name).map(|p| &p.spares);
        let paths = places.into_iter().flatten();
        let paths = paths.filter_map(|(spare, place)| Some((*spare, place.path.clone()?)));
        paths.collect()
    }

    /// Adds the spares of a creation that was interrupted after the pool existed. Disks that are spares already stay.
    pub(super) async fn finish_spares(&self, name: &str, pool: &Pool, paths: &[PathBuf]) {
        let Ok(_turn) = self.turn().await else { return };
        for path in paths {
            let Ok(disk) = open_disk(path, None, false).await else {
                tracing::warn!(pool = name, disk = %path.display(), "cannot be opened, and does not become a spare");
                continue;
            };
            match pool.add_spare(&disk, false).await {
                Ok(_) => {
                    let text = format!(
                        "{} is a spare: its pool's creation was interrupted",
                        path.display()
                    );
                    self.event(name, "spare.add", text);
                }
                Err(pool::vdev::SetupError::SpareTwice { .. }) => {}
                Err(error) => tracing::warn!(pool = name, %error, "a disk did not become a spare"),
            }
        }
    }

    /// Stores new paths of a pool's disks and spares, checked before anything is written.
    pub(super) fn with_more(
        &self,
        name: &str,
        disks: &[PathBuf],
        spares: &[PathBuf],
    ) -> Result<crate::config::ConfigFile> {
        let disks = PoolEdit::SetDisks(name.to_owned(), self.with_paths(name, disks));
        let spares_edit = PoolEdit::SetSpares(name.to_owned(), self.with_spares(name, spares));
        let edits: Vec<&dyn Edit> = match spares.is_empty() {
            true => vec![&disks],
            false => vec![&disks, &spares_edit],
        };
        self.edited(&edits)
    }
}

impl Holdings {
    /// The spares of a pool, for people.
    pub(super) fn spares_view(&self, name: &str, pool: &Pool, notes: &Notes) -> Vec<api::Spare> {
        let places = self.pools.get(name).map(|p| &p.spares);
        let kept = notes.kept().spares;
        let view = |(spare, entry): (SpareGuid, SpareEntry)| {
            let used = entry.used.filter(|_| is_member(pool, &entry));
            let place = places.and_then(|p| p.get(&spare));
            let path = match used {
                Some(used) => member_path(pool, notes, used.member),
                None => place.and_then(|p| p.path.clone()),
            };
            let in_pool = place
                .and_then(|p| p.in_pool.clone())
                .filter(|_| used.is_none());
            let reason = place
                .and_then(|p| p.reason.clone())
                .filter(|_| used.is_none());
            let state = match (&used, &in_pool, place) {
                (Some(_), ..) | (_, Some(_), _) => SpareState::Inuse,
                (_, _, Some(place)) if place.path.is_some() && place.reason.is_none() => {
                    SpareState::Avail
                }
                _ => SpareState::Unavail,
            };
            api::Spare {
                guid: format!("{:016x}", spare.0),
                path: path.or_else(|| kept.get(&spare.0).cloned()),
                state,
                size: entry.size,
                member: used.map(|u| format!("{:016x}", u.member.0)),
                instead_of: used.map(|u| member_text(pool, notes, u.instead_of)),
                in_pool,
                reason,
            }
        };
        pool.spares().into_iter().map(view).collect()
    }
}
