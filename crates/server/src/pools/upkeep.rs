//! Upkeep of a pool: returned disks are brought online, stale ones are resilvered, and replaced ones are detached.
//!
//! **Called by** the supervisor of an open pool. **Invariants**: one round at a time; it ends with the pool's entry;
//! a failure is reported and retried in the next round.

use super::notes::Notes;
use super::open::open_disk;
use super::search::Labelled;
use super::supervisor::{Seen, Supervisor};
use super::view::fault_text;
use crate::limits::RETURNS_MAX;
use crate::server::Server;
use crate::size::ByteSize;
use crate::word::word;
use pool::Pool;
use pool::format::{MemberGuid, PoolProperty, VdevId};
use pool::vdev::{Fault, MemberState, MemberStatus};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn members(pool: &Pool) -> Vec<MemberStatus> {
    let vdevs = pool.vdevs().status();
    vdevs.into_iter().flat_map(|v| v.members).collect()
}

impl Supervisor {
    /// Records events for members that changed, had errors, or found no space, since the last check.
    fn look(&self, pool: &Pool) {
        let mut seen = self.seen.borrow_mut();
        let vdevs = pool.vdevs().status().into_iter();
        let members = vdevs.flat_map(|v| v.members.into_iter().map(move |s| (s, v.size)));
        for (s, data_size) in members {
            let c = &s.counters;
            let now = Seen {
                state: s.state,
                errors: c.read_errors + c.write_errors + c.checksum_errors,
                has_no_space: s.fault == Some(Fault::NoSpace),
            };
            let named = match s.path.as_os_str().is_empty() {
                true => format!("{:016x}", s.guid.0),
                false => s.path.display().to_string(),
            };
            let before = seen.insert(s.guid, now);
            let is_first = before.is_none() && now.state == MemberState::Online;
            if !is_first && before.map(|b| b.state) != Some(now.state) {
                let why = s.fault.filter(|_| s.state == MemberState::Faulted);
                let why = why.map_or(String::new(), |f| {
                    format!(" ({})", fault_text(f, data_size))
                });
                let class = format!("member.{}", word(s.state));
                let text = format!("{named} is {}{why}", word(s.state));
                self.server.event(&self.name, &class, text);
            }
            let had_none = before.is_some_and(|b| b.has_no_space);
            if now.has_no_space != had_none {
                let (class, what) = match now.has_no_space {
                    true => ("member.no_space", "is full: free space there"),
                    false => ("member.space", "has space again"),
                };
                let text = format!("the file system below {named} {what}");
                self.server.event(&self.name, class, text);
            }
            let more = now.errors.saturating_sub(before.map_or(0, |b| b.errors));
            if more > 0 {
                let text = format!("{named}: {more} errors");
                self.server.event(&self.name, "member.errors", text);
            }
        }
    }

    /// Records events for expansions that ended, or began to wait, since the last check.
    fn look_at_expansions(&self, pool: &Pool) {
        let now = pool.expanding().into_iter();
        let now: BTreeMap<VdevId, _> = now.map(|e| (e.vdev, e.waits_for)).collect();
        let before = self.expanding.replace(now.clone());
        let views = super::view::vdevs(pool);
        let status = pool.vdevs().status();
        let index = |vdev: &VdevId| status.iter().position(|v| v.id == *vdev);
        let view = |vdev: &VdevId| views.get(index(vdev)?);
        for vdev in before.keys().filter(|vdev| !now.contains_key(vdev)) {
            let name = view(vdev).map_or_else(String::new, |v| v.name.clone());
            let text = format!("{name} has its new size");
            self.server.event(&self.name, "expansion.finish", text);
        }
        for (vdev, wait) in now
            .iter()
            .filter(|(vdev, wait)| before.get(vdev) != Some(wait))
        {
            let Some(view) = view(vdev) else { continue };
            let expansion = view.expansion.as_ref();
            if let (Some(_), Some(reason)) = (wait, expansion.and_then(|e| e.waits_for.clone())) {
                let text = format!("the expansion of {} waits: {reason}", view.name);
                self.server.event(&self.name, "expansion.wait", text);
            }
        }
    }

    /// Records an event if the special class had no room for the first time, and one when it has room again.
    fn look_at_special_class(&self, pool: &Pool) {
        let Some(class) = super::view::special(pool) else {
            self.spilled.take();
            return;
        };
        let now = class.spilled_bytes();
        let (before, is_full) = self.spilled.get();
        let name = &self.name;
        let is_full = match (is_full, now > before) {
            (false, true) => {
                let most = class.spilled.iter().max_by_key(|of| of.bytes);
                let most = most.map_or(String::new(), |of| {
                    format!(", most of it of {}", of.dataset)
                });
                let text = format!(
                    "the special class has no room: {} of metadata and small records went to the other vdevs{most}; \
                     add to it: wirepool pool add {name} special mirror DISK DISK",
                    ByteSize(now - before).human()
                );
                self.server.event(name, "special.full", text);
                true
            }
            (true, false) if class.takes_small_records => {
                let text = "the special class has room again";
                self.server.event(name, "special.room", text.to_owned());
                false
            }
            (is_full, _) => is_full,
        };
        self.spilled.set((now, is_full));
    }

    /// One round of upkeep.
    pub(super) async fn round(&self, pool: &Pool, notes: &Notes) {
        pool.vdevs().check_sizes().await;
        pool.vdevs().look_for_space().await;
        self.look(pool);
        self.look_at_expansions(pool);
        self.look_at_special_class(pool);
        self.look_at_removal(pool).await;
        self.server.look_for_damage(&self.name, pool, notes).await;
        if pool.vdevs().is_read_only() {
            return;
        }
        let (server, name) = (&self.server, self.name.as_str());
        let paths = self.places(pool).await;
        take_back(name, pool, paths).await;
        server.update_paths(name, pool).await;
        self.return_faulted(pool).await;
        self.tend_spares(pool, notes).await;
        self.tend_caches(pool).await;
        server.start_resilver(name).await;
        end_replacing(server, name, pool, notes).await;
        server.give_spares_back(name, pool, notes).await;
        expand(server, name, pool).await;
        server.remember_paths(pool, notes).await;
        self.look(pool);
    }

    /// Paths at which a missing member may be: the configured ones, and, after a change of the search directories, those of disks that
    /// have its label.
    async fn places(&self, pool: &Pool) -> Vec<PathBuf> {
        let all = members(pool);
        if !all.iter().any(|s| s.state == MemberState::Missing) {
            return Vec::new();
        }
        let config = self
            .server
            .state
            .borrow()
            .file
            .config()
            .pool(&self.name)
            .cloned();
        let Some(config) = config else {
            return Vec::new();
        };
        let changed = Some(self.server.directories_changed().await);
        let mut paths = config.disks.clone();
        if *self.searched.borrow() != changed {
            let guid = pool.vdevs().pool();
            let found = self.server.search(&config).await;
            let is_ours = |l: &Labelled| l.pool == guid;
            paths.extend(found.into_iter().filter(is_ours).map(|l| l.path));
            *self.searched.borrow_mut() = changed;
        }
        paths
    }

    /// Brings disks online that were gone, hung or too short and work again, a few times each. A disk with too many
    /// errors waits for the operator.
    async fn return_faulted(&self, pool: &Pool) {
        let vdevs = pool.vdevs();
        let may_return = |s: &MemberStatus| {
            let fault = matches!(s.fault, Some(Fault::Gone | Fault::Hung | Fault::Short(_)));
            let returns = self.returns.borrow().get(&s.guid).copied();
            s.state == MemberState::Faulted && fault && returns.unwrap_or(0) < RETURNS_MAX
        };
        for s in members(pool).into_iter().filter(may_return) {
            let disk = match open_disk(&s.path, None, false).await {
                Ok(disk) => Some(disk),
                Err(_) if vdevs.answers(s.guid).await => None,
                Err(_) => continue,
            };
            if vdevs.online(s.guid, disk).await.is_ok() {
                tracing::info!(pool = self.name, disk = %s.path.display(), "answers again");
                *self.returns.borrow_mut().entry(s.guid).or_default() += 1;
            }
        }
    }
}

/// Brings missing disks online that are present again.
async fn take_back(name: &str, pool: &Pool, paths: Vec<PathBuf>) {
    let all = members(pool);
    let vdevs = pool.vdevs();
    for path in paths {
        if all.iter().any(|s| s.path == path) {
            continue;
        }
        let Ok(disk) = open_disk(&path, None, false).await else {
            continue;
        };
        let Some(member) = vdevs.identify(&disk).await else {
            continue;
        };
        let missing = |s: &MemberStatus| s.guid == member && s.state == MemberState::Missing;
        if !all.iter().any(missing) {
            continue;
        }
        match vdevs.online(member, Some(disk)).await {
            Ok(()) => tracing::info!(pool = name, disk = %path.display(), "is back"),
            Err(error) => {
                tracing::warn!(pool = name, disk = %path.display(), %error, "cannot be brought online");
            }
        }
    }
}

/// Expands vdevs whose disks have grown, if `autoexpand` is on.
async fn expand(server: &Server, name: &str, pool: &Pool) {
    if !pool.is_on(PoolProperty::Autoexpand) {
        return;
    }
    let Ok(_turn) = server.turn().await else {
        return;
    };
    for vdev in pool.vdevs().table() {
        if let Err(error) = server.expand(name, pool, vdev.id).await {
            tracing::warn!(pool = name, %error, "a vdev could not be expanded; will be retried");
        }
    }
}

/// Detaches disks whose replacements have every block.
async fn end_replacing(server: &Server, name: &str, pool: &Pool, notes: &Notes) {
    for r in notes.kept().replacing {
        let Ok(_turn) = server.turn().await else {
            return;
        };
        let all = members(pool);
        let state = |guid: u64| all.iter().find(|s| s.guid.0 == guid).map(|s| s.state);
        let ended = match (state(r.old), state(r.new)) {
            (Some(_), Some(MemberState::Online)) => {
                server.detach(name, pool, notes, MemberGuid(r.old)).await
            }
            (Some(_), Some(_)) => continue,
            _ => {
                notes
                    .change(|k| k.replacing.retain(|other| *other != r))
                    .await
            }
        };
        match ended {
            Ok(()) => {
                let text = format!("{:016x} is replaced by {:016x}", r.old, r.new);
                server.event(name, "member.replaced", text);
            }
            Err(error) => tracing::warn!(pool = name, %error, "not detached; will be retried"),
        }
    }
}
