//! What a checkpoint does with datasets: new roots, and blocks that go.
//!
//! A volume's layers are merged in the order in which they were frozen, up to each snapshot in turn: what comes out is
//! the snapshot's root, and then the volume's.
//!
//! **Owns** these merges, and who holds which blocks. **Called by** checkpoints. **Invariants**: whoever holds a layer
//! that has been merged, holds from then on the root that came of it instead; a block is given back once nobody holds
//! it, by the rule of [`Floor`].

use std::rc::Rc;
use std::sync::Arc;

use super::checkpoint::{Cut, Held};
use super::dead::{DeadLists, Fate, Floor, list_keys, pointers};
use super::snapshot::DyingSnapshot;
use super::{Dying, Owner, State};
use crate::format::{Birth, BlockPtr, DatasetClass, DatasetRoot, Key, TreeId, Value};
use crate::shared::lock;
use crate::space::Class;
use crate::tree::{Direction, Freed, Layer, Root, Scan, ScanStep, Visit, Walk, WalkStep};
use crate::{Error, Result};

/// Layers of a volume up to a snapshot, or up to now.
struct Segment {
    /// The snapshot, or the volume.
    id: TreeId,
    /// Nothing in it is younger.
    birth: Birth,
    /// Newest first.
    layers: Vec<Arc<Layer>>,
    /// The snapshot before it.
    below: Option<TreeId>,
    floor: Floor,
}

/// What came of a segment.
struct Merged {
    segment: Segment,
    root: DatasetRoot,
}

impl Cut {
    /// The snapshots of a volume that this checkpoint knows, oldest first, also those that were destroyed.
    fn chain(&self, volume: TreeId) -> Vec<(Birth, TreeId)> {
        let dying = self.dying_snapshots.iter().filter(|d| d.of == volume);
        let of = |held: &&Held| held.dataset.of == Some(volume);
        let live = self.datasets.iter().filter(of);
        let live = live.map(|held| (held.dataset.birth, held.id));
        let mut chain: Vec<_> = live.chain(dying.map(|d| (d.birth, d.id))).collect();
        chain.sort_unstable_by_key(|(birth, _)| *birth);
        chain
    }

    /// A volume's layers, cut at its snapshots, oldest first. A segment without layers is there for its root.
    fn segments(&self, volume: &Held) -> Vec<Segment> {
        let (id, origin, frozen) = (volume.id, volume.origin, &volume.frozen);
        let chain = self.chain(id);
        let head = std::iter::once((self.birth, id));
        let mut below = (Birth(0), None);
        let mut segments = Vec::new();
        for (birth, id) in chain.into_iter().chain(head) {
            let within = frozen
                .iter()
                .filter(|f| f.epoch > below.0 && f.epoch <= birth);
            let layers: Vec<_> = within.map(|f| f.layer.clone()).collect();
            // the volume's own root changes with that of its newest snapshot
            let follows = id == volume.id && !segments.is_empty();
            if follows || !layers.is_empty() || self.unsettled.contains(&id) {
                segments.push(Segment {
                    id,
                    birth,
                    layers,
                    below: below.1,
                    floor: Floor {
                        snapshot: below.0.max(origin),
                        origin,
                    },
                });
            }
            below = (birth, Some(id));
        }
        segments
    }
}

impl State {
    /// Puts what came of a volume's layers in their place, for all who hold them.
    fn replace_layers(&mut self, merged: &[Merged]) {
        let replace = |root: &mut Root, layers: &mut dyn FnMut(&Arc<Layer>) -> bool| {
            let held = merged
                .iter()
                .rev()
                .find(|m| m.segment.layers.first().is_some_and(&mut *layers));
            if let Some(held) = held {
                *root = held.root.root;
            }
            held.map(|m| m.root.referenced)
        };
        let gone = |layer: &Arc<Layer>| {
            let mut all = merged.iter().flat_map(|m| &m.segment.layers);
            all.any(|l| Arc::ptr_eq(l, layer))
        };
        for volume in self.volumes.values() {
            let mut state = lock(&volume.0.state);
            let state = &mut *state;
            let frozen = &state.frozen;
            let mut holds = |l: &Arc<Layer>| frozen.iter().any(|f| Arc::ptr_eq(&f.layer, l));
            let referenced = replace(&mut state.root, &mut holds);
            state.referenced = referenced.unwrap_or(state.referenced);
            state.frozen.retain(|f| !gone(&f.layer));
        }
        for dying in &mut self.dying {
            let layers = &dying.layers;
            let mut holds = |l: &Arc<Layer>| layers.iter().any(|d| Arc::ptr_eq(d, l));
            let _referenced = replace(&mut dying.root, &mut holds);
            dying.layers.retain(|l| !gone(l));
        }
        for Merged { segment, root } in merged {
            // one that holds no layers, and has a root of its own from now on
            if let Some(volume) = self.volumes.get(&segment.id)
                && segment.layers.is_empty()
                && volume.dataset().class == DatasetClass::Snapshot
            {
                let mut state = lock(&volume.0.state);
                state.root = root.root;
                state.referenced = root.referenced;
            }
        }
    }
}

impl Owner {
    /// Merges all volumes. Returns the roots that are new.
    pub(super) async fn merge_volumes(
        self: Rc<Self>,
        cut: &Cut,
        dead: &mut DeadLists,
    ) -> Result<Vec<(TreeId, DatasetRoot)>> {
        let mut roots = Vec::new();
        for volume in &cut.datasets {
            if volume.dataset.class == DatasetClass::Snapshot {
                continue;
            }
            let mut merged: Vec<Merged> = Vec::new();
            for segment in cut.segments(volume) {
                let before = merged.last().map_or(volume.root, |m| m.root);
                let merge = self
                    .clone()
                    .merge_segment(volume.id, &segment, before, dead);
                let root = merge.await?;
                roots.push((segment.id, root));
                merged.push(Merged { segment, root });
            }
            self.state.borrow_mut().replace_layers(&merged);
        }
        Ok(roots)
    }

    /// Merges one segment and frees, or lists, what it replaces.
    async fn merge_segment(
        self: Rc<Self>,
        tree: TreeId,
        segment: &Segment,
        before: DatasetRoot,
        dead: &mut DeadLists,
    ) -> Result<DatasetRoot> {
        if segment.layers.is_empty() {
            return Ok(before);
        }
        let points = segment.layers.iter().flat_map(|l| l.points());
        let put: u64 = points
            .filter_map(|(_, delta)| delta.value()?.block().map(|p| u64::from(p.physical_size)))
            .sum();
        let (root, freed) = self
            .clone()
            .merge(
                tree,
                before.root,
                &segment.layers,
                segment.birth,
                Class::Tree,
            )
            .await?;
        let mut gone = Vec::new();
        let mut bytes = 0;
        for freed in freed {
            match freed {
                Freed::Data(ptr) => {
                    bytes += u64::from(ptr.physical_size);
                    gone.push(ptr);
                }
                Freed::Node(ptr) => gone.push(ptr),
                Freed::Subtree(ptr) => {
                    let origin = segment.floor.origin;
                    bytes += self.collect(Some(ptr), origin, &mut gone).await?;
                }
            }
        }
        let mut listed = Vec::new();
        let mut state = self.state.borrow_mut();
        for ptr in gone {
            match segment.floor.fate(ptr.birth) {
                Fate::Free => state.free(&ptr),
                Fate::Listed => listed.push(ptr),
                Fate::Foreign => {}
            }
        }
        if let Some(below) = segment.below {
            dead.add(below, &listed);
        }
        Ok(DatasetRoot {
            root,
            referenced: (before.referenced + put).saturating_sub(bytes),
        })
    }

    /// Everything of a tree that was born after `since`. Returns the bytes of all records met.
    async fn collect(&self, root: Root, since: Birth, found: &mut Vec<BlockPtr>) -> Result<u64> {
        let mut walk = Walk::new(root, since, Key::START);
        let mut bytes = 0;
        loop {
            match walk.step() {
                WalkStep::Need(need) => walk.supply(self.shared.node(&need.ptr).await?)?,
                WalkStep::Visit(Visit::Node(ptr)) => found.push(ptr),
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block() {
                        bytes += u64::from(ptr.physical_size);
                        found.extend((ptr.birth > since).then_some(*ptr));
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(bytes),
            }
        }
    }

    /// Frees everything of a tree that was born after `since`.
    pub(super) async fn free_tree(&self, root: Root, since: Birth) -> Result<()> {
        let mut found = Vec::new();
        self.collect(root, since, &mut found).await?;
        let mut state = self.state.borrow_mut();
        found.iter().for_each(|ptr| state.free(ptr));
        Ok(())
    }

    /// Frees what only a volume that was destroyed or rolled back held.
    pub(super) async fn free_dying(&self, dying: &Dying) -> Result<()> {
        {
            let mut state = self.state.borrow_mut();
            let points = dying.layers.iter().flat_map(|l| l.points());
            for (_, delta) in points {
                let ptr = delta.value().and_then(Value::block);
                if let Some(ptr) = ptr.filter(|ptr| ptr.birth > dying.since) {
                    state.free(ptr);
                }
            }
        }
        self.free_tree(dying.root, dying.since).await
    }

    /// Frees what only a destroyed snapshot held; the rest of its list goes to the one before it.
    pub(super) async fn free_snapshot(
        &self,
        snapshot: DyingSnapshot,
        cut: &Cut,
        dead: &mut DeadLists,
    ) -> Result<()> {
        let chain = cut.chain(snapshot.of);
        let at = chain.iter().position(|(_, id)| *id == snapshot.id);
        let at = at.ok_or(Error::NotFound)?;
        // those that went in this checkpoint before it have given their lists on
        let earlier = cut
            .dying_snapshots
            .iter()
            .take_while(|d| d.id != snapshot.id);
        let gone: Vec<TreeId> = earlier.map(|d| d.id).collect();
        let before = chain[..at].iter().rev().find(|(_, id)| !gone.contains(id));
        let floor = Floor {
            snapshot: before.map_or(snapshot.origin, |(birth, _)| *birth),
            origin: snapshot.origin,
        };
        let list = self.dead_list(cut, dead, snapshot.id).await?;
        let mut kept: Vec<BlockPtr> = Vec::new();
        let mut state = self.state.borrow_mut();
        for (key, ptrs) in list {
            dead.layer.delete(key);
            for ptr in ptrs {
                match floor.fate(ptr.birth) {
                    Fate::Free => state.free(&ptr),
                    Fate::Listed => kept.push(ptr),
                    Fate::Foreign => {}
                }
            }
        }
        if let Some((_, before)) = before {
            dead.add(*before, &kept);
        }
        Ok(())
    }

    /// A snapshot's list as this checkpoint has it so far.
    async fn dead_list(
        &self,
        cut: &Cut,
        dead: &DeadLists,
        id: TreeId,
    ) -> Result<Vec<(Key, Vec<BlockPtr>)>> {
        let mut scan = Scan::new(cut.dead_root(), list_keys(id), Direction::Forward);
        let mut chunks = Vec::new();
        loop {
            match scan.step(&[&dead.layer]) {
                ScanStep::Need(need) => scan.supply(self.shared.node(&need.ptr).await?)?,
                ScanStep::Entry(key, value) => {
                    let at = cut.dead_root().map(|ptr| ptr.address());
                    let ptrs = pointers(&value).map_err(|defect| match at {
                        Some(at) => Error::Corrupt { at, defect },
                        None => Error::Invalid(defect),
                    })?;
                    chunks.push((key, ptrs));
                }
                ScanStep::Done => return Ok(chunks),
            }
        }
    }
}
