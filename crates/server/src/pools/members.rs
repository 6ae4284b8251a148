//! Live changes of a pool's disks: attach, detach, replace, online, offline.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; a disk is in the
//! configuration before it gets a label, and leaves it after it was detached, so that a restart in between finds
//! every disk that the pool needs.

use super::change::{check_paths, failed, refused};
use super::new_disks::NewDisks;
use super::notes::{Notes, Replacing};
use super::open::open_disk;
use super::spares::member_text;
use super::view;
use crate::api::{
    self, AttachMember, DetachMember, OfflineMember, OnlineMember, ReplaceMember, VdevLayout,
    VdevSpec,
};
use crate::config::{ConfigFile, PoolConfig, PoolEdit};
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use io::disk::Disk;
use pool::Pool;
use pool::format::{MemberGuid, SpareEntry, SpareGuid, VdevId, VdevKind};
use pool::vdev::{Layout, MemberState, MemberStatus};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A disk of an open pool.
struct Named {
    pool: Rc<Pool>,
    notes: Rc<Notes>,
    vdev: VdevId,
    layout: Layout,
    member: MemberStatus,
}

/// A disk to attach.
struct NewMember<'a> {
    path: &'a Path,
    size: Option<ByteSize>,
    force: bool,
}

/// How a disk joins a vdev.
#[derive(Clone, Copy)]
enum Joining {
    /// As a member more.
    Beside,
    /// As one disk more of a raidz, whose rows become wider.
    Wider,
    /// For a member, which leaves.
    InPlace,
}

impl Server {
    /// See [`AttachMember`]. Errors: `NoPool`, `NoMember`, `Invalid`, `Conflict`, `Disk`, `Pool`, `File`. The same holds
    /// for the others.
    pub async fn attach_member(self: &Rc<Self>, request: AttachMember) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let vdev = self.vdev_named(&request.pool, &request.disk)?;
        let is_vdev = vdev.is_some();
        let named = match vdev {
            Some(named) => named,
            None => self.member_named(&request.pool, &request.disk)?,
        };
        let joining = match named.layout {
            Layout::Mirror => Joining::Beside,
            Layout::Raidz { .. } if is_vdev => Joining::Wider,
            Layout::Raidz { parity } => {
                let layout = VdevLayout::from(VdevKind::Raidz { parity });
                let text = format!(
                    "{} is a disk of a raidz: `wirepool pool attach {} {} {}` expands it by a disk for good",
                    request.disk,
                    request.pool,
                    layout.vdev_name(named.vdev.0),
                    request.new.display()
                );
                return Err(Error::Conflict(text));
            }
        };
        let new = NewMember {
            path: &request.new,
            size: request.size,
            force: request.force,
        };
        self.join(&request.pool, &named, new, joining).await?;
        if let Joining::Wider = joining {
            let text = format!("{} is expanded by {}", request.disk, request.new.display());
            self.event(&request.pool, "expansion.start", text);
        }
        self.wake_supervisor(&request.pool);
        self.pool_view(&request.pool)
    }

    /// The number of a vdev with this name, or with a disk of this path or GUID.
    pub(super) fn vdev_of(&self, name: &str, device: &str) -> Result<VdevId> {
        match self.vdev_named(name, device)? {
            Some(named) => Ok(named.vdev),
            None => Ok(self.member_named(name, device)?.vdev),
        }
    }

    /// See [`DetachMember`].
    pub async fn detach_member(&self, request: DetachMember) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.pool;
        let (pool, notes) = (self.pool_named(name)?, self.notes_of(name)?);
        // Without the disk that it stands in for, a spare is a member like any other.
        if let Some((spare, entry)) = self.spare_instead_of(&pool, &notes, &request.disk) {
            self.keep_spare(name, &pool, &notes, spare, entry).await?;
            return self.pool_view(name);
        }
        let named = self.member_named(name, &request.disk)?;
        let member = named.member.guid;
        let used = pool.spare_of(member).map(|(_, used)| used);
        if used.is_some() && named.layout != Layout::Mirror {
            let text = format!(
                "the spare {0} has the place of a disk of a raidz: `wirepool pool replace {name} {0} NEW` puts a new disk there",
                request.disk
            );
            return Err(Error::Conflict(text));
        }
        self.detach(name, &pool, &notes, member).await?;
        if let Some(used) = used {
            let wish = notes.change(|k| k.no_spare_for.extend([used.instead_of.0]));
            wish.await?;
        }
        self.pool_view(name)
    }

    /// See [`ReplaceMember`].
    pub async fn replace_member(self: &Rc<Self>, request: ReplaceMember) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let (pool, notes) = (
            self.pool_named(&request.pool)?,
            self.notes_of(&request.pool)?,
        );
        let disk = match self.spare_in_raidz(&pool, &notes, &request.disk) {
            Some((_, entry)) => {
                let member = entry.used.map_or(0, |used| used.member.0);
                format!("{member:016x}")
            }
            None => request.disk.clone(),
        };
        let named = self.member_named(&request.pool, &disk)?;
        let old = named.member.guid;
        let asked = request.new.as_ref().map(|path| path.display().to_string());
        if let Some(asked) = asked
            && let Some((spare, _)) = self.spare_named(&request.pool, &pool, &notes, &asked)
        {
            if named.member.state == MemberState::Online {
                let text = format!(
                    "{} works: a spare stands in only for a disk that is offline, faulted or missing",
                    request.disk
                );
                return Err(Error::Conflict(text));
            }
            self.take_this_spare(&request.pool, &pool, &notes, spare, old)
                .await?;
            self.wake_supervisor(&request.pool);
            return self.pool_view(&request.pool);
        }
        let being = |r: &Replacing| r.old == old.0 || r.new == old.0;
        if named.notes.kept().replacing.iter().any(being) {
            let text = "that disk is being replaced already: see `wirepool pool status`";
            return Err(Error::Conflict(text.into()));
        }
        let original = pool.spare_of(old).map(|(_, used)| used.instead_of);
        let here = match original {
            Some(original) => notes.was_at(original).unwrap_or_default(),
            None => named.member.path.clone(),
        };
        let was = Some(here)
            .filter(|p| !p.as_os_str().is_empty())
            .or_else(|| named.notes.was_at(old));
        let Some(path) = request.new.or(was) else {
            let text = "the path of that disk is unknown: give the new disk as well";
            return Err(Error::Invalid(text.into()));
        };
        let new = NewMember {
            path: &path,
            size: request.size,
            force: request.force,
        };
        if named.layout != Layout::Mirror {
            self.put_in_place(&request.pool, &named, new).await?;
            self.wake_supervisor(&request.pool);
            return self.pool_view(&request.pool);
        }
        let new = self
            .join(&request.pool, &named, new, Joining::Beside)
            .await?;
        let replacing = Replacing {
            old: old.0,
            new: new.0,
        };
        let noted = named
            .notes
            .change(|k| k.replacing.push(replacing.clone()))
            .await;
        if let Err(e) = noted {
            self.detach(&request.pool, &named.pool, &named.notes, new)
                .await?;
            return Err(e);
        }
        self.wake_supervisor(&request.pool);
        self.pool_view(&request.pool)
    }

    /// See [`OnlineMember`].
    pub async fn online_member(self: &Rc<Self>, request: OnlineMember) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.pool;
        let named = self.member_named(name, &request.disk)?;
        let vdevs = named.pool.vdevs();
        let member = named.member.guid;
        let is_in = matches!(named.member.state, MemberState::Online | MemberState::Stale);
        let disk = match request.path {
            _ if is_in => None,
            Some(path) => Some(self.reopen(&path).await?),
            None => self.returned(&named).await?,
        };
        if let Some(disk) = &disk {
            let paths = self.with_path(name, &disk.info().path);
            let new = self.edited(&[&PoolEdit::SetDisks(name.clone(), paths)])?;
            self.store(new).await?;
        }
        vdevs
            .online(member, disk)
            .await
            .map_err(|e| refused(name, e))?;
        if request.expand {
            self.expand(name, &named.pool, named.vdev).await?;
        }
        self.wake_supervisor(name);
        self.pool_view(name)
    }

    async fn reopen(&self, path: &Path) -> Result<Disk> {
        check_paths(&[path.to_path_buf()])?;
        let opened = open_disk(path, None, false).await;
        opened.map_err(|reason| Error::Disk {
            name: path.display().to_string(),
            reason,
        })
    }

    /// The disk at a member's last path, opened anew. `None` if the disk that is open still answers, which then stays. Errors: `Disk`.
    async fn returned(&self, named: &Named) -> Result<Option<Disk>> {
        let Named { pool, member, .. } = named;
        let is_open = !member.path.as_os_str().is_empty();
        let place = match is_open {
            true => Some(member.path.clone()),
            false => named.notes.was_at(member.guid),
        };
        let Some(path) = place else {
            return Ok(None);
        };
        match self.reopen(&path).await {
            Ok(disk) => Ok(Some(disk)),
            // The same disk is open here, which locks it.
            Err(_) if is_open && member.state == MemberState::Offline => Ok(None),
            Err(_) if is_open && pool.vdevs().answers(member.guid).await => Ok(None),
            Err(Error::Disk { name, reason }) if is_open => Err(Error::Disk {
                name,
                reason: format!(
                    "{reason}. The pool has had it open since it failed, and does not find this member's label on it: put the \
                     member's own disk there, or give the member another disk with `wirepool pool replace`"
                ),
            }),
            Err(e) => Err(e),
        }
    }

    /// See [`OfflineMember`].
    pub async fn offline_member(&self, request: OfflineMember) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let named = self.member_named(&request.pool, &request.disk)?;
        let vdevs = named.pool.vdevs();
        vdevs
            .offline(named.member.guid)
            .await
            .map_err(|e| refused(&request.pool, e))?;
        self.pool_view(&request.pool)
    }

    /// A vdev of an open pool with this name, such as `raidz2-0`, by its first disk. `None` if there is none.
    fn vdev_named(&self, name: &str, vdev: &str) -> Result<Option<Named>> {
        let pool = self.pool_named(name)?;
        let notes = self.notes_of(name)?;
        let vdevs = pool.vdevs().status();
        let found = vdevs.iter().find(|v| view::vdev(v).name == vdev);
        let first = found.and_then(|v| Some((v, v.members.first()?)));
        Ok(first.map(|(vdev, member)| Named {
            vdev: vdev.id,
            layout: vdev.kind.into(),
            member: member.clone(),
            pool: pool.clone(),
            notes,
        }))
    }

    /// The disk of an open pool with this path or GUID.
    fn member_named(&self, name: &str, disk: &str) -> Result<Named> {
        let pool = self.pool_named(name)?;
        let notes = self.notes_of(name)?;
        let vdevs = pool.vdevs().status();
        let members = || {
            vdevs
                .iter()
                .flat_map(|v| v.members.iter().map(move |s| (v, s)))
        };
        let by_guid = members().find(|(_, s)| format!("{:016x}", s.guid.0) == disk);
        let by_path = || members().find(|(_, s)| s.path == Path::new(disk));
        let by_memory = || {
            members().find(|(_, s)| {
                let was = notes.was_at(s.guid);
                s.path.as_os_str().is_empty() && was.is_some_and(|p| p == Path::new(disk))
            })
        };
        let found = by_guid.or_else(by_path).or_else(by_memory);
        let (vdev, member) = found.ok_or_else(|| Error::NoMember {
            pool: name.to_owned(),
            disk: disk.to_owned(),
        })?;
        Ok(Named {
            vdev: vdev.id,
            layout: vdev.kind.into(),
            member: member.clone(),
            pool: pool.clone(),
            notes,
        })
    }

    /// Paths of a pool's disks, with one more.
    fn with_path(&self, name: &str, path: &Path) -> Vec<PathBuf> {
        self.with_paths(name, &[path.to_path_buf()])
    }

    /// Paths of a pool's disks, with several more.
    pub(super) fn with_paths(&self, name: &str, more: &[PathBuf]) -> Vec<PathBuf> {
        let state = self.state.borrow();
        let mut paths = state
            .file
            .config()
            .pool(name)
            .map_or(Vec::new(), |p| p.disks.clone());
        for path in more {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        paths
    }

    /// Errors: `Conflict` if the path is a disk of another pool, or an open disk of this one.
    pub(super) fn check_free(&self, name: &str, path: &Path) -> Result<()> {
        let state = self.state.borrow();
        let pools = &state.file.config().pools;
        let other = |p: &&PoolConfig| p.name != name && p.disks.iter().any(|d| d == path);
        if let Some(other) = pools.iter().find(other) {
            let text = format!("{} belongs to the pool {:?}", path.display(), other.name);
            return Err(Error::Conflict(text));
        }
        let has_it = |p: &&PoolConfig| p.spares.iter().any(|d| d == path);
        if let Some(pool) = pools.iter().find(has_it) {
            let text = format!(
                "{0} is a spare of the pool {1:?}: `wirepool pool remove {1} {0}` first",
                path.display(),
                pool.name
            );
            return Err(Error::Conflict(text));
        }
        Ok(())
    }

    /// Takes a disk into the vdev of a member. The caller holds the permit for changes.
    async fn join(
        &self,
        name: &str,
        named: &Named,
        new: NewMember<'_>,
        joining: Joining,
    ) -> Result<MemberGuid> {
        check_paths(&[new.path.to_path_buf()])?;
        self.check_free(name, new.path)?;
        let before = self.state.borrow().file.clone();
        let paths = self.with_path(name, new.path);
        let edited = self.edited(&[&PoolEdit::SetDisks(name.to_owned(), paths)])?;
        let disks = self
            .open_new(&[VdevSpec::mirror(vec![new.path.to_path_buf()])], new.size)
            .await?;
        let joined = self.join_on(&disks, name, named, (new.force, joining), edited);
        let member = match joined.await {
            Ok(member) => member,
            Err(e) => {
                if self.state.borrow().file.text() != before.text() {
                    self.store(before).await?;
                }
                disks.discard().await;
                return Err(e);
            }
        };
        self.remember_paths(&named.pool, &named.notes).await;
        Ok(member)
    }

    /// Takes a disk that is open, after everything that can refuse.
    async fn join_on(
        &self,
        disks: &NewDisks,
        name: &str,
        named: &Named,
        (force, joining): (bool, Joining),
        edited: ConfigFile,
    ) -> Result<MemberGuid> {
        if !force {
            disks.check(name, &[]).await?;
        }
        self.store(edited).await?;
        let disk = disks.vdevs()[0].members[0].clone();
        let vdevs = named.pool.vdevs();
        let old = named.member.guid;
        let joined = match (joining, named.pool.spare_of(old)) {
            (Joining::Beside, _) => vdevs.attach(named.vdev, disk, force).await,
            (Joining::Wider, _) => named.pool.expand(named.vdev, disk, force).await,
            (Joining::InPlace, None) => vdevs.replace(old, disk, force).await,
            (Joining::InPlace, Some((spare, _))) => {
                let sharers = self.sharers(name, spare);
                let pool = &named.pool;
                pool.relieve_spare(spare, disk, force, &sharers).await
            }
        };
        joined.map_err(|e| refused(name, e))
    }

    /// Puts a disk in the place of a member of a raidz, whose rows cannot have a member more for a while. The caller holds the permit for
    /// changes.
    async fn put_in_place(&self, name: &str, named: &Named, new: NewMember<'_>) -> Result<()> {
        let old = named.member.guid;
        let relieved = named.pool.spare_of(old);
        let new = self.join(name, named, new, Joining::InPlace).await?;
        let text = format!("{:016x} is replaced by {:016x}", old.0, new.0);
        self.event(name, "member.replaced", text);
        if let Some((spare, used)) = relieved {
            let (pool, notes) = (&named.pool, &named.notes);
            let was = notes.was_at(used.instead_of);
            self.forget_member(name, notes, used.instead_of, was)
                .await?;
            let path = Some(named.member.path.clone()).filter(|p| !p.as_os_str().is_empty());
            let path = path.or_else(|| notes.was_at(old));
            return self.end_use(name, pool, notes, spare, old, path).await;
        }
        let here = Some(named.member.path.clone()).filter(|p| !p.as_os_str().is_empty());
        let gone = here.or_else(|| named.notes.was_at(old));
        self.forget_member(name, &named.notes, old, gone).await
    }

    /// Detaches a disk. The caller holds the permit for changes.
    pub(super) async fn detach(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        member: MemberGuid,
    ) -> Result<()> {
        if let Some((spare, _)) = pool.spare_of(member) {
            return self.give_back(name, pool, notes, spare, member).await;
        }
        let vdevs = pool.vdevs();
        let all = vdevs.status();
        let mut members = all.iter().flat_map(|v| &v.members);
        let found = members.find(|s| s.guid == member).map(|s| s.path.clone());
        let path = found
            .filter(|p| !p.as_os_str().is_empty())
            .or_else(|| notes.was_at(member));
        vdevs.detach(member).await.map_err(|e| refused(name, e))?;
        self.forget_member(name, notes, member, path).await
    }

    /// Makes the use of a spare permanent, and detaches the disk that it stands in for. The caller holds the permit for changes.
    async fn keep_spare(
        &self,
        name: &str,
        pool: &Pool,
        notes: &Notes,
        spare: SpareGuid,
        entry: SpareEntry,
    ) -> Result<()> {
        let Some(used) = entry.used else {
            return Err(failed(name, "the spare is not in use"));
        };
        let which = member_text(pool, notes, used.instead_of);
        let vdevs = pool.vdevs();
        if vdevs.state_of(used.member) != Some(MemberState::Online) {
            let text = format!(
                "the spare that stands in for {which} does not have every block yet: wait for its resilver"
            );
            return Err(Error::Conflict(text));
        }
        let kept = pool.keep_spare(spare).await;
        kept.map_err(|e| refused(name, e))?;
        let path = notes.kept().spares.get(&spare.0).cloned();
        self.forget_spare(name, notes, spare, path).await?;
        self.event(
            name,
            "spare.kept",
            format!("a spare is a member for good, instead of {which}"),
        );
        match vdevs.state_of(used.instead_of) {
            Some(_) => self.detach(name, pool, notes, used.instead_of).await,
            None => {
                let was = notes.was_at(used.instead_of);
                self.forget_member(name, notes, used.instead_of, was).await
            }
        }
    }

    /// Removes what is kept of a former member: its notes, and its path in the configuration unless another member has it.
    pub(super) async fn forget_member(
        &self,
        name: &str,
        notes: &Notes,
        member: MemberGuid,
        path: Option<PathBuf>,
    ) -> Result<()> {
        let noted = notes.change(|k| {
            k.paths.remove(&member.0);
            k.replacing
                .retain(|r| r.old != member.0 && r.new != member.0);
        });
        noted.await?;
        let others: Vec<_> = notes.kept().paths.into_values().collect();
        let gone = path.filter(|p| !others.contains(p));
        let Some(gone) = gone else { return Ok(()) };
        let mut paths = self.with_path(name, &gone);
        paths.retain(|p| *p != gone);
        if paths.is_empty() {
            return Ok(());
        }
        let new = self.edited(&[&PoolEdit::SetDisks(name.to_owned(), paths)])?;
        self.store(new)
            .await
            .map_err(|e| failed(name, format!("the disk is out of the pool, but {e}")))
    }

    /// Stores the paths of the present disks.
    pub(super) async fn remember_paths(&self, pool: &Pool, notes: &Notes) {
        let vdevs = pool.vdevs().status();
        let there = |s: &&MemberStatus| !s.path.as_os_str().is_empty();
        let paths: Vec<_> = vdevs
            .iter()
            .flat_map(|v| &v.members)
            .filter(there)
            .filter(|s| notes.was_at(s.guid).as_ref() != Some(&s.path))
            .map(|s| (s.guid.0, s.path.clone()))
            .collect();
        if paths.is_empty() {
            return;
        }
        let noted = notes.change(|k| k.paths.extend(paths.iter().cloned()));
        if let Err(error) = noted.await {
            tracing::warn!(%error, "the paths of the pool's disks could not be saved");
        }
    }
}
