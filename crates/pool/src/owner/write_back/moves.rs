//! Groups of the movers: records that are written again as they are.
//!
//! **Owns** the choice of the records that leave together. **Called by** the movers, on the owner's shard. **Invariants**: a
//! record leaves only if it is unchanged in the step that takes it, and if no snapshot holds its block; a group takes no space that
//! admitted records, reservations or nodes need. From there on it goes the way of every group.

use std::rc::Rc;
use std::sync::Arc;

use super::commit::Taken;
use super::group_batch::journal_bytes_max;
use super::place::{Deletes, Destination};
use crate::dataset::{OpenDataset, RecordMove};
use crate::dirty::Group;
use crate::format::{Address, Birth, NEVER};
use crate::owner::mover::state::Moves;
use crate::owner::{Owner, State};
use crate::scattered::places;
use io::sync::lock;

/// The result of an attempt to write records again.
pub(in crate::owner) enum MoveStep {
    /// Records of this number of stored bytes, in whole sectors, are being written. The others must be looked up again, or tried again.
    Written(u64, Vec<RecordMove>),
    /// There is no free space for one of them before a checkpoint frees some.
    NoSpace(Vec<RecordMove>),
    /// There is no room in the journal, no memory, or a snapshot of the dataset is pending: later.
    Later(Vec<RecordMove>),
    /// The records would not lie in fewer places.
    NotWorth,
    /// The dataset is gone.
    Gone,
}

impl State {
    /// Blocks of a dataset born up to this are held by a snapshot.
    pub(in crate::owner) fn held_up_to(&self, dataset: &OpenDataset) -> Birth {
        let properties = dataset.dataset();
        self.prev_at(dataset.id, &properties, NEVER).floor
    }

    /// The moves of records that no snapshot holds, and that do not leave the special class only because it is full.
    fn to_move(&self, of: &OpenDataset, moves: Vec<RecordMove>, held: Birth) -> Vec<RecordMove> {
        let (epoch, vdevs) = (self.journal.epoch(), &self.shared.vdevs);
        let small = u64::from(of.settings.special_small_blocks());
        let has_room = self.allocator.space().takes_small_records();
        let is_kept = |m: &RecordMove| {
            let ptr = m.block();
            vdevs.is_special(vdevs.address_of(ptr).vdev) && vdevs.allocated(ptr) <= small
        };
        let moves = moves.into_iter();
        let moves = moves.filter(|m| m.births(epoch).0 > held && (has_room || !is_kept(m)));
        moves.collect()
    }
}

impl State {
    /// Extents for the first records, and the number of records in each. The class mover gets none for small records that the special class
    /// has no room for.
    fn place_moves(
        &mut self,
        (sizes, small): (&[u32], u32),
        purpose: Moves,
    ) -> Vec<(Address, usize)> {
        let targets = purpose.targets();
        let mut extents = self.allocator.place_moved((sizes, small), targets);
        if purpose != Moves::Class {
            return extents;
        }
        let mut from = 0;
        let right = extents.iter().take_while(|(at, count)| {
            let of_extent = &sizes[from..from + count];
            from += count;
            self.spilled((&[(*at, *count)], of_extent), small) == 0
        });
        let right = right.count();
        let records: usize = extents[..right].iter().map(|(_, count)| count).sum();
        let others = with_bytes(&extents.split_off(right), &sizes[records..]);
        self.allocator.give_back(&others);
        extents
    }
}

impl Owner {
    /// Writes records again, from the lowest key on, up to the limits of one group. `moves` are in the order of their keys.
    pub(in crate::owner) fn commit_moves(
        self: &Rc<Self>,
        volume: &Arc<OpenDataset>,
        moves: Vec<RecordMove>,
        purpose: Moves,
    ) -> MoveStep {
        if !self.state.borrow().datasets.is_open(volume) {
            return MoveStep::Gone;
        }
        let may_take = self.state.borrow().may_take_group() && !volume.refuses_moves();
        if !may_take || !self.append_staged(volume) {
            return MoveStep::Later(moves);
        }
        let mut owner = self.state.borrow_mut();
        let held = owner.held_up_to(volume);
        let mut state = lock(&volume.state);
        if !state.staged.is_empty() || state.pending_snapshot.is_some() {
            return MoveStep::Later(moves);
        }
        let epoch = owner.journal.epoch();
        let moves = owner.to_move(volume, moves, held).into_iter();
        let (mut fresh, mut rest): (Vec<_>, Vec<_>) =
            moves.partition(|m| volume.is_unchanged(&state, m));
        if fresh.is_empty() {
            return MoveStep::Written(0, rest);
        }
        let journal_bytes = |moves: &[RecordMove]| {
            let records = moves.iter().map(|m| &m.contents);
            journal_bytes_max(records, volume.settings.has_files())
        };
        let mut count = fresh.len();
        while count > 1 && journal_bytes(&fresh[..count]) > owner.journal.append_max() {
            count /= 2;
        }
        let space = self.shared.vdevs.block_space();
        let sizes = fresh[..count].iter();
        let sizes = sizes.map(|m| space.of(m.contents.stored().1.len() as u32));
        let mut sizes: Vec<u32> = sizes.collect();
        let bytes = sizes.iter().sum::<u32>();
        if !owner.journal.has_room(journal_bytes(&fresh[..count])) {
            owner.checkpointer.request_journal();
            return MoveStep::Later(joined(fresh, rest));
        }
        let Some(buf) = self.shared.buffers.try_alloc(bytes as usize) else {
            return MoveStep::Later(joined(fresh, rest));
        };
        let movable = owner.allocator.space().movable();
        let budget = &self.shared.budget;
        if !budget.may_move(volume.id, (bytes.into(), count as u64), movable) {
            return MoveStep::NoSpace(joined(fresh, rest));
        }
        let small = volume.settings.special_small_blocks();
        let extents = owner.place_moves((&sizes, small), purpose);
        let count: usize = extents.iter().map(|(_, count)| count).sum();
        if count == 0 {
            return MoveStep::NoSpace(joined(fresh, rest));
        }
        let left = fresh.split_off(count);
        sizes.truncate(count);
        let before = fresh.iter().zip(&sizes);
        let vdevs = &self.shared.vdevs;
        let before = before.map(|(m, size)| (vdevs.address_of(m.block()), u64::from(*size)));
        let before = places(before);
        if purpose == Moves::Order && 2 * extents.len() as u64 > before {
            owner.allocator.give_back(&with_bytes(&extents, &sizes));
            return MoveStep::NotWorth;
        }
        owner.allocator.count_moved(count as u64);
        rest = joined(left, rest);
        let moved = sizes.iter().map(|size| u64::from(*size)).sum();
        let group = Group {
            births: Some(fresh.iter().map(|m| m.births(epoch).1).collect()),
            records: fresh.into_iter().map(|m| (m.key, m.contents)).collect(),
            ..Group::default()
        };
        let deletes = Deletes::with(&group, &state.dataset);
        let group = Arc::new(group);
        state.in_flight.begin(group.clone());
        let taken = Taken {
            group,
            done: None,
            destination: Destination::Whole {
                extents,
                sizes,
                buf: Some(buf),
            },
            inodes: Vec::new(),
            charges: Vec::new(),
            deletes,
            is_small: false,
        };
        drop(state);
        self.mover.begin_group();
        self.write_group(owner, volume, taken);
        self.shared.bell.ring();
        MoveStep::Written(moved, rest)
    }
}

/// The bytes of extents, each of which has a number of records.
fn with_bytes(extents: &[(Address, usize)], mut sizes: &[u32]) -> Vec<(Address, u32)> {
    let bytes = extents.iter().map(|(at, count)| {
        let (here, behind) = sizes.split_at(*count);
        sizes = behind;
        (*at, here.iter().sum())
    });
    bytes.collect()
}

/// Records in the order of their keys.
fn joined(mut some: Vec<RecordMove>, others: Vec<RecordMove>) -> Vec<RecordMove> {
    some.extend(others);
    some.sort_by_key(|m| m.key);
    some
}
