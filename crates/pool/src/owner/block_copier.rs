//! Block copier: blocks that a sweep visits are read, verified, and written elsewhere, while their pointers stay as they are.
//!
//! The remover copies the blocks of a vdev, the region mover those of sparse regions which its records' moves left, the class
//! mover those of the other class.
//!
//! **Owns** the batches of copies. **Called by** the remover, the region mover and the class mover. **Invariants**: only bytes with the checksum of their
//! pointer are copied; the sectors of a copy and its entry in the pool's own tree are in the same checkpoint, because none begins between
//! the two; a copy is known only when its vdev has it; nothing is written while another task pauses the movers. `docs/decisions/0180`, `docs/decisions/0182`.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;
use io::{IoBuf, SharedBuf};

use crate::format::{Address, BlockPtr, TreeId};
use crate::lost::LostBlock;
use crate::owner::sweep::blocks::{Holds, VisitedBlock, Visitor};
use crate::owner::sweep::position::Sweep;
use crate::owner::{Owner, POLL, POOL_TREE};
use crate::shared::{DESTROYED, all};
use crate::space::Targets;
use crate::vdev::PlacedBlock;
use crate::written::WriteClass;
use crate::{Error, Result};

/// Bytes of a batch of copies, about.
const BATCH_BYTES: u64 = 4 << 20;
/// Bytes of the blocks that get extents at once, at most; or one block.
const GROUP_BYTES: u32 = 1 << 20;
/// Blocks of a batch, at most.
const BATCH_BLOCKS: usize = 512;
/// Blocks that are read concurrently.
const READS_MAX: usize = 16;

/// Who has blocks copied, and why.
pub(super) trait CopyGoal {
    /// The place of a block that is to be copied. `None` if it is not.
    fn wants(&self, tree: TreeId, ptr: &BlockPtr, holds: Holds) -> Option<PlacedBlock>;
    /// Whether further blocks may be copied.
    fn goes_on(&self) -> bool;
    /// The vdevs that copies are on, in the order in which they are tried.
    fn targets(&self) -> &[Targets] {
        &[Targets::All]
    }
    /// Notes copies that were written. Copies of blocks that were freed meanwhile are freed. No checkpoint has begun since the copies got
    /// their addresses.
    fn note(&self, copies: &[(PlacedBlock, Address)]);
}

/// The result of a walk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopyWalk {
    /// Bytes that were copied.
    pub(super) copied: u64,
    /// Blocks and nodes of which no right copy was found.
    pub(super) damaged: u64,
    /// Whether it ended early because free space is short.
    pub(super) is_short: bool,
    /// Whether it ended early because its goal was given up, or the pool closes.
    pub(super) is_stopped: bool,
}

/// A block that is to be copied, and the tree in which it was found.
struct Found {
    block: PlacedBlock,
    tree: TreeId,
    lost: LostBlock,
}

/// See the module header.
pub(super) struct BlockCopier<'a, G> {
    owner: &'a Rc<Owner>,
    goal: G,
    /// By present address.
    batch: BTreeMap<Address, Found>,
    bytes: u64,
    walk: CopyWalk,
}

impl<G: CopyGoal> Visitor for BlockCopier<'_, G> {
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64> {
        let bytes = u64::from(block.ptr.physical_size);
        if tree == POOL_TREE {
            return Ok(0);
        }
        if let Some(place) = self.goal.wants(tree, block.ptr, holds) {
            let found = Found {
                block: place,
                tree,
                lost: block.lost(tree, holds),
            };
            if self.batch.insert(place.at, found).is_none() {
                self.bytes += bytes;
            }
            if self.bytes >= BATCH_BYTES || self.batch.len() >= BATCH_BLOCKS {
                self.copy_batch().await?;
            }
        }
        Ok(bytes)
    }

    fn damaged(&mut self, tree: TreeId, error: Error, _: bool) {
        tracing::warn!(tree = tree.0, %error, "blocks below a damaged node cannot be copied");
        self.walk.damaged += 1;
    }

    /// The blocks of a batch are not reused before this: their readers are registered.
    async fn end_part(&mut self) -> Result<()> {
        self.copy_batch().await
    }
}

/// Bytes of the first blocks, which are written from one buffer.
fn sizes_of_group(blocks: &[(PlacedBlock, Vec<u8>)]) -> impl Iterator<Item = u32> {
    let mut left = GROUP_BYTES;
    let sizes = blocks.iter().map(|(_, bytes)| bytes.len() as u32);
    let sizes = sizes.enumerate().take_while(move |(n, size)| {
        let fits = *size <= left;
        left = left.saturating_sub(*size);
        *n == 0 || fits
    });
    sizes.map(|(_, size)| size)
}

/// Extents for the first blocks of a batch.
enum Room {
    /// The address of each of the first blocks, and the extents with their bytes.
    Extents(Vec<Address>, Vec<(Address, usize)>),
    /// A region must be loaded first.
    NotLoaded,
    /// There is too little free space.
    None,
}

impl<G: CopyGoal> BlockCopier<'_, G> {
    /// Reads the blocks of the batch, and copies the right ones.
    async fn copy_batch(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let owner = self.owner;
        if !self.goal.goes_on() {
            self.walk.is_stopped = true;
            return Err(Error::NoSpace);
        }
        let batch: Vec<Found> = batch.into_values().collect();
        let mut right = Vec::with_capacity(batch.len());
        for some in batch.chunks(READS_MAX) {
            let vdevs = &owner.shared.vdevs;
            let reads = some.iter().map(|found| vdevs.read_at(&found.block));
            for (found, read) in some.iter().zip(all(reads).await) {
                match read {
                    // memory of its own: nobody waits for buffers while it has some
                    Ok(bytes) => right.push((found.block, bytes.to_vec())),
                    Err(e @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                        if !owner
                            .state
                            .borrow()
                            .allocator
                            .space()
                            .is_freed(found.block.at)
                        {
                            self.walk.damaged += 1;
                            if found.tree != DESTROYED {
                                owner.shared.lost.note(&e, found.lost);
                            }
                        }
                    }
                    Err(other) => return Err(other),
                }
            }
        }
        self.write_copies(right).await
    }

    async fn write_copies(&mut self, mut blocks: Vec<(PlacedBlock, Vec<u8>)>) -> Result<()> {
        let owner = self.owner;
        while !blocks.is_empty() {
            let pause = owner.pause().await;
            if !self.goal.goes_on() {
                self.walk.is_stopped = true;
                return Err(Error::NoSpace);
            }
            if owner.mover.is_paused_by_others() {
                drop(pause);
                io::time::sleep(POLL).await;
                continue;
            }
            if let Some(trouble) = owner.shared.trouble() {
                return Err(trouble);
            }
            blocks.retain(|(block, _)| {
                let state = owner.state.borrow();
                !state.allocator.space().is_freed(block.at)
            });
            if blocks.is_empty() {
                return Ok(());
            }
            // nobody waits for buffers during a pause: their owners may wait for a checkpoint
            let sizes: Vec<u32> = sizes_of_group(&blocks).collect();
            let size = sizes.iter().sum::<u32>() as usize;
            let Some(buf) = owner.shared.buffers.try_alloc(size) else {
                drop(pause);
                drop(owner.shared.buffers.alloc(size).await);
                continue;
            };
            match self.room(&sizes) {
                Room::Extents(places, extents) => {
                    let some: Vec<_> = blocks.drain(..places.len()).collect();
                    owner.mover.begin_group();
                    let written = self.write((some, buf), &places, &extents).await;
                    owner.mover.end_group();
                    written?;
                }
                Room::NotLoaded => {
                    drop((buf, pause));
                    owner.load_more().await;
                }
                Room::None => {
                    self.walk.is_short = true;
                    return Err(Error::NoSpace);
                }
            }
        }
        Ok(())
    }

    /// Extents for the first blocks of these sizes.
    fn room(&self, sizes: &[u32]) -> Room {
        let mut state = self.owner.state.borrow_mut();
        let state = &mut *state;
        let shared = &self.owner.shared;
        let bytes: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        let most = shared.vdevs.extent_space().most(bytes);
        let mut extents = Vec::new();
        for targets in self.goal.targets() {
            let movable = state.allocator.space().movable();
            if *targets != Targets::Special && shared.budget.left_for_moves(movable) < most {
                continue;
            }
            extents = state.allocator.place_moved((sizes, 0), *targets);
            if !extents.is_empty() {
                break;
            }
            let space = state.allocator.space();
            let is_short = match targets {
                Targets::Special => space.is_special_short(),
                Targets::All | Targets::Emptier => space.is_short(),
            };
            if is_short {
                return Room::NotLoaded;
            }
        }
        if extents.is_empty() {
            return Room::None;
        }
        state.supply_budget();
        let mut places = Vec::with_capacity(sizes.len());
        let mut with_bytes = Vec::with_capacity(extents.len());
        for (start, count) in extents {
            let mut at = start;
            for size in &sizes[places.len()..][..count] {
                places.push(at);
                at = at.behind(*size as usize);
            }
            with_bytes.push((start, (at.offset.0 - start.offset.0) as usize));
        }
        Room::Extents(places, with_bytes)
    }

    /// Writes blocks to their places, and notes the copies. The caller keeps checkpoints from their begin.
    async fn write(
        &mut self,
        (blocks, mut buf): (Vec<(PlacedBlock, Vec<u8>)>, IoBuf),
        places: &[Address],
        extents: &[(Address, usize)],
    ) -> Result<()> {
        let owner = self.owner;
        buf.set_len(blocks.iter().map(|(_, bytes)| bytes.len()).sum());
        let mut rest = &mut buf[..];
        for (_, bytes) in &blocks {
            let (place, behind) = rest.split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = behind;
        }
        let data = SharedBuf::from(buf);
        let mut from = 0;
        let vdevs = &owner.shared.vdevs;
        let writes = extents.iter().map(|(at, len)| {
            let part = data.part(from, *len);
            from += *len;
            vdevs.write(*at, part, WriteClass::Moved)
        });
        if let Err(error) = try_join_all(writes).await {
            owner.fail(error.clone());
            return Err(error);
        }
        let bytes: u64 = extents.iter().map(|(_, len)| *len as u64).sum();
        let copies: Vec<(PlacedBlock, Address)> = blocks
            .iter()
            .zip(places)
            .map(|((block, _), to)| (*block, *to))
            .collect();
        self.goal.note(&copies);
        self.walk.copied += bytes;
        Ok(())
    }
}

impl<'a, G: CopyGoal> BlockCopier<'a, G> {
    pub(super) fn new(owner: &'a Rc<Owner>, goal: G) -> Self {
        Self {
            owner,
            goal,
            batch: BTreeMap::new(),
            bytes: 0,
            walk: CopyWalk::default(),
        }
    }

    /// The goal.
    pub(super) fn goal(&self) -> &G {
        &self.goal
    }

    /// What was done so far.
    pub(super) fn walk(&self) -> CopyWalk {
        self.walk
    }

    /// Copies the wanted blocks of a part of about `bytes` stored bytes, as far as they are right and free space lasts. Returns the next
    /// position, or none if it was the last part, or if the walk ended early.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(super) async fn copy_part(&mut self, sweep: Sweep, bytes: u64) -> Result<Option<Sweep>> {
        let owner = self.owner;
        match owner.sweep(sweep, bytes, self).await {
            Err(_) if self.walk.is_short || self.walk.is_stopped => Ok(None),
            swept => swept,
        }
    }
}
