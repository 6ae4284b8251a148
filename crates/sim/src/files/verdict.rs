//! The verdict on a state: whether it may be there after a crash, or in a snapshot.
//!
//! **Owns** the comparison of an [`Image`] with a [`History`]. **Called by** scenario `files`. **Invariant**: a state passes only
//! if all its values are those after one prefix of the transactions, and if each inode and each block of 4 KiB is one that this
//! prefix allows.

use super::history::{History, Mark, RecordState};
use super::image::Image;
use crate::model::Violation;
use pool::filesystem::Edit;
use pool::format::filesystem::{BLOCK_SIZE, Inode, InodeFlags, KIND_GROUP_SPACE, KIND_USER_SPACE};
use pool::format::{Key, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

/// Keys that a message names at most.
const NAMED: usize = 4;

/// The moments between which a state was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    /// All before it is in the state; in place of the requests for durability.
    pub(super) floor: Option<Mark>,
    /// Nothing behind it is in the state.
    pub(super) end: Mark,
    /// Whether data in memory counts, so that sizes are the true ones.
    pub(super) is_exact: bool,
}

/// The values after a prefix of the transactions, and the keys in which the found ones differ.
struct Replay<'a> {
    values: BTreeMap<Key, &'a [u8]>,
    found: &'a BTreeMap<Key, Vec<u8>>,
    differ: BTreeSet<Key>,
}

impl<'a> Replay<'a> {
    fn new(history: &'a History, found: &'a Image) -> Self {
        let base = &history.base.state.values;
        let found = &found.state.values;
        let values = base.iter().map(|(key, value)| (*key, &value[..]));
        let mut replay = Replay {
            values: values.collect(),
            found,
            differ: BTreeSet::new(),
        };
        for key in base.keys().chain(found.keys()) {
            replay.compare(*key);
        }
        replay
    }

    /// Compares a value. The space of owners is no change of its own: it follows the inodes.
    fn compare(&mut self, key: Key) {
        if [KIND_USER_SPACE, KIND_GROUP_SPACE].contains(&key.kind()) {
            return;
        }
        let found = self.found.get(&key).map(|value| &value[..]);
        match self.values.get(&key).copied() == found {
            true => self.differ.remove(&key),
            false => self.differ.insert(key),
        };
    }

    fn apply(&mut self, edit: &'a Edit) {
        match edit {
            Edit::Put(key, value) => {
                self.values.insert(*key, value);
                self.compare(*key);
            }
            Edit::Delete(key) => {
                self.values.remove(key);
                self.compare(*key);
            }
            Edit::DeleteRange(keys) => {
                let gone = self.values.range(keys.clone()).map(|(key, _)| *key);
                for key in gone.collect::<Vec<_>>() {
                    self.values.remove(&key);
                    self.compare(key);
                }
            }
            Edit::PutInode(..) | Edit::Charged(..) | Edit::Discard(..) => {}
        }
    }
}

/// An inode without its size, the space of its data, and the mark of blocks, which follow the data.
fn without_size(inode: &Inode) -> Inode {
    Inode {
        size: 0,
        used: 0,
        flags: inode
            .flags
            .without(InodeFlags::BLOCKS.with(InodeFlags::COUNTED)),
        ..*inode
    }
}

impl History {
    /// Checks a state that was found. Returns the number of transactions that it has.
    pub(super) fn judge(&self, found: &Image, between: Between) -> Result<usize, Violation> {
        let floor = between.floor.map(|mark| mark.transactions);
        let floor = floor.unwrap_or(self.durable_transactions());
        let mut replay = Replay::new(self, found);
        let mut wrong = None;
        let mut nearest: Option<(usize, BTreeSet<Key>)> = None;
        for transactions in 0..=between.end.transactions {
            if let Some(last) = transactions.checked_sub(1) {
                self.log[last].iter().for_each(|edit| replay.apply(edit));
            }
            if transactions < floor {
                continue;
            }
            if replay.differ.is_empty() {
                match self.judge_objects(found, transactions, between) {
                    Ok(()) => return Ok(transactions),
                    Err(violation) => wrong = wrong.or(Some(violation)),
                }
            } else if nearest
                .as_ref()
                .is_none_or(|(_, keys)| replay.differ.len() < keys.len())
            {
                nearest = Some((transactions, replay.differ.clone()));
            }
        }
        let end = between.end.transactions;
        Err(wrong.unwrap_or_else(|| {
            let (at, keys) = nearest.unwrap_or_default();
            let named: Vec<_> = keys.iter().take(NAMED).collect();
            Violation(format!(
                "no state between transactions {floor} and {end} has these values; that after {at} differs in {} keys: {named:?}",
                keys.len()
            ))
        }))
    }

    fn durable_for(&self, object: ObjectId, between: Between) -> u64 {
        let floor = between.floor.map(|mark| mark.version);
        floor.unwrap_or_else(|| self.durable_version(object))
    }

    fn judge_objects(
        &self,
        found: &Image,
        transactions: usize,
        between: Between,
    ) -> Result<(), Violation> {
        let known = self.inodes.keys().chain(found.state.inodes.keys());
        for object in known.copied().collect::<BTreeSet<_>>() {
            let inode = found.state.inodes.get(&object);
            self.judge_inode(object, (inode, found.change_floor), transactions, between)?;
        }
        for (object, contents) in &found.contents {
            self.judge_contents(*object, contents, transactions, between)?;
        }
        Ok(())
    }

    fn judge_inode(
        &self,
        object: ObjectId,
        (found, change_floor): (Option<&Inode>, u64),
        transactions: usize,
        between: Between,
    ) -> Result<(), Violation> {
        let wrong = |why: String| {
            let between = format!("after {transactions} transactions");
            Violation(format!("{object:?} {between}: {why}"))
        };
        let change_floor = change_floor.max(self.base.change_floor);
        let Some(versions) = self.inodes.get(&object) else {
            return Err(wrong(format!("{found:?} was never there")));
        };
        let floor = self.durable_for(object, between);
        let mut possible = versions.possible(transactions, floor, between.end.version);
        // An opening raises every `change`, and a snapshot has the values of before.
        let raised = |inode: &Inode| Inode {
            change: inode.change.max(change_floor),
            ..without_size(inode)
        };
        let is_same = |version: &&Option<Inode>| version.as_ref().map(raised) == found.map(raised);
        let Some(version) = possible.find(is_same) else {
            let possible: Vec<_> = versions
                .possible(transactions, floor, between.end.version)
                .collect();
            return Err(wrong(format!("{found:?} is none of {possible:?}")));
        };
        let (Some(version), Some(found)) = (version, found) else {
            return Ok(());
        };
        let sizes = versions.since(floor).iter();
        let sizes = sizes.map(|v| v.value.map_or(0, |inode| inode.size));
        let least = match between.is_exact {
            true => version.size,
            false => sizes.min().unwrap_or(0).min(version.size),
        };
        match (least..=version.size).contains(&found.size) {
            true => Ok(()),
            false => {
                let size = version.size;
                Err(wrong(format!(
                    "{} bytes, not {least} to {size}",
                    found.size
                )))
            }
        }
    }

    fn judge_contents(
        &self,
        object: ObjectId,
        found: &[u8],
        transactions: usize,
        between: Between,
    ) -> Result<(), Violation> {
        let floor = self.durable_for(object, between);
        let file = self.files.get(&object);
        let size = self.record_size(object);
        for (number, part) in found.chunks(size as usize).enumerate() {
            let versions = file.and_then(|file| file.records.get(&(number as u64)));
            let Some(versions) = versions else {
                return Err(Violation(format!("record {number} of {object:?} is new")));
            };
            let possible = versions.possible(transactions, floor, between.end.version);
            let possible: Vec<&RecordState> = possible.collect();
            // a small write is blocks beside the record, which leave by themselves
            for (block, piece) in part.chunks(BLOCK_SIZE as usize).enumerate() {
                let start = block * BLOCK_SIZE as usize;
                let end = number as u64 * size + (start + piece.len()) as u64;
                let has_piece = |state: &RecordState| state.bytes[start..][..piece.len()] == *piece;
                // the end of a file cuts what older versions have behind it
                let mut cut = u64::MAX;
                let is_known = possible.iter().rev().any(|state| {
                    let is_same = state.size.min(cut) >= end && has_piece(state);
                    if state.is_cut {
                        cut = cut.min(state.size);
                    }
                    is_same
                });
                if !is_known {
                    let all = versions.since(0).iter();
                    let same = all.filter(|v| has_piece(&v.value));
                    let same: Vec<_> = same.map(|v| (v.number, v.after)).collect();
                    let end_of = between.end;
                    return Err(Violation(format!(
                        "record {number} of {object:?} up to byte {end} is none of {} versions after {transactions} transactions; \
                         versions with these bytes are {same:?}, durable is {floor}, the end {end_of:?}",
                        possible.len(),
                    )));
                }
            }
        }
        Ok(())
    }
}
