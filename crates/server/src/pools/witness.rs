//! What this machine knows of a pool's labels: the epoch of the last that it wrote.
//!
//! **Owns** `STATE_DIR/pools/GUID.epoch`. **Called by** the pool's devices, on any shard, before labels count.
//! **Invariants**: while the file is there, no labels of a later epoch were ever relied on by this machine; one that
//! cannot be written is removed, and what it would have proved is not known then.
//! `docs/decisions/0101`, "A missing side".

use super::notes::file;
use crate::durable;
use pool::format::{LabelEpoch, PoolGuid};
use pool::vdev::{Witness, Witnessed};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The epoch of one pool's labels.
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

/// Durable when it returns.
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
        tracing::warn!(file = %path.display(), %error, "cannot be written; what it would prove is not known now");
        remove(path)
    })
}

impl EpochFile {
    /// Of one pool; none without a state directory.
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
