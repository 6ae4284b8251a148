//! Directory: the contents of the pool's own tree, as an opening reads them.
//!
//! **Owns** the reads of that tree, and the datasets before and during replay. **Called by** the opening of a pool, and by trials
//! of an opening. **Invariants**: nothing is written; each root belongs to a dataset.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::dataset;
use crate::format::{
    BlockPtr, CopiedRun, Dataset, DatasetRoot, Defect, Freeing, KIND_COPY, KIND_DATASET,
    KIND_FREEING, KIND_LIST, KIND_RELOCATION, KIND_ROOT, KIND_SPACE, KIND_SUMMARIZED, KIND_SUMMARY,
    KIND_SUMMARY_ROWS, Key, Kind, ListId, Node, PAGE_REGIONS, RegionBits, Relocation, RemovalStep,
    SummaryRows, TreeId, Uberblock, Value, VdevId, decode_on, summarized_key,
};
use crate::owner::capacity::maps::Pages;
use crate::owner::pool_tree::{PoolTree, number};
use crate::shared::all;
use crate::space::{Space, VdevSpace};
use crate::tree::{Lookup, LookupStep, Need};
use crate::vdev::{VdevInfo, Vdevs};
use crate::{Error, Result};

/// Nodes that are read at once.
const READS_MAX: usize = 64;

/// The contents of the pool's own tree.
#[derive(Default)]
pub(super) struct Directory {
    datasets: BTreeMap<TreeId, Dataset>,
    pub(in crate::owner) roots: BTreeMap<TreeId, DatasetRoot>,
    pub(in crate::owner) freeing: BTreeMap<u64, Freeing>,
    pub(in crate::owner) pool_tree: PoolTree,
    pub(in crate::owner) lists: BTreeMap<ListId, u64>,
    /// The pages of summaries, if the tree has none.
    pub(in crate::owner) pages: Option<Pages>,
    /// The rows that summaries count, by vdev that was expanded.
    summary_rows: BTreeMap<VdevId, SummaryRows>,
    /// Copies of blocks of vdevs that are being removed, or were removed.
    copies: Vec<CopiedRun>,
    /// The places of blocks that were moved while their pointers stay as they are.
    relocations: Vec<Relocation>,
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

/// Whether all keys of a leaf are those of space bitmaps.
fn has_only_bitmaps(keys: &Range<Key>) -> bool {
    let object = keys.start.object();
    let behind = Key::new(object, Kind(KIND_SPACE.0 + 1), 0);
    keys.start.kind() == KIND_SPACE && keys.end <= behind
}

/// Whether the tree has summaries of all bitmaps.
async fn is_summarized(
    load: &impl AsyncFn(&Need) -> Result<Arc<Node>>,
    root: Option<BlockPtr>,
) -> Result<bool> {
    let mut lookup = Lookup::new(&[], root, summarized_key());
    loop {
        match lookup.step() {
            LookupStep::Need(need) => lookup.supply(&load(&need).await?)?,
            LookupStep::Done(value) => return Ok(value.is_some()),
        }
    }
}

/// Reads the pool's own tree, level by level. Marks the used space in `space`. Leaves of bitmaps are not read if there are summaries
/// of these; pointers to the leaves tell the space that the leaves take.
pub(super) async fn read_tree(
    load: impl AsyncFn(&Need) -> Result<Arc<Node>>,
    uberblock: &Uberblock,
    space: &mut Space,
) -> Result<Directory> {
    let root = uberblock.root;
    let is_summarized = is_summarized(&load, root).await?;
    let mut directory = Directory {
        pages: (!is_summarized).then(Pages::new),
        ..Directory::default()
    };
    let mut nodes = Vec::new();
    let mut level: Vec<Need> = root.map(Need::root).into_iter().collect();
    while !level.is_empty() {
        let mut below = Vec::new();
        for part in level.chunks(READS_MAX) {
            let loaded = all(part.iter().map(async |need| load(need).await)).await;
            for (need, node) in part.iter().zip(loaded) {
                let node = node?;
                need.check(&node)?;
                nodes.push(need.ptr);
                if node.lost().is_some() {
                    return Err(corrupt(root, Defect::Lost));
                }
                if node.is_leaf() {
                    directory.take_leaf(&node, root, space)?;
                    continue;
                }
                for index in 0..node.count() {
                    let child = Need::child(&node, index, need.keys().end);
                    match is_summarized && node.level() == 1 && has_only_bitmaps(&child.keys()) {
                        true => nodes.push(child.ptr),
                        false => below.push(child),
                    }
                }
            }
        }
        level = below;
    }
    for ptr in nodes {
        let marked = space.mark_pool_node(ptr.address(), ptr.physical_size);
        marked.map_err(|defect| corrupt(Some(ptr), defect))?;
    }
    Ok(directory)
}

impl Directory {
    /// Tells the vdevs of the copies and the relocations of blocks.
    ///
    /// # Errors
    /// [`Error::BeforeRemoval`] if the checkpoint is from before the removal of a vdev; [`Error::Invalid`] if copies overlap, or a relocation
    /// is to a vdev that does not exist.
    pub(super) fn tell_copies(&mut self, vdevs: &Vdevs) -> Result<()> {
        let had_blocks = |info: &&VdevInfo| info.is_removed && !vdevs.is_log(info.id);
        for info in vdevs.table().iter().filter(had_blocks) {
            let entry = self.pool_tree.removals().get(&info.id);
            if entry.is_none_or(|entry| entry.step != RemovalStep::Copied) {
                return Err(Error::BeforeRemoval { vdev: info.id });
            }
        }
        vdevs.know_relocations(&std::mem::take(&mut self.relocations))?;
        vdevs.know_copies(&std::mem::take(&mut self.copies))
    }

    fn take_leaf(&mut self, leaf: &Node, root: Option<BlockPtr>, space: &mut Space) -> Result<()> {
        for index in 0..leaf.count() {
            let Value::Inline(bytes) = leaf.value(index).to_value() else {
                return Err(corrupt(root, Defect::Checksum));
            };
            let taken = self.take(leaf.key(index), &bytes, space);
            taken.map_err(|defect| corrupt(root, defect))?;
        }
        Ok(())
    }

    /// Takes summaries as unknown that count other rows than there are. Returns their regions. A pool without saved summaries has
    /// none to doubt: they were made from bitmaps.
    pub(in crate::owner) fn doubt_summaries(
        &self,
        table: &[VdevSpace],
        space: &mut Space,
    ) -> Vec<(VdevId, u32)> {
        let are_saved = self.pages.is_none();
        let vdevs = table.iter().filter(|vdev| are_saved && vdev.row > 1);
        let doubted = vdevs.flat_map(|vdev| {
            let saved = self.summary_rows.get(&vdev.vdev).copied();
            let regions = space.doubt_summaries(vdev.vdev, saved);
            regions.into_iter().map(|region| (vdev.vdev, region))
        });
        doubted.collect()
    }

    fn take_bitmap(
        &mut self,
        key: Key,
        bytes: &[u8],
        space: &mut Space,
    ) -> std::result::Result<(), Defect> {
        let Some(pages) = &mut self.pages else {
            RegionBits::decode(bytes)?;
            return Ok(());
        };
        let summary = space.know_bitmap(key, bytes)?;
        let (vdev, region) = (VdevId(key.object().0 as u16), key.offset() as u32);
        let page = pages.entry((vdev, region / PAGE_REGIONS)).or_default();
        page.0[(region % PAGE_REGIONS) as usize] = summary;
        Ok(())
    }

    fn take(
        &mut self,
        key: Key,
        bytes: &[u8],
        space: &mut Space,
    ) -> std::result::Result<(), Defect> {
        let id = TreeId(key.object().0);
        match key.kind() {
            KIND_SPACE => self.take_bitmap(key, bytes, space)?,
            KIND_SUMMARY => space.know_page(key, bytes)?,
            KIND_SUMMARIZED => decode_on(bytes)?,
            KIND_SUMMARY_ROWS => {
                let vdev = VdevId(key.object().0 as u16);
                self.summary_rows.insert(vdev, SummaryRows::decode(bytes)?);
            }
            KIND_COPY => self.copies.push(CopiedRun::decode(key, bytes)?),
            KIND_RELOCATION => self.relocations.push(Relocation::decode(key, bytes)?),
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
        // an empty dataset from before sizes were counted counts from now on
        let found = found.filter(|root| *root != DatasetRoot::default());
        let root = found.unwrap_or_else(DatasetRoot::empty);
        let state = dataset::State::new(dataset, root);
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
