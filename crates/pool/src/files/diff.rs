//! The difference between two states of a filesystem, by object.
//!
//! The trees of both states are compared; parts that they share are not read. An object has changed if its inode has another
//! change number: every change of names, attributes or contents raises that.
//!
//! **Owns** the comparison, and [`FileChange`]. **Called by** requests of the pool's users. **Invariants**: both states are
//! snapshots with roots of their own; the cost depends on the number of changes, and the depth of the directories, alone.

use std::collections::BTreeSet;

use backend::file::{FileKind, FileResult, Timestamp};

use super::FileStore;
use crate::filesystem::Store as _;
use crate::format::filesystem::{Inode, InodeFlags, KIND_INODE, KIND_LINK, Link, kind_keys};
use crate::format::{ObjectId, Value};
use crate::tree::{Change, Compare, CompareStep};
use crate::{Error, Result};
use io::sync::lock;

/// Further names of a file that are compared.
const LINKS_MAX: usize = 1 << 16;

/// The kind of a change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChangeKind {
    /// It is new.
    Added,
    /// It was removed.
    Removed,
    /// Its contents, attributes or entries changed.
    Modified,
    /// It has this path now in place of the one before. It may be modified, too.
    Renamed(Vec<u8>),
}

/// A change of an object between two states of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The kind of the change.
    pub kind: FileChangeKind,
    /// The kind of the object.
    pub file: FileKind,
    /// Its path from the root directory, in the newer state that has it. Of a renamed object, in the older state.
    pub path: Vec<u8>,
    /// Names that it has more, or fewer, than before. 0 for directories.
    pub links: i64,
    /// Time of its last change, in the newer state that has it.
    pub changed: Timestamp,
}

/// The inode of an object before and after, of which one is there.
struct Pair {
    object: ObjectId,
    old: Option<Inode>,
    new: Option<Inode>,
}

/// The place of the first name.
fn first_name(inode: &Inode) -> Link {
    Link {
        parent: inode.parent,
        entry: inode.entry,
    }
}

impl Pair {
    /// The inodes of a changed key; `None` if the object has not changed.
    fn of(change: &Change) -> Result<Option<Self>> {
        let decode = |value: &Option<Value>| match value {
            Some(Value::Inline(bytes)) => Inode::decode(bytes).map(Some).map_err(Error::Invalid),
            Some(Value::Block(_)) | None => Ok(None),
        };
        // removed, and only its space is left
        let named = |inode: &Inode| inode.links > 0;
        let pair = Self {
            object: change.key.object(),
            old: decode(&change.old)?.filter(named),
            new: decode(&change.new)?.filter(named),
        };
        let is_same = match (&pair.old, &pair.new) {
            (Some(old), Some(new)) => old.change == new.change,
            (None, None) => true,
            _ => false,
        };
        Ok((!is_same).then_some(pair))
    }
}

impl FileStore {
    /// The changes of objects from this state to a newer one of the same filesystem, in the order of their numbers; both are
    /// snapshots with roots of their own. `None` if there are more than `max`.
    ///
    /// # Errors
    /// Those of the medium.
    pub(crate) async fn changes_to(
        &self,
        newer: &FileStore,
        max: usize,
    ) -> Result<Option<Vec<FileChange>>> {
        let Some(pairs) = self.changed_inodes(newer, max).await? else {
            return Ok(None);
        };
        let mut changes = Vec::with_capacity(pairs.len());
        for pair in &pairs {
            changes.extend(self.changes_of(newer, pair).await);
        }
        Ok(Some(changes))
    }

    async fn changed_inodes(&self, newer: &FileStore, max: usize) -> Result<Option<Vec<Pair>>> {
        let shared = &self.0.shared;
        let _reader = shared.readers.enter();
        let root = |of: &FileStore| lock(&of.0.state).layers.root();
        let mut compare = Compare::new(root(self), root(newer));
        let mut pairs = Vec::new();
        loop {
            match compare.step() {
                CompareStep::Need(need) => {
                    compare.supply(shared.node(newer.0.id, &need).await?)?;
                }
                CompareStep::Change(change) if change.key.kind() == KIND_INODE => {
                    pairs.extend(Pair::of(&change)?);
                    if pairs.len() > max {
                        return Ok(None);
                    }
                }
                CompareStep::Change(_) => {}
                CompareStep::Done => return Ok(Some(pairs)),
            }
        }
    }

    /// The path of an object, or a text with its number if it cannot be found.
    async fn path_or_number(&self, object: ObjectId) -> Vec<u8> {
        let path = self.path_bytes(object).await;
        path.unwrap_or_else(|| format!("/???<object#{}>", object.0).into_bytes())
    }

    async fn changes_of(&self, newer: &FileStore, pair: &Pair) -> Vec<FileChange> {
        let object = pair.object;
        let change = |kind, inode: &Inode, path| FileChange {
            kind,
            file: inode.kind,
            path,
            links: 0,
            changed: inode.changed,
        };
        match (&pair.old, &pair.new) {
            (Some(old), Some(new)) if old.generation == new.generation => {
                let links = match new.kind {
                    FileKind::Directory => 0,
                    _ => i64::from(new.links) - i64::from(old.links),
                };
                let path = newer.path_or_number(object).await;
                let changed = match self.has_name(object, old, first_name(new)).await {
                    Ok(true) | Err(_) => change(FileChangeKind::Modified, new, path),
                    Ok(false) => {
                        let before = self.path_or_number(object).await;
                        change(FileChangeKind::Renamed(path), new, before)
                    }
                };
                vec![FileChange { links, ..changed }]
            }
            (old, new) => {
                let mut changes = Vec::with_capacity(2);
                if let Some(old) = old {
                    let path = self.path_or_number(object).await;
                    changes.push(change(FileChangeKind::Removed, old, path));
                }
                if let Some(new) = new {
                    let path = newer.path_or_number(object).await;
                    changes.push(change(FileChangeKind::Added, new, path));
                }
                changes
            }
        }
    }

    /// Whether an object with this inode has this name.
    async fn has_name(&self, object: ObjectId, inode: &Inode, name: Link) -> FileResult<bool> {
        if first_name(inode) == name {
            return Ok(true);
        }
        if !inode.flags.has(InodeFlags::LINKS) {
            return Ok(false);
        }
        let links = self.scan(kind_keys(object, KIND_LINK), LINKS_MAX).await?;
        let links = links.iter().filter_map(|(_, link)| Link::decode(link).ok());
        let links: BTreeSet<Link> = links.collect();
        Ok(links.contains(&name))
    }
}
