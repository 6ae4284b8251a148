//! Charges: the space of a filesystem's files by user and by group, and the quotas of users and groups.
//!
//! Two sums are kept for each owner. The *journaled* sum is that of the inodes that the journal and the staged transactions
//! have: it goes to the journal with each inode that changes it, so that on stable storage the sums are those of the inodes at
//! every moment. The *visible* sum is that of the newest inodes, with data that is not written back; quotas limit it.
//!
//! A filesystem of an earlier release has no sums. It is counted object by object: objects below [`Charges::counted`] are in
//! the sums, others are not.
//!
//! **Owns** both sums and the quotas. **Called by** the store of a filesystem and by the owner's groups, under the dataset's
//! lock. **Invariants**: the sums are loaded before the first change of a file; no group of records leaves before the staged
//! transactions, so that the order of changes here is their order in the journal. `docs/decisions/0134`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::format::filesystem::{
    Charge, ChargeEntry, FileOwner, OBJECT_END, counted_key, encode_charge, encode_counted,
};
use crate::format::{ObjectId, Record, TreeId, Value};

/// A change of an object's owners or space. Both sides are without space if it does not exist.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub(crate) object: ObjectId,
    pub(crate) before: Charge,
    pub(crate) after: Charge,
}

/// Bytes by owner. An owner without bytes has no entry.
type Sums = BTreeMap<FileOwner, u64>;

/// The sums as they were read, and the first object that is not in them.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) counted: ObjectId,
    pub(crate) sums: Sums,
    pub(crate) quotas: Sums,
}

impl Loaded {
    /// Takes an entry of the filesystem's tree.
    pub(crate) fn add(&mut self, entry: ChargeEntry) {
        match entry {
            ChargeEntry::Space(owner, bytes) => self.sums.insert(owner, bytes),
            ChargeEntry::Quota(owner, bytes) => self.quotas.insert(owner, bytes),
        };
    }
}

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    is_loaded: bool,
    /// Grows whenever the sums are forgotten.
    incarnation: u64,
    counted: ObjectId,
    journaled: Sums,
    visible: Sums,
    quotas: Sums,
    /// While objects are being counted: journaled charges of the objects that changed meanwhile.
    touched: Option<BTreeMap<ObjectId, Charge>>,
}

/// Moves bytes between the owners of a charge before and after. `changed` gets each owner whose sum is another now.
fn shift(sums: &mut Sums, before: Charge, after: Charge, mut changed: impl FnMut(FileOwner, u64)) {
    let [user, group] = before.owners();
    let owners = [user, group, after.owners()[0], after.owners()[1]];
    for (n, owner) in owners.iter().enumerate() {
        let (old, new) = (before.bytes_of(*owner), after.bytes_of(*owner));
        if old == new || owners[..n].contains(owner) {
            continue;
        }
        let sum = sums.get(owner).copied().unwrap_or(0);
        let sum = sum.saturating_add(new).saturating_sub(old);
        match sum {
            0 => drop(sums.remove(owner)),
            sum => drop(sums.insert(*owner, sum)),
        }
        changed(*owner, sum);
    }
}

/// The record that stores the sum of an owner.
fn record_of(tree: TreeId, owner: FileOwner, sum: u64) -> Record {
    let key = owner.space_key();
    match sum {
        0 => Record::Delete(tree, key),
        sum => Record::Put(tree, key, Value::Inline(encode_charge(sum))),
    }
}

impl Charges {
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// A number for [`Charges::load`].
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Takes the sums that were read since [`Charges::incarnation`] was asked for.
    pub(crate) fn load(&mut self, incarnation: u64, loaded: Loaded) {
        if self.is_loaded || self.incarnation != incarnation {
            return;
        }
        let Loaded {
            counted,
            sums,
            quotas,
        } = loaded;
        *self = Self {
            is_loaded: true,
            incarnation,
            counted,
            visible: sums.clone(),
            journaled: sums,
            quotas,
            touched: None,
        };
    }

    /// Forgets the sums: the dataset has another tree.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            incarnation: self.incarnation + 1,
            ..Self::default()
        };
    }

    /// The first object that is not in the sums.
    pub(crate) fn counted(&self) -> ObjectId {
        self.counted
    }

    /// Whether the sums have all objects.
    pub(crate) fn is_complete(&self) -> bool {
        self.counted.0 >= OBJECT_END
    }

    /// Visible bytes and quota of each owner that has one of them.
    pub(crate) fn by_owner(&self) -> BTreeMap<FileOwner, (u64, u64)> {
        let mut all: BTreeMap<_, _> = self.visible.iter().map(|(o, b)| (*o, (*b, 0))).collect();
        for (owner, quota) in &self.quotas {
            all.entry(*owner).or_insert((0, 0)).1 = *quota;
        }
        all
    }

    /// Sets the quota of an owner, bytes; 0 for none.
    pub(crate) fn set_quota(&mut self, owner: FileOwner, bytes: u64) {
        match bytes {
            0 => drop(self.quotas.remove(&owner)),
            bytes => drop(self.quotas.insert(owner, bytes)),
        }
    }

    /// Whether the owners may have a file's charge after a change: none of them gets bytes beyond its quota.
    pub(crate) fn fits(&self, before: Charge, after: Charge) -> bool {
        after.owners().iter().all(|owner| {
            let (old, new) = (before.bytes_of(*owner), after.bytes_of(*owner));
            let left = self.left(*owner);
            new <= old || left.is_none_or(|left| new - old <= left)
        })
    }

    /// Whether one of the owners has used its quota up.
    pub(crate) fn is_used_up(&self, of: Charge) -> bool {
        of.owners().iter().any(|owner| self.left(*owner) == Some(0))
    }

    /// Bytes that an owner may still get; `None` without a quota.
    fn left(&self, owner: FileOwner) -> Option<u64> {
        let quota = self.quotas.get(&owner)?;
        let used = self.visible.get(&owner).copied().unwrap_or(0);
        Some(quota.saturating_sub(used))
    }

    /// A change became visible.
    pub(crate) fn see(&mut self, change: Move) {
        if change.object < self.counted {
            shift(&mut self.visible, change.before, change.after, |_, _| {});
        }
    }

    /// The journal gets another inode of an object. `records` gets the sums that change with it.
    pub(crate) fn journal(&mut self, tree: TreeId, change: Move, records: &mut Vec<Record>) {
        let Move {
            object,
            before,
            after,
        } = change;
        if object >= self.counted {
            if let Some(touched) = &mut self.touched {
                touched.insert(object, after);
            }
            return;
        }
        shift(&mut self.journaled, before, after, |owner, sum| {
            records.push(record_of(tree, owner, sum));
        });
    }

    /// Begins to count objects: changes of objects are noted until [`Charges::count`].
    pub(crate) fn begin_count(&mut self) {
        self.touched.get_or_insert_default();
    }

    /// Adds a range of objects to the sums: `found` has the charges of all objects that were read since
    /// [`Charges::begin_count`], `newest` tells the visible charge of an object if it differs from the journaled one. Returns
    /// the records that store this; `None` if the sums were forgotten, or objects counted, meanwhile.
    pub(crate) fn count(
        &mut self,
        tree: TreeId,
        range: Range<ObjectId>,
        found: BTreeMap<ObjectId, Charge>,
        newest: impl Fn(ObjectId) -> Option<Charge>,
    ) -> Option<Vec<Record>> {
        if self.counted != range.start {
            return None;
        }
        let mut all = found;
        all.extend(self.touched.take()?);
        let mut changed = Sums::new();
        for (object, charge) in all.into_iter().filter(|(o, _)| range.contains(o)) {
            let none = Charge::default();
            shift(&mut self.journaled, none, charge, |owner, sum| {
                changed.insert(owner, sum);
            });
            let visible = newest(object).unwrap_or(charge);
            shift(&mut self.visible, none, visible, |_, _| {});
        }
        self.counted = range.end;
        let sums = changed.into_iter();
        let mut records: Vec<_> = sums.map(|(o, sum)| record_of(tree, o, sum)).collect();
        let progress = Value::Inline(encode_counted(range.end));
        records.push(Record::Put(tree, counted_key(), progress));
        Some(records)
    }
}
