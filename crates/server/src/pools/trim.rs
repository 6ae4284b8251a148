//! Trim of a pool: start, rate limit, pause, resume after a restart.
//!
//! **Owns** its task and its shown state. **Called by** the control API and the opening of pools. **Invariants**: as
//! for scrubs: one trim of a pool at a time; its task ends with the pool's entry; its position is stored at least
//! every [`NOTE_EVERY`] and with each change of its state.

use super::change::failed;
use super::entry::PoolState;
use super::notes::{Kept, Notes, warn_unsaved};
use super::rate;
use crate::api::{self, ScanState, ScrubAction, Trim, TrimPool};
use crate::server::Server;
use crate::{Error, Result};
use io::time::{now, sleep, wall_clock_ms};
use pool::{Pool, TrimPosition};
use std::rc::Rc;
use std::time::Duration;

/// Interval at which its position is stored.
const NOTE_EVERY: Duration = Duration::from_secs(10);

impl Server {
    /// See [`TrimPool`]. Errors: `NoPool`, `Conflict` if there is nothing to pause or stop, `Pool`, `File`.
    pub async fn trim_pool(self: &Rc<Self>, request: TrimPool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.name;
        let pool = self.pool_named(name)?;
        let notes = self.notes_of(name)?;
        let state = notes.kept().trim.map(|t| t.state);
        let rate = request.rate.map(rate::asked);
        match (request.action, state) {
            (ScrubAction::Start, Some(ScanState::Running)) if rate.is_none() => {
                let text =
                    format!("the pool {name:?} is being trimmed: see `wirepool pool status`");
                return Err(Error::Conflict(text));
            }
            (ScrubAction::Start, Some(ScanState::Running | ScanState::Paused)) => {
                self.end_trim_task(name);
                let go_on = |t: &mut Trim| {
                    t.state = ScanState::Running;
                    t.reason = None;
                    t.rate_max = rate.unwrap_or(t.rate_max);
                };
                notes.change(|k| k.trim.iter_mut().for_each(go_on)).await?;
                self.start_trim(name);
            }
            (ScrubAction::Start, _) => {
                let at = pool.begin_trim().await.map_err(|e| failed(name, e))?;
                let trim = Trim {
                    started_ms: wall_clock_ms(),
                    of: pool.regions(),
                    rate_max: rate.flatten(),
                    ..Trim::default()
                };
                let begin = |k: &mut Kept| {
                    k.trim = Some(trim.clone());
                    k.trim_at = at.encode();
                };
                notes.change(begin).await?;
                self.start_trim(name);
            }
            (ScrubAction::Pause, Some(ScanState::Running)) => {
                self.end_trim_task(name);
                warn_unsaved(name, "trim", end(&notes, ScanState::Paused, None).await);
            }
            (ScrubAction::Stop, Some(ScanState::Running | ScanState::Paused)) => {
                self.end_trim_task(name);
                warn_unsaved(name, "trim", end(&notes, ScanState::Stopped, None).await);
            }
            (ScrubAction::Pause | ScrubAction::Stop, _) => {
                let text = format!("the pool {name:?} is not being trimmed");
                return Err(Error::Conflict(text));
            }
        }
        self.pool_view(name)
    }

    /// Resumes a pool's trim, if one is to run.
    pub(super) fn start_trim(self: &Rc<Self>, name: &str) {
        let mut state = self.state.borrow_mut();
        let Some(entry) = state.pools.get_mut(name) else {
            return;
        };
        let (PoolState::Online(pool), Some(notes)) = (&entry.state, &entry.notes) else {
            return;
        };
        let trim = notes.kept().trim;
        if trim.is_some_and(|t| t.state == ScanState::Running) {
            let run = run(self.clone(), name.to_owned(), pool.clone(), notes.clone());
            entry.trim = Some(io::spawn(run));
        }
    }

    fn end_trim_task(&self, name: &str) {
        let mut state = self.state.borrow_mut();
        let task = state.pools.get_mut(name).and_then(|e| e.trim.take());
        drop(state);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// The task: region after region, with the rate limit.
async fn run(server: Rc<Server>, name: String, pool: Rc<Pool>, notes: Rc<Notes>) {
    server.event(&name, "trim.start", "trimming".into());
    let mut noted = now();
    let mut next = TrimPosition::decode(&notes.kept().trim_at);
    while let Some(at) = next {
        let began = now();
        let (part, after) = match pool.trim_part(at).await {
            Ok(part) => part,
            Err(e) => {
                server.event(&name, "trim.pause", format!("the trim is paused: {e}"));
                let paused = end(&notes, ScanState::Paused, Some(e.to_string())).await;
                return warn_unsaved(&name, "trim", paused);
            }
        };
        next = after;
        let rate = notes.kept().trim.and_then(|t| t.rate_max);
        let due = rate::time(part.bytes, rate);
        sleep(due.saturating_sub(began.elapsed())).await;
        let took = began.elapsed();
        notes.update(|k| {
            if let Some(t) = &mut k.trim {
                t.done += part.regions;
                t.trimmed += part.bytes;
                t.active_ms += took.as_millis() as u64;
            }
            if let Some(at) = next {
                k.trim_at = at.encode();
            }
        });
        if noted.elapsed() >= NOTE_EVERY && next.is_some() {
            noted = now();
            warn_unsaved(&name, "trim", notes.change(|_| ()).await);
        }
        io::yield_now().await;
    }
    let bytes = notes.kept().trim.map_or(0, |t| t.trimmed);
    let text = format!("trimmed: {}", crate::size::ByteSize(bytes));
    server.event(&name, "trim.finish", text);
    warn_unsaved(&name, "trim", end(&notes, ScanState::Finished, None).await);
}

/// Stores that it has ended.
async fn end(notes: &Notes, state: ScanState, reason: Option<String>) -> Result<()> {
    let ended = |t: &mut Trim| {
        t.state = state;
        t.reason = reason.clone();
        if state != ScanState::Paused {
            t.ended_ms = Some(wall_clock_ms());
        }
    };
    notes.change(|k| k.trim.iter_mut().for_each(ended)).await
}
