//! Wear of the pools' disks: what they say about themselves, and how long they last.
//!
//! **Owns** the readings of disks, and the first reading of each, from which forecasts start. **Called by** the control API,
//! the metrics, and a task of the process that reads every [`READ_EVERY`]. **Invariants**: disks are asked on threads that
//! may block, each disk at most once at a time; an answer waits at most [`ANSWER_MAX`], and a disk that does not answer is
//! unknown; the data path is not involved. `docs/wear.md`.

mod forecast;
mod health;
mod helper;

pub use forecast::{Observed, forecast};
pub use helper::serve_health;

use crate::api::{DiskHealth, DiskWrites, Writes};
use crate::config::WearConfig;
use io::sync::lock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Time between two readings without a request.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(60);
/// The age up to which an answer to a request may repeat a reading: a scrape of metrics, and a command.
pub(crate) const SCRAPE_AGE: Duration = READ_EVERY;
pub(crate) const COMMAND_AGE: Duration = Duration::ZERO;
/// Time limit for the answers of all disks.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The shortest observation that forecasts of the server rely on, s.
pub const SPAN_MIN_S: u64 = 3600;

/// A reading of a disk, and the counters at that time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ms: u64,
    /// Bytes that hosts wrote in the disk's life.
    disk: Option<u64>,
    /// Bytes that this server wrote.
    server: u64,
}

/// A disk that is observed.
#[derive(Debug, Clone)]
struct Watched {
    path: PathBuf,
    /// The first sample of the observation.
    first: Sample,
    last: Sample,
    health: DiskHealth,
}

#[derive(Debug, Default)]
struct WatchedDisks {
    /// By the member's GUID.
    disks: BTreeMap<String, Watched>,
    /// Disks that have not answered yet.
    asked: Vec<PathBuf>,
}

/// See the module header. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Monitor(Arc<Mutex<WatchedDisks>>);

impl Watched {
    fn new(path: PathBuf, sample: Sample, health: DiskHealth) -> Watched {
        Watched {
            path,
            first: sample,
            last: sample,
            health,
        }
    }

    /// Adds a sample. Counters that went back, and another disk in the place, begin a new observation.
    fn add(&mut self, path: &Path, sample: Sample, health: DiskHealth) {
        let is_same = self.path == path
            && sample.server >= self.last.server
            && sample.disk.is_some() == self.last.disk.is_some()
            && sample.disk >= self.last.disk;
        if !is_same {
            *self = Watched::new(path.to_path_buf(), sample, health);
            return;
        }
        self.last = sample;
        self.health = health;
    }

    fn observed(&self) -> Observed {
        let grown = self.last.disk.zip(self.first.disk);
        Observed {
            span_ms: self.last.at_ms.saturating_sub(self.first.at_ms),
            disk: grown.map(|(last, first)| last - first),
            server: self.last.server - self.first.server,
        }
    }
}

/// Asks a disk; if this process may not, the service behind the socket `helper`. Blocks.
fn read(path: &Path, helper: &Path) -> DiskHealth {
    health::read(path).unwrap_or_else(|denied| {
        helper::ask(helper, denied.device.file()).unwrap_or_else(|e| {
            health::unknown(format!(
                "{}: permission denied, and the service wirepool-health, which may read it, does not answer: {e}",
                denied.log
            ))
        })
    })
}

impl Monitor {
    fn state(&self) -> MutexGuard<'_, WatchedDisks> {
        lock(&self.0)
    }

    /// Fills in the health and the forecasts of disks, from readings that are at most `age` old.
    pub(crate) async fn fill(&self, writes: &mut Writes, config: &WearConfig, age: Duration) {
        let now = writes.at_ms;
        let stale: Vec<DiskWrites> = {
            let mut state = self.state();
            let all = writes.pools.iter().flat_map(|p| &p.disks);
            let guids: Vec<&String> = all.clone().map(|d| &d.guid).collect();
            state.disks.retain(|guid, _| guids.contains(&guid));
            let is_fresh = |d: &DiskWrites| {
                let known = state.disks.get(&d.guid).filter(|w| w.path == d.path);
                let read = known.map(|w| now.saturating_sub(w.last.at_ms));
                !age.is_zero() && read.is_some_and(|ms| ms < age.as_millis() as u64)
            };
            all.filter(|d| !is_fresh(d)).cloned().collect()
        };
        let asked: Vec<_> = stale.into_iter().map(|d| self.ask(d, now)).collect();
        let answers = async {
            for answer in asked {
                // A reader that panicked leaves its disk unread.
                let _ended = answer.await;
            }
        };
        // A disk that takes longer is shown as it was, or as unknown.
        let _in_time = tokio::time::timeout(ANSWER_MAX, answers).await;
        let state = self.state();
        for disk in writes.pools.iter_mut().flat_map(|p| &mut p.disks) {
            let known = state.disks.get(&disk.guid).filter(|w| w.path == disk.path);
            let Some(watched) = known else {
                disk.health = health::unknown("the disk does not answer".into());
                disk.forecast.unknown.clone_from(&disk.health.unknown);
                continue;
            };
            disk.health = watched.health.clone();
            disk.health.rated_bytes = config.rated_bytes(&disk.path);
            disk.forecast = forecast(&disk.health, watched.observed(), SPAN_MIN_S);
        }
    }

    /// Reads a disk, unless it has not answered the last request yet.
    fn ask(&self, disk: DiskWrites, at_ms: u64) -> tokio::task::JoinHandle<()> {
        let monitor = self.clone();
        tokio::task::spawn_blocking(move || {
            {
                let mut state = monitor.state();
                if state.asked.contains(&disk.path) {
                    return;
                }
                state.asked.push(disk.path.clone());
            }
            let health = read(&disk.path, Path::new(helper::SOCKET));
            let sample = Sample {
                at_ms,
                disk: health.host_written,
                server: disk.written.total(),
            };
            let mut state = monitor.state();
            state.asked.retain(|path| *path != disk.path);
            match state.disks.get_mut(&disk.guid) {
                Some(watched) => watched.add(&disk.path, sample, health),
                None => {
                    let watched = Watched::new(disk.path, sample, health);
                    state.disks.insert(disk.guid, watched);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PoolWrites;

    fn sample(at_ms: u64, disk: Option<u64>, server: u64) -> Sample {
        Sample {
            at_ms,
            disk,
            server,
        }
    }

    #[test]
    fn an_observation_lasts_until_a_counter_goes_back() {
        let path = PathBuf::from("/dev/a");
        let health = DiskHealth::default;
        let mut watched = Watched::new(path.clone(), sample(1000, Some(10), 5), health());
        watched.add(&path, sample(9000, Some(30), 6), health());
        let expected = Observed {
            span_ms: 8000,
            disk: Some(20),
            server: 1,
        };
        assert_eq!(watched.observed(), expected);
        for (path, next) in [
            (&path, sample(10_000, Some(31), 0)),
            (&path, sample(10_000, Some(29), 7)),
            (&path, sample(10_000, None, 7)),
            (&PathBuf::from("/dev/b"), sample(10_000, Some(31), 7)),
        ] {
            let mut watched = watched.clone();
            watched.add(path, next, health());
            assert_eq!(watched.observed().span_ms, 0, "{next:?}");
        }
    }

    #[tokio::test]
    async fn a_file_is_filled_in_as_unknown() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let disk = DiskWrites {
            guid: "1".into(),
            path: file.path().to_path_buf(),
            ..DiskWrites::default()
        };
        let mut writes = Writes {
            at_ms: 1,
            pools: vec![PoolWrites {
                disks: vec![disk],
                ..PoolWrites::default()
            }],
        };
        let monitor = Monitor::default();
        monitor
            .fill(&mut writes, &WearConfig::default(), COMMAND_AGE)
            .await;
        let disk = &writes.pools[0].disks[0];
        let reason = disk.health.unknown.as_deref().expect("a reason");
        assert!(reason.contains("a file"), "{reason}");
        assert_eq!(disk.forecast.days, None);
        assert_eq!(disk.forecast.unknown.as_deref(), Some(reason));
    }
}
