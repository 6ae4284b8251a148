//! Transactions of a filesystem: admission, and application in one step.
//!
//! **Owns** the conversion of edits into staged steps. **Called by** the store. **Invariants**: a transaction is applied under one
//! lock; an inode goes to the journal with a size that its data has ([`crate::dataset`], tails).

use std::ops::Range;
use std::sync::Arc;

use backend::file::{FileError, FileResult};

use super::FileStore;
use crate::Error;
use crate::dataset::{
    Move, OpenDataset, RECORDS_END, STAGED_LAZY_BYTES, StagedTransaction, State, blocks_of,
    data_keys, fragments_of,
};
use crate::filesystem::{Edit, Purpose, Transaction};
use crate::format::filesystem::{
    Charge, ChargeEntry, FileOwner, HEADER_OBJECT, Inode, KIND_HEADER, decode_charge, inode_key,
    record_size_of,
};
use crate::format::{Key, ObjectId, Record, TreeId, Value};
use io::sync::lock;

/// Space that a byte of a transaction may take: leaves of which a third is used.
const SPACE_PER_BYTE: u64 = 3;

/// Offset of a value of the header's object that no filesystem has.
const NO_VALUE: u64 = Key::OFFSET_END - 1;

/// Staged bytes at which a transaction that needs no space waits until the journal has them.
const STAGED_MAX: usize = 4 << 20;

/// Space and memory that was set aside for a change. Dropping it gives it back.
pub struct AdmittedBytes {
    of: Arc<OpenDataset>,
    bytes: u64,
}

impl AdmittedBytes {
    /// The bytes, which the caller keeps account of from now on.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }

    /// Takes a part of the bytes.
    pub(super) fn split(&mut self, bytes: u64) -> Self {
        self.bytes -= bytes;
        let of = self.of.clone();
        Self { of, bytes }
    }
}

impl Drop for AdmittedBytes {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.of.shared.budget.replaced(self.of.id, self.bytes);
        }
    }
}

/// Bytes of the write budget for a transaction of `bytes` bytes in the journal.
pub(super) fn cost(bytes: usize) -> u64 {
    bytes as u64 * SPACE_PER_BYTE
}

impl FileStore {
    /// Waits for memory and space for a transaction of this many bytes.
    pub(super) async fn admit_transaction(
        &self,
        bytes: usize,
        purpose: Purpose,
    ) -> FileResult<AdmittedBytes> {
        self.come().await?;
        if bytes > self.0.shared.append_max {
            return Err(Error::BatchTooLarge { bytes }.into());
        }
        self.begin_changes().await?;
        if purpose == Purpose::Release {
            if lock(&self.0.state).staged.bytes() > STAGED_MAX {
                let _proof = self.0.durable(false).await?;
            }
            return Ok(self.admitted(0));
        }
        self.admit_bytes(cost(bytes)).await
    }

    /// Before the first change since the pool's opening: makes its epoch durable, since `change` of each changed object is told
    /// with it (`docs/decisions/0324`). The batch deletes a value that no filesystem has.
    pub(super) async fn begin_changes(&self) -> FileResult<()> {
        if self.0.shared.is_epoch_durable() {
            return Ok(());
        }
        let mut nothing = Transaction::new();
        nothing.delete(Key::new(HEADER_OBJECT, KIND_HEADER, NO_VALUE));
        self.apply_transaction(nothing, self.admitted(0))?;
        let _proof = self.0.durable(false).await?;
        self.0.shared.epoch_is_durable();
        Ok(())
    }

    fn admitted(&self, bytes: u64) -> AdmittedBytes {
        let of = self.0.clone();
        AdmittedBytes { of, bytes }
    }

    /// Waits for memory and space.
    pub(super) async fn admit_bytes(&self, bytes: u64) -> FileResult<AdmittedBytes> {
        self.0.shared.admit(self.0.id, bytes).await?.keep();
        Ok(self.admitted(bytes))
    }

    /// Applies a transaction that was admitted.
    pub(super) fn apply_transaction(
        &self,
        transaction: Transaction,
        admitted: AdmittedBytes,
    ) -> FileResult<()> {
        let (replaced, wake) = {
            let mut state = lock(&self.0.state);
            check_usable(&state)?;
            check_quotas(&state, &transaction)?;
            let replaced = self.stage(&mut state, transaction, admitted);
            (replaced, state.staged.bytes() >= STAGED_LAZY_BYTES)
        };
        self.told(replaced, wake);
        Ok(())
    }

    /// Gives back the admission of dirty records that a change replaced, and wakes the owner.
    pub(super) fn told(&self, replaced: usize, wake: bool) {
        if replaced > 0 {
            self.0.shared.budget.replaced(self.0.id, replaced as u64);
        }
        if wake {
            self.0.shared.bell.ring();
        }
    }

    /// The space of files became less by `freed` bytes, of which `replaced` were never written.
    pub(super) fn note_freed(&self, freed: u64, replaced: usize) {
        let freed = freed.saturating_sub(replaced as u64);
        if freed > 0 {
            self.0.shared.budget.freed(self.0.id, freed);
        }
    }

    /// Stages a transaction. Returns the bytes of dirty records that it removes.
    pub(super) fn stage(
        &self,
        state: &mut State,
        transaction: Transaction,
        mut admitted: AdmittedBytes,
    ) -> usize {
        let mut staging = Staging {
            state,
            tree: self.0.id,
            base: self.0.settings.record_size,
            records: Vec::new(),
            replaced: 0,
            freed: 0,
            charged: None,
        };
        for edit in transaction.into_edits() {
            staging.edit(edit);
        }
        let Staging {
            records,
            replaced,
            freed,
            ..
        } = staging;
        self.note_freed(freed, replaced);
        let admitted = admitted.take();
        state.staged.push(StagedTransaction { records, admitted });
        self.0.ask(state);
        replaced
    }
}

/// Errors: the dataset has ended, or has another tree now.
pub(super) fn check_usable(state: &State) -> FileResult<()> {
    state.demands.check()?;
    match state.charges.is_loaded() {
        true => Ok(()),
        false => Err(Error::Closed.into()),
    }
}

/// Errors: `Quota` if an owner would get space beyond its quota.
pub(super) fn check_quotas(state: &State, transaction: &Transaction) -> FileResult<()> {
    let mut known = None;
    for edit in transaction.edits() {
        match edit {
            Edit::Charged(object, before) => known = Some((*object, *before)),
            Edit::PutInode(object, inode) => {
                let before = known.filter(|(of, _)| of == object);
                let fits = |(_, before)| state.charges.fits(before, Charge::of(inode));
                if !before.is_none_or(fits) {
                    return Err(FileError::Quota);
                }
            }
            Edit::Put(..) | Edit::Delete(_) | Edit::DeleteRange(_) | Edit::Discard(..) => {}
        }
    }
    Ok(())
}

/// A transaction that is being staged.
struct Staging<'a> {
    state: &'a mut State,
    tree: TreeId,
    /// Bytes of a record of files without a size of their own.
    base: u32,
    records: Vec<Record>,
    /// Bytes of dirty records that were removed.
    replaced: usize,
    /// Bytes by which the space of files became less.
    freed: u64,
    /// The charge of an object before the transaction.
    charged: Option<(ObjectId, Charge)>,
}

impl Staging<'_> {
    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Put(key, value) => {
                // contents of a small file replace a dirty record
                self.replaced += self.state.dirty.forget_range(key..key.next());
                // a hole that is not written back yet would hide them, and delete them later
                self.state.dirty.forget_zeroes(key..key.next());
                if let Ok(Some(ChargeEntry::Quota(owner, bytes))) = decode_charge(key, &value) {
                    self.state.charges.set_quota(owner, bytes);
                }
                self.put(key, value);
            }
            Edit::Charged(object, before) => self.charged = Some((object, before)),
            Edit::PutInode(object, inode) => self.put_inode(object, inode),
            Edit::Delete(key) => {
                if let Some(owner) = FileOwner::of_quota(key) {
                    self.state.charges.set_quota(owner, 0);
                }
                self.records.push(Record::Delete(self.tree, key));
            }
            Edit::DeleteRange(keys) => {
                self.replaced += self.state.dirty.forget_range(keys.clone());
                let first = match inode_key(keys.start.object()) < keys.start {
                    true => ObjectId(keys.start.object().0 + 1),
                    false => keys.start.object(),
                };
                let end = match inode_key(keys.end.object()) < keys.end {
                    true => ObjectId(keys.end.object().0 + 1),
                    false => keys.end.object(),
                };
                if first < end {
                    if let Some((object, before)) = self.charged
                        && (first..end).contains(&object)
                    {
                        self.charge(object, before, Charge::default());
                    }
                    self.state.tails.forget(first..end);
                }
                self.delete(keys);
            }
            Edit::Discard(object, bytes) => self.discard(object, &bytes),
        }
    }

    fn put(&mut self, key: Key, value: Box<[u8]>) {
        let record = Record::Put(self.tree, key, Value::Inline(value));
        self.records.push(record);
    }

    fn delete(&mut self, keys: Range<Key>) {
        if !keys.is_empty() {
            self.records.push(Record::DeleteRange(self.tree, keys));
        }
    }

    /// An object's owners or space change. `before` is its charge before, if it has no tail.
    fn charge(&mut self, object: ObjectId, before: Charge, after: Charge) {
        let State { tails, charges, .. } = &mut *self.state;
        let seen = tails.get(object).map_or(before, Charge::of);
        self.freed += seen.used.saturating_sub(after.used);
        charges.see(Move {
            object,
            before: seen,
            after,
        });
        let change = Move {
            object,
            before: tails.charged(object).unwrap_or(before),
            after,
        };
        charges.journal(self.tree, change, &mut self.records);
    }

    fn put_inode(&mut self, object: ObjectId, inode: Inode) {
        let known = self.charged.filter(|(of, _)| *of == object);
        let before = known.map_or(Charge::of(&inode), |(_, before)| before);
        self.charge(object, before, Charge::of(&inode));
        let dirty = &self.state.dirty;
        let tails = &mut self.state.tails;
        let journaled = tails.set(dirty, self.base, object, inode);
        let value = journaled.encode();
        self.put(inode_key(object), value);
    }

    /// Whole records in a range of bytes become holes.
    fn discard(&mut self, object: ObjectId, bytes: &Range<u64>) {
        let size = u64::from(record_size_of(object, self.base));
        let end = match bytes.end {
            u64::MAX => RECORDS_END,
            end => end / size,
        };
        let keys = data_keys(object, bytes.start.div_ceil(size)..end);
        if keys.start >= keys.end {
            return;
        }
        let blocks = blocks_of(&keys, self.base);
        for keys in [blocks, keys] {
            self.replaced += self.state.dirty.forget_range(keys.clone());
            self.delete(fragments_of(&keys));
            self.delete(keys);
        }
    }
}
