//! The interface between filesystems and datasets: [`Store`].
//!
//! **Owns** the trait, and [`Transaction`]. **Called by** the filesystem (above) and implemented by datasets (below), and by a
//! map in memory for tests. **Invariants**: a transaction is visible as a whole, and after a crash it is there as a whole; the
//! transactions after a crash are all those up to some moment, in the order of their application.

use std::ops::Range;

use backend::Durable;
use backend::file::permission::AclRules;
use backend::file::{FileError, FileResult, Seek};
use io::{Payload, SharedBuf};

use crate::Error;
use crate::format::filesystem::{Charge, INODE_SIZE, Inode, InodeFlags, inode_key};
use crate::format::{INLINE_SIZE_MAX, Key, ObjectId, Sync};

/// Bytes of the journal for a change, besides its value: header, tree and two keys.
const EDIT_SIZE: usize = 48;
/// Bytes of the journal for the space of the owners of an object: two before a change, and two after it.
const CHARGED_BYTES: usize = 4 * (EDIT_SIZE + 8);

/// When reading a file updates the time of its last access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessTimes {
    /// Never (`atime=off`).
    Off,
    /// If that time is older than the last change, or older than a day (`atime=on relatime=on`).
    Relative,
    /// Always (`atime=on relatime=off`).
    Always,
}

/// Properties of the dataset that a filesystem depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Every mutation is refused: a snapshot, or a pool that was opened for reading.
    pub is_read_only: bool,
    /// Bytes of a record of new files.
    pub record_size: u32,
    /// Bytes of a record of files without a size of their own. It never changes.
    pub base_record_size: u32,
    /// When mutations become durable.
    pub sync: Sync,
    /// When access times are updated.
    pub access_times: AccessTimes,
    /// Whether access control lists can be set (`acltype=nfsv4`).
    pub has_acls: bool,
    /// Rules for access control lists (`aclmode`, `aclinherit`).
    pub acl_rules: AclRules,
    /// Whether there are extended attributes (`xattr=on`).
    pub has_xattrs: bool,
    /// Least `change` of every object: larger than any that was told before the pool's opening, or before a rollback.
    pub change_floor: u64,
}

/// Space of a dataset, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSpace {
    /// Used by this dataset.
    pub used: u64,
    /// Can still be written.
    pub available: u64,
}

/// The purpose of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It may take space.
    Use,
    /// It frees space, or nearly as much as it takes. It is admitted on a full pool and beyond the quota.
    Release,
}

/// A part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A value replaces the one of this key. Never an inode.
    Put(Key, Box<[u8]>),
    /// An inode replaces the object's, with its true size.
    PutInode(ObjectId, Inode),
    /// The owners and the space of an object before the transaction. It comes before an inode with other ones, and before the
    /// deletion of the object. Other inodes have those of the newest inode.
    Charged(ObjectId, Charge),
    /// Deletes a value. Never an inode.
    Delete(Key),
    /// Deletes all values in a range of keys. Never data; inodes only as all keys of their object.
    DeleteRange(Range<Key>),
    /// Contents of a file in this range of bytes are dropped, dirty ones too. At both ends, bytes of a record that is only
    /// partly in the range may stay.
    Discard(ObjectId, Range<u64>),
}

/// Changes that are applied in one step, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    edits: Vec<Edit>,
    bytes: usize,
}

impl Transaction {
    /// No changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn push(&mut self, edit: Edit, value_bytes: usize) -> &mut Self {
        self.edits.push(edit);
        self.bytes += EDIT_SIZE + value_bytes;
        self
    }

    /// Adds a value.
    ///
    /// # Panics
    /// If the value has more than [`INLINE_SIZE_MAX`] bytes, or the key is an inode's.
    pub fn put(&mut self, key: Key, value: Box<[u8]>) -> &mut Self {
        assert!(value.len() <= INLINE_SIZE_MAX, "{} bytes", value.len());
        assert!(key != inode_key(key.object()), "{key:?} is an inode");
        let bytes = value.len();
        self.push(Edit::Put(key, value), bytes)
    }

    /// Adds an object's inode.
    pub fn put_inode(&mut self, object: ObjectId, inode: Inode) -> &mut Self {
        self.push(Edit::PutInode(object, inode), INODE_SIZE)
    }

    /// Adds the owners and the space that an object has before the transaction, which changes them or deletes the object.
    pub fn charged(&mut self, object: ObjectId, before: Charge) -> &mut Self {
        self.push(Edit::Charged(object, before), CHARGED_BYTES)
    }

    /// Adds the deletion of a value.
    ///
    /// # Panics
    /// If the key is an inode's.
    pub fn delete(&mut self, key: Key) -> &mut Self {
        assert!(key != inode_key(key.object()), "{key:?} is an inode");
        self.push(Edit::Delete(key), 0)
    }

    /// Adds the deletion of all values in a range of keys.
    pub fn delete_range(&mut self, keys: Range<Key>) -> &mut Self {
        self.push(Edit::DeleteRange(keys), 0)
    }

    /// Adds the deletion of a file's contents in a range of bytes.
    pub fn discard(&mut self, object: ObjectId, bytes: Range<u64>) -> &mut Self {
        // records, blocks, and fragments of both
        self.push(Edit::Discard(object, bytes), EDIT_SIZE * 4)
    }

    /// Adds the changes of another transaction.
    pub fn append(&mut self, other: Transaction) -> &mut Self {
        self.edits.extend(other.edits);
        self.bytes += other.bytes;
        self
    }

    /// The same changes, with this space before and after in what they say about a file. `flags` say whether it is exact.
    pub(crate) fn with_used(
        mut self,
        of: ObjectId,
        (before, after): (u64, u64),
        flags: InodeFlags,
    ) -> Self {
        for edit in &mut self.edits {
            match edit {
                Edit::Charged(object, charge) if *object == of => charge.used = before,
                Edit::PutInode(object, inode) if *object == of => {
                    inode.used = after;
                    inode.flags = inode.flags.taking(InodeFlags::COUNTED, flags);
                }
                _ => {}
            }
        }
        self
    }

    /// Its changes.
    #[must_use]
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Its changes.
    #[must_use]
    pub fn into_edits(self) -> Vec<Edit> {
        self.edits
    }

    /// Upper bound of its bytes in the journal.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Values that a scan found although the medium may have lost some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedAround {
    /// The values, in the order of their keys.
    pub found: Vec<(Key, Vec<u8>)>,
    /// Whether some are lost.
    pub is_damaged: bool,
}

/// A dataset as a filesystem sees it: values by key, contents of files by byte, and transactions.
///
/// **Values** are the inline values of the dataset's tree with all applied transactions. Inodes are values of their own kind:
/// [`Store::inode`] and [`Edit::PutInode`] have an inode's true size and times, while the journal gets an inode whose size
/// does not exceed the data that was written (`docs/format.md`, "Inodes").
///
/// **Contents** read as zero where nothing was written. Bytes behind a file's size have no meaning: a caller that makes a file
/// larger without a write there clears the bytes from the old size to the end of its record ([`Store::clear`]).
/// [`Store::write`] clears them by itself.
///
/// **Turns**: the caller sees to it that the changes of one object run one after the other. Reads run at any time and see
/// each change whole.
///
/// Futures are local to their shard. All errors are those of the medium, and `NoSpace` and `Quota` where space is taken.
pub trait Store: Send + std::marker::Sync + 'static {
    /// Space and memory that was set aside for a transaction. Dropping it gives it back.
    type Admitted: 'static;

    /// The dataset's properties. Cheap.
    fn settings(&self) -> Settings;

    /// Space that the dataset uses and has left. Cheap.
    fn space(&self) -> StoreSpace;

    /// The newest visible inode of an object. Its `change` is at least [`Settings::change_floor`].
    fn inode(&self, object: ObjectId) -> impl Future<Output = FileResult<Option<Inode>>>;

    /// The newest visible value of a key; `None` if there is none, or a block.
    fn get(&self, key: Key) -> impl Future<Output = FileResult<Option<Vec<u8>>>>;

    /// The newest visible values of the first `max` keys in a range, by key. Never of inodes or data.
    fn scan(
        &self,
        keys: Range<Key>,
        max: usize,
    ) -> impl Future<Output = FileResult<Vec<(Key, Vec<u8>)>>>;

    /// As [`Store::scan`], but values that the medium has lost are left out.
    fn scan_around(
        &self,
        keys: Range<Key>,
        max: usize,
    ) -> impl Future<Output = FileResult<ScannedAround>> {
        async move {
            Ok(ScannedAround {
                found: self.scan(keys, max).await?,
                is_damaged: false,
            })
        }
    }

    /// Whether the owners of a new object have used their quotas up. Cheap.
    fn is_used_up(&self, owners: Charge) -> bool;

    /// Waits until there is memory and space for a transaction of `bytes` bytes ([`Transaction::bytes`]).
    fn admit(
        &self,
        bytes: usize,
        purpose: Purpose,
    ) -> impl Future<Output = FileResult<Self::Admitted>>;

    /// Applies a transaction that is not larger than what was admitted. It is visible from now on. Errors: the dataset has
    /// ended or failed; nothing was done.
    fn apply(&self, transaction: Transaction, admitted: Self::Admitted) -> FileResult<()>;

    /// Reads contents. The caller cuts them at the file's size.
    fn read(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
    ) -> impl Future<Output = FileResult<Payload>>;

    /// Writes contents and replaces the inode, which has the new size and times. Each record is visible as a whole, and the
    /// inode with the last one. The inode's `used` is ignored: the store keeps it. With `is_urgent`, write-back begins at once,
    /// as a request for durability follows.
    fn write(
        &self,
        object: ObjectId,
        inode: Inode,
        offset: u64,
        data: SharedBuf,
        is_urgent: bool,
    ) -> impl Future<Output = FileResult<()>>;

    /// Makes exactly these bytes zero, and frees the space of whole blocks of them; and applies a transaction with the last
    /// step. Admits by itself.
    fn clear(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        transaction: Transaction,
    ) -> impl Future<Output = FileResult<()>>;

    /// The newest inode of a file, with its exact space, and the bytes of space that it would take with this smaller size.
    fn count(&self, object: ObjectId, size: u64) -> impl Future<Output = FileResult<(Inode, u64)>>;

    /// Files from this number on whose space may not be exact, and the number to go on from; `None` at the end. Few at a time.
    fn uncounted(
        &self,
        _from: ObjectId,
    ) -> impl Future<Output = FileResult<(Vec<ObjectId>, Option<ObjectId>)>> {
        async { Ok((Vec::new(), None)) }
    }

    /// The next byte in the range that may hold data, or that is in a hole. `None` if there is none in the range.
    fn seek(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        to: Seek,
    ) -> impl Future<Output = FileResult<Option<u64>>>;

    /// Makes all that was applied durable, and the data of one object, or of all objects.
    fn durable(&self, of: Option<ObjectId>) -> impl Future<Output = FileResult<Durable>>;
}

impl From<Error> for FileError {
    fn from(e: Error) -> Self {
        use backend::StorageError::{Corrupt, Exhausted, MediaRead, MediaWrite, Offline};
        match e {
            Error::NoSpace | Error::FileSystemFull { .. } => FileError::NoSpace,
            Error::Quota => FileError::Quota,
            Error::ReadOnly => FileError::ReadOnly,
            Error::Corrupt { .. } => FileError::Storage(Corrupt),
            Error::JournalCorrupt { .. } | Error::Unreadable { .. } => {
                FileError::Storage(MediaRead)
            }
            Error::Device => FileError::Storage(MediaWrite),
            Error::Closed => FileError::Storage(Offline),
            Error::JournalFull | Error::BatchTooLarge { .. } => FileError::Storage(Exhausted),
            Error::Invalid(_) | Error::BeforeRemoval { .. } => FileError::Storage(Corrupt),
            Error::Exists
            | Error::NotFound
            | Error::BadName
            | Error::NoParent
            | Error::NotAParent
            | Error::BelowItself
            | Error::NoProperty(_)
            | Error::Busy
            | Error::Held { .. }
            | Error::NoHold
            | Error::NotAClone
            | Error::OverQuota
            | Error::Unknown => FileError::Unsupported,
        }
    }
}
