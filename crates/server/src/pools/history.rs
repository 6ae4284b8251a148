//! History and events of pools.
//!
//! **Owns** `STATE_DIR/pools/GUID.history`, a line of JSON for each change, and the last events, in memory. **Called
//! by** the control API after each change, by supervisors and scrubs. **Invariants**: both are bounded; a failure to
//! store a change never undoes it.

use super::notes::file;
use crate::api::{Event, HistoryEntry, ListEvents, PoolHistory};
use crate::durable;
use crate::limits::{HISTORY_LEN_MAX, HISTORY_MAX};
use crate::server::Server;
use crate::{Error, Result};
use io::time::wall_clock_ms;
use pool::format::PoolGuid;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Paths of requests that change pools or their datasets.
const CHANGES: [(&str, &str); 5] = [
    ("/v1/pools/", "pool"),
    ("/v1/volumes/", "volume"),
    ("/v1/filesystems/", "filesystem"),
    ("/v1/snapshots/", "snapshot"),
    ("/v1/properties/", "property"),
];
/// Requests below these paths that change nothing.
const QUESTIONS: [&str; 5] = ["scan", "import/try", "history", "events", "get"];
/// Fields of requests that name a pool or its dataset, the most specific first.
const NAMES: [&str; 5] = ["rename", "pool", "name", "snapshot", "volume"];

/// A change as a line of text, and its pool.
pub(crate) struct Change {
    pub(crate) pool: Option<String>,
    what: String,
}

impl Change {
    /// None if the request changes no pool.
    pub(crate) fn of(path: &str, request: &Value) -> Option<Change> {
        let (prefix, noun) = CHANGES.iter().find(|(p, _)| path.starts_with(p))?;
        let verb = &path[prefix.len()..];
        if QUESTIONS.contains(&verb) {
            return None;
        }
        let name = NAMES.iter().find_map(|key| request.get(key)?.as_str());
        let pool = name.and_then(|n| n.split(['/', '@']).next());
        let mut what = format!("{noun} {verb}");
        for (key, value) in request.as_object()? {
            match value {
                Value::Null | Value::Bool(false) => {}
                Value::String(text) => what += &format!(" {key}={text}"),
                other => what += &format!(" {key}={other}"),
            }
        }
        Some(Change {
            pool: pool.map(str::to_owned),
            what,
        })
    }
}

fn read(path: &Path) -> std::io::Result<Vec<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Appends a line; lines before the last [`HISTORY_MAX`] are removed from time to time.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let length = std::fs::metadata(path).map_or(0, |m| m.len());
    if length > HISTORY_LEN_MAX {
        let lines = read(path)?;
        let kept = lines[lines.len().saturating_sub(HISTORY_MAX / 2)..].join("\n");
        durable::replace(path, (kept + "\n").as_bytes())?;
    }
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}

impl Server {
    /// The GUID of an open pool.
    pub(crate) fn guid_of(&self, name: &str) -> Option<PoolGuid> {
        self.open_pool(name).map(|p| p.vdevs().pool())
    }

    /// Stores a change of a pool.
    pub(crate) async fn note_change(&self, pool: PoolGuid, change: &Change) {
        let Some(dir) = self.state_dir() else { return };
        let entry = HistoryEntry {
            time_ms: wall_clock_ms(),
            host: self.host.name.clone(),
            what: change.what.clone(),
        };
        let path = file(&dir, pool, "history");
        let written = io::blocking(move || {
            let line = serde_json::to_string(&entry)?;
            append(&path, &line)
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!(%error, "a change could not be added to the pool's history");
        }
    }

    /// See [`PoolHistory`]. Errors: `NoPool`, `Pool`, `File`.
    pub async fn pool_history(&self, request: PoolHistory) -> Result<Vec<HistoryEntry>> {
        let pool = self.readable_pool(&request.name)?.vdevs().pool();
        let Some(dir) = self.state_dir() else {
            return Ok(Vec::new());
        };
        let path = file(&dir, pool, "history");
        let from = path.clone();
        let read = io::blocking(move || read(&from)).await;
        let lines = read
            .map_err(|source| Error::Start {
                what: "a helper thread",
                source,
            })?
            .map_err(|source| Error::File {
                what: "read the history",
                path,
                source,
            })?;
        // An incomplete line, after a crash, is skipped.
        let entries = lines.iter().filter_map(|l| serde_json::from_str(l).ok());
        let entries: Vec<HistoryEntry> = entries.collect();
        let first = entries.len().saturating_sub(HISTORY_MAX);
        Ok(entries[first..].to_vec())
    }

    /// Records an event of a pool.
    pub(crate) fn event(&self, pool: &str, class: &str, text: String) {
        tracing::info!(pool, class, text);
        self.state.borrow_mut().events.add(Event {
            sequence: 0,
            time_ms: wall_clock_ms(),
            pool: pool.to_owned(),
            class: class.to_owned(),
            text,
        });
    }

    /// See [`ListEvents`].
    #[must_use]
    pub fn events(&self, request: &ListEvents) -> Vec<Event> {
        let state = self.state.borrow();
        let wanted = |e: &&Event| {
            let ours = request.pool.as_ref().is_none_or(|p| *p == e.pool);
            ours && e.sequence > request.after
        };
        state.events.iter().filter(wanted).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_told_from_questions() {
        let attach =
            json!({"pool": "tank", "disk": "/a", "new": "/b", "size": null, "force": false});
        let change = Change::of("/v1/pools/attach", &attach).expect("a change");
        assert_eq!(change.pool.as_deref(), Some("tank"));
        assert_eq!(change.what, "pool attach disk=/a new=/b pool=tank");
        let snapshot = json!({"name": "tank/vm1@monday"});
        let change = Change::of("/v1/snapshots/create", &snapshot).expect("a change");
        assert_eq!(change.pool.as_deref(), Some("tank"));
        for path in ["/v1/pools/history", "/v1/snapshots", "/v1/disks/add"] {
            assert!(Change::of(path, &attach).is_none(), "{path}");
        }
    }

    #[test]
    fn the_history_is_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("history");
        let line = "x".repeat(1 << 10);
        for _ in 0..3 * HISTORY_LEN_MAX / (1 << 10) {
            append(&path, &line).expect("written");
        }
        let length = std::fs::metadata(&path).expect("there").len();
        assert!(length <= HISTORY_LEN_MAX + (2 << 10), "{length}");
    }
}
