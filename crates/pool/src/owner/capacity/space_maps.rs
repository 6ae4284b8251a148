//! Space bitmaps in memory: regions that are loaded when they are used, and saved by checkpoints.
//!
//! **Owns** the reads of bitmaps, the stock of loaded regions ahead of the writers, and the entries that a checkpoint puts for
//! bitmaps and their summaries. **Called by** write-back, checkpoints, trim and verification. **Invariants**: a region is read
//! by one task at a time, from the newest tree that has its bitmap; a region is written in one step with its summary.
//! `docs/decisions/0162`.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::format::{
    Key, PAGE_REGIONS, RegionBits, RegionSummary, SummaryPage, Value, VdevId, relocation_key,
    space_key, summarized_key, summary_key, summary_rows_key,
};
use crate::owner::checkpoint::checkpoint_snapshot::CheckpointSnapshot;
use crate::owner::{Owner, POLL, POOL_TREE, State};
use crate::shared::all;
use crate::space::{BlockKind, SavedRegion, Sealed, Space};
use crate::tree::{Freed, Layer, Lookup, LookupStep, Root};
use crate::{Error, Result};

/// Bitmaps that are read at once.
const READS_MAX: usize = 32;

fn put(layer: &mut Layer, key: Key, value: Option<&[u8]>) {
    match value {
        Some(value) => drop(layer.put(key, Value::Inline(value.into()))),
        None => drop(layer.delete(key)),
    }
}

/// Regions that stay loaded until this is dropped.
pub(in crate::owner) struct LoadedRegions {
    owner: Rc<Owner>,
    pinned: Vec<(VdevId, u32)>,
}

impl LoadedRegions {
    /// Takes the loaded regions of `left`. Returns the regions that the caller has to load.
    fn pin(&mut self, space: &mut Space, left: &mut Vec<(VdevId, u32)>) -> Vec<(VdevId, u32)> {
        left.retain(|(vdev, region)| {
            let is_pinned = space.pin(*vdev, *region);
            if is_pinned {
                self.pinned.push((*vdev, *region));
            }
            !is_pinned
        });
        // regions that were loaded in the last round are pinned before others are evicted
        space.make_room(left.len());
        let ours = left.iter().filter(|(v, r)| space.begin_load(*v, *r));
        ours.copied().collect()
    }
}

impl Drop for LoadedRegions {
    fn drop(&mut self) {
        let mut state = self.owner.state.borrow_mut();
        for (vdev, region) in &self.pinned {
            state.allocator.space_mut().unpin(*vdev, *region);
        }
    }
}

impl State {
    /// Regions to load ahead of the writers, unless a task loads some.
    fn begin_stocking(&mut self) -> Vec<(VdevId, u32)> {
        let maps = self.allocator.maps();
        if maps.is_stocking || maps.is_closed {
            return Vec::new();
        }
        let wanted = self.allocator.space_mut().wanted();
        self.allocator.maps_mut().is_stocking = !wanted.is_empty();
        wanted
    }
}

impl Owner {
    /// The value of a key of the pool's own tree.
    async fn entry(&self, root: Root, key: Key) -> Result<Option<Box<[u8]>>> {
        let mut lookup = Lookup::new(&[], root, key);
        loop {
            match lookup.step() {
                LookupStep::Need(need) => {
                    lookup.supply(&self.shared.node(POOL_TREE, &need).await?)?;
                }
                LookupStep::Done(Some(Value::Inline(bytes))) => return Ok(Some(bytes)),
                LookupStep::Done(Some(Value::Block(_))) => return Err(Error::Unknown),
                LookupStep::Done(None) => return Ok(None),
            }
        }
    }

    /// Reads a region's bitmap and loads the region.
    async fn load_region(&self, root: Root, (vdev, region): (VdevId, u32)) -> Result<()> {
        let read = self.entry(root, space_key(vdev, region)).await;
        let decode = |bytes: Option<Box<[u8]>>| bytes.map(|b| RegionBits::decode(&b)).transpose();
        let read = read.and_then(|bytes| decode(bytes).map_err(Error::Invalid));
        let mut state = self.state.borrow_mut();
        let allocator = &mut state.allocator;
        let loaded = match read {
            Ok(bits) => {
                let loaded = allocator.space_mut().load(vdev, region, bits);
                loaded.map_err(Error::Invalid)
            }
            Err(error) => {
                allocator.space_mut().fail_load(vdev, region);
                Err(error)
            }
        };
        match loaded {
            Ok(0) => Ok(()),
            Ok(sectors) => {
                tracing::error!(
                    vdev = vdev.0,
                    region,
                    sectors,
                    "freed sectors were not used"
                );
                allocator.found_leaks(sectors);
                Ok(())
            }
            Err(error) => {
                tracing::error!(vdev = vdev.0, region, %error, "a space bitmap cannot be used");
                Err(error)
            }
        }
    }

    /// Loads regions. They stay loaded until the result is dropped.
    ///
    /// # Errors
    /// Why a bitmap cannot be read.
    pub(in crate::owner) async fn load_regions(
        self: &Rc<Self>,
        regions: &[(VdevId, u32)],
    ) -> Result<LoadedRegions> {
        let load = self.clone().load_all(regions.to_vec());
        // loads run to their end even if the caller is dropped: others may wait for the same regions
        io::spawn(load).await.ok_or(Error::Device)?
    }

    async fn load_all(self: Rc<Self>, mut left: Vec<(VdevId, u32)>) -> Result<LoadedRegions> {
        // nodes of the tree are not reused while they are read
        let _reader = self.shared.readers.enter();
        let mut loaded = LoadedRegions {
            owner: self.clone(),
            pinned: Vec::new(),
        };
        loop {
            let (root, ours) = {
                let mut state = self.state.borrow_mut();
                let root = state.allocator.maps().root;
                let space = state.allocator.space_mut();
                (root, loaded.pin(space, &mut left))
            };
            if left.is_empty() {
                self.shared.bell.ring();
                return Ok(loaded);
            }
            let mut result = Ok(());
            for part in ours.chunks(READS_MAX) {
                let loads = part.iter().map(|region| self.load_region(root, *region));
                result = all(loads).await.into_iter().fold(result, Result::and);
            }
            result?;
            if ours.is_empty() {
                io::time::sleep(POLL).await;
            }
        }
    }

    /// Loads regions ahead of the writers in the background, if there are too few, and wakes the owner.
    pub(in crate::owner) fn stock_regions(self: &Rc<Self>) {
        if self.shared.has_failed() || self.shared.vdevs.is_read_only() {
            return;
        }
        let wanted = self.state.borrow_mut().begin_stocking();
        if wanted.is_empty() {
            return;
        }
        let this = self.clone();
        drop(io::spawn(async move {
            // a bitmap that cannot be read is reported, and its region is not used
            let _reported = this.load_regions(&wanted).await.err();
            this.state.borrow_mut().allocator.maps_mut().is_stocking = false;
            this.shared.bell.ring();
        }));
    }

    /// Ends the loading ahead of the writers, before the pool is closed.
    pub(in crate::owner) async fn end_stocking(&self) {
        self.state.borrow_mut().allocator.maps_mut().is_closed = true;
        while self.state.borrow().allocator.maps().is_stocking {
            io::time::sleep(POLL).await;
        }
    }

    /// Loads regions in which an allocation may succeed that found no run in loaded ones.
    pub(in crate::owner) async fn load_more(self: &Rc<Self>) {
        let wanted = self.state.borrow_mut().allocator.space_mut().wanted();
        match wanted.is_empty() {
            // another task may be loading some
            true => io::time::sleep(POLL).await,
            false => drop(self.load_regions(&wanted).await),
        }
    }

    /// Puts the entries of regions that a checkpoint saves, and those of their pages, into a layer. The regions are loaded.
    async fn put_regions(
        self: &Rc<Self>,
        regions: &[(VdevId, u32)],
        layer: &mut Layer,
    ) -> Result<()> {
        let _loaded = self.load_regions(regions).await?;
        let saved: Vec<SavedRegion> = {
            let mut state = self.state.borrow_mut();
            let space = state.allocator.space_mut();
            let saved = regions
                .iter()
                .map(|(vdev, region)| space.save(*vdev, *region));
            saved.collect()
        };
        let mut pages: BTreeMap<(VdevId, u32), Vec<(usize, RegionSummary)>> = BTreeMap::new();
        for SavedRegion {
            vdev,
            region,
            bits,
            summary,
        } in &saved
        {
            let bits = bits.as_ref().map(RegionBits::encode);
            put(
                layer,
                space_key(*vdev, *region),
                bits.as_ref().map(|b| &b[..]),
            );
            let page = pages.entry((*vdev, region / PAGE_REGIONS)).or_default();
            page.push(((region % PAGE_REGIONS) as usize, *summary));
        }
        for (place, changes) in pages {
            self.put_summaries(place, changes, layer).await?;
        }
        Ok(())
    }

    /// Changes summaries of a page.
    async fn put_summaries(
        &self,
        place: (VdevId, u32),
        changes: Vec<(usize, RegionSummary)>,
        layer: &mut Layer,
    ) -> Result<()> {
        let root = {
            let mut state = self.state.borrow_mut();
            let maps = state.allocator.maps_mut();
            if let Some(missing) = &mut maps.missing {
                let page = missing.entry(place).or_default();
                changes
                    .iter()
                    .for_each(|(index, summary)| page.0[*index] = *summary);
                return Ok(());
            }
            maps.root
        };
        let key = summary_key(place.0, place.1);
        let bytes = self.entry(root, key).await?;
        let page = bytes.map(|bytes| SummaryPage::decode(&bytes)).transpose();
        let mut page = page.map_err(Error::Invalid)?.unwrap_or_default();
        changes
            .iter()
            .for_each(|(index, summary)| page.0[*index] = *summary);
        put(layer, key, page.encode().as_ref().map(|b| &b[..]));
        Ok(())
    }

    /// Writes the bitmaps of a sealed checkpoint, in parts that fit into the budget. Other changes of the pool's own tree are `own`, written
    /// with the first part, and those of the checkpoint's snapshot, written with the last one. Returns the new root.
    pub(in crate::owner) async fn save_space(
        self: &Rc<Self>,
        checkpoint: &CheckpointSnapshot,
        sealed: &Sealed,
        own: Layer,
    ) -> Result<Root> {
        let mut layer = own;
        loop {
            let (regions, is_last) = {
                let state = self.state.borrow();
                let space = state.allocator.space();
                let most = space.batch();
                let mut regions = space.next_to_save(most + 1);
                let is_last = regions.len() <= most;
                regions.truncate(most);
                (regions, is_last)
            };
            self.put_regions(&regions, &mut layer).await?;
            let mut layers = Vec::new();
            if is_last {
                self.put_unplaced(sealed, &mut layer);
                self.put_missing(&mut layer);
                self.put_summary_rows(&mut layer);
            }
            layers.push(std::mem::take(&mut layer).freeze());
            if is_last {
                layers.push(checkpoint.pool.clone());
            }
            let root = self.merge_maps(checkpoint, sealed, &layers).await?;
            let mut state = self.state.borrow_mut();
            let space = state.allocator.space_mut();
            for (vdev, region) in regions {
                space.saved(vdev, region);
            }
            if is_last {
                space.end_seal();
                return Ok(root);
            }
        }
    }

    /// Deletes the relocations of blocks that the checkpoint frees. The layer is newer than that of the pool's own tree, which may put them.
    fn put_unplaced(&self, sealed: &Sealed, layer: &mut Layer) {
        let state = self.state.borrow();
        for of in state.allocator.unplaced(sealed) {
            drop(layer.delete(relocation_key(*of)));
        }
    }

    /// Puts the pages of summaries that no tree has, and the mark that there are summaries.
    fn put_missing(&self, layer: &mut Layer) {
        let mut state = self.state.borrow_mut();
        let Some(missing) = state.allocator.maps_mut().missing.take() else {
            return;
        };
        for ((vdev, page), summaries) in missing {
            let bytes = summaries.encode();
            put(
                layer,
                summary_key(vdev, page),
                bytes.as_ref().map(|b| &b[..]),
            );
        }
        put(layer, summarized_key(), Some(&[1]));
    }

    /// Puts the rows that the summaries of expanded vdevs count.
    fn put_summary_rows(&self, layer: &mut Layer) {
        let state = self.state.borrow();
        let space = state.allocator.space();
        for info in self.shared.vdevs.table() {
            if let Some(rows) = space.summary_rows(info.id) {
                put(layer, summary_rows_key(info.id), Some(&rows.encode()));
            }
        }
    }

    async fn merge_maps(
        self: &Rc<Self>,
        checkpoint: &CheckpointSnapshot,
        sealed: &Sealed,
        layers: &[Arc<Layer>],
    ) -> Result<Root> {
        let before = self.state.borrow().allocator.maps().root;
        let merge = self.clone().merge(
            POOL_TREE,
            before,
            layers,
            checkpoint.birth,
            BlockKind::PoolTree,
        );
        let (root, freed, new) = merge.await?;
        let mut state = self.state.borrow_mut();
        state.allocator.count_spilled_of_pool(new.spilled);
        for freed in &freed {
            if let Freed::Node(ptr) = freed {
                state.allocator.free_with(sealed, ptr);
            }
        }
        state.allocator.maps_mut().root = root;
        Ok(root)
    }
}
