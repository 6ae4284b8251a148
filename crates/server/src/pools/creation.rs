//! Creations of pools that a crash interrupted.
//!
//! **Owns** `STATE_DIR/pools/NAME.creating`, which exists from before the configuration names a new pool until its disks are durably
//! labelled. **Called by** creation and by the opening of configured pools. **Invariant**: a pool whose creation was interrupted before it
//! had an uberblock leaves the configuration at the next start, because nobody was told that it exists.

use super::new_disks::remove_files;
use super::notes::directory;
use super::open::find;
use crate::config::{PoolConfig, PoolEdit};
use crate::server::Server;
use crate::{Error, Result, durable};
use std::fs;
use std::path::{Path, PathBuf};

/// A creation that has begun.
pub(super) struct Creation {
    /// The mark; none in a simulated server.
    mark: Option<PathBuf>,
}

fn mark(state_dir: &Path, pool: &str) -> PathBuf {
    directory(state_dir).join(format!("{pool}.creating"))
}

impl Creation {
    /// Marks the creation, durably, with the files that were created for it. Errors: `File`.
    pub(super) async fn begin(
        state_dir: Option<PathBuf>,
        pool: &str,
        made: &[PathBuf],
    ) -> Result<Creation> {
        let Some(dir) = state_dir else {
            return Ok(Creation { mark: None });
        };
        let path = mark(&dir, pool);
        let (to, text) = (path.clone(), serde_json::to_vec(made));
        let write = move || {
            fs::create_dir_all(directory(&dir))?;
            durable::replace(&to, &text?)
        };
        let written = io::blocking(write).await.map_err(|source| Error::Start {
            what: "a helper thread",
            source,
        })?;
        written.map_err(|source| Error::File {
            what: "mark the creation of the pool",
            path: path.clone(),
            source,
        })?;
        Ok(Creation { mark: Some(path) })
    }

    /// Ends it: the pool exists, or it has left the configuration. A mark that remains is removed by the next start.
    pub(super) async fn end(self) {
        if let Some(path) = self.mark {
            let _ = io::blocking(move || fs::remove_file(path)).await;
        }
    }
}

impl Server {
    /// Removes a pool from the configuration if its creation was interrupted before it existed. Returns whether that is so; false
    /// also while a disk is missing.
    pub(super) async fn forget_unfinished(&self, config: &PoolConfig) -> bool {
        let Some(dir) = self.state_dir() else {
            return false;
        };
        let path = mark(&dir, &config.name);
        let read = {
            let path = path.clone();
            io::blocking(move || fs::read(path)).await
        };
        let Ok(Ok(text)) = read else {
            return false;
        };
        let creation = Creation { mark: Some(path) };
        let (found, _) = find(&config.disks, true).await;
        let is_ours = |p: &&pool::vdev::FoundPool| p.name == config.name;
        if found
            .iter()
            .filter(is_ours)
            .any(|p| !p.uberblocks.is_empty())
        {
            creation.end().await;
            return false;
        }
        drop(found);
        let made: Vec<PathBuf> = serde_json::from_slice(&text).unwrap_or_default();
        let places = config.disks.clone();
        let are_there = io::blocking(move || places.iter().all(|p| p.exists())).await;
        let is_whole = are_there.unwrap_or(false);
        if !is_whole {
            return false;
        }
        let remove = PoolEdit::Remove(config.name.clone());
        let stored = match self.edited(&[&remove]) {
            Ok(new) => self.store(new).await,
            Err(e) => Err(e),
        };
        if let Err(error) = stored {
            tracing::warn!(pool = config.name, %error, "an interrupted creation could not be undone");
            return false;
        }
        remove_files(made).await;
        creation.end().await;
        let text = "its creation was interrupted before it existed: it left the configuration; create it again";
        self.event(&config.name, "pool.forget", text.into());
        true
    }
}
