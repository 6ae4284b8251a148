//! The pool's own tree: its changes since the last checkpoint, and the entries that the owner keeps in memory.
//!
//! **Owns** the tree's layer, the number of the next dataset, the holds of snapshots, the pool's properties and settings,
//! the positions of resilvers, the spares, and the state of removals. **Called by**
//! `State::change`, which has a change in the journal first, by replay, and by checkpoints. **Invariant**: the entries in
//! memory agree with the tree and its layer, because both change here in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::{
    Defect, FIRST_DATASET, Hold, KIND_HOLD, KIND_NEXT_DATASET, KIND_PROPERTY, KIND_REMOVAL,
    KIND_RESILVER, KIND_ROOT, KIND_SETTINGS, KIND_SPARE, Key, MemberGuid, PoolProperty,
    RemovalEntry, ResilverPosition, Settings, SpareEntry, SpareGuid, TreeId, Value, VdevId,
    decode_on, next_dataset_key, removal_key,
};
use crate::tree::Layer;

/// Entries of the pool's own tree with their new values, or none for entries that are deleted.
pub(super) type Changes = Vec<(Key, Option<Box<[u8]>>)>;

/// See the module header.
pub(super) struct PoolTree {
    /// Changes that are in the journal, and that no checkpoint has.
    layer: Layer,
    next_dataset: u64,
    /// By snapshot and index.
    holds: BTreeMap<TreeId, BTreeMap<u64, Hold>>,
    /// The properties that are on.
    properties: BTreeSet<PoolProperty>,
    /// The settings that datasets inherit from the pool.
    settings: Settings,
    /// Positions of interrupted resilvers, by member.
    resilvers: BTreeMap<MemberGuid, ResilverPosition>,
    spares: BTreeMap<SpareGuid, SpareEntry>,
    /// Vdevs that are being removed, or were removed.
    removals: BTreeMap<VdevId, RemovalEntry>,
}

impl Default for PoolTree {
    fn default() -> Self {
        Self {
            layer: Layer::new(),
            next_dataset: FIRST_DATASET,
            holds: BTreeMap::new(),
            properties: BTreeSet::new(),
            settings: Settings::default(),
            resilvers: BTreeMap::new(),
            spares: BTreeMap::new(),
            removals: BTreeMap::new(),
        }
    }
}

/// Decodes a number in the pool's own tree.
pub(super) fn number(bytes: &[u8]) -> Result<u64, Defect> {
    let bytes = bytes.try_into().map_err(|_| Defect::Length {
        what: "number in the pool's tree",
        got: bytes.len(),
        want: 8,
    })?;
    Ok(u64::from_le_bytes(bytes))
}

impl PoolTree {
    /// Takes over an entry that the tree has, or that a change deletes. Returns false for entries of kinds that other parts
    /// of the owner keep.
    pub(super) fn load(&mut self, key: Key, value: Option<&[u8]>) -> Result<bool, Defect> {
        let snapshot = TreeId(key.object().0);
        match (key.kind(), value) {
            (KIND_NEXT_DATASET, Some(bytes)) => {
                self.next_dataset = number(bytes)?.max(FIRST_DATASET);
            }
            (KIND_PROPERTY, Some(bytes)) => {
                decode_on(bytes)?;
                self.properties.insert(PoolProperty::of_key(key)?);
            }
            (KIND_PROPERTY, None) => {
                self.properties.remove(&PoolProperty::of_key(key)?);
            }
            (KIND_SETTINGS, Some(bytes)) => self.settings = Settings::decode(bytes)?,
            (KIND_SETTINGS, None) => self.settings = Settings::default(),
            (KIND_RESILVER, Some(bytes)) => {
                let position = ResilverPosition::decode(bytes)?;
                self.resilvers.insert(MemberGuid(key.object().0), position);
            }
            (KIND_RESILVER, None) => {
                self.resilvers.remove(&MemberGuid(key.object().0));
            }
            (KIND_SPARE, Some(bytes)) => {
                let spare = SpareEntry::decode(bytes)?;
                self.spares.insert(SpareGuid(key.object().0), spare);
            }
            (KIND_SPARE, None) => {
                self.spares.remove(&SpareGuid(key.object().0));
            }
            (KIND_REMOVAL, Some(bytes)) => {
                let removal = RemovalEntry::decode(bytes)?;
                self.removals.insert(VdevId(key.object().0 as u16), removal);
            }
            (KIND_REMOVAL, None) => {
                self.removals.remove(&VdevId(key.object().0 as u16));
            }
            (KIND_HOLD, Some(bytes)) => {
                let holds = self.holds.entry(snapshot).or_default();
                holds.insert(key.offset(), Hold::decode(bytes)?);
            }
            (KIND_HOLD, None) => {
                if let Some(holds) = self.holds.get_mut(&snapshot) {
                    holds.remove(&key.offset());
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Repeats a change from the journal. Returns false, and changes nothing, for entries of kinds that other parts of the
    /// owner keep.
    pub(super) fn replay(&mut self, key: Key, value: Option<&[u8]>) -> Result<bool, Defect> {
        let is_deleted_root = key.kind() == KIND_ROOT && value.is_none();
        let is_kept = is_deleted_root || self.load(key, value)?;
        if is_kept {
            self.put(key, value.map(Box::from));
        }
        Ok(is_kept)
    }

    /// Applies changes that are in the journal.
    pub(super) fn apply(&mut self, changes: Changes) {
        for (key, value) in changes {
            let loaded = self.load(key, value.as_deref());
            loaded.expect("an entry that was just encoded");
            self.put(key, value);
        }
    }

    /// Puts an entry of a kind that another part of the owner keeps, or deletes it.
    pub(super) fn put(&mut self, key: Key, value: Option<Box<[u8]>>) {
        match value {
            Some(value) => drop(self.layer.put(key, Value::Inline(value))),
            None => drop(self.layer.delete(key)),
        }
    }

    /// The changes since the last checkpoint. The checkpoint that begins now merges them.
    pub(super) fn freeze(&mut self) -> Arc<Layer> {
        std::mem::take(&mut self.layer).freeze()
    }

    /// The number of the next dataset.
    pub(super) fn next_dataset(&self) -> u64 {
        self.next_dataset
    }

    /// The number of a new dataset. `changes` gets the entry that keeps it from being given out again once it is applied.
    pub(super) fn claim_id(&self, changes: &mut Changes) -> TreeId {
        let first = self.claim_ids(1, changes).next();
        first.expect("one number for one dataset")
    }

    /// As [`PoolTree::claim_id`], for several datasets at once.
    pub(super) fn claim_ids(
        &self,
        count: usize,
        changes: &mut Changes,
    ) -> impl Iterator<Item = TreeId> + use<> {
        let next = self.next_dataset + count as u64;
        changes.push((next_dataset_key(), Some(next.to_le_bytes().into())));
        (self.next_dataset..next).map(TreeId)
    }

    /// The holds of a snapshot, with their indexes.
    pub(super) fn holds(&self, snapshot: TreeId) -> impl Iterator<Item = (u64, &Hold)> {
        let holds = self.holds.get(&snapshot).into_iter().flatten();
        holds.map(|(index, hold)| (*index, hold))
    }

    /// The positions of interrupted resilvers, by member.
    pub(super) fn resilvers(&self) -> &BTreeMap<MemberGuid, ResilverPosition> {
        &self.resilvers
    }

    /// The vdevs that are being removed, or were removed.
    pub(super) fn removals(&self) -> &BTreeMap<VdevId, RemovalEntry> {
        &self.removals
    }

    /// Notes the state of a removal for the next checkpoint, which also has the copies.
    pub(super) fn note_removal(&mut self, vdev: VdevId, removal: RemovalEntry) {
        self.put(removal_key(vdev), Some(removal.encode()));
        self.removals.insert(vdev, removal);
    }

    /// The pool's spares.
    pub(super) fn spares(&self) -> &BTreeMap<SpareGuid, SpareEntry> {
        &self.spares
    }

    /// The settings that datasets inherit from the pool.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a property of the pool is on.
    pub(super) fn is_on(&self, property: PoolProperty) -> bool {
        self.properties.contains(&property)
    }
}
