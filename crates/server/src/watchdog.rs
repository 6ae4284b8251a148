//! Watchdog: ends the process when a shard makes no progress, so that the service manager starts it again.
//!
//! **Owns** a thread, and for each shard the time without progress. **Called by** [`crate::process`]; the metrics read
//! it in [`Shards::status`]. **Invariants**: a shard makes progress if it polls tasks, or answers a question within a tick; an idle
//! shard answers, a busy one polls. Only the watchdog's own ticks count, so that a suspended process or machine loses no
//! time. A shard that was told to end is not watched.

use crate::limits::WATCHDOG_TICK;
use crate::shards::Shards;
use io::runtime::{Polled, Shard};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The part of the limit after which a stalled shard is logged.
const WARN_PART: u32 = 4;

/// One shard as the watchdog sees it.
struct Watched {
    shard: Shard,
    steps: u64,
    /// Set by the shard when it answers.
    answered: Arc<AtomicBool>,
    /// Ticks in a row without progress.
    idle_ticks: u32,
}

impl Watched {
    fn new(shard: Shard) -> Watched {
        Watched {
            shard,
            steps: 0,
            answered: Arc::new(AtomicBool::new(true)),
            idle_ticks: 0,
        }
    }

    /// A tick has passed. Returns the ticks in a row without progress, and what the shard does.
    fn tick(&mut self) -> (u32, Polled) {
        let polled = self.shard.progress();
        let has_answered = self.answered.swap(false, Ordering::SeqCst);
        let has_polled = polled.steps != std::mem::replace(&mut self.steps, polled.steps);
        self.idle_ticks = match has_answered || has_polled {
            true => 0,
            false => self.idle_ticks.saturating_add(1),
        };
        if has_answered {
            let answered = self.answered.clone();
            let answer = move || async move { answered.store(true, Ordering::SeqCst) };
            if self.shard.spawn(answer).is_err() {
                // It ends, or its queue is full: then its polls are looked at alone.
                self.answered.store(true, Ordering::SeqCst);
            }
        }
        (self.idle_ticks, polled)
    }
}

/// A running watchdog. It stops when this value is dropped.
pub(crate) struct Watchdog {
    _stop: mpsc::Sender<()>,
}

impl Watchdog {
    /// Watches these shards. One that makes no progress for `limit` is logged, and then the process aborts. Errors: a thread
    /// cannot be started.
    pub(crate) fn start(shards: &Shards, limit: Duration) -> std::io::Result<Watchdog> {
        Watchdog::start_with(shards, limit, WATCHDOG_TICK)
    }

    /// Like [`Watchdog::start`], with ticks of this length.
    fn start_with(shards: &Shards, limit: Duration, tick: Duration) -> std::io::Result<Watchdog> {
        let (stop, stopped) = mpsc::channel();
        let shards = shards.clone();
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || watch(&shards, limit, tick, &stopped))?;
        Ok(Watchdog { _stop: stop })
    }
}

fn watch(shards: &Shards, limit: Duration, tick: Duration, stopped: &mpsc::Receiver<()>) {
    let mut watched: Vec<_> = shards.all().into_iter().map(Watched::new).collect();
    let limit_ticks = limit.div_duration_f64(tick).ceil() as u32;
    let warn_ticks = (limit_ticks / WARN_PART).max(1);
    while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        for (index, w) in watched.iter_mut().enumerate() {
            let (ticks, polled) = w.tick();
            let stalled = tick * ticks;
            shards.set_stalled(index, stalled);
            if ticks >= limit_ticks {
                let doing = describe(index, polled);
                tracing::error!(
                    "shard-{index} has made no progress for {} s: {doing}. The process ends, so that it is started again",
                    stalled.as_secs()
                );
                std::process::abort();
            }
            if ticks == warn_ticks {
                let doing = describe(index, polled);
                tracing::warn!(
                    "shard-{index} has made no progress for {} s: {doing}. After {} s the process will end",
                    stalled.as_secs(),
                    limit.as_secs()
                );
            }
        }
    }
}

/// What a stalled shard does, in words.
fn describe(index: usize, polled: Polled) -> String {
    let task = match polled.task {
        Some(name) => format!("it is in the task {name}"),
        None => "it is in no task".to_owned(),
    };
    match thread_state(&format!("shard-{index}")) {
        Some(state) => format!("{task}, and its thread {state}"),
        None => task,
    }
}

/// What the kernel says about the thread with this name (proc(5)); `None` if it says nothing.
fn thread_state(name: &str) -> Option<String> {
    let threads = fs::read_dir("/proc/self/task").ok()?.flatten();
    let is_named = |dir: &fs::DirEntry| {
        let comm = fs::read_to_string(dir.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let dir = threads.into_iter().find(is_named)?.path();
    let stat = fs::read_to_string(dir.join("stat")).ok()?;
    // The name in parentheses may have any bytes; the state follows the last one.
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    let wait = fs::read_to_string(dir.join("wchan")).unwrap_or_default();
    Some(match (state, &*wait) {
        ('R', _) => "runs".to_owned(),
        (state, "" | "0") => format!("waits in the kernel (state {state})"),
        (state, wait) => format!("waits in the kernel (state {state}, in {wait})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::RuntimeConfig;
    use std::process::Command;

    /// Tells the test's own program to be the server with the stuck shard.
    const STUCK: &str = "WIREPOOL_TEST_STUCK_SHARD";

    /// Regression: a shard that span for ever hung all its clients, and the control plane with it, and no one restarted the
    /// process. The test starts itself as a process with such a shard.
    #[test]
    fn a_process_with_a_stuck_shard_names_it_and_ends() {
        if std::env::var_os(STUCK).is_some() {
            return be_stuck();
        }
        let name = "watchdog::tests::a_process_with_a_stuck_shard_names_it_and_ends";
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([name, "--exact", "--nocapture"])
            .env(STUCK, "1")
            .output()
            .expect("run");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(!output.status.success(), "{text}");
        assert!(
            text.contains("shard-1 has made no progress for 1 s: it is in the task"),
            "{text}"
        );
        assert!(!text.contains("shard-0"), "{text}");
    }

    fn be_stuck() {
        tracing_subscriber::fmt().init();
        let shards = Shards::start(2, RuntimeConfig::default()).expect("shards");
        let _watchdog =
            Watchdog::start_with(&shards, Duration::from_secs(1), Duration::from_millis(100))
                .expect("a thread");
        let spins = || async {
            loop {
                std::hint::spin_loop();
            }
        };
        shards.all()[1].spawn(spins).expect("taken");
        std::thread::sleep(Duration::from_secs(3600));
    }

    /// A shard whose tasks always have work, and which comes to no answer, is not stuck.
    #[test]
    fn a_busy_shard_that_polls_is_not_stuck() {
        let shards = Shards::start(1, RuntimeConfig::default()).expect("shards");
        let mut watched = Watched::new(shards.first().clone());
        let busy = || async {
            loop {
                io::runtime::yield_now().await;
            }
        };
        shards.first().spawn(busy).expect("taken");
        let mut steps = 0;
        for _ in 0..100 {
            while watched.shard.progress().steps == steps {
                std::thread::yield_now();
            }
            let (ticks, polled) = watched.tick();
            steps = polled.steps;
            watched.answered.store(false, Ordering::SeqCst);
            assert_eq!(ticks, 0);
        }
        shards.stop();
    }

    /// An idle shard polls nothing but answers; a shard that does neither is stuck until it answers again.
    #[test]
    fn an_idle_shard_answers_and_a_stuck_one_counts_ticks() {
        let shards = Shards::start(1, RuntimeConfig::default()).expect("shards");
        let mut watched = Watched::new(shards.first().clone());
        for _ in 0..10 {
            assert_eq!(watched.tick().0, 0);
            while !watched.answered.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        let (begun, has_begun) = mpsc::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let stuck = move || async move {
            begun.send(()).expect("the test waits");
            let _ = waits.recv();
        };
        shards.first().spawn(stuck).expect("taken");
        has_begun.recv().expect("it is polled");
        watched.tick();
        for ticks in 1..10 {
            let (idle, polled) = watched.tick();
            assert_eq!(idle, ticks);
            assert!(polled.task.is_some(), "{polled:?}");
        }
        drop(go_on);
        while !watched.answered.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert_eq!(watched.tick().0, 0);
        shards.stop();
    }
}
