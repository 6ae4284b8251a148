//! Record of a pool's last label epoch, outside of the pool.
//!
//! **Owns** `STATE_DIR/pools/GUID.epoch`. **Called by** the pool's devices, on any shard, before labels count.
//! **Invariants**: while the file exists, this machine has relied on no labels of a later epoch; a file that cannot
//! be written is removed, and proves nothing any more.
//! `docs/decisions/0101`, "A missing side".

use super::notes::file;
use crate::durable;
use pool::format::{LabelEpoch, PoolGuid};
use pool::vdev::{Witness, Witnessed};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The last label epoch of one pool.
#[derive(Debug)]
pub(crate) struct EpochFile {
    path: PathBuf,
    last: Option<LabelEpoch>,
}

fn read(path: &Path) -> Result<LabelEpoch> {
    let text = std::fs::read_to_string(path)?;
    let epoch = text.trim().parse().map_err(Error::other)?;
    Ok(LabelEpoch(epoch))
}

/// Removes the file; durable when it returns.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    path.parent()
        .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

fn write(path: &Path, epoch: LabelEpoch) -> Result<()> {
    let written = durable::replace(path, format!("{}\n", epoch.0).as_bytes());
    written.or_else(|error| {
        tracing::warn!(file = %path.display(), %error, "cannot be written; the pool may not open without a missing member");
        remove(path)
    })
}

impl EpochFile {
    /// The record of one pool; none without a state directory.
    pub(crate) async fn of(state_dir: Option<&Path>, pool: PoolGuid) -> Option<Arc<EpochFile>> {
        let path = file(state_dir?, pool, "epoch");
        let from = path.clone();
        let last = io::blocking(move || read(&from)).await;
        let last = last.ok().and_then(Result::ok);
        Some(Arc::new(EpochFile { path, last }))
    }
}

impl Witness for EpochFile {
    fn last(&self) -> Option<LabelEpoch> {
        self.last
    }

    fn record(&self, epoch: LabelEpoch) -> Witnessed {
        let path = self.path.clone();
        Box::pin(async move {
            let written = io::blocking(move || write(&path, epoch)).await;
            matches!(written, Ok(Ok(())))
        })
    }
}
