//! The model of a filesystem's dataset: all changes since the last restart, in the order in which they were applied.
//!
//! The state after a crash must be the state after some prefix of the transactions, at least up to the last durable request.
//! For such a prefix, each inode and each record of a file is one of its *versions*. A version that a transaction made replaces
//! those before it as soon as the prefix has the transaction. A version that a write made is there or not, and only if all
//! transactions before the write are in the prefix: metadata is appended to the journal before any data that follows it.
//!
//! **Owns** [`History`], which [`Recorded`](super::recorded::Recorded) fills and [`verdict`](super::verdict) reads. **Called by**
//! scenario `files`. **Invariants**: a version is added in the same step as the change becomes visible; versions are in order.

use super::image::Image;
use pool::filesystem::Edit;
use pool::format::ObjectId;
use pool::format::filesystem::{Inode, inode_key, record_size_of};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A moment of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Number of the newest version.
    pub(super) version: u64,
    /// Number of transactions.
    pub(super) transactions: usize,
}

/// A version of an inode or of a record.
#[derive(Debug, Clone)]
pub(super) struct Version<T> {
    pub(super) number: u64,
    /// The fewest transactions of a state that has it.
    pub(super) after: usize,
    /// Whether a transaction made it, so that every state with the transaction has it or a newer one.
    pub(super) is_transaction: bool,
    pub(super) value: T,
}

/// The versions of one inode or record, oldest first. The first one is of the last restart.
#[derive(Debug, Clone)]
pub(super) struct Versions<T>(Vec<Version<T>>);

impl<T> Versions<T> {
    fn first(value: T) -> Self {
        Self(vec![Version {
            number: 0,
            after: 0,
            is_transaction: true,
            value,
        }])
    }

    fn newest(&self) -> &T {
        &self.0.last().expect("a first version").value
    }

    /// Those behind the newest durable one, and that one.
    pub(super) fn since(&self, floor: u64) -> &[Version<T>] {
        let first = self.0.iter().rposition(|v| v.number <= floor);
        &self.0[first.unwrap_or(0)..]
    }

    /// The versions that a state of `transactions` transactions may have, if those up to `floor` are durable and those behind
    /// `end` are too new.
    pub(super) fn possible(
        &self,
        transactions: usize,
        floor: u64,
        end: u64,
    ) -> impl Iterator<Item = &T> {
        let replaces =
            |v: &Version<T>| v.number <= floor || v.is_transaction && v.after <= transactions;
        let first = self.0.iter().rposition(replaces).unwrap_or(0);
        let rest = self.0[first..].iter();
        rest.filter(move |v| v.after <= transactions && v.number <= end)
            .map(|v| &v.value)
    }
}

/// Contents of a record, and the size of the file that it belonged to.
#[derive(Debug, Clone)]
pub(super) struct RecordState {
    /// All bytes of the record; zeroes behind the end of the file.
    pub(super) bytes: Arc<[u8]>,
    pub(super) size: u64,
    /// Whether the file was cut at `size`, so that no older version has bytes behind it.
    pub(super) is_cut: bool,
}

/// The kind of a change of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is written back later.
    Data,
    /// The file ends within the record now. What the dataset has of the record does not change.
    Cut,
    /// A transaction drops the record.
    Discard,
}

/// Contents of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) size: u64,
    pub(super) records: BTreeMap<u64, Versions<RecordState>>,
    /// Size at the last restart.
    pub(super) first_size: u64,
    /// Newest version that changed it.
    changed: u64,
}

/// See the module header.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// Bytes of a record of files without a size of their own.
    base_record_size: u32,
    pub(super) base: Arc<Image>,
    pub(super) log: Vec<Vec<Edit>>,
    pub(super) inodes: BTreeMap<ObjectId, Versions<Option<Inode>>>,
    pub(super) files: BTreeMap<ObjectId, File>,
    version: u64,
    /// What is durable of all objects.
    floor: Mark,
    /// Newest durable versions of single objects.
    floors: BTreeMap<ObjectId, u64>,
}

impl History {
    /// A filesystem after a restart.
    pub(super) fn new(base: Image, record_size: u32) -> Self {
        let inodes = base.state.inodes.iter();
        let inodes = inodes.map(|(object, inode)| (*object, Versions::first(Some(*inode))));
        let inodes = inodes.collect();
        let mut history = Self {
            base_record_size: record_size,
            log: Vec::new(),
            inodes,
            files: BTreeMap::new(),
            version: 0,
            floor: Mark::default(),
            floors: BTreeMap::new(),
            base: Arc::new(Image::default()),
        };
        for (object, contents) in &base.contents {
            let size = contents.len() as u64;
            let mut file = File {
                size,
                first_size: size,
                ..File::default()
            };
            let record_size = record_size_of(*object, record_size) as usize;
            for (number, part) in contents.chunks(record_size).enumerate() {
                let mut bytes = part.to_vec();
                bytes.resize(record_size, 0);
                let bytes = bytes.into();
                let first = Versions::first(RecordState {
                    bytes,
                    size,
                    is_cut: false,
                });
                file.records.insert(number as u64, first);
            }
            history.files.insert(*object, file);
        }
        history.base = Arc::new(base);
        history
    }

    /// Bytes of a record of a file.
    pub(super) fn record_size(&self, object: ObjectId) -> u64 {
        record_size_of(object, self.base_record_size).into()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            version: self.version,
            transactions: self.log.len(),
        }
    }

    /// All that was there at a mark is durable: of one object, or of all. Transactions are durable in order.
    pub(super) fn durable(&mut self, of: Option<ObjectId>, mark: Mark) {
        self.floor.transactions = self.floor.transactions.max(mark.transactions);
        match of {
            None => self.floor.version = self.floor.version.max(mark.version),
            Some(object) => {
                let floor = self.floors.entry(object).or_default();
                *floor = (*floor).max(mark.version);
            }
        }
    }

    /// Number of transactions that are durable.
    pub(super) fn durable_transactions(&self) -> usize {
        self.floor.transactions
    }

    /// Newest durable version of an object.
    pub(super) fn durable_version(&self, object: ObjectId) -> u64 {
        let own = self.floors.get(&object).copied();
        own.unwrap_or(0).max(self.floor.version)
    }

    /// The highest `change` that was told.
    pub(super) fn highest_change(&self) -> u64 {
        let versions = self.inodes.values().flat_map(|versions| versions.since(0));
        let changes = versions.filter_map(|version| Some(version.value?.change));
        changes.max().unwrap_or(0)
    }

    fn add_inode(&mut self, object: ObjectId, inode: Option<Inode>, is_transaction: bool) {
        self.version += 1;
        let version = Version {
            number: self.version,
            after: self.log.len(),
            is_transaction,
            value: inode,
        };
        let versions = self.inodes.entry(object);
        versions
            .or_insert_with(|| Versions::first(None))
            .0
            .push(version);
    }

    /// Adds versions of the records that hold these bytes; `change` makes the new contents of each from the newest ones, with
    /// zeroes behind the end of the file.
    fn change_records(
        &mut self,
        object: ObjectId,
        bytes: Range<u64>,
        new_size: u64,
        kind: Kind,
        change: impl Fn(u64, &mut [u8]),
    ) {
        let size = self.record_size(object);
        let after = self.log.len();
        let file = self.files.entry(object).or_default();
        if bytes.is_empty() {
            return;
        }
        for number in bytes.start / size..bytes.end.div_ceil(size) {
            self.version += 1;
            let start = number * size;
            let empty = RecordState {
                bytes: vec![0; size as usize].into(),
                size: file.first_size,
                is_cut: false,
            };
            let versions = file.records.entry(number);
            let versions = versions.or_insert_with(|| Versions::first(empty));
            let mut contents = versions.newest().bytes.to_vec();
            let kept = file.size.clamp(start, start + size) - start;
            contents[kept as usize..].fill(0);
            change(start, &mut contents);
            let value = RecordState {
                bytes: contents.into(),
                size: new_size,
                is_cut: kind == Kind::Cut,
            };
            versions.0.push(Version {
                number: self.version,
                after,
                is_transaction: kind == Kind::Discard,
                value,
            });
        }
        file.changed = self.version;
    }

    /// The size of a file becomes larger or smaller, without a write.
    fn resize(&mut self, object: ObjectId, new: u64) {
        let old = self.files.get(&object).map_or(0, |file| file.size);
        let cut = |start: u64, contents: &mut [u8]| {
            let kept = new.saturating_sub(start).min(contents.len() as u64);
            contents[kept as usize..].fill(0);
        };
        if new < old {
            let whole = new.next_multiple_of(self.record_size(object)).min(old);
            self.change_records(object, new..whole, new, Kind::Cut, cut);
            self.change_records(object, whole..old, new, Kind::Discard, cut);
        } else if old < new {
            self.change_records(object, old..new, new, Kind::Data, cut);
        }
        self.files.entry(object).or_default().size = new;
    }

    /// A transaction was applied.
    pub(super) fn applied(&mut self, edits: Vec<Edit>) {
        self.log.push(edits);
        let edits = self.log.last().expect("it was pushed").clone();
        for edit in edits {
            match edit {
                Edit::PutInode(object, inode) => {
                    self.add_inode(object, Some(inode), true);
                    if inode.kind == backend::file::FileKind::File {
                        self.resize(object, inode.size);
                    }
                }
                Edit::DeleteRange(keys) => {
                    let objects = self.inodes.range(keys.start.object()..);
                    let gone = objects
                        .map(|(object, _)| *object)
                        .take_while(|object| inode_key(*object) < keys.end)
                        .filter(|object| keys.contains(&inode_key(*object)));
                    for object in gone.collect::<Vec<_>>() {
                        self.add_inode(object, None, true);
                    }
                }
                // A discard is of bytes behind the end of the file.
                Edit::Discard(..) | Edit::Put(..) | Edit::Charged(..) | Edit::Delete(_) => {}
            }
        }
    }

    /// A write was applied.
    pub(super) fn wrote(&mut self, object: ObjectId, inode: Inode, offset: u64, data: &[u8]) {
        self.add_inode(object, Some(inode), false);
        let old = self.files.get(&object).map_or(0, |file| file.size);
        let end = offset + data.len() as u64;
        // bytes between the old end and the write become visible
        let bytes = offset.min(old)..end;
        self.change_records(object, bytes, inode.size, Kind::Data, |start, contents| {
            let size = contents.len() as u64;
            let within = offset.clamp(start, start + size)..end.clamp(start, start + size);
            if !within.is_empty() {
                let source = &data[(within.start - offset) as usize..]
                    [..(within.end - within.start) as usize];
                contents[(within.start - start) as usize..][..source.len()].copy_from_slice(source);
            }
        });
        self.files.entry(object).or_default().size = inode.size;
    }

    /// Bytes became zero, with a transaction in the same step.
    pub(super) fn cleared(&mut self, object: ObjectId, bytes: Range<u64>, edits: Vec<Edit>) {
        let size = self.files.get(&object).map_or(0, |file| file.size);
        let bytes = bytes.start.min(size)..bytes.end.min(size);
        if !edits.is_empty() {
            self.applied(edits);
        }
        if !bytes.is_empty() {
            let new = self.files.get(&object).map_or(0, |file| file.size);
            self.change_records(object, bytes.clone(), new, Kind::Data, |start, contents| {
                let end = start + contents.len() as u64;
                let within = bytes.start.clamp(start, end)..bytes.end.clamp(start, end);
                contents[(within.start - start) as usize..(within.end - start) as usize].fill(0);
            });
        }
    }

    /// Number of the newest version that changed the contents of a file.
    pub(super) fn contents_version(&self, object: ObjectId) -> u64 {
        self.files.get(&object).map_or(0, |file| file.changed)
    }

    /// The newest contents of a file.
    pub(super) fn contents(&self, object: ObjectId) -> Vec<u8> {
        let Some(file) = self.files.get(&object) else {
            return Vec::new();
        };
        let size = self.record_size(object);
        let mut contents = vec![0; file.size as usize];
        for (number, versions) in &file.records {
            let start = number * size;
            if start < file.size {
                let bytes = &versions.newest().bytes;
                let len = (file.size - start).min(size) as usize;
                contents[start as usize..][..len].copy_from_slice(&bytes[..len]);
            }
        }
        contents
    }
}
