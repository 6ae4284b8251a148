//! Differences between states of a filesystem.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: a comparison with the present state has a snapshot of its
//! own, which is destroyed at its end, or when the pool is opened the next time; no other snapshot has a name like it; the answer is
//! bounded by [`DIFFERENCES_MAX`].

use crate::api::{DiffFilesystem, Difference, DifferenceKind, FileType};
use crate::limits::DIFFERENCES_MAX;
use crate::pools::entry::{filesystems_of, full_name};
use crate::pools::names::{names, split};
use crate::pools::snapshots::failed;
use crate::server::Server;
use crate::{Error, Result};
use backend::file::FileKind;
use pool::{FileChange, FileChangeKind, Pool};

/// The beginning of the names of snapshots that comparisons take.
const TEMPORARY: &str = ".diff-";

/// A path as text: a backslash, a control character, and a byte that is not UTF-8, in octal.
fn text(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    let octal = |out: &mut String, byte: u8| *out += &format!("\\{byte:04o}");
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.is_control() || c == '\\' {
                true => c.to_string().bytes().for_each(|b| octal(&mut out, b)),
                false => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| octal(&mut out, *b));
    }
    out
}

fn difference(found: FileChange) -> Difference {
    let (change, new_path) = match &found.kind {
        FileChangeKind::Added => (DifferenceKind::Added, None),
        FileChangeKind::Removed => (DifferenceKind::Removed, None),
        FileChangeKind::Modified => (DifferenceKind::Modified, None),
        FileChangeKind::Renamed(new) => (DifferenceKind::Renamed, Some(text(new))),
    };
    Difference {
        change,
        file: match found.file {
            FileKind::File => FileType::File,
            FileKind::Directory => FileType::Directory,
            FileKind::Symlink => FileType::Symlink,
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
            FileKind::CharDevice => FileType::Char,
            FileKind::BlockDevice => FileType::Block,
        },
        path: text(&found.path),
        new_path,
        links: found.links,
        changed_ns: found.changed.0,
    }
}

async fn compare(pool: &Pool, full: &str, (old, new): (&str, &str)) -> Result<Vec<Difference>> {
    let (pool_name, filesystem) = names(full)?;
    let found = pool.diff(filesystem, (old, new), DIFFERENCES_MAX).await;
    match found.map_err(|e| failed(pool_name, &format!("{full}@{old}"), e))? {
        Some(found) => Ok(found.into_iter().map(difference).collect()),
        None => Err(Error::Conflict(format!(
            "{full}@{old}: more than {DIFFERENCES_MAX} files differ: take a newer snapshot"
        ))),
    }
}

/// Refuses the name of a new snapshot that a comparison could have taken. Errors: `Invalid`.
pub(in crate::pools) fn check_snapshot_name(name: &str) -> Result<()> {
    match name.starts_with(TEMPORARY) {
        true => Err(Error::Invalid(format!(
            "{name:?}: names that begin with {TEMPORARY:?} are kept for `wirepool diff`: take another one"
        ))),
        false => Ok(()),
    }
}

/// Destroys the snapshots of comparisons that an earlier server did not end. What cannot be destroyed stays until the next opening.
pub(in crate::pools) async fn remove_leftovers(pool: &Pool) {
    for filesystem in filesystems_of(pool) {
        let of = filesystem.dataset().name;
        let mut names: Vec<String> = pool
            .snapshots(&of)
            .iter()
            .map(|s| s.dataset().name)
            .collect();
        names.retain(|name| name.starts_with(TEMPORARY));
        for name in names {
            let snapshot = format!("{}@{name}", full_name(&pool.vdevs().name(), &of));
            match pool.destroy_snapshot(&of, &name).await {
                Ok(()) => {
                    tracing::info!("{snapshot} of a comparison that did not end is destroyed")
                }
                Err(error) => {
                    tracing::warn!(%error, "{snapshot} of a comparison that did not end stays")
                }
            }
        }
    }
}

impl Server {
    /// See [`DiffFilesystem`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoFilesystem`, `NoSnapshot`, `Pool`.
    pub async fn diff_filesystem(&self, request: DiffFilesystem) -> Result<Vec<Difference>> {
        let DiffFilesystem { from, to } = request;
        let (full, old) = split(&from)?;
        let (pool_name, filesystem) = names(full)?;
        self.readable_filesystem(&from)?;
        let to = to.as_deref().unwrap_or(full);
        if to.split('@').next() != Some(full) {
            return Err(Error::Invalid(format!(
                "{to:?} is not of the filesystem {full:?}, as {from:?} is"
            )));
        }
        if let Some((_, new)) = to.split_once('@') {
            self.readable_filesystem(to)?;
            let pool = self.readable_pool(pool_name)?;
            let birth = |name| {
                pool.filesystem_snapshot(filesystem, name)
                    .map(|s| s.dataset().birth)
            };
            if birth(new) < birth(old) {
                return Err(Error::Invalid(format!(
                    "{to:?} is older than {from:?}: exchange them"
                )));
            }
            return compare(&pool, full, (old, new)).await;
        }
        let _turn = self.turn().await?;
        let (pool, _) = self.filesystem_named(full)?;
        self.sync_mount(full).await?;
        let now = format!("{TEMPORARY}{:016x}", io::rng::u64());
        let taken = pool.create_snapshot(filesystem, &now).await;
        drop(taken.map_err(|e| failed(pool_name, full, e))?);
        let found = compare(&pool, full, (old, &now)).await;
        let destroyed = pool.destroy_snapshot(filesystem, &now).await;
        destroyed.map_err(|e| failed(pool_name, &format!("{full}@{now}"), e))?;
        found
    }
}
