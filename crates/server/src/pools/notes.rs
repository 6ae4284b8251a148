//! Stored notes on a pool: disks that are being replaced, paths of disks, progress of scrub, trim and resilver.
//!
//! **Owns** `STATE_DIR/pools/GUID.json`. **Called by** changes of a pool's disks. **Invariants**: a change is durable
//! when it returns; the pool opens without the notes, so an unreadable file is reported and ignored. A simulated
//! server keeps its notes in memory.

use crate::api::{Resilver, Scrub, Trim};
use crate::{Error, Result, durable};
use io::sync::Semaphore;
use pool::format::{MemberGuid, PoolGuid};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One log line if the progress of a pool's `work`, such as its scrub, could not be saved.
pub(super) fn warn_unsaved(pool: &str, work: &str, noted: Result<()>) {
    if let Err(error) = noted {
        tracing::warn!(pool, %error, "the progress of the {work} could not be saved");
    }
}

/// A disk that is detached once its replacement has every block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replacing {
    pub(crate) old: u64,
    pub(crate) new: u64,
}

/// Contents of the notes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    pub(crate) replacing: Vec<Replacing>,
    /// The present or last scrub, and its position.
    pub(crate) scrub: Option<Scrub>,
    pub(crate) scrub_at: Vec<u8>,
    /// Lost blocks, encoded, in hexadecimal digits.
    pub(crate) lost: Vec<String>,
    /// The present or last resilver.
    pub(crate) resilver: Option<Resilver>,
    /// Maximum bytes per second of a resilver.
    pub(crate) resilver_rate: Option<u64>,
    /// The present or last trim.
    pub(crate) trim: Option<Trim>,
    pub(crate) trim_at: Vec<u8>,
    /// Last known path of each disk, by GUID.
    pub(crate) paths: BTreeMap<u64, PathBuf>,
    /// Last known path of each spare, by GUID.
    pub(crate) spares: BTreeMap<u64, PathBuf>,
    /// Members for which the operator wants no spare, until they are online again.
    pub(crate) no_spare_for: BTreeSet<u64>,
    /// How often a spare was taken.
    pub(crate) spares_taken: u64,
}

/// The notes on one pool.
pub(crate) struct Notes {
    path: Option<PathBuf>,
    kept: RefCell<Kept>,
    writing: Semaphore,
}

/// The directory of all of them.
pub(crate) fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("pools")
}

/// A file of the notes on a pool.
pub(crate) fn file(state_dir: &Path, pool: PoolGuid, kind: &str) -> PathBuf {
    directory(state_dir).join(format!("{:016x}.{kind}", pool.0))
}

/// Deletes the files of a pool. Blocks.
pub(crate) fn remove(state_dir: &Path, pool: PoolGuid) -> std::io::Result<()> {
    for kind in ["epoch", "history", "json"] {
        match std::fs::remove_file(file(state_dir, pool, kind)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn read(path: &Path) -> std::io::Result<Kept> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
        Err(e) => Err(e),
    }
}

impl Kept {
    /// A text for people, with the last known path of each disk before its GUID.
    pub(crate) fn with_paths(&self, text: &str) -> String {
        let known = self.paths.iter();
        known.fold(text.to_owned(), |text, (guid, path)| {
            let guid = format!("{guid:016x}");
            let named = format!("{} ({guid})", path.display());
            text.replace(&guid, &named)
        })
    }
}

impl Notes {
    /// The notes on a pool; in memory without a state directory.
    pub(crate) async fn load(state_dir: Option<&Path>, pool: PoolGuid) -> Notes {
        let path = state_dir.map(|dir| file(dir, pool, "json"));
        let mut kept = Kept::default();
        if let Some(path) = path.clone() {
            let shown = path.display().to_string();
            match io::blocking(move || read(&path)).await {
                Ok(Ok(found)) => kept = found,
                Ok(Err(error)) => tracing::warn!(file = shown, %error, "notes cannot be read"),
                Err(error) => tracing::warn!(file = shown, %error, "notes cannot be read"),
            }
        }
        Notes {
            path,
            kept: RefCell::new(kept),
            writing: Semaphore::new(1),
        }
    }

    /// The present notes.
    pub(crate) fn kept(&self) -> Kept {
        self.kept.borrow().clone()
    }

    /// Last known path of a disk.
    pub(crate) fn was_at(&self, member: MemberGuid) -> Option<PathBuf> {
        self.kept.borrow().paths.get(&member.0).cloned()
    }

    /// Changes the notes; durable with the next [`Notes::change`].
    pub(crate) fn update(&self, change: impl FnOnce(&mut Kept)) {
        change(&mut self.kept.borrow_mut());
    }

    /// Changes the notes on the scrub; durable when this returns. Errors: `File`.
    pub(crate) async fn change_scrub(&self, change: impl Fn(&mut Scrub)) -> Result<()> {
        self.change(|k| k.scrub.iter_mut().for_each(&change)).await
    }

    /// Changes the notes; durable when this returns. Errors: `File`; nothing has changed then.
    pub(crate) async fn change(&self, change: impl Fn(&mut Kept)) -> Result<()> {
        let _turn = self.writing.acquire(1).await;
        let mut kept = self.kept();
        change(&mut kept);
        if let Some(path) = self.path.clone() {
            let failed = |source| Error::File {
                what: "write the notes",
                path: path.clone(),
                source,
            };
            let text = serde_json::to_vec_pretty(&kept).map_err(|e| failed(e.into()))?;
            let to = path.clone();
            let written = io::blocking(move || durable::replace(&to, &text)).await;
            let written = written.map_err(|source| Error::Start {
                what: "a helper thread",
                source,
            })?;
            written.map_err(failed)?;
        }
        // Concurrent updates stay.
        change(&mut self.kept.borrow_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_last_path_of_a_disk_before_its_guid() {
        let mut kept = Kept::default();
        kept.paths.insert(0xab, "/dev/sdb".into());
        let reason = kept.with_paths("connect 00000000000000ab, 00000000000000cd");
        assert_eq!(
            reason,
            "connect /dev/sdb (00000000000000ab), 00000000000000cd"
        );
    }
}
