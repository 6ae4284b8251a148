//! Resilver of a pool: automatic start, rate limit, progress.
//!
//! **Owns** its task and its shown state. **Called by** the pool's supervisor and the control API. **Invariants**:
//! one for a pool at a time; its task ends with the pool's entry; a failure is reported, and the resilver begins
//! again in the supervisor's next round.

use super::entry::{PoolState, ShownResilver};
use super::notes::{Notes, warn_unsaved};
use super::rate;
use crate::Result;
use crate::api::{self, ResilverPool, ScanState};
use crate::server::Server;
use io::sync::Notify;
use io::time::{Instant, now, sleep, wall_clock_ms};
use pool::format::{Birth, MemberGuid, VdevId};
use pool::vdev::{Fault, MemberState, VdevStatus};
use pool::{Pool, Resilvering};
use std::rc::Rc;
use std::time::Duration;

/// Maximum pause before a new rate takes effect.
const REST_MAX: Duration = Duration::from_secs(1);

impl Server {
    /// See [`ResilverPool`]. Errors: `NoPool`, `File`.
    pub async fn resilver_pool(self: &Rc<Self>, request: ResilverPool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let notes = self.notes_of(&request.name)?;
        if let Some(rate) = request.rate.map(rate::asked) {
            notes.change(|k| k.resilver_rate = rate).await?;
            if let Some(entry) = self.state.borrow().pools.get(&request.name) {
                let mut shown = entry.resilver.borrow_mut();
                shown.iter_mut().for_each(|s| s.rate_max = rate);
            }
        }
        self.wake_supervisor(&request.name);
        self.pool_view(&request.name)
    }

    /// Starts the resilver of present members that are stale, unless it runs already.
    pub(super) async fn start_resilver(self: &Rc<Self>, name: &str) {
        let stopped = {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.pools.get_mut(name) else {
                return;
            };
            let (PoolState::Online(pool), Some(notes)) = (&entry.state, &entry.notes) else {
                return;
            };
            if entry.resilvering.as_ref().is_some_and(|t| !t.is_finished()) {
                return;
            }
            let unfinished = notes.kept().resilver.filter(|r| r.ended_ms.is_none());
            let stale = pool.vdevs().stale_members();
            if !stale.is_empty() && !may_resilver(pool, &stale) {
                return;
            }
            if let Some((_, member, _)) = stale.first() {
                let run = Run {
                    server: self.clone(),
                    name: name.to_owned(),
                    notes: notes.clone(),
                    shown: entry.resilver.clone(),
                    ended: entry.wake.clone(),
                };
                let first = begun(*member, unfinished);
                entry.resilvering = Some(io::spawn(run.run(pool.clone(), first)));
                return;
            }
            unfinished.map(|last| (notes.clone(), last))
        };
        // the disk was detached, or joined as the server ended
        if let Some((notes, last)) = stopped {
            note(name, &notes, ended(last, ScanState::Stopped)).await;
        }
    }
}

/// Whether one of these stale members has, as far as is known, space for the blocks that it missed.
fn may_resilver(pool: &Pool, stale: &[(VdevId, MemberGuid, Birth)]) -> bool {
    let vdevs = pool.vdevs().status();
    let mut members = vdevs.iter().flat_map(|v| &v.members);
    members.any(|s| {
        stale.iter().any(|(_, member, _)| *member == s.guid) && s.fault != Some(Fault::NoSpace)
    })
}

/// State of the task.
struct Run {
    server: Rc<Server>,
    name: String,
    notes: Rc<Notes>,
    shown: ShownResilver,
    /// Wakes the supervisor.
    ended: Rc<Notify>,
}

impl Run {
    async fn run(self, pool: Rc<Pool>, first: api::Resilver) {
        let (name, notes) = (&self.name, &self.notes);
        self.server
            .event(name, "resilver.start", "resilvering".into());
        *self.shown.borrow_mut() = Some(first.clone());
        note(name, notes, first).await;
        let mut pace = Pace::new();
        let progress = async |r: &Resilvering| {
            if self.show(r, &pool) {
                pace = Pace::new();
            }
            pace.rest(r.done, notes).await;
            let took = pace.began.elapsed().as_millis() as u64;
            let mut shown = self.shown.borrow_mut();
            shown.iter_mut().for_each(|s| s.active_ms = took);
        };
        let result = pool.resilver_paced(progress).await;
        let last = self.shown.borrow_mut().take().unwrap_or_default();
        let last = match result {
            Ok(copied) => {
                let text = format!("resilvered: {copied} blocks copied");
                self.server.event(name, "resilver.finish", text);
                ended(last, ScanState::Finished)
            }
            Err(error) => {
                tracing::warn!(pool = name, %error, "resilver failed; will be retried");
                api::Resilver {
                    state: ScanState::Paused,
                    reason: Some(error.to_string()),
                    ..last
                }
            }
        };
        let is_over = last.state == ScanState::Finished;
        note(name, notes, last).await;
        if is_over {
            self.ended.notify();
        }
    }

    /// Shows the progress. Returns whether the next member has begun.
    fn show(&self, r: &Resilvering, pool: &Pool) -> bool {
        let mut shown = self.shown.borrow_mut();
        let before = shown.take().filter(|s| s.member == member_name(r.member));
        let is_next = before.is_none();
        let before = before.unwrap_or_else(|| begun(r.member, None));
        *shown = Some(api::Resilver {
            done: r.done,
            of: Some(r.of),
            copied: r.copied,
            position: r.position,
            may_fail: may_fail(pool, r.member),
            rate_max: self.notes.kept().resilver_rate,
            ..before
        });
        is_next
    }
}

async fn note(name: &str, notes: &Notes, resilver: api::Resilver) {
    let noted = notes.change(|k| k.resilver = Some(resilver.clone())).await;
    warn_unsaved(name, "resilver", noted);
}

/// The number of members that are in and that the vdev of this member does not need.
fn may_fail(pool: &Pool, member: MemberGuid) -> Option<u64> {
    let vdevs = pool.vdevs().status();
    let has = |v: &&VdevStatus| v.members.iter().any(|s| s.guid == member);
    let vdev = vdevs.iter().find(has)?;
    let online = vdev.members.iter();
    let online = online.filter(|s| s.state == MemberState::Online).count();
    let needed = vdev.kind.needed(vdev.members.len());
    Some(online.saturating_sub(needed) as u64)
}

fn member_name(member: MemberGuid) -> String {
    format!("{:016x}", member.0)
}

fn ended(last: api::Resilver, state: ScanState) -> api::Resilver {
    api::Resilver {
        state,
        ended_ms: Some(wall_clock_ms()),
        ..last
    }
}

/// A resilver that begins, or begins again.
fn begun(member: MemberGuid, before: Option<api::Resilver>) -> api::Resilver {
    let member = member_name(member);
    let same = before.filter(|b| b.member == member);
    api::Resilver {
        started_ms: same.map_or_else(wall_clock_ms, |b| b.started_ms),
        member,
        ..api::Resilver::default()
    }
}

/// The rate limit.
struct Pace {
    began: Instant,
    looked: Instant,
    done: u64,
    /// Bytes that were not yet paid with a pause.
    owed: f64,
}

impl Pace {
    fn new() -> Self {
        let now = now();
        Self {
            began: now,
            looked: now,
            done: 0,
            owed: 0.0,
        }
    }

    /// Pauses until the total of `done` bytes is within the rate.
    async fn rest(&mut self, done: u64, notes: &Notes) {
        self.owed += done.saturating_sub(self.done) as f64;
        self.done = done;
        while let Some(rate) = notes.kept().resilver_rate {
            self.owed -= self.looked.elapsed().as_secs_f64() * rate as f64;
            self.looked = now();
            if self.owed <= 0.0 {
                break;
            }
            let due = rate::time(self.owed as u64 + 1, Some(rate));
            sleep(due.min(REST_MAX)).await;
        }
        self.owed = 0.0;
        self.looked = now();
    }
}
