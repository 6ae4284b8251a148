//! The special class, for people: its space, and the bytes that it had no room for.
//!
//! **Called by** the server, for status and metrics. **Invariant**: reads counters only. `docs/decisions/0185`.

use std::collections::BTreeMap;

use crate::format::BlockSizes;
use crate::owner::{ClassReason, Pool, State};
use crate::space::SpecialSpace;
use io::sync::lock;

/// The special class of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialClass {
    /// Its space.
    pub space: SpecialSpace,
    /// Whether it takes small records: the rest of its space is for nodes.
    pub takes_small_records: bool,
    /// Bytes of nodes and small records that went to normal vdevs since the pool was opened because the class had no room, by dataset.
    /// Datasets without such bytes are not in it.
    pub spilled: BTreeMap<String, u64>,
    /// The same of nodes that belong to no dataset.
    pub spilled_of_pool: u64,
    /// Why blocks are moved between the class and normal vdevs now; `None` if none are.
    pub moves: Option<ClassReason>,
    /// Bytes that were moved so since the pool was opened.
    pub moved: u64,
    /// Walks over all datasets for this since the pool was opened.
    pub walks: u64,
    /// Whether the last walk left blocks on normal vdevs because the class had no room.
    pub lacks_room: bool,
}

/// This part of the class may be in the wrong place, by the sizes in roots, before blocks are moved at the opening.
const SLACK_PART: u64 = 16;
/// And at most this many bytes: of a large class, a part would be much.
const SLACK_MAX: u64 = 64 << 20;

impl State {
    /// Whether many blocks are surely in the other class, by the sizes in roots: the datasets alone have more nodes and small records than the
    /// class has bytes, or all datasets and snapshots together have fewer.
    pub(in crate::owner) fn has_blocks_of_other_class(&self) -> bool {
        let space = self.allocator.space();
        let Some(class) = space.special_space().filter(|_| space.has_special()) else {
            return false;
        };
        let slack = (class.size / SLACK_PART).min(SLACK_MAX);
        // `most` is unknown if a root without sizes has records
        let (mut least, mut most) = (0, Some(0));
        for dataset in self.datasets.all() {
            let sizes = lock(&dataset.state).layers.held().sizes;
            let properties = dataset.dataset();
            let volume = properties.of.and_then(|of| self.datasets.get(of));
            let small = volume.unwrap_or(dataset).settings.special_small_blocks();
            let bytes = sizes.map(|sizes| self.bytes_of_class(sizes, small.into()));
            if properties.of.is_none() && properties.origin.is_none() {
                least += bytes.map_or(0, |(least, _)| least);
            }
            most = most.zip(bytes).map(|(most, (_, bytes))| most + bytes);
        }
        let lacks = least > class.used + slack && space.has_much_special();
        lacks || most.is_some_and(|most| class.used > most + slack)
    }

    /// Bytes of the nodes, and of the records of at most `small` bytes: as stored, and with the most that the ends of sectors add.
    fn bytes_of_class(&self, sizes: BlockSizes, small: u64) -> (u64, u64) {
        let sector = u64::from(self.shared.vdevs.block_space().of(1));
        let records = sizes.up_to(if small < sector { 0 } else { small });
        let nodes = sizes.nodes();
        let least = nodes.bytes + records.bytes;
        (least, least + (nodes.blocks + records.blocks) * sector)
    }
}

impl Pool {
    /// The special class. `None` if no vdev is of it.
    #[must_use]
    pub fn special_class(&self) -> Option<SpecialClass> {
        let state = self.owner.state.borrow();
        let allocator = &state.allocator;
        let space = allocator.space().special_space()?;
        let of = |dataset: &std::sync::Arc<crate::dataset::OpenDataset>| {
            (dataset.dataset().name, dataset.counters.read().spilled)
        };
        let spilled = state.datasets.volumes().map(of);
        Some(SpecialClass {
            space,
            takes_small_records: allocator.space().takes_small_records(),
            spilled: spilled.filter(|(_, bytes)| *bytes > 0).collect(),
            spilled_of_pool: allocator.placements().spilled_of_pool,
            moves: self.owner.class_moves(),
            moved: self.owner.moved_between_classes(),
            walks: self.owner.class_walks(),
            lacks_room: self.owner.lacks_special_room(),
        })
    }
}
