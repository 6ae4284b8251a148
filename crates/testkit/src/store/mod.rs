//! A store in memory: the slow model of a dataset below a filesystem, with the least that [`Store`] promises.
//!
//! **Owns** [`MemoryStore`], [`Durables`] and [`check()`], which judges them. **Called by** the tests of filesystems, the simulator,
//! and the mount that foreign suites judge. **Invariants**: bytes behind the end of a file stay where the trait allows it; other tasks run at every step; each
//! remembered state is one that a crash may leave.

mod check;

pub use check::{check, check_charges};

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use backend::file::permission::AclRules;
use backend::file::{FileError, FileResult, Seek};
use backend::{Durable, Waived};
use io::rng::Prng;
use io::{Payload, SharedBuf};
use pool::filesystem::{AccessTimes, Edit, Purpose, Settings, Store, StoreSpace, Transaction};
use pool::format::filesystem::{Charge, Inode, inode_key};
use pool::format::{Key, ObjectId, Sync};

/// Size of a block of contents, bytes.
pub const BLOCK: u64 = 4096;
const RECORD: u64 = 16 << 10;

/// Bytes that the store has for contents, unless a test says otherwise.
const SPACE: u64 = 64 << 20;

/// All that a crash keeps, if it happens right after a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durables {
    /// Values by key, inodes excepted.
    pub values: BTreeMap<Key, Vec<u8>>,
    /// Inodes by object; [`Inode::used`] is not kept.
    pub inodes: BTreeMap<ObjectId, Inode>,
    /// Contents by object and number of the block.
    pub blocks: BTreeMap<(ObjectId, u64), Vec<u8>>,
}

struct Commits {
    now: Durables,
    /// The states after each transaction, if they are remembered.
    history: Option<Vec<Durables>>,
    settings: Settings,
    space: u64,
    /// Whether transactions that take space are refused.
    is_full: bool,
    /// Requests for durability.
    flushes: u64,
    /// The largest number of stored contents that one transaction dropped, blocks.
    dropped_max: u64,
    rng: Prng,
}

/// A store in memory; clones share it.
#[derive(Clone)]
pub struct MemoryStore(Arc<Mutex<Commits>>);

struct ByTest;
impl Waived for ByTest {}

impl Durables {
    fn is_used(&self, object: ObjectId, block: u64) -> bool {
        self.blocks.contains_key(&(object, block))
    }

    fn blocks_of(&self, object: ObjectId) -> Range<(ObjectId, u64)> {
        (object, 0)..(ObjectId(object.0 + 1), 0)
    }

    fn read(&self, object: ObjectId, bytes: Range<u64>) -> Vec<u8> {
        let mut out = vec![0; (bytes.end - bytes.start) as usize];
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            if let Some(contents) = self.blocks.get(&(object, block)) {
                let start = (block * BLOCK).max(bytes.start);
                let end = ((block + 1) * BLOCK).min(bytes.end);
                let within = (start - block * BLOCK) as usize..(end - block * BLOCK) as usize;
                out[(start - bytes.start) as usize..(end - bytes.start) as usize]
                    .copy_from_slice(&contents[within]);
            }
        }
        out
    }

    fn write(&mut self, object: ObjectId, offset: u64, data: &[u8]) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let block = at / BLOCK;
            let from = (at % BLOCK) as usize;
            let len = rest.len().min(BLOCK as usize - from);
            let contents = self.blocks.entry((object, block));
            let contents = contents.or_insert_with(|| vec![0; BLOCK as usize]);
            contents[from..from + len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            at += len as u64;
        }
    }

    /// Zeroes bytes; whole blocks of them are freed.
    fn zero(&mut self, object: ObjectId, bytes: Range<u64>) {
        let blocks = self
            .blocks
            .range_mut((object, bytes.start / BLOCK)..(object, bytes.end.div_ceil(BLOCK)));
        let mut freed = Vec::new();
        for ((_, block), contents) in blocks {
            let start = (block * BLOCK).max(bytes.start);
            let end = ((block + 1) * BLOCK).min(bytes.end);
            contents[(start - block * BLOCK) as usize..(end - block * BLOCK) as usize].fill(0);
            if end - start == BLOCK {
                freed.push(*block);
            }
        }
        for block in freed {
            self.blocks.remove(&(object, block));
        }
    }

    fn edit(&mut self, edit: Edit) -> u64 {
        match edit {
            Edit::Put(key, value) => {
                self.values.insert(key, value.into());
            }
            Edit::PutInode(object, inode) => {
                // Encoding checks the values.
                let decoded = Inode::decode(&inode.encode()).expect("an inode");
                self.inodes.insert(object, decoded);
            }
            Edit::Charged(..) => {}
            Edit::Delete(key) => {
                self.values.remove(&key);
            }
            Edit::DeleteRange(keys) => {
                self.values.retain(|key, _| !keys.contains(key));
                self.inodes
                    .retain(|object, _| !keys.contains(&inode_key(*object)));
            }
            Edit::Discard(object, bytes) => {
                // Whole records only: the rest may stay.
                let first = bytes.start.div_ceil(RECORD) * (RECORD / BLOCK);
                let end = match bytes.end {
                    u64::MAX => u64::MAX,
                    end => end / RECORD * (RECORD / BLOCK),
                };
                let all = self.blocks.range((object, first)..(object, end.max(first)));
                let all: Vec<_> = all.map(|(key, _)| *key).collect();
                for key in &all {
                    self.blocks.remove(key);
                }
                return all.len() as u64;
            }
        }
        0
    }
}

impl Commits {
    fn apply(&mut self, transaction: Transaction) {
        let mut dropped = 0;
        for edit in transaction.into_edits() {
            dropped += self.now.edit(edit);
        }
        self.dropped_max = self.dropped_max.max(dropped);
        self.remember();
    }

    fn remember(&mut self) {
        if let Some(history) = &mut self.history {
            history.push(self.now.clone());
        }
    }

    fn used(&self) -> u64 {
        self.now.blocks.len() as u64 * BLOCK
    }

    fn inode(&self, object: ObjectId) -> Option<Inode> {
        let mut inode = *self.now.inodes.get(&object)?;
        let blocks = self.now.blocks.range(self.now.blocks_of(object));
        let visible = blocks.filter(|((_, block), _)| block * BLOCK < inode.size);
        inode.used = visible.count() as u64 * BLOCK;
        Some(inode)
    }
}

impl MemoryStore {
    /// An empty store of 64 MiB. `seed` decides the steps at which other tasks run.
    pub fn new(seed: u64) -> Self {
        Self::with(Durables::default(), seed)
    }

    /// The store after a crash.
    pub fn with(now: Durables, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Commits {
            now,
            history: None,
            settings: Settings {
                is_read_only: false,
                record_size: RECORD as u32,
                base_record_size: RECORD as u32,
                sync: Sync::Standard,
                access_times: AccessTimes::Relative,
                has_acls: true,
                acl_rules: AclRules::default(),
                has_xattrs: true,
                change_floor: 0,
            },
            space: SPACE,
            is_full: false,
            flushes: 0,
            dropped_max: 0,
            rng: Prng::new(seed),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Commits> {
        self.0.lock().expect("no test panics with it")
    }

    /// All that a crash would keep now.
    pub fn now(&self) -> Durables {
        self.lock().now.clone()
    }

    /// Changes the settings.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.lock().settings);
    }

    /// Sets the bytes that contents may take.
    pub fn set_space(&self, bytes: u64) {
        self.lock().space = bytes;
    }

    /// Sets whether transactions that take space are refused.
    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// Changes what is stored, behind the back of the filesystem.
    pub fn tamper(&self, change: impl FnOnce(&mut Durables)) {
        change(&mut self.lock().now);
    }

    /// Begins to remember the state after each transaction.
    pub fn remember(&self) {
        let mut state = self.lock();
        state.history = Some(vec![state.now.clone()]);
    }

    /// The remembered states, the oldest first.
    ///
    /// # Panics
    /// If none is remembered.
    pub fn history(&self) -> Vec<Durables> {
        self.lock().history.clone().expect("it was remembered")
    }

    /// The number of requests for durability.
    pub fn flushes(&self) -> u64 {
        self.lock().flushes
    }

    /// The largest number of blocks that one transaction dropped.
    pub fn dropped_max(&self) -> u64 {
        self.lock().dropped_max
    }

    /// Lets other tasks run.
    async fn pause(&self) {
        let times = self.lock().rng.below(3);
        for _ in 0..times {
            io::yield_now().await;
        }
    }

    fn put(&self, object: ObjectId, offset: u64, data: &[u8]) -> FileResult<()> {
        let mut state = self.lock();
        let blocks = offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK);
        let new = blocks.filter(|block| !state.now.is_used(object, *block));
        if (state.is_full || new.count() as u64 * BLOCK > state.space - state.used())
            && !data.is_empty()
        {
            return Err(FileError::NoSpace);
        }
        state.now.write(object, offset, data);
        Ok(())
    }
}

impl Store for MemoryStore {
    /// Bytes that were admitted.
    type Admitted = usize;

    fn settings(&self) -> Settings {
        self.lock().settings
    }

    fn space(&self) -> StoreSpace {
        let state = self.lock();
        StoreSpace {
            used: state.used(),
            available: state.space - state.used(),
        }
    }

    async fn inode(&self, object: ObjectId) -> FileResult<Option<Inode>> {
        self.pause().await;
        Ok(self.lock().inode(object))
    }

    async fn get(&self, key: Key) -> FileResult<Option<Vec<u8>>> {
        self.pause().await;
        Ok(self.lock().now.values.get(&key).cloned())
    }

    async fn scan(&self, keys: Range<Key>, max: usize) -> FileResult<Vec<(Key, Vec<u8>)>> {
        self.pause().await;
        let state = self.lock();
        let found = state.now.values.range(keys).take(max);
        Ok(found.map(|(key, value)| (*key, value.clone())).collect())
    }

    fn is_used_up(&self, _owners: Charge) -> bool {
        false
    }

    async fn admit(&self, bytes: usize, purpose: Purpose) -> FileResult<usize> {
        self.pause().await;
        match self.lock().is_full && purpose == Purpose::Use {
            true => Err(FileError::NoSpace),
            false => Ok(bytes),
        }
    }

    fn apply(&self, transaction: Transaction, admitted: usize) -> FileResult<()> {
        assert!(transaction.bytes() <= admitted, "more than was admitted");
        self.lock().apply(transaction);
        Ok(())
    }

    async fn read(&self, object: ObjectId, bytes: Range<u64>) -> FileResult<Payload> {
        self.pause().await;
        Ok(Payload::from(self.lock().now.read(object, bytes)))
    }

    async fn write(
        &self,
        object: ObjectId,
        inode: Inode,
        offset: u64,
        data: SharedBuf,
        _is_urgent: bool,
    ) -> FileResult<()> {
        self.pause().await;
        let before = self.lock().now.inodes[&object].size;
        if before < offset {
            let end = before.next_multiple_of(RECORD).min(offset);
            self.lock().now.zero(object, before..end);
        }
        let mut at = 0;
        while at < data.len() {
            let from = offset + at as u64;
            let len = (RECORD - from % RECORD).min((data.len() - at) as u64) as usize;
            self.put(object, from, &data[at..at + len])?;
            at += len;
            if at < data.len() {
                self.pause().await;
            }
        }
        let mut state = self.lock();
        state.now.inodes.insert(object, inode);
        state.remember();
        Ok(())
    }

    async fn clear(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        transaction: Transaction,
    ) -> FileResult<()> {
        self.pause().await;
        let mut state = self.lock();
        state.now.zero(object, bytes);
        state.apply(transaction);
        Ok(())
    }

    async fn count(&self, object: ObjectId, size: u64) -> FileResult<(Inode, u64)> {
        self.pause().await;
        let state = self.lock();
        let inode = state.inode(object).ok_or(FileError::Stale)?;
        let kept = state.now.blocks.range(state.now.blocks_of(object));
        let kept = kept.filter(|((_, block), _)| block * BLOCK < size);
        Ok((inode, kept.count() as u64 * BLOCK))
    }

    async fn seek(&self, object: ObjectId, bytes: Range<u64>, to: Seek) -> FileResult<Option<u64>> {
        self.pause().await;
        let state = self.lock();
        let first = bytes.start / BLOCK;
        let block = match to {
            Seek::Data => {
                let from = (object, first)..(ObjectId(object.0 + 1), 0);
                state.now.blocks.range(from).next().map(|((_, b), _)| *b)
            }
            Seek::Hole => (first..).find(|block| !state.now.is_used(object, *block)),
        };
        let found = block.map(|block| (block * BLOCK).max(bytes.start));
        Ok(found.filter(|found| *found < bytes.end))
    }

    async fn durable(&self, _of: Option<ObjectId>) -> FileResult<Durable> {
        self.pause().await;
        self.lock().flushes += 1;
        Ok(Durable::waived(ByTest))
    }
}
