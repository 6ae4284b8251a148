//! Space by owner: reading it, counting it in a filesystem of an earlier release, and quotas of users and groups.
//!
//! **Owns** these requests. **Called by** changes of a filesystem, which need the sums in memory, and by requests of the pool's
//! users. **Invariants**: each step of counting is one transaction with its progress, so that a crash loses no step and repeats
//! none; a step has a bounded number of entries.

use std::collections::BTreeMap;

use backend::StorageError;
use backend::file::{FileError, FileResult};

use super::FileStore;
use super::transactions::check_usable;
use crate::dataset::{Loaded, StagedTransaction};
use crate::filesystem::{Purpose, Store as _, Transaction};
use crate::format::filesystem::{
    Charge, FileOwner, INODE_SIZE, Inode, OBJECT_END, charge_keys, counted_key, decode_charge,
    decode_counted, encode_charge, inode_key,
};
use crate::format::{Defect, FEATURE_EXACT_SPACE, FEATURE_OWNER_SPACE, Key, Kind, ObjectId, Value};
use io::sync::lock;

/// Entries of the tree that one step of counting reads.
const COUNT_STEP: usize = 512;

/// Space and quota of a user or group, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerSpace {
    /// The user or group.
    pub owner: FileOwner,
    /// Bytes that the data of its files takes, before compression.
    pub used: u64,
    /// Most bytes that they may take; 0 for no limit.
    pub quota: u64,
}

impl FileStore {
    fn damaged(&self, defect: &Defect) -> FileError {
        tracing::warn!(dataset = self.0.id.0, %defect, "damaged space by owner");
        FileError::Storage(StorageError::Corrupt)
    }

    async fn read_charges(&self) -> FileResult<Loaded> {
        let mut loaded = Loaded::default();
        if let Some(bytes) = self.get(counted_key()).await? {
            loaded.counted = decode_counted(&bytes).map_err(|d| self.damaged(&d))?;
        }
        for (key, bytes) in self.scan(charge_keys(), usize::MAX).await? {
            let entry = decode_charge(key, &bytes).map_err(|d| self.damaged(&d))?;
            entry.into_iter().for_each(|entry| loaded.add(entry));
        }
        Ok(loaded)
    }

    /// Reads the sums, before the first change.
    pub(super) async fn load_charges(&self) -> FileResult<()> {
        // before the first inode that says whether its space is exact
        self.0.shared.vdevs.require(FEATURE_EXACT_SPACE).await?;
        let incarnation = lock(&self.0.state).charges.incarnation();
        let loaded = self.read_charges().await?;
        lock(&self.0.state).charges.load(incarnation, loaded);
        Ok(())
    }

    /// Space and quotas of all users and groups that have one of them, by number, users first. `None` if not all files are
    /// counted yet: [`FileStore::count_owners`].
    ///
    /// # Errors
    /// Those of the medium.
    pub async fn owner_spaces(&self) -> FileResult<Option<Vec<OwnerSpace>>> {
        let from_memory = {
            let state = lock(&self.0.state);
            let charges = &state.charges;
            charges
                .is_loaded()
                .then(|| (charges.is_complete(), charges.by_owner()))
        };
        let (is_complete, all) = match from_memory {
            Some(found) => found,
            None => {
                let mut charges = crate::dataset::Charges::default();
                charges.load(charges.incarnation(), self.read_charges().await?);
                (charges.is_complete(), charges.by_owner())
            }
        };
        let space = |(owner, (used, quota))| OwnerSpace { owner, used, quota };
        Ok(is_complete.then(|| all.into_iter().map(space).collect()))
    }

    /// Sets the most bytes that the files of a user or group may take, 0 for no limit. Durable when this returns. A quota
    /// below the used bytes only stops what needs more. Files that are not counted yet do not count.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, those of the medium.
    pub async fn set_owner_quota(&self, owner: FileOwner, bytes: u64) -> FileResult<()> {
        self.require_owner_space().await?;
        let mut transaction = Transaction::new();
        match bytes {
            0 => transaction.delete(owner.quota_key()),
            bytes => transaction.put(owner.quota_key(), encode_charge(bytes)),
        };
        let bytes = transaction.bytes();
        let admitted = self.admit_transaction(bytes, Purpose::Use).await?;
        self.apply_transaction(transaction, admitted)?;
        let _proof = self.0.durable(false).await?;
        Ok(())
    }

    async fn require_owner_space(&self) -> FileResult<()> {
        Ok(self.0.shared.vdevs.require(FEATURE_OWNER_SPACE).await?)
    }

    /// Counts the space of all files that are in no sum yet: those of a filesystem of an earlier release. Files may be changed
    /// meanwhile. What was counted stays counted if this is interrupted.
    ///
    /// # Errors
    /// `ReadOnly`, those of the medium.
    pub async fn count_owners(&self) -> FileResult<()> {
        loop {
            self.come().await?;
            let counted = {
                let charges = &lock(&self.0.state).charges;
                if charges.is_complete() {
                    return Ok(());
                }
                charges.counted()
            };
            self.require_owner_space().await?;
            self.count_step(counted).await?;
            io::yield_now().await;
        }
    }

    /// Counts some objects from this one on.
    async fn count_step(&self, from: ObjectId) -> FileResult<()> {
        lock(&self.0.state).charges.begin_count();
        let keys = Key::new(from, Kind(0), 0)..Key::new(ObjectId(OBJECT_END), Kind(0), 0);
        let entries = self.values(keys, COUNT_STEP, |_, _| true).await?;
        let mut found = BTreeMap::new();
        let mut add = |object: ObjectId, bytes: &[u8]| {
            let inode = Inode::decode(bytes).map_err(|d| self.damaged(&d))?;
            found.insert(object, Charge::of(&inode));
            Ok::<_, FileError>(())
        };
        let last = entries.last().map(|(key, _)| key.object());
        for (key, value) in &entries {
            if let (true, Value::Inline(bytes)) = (*key == inode_key(key.object()), value) {
                add(key.object(), bytes)?;
            }
        }
        let end = match last.filter(|_| entries.len() == COUNT_STEP) {
            None => ObjectId(OBJECT_END),
            Some(last) => {
                // its inode may lie behind many records
                if let Some(Value::Inline(bytes)) = self.value(inode_key(last)).await? {
                    add(last, &bytes)?;
                }
                ObjectId(last.0 + 1)
            }
        };
        let bytes = found.len() * INODE_SIZE;
        let mut admitted = self.admit_transaction(bytes, Purpose::Release).await?;
        let mut state = lock(&self.0.state);
        check_usable(&state)?;
        let state = &mut *state;
        let tails = &state.tails;
        let newest = |object| tails.get(object).map(Charge::of);
        if let Some(records) = state.charges.count(self.0.id, from..end, found, newest) {
            let admitted = admitted.take();
            state.staged.push(StagedTransaction { records, admitted });
            self.0.ask(state);
        }
        Ok(())
    }
}
