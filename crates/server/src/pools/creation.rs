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
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Contents of the mark.
#[derive(Default, Serialize, Deserialize)]
struct Mark {
    /// Files that were created for the pool.
    made: Vec<PathBuf>,
    /// Disks that become its spares.
    spares: Vec<PathBuf>,
}

impl Mark {
    /// An earlier release wrote the list of files only. A mark that is neither has nothing.
    fn read(text: &[u8]) -> Mark {
        let mark = serde_json::from_slice(text);
        mark.unwrap_or_else(|_| Mark {
            made: serde_json::from_slice(text).unwrap_or_default(),
            spares: Vec::new(),
        })
    }
}

/// What the start finds of a configured pool's creation.
pub(super) enum Unfinished {
    /// Nothing.
    No,
    /// It was interrupted before the pool existed, and the pool has left the configuration.
    Forgotten,
    /// It was interrupted after the pool existed: these disks become spares, and [`Server::end_creation`] ends it.
    LacksSpares(Vec<PathBuf>),
}

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
        spares: &[PathBuf],
    ) -> Result<Creation> {
        let Some(dir) = state_dir else {
            return Ok(Creation { mark: None });
        };
        let path = mark(&dir, pool);
        let contents = Mark {
            made: made.to_vec(),
            spares: spares.to_vec(),
        };
        let (to, text) = (path.clone(), serde_json::to_vec(&contents));
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
    /// Removes a pool from the configuration if its creation was interrupted before it existed, unless a disk is missing.
    pub(super) async fn forget_unfinished(&self, config: &PoolConfig) -> Unfinished {
        let Some(dir) = self.state_dir() else {
            return Unfinished::No;
        };
        let path = mark(&dir, &config.name);
        let read = {
            let path = path.clone();
            io::blocking(move || fs::read(path)).await
        };
        let Ok(Ok(text)) = read else {
            return Unfinished::No;
        };
        let contents = Mark::read(&text);
        let creation = Creation { mark: Some(path) };
        let (found, _) = find(&config.disks, true).await;
        let is_ours = |p: &&pool::vdev::FoundPool| p.name == config.name;
        if found
            .iter()
            .filter(is_ours)
            .any(|p| !p.uberblocks.is_empty())
        {
            if !contents.spares.is_empty() {
                return Unfinished::LacksSpares(contents.spares);
            }
            creation.end().await;
            return Unfinished::No;
        }
        drop(found);
        let places = config.disks.clone();
        let are_there = io::blocking(move || places.iter().all(|p| p.exists())).await;
        let is_whole = are_there.unwrap_or(false);
        if !is_whole {
            return Unfinished::No;
        }
        let remove = PoolEdit::Remove(config.name.clone());
        let stored = match self.edited(&[&remove]) {
            Ok(new) => self.store(new).await,
            Err(e) => Err(e),
        };
        if let Err(error) = stored {
            tracing::warn!(pool = config.name, %error, "an interrupted creation could not be undone");
            return Unfinished::No;
        }
        remove_files(contents.made).await;
        creation.end().await;
        let text = "its creation was interrupted before it existed: it left the configuration; create it again";
        self.event(&config.name, "pool.forget", text.into());
        Unfinished::Forgotten
    }

    /// Removes the mark of a creation.
    pub(super) async fn end_creation(&self, pool: &str) {
        if let Some(dir) = self.state_dir() {
            let creation = Creation {
                mark: Some(mark(&dir, pool)),
            };
            creation.end().await;
        }
    }
}
