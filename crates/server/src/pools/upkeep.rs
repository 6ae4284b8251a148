//! What a pool's keeper does from time to time: disks that are back are used again, stale ones are resilvered, and
//! replaced ones detached.
//!
//! **Called by** the keeper of an open pool. **Invariants**: one round at a time; it ends with the pool's entry; what
//! fails is told and tried again in the next round.

use super::Keeper;
use super::notes::Notes;
use super::open::open_disk;
use super::rate;
use crate::Result;
use crate::api::{self, ResilverPool, ScanState};
use crate::limits::RETURNS_MAX;
use crate::server::Server;
use crate::target::word;
use io::time::wall_clock_ms;
use pool::format::{PoolProperty, SideGuid};
use pool::vdev::{Fault, SideState, SideStatus};
use pool::{Pool, Resilvering};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

fn sides(pool: &Pool) -> Vec<SideStatus> {
    let vdevs = pool.vdevs().status();
    vdevs.into_iter().flat_map(|v| v.sides).collect()
}

/// What a side was when it was last looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    state: SideState,
    errors: u64,
}

impl Keeper {
    /// Tells of sides that changed, or met errors, since the last look.
    fn look(&self, pool: &Pool) {
        let mut seen = self.seen.borrow_mut();
        for s in sides(pool) {
            let c = &s.counters;
            let now = Seen {
                state: s.state,
                errors: c.read_errors + c.write_errors + c.checksum_errors,
            };
            let named = match s.path.as_os_str().is_empty() {
                true => format!("{:016x}", s.guid.0),
                false => s.path.display().to_string(),
            };
            let before = seen.insert(s.guid, now);
            let is_first = before.is_none() && now.state == SideState::Online;
            if !is_first && before.map(|b| b.state) != Some(now.state) {
                let why = s.fault.filter(|_| s.state == SideState::Faulted);
                let why = why.map_or(String::new(), |f| format!(" ({})", word(f)));
                let class = format!("side.{}", word(s.state));
                let text = format!("{named} is {}{why}", word(s.state));
                self.server.event(&self.name, &class, text);
            }
            let more = now.errors.saturating_sub(before.map_or(0, |b| b.errors));
            if more > 0 {
                let text = format!("{named}: {more} errors");
                self.server.event(&self.name, "side.errors", text);
            }
        }
    }

    /// One round.
    pub(super) async fn round(&self, pool: &Pool, notes: &Notes) {
        self.look(pool);
        self.server.look_for_damage(&self.name, pool, notes).await;
        if pool.vdevs().is_read_only() {
            return;
        }
        let (server, name) = (&*self.server, self.name.as_str());
        take_back(server, name, pool).await;
        self.return_faulted(pool).await;
        self.resilver(pool, notes).await;
        end_replacing(server, name, pool, notes).await;
        expand(server, name, pool).await;
        server.remember_paths(pool, notes).await;
        self.look(pool);
    }

    /// Uses disks again that were gone or hung and answer, a few times each: one whose errors were too many waits for the
    /// operator.
    async fn return_faulted(&self, pool: &Pool) {
        let vdevs = pool.vdevs();
        let may_return = |s: &SideStatus| {
            let fault = matches!(s.fault, Some(Fault::Gone | Fault::Hung));
            let returns = self.returns.borrow().get(&s.guid).copied();
            s.state == SideState::Faulted && fault && returns.unwrap_or(0) < RETURNS_MAX
        };
        for s in sides(pool).into_iter().filter(may_return) {
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

    /// Brings sides that missed something, and are there, up to date.
    async fn resilver(&self, pool: &Pool, notes: &Notes) {
        let name = &self.name;
        let stale = pool.vdevs().stale_sides();
        let unfinished = notes.kept().resilver.filter(|r| r.ended_ms.is_none());
        if stale.is_empty() {
            // the disk was detached, or joined as the server ended
            if let Some(last) = unfinished {
                self.note_resilver(notes, ended(last, ScanState::Stopped))
                    .await;
            }
            return;
        }
        self.server
            .event(name, "resilver.start", "resilvering".into());
        let first = begun(stale[0].1, unfinished);
        *self.resilver.borrow_mut() = Some(first.clone());
        self.note_resilver(notes, first).await;
        let mut pace = Pace::new();
        let show = |r: &Resilvering| {
            let mut shown = self.resilver.borrow_mut();
            let before = shown.take().filter(|s| s.side == side_name(r.side));
            let is_next = before.is_none();
            let before = before.unwrap_or_else(|| begun(r.side, None));
            if is_next {
                pace = Pace::new();
            }
            let rate_max = notes.kept().resilver_rate;
            *shown = Some(api::Resilver {
                active_ms: pace.began.elapsed().as_millis() as u64,
                done: r.done,
                of: Some(r.of),
                copied: r.copied,
                rate_max,
                ..before
            });
            pace.rest(r.done, rate_max)
        };
        let result = pool.resilver_paced(show).await;
        let last = self.resilver.borrow_mut().take();
        let last = last.unwrap_or_default();
        let last = match result {
            Ok(copied) => {
                let text = format!("resilvered: {copied} blocks copied");
                self.server.event(name, "resilver.finish", text);
                ended(last, ScanState::Finished)
            }
            Err(error) => {
                tracing::warn!(pool = name, %error, "not resilvered; tried again");
                api::Resilver {
                    state: ScanState::Paused,
                    reason: Some(error.to_string()),
                    ..last
                }
            }
        };
        self.note_resilver(notes, last).await;
    }

    async fn note_resilver(&self, notes: &Notes, resilver: api::Resilver) {
        let noted = notes.change(|k| k.resilver = Some(resilver.clone())).await;
        if let Err(error) = noted {
            tracing::warn!(pool = self.name, %error, "how far resilvering is could not be noted");
        }
    }
}

fn side_name(side: SideGuid) -> String {
    format!("{:016x}", side.0)
}

fn ended(last: api::Resilver, state: ScanState) -> api::Resilver {
    api::Resilver {
        state,
        ended_ms: Some(wall_clock_ms()),
        ..last
    }
}

/// A resilver that begins, or begins again.
fn begun(side: SideGuid, before: Option<api::Resilver>) -> api::Resilver {
    let side = side_name(side);
    let same = before.filter(|b| b.side == side);
    api::Resilver {
        started_ms: same.map_or_else(wall_clock_ms, |b| b.started_ms),
        side,
        ..api::Resilver::default()
    }
}

/// How fast a resilver may go.
struct Pace {
    began: io::time::Instant,
    looked: io::time::Instant,
    done: u64,
    rested: Duration,
}

impl Pace {
    fn new() -> Self {
        let now = io::time::now();
        Self {
            began: now,
            looked: now,
            done: 0,
            rested: Duration::ZERO,
        }
    }

    /// How long to rest after so many bytes of all.
    fn rest(&mut self, done: u64, rate: Option<u64>) -> Duration {
        let worked = self.looked.elapsed().saturating_sub(self.rested);
        let bytes = done.saturating_sub(self.done);
        let due = rate::time(bytes, rate);
        self.looked = io::time::now();
        self.done = done;
        self.rested = due.saturating_sub(worked);
        self.rested
    }
}

impl Server {
    /// See [`ResilverPool`]. Errors: `NoPool`, `File`.
    pub async fn resilver_pool(self: &Rc<Self>, request: ResilverPool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let notes = self.notes_of(&request.name)?;
        if let Some(rate) = request.rate.map(rate::asked) {
            notes.change(|k| k.resilver_rate = rate).await?;
        }
        self.wake_keeper(&request.name);
        self.pool_view(&request.name)
    }
}

/// Uses disks again that were missing and are there.
async fn take_back(server: &Server, name: &str, pool: &Pool) {
    let all = sides(pool);
    if !all.iter().any(|s| s.state == SideState::Missing) {
        return;
    }
    let vdevs = pool.vdevs();
    let paths: Vec<PathBuf> = {
        let state = server.state.borrow();
        let config = state.file.config().pool(name);
        config.map_or(Vec::new(), |p| p.disks.clone())
    };
    for path in paths {
        if all.iter().any(|s| s.path == path) {
            continue;
        }
        let Ok(disk) = open_disk(&path, None, false).await else {
            continue;
        };
        let Some(side) = vdevs.identify(&disk).await else {
            continue;
        };
        let missing = |s: &SideStatus| s.guid == side && s.state == SideState::Missing;
        if !all.iter().any(missing) {
            continue;
        }
        match vdevs.online(side, Some(disk)).await {
            Ok(()) => tracing::info!(pool = name, disk = %path.display(), "is back"),
            Err(error) => {
                tracing::warn!(pool = name, disk = %path.display(), %error, "cannot be used again");
            }
        }
    }
}

/// Has vdevs use the room that their disks gained, if the pool is set to.
async fn expand(server: &Server, name: &str, pool: &Pool) {
    if !pool.is_on(PoolProperty::Autoexpand) {
        return;
    }
    let Ok(_turn) = server.turn().await else {
        return;
    };
    for vdev in pool.vdevs().table() {
        if let Err(error) = server.expand(name, pool, vdev.id).await {
            tracing::warn!(pool = name, %error, "a vdev does not grow; tried again");
        }
    }
}

/// Detaches disks whose replacements have everything.
async fn end_replacing(server: &Server, name: &str, pool: &Pool, notes: &Notes) {
    for r in notes.kept().replacing {
        let Ok(_turn) = server.turn().await else {
            return;
        };
        let all = sides(pool);
        let state = |guid: u64| all.iter().find(|s| s.guid.0 == guid).map(|s| s.state);
        let ended = match (state(r.old), state(r.new)) {
            (Some(_), Some(SideState::Online)) => {
                server.detach(name, pool, notes, SideGuid(r.old)).await
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
                server.event(name, "side.replaced", text);
            }
            Err(error) => tracing::warn!(pool = name, %error, "not detached; tried again"),
        }
    }
}
