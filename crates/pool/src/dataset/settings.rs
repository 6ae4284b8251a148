//! Size and settings of a dataset, as its requests see them.
//!
//! **Owns** a copy of the properties that each request needs. **Called by** requests, without a lock; the
//! copy is updated under the dataset's lock. **Invariants**: class, block size and record size never change. A request
//! that depends on the size has its place in the overlap order, behind a change of the size.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::format::filesystem::record_size_of;
use crate::format::{
    Autodefrag, Birth, BlockPtr, ChecksumKind, Dataset, DatasetKind, DatasetProperty, ObjectId,
    Packing, Switches, Sync,
};

/// The values of `sync`, by their index in [`Settings`].
const SYNCS: [Sync; 3] = [Sync::Standard, Sync::Always, Sync::Disabled];

/// The values of `primarycache` and `secondarycache` for records and nodes, and for neither.
const CACHES_ALL: u64 = 0;
const CACHES_NONE: u64 = 2;

/// Bits of `change` that count the changes of one object. The bits above have the epoch in which the pool was opened.
const CHANGE_BITS: u32 = 32;

/// See the module header.
pub(crate) struct Settings {
    kind: DatasetKind,
    /// Bytes of a logical block.
    pub(crate) block_size: u32,
    /// Bytes of a record; of a filesystem: of files without a size of their own.
    pub(crate) record_size: u32,
    /// Bytes of a record of new files.
    file_record_size: AtomicU32,
    /// Bytes that the client sees.
    size: AtomicU64,
    /// An index of [`SYNCS`].
    sync: AtomicU8,
    /// The code of the compression on disk.
    compression: AtomicU8,
    /// Whether new records have BLAKE3 checksums.
    is_blake3: AtomicBool,
    /// The bits of its switches.
    switches: AtomicU32,
    /// The number of `autodefrag`.
    autodefrag: AtomicU64,
    /// Bytes that a record takes at most to be stored on special vdevs; 0 for no record.
    special_small_blocks: AtomicU32,
    /// Whether it may have blocks that win over records, dirty ones too.
    has_blocks: AtomicBool,
    /// Least `change` of an object of a filesystem (`docs/decisions/0324`).
    change_floor: AtomicU64,
    /// Whether it is destroyed, or its pool closed.
    is_ended: AtomicBool,
}

impl Settings {
    pub(super) fn new(dataset: &Dataset, opened_in: Birth) -> Self {
        let settings = Self {
            kind: dataset.kind,
            block_size: dataset.block_size,
            record_size: dataset.record_size,
            file_record_size: AtomicU32::new(0),
            size: AtomicU64::new(0),
            sync: AtomicU8::new(0),
            compression: AtomicU8::new(0),
            is_blake3: AtomicBool::new(false),
            switches: AtomicU32::new(0),
            autodefrag: AtomicU64::new(0),
            special_small_blocks: AtomicU32::new(0),
            has_blocks: AtomicBool::new(dataset.has_blocks),
            change_floor: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
        };
        if dataset.kind == DatasetKind::Filesystem {
            settings.raise_changes(opened_in);
        }
        settings.publish(dataset);
        settings
    }

    /// Publishes properties to requests. The caller holds the dataset's lock.
    ///
    /// # Panics
    /// If class, block size or record size differ.
    pub(crate) fn publish(&self, dataset: &Dataset) {
        let fixed = (self.kind, self.block_size, self.record_size);
        let given = (dataset.kind, dataset.block_size, dataset.record_size);
        assert_eq!(fixed, given, "class and sizes of blocks never change");
        let sync = SYNCS.iter().position(|sync| *sync == dataset.sync);
        let sync = sync.expect("each has a number") as u8;
        self.sync.store(sync, Ordering::Release);
        self.compression
            .store(dataset.compression.code(), Ordering::Release);
        let is_blake3 = dataset.checksum.folded() == ChecksumKind::FoldedBlake3;
        self.is_blake3.store(is_blake3, Ordering::Release);
        self.switches
            .store(dataset.switches.bits(), Ordering::Release);
        self.autodefrag.store(
            dataset.value(DatasetProperty::Autodefrag),
            Ordering::Release,
        );
        self.special_small_blocks
            .store(dataset.special_small_blocks, Ordering::Release);
        self.file_record_size
            .store(dataset.file_record_size, Ordering::Release);
        self.size.store(dataset.size, Ordering::Release);
    }

    pub(crate) fn has_files(&self) -> bool {
        self.kind.has_files()
    }

    /// As [`Dataset::is_whole`].
    pub(crate) fn is_whole(&self, ptr: &BlockPtr) -> bool {
        self.kind.is_whole(ptr, self.record_size)
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.kind.is_snapshot()
    }

    /// Bytes that the client sees.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Bytes of a record of an object.
    pub(crate) fn record_size_of(&self, object: ObjectId) -> u32 {
        match self.has_files() {
            true => record_size_of(object, self.record_size),
            false => self.record_size,
        }
    }

    /// Bytes of a record of new files.
    pub(crate) fn file_record_size(&self) -> u32 {
        self.file_record_size.load(Ordering::Acquire)
    }

    /// When writes become durable.
    pub(crate) fn sync(&self) -> Sync {
        SYNCS[usize::from(self.sync.load(Ordering::Acquire))]
    }

    /// How new records are compressed.
    pub(crate) fn compression(&self) -> Packing {
        let code = self.compression.load(Ordering::Acquire);
        Packing::from_code(code).expect("a code that was stored here")
    }

    /// The kind of new records' checksums: the folded one with the hash that the property names.
    pub(crate) fn checksum(&self) -> ChecksumKind {
        match self.is_blake3.load(Ordering::Acquire) {
            true => ChecksumKind::FoldedBlake3,
            false => ChecksumKind::FoldedXxh3,
        }
    }

    /// The properties with a few values.
    pub(crate) fn switches(&self) -> Switches {
        Switches::of_bits(self.switches.load(Ordering::Acquire))
    }

    /// Whether nodes of its trees go to cache devices.
    pub(crate) fn has_nodes_on_devices(&self) -> bool {
        self.switches().value(DatasetProperty::Secondarycache) != CACHES_NONE
    }

    /// Whether records go to the caches that this property is about.
    pub(crate) fn caches_records(&self, of: DatasetProperty) -> bool {
        self.switches().value(of) == CACHES_ALL
    }

    /// Whether contents of small durable writes may go to the journal.
    pub(crate) fn has_contents_in_journal(&self) -> bool {
        !self.switches().has(DatasetProperty::Logbias)
    }

    /// Whether records that are read in order and lie apart are moved.
    pub(crate) fn autodefrag(&self) -> Autodefrag {
        let number = self.autodefrag.load(Ordering::Acquire);
        Autodefrag::of_number(number).expect("a number that was stored here")
    }

    /// Bytes that a record takes at most to be stored on special vdevs; 0 for no record.
    pub(crate) fn special_small_blocks(&self) -> u32 {
        self.special_small_blocks.load(Ordering::Acquire)
    }

    /// Whether there may be blocks that win over records.
    pub(crate) fn has_blocks(&self) -> bool {
        self.has_blocks.load(Ordering::Acquire)
    }

    /// There is a block that wins over a record. The caller holds the dataset's lock.
    pub(crate) fn note_blocks(&self) {
        self.has_blocks.store(true, Ordering::Release);
    }

    /// Least `change` of an object of a filesystem. A snapshot's objects keep theirs: they never change.
    pub(crate) fn change_floor(&self) -> u64 {
        self.change_floor.load(Ordering::Acquire)
    }

    /// From now on, `change` of every object is at least the first value of this epoch.
    pub(crate) fn raise_changes(&self, epoch: Birth) {
        let floor = epoch.0.min(u64::from(u32::MAX)) << CHANGE_BITS;
        self.change_floor.fetch_max(floor, Ordering::AcqRel);
    }

    /// Requests are refused from now on.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }
}
