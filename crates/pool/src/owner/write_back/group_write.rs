//! The second half of the write-back of a group: pointers, journal, and the writes to the devices.
//!
//! **Owns** these steps. **Called by** write-back, for groups of dirty records and of the row mover. **Invariants**: pointers in the
//! layer and records in the journal are made in one step; readers find the records in the group until the devices have them.

use std::cell::RefMut;
use std::rc::Rc;
use std::sync::Arc;

use io::sync::oneshot;
use io::time::now;

use super::commit::Taken;
use super::group_data::GroupData;
use super::place::Placed;
use crate::account::ENTRY_SIZE;
use crate::dataset::OpenDataset;
use crate::dirty::Group;
use crate::format::filesystem::inode_key;
use crate::format::{TreeId, Value};
use crate::journal::Ticket;
use crate::owner::{Owner, State};
use crate::written::WriteClass;
use io::sync::lock;

impl Owner {
    /// Appends a group to the journal, makes its pointers visible, and writes its data.
    pub(super) fn write_group(
        self: &Rc<Self>,
        mut owner: RefMut<'_, State>,
        volume: &Arc<OpenDataset>,
        taken: Taken,
    ) {
        let owner = &mut *owner;
        let group = taken.group.clone();
        // without the volume's lock, since records that were not hashed before are hashed here
        let epoch = owner.journal.epoch();
        let placed = Placed::at(taken.destination, &group, epoch, volume.packer());
        let deletes = taken.deletes;
        let ticket = owner.journal_group(
            volume,
            &group,
            &deletes,
            &placed,
            (&taken.inodes, &taken.charges),
        );
        if taken.is_small {
            let (records, bytes) = (group.records.len() as u64, group.bytes() as u64);
            let journaled = placed.in_journal.then_some((records, bytes));
            owner.committer.way.began(ticket, journaled, now());
        }
        let mut superseded = 0;
        let mut state = lock(&volume.state);
        for keys in deletes.ranges.into_iter().chain(deletes.stale) {
            superseded += state.journaled.forget_range(keys.clone());
            state
                .layers
                .delete_range(keys, |old| owner.allocator.note_replaced(old.block()));
        }
        if placed.in_journal {
            for (key, contents) in &group.records {
                debug_assert!(!state.has_journaled_record_of(*key));
                superseded += state.journaled.put(*key, contents.clone());
            }
        }
        let part_sums = placed.part_sums();
        for (key, block) in placed.entries {
            superseded += state.journaled.forget(key);
            let old = state.layers.put(key, Value::Block(block));
            owner
                .allocator
                .note_replaced(old.as_ref().and_then(Value::block));
        }
        for (object, inode) in &taken.inodes {
            let value = Value::Inline(inode.encode());
            state.layers.put(inode_key(*object), value);
            state.tails.left(*object, inode);
        }
        for record in &taken.charges {
            state.layers.apply(record, drop);
        }
        owner.allocator.free_replaced();
        owner.committer.made_ready(group.bytes());
        if placed.data.is_none() {
            state.in_flight.end(&group);
        }
        drop(state);
        if superseded > 0 {
            self.shared.budget.replaced(volume.id, superseded as u64);
        }
        let values = (taken.inodes.len() + taken.charges.len()) as u64;
        // the accounts of volumes know the checksums of parts by the size of a record
        let values = match volume.settings.has_files() {
            true => values + part_sums.div_ceil(ENTRY_SIZE),
            false => values,
        };
        self.account_group(owner, volume.id, (&group, values), placed.data.as_ref());
        if let Some(data) = placed.data {
            owner.committer.begin_group();
            self.send_group(volume, group, data, (ticket, taken.done));
        }
    }

    /// Writes the data of a group, whose batch is `ticket`, to the devices.
    fn send_group(
        self: &Rc<Self>,
        volume: &Arc<OpenDataset>,
        group: Arc<Group>,
        data: GroupData,
        (ticket, done): (Ticket, Option<oneshot::Sender<()>>),
    ) {
        let class = match group.is_moved() {
            true => WriteClass::Moved,
            false => {
                volume.counters.placed(data.len());
                WriteClass::Data
            }
        };
        let (this, volume) = (self.clone(), volume.clone());
        drop(io::spawn(async move {
            if let Err(error) = Arc::new(data).write(&this.shared, class).await {
                // dirty records stay in memory, and can be read
                return this.fail(error);
            }
            this.end_group(&volume, &group, ticket);
            let bytes = group.bytes() as u64;
            this.shared.workers.free(bytes, group);
            if let Some(done) = done {
                done.send(());
            }
        }));
    }

    /// Tells the write budget of a group with `values` other values, and of the extents that its data got.
    fn account_group(
        &self,
        owner: &State,
        id: TreeId,
        (group, values): (&Group, u64),
        data: Option<&GroupData>,
    ) {
        let budget = &self.shared.budget;
        let left = owner.allocator.space().allocatable();
        let records = group.records.len() as u64 + values;
        if group.is_moved() {
            return budget.moved(id, records, left);
        }
        let Some(data) = data else {
            // its records, if it has some, are accounted for when they get blocks
            return budget.placed(id, (0, values), (0, 0), left);
        };
        // writes are admitted to normal vdevs
        let normal = data.extents();
        let normal = normal.filter(|(at, _)| !self.shared.vdevs.is_special(at.vdev));
        let extents = normal.map(|(at, len)| {
            let unit = self.shared.vdevs.extent_unit(at);
            len.next_multiple_of(unit.into())
        });
        let (bytes, stored) = (group.bytes() as u64, data.len());
        budget.placed(id, (bytes, records), (stored, extents.sum()), left);
    }

    fn end_group(&self, volume: &Arc<OpenDataset>, group: &Arc<Group>, ticket: Ticket) {
        lock(&volume.state).in_flight.end(group);
        match group.is_moved() {
            true => self.mover.end_group(),
            false => self.shared.budget.written(group.bytes() as u64),
        }
        let mut state = self.state.borrow_mut();
        state.committer.end_group();
        state.journal.data_written(ticket);
        drop(state);
        self.shared.bell.ring();
    }
}
