//! What the pool's own tree says: datasets, their roots, and the space that is used.
//!
//! **Owns** the reading of it. **Called by** the offline reader, before anything that hangs below. **Invariants**: an
//! entry that is malformed is told and left out; the tree is read whole, or it is said that it was not.

use std::collections::BTreeMap;

use super::disks::{Image, InspectError};
use super::found::{Finding, FindingKind, Findings};
use super::space::Sectors;
use crate::format::{
    Birth, BlockPtr, DEAD_TREE, Dataset, DatasetRoot, Defect, FIRST_DATASET, KIND_DATASET,
    KIND_NEXT_DATASET, KIND_ROOT, KIND_SPACE, Key, TreeId, Uberblock, Value,
};
use crate::tree::{Visit, Walk, WalkStep};

/// What the pool's own tree is called in what is told.
pub(super) const POOL: &str = "the pool's own tree";

/// A dataset of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenDataset {
    /// Its number.
    pub id: TreeId,
    /// Its name: `vm1`, or `vm1@monday`.
    pub name: String,
    /// What it is.
    pub dataset: Dataset,
    /// Where its blocks hang.
    pub root: DatasetRoot,
}

/// A checkpoint.
pub struct Contents {
    /// Where it begins.
    pub uberblock: Uberblock,
    /// By number.
    pub datasets: BTreeMap<TreeId, SeenDataset>,
    /// Root of the lists of dead blocks.
    pub dead: Option<BlockPtr>,
    /// The number of the next dataset.
    pub next_dataset: u64,
    /// Nodes of the pool's own tree.
    pub nodes: Vec<BlockPtr>,
    pub(super) saved: Sectors,
    pub(super) whole: bool,
}

#[derive(Default)]
struct Entries {
    datasets: BTreeMap<TreeId, Dataset>,
    roots: BTreeMap<TreeId, DatasetRoot>,
    next: u64,
    saved: Sectors,
}

impl Entries {
    fn take(&mut self, image: &Image, key: Key, value: &Value) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let id = TreeId(key.object().0);
        let Value::Inline(bytes) = value else {
            return field("pointer in the pool's own tree", 0);
        };
        if key.kind() != KIND_SPACE && key.offset() != 0 {
            return field("offset of a key of the pool's own tree", key.offset());
        }
        match key.kind() {
            KIND_SPACE => self.saved.load(image, key, bytes)?,
            KIND_DATASET if id.0 >= FIRST_DATASET => {
                self.datasets.insert(id, Dataset::decode(bytes)?);
            }
            KIND_ROOT if id.0 >= FIRST_DATASET || id == DEAD_TREE => {
                self.roots.insert(id, DatasetRoot::decode(bytes)?);
            }
            KIND_NEXT_DATASET if id.0 == 0 => match bytes[..].try_into() {
                Ok(bytes) => self.next = u64::from_le_bytes(bytes),
                Err(_) => return field("length of the next dataset's number", bytes.len() as u64),
            },
            other => return field("kind of an entry of the pool's tree", other.0.into()),
        }
        Ok(())
    }
}

impl Image {
    /// Reads the pool's own tree.
    ///
    /// # Errors
    /// [`InspectError::NoTree`] if its root cannot be had.
    pub async fn contents(
        &self,
        uberblock: Uberblock,
        findings: &mut Findings,
    ) -> Result<Contents, InspectError> {
        let mut entries = Entries::default();
        let mut nodes = Vec::new();
        let mut whole = true;
        let mut walk = Walk::new(uberblock.root, Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.node(&need.ptr, POOL, None, findings).await;
                    let supplied = node.map(|node| walk.supply(node));
                    if let Some(Err(error)) = &supplied {
                        let finding = Finding::new(FindingKind::Node, error.to_string());
                        findings.add(finding.at(need.ptr.address()));
                    }
                    if !matches!(supplied, Some(Ok(()))) {
                        whole = false;
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => nodes.push(ptr),
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if let Err(defect) = entries.take(self, key, &value) {
                        let kind = match key.kind() {
                            KIND_SPACE => FindingKind::Space,
                            _ => FindingKind::Dataset,
                        };
                        let text = format!("entry {key:?} of {POOL}: {defect}");
                        findings.add(Finding::new(kind, text));
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => break,
            }
        }
        if !whole && nodes.is_empty() {
            return Err(InspectError::NoTree);
        }
        Ok(entries.settle(uberblock, nodes, whole, findings))
    }
}

impl Entries {
    fn settle(
        mut self,
        uberblock: Uberblock,
        nodes: Vec<BlockPtr>,
        whole: bool,
        findings: &mut Findings,
    ) -> Contents {
        let dead = self.roots.remove(&DEAD_TREE).and_then(|r| r.root);
        let mut told = |id: TreeId, text: &str| {
            let text = format!("dataset {}: {text}", id.0);
            findings.add(Finding::new(FindingKind::Dataset, text));
        };
        for id in self
            .roots
            .keys()
            .filter(|id| !self.datasets.contains_key(id))
        {
            told(*id, "a root without a dataset");
        }
        let mut datasets = BTreeMap::new();
        for (id, dataset) in &self.datasets {
            if whole && self.next <= id.0 {
                told(*id, "its number may be given out again");
            }
            for other in [dataset.of, dataset.origin].into_iter().flatten() {
                if whole && !self.datasets.contains_key(&other) {
                    told(
                        *id,
                        &format!("it needs dataset {}, which is not there", other.0),
                    );
                }
            }
            let of = dataset.of.and_then(|of| self.datasets.get(&of));
            let name = match of {
                Some(volume) => format!("{}@{}", volume.name, dataset.name),
                None => dataset.name.clone(),
            };
            let root = self.roots.get(id).copied().unwrap_or(DatasetRoot {
                root: None,
                referenced: 0,
            });
            let seen = SeenDataset {
                id: *id,
                name,
                dataset: dataset.clone(),
                root,
            };
            datasets.insert(*id, seen);
        }
        Contents {
            uberblock,
            datasets,
            dead,
            next_dataset: self.next,
            nodes,
            saved: self.saved,
            whole,
        }
    }
}

impl Contents {
    /// The snapshots of a volume, oldest first.
    #[must_use]
    pub fn snapshots(&self, volume: TreeId) -> Vec<&SeenDataset> {
        let of = |d: &&SeenDataset| d.dataset.of == Some(volume);
        let mut found: Vec<_> = self.datasets.values().filter(of).collect();
        found.sort_by_key(|d| d.dataset.birth);
        found
    }

    /// The birth of the snapshot that a volume began as.
    pub(super) fn floor(&self, volume: &SeenDataset) -> Birth {
        let origin = volume.dataset.origin.and_then(|id| self.datasets.get(&id));
        origin.map_or(Birth(0), |o| o.dataset.birth)
    }
}
