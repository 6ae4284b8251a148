//! Verification: reads every block of an open pool, and compares the allocator and the accounts with the trees.
//!
//! **Owns** that comparison. **Called by** simulations and tests. **Invariant**: it changes nothing, but that records of the journal get blocks before; no checkpoint
//! begins meanwhile. The caller keeps clients from writing: concurrent changes may look like errors.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::blocks::{Holds, VisitedBlock, Visitor};
use super::position::Wanted;
use crate::format::{Address, Birth, BlockPtr, Key, ListId, PrevSnapshot, TreeId};
use crate::owner::destroy::deadlists::{DEAD_TREE, Fate, pointers};
use crate::owner::{Owner, POLL, POOL_TREE, Pool};
use crate::shared::DESTROYED;
use crate::tree::{Visit, Walk, WalkStep};
use crate::{Error, Result};
use io::sync::lock;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of blocks: records and nodes.
    pub blocks: u64,
    /// Their bytes, in whole sectors.
    pub bytes: u64,
    /// The problems, a sentence each.
    pub problems: Vec<String>,
}

struct Verifier<'a> {
    owner: &'a Rc<Owner>,
    /// Bytes of each block, by its present address, and the first tree that holds it.
    blocks: BTreeMap<Address, (u32, TreeId)>,
    /// The same for copies of blocks, by the address of the copy.
    copies: BTreeMap<Address, (u32, TreeId)>,
    /// Bytes of blocks that are at two places, since their vdev is being removed.
    copied: u64,
    /// Number of relocated blocks.
    relocated: usize,
    /// Bytes that each tree holds.
    trees: BTreeMap<TreeId, u64>,
    /// Bytes that no volume owns: the pool's own nodes, pending destroys, and blocks to which only layers point.
    other: u64,
    found: Verified,
}

impl Visitor for Verifier<'_> {
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64> {
        let ptr = block.ptr;
        let bytes = self.owner.shared.vdevs.block_space().of(ptr.physical_size);
        if holds != Holds::Layered {
            *self.trees.entry(tree).or_default() += u64::from(bytes);
        }
        // shared blocks are visited once for each tree
        let at = self.owner.shared.vdevs.address_of(ptr);
        match self.blocks.insert(at, (bytes, tree)) {
            None => {
                let relocations = self.owner.shared.vdevs.copies().relocations();
                self.relocated += usize::from(relocations.find(ptr).is_some());
                self.add_copies(ptr, (bytes, tree)).await;
                self.found.blocks += 1;
                self.found.bytes += u64::from(bytes);
                if holds == Holds::Layered || [POOL_TREE, DEAD_TREE, DESTROYED].contains(&tree) {
                    self.other += u64::from(bytes);
                }
            }
            Some((before, _)) if before == bytes => return Ok(u64::from(bytes)),
            Some((before, other)) => {
                let what = format!(
                    "{at} has {before} bytes in tree {} and {bytes} in tree {}",
                    other.0, tree.0
                );
                self.found.problems.push(what);
            }
        }
        if holds != Holds::Node
            && let Err(e) = self.owner.shared.vdevs.read(ptr).await
        {
            self.damaged(tree, e, false);
        }
        Ok(u64::from(bytes))
    }

    fn damaged(&mut self, tree: TreeId, error: Error, _: bool) {
        self.found
            .problems
            .push(format!("tree {}: {error}", tree.0));
    }
}

impl Verifier<'_> {
    /// Notes the places of a block's copies, and reads a copy that is not in use yet.
    async fn add_copies(&mut self, ptr: &BlockPtr, block: (u32, TreeId)) {
        let vdevs = &self.owner.shared.vdevs;
        let mut at = vdevs.address_of(ptr);
        while let Some(copy) = vdevs.copies().place_of(at, block.0.into()) {
            if self.copies.insert(copy, block).is_some() {
                let text = format!("{copy} is the copy of two blocks");
                self.found.problems.push(text);
            }
            at = copy;
        }
        let places = vdevs.places_of(ptr);
        match places.len() {
            0 => self
                .found
                .problems
                .push(format!("{} has no copy", ptr.address())),
            count => self.copied += (count as u64 - 1) * u64::from(block.0),
        }
        for place in places.iter().filter(|place| place.is_copy()) {
            if let Err(e) = vdevs.read_at(place).await {
                let text = format!("the copy {} of {}: {e}", place.at, ptr.address());
                self.found.problems.push(text);
            }
        }
    }

    /// Checks that blocks neither overlap nor lie in free space, and that no other space is used. Loads one region after the other.
    async fn compare_space(&mut self) -> Result<()> {
        let problems = &mut self.found.problems;
        let mut end: Option<Address> = None;
        let mut loaded = None;
        let mut all = self.blocks.clone();
        for (at, block) in &self.copies {
            if all.insert(*at, *block).is_some() {
                problems.push(format!("the copy {at} is a block, too"));
            }
        }
        for (at, (bytes, tree)) in &all {
            if end.is_some_and(|end| end.vdev == at.vdev && end.offset > at.offset) {
                problems.push(format!("{at} of tree {} overlaps another block", tree.0));
            }
            let region = self.owner.state.borrow().allocator.space().region_of(*at);
            if loaded.as_ref().is_none_or(|(of, _)| Some(*of) != region)
                && let Some(region) = region
            {
                drop(loaded.take());
                loaded = Some((region, self.owner.load_regions(&[region]).await?));
            }
            let state = self.owner.state.borrow();
            if state.allocator.space().is_used(*at) != Some(true) {
                problems.push(format!("{at} of tree {} is free", tree.0));
            }
            let mut after = *at;
            after.offset.0 += u64::from(*bytes);
            end = Some(after);
        }
        drop(loaded);
        let state = self.owner.state.borrow();
        let bytes = self.found.bytes + self.copied;
        let used = state.allocator.space().used_of_all();
        if used != bytes {
            problems.push(format!("{used} bytes are used and {bytes} are pointed to"));
        }
        let known = state.allocator.relocated();
        if known != self.relocated {
            let found = self.relocated;
            problems.push(format!(
                "{known} blocks have relocations, {found} of them are pointed to"
            ));
        }
        let leaked = state.allocator.leaked();
        if leaked > 0 {
            problems.push(format!("{leaked} blocks were freed twice"));
        }
        Ok(())
    }
}

impl Verifier<'_> {
    /// Checks the volumes' sums of space. `passing` bytes are pending hand-overs between deadlists.
    fn compare_sums(&mut self, passing: u64) {
        let state = self.owner.state.borrow();
        let problems = &mut self.found.problems;
        for volume in state.datasets.all() {
            let id = &volume.id;
            let said = lock(&volume.state).layers.held().allocated;
            let held = self.trees.get(id).copied().unwrap_or(0);
            // a snapshot without a root of its own has the sum of an older state
            if said != held && !state.checkpointer.is_rootless(*id) {
                let text = format!("tree {} holds {held} bytes, it says {said}", id.0);
                problems.push(text);
            }
        }
        let owned: i128 = state.owned().values().map(|o| o.sum).sum();
        let visited = i128::from(self.found.bytes - self.other) - i128::from(passing);
        if owned != visited {
            let text = format!("volumes own {visited} bytes, they say {owned}");
            problems.push(text);
        }
    }

    /// Checks the sizes of the deadlists. Returns the bytes of pending hand-overs.
    async fn compare_lists(&mut self) -> Result<u64> {
        let (root, said, prevs) = {
            let state = self.owner.state.borrow();
            // a snapshot that its volume was rolled back to holds all blocks on its list
            let prevs = state
                .destroyer
                .lists()
                .filter(|(list, prev)| prev.list.is_some() && !state.deadlists.is_forgotten(*list));
            let prevs: BTreeMap<ListId, PrevSnapshot> = prevs.collect();
            let lists = &state.deadlists;
            (lists.root(), lists.sizes().clone(), prevs)
        };
        let mut passing = 0;
        let mut held: BTreeMap<ListId, u64> = BTreeMap::new();
        let mut walk = Walk::new(root, Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    walk.supply(self.owner.shared.node(DEAD_TREE, &need).await?)?;
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    let ptrs = pointers(&value).map_err(Error::Invalid)?;
                    let list = ListId(key.object().0);
                    let prev = prevs.get(&list);
                    for ptr in &ptrs {
                        let bytes = self.owner.allocated(ptr);
                        *held.entry(list).or_default() += bytes;
                        let passes = prev.is_some_and(|e| Fate::of(*e, ptr.birth) == Fate::Listed);
                        passing += if passes { bytes } else { 0 };
                    }
                }
                WalkStep::Visit(_) => {}
                WalkStep::Done => break,
            }
        }
        if held != said {
            let text = format!("lists of dead blocks hold {held:?}, they say {said:?}");
            self.found.problems.push(text);
        }
        Ok(passing)
    }
}

impl Owner {
    /// Waits until the records that only the journal has have blocks. Otherwise they would take space during the verification.
    async fn write_all_journaled(&self) {
        while self.shared.trouble().is_none() && !self.shared.vdevs.is_read_only() {
            {
                let mut state = self.state.borrow_mut();
                let is_waiting = state.datasets.all().any(|dataset| {
                    let state = lock(&dataset.state);
                    !state.journaled.is_empty() || !state.in_flight.is_empty()
                });
                if !is_waiting {
                    return;
                }
                state.committer.write_all();
            }
            self.shared.bell.ring();
            io::time::sleep(POLL).await;
        }
    }
}

impl Pool {
    /// Reads all blocks of the pool's checkpoint and its layers, and compares the used space with them.
    ///
    /// # Errors
    /// [`crate::Error::Device`]. Damage is reported, and is no error.
    pub async fn verify(&self) -> Result<Verified> {
        self.owner.write_all_journaled().await;
        let _pause = self.owner.pause().await;
        let _reader = self.owner.shared.readers.enter();
        let mut verifier = Verifier {
            owner: &self.owner,
            blocks: BTreeMap::new(),
            copies: BTreeMap::new(),
            copied: 0,
            relocated: 0,
            trees: BTreeMap::new(),
            other: 0,
            found: Verified::default(),
        };
        self.owner.each_block(&Wanted::all(), &mut verifier).await?;
        verifier.compare_space().await?;
        if !self.owner.shared.has_failed() {
            let problems = self.owner.state.borrow().datasets.problems();
            verifier.found.problems.extend(problems);
        }
        let passing = verifier.compare_lists().await?;
        verifier.compare_sums(passing);
        Ok(verifier.found)
    }
}
