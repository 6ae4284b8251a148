//! Scrub of a pool: start, rate limit, pause, resume after a restart.
//!
//! **Owns** its task and its shown state. **Called by** the control API and the opening of pools. **Invariants**: one
//! scrub of a pool at a time; its task ends with the pool's entry; its position is stored at least every
//! [`NOTE_EVERY`] and with each change of its state, so that a restart repeats little.

use super::change::failed;
use super::entry::PoolState;
use super::names::is_at;
use super::notes::{Notes, warn_unsaved};
use super::rate;
use crate::api::{self, ScanState, Scrub, ScrubAction, ScrubPool};
use crate::server::Server;
use crate::{Error, Result};
use io::time::{now, sleep, wall_clock_ms};
use pool::{Pool, ScrubPosition, Scrubbed};
use std::rc::Rc;
use std::time::Duration;

/// Bytes between two checks of rate and clock.
const PART_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;
/// Parts per second of a scrub with a rate limit.
const PARTS_PER_SECOND: u64 = 4;
/// Interval at which its position is stored.
const NOTE_EVERY: Duration = Duration::from_secs(10);

impl Server {
    /// See [`ScrubPool`]. Errors: `NoPool`, `Conflict` if there is nothing to pause or stop, `Pool`, `File`.
    pub async fn scrub_pool(self: &Rc<Self>, request: ScrubPool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.name;
        let pool = self.pool_named(name)?;
        let notes = self.notes_of(name)?;
        let state = notes.kept().scrub.map(|s| s.state);
        let rate = request.rate.map(rate::asked);
        match (request.action, state) {
            (ScrubAction::Start, Some(ScanState::Running)) if rate.is_none() => {
                let text =
                    format!("the pool {name:?} is being scrubbed: see `wirepool pool status`");
                return Err(Error::Conflict(text));
            }
            (ScrubAction::Start, Some(ScanState::Running | ScanState::Paused)) => {
                let go_on = |s: &mut Scrub| {
                    s.state = ScanState::Running;
                    s.reason = None;
                    s.rate_max = rate.unwrap_or(s.rate_max);
                };
                self.end_scrub_task(name);
                notes.change_scrub(go_on).await?;
                self.start_scrub(name);
            }
            (ScrubAction::Start, _) => {
                let at = pool.begin_scrub().await.map_err(|e| failed(name, e))?;
                let scrub = Scrub {
                    started_ms: wall_clock_ms(),
                    of: pool.space().used,
                    rate_max: rate.flatten(),
                    ..Scrub::default()
                };
                let begin = |k: &mut super::notes::Kept| {
                    k.scrub = Some(scrub.clone());
                    k.scrub_at = at.encode();
                };
                notes.change(begin).await?;
                self.start_scrub(name);
            }
            (ScrubAction::Pause, Some(ScanState::Running)) => {
                self.end_scrub_task(name);
                notes.change_scrub(|s| s.state = ScanState::Paused).await?;
            }
            (ScrubAction::Stop, Some(ScanState::Running | ScanState::Paused)) => {
                self.end_scrub_task(name);
                let stop = |s: &mut Scrub| {
                    s.state = ScanState::Stopped;
                    s.ended_ms = Some(wall_clock_ms());
                };
                notes.change_scrub(stop).await?;
            }
            (ScrubAction::Pause | ScrubAction::Stop, _) => {
                let text = format!("the pool {name:?} is not being scrubbed");
                return Err(Error::Conflict(text));
            }
        }
        self.pool_view(name)
    }

    /// Resumes a pool's scrub, if one is to run.
    pub(super) fn start_scrub(self: &Rc<Self>, name: &str) {
        let mut state = self.state.borrow_mut();
        let Some(entry) = state.pools.get_mut(name) else {
            return;
        };
        let (PoolState::Online(pool), Some(notes)) = (&entry.state, &entry.notes) else {
            return;
        };
        let kept = notes.kept();
        if kept.scrub.is_some_and(|s| s.state == ScanState::Running) {
            let run = run(self.clone(), name.to_owned(), pool.clone(), notes.clone());
            entry.scrub = Some(io::spawn(run));
        }
    }

    fn end_scrub_task(&self, name: &str) {
        let mut state = self.state.borrow_mut();
        let task = state.pools.get_mut(name).and_then(|e| e.scrub.take());
        drop(state);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Counts the space of files where it is not exact: files of earlier releases, and files that lost data in a crash.
async fn count_files(server: &Rc<Server>, name: &str) {
    let all = server.filesystems().into_iter().map(|f| f.name);
    for full in all.filter(|full| is_at(full, name)) {
        match server.count_space(&full).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(filesystem = full, files, "space counted again"),
            Err(e) => tracing::warn!(filesystem = full, "space cannot be counted: {e}"),
        }
    }
}

/// The task: parts of the scrub, with the rate limit.
async fn run(server: Rc<Server>, name: String, pool: Rc<Pool>, notes: Rc<Notes>) {
    server.event(&name, "scrub.start", "scrubbing".into());
    let paused = async |error: pool::Error| {
        server.event(
            &name,
            "scrub.pause",
            format!("the scrub is paused: {error}"),
        );
        let pause = |s: &mut Scrub| {
            s.state = ScanState::Paused;
            s.reason = Some(error.to_string());
        };
        warn_unsaved(&name, "scrub", notes.change_scrub(pause).await);
    };
    count_files(&server, &name).await;
    let mut noted = now();
    let mut next = ScrubPosition::decode(&notes.kept().scrub_at);
    if next.is_none() {
        // it was begun by a version with another order of blocks
        match pool.begin_scrub().await {
            Ok(at) => next = Some(at),
            Err(e) => return paused(e).await,
        }
        notes.update(|k| k.scrub.iter_mut().for_each(|s| s.done = 0));
    }
    while let Some(at) = next {
        let rate = notes.kept().scrub.and_then(|s| s.rate_max);
        let bytes = rate.map_or(*PART_BYTES.end(), |r| {
            (r / PARTS_PER_SECOND).clamp(*PART_BYTES.start(), *PART_BYTES.end())
        });
        let began = now();
        let (found, after) = match pool.scrub_part(at, bytes).await {
            Ok(part) => part,
            Err(e) => return paused(e).await,
        };
        next = after;
        let took = began.elapsed();
        notes.update(|k| {
            if let Some(s) = &mut k.scrub {
                add(s, &found, took);
            }
            if let Some(at) = next {
                k.scrub_at = at.encode();
            }
        });
        if rate.is_some() {
            let rest = rate::time(found.bytes, rate).saturating_sub(took);
            sleep(rest).await;
            notes.update(|k| {
                if let Some(s) = &mut k.scrub {
                    s.active_ms += rest.as_millis() as u64;
                }
            });
        }
        if noted.elapsed() >= NOTE_EVERY && next.is_some() {
            noted = now();
            warn_unsaved(&name, "scrub", notes.change(|_| ()).await);
        }
        io::yield_now().await;
    }
    let finish = |s: &mut Scrub| {
        s.state = ScanState::Finished;
        s.of = s.of.max(s.done);
        s.ended_ms = Some(wall_clock_ms());
    };
    let found = notes.kept().scrub.unwrap_or_default();
    let text = format!("scrubbed: {} repaired, {} lost", found.repaired, found.lost);
    server.event(&name, "scrub.finish", text);
    warn_unsaved(&name, "scrub", notes.change_scrub(finish).await);
    server.look_for_damage(&name, &pool, &notes).await;
}

fn add(scrub: &mut Scrub, found: &Scrubbed, took: Duration) {
    scrub.done += found.bytes;
    scrub.repaired += found.repaired;
    scrub.lost += (found.lost.len() + found.damaged.len()) as u64;
    scrub.active_ms += took.as_millis() as u64;
}
