//! Scrub: every block is read on every side, and mended where it is wrong.
//!
//! **Owns** a scrub's course: snapshots from the oldest, then volumes, each in the order of its keys, in parts that may
//! be hours apart. **Called by** [`Pool`]'s users. **Invariants**: a block that the checkpoint at its beginning holds, and
//! that something still holds when it ends, was read by it; what a dataset shares with an older snapshot is read with
//! that one, and only there; a part keeps what it comes by from being reused, nothing does between parts.

use super::dead::DEAD_TREE;
use super::{Owner, POOL_TREE, Pool};
use crate::format::{Birth, BlockPtr, DatasetClass, KEY_SIZE, Key, TreeId};
use crate::lost::LostBlock;
use crate::shared::{all, lock};
use crate::tree::{Root, Visit, Walk, WalkStep};
use crate::volume::Volume;
use crate::{Error, Result};

/// Blocks that are read at the same time.
const AT_ONCE: usize = 16;
/// Bytes of a part of a whole scrub.
const PART_BYTES: u64 = 64 << 20;
/// Bytes of an encoded [`ScrubPosition`].
const POSITION_SIZE: usize = 33 + KEY_SIZE;

/// Trees in the order in which a scrub comes to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_volume: bool,
    /// Of a snapshot.
    birth: Birth,
    tree: TreeId,
}

const POOL_PLACE: Place = Place {
    is_volume: false,
    birth: Birth(0),
    tree: POOL_TREE,
};
const DEAD_PLACE: Place = Place {
    tree: DEAD_TREE,
    ..POOL_PLACE
};

/// Where a scrub goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubPosition {
    /// What was born later is not its business.
    up_to: Birth,
    place: Place,
    /// In this tree, what was born up to here was read with another.
    since: Birth,
    next: Key,
}

impl ScrubPosition {
    /// Bytes to keep it as; they are no part of the pool's format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.place.is_volume)];
        let words = [
            self.up_to.0,
            self.place.birth.0,
            self.place.tree.0,
            self.since.0,
        ];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend(self.next.encode());
        bytes
    }

    /// What was encoded; none if these bytes are something else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; POSITION_SIZE] = bytes.try_into().ok()?;
        let (head, key) = bytes.split_last_chunk::<KEY_SIZE>()?;
        let (is_volume, words) = head.split_first()?;
        let ([up_to, birth, tree, since], []) = words.as_chunks::<8>() else {
            return None;
        };
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        Some(Self {
            up_to: Birth(word(up_to)),
            place: Place {
                is_volume: *is_volume != 0,
                birth: Birth(word(birth)),
                tree: TreeId(word(tree)),
            },
            since: Birth(word(since)),
            next: Key::decode(*key),
        })
    }
}

/// What a scrub, or a part of one, did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks read, on every side.
    pub blocks: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Copies that were wrong and are right again.
    pub repaired: u64,
    /// Blocks that are lost.
    pub lost: Vec<LostBlock>,
    /// Trees of which a part cannot be reached.
    pub damaged: Vec<(TreeId, Error)>,
}

impl Scrubbed {
    fn add(&mut self, part: Scrubbed) {
        self.blocks += part.blocks;
        self.bytes += part.bytes;
        self.repaired += part.repaired;
        self.lost.extend(part.lost);
        self.damaged.extend(part.damaged);
    }
}

/// One part.
struct Part<'a> {
    owner: &'a Owner,
    left: u64,
    /// It came by an entry: without one the next part would come no further.
    has_moved: bool,
    batch: Vec<LostBlock>,
    found: Scrubbed,
}

impl Part<'_> {
    /// A block is to be read, which may turn out to be lost.
    async fn take(&mut self, block: LostBlock) -> Result<()> {
        let size = u64::from(block.ptr.physical_size);
        self.left = self.left.saturating_sub(size);
        self.batch.push(block);
        if self.batch.len() < AT_ONCE {
            return Ok(());
        }
        self.read().await
    }

    async fn read(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let shared = &self.owner.shared;
        let reads = batch.iter().map(|block| shared.vdevs.scrub(&block.ptr));
        let results = all(reads).await;
        for (block, result) in batch.into_iter().zip(results) {
            match result {
                Ok(repaired) => {
                    shared.lost.is_right(&block.ptr);
                    self.found.repaired += repaired as u64;
                }
                Err(e @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                    shared.lost.note(&e, block);
                    self.found.lost.push(block);
                }
                Err(other) => return Err(other),
            }
            self.found.blocks += 1;
            self.found.bytes += u64::from(block.ptr.physical_size);
        }
        Ok(())
    }

    /// Goes through a tree from a position on. Whether it came to the tree's end.
    async fn walk(&mut self, root: Root, at: &mut ScrubPosition) -> Result<bool> {
        let tree = at.place.tree;
        let mut walk = Walk::new(root, at.since, at.next);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let shared = &self.owner.shared;
                    let node = shared.node(tree, &need).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        let block = LostBlock::node(tree, need.keys(), need.ptr);
                        shared.lost.note(&e, block);
                        self.found.damaged.push((tree, e));
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) if ptr.birth <= at.up_to => {
                    let block = LostBlock::node(tree, walk.keys(), ptr);
                    self.take(block).await?;
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if self.left == 0 && self.has_moved {
                        at.next = key;
                        return Ok(false);
                    }
                    self.has_moved = true;
                    let is_due = |ptr: &&BlockPtr| ptr.birth > at.since && ptr.birth <= at.up_to;
                    if let Some(ptr) = value.block().filter(is_due) {
                        self.take(LostBlock::record(tree, key, *ptr)).await?;
                    }
                }
                WalkStep::Visit(Visit::Node(_) | Visit::Older(_)) => {}
                WalkStep::Done => return Ok(true),
            }
        }
    }
}

impl Owner {
    fn root_at(&self, place: Place) -> Root {
        let state = self.state.borrow();
        match place.tree {
            POOL_TREE => state.uberblock.root,
            DEAD_TREE => state.dead_root,
            tree => state.volumes.get(&tree).and_then(|v| lock(&v.0.state).root),
        }
    }

    /// The tree behind another, and what an older snapshot has of it.
    fn place_after(&self, place: Place) -> Option<(Place, Birth)> {
        if place < DEAD_PLACE {
            return Some((DEAD_PLACE, Birth(0)));
        }
        let state = self.state.borrow();
        let place_of = |v: &Volume| {
            let dataset = v.dataset();
            let is_volume = dataset.class == DatasetClass::Volume;
            let found = Place {
                is_volume,
                birth: if is_volume { Birth(0) } else { dataset.birth },
                tree: v.0.id,
            };
            (found, dataset)
        };
        let places = state.volumes.values().map(place_of);
        let (found, dataset) = places.filter(|(p, _)| *p > place).min_by_key(|(p, _)| *p)?;
        let family = dataset.of.unwrap_or(found.tree);
        let older = |(birth, _): &(Birth, TreeId)| found.is_volume || *birth < found.birth;
        let snapshots = state.snapshots_of(family);
        let previous = snapshots.into_iter().rfind(older).map(|(birth, _)| birth);
        let since = previous.unwrap_or(Birth(0));
        Some((found, since.max(state.origin(&dataset).floor)))
    }
}

impl Pool {
    /// Begins a scrub with a checkpoint: what is written later is not read by it.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn begin_scrub(&self) -> Result<ScrubPosition> {
        self.checkpoint().await?;
        self.owner.shared.lost.doubt();
        Ok(ScrubPosition {
            up_to: self.owner.state.borrow().uberblock.epoch,
            place: POOL_PLACE,
            since: Birth(0),
            next: Key::START,
        })
    }

    /// Goes on with a scrub for about `bytes` as stored. What it found, and where to go on unless it is at its end.
    ///
    /// # Errors
    /// [`Error::Device`]. What is lost is no error: it is reported.
    pub async fn scrub_part(
        &self,
        at: ScrubPosition,
        bytes: u64,
    ) -> Result<(Scrubbed, Option<ScrubPosition>)> {
        let _reader = self.owner.shared.readers.enter();
        let mut part = Part {
            owner: &self.owner,
            left: bytes,
            has_moved: false,
            batch: Vec::new(),
            found: Scrubbed::default(),
        };
        let mut at = at;
        loop {
            let root = self.owner.root_at(at.place);
            let is_whole = part.walk(root, &mut at).await?;
            let after = self.owner.place_after(at.place).filter(|_| is_whole);
            if let Some((place, since)) = after {
                let next = Key::START;
                at = ScrubPosition {
                    place,
                    since,
                    next,
                    ..at
                };
                continue;
            }
            part.read().await?;
            if is_whole {
                self.owner.shared.lost.settle(at.up_to);
            }
            return Ok((part.found, (!is_whole).then_some(at)));
        }
    }

    /// Scrubs everything. `progress` is told after each part.
    ///
    /// # Errors
    /// [`Error::Device`]. What is lost is no error: it is reported.
    pub async fn scrub(&self, mut progress: impl FnMut(&Scrubbed)) -> Result<Scrubbed> {
        let mut done = Scrubbed::default();
        let mut next = Some(self.begin_scrub().await?);
        while let Some(at) = next {
            let found;
            (found, next) = self.scrub_part(at, PART_BYTES).await?;
            done.add(found);
            progress(&done);
        }
        Ok(done)
    }
}
