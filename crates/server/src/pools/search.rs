//! Disks of pools that are not at their configured paths.
//!
//! **Owns** the search: paths of all configured pools, and the entries of the configured search directories (`/dev/disk/by-id`). **Called
//! by** the supervisor of a pool. **Invariants**: a search opens disks for reading only, and writes nothing; a disk is taken for a member
//! only by the identifiers in its label, and only if this server has had the pool open before; a member that is found twice is not taken.

use super::notes::file;
use crate::config::{PoolConfig, PoolEdit};
use crate::limits::{DISK_WAIT_MAX, LABELS_AT_ONCE, SEARCH_MAX};
use crate::server::Server;
use io::disk::{Disk, OpenOptions};
use pool::Pool;
use pool::format::{MemberGuid, PoolGuid};
use pool::vdev::{self, FoundCache, FoundSpare, Presence};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The label of a disk.
pub(super) struct Labelled {
    pub(super) path: PathBuf,
    pub(super) pool: PoolGuid,
    pub(super) name: String,
    pub(super) member: MemberGuid,
}

/// State of the search directories; a change means that a disk came or went.
pub(super) type Changed = Vec<Option<SystemTime>>;

/// The disk at `path`, open for reading; `None` if it cannot be opened, or does not answer.
async fn readable(path: &Path) -> Option<Disk> {
    let options = OpenOptions {
        read_only: true,
        shared: true,
        ..OpenOptions::default()
    };
    let opening = io::timeout(DISK_WAIT_MAX, Disk::open(path, options)).await;
    opening.ok()?.ok()
}

/// The label of the disk at `path`; `None` if it has none, or cannot be read.
async fn label_at(path: PathBuf) -> Option<Labelled> {
    let scan = vdev::scan(vec![readable(&path).await?]).await;
    let found = scan.pools.into_iter().next()?;
    let is_here = |p: &Presence| !matches!(p, Presence::Missing | Presence::MissingStale);
    let mut members = found.vdevs.iter().flat_map(|v| &v.members);
    let member = members.find(|s| is_here(&s.presence))?.guid;
    Some(Labelled {
        path,
        pool: found.guid,
        name: found.name,
        member,
    })
}

/// The disk at `path`, if it is a spare.
async fn spare_at(path: PathBuf) -> Option<FoundSpare> {
    let label = vdev::spare_label(&readable(&path).await?).await?;
    Some(FoundSpare { path, label })
}

/// The disk at `path`, if it is a cache device.
async fn cache_at(path: PathBuf) -> Option<FoundCache> {
    let label = vdev::cache_label(&readable(&path).await?).await?;
    Some(FoundCache { path, label })
}

/// Looks at the disks at these paths, and returns what was found, in their order. Disks that do not answer delay it by [`DISK_WAIT_MAX`] for
/// each [`LABELS_AT_ONCE`] paths.
async fn at_each<T: 'static, F: Future<Output = Option<T>> + 'static>(
    paths: Vec<PathBuf>,
    look: fn(PathBuf) -> F,
) -> Vec<T> {
    let mut found = Vec::new();
    for some in paths.chunks(LABELS_AT_ONCE) {
        let reads = some.iter().map(|path| io::spawn(look(path.clone())));
        for read in reads.collect::<Vec<_>>() {
            found.extend(read.await.flatten());
        }
    }
    found
}

/// The spares at these paths.
pub(super) async fn spares_at(paths: Vec<PathBuf>) -> Vec<FoundSpare> {
    at_each(paths, spare_at).await
}

/// The cache devices at these paths.
pub(super) async fn caches_at(paths: Vec<PathBuf>) -> Vec<FoundCache> {
    at_each(paths, cache_at).await
}

/// Labels of the disks at these paths.
pub(super) async fn labels_at(paths: Vec<PathBuf>) -> Vec<Labelled> {
    at_each(paths, label_at).await
}

/// Paths in these directories, one for each device or file, at most [`SEARCH_MAX`]. Blocks.
pub(super) fn list(directories: &[PathBuf], known: &[PathBuf]) -> Vec<PathBuf> {
    let real = |path: &PathBuf| path.canonicalize().ok();
    let mut seen: BTreeSet<PathBuf> = known.iter().filter_map(real).collect();
    let entries = directories.iter().filter_map(|d| std::fs::read_dir(d).ok());
    let mut paths: Vec<PathBuf> = entries.flatten().flatten().map(|e| e.path()).collect();
    // Names with a model come before those with a number only, and the whole disk before its partitions.
    let is_number = |p: &PathBuf| {
        let name = p.file_name().unwrap_or_default().to_string_lossy();
        ["wwn-", "nvme-eui.", "nvme-uuid.", "dm-uuid-"]
            .iter()
            .any(|kind| name.starts_with(kind))
    };
    paths.sort_by_key(|p| (is_number(p), p.clone()));
    paths.retain(|p| real(p).is_some_and(|real| seen.insert(real)));
    paths.truncate(SEARCH_MAX);
    paths
}

/// The paths of the members that are present.
pub(super) fn paths_of(vdevs: &[vdev::VdevStatus]) -> Vec<PathBuf> {
    let members = vdevs.iter().flat_map(|v| &v.members);
    let present = members.filter(|m| !m.path.as_os_str().is_empty());
    present.map(|m| m.path.clone()).collect()
}

/// Whether this server has had the pool open. Blocks.
fn has_notes(state_dir: &Path, pool: PoolGuid) -> bool {
    ["json", "epoch"]
        .iter()
        .any(|kind| file(state_dir, pool, kind).exists())
}

impl Server {
    pub(super) fn search_directories(&self) -> Vec<PathBuf> {
        let state = self.state.borrow();
        state.file.config().server.disk_directories.clone()
    }

    /// When the search directories changed last. Unchanged in a simulated server.
    pub(super) async fn directories_changed(&self) -> Changed {
        let directories = self.search_directories();
        let read = move || {
            let changed = |d: &PathBuf| std::fs::metadata(d).and_then(|m| m.modified()).ok();
            directories.iter().map(changed).collect()
        };
        match self.state_dir() {
            Some(_) => io::blocking(read).await.unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// Labels of disks that are not at the paths of the pool `config`, by members of any pool that this server has had open.
    pub(super) async fn search(&self, config: &PoolConfig) -> Vec<Labelled> {
        let Some(state_dir) = self.state_dir() else {
            return Vec::new();
        };
        let pools = self.state.borrow().file.config().pools.clone();
        let others = pools.iter().filter(|p| p.name != config.name);
        let mut paths: Vec<PathBuf> = others.flat_map(|p| p.disks.clone()).collect();
        let (directories, known) = (
            self.search_directories(),
            [&config.disks[..], &paths].concat(),
        );
        let listed = io::blocking(move || list(&directories, &known)).await;
        paths.extend(listed.unwrap_or_default());
        let mut found: BTreeMap<(u64, u64), Vec<Labelled>> = BTreeMap::new();
        for label in labels_at(paths).await {
            let key = (label.pool.0, label.member.0);
            found.entry(key).or_default().push(label);
        }
        found.retain(|_, labels| labels.len() == 1);
        let found: Vec<Labelled> = found.into_values().flatten().collect();
        let pools: BTreeSet<u64> = found.iter().map(|l| l.pool.0).collect();
        let known = io::blocking(move || {
            let is_known = |pool: &u64| has_notes(&state_dir, PoolGuid(*pool));
            pools.into_iter().filter(is_known).collect::<BTreeSet<_>>()
        });
        let known = known.await.unwrap_or_default();
        let is_known = |label: &Labelled| known.contains(&label.pool.0);
        found.into_iter().filter(is_known).collect()
    }

    /// Gives the configuration the paths at which the members of an open pool were found. Another pool that had such a path gets the
    /// former paths of this pool that hold its labels.
    pub(super) async fn update_paths(&self, name: &str, pool: &Pool) {
        let members = paths_of(&pool.vdevs().status());
        let before = self.with_paths(name, &[]);
        if before.is_empty() || members.iter().all(|p| before.contains(p)) {
            return;
        }
        let Ok(_turn) = self.turn().await else { return };
        let before = self.with_paths(name, &[]);
        let mut paths = Vec::new();
        let mut left = Vec::new();
        for path in before {
            match members.contains(&path) || self.may_be_member(pool, &path).await {
                true => paths.push(path),
                false => {
                    let label = label_at(path.clone()).await;
                    left.push((path, label.map_or(String::new(), |l| l.name)));
                }
            }
        }
        let new = |p: &&PathBuf| !paths.contains(*p);
        let new: Vec<PathBuf> = members.iter().filter(new).cloned().collect();
        paths.extend(new.iter().cloned());
        let mut edits = vec![PoolEdit::SetDisks(name.to_owned(), paths)];
        let others = self.state.borrow().file.config().pools.clone();
        for other in others.into_iter().filter(|o| o.name != name) {
            if !other.disks.iter().any(|d| new.contains(d)) {
                continue;
            }
            let own = left.iter().filter(|(_, of)| *of == other.name);
            let mut disks: Vec<PathBuf> = own.map(|(path, _)| path.clone()).collect();
            disks.extend(other.disks.into_iter().filter(|d| !new.contains(d)));
            if disks.is_empty() {
                // Its disks are nowhere; a pool needs a path.
                disks.extend(left.first().map(|(path, _)| path.clone()));
            }
            edits.push(PoolEdit::SetDisks(other.name, disks));
        }
        let edits: Vec<_> = edits
            .iter()
            .map(|e| e as &dyn crate::config::Edit)
            .collect();
        let stored = match self.edited(&edits) {
            Ok(new) => self.store(new).await,
            Err(e) => Err(e),
        };
        let shown: Vec<_> = new.iter().map(|p| p.display().to_string()).collect();
        let shown = shown.join(", ");
        match stored {
            Ok(()) => self.event(name, "pool.paths", format!("disks found at {shown}")),
            Err(error) => {
                tracing::warn!(pool = name, disks = shown, %error, "new paths of disks could not be saved");
            }
        }
    }

    /// Whether a configured path that no present member has may be that of a missing member: it is absent, or its label names one.
    async fn may_be_member(&self, pool: &Pool, path: &Path) -> bool {
        let missing = |s: &vdev::MemberStatus| s.path.as_os_str().is_empty();
        let vdevs = pool.vdevs();
        if !vdevs.status().iter().flat_map(|v| &v.members).any(missing) {
            return false;
        }
        match label_at(path.to_path_buf()).await {
            Some(label) => label.pool == vdevs.pool(),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::list;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_device_is_listed_once_by_its_best_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let by_id = dir.path().join("by-id");
        fs::create_dir(&by_id).expect("a directory");
        let device = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "").expect("a file");
            path
        };
        let (a, b, c) = (device("sda"), device("sdb"), device("sdc"));
        for (name, target) in [
            ("wwn-0x5000", &a),
            ("ata-Model_1", &a),
            ("nvme-Model_2", &b),
            ("ata-Model_3", &c),
            ("ata-gone", &dir.path().join("sdd")),
        ] {
            symlink(target, by_id.join(name)).expect("a link");
        }
        let listed = list(&[by_id.clone(), dir.path().join("missing")], &[c]);
        assert_eq!(
            listed,
            [by_id.join("ata-Model_1"), by_id.join("nvme-Model_2")]
        );
    }
}
