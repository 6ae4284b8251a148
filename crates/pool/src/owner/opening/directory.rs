//! Directory: the contents of the pool's own tree, as an opening reads them.
//!
//! **Owns** the reads of that tree, and the datasets before and during replay. **Called by** the opening of a pool, and by trials
//! of an opening. **Invariants**: nothing is written; each root belongs to a dataset.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dataset;
use crate::format::{
    Birth, BlockPtr, Dataset, DatasetRoot, Defect, Freeing, KIND_DATASET, KIND_FREEING, KIND_LIST,
    KIND_ROOT, KIND_SPACE, Key, ListId, Node, TreeId, Uberblock, Value,
};
use crate::owner::pool_tree::{PoolTree, number};
use crate::space::Space;
use crate::tree::{Need, Visit, Walk, WalkStep};
use crate::{Error, Result};

/// The contents of the pool's own tree.
#[derive(Default)]
pub(super) struct Directory {
    datasets: BTreeMap<TreeId, Dataset>,
    pub(in crate::owner) roots: BTreeMap<TreeId, DatasetRoot>,
    pub(in crate::owner) freeing: BTreeMap<u64, Freeing>,
    pub(in crate::owner) pool_tree: PoolTree,
    pub(in crate::owner) lists: BTreeMap<ListId, u64>,
}

/// A dataset during replay.
pub(super) struct Open {
    pub(in crate::owner) state: dataset::State,
}

/// The datasets during replay.
pub(super) type OpenDatasets = BTreeMap<TreeId, Open>;

/// The error for an invalid entry of the tree with this root.
pub(super) fn corrupt(root: Option<BlockPtr>, defect: Defect) -> Error {
    let at = root.map(|ptr| ptr.address());
    Error::Corrupt {
        at: at.expect("what was read has an address"),
        defect,
    }
}

/// Reads the pool's own tree. Marks the used space in `space`.
pub(super) async fn read_tree(
    load: impl AsyncFn(&Need) -> Result<Arc<Node>>,
    uberblock: &Uberblock,
    space: &mut Space,
) -> Result<Directory> {
    let mut directory = Directory::default();
    let mut nodes = Vec::new();
    let mut walk = Walk::new(uberblock.root, Birth(0), Key::START);
    loop {
        match walk.step() {
            WalkStep::Need(need) => walk.supply(load(&need).await?)?,
            WalkStep::Visit(Visit::Node(ptr)) => nodes.push(ptr),
            WalkStep::Visit(Visit::Entry(key, value)) => {
                let Value::Inline(bytes) = value else {
                    return Err(corrupt(uberblock.root, Defect::Checksum));
                };
                let read = directory.take(key, &bytes, space);
                read.map_err(|defect| corrupt(uberblock.root, defect))?;
            }
            WalkStep::Visit(Visit::Lost(..)) => return Err(corrupt(uberblock.root, Defect::Lost)),
            WalkStep::Visit(Visit::Older(_)) => {}
            WalkStep::Done => break,
        }
    }
    for ptr in nodes {
        let marked = space.mark_pool_node(ptr.address(), ptr.physical_size);
        marked.map_err(|defect| corrupt(Some(ptr), defect))?;
    }
    Ok(directory)
}

impl Directory {
    fn take(
        &mut self,
        key: Key,
        bytes: &[u8],
        space: &mut Space,
    ) -> std::result::Result<(), Defect> {
        let id = TreeId(key.object().0);
        match key.kind() {
            KIND_SPACE => space.load(key, bytes)?,
            KIND_DATASET => drop(self.datasets.insert(id, Dataset::decode(bytes)?)),
            KIND_ROOT => drop(self.roots.insert(id, DatasetRoot::decode(bytes)?)),
            KIND_FREEING => drop(self.freeing.insert(id.0, Freeing::decode(bytes)?)),
            KIND_LIST => drop(self.lists.insert(ListId(id.0), number(bytes)?)),
            _ if self.pool_tree.load(key, Some(bytes))? => {}
            other => {
                return Err(Defect::Field {
                    field: "kind of an entry of the pool's tree",
                    value: other.0.into(),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn open_datasets(
    mut directory: Directory,
    root: Option<BlockPtr>,
) -> Result<OpenDatasets> {
    let mut opened = BTreeMap::new();
    for (id, dataset) in directory.datasets {
        let found = directory.roots.remove(&id);
        let state = dataset::State::new(dataset, found.unwrap_or_default());
        opened.insert(id, Open { state });
    }
    if let Some((id, _)) = directory.roots.first_key_value() {
        return Err(corrupt(
            root,
            Defect::Field {
                field: "root of a dataset that is not there",
                value: id.0,
            },
        ));
    }
    Ok(opened)
}
