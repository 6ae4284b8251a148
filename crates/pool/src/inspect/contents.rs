//! Contents of the pool's own tree: datasets, roots, deadlists and space bitmaps of a checkpoint.
//!
//! **Owns** their reading. **Called by** the offline reader, before everything below. **Invariants**: a malformed entry is
//! reported and skipped; the result records whether a part of the tree could not be read.

use std::collections::{BTreeMap, BTreeSet};

use super::disks::{Image, InspectError};
use super::found::{Finding, FindingKind, Findings};
use super::moved::SeenCopies;
use super::part::Part;
use super::relocated::SeenRelocations;
use super::space::Sectors;
use super::summaries::Summaries;
use crate::format::{
    Birth, BlockPtr, CopiedRun, DEAD_TREE, Dataset, DatasetKind, DatasetRoot, Defect,
    FIRST_DATASET, Freeing, HOLDS_MAX, Hold, KIND_COPY, KIND_DATASET, KIND_FREEING, KIND_HOLD,
    KIND_LIST, KIND_NEXT_DATASET, KIND_PROPERTY, KIND_RELOCATION, KIND_REMOVAL, KIND_RESILVER,
    KIND_ROOT, KIND_SETTINGS, KIND_SPACE, KIND_SPARE, KIND_SUMMARIZED, KIND_SUMMARY,
    KIND_SUMMARY_ROWS, Key, ListId, PoolProperty, Relocation, RemovalEntry, ResilverPosition,
    Settings, SpareEntry, SpareGuid, TreeId, Uberblock, Value, decode_on,
};
use crate::tree::{Visit, Walk, WalkStep};

/// Name of the pool's own tree in findings.
pub(super) const POOL: &str = "the pool's own tree";

/// A dataset of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenDataset {
    /// Its identifier.
    pub id: TreeId,
    /// Its name: `vm1`, or `vm1@monday`.
    pub name: String,
    /// Its properties.
    pub dataset: Dataset,
    /// The root of its tree.
    pub root: DatasetRoot,
    /// Its holds.
    pub holds: Vec<Hold>,
}

/// A checkpoint.
pub struct Contents {
    /// Its uberblock.
    pub uberblock: Uberblock,
    /// Datasets by identifier.
    pub datasets: BTreeMap<TreeId, SeenDataset>,
    /// Root of the deadlists' tree.
    pub dead: Option<BlockPtr>,
    /// Recorded bytes on each deadlist.
    pub list_sizes: BTreeMap<ListId, u64>,
    /// Pending destroys, by number.
    pub freeing: BTreeMap<u64, Freeing>,
    /// Identifier of the next dataset.
    pub next_dataset: u64,
    /// Pool properties that are on.
    pub properties: BTreeSet<PoolProperty>,
    /// The settings that datasets inherit from the pool.
    pub settings: Settings,
    /// Hot spares.
    pub spares: BTreeMap<SpareGuid, SpareEntry>,
    /// Nodes of the pool's own tree.
    pub nodes: Vec<BlockPtr>,
    pub(super) saved: Sectors,
    pub(super) summaries: Summaries,
    pub(super) whole: bool,
}

#[derive(Default)]
struct Entries {
    datasets: BTreeMap<TreeId, Dataset>,
    roots: BTreeMap<TreeId, DatasetRoot>,
    holds: BTreeMap<TreeId, Vec<Hold>>,
    list_sizes: BTreeMap<ListId, u64>,
    freeing: BTreeMap<u64, Freeing>,
    next: u64,
    properties: BTreeSet<PoolProperty>,
    settings: Settings,
    spares: BTreeMap<SpareGuid, SpareEntry>,
    saved: Sectors,
    summaries: Summaries,
    copies: SeenCopies,
    relocations: SeenRelocations,
}

fn number(bytes: &[u8]) -> Result<u64, Defect> {
    let bytes = bytes.try_into().map_err(|_| Defect::Length {
        what: "number in the pool's own tree",
        got: bytes.len(),
        want: 8,
    })?;
    Ok(u64::from_le_bytes(bytes))
}

impl Entries {
    fn take(&mut self, image: &Image, key: Key, value: &Value) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let object = key.object().0;
        let id = TreeId(object);
        let Value::Inline(bytes) = value else {
            return field("pointer in the pool's own tree", 0);
        };
        let offsets = match key.kind() {
            KIND_SPACE | KIND_SUMMARY | KIND_COPY | KIND_RELOCATION => Key::OFFSET_END,
            KIND_HOLD => HOLDS_MAX,
            KIND_PROPERTY => Key::OFFSET_END,
            _ => 1,
        };
        if key.offset() >= offsets {
            return field("offset of a key of the pool's own tree", key.offset());
        }
        match key.kind() {
            KIND_SPACE => self.saved.load(image, key, bytes)?,
            KIND_SUMMARY => self.summaries.load(image, key, bytes)?,
            KIND_SUMMARY_ROWS => self.summaries.load_rows(key, bytes)?,
            KIND_COPY => {
                let vdevs = image.vdevs.iter();
                let sectors: Vec<u32> = vdevs.map(|vdev| vdev.entry.sector()).collect();
                self.copies.add(CopiedRun::decode(key, bytes)?, &sectors)?;
            }
            KIND_RELOCATION => {
                let relocation = Relocation::decode(key, bytes)?;
                self.relocations.add(relocation, image.vdevs.len())?;
            }
            KIND_REMOVAL => drop(RemovalEntry::decode(bytes)?),
            KIND_SUMMARIZED if object == 0 => {
                decode_on(bytes)?;
                self.summaries.are_kept = true;
            }
            KIND_DATASET if object >= FIRST_DATASET => {
                self.datasets.insert(id, Dataset::decode(bytes)?);
            }
            KIND_ROOT if object >= FIRST_DATASET || id == DEAD_TREE => {
                self.roots.insert(id, DatasetRoot::decode(bytes)?);
            }
            KIND_NEXT_DATASET if object == 0 => self.next = number(bytes)?,
            KIND_FREEING if object > 0 => {
                self.freeing.insert(object, Freeing::decode(bytes)?);
            }
            KIND_LIST if object > 0 => match number(bytes)? {
                0 => return field("bytes of a list without any", object),
                size => drop(self.list_sizes.insert(ListId(object), size)),
            },
            KIND_HOLD => self.holds.entry(id).or_default().push(Hold::decode(bytes)?),
            KIND_SETTINGS if object == 0 => self.settings = Settings::decode(bytes)?,
            KIND_PROPERTY => {
                decode_on(bytes)?;
                self.properties.insert(PoolProperty::of_key(key)?);
            }
            KIND_RESILVER => drop(ResilverPosition::decode(bytes)?),
            KIND_SPARE if object > 0 => {
                self.spares
                    .insert(SpareGuid(object), SpareEntry::decode(bytes)?);
            }
            other => return field("kind of an entry of the pool's tree", other.0.into()),
        }
        Ok(())
    }
}

impl Image {
    /// Reads the pool's own tree.
    ///
    /// # Errors
    /// [`InspectError::NoTree`] if its root cannot be read.
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
                    let node = self.node(&need.ptr, POOL, Part::default(), findings).await;
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
                            KIND_SPACE | KIND_SUMMARY | KIND_SUMMARIZED | KIND_SUMMARY_ROWS
                            | KIND_COPY | KIND_RELOCATION => FindingKind::Space,
                            _ => FindingKind::Dataset,
                        };
                        let text = format!("entry {key:?} of {POOL}: {defect}");
                        findings.add(Finding::new(kind, text));
                    }
                }
                WalkStep::Visit(Visit::Lost(..)) => whole = false,
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => break,
            }
        }
        if !whole && nodes.is_empty() {
            return Err(InspectError::NoTree);
        }
        self.copies.replace(std::mem::take(&mut entries.copies));
        self.relocations
            .replace(std::mem::take(&mut entries.relocations));
        Ok(entries.into_contents(uberblock, nodes, whole, findings))
    }
}

impl Entries {
    fn into_contents(
        mut self,
        uberblock: Uberblock,
        nodes: Vec<BlockPtr>,
        whole: bool,
        findings: &mut Findings,
    ) -> Contents {
        let dead = self.roots.remove(&DEAD_TREE).and_then(|r| r.root);
        if whole {
            for text in self.contradictions() {
                findings.add(Finding::new(FindingKind::Dataset, text));
            }
        }
        let mut datasets = BTreeMap::new();
        for (id, dataset) in &self.datasets {
            let of = dataset.of.and_then(|of| self.datasets.get(&of));
            let name = match of {
                Some(volume) => format!("{}@{}", volume.name, dataset.name),
                None => dataset.name.clone(),
            };
            let seen = SeenDataset {
                id: *id,
                name,
                dataset: dataset.clone(),
                root: self
                    .roots
                    .get(id)
                    .copied()
                    .unwrap_or_else(DatasetRoot::empty),
                holds: self.holds.remove(id).unwrap_or_default(),
            };
            datasets.insert(*id, seen);
        }
        Contents {
            uberblock,
            datasets,
            dead,
            list_sizes: self.list_sizes,
            freeing: self.freeing,
            next_dataset: self.next,
            properties: self.properties,
            settings: self.settings,
            spares: self.spares,
            nodes,
            saved: self.saved,
            summaries: self.summaries,
            whole,
        }
    }

    /// Returns contradictions between entries.
    fn contradictions(&self) -> Vec<String> {
        let mut told = Vec::new();
        for id in self.roots.keys() {
            if !self.datasets.contains_key(id) {
                told.push(format!("root of dataset {}, which does not exist", id.0));
            }
        }
        for id in self.holds.keys() {
            let held = self.datasets.get(id).map(|d| d.kind);
            if !held.is_some_and(DatasetKind::is_snapshot) {
                told.push(format!(
                    "dataset {}: a hold, although it is not a snapshot",
                    id.0
                ));
            }
        }
        for (id, dataset) in &self.datasets {
            if self.next <= id.0 {
                told.push(format!(
                    "dataset {}: its identifier is not below that of the next dataset",
                    id.0
                ));
            }
            told.extend(
                self.kin(dataset)
                    .map(|text| format!("dataset {}: {text}", id.0)),
            );
        }
        self.lists(&mut told);
        told
    }

    /// Returns what is wrong with the datasets that `dataset` refers to.
    fn kin(&self, dataset: &Dataset) -> Option<String> {
        let kind = |id: TreeId| self.datasets.get(&id).map(|d| d.kind);
        let of = dataset
            .of
            .filter(|of| kind(*of).is_none_or(DatasetKind::is_snapshot));
        if let Some(of) = of {
            return Some(format!(
                "a snapshot of dataset {}, which is not a volume",
                of.0
            ));
        }
        let is_snapshot = dataset.kind.is_snapshot();
        let volume = dataset.of.and_then(|of| self.datasets.get(&of));
        let clone = if is_snapshot { volume } else { Some(dataset) };
        let origin = clone.and_then(|clone| clone.origin)?;
        match self.datasets.get(&origin) {
            Some(origin) if is_snapshot && dataset.birth <= origin.birth => {
                Some("not younger than the origin of its volume".to_owned())
            }
            Some(origin) if origin.kind.is_snapshot() => None,
            _ if is_snapshot => None,
            _ => Some(format!(
                "a clone of dataset {}, which is not a snapshot",
                origin.0
            )),
        }
    }

    /// Checks that every list belongs to one dataset or one pending destroy.
    fn lists(&self, told: &mut Vec<String>) {
        let mut lists = BTreeSet::new();
        let mut freed = BTreeSet::new();
        let jobs = self.freeing.values();
        let jobs = jobs.filter_map(|job| match job {
            Freeing::List { list, prev } => Some((*list, prev.list)),
            Freeing::Tree { .. } => None,
        });
        for list in self.datasets.values().map(|d| d.list) {
            if !lists.insert(list) {
                told.push(format!("deadlist {} belongs to two datasets", list.0));
            }
        }
        for (list, to) in jobs {
            if lists.contains(&list) || !freed.insert(list) {
                told.push(format!(
                    "deadlist {} is in use and belongs to a pending destroy",
                    list.0
                ));
            }
            if let Some(to) = to.filter(|to| !lists.contains(to)) {
                told.push(format!(
                    "deadlist {} is handed over to deadlist {}, which belongs to no dataset",
                    list.0, to.0
                ));
            }
        }
        for list in self.list_sizes.keys() {
            if !lists.contains(list) && !freed.contains(list) {
                told.push(format!("deadlist {} belongs to no dataset", list.0));
            }
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

    /// The snapshot that a volume was cloned from; `None` if it is no clone.
    pub(super) fn origin(&self, volume: &SeenDataset) -> Option<&SeenDataset> {
        self.datasets.get(&volume.dataset.origin?)
    }

    /// All volumes, each after the volume of its origin.
    #[must_use]
    pub fn volumes(&self) -> Vec<&SeenDataset> {
        let mut order = Vec::new();
        let mut met = BTreeSet::new();
        let volumes = self.datasets.values();
        for volume in volumes.filter(|d| !d.dataset.kind.is_snapshot()) {
            let mut path = Vec::new();
            let mut next = Some(volume);
            while let Some(volume) = next.filter(|volume| met.insert(volume.id)) {
                path.push(volume);
                let of = self.origin(volume).and_then(|origin| origin.dataset.of);
                next = of.and_then(|of| self.datasets.get(&of));
            }
            order.extend(path.into_iter().rev());
        }
        order
    }
}
