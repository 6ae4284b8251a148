//! Recording of all writes to disks, for tests and drills of power cuts.
//!
//! **Owns** the file named by `WIREPOOL_RECORD`, if that is set when the first disk is used. It gets an entry at the
//! beginning and the end of each write, zeroing and flush, in order. **Called by** [`crate::disk::Disk`]. **Invariants**: a
//! write is recorded before the disk gets it; its end is recorded after the disk confirmed it and before the waiting task is
//! woken. A process that records writes everything twice: only tests and `wirepool drill powercut` set the variable.
//!
//! An entry has 40 bytes, followed by the written bytes if its kind is 1 or 2. Little endian: kind (1) and reserved (7),
//! number of the operation (8), offset (8), length (8), hash of the disk's path (8). Kinds: 1 a write begins, 2 a
//! write-through begins, 3 zeroing or a discard begins, 4 a flush begins; 5 the operation with this number succeeded.

use crate::sync::lock;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

/// An operation that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act<'a> {
    /// A write of these bytes.
    Write(&'a [u8]),
    /// A write-through of these bytes.
    WriteThrough(&'a [u8]),
    /// Zeroing or discarding this many bytes.
    Zero(u64),
    /// A flush.
    Flush,
}

/// A recorded operation in flight. [`Recorded::ended`] records its end.
#[must_use = "an operation that does not end may have happened or not"]
pub(crate) struct Recorded(u64);

struct Record {
    file: File,
    begun: u64,
}

/// The variable that names the file.
const FILE: &str = "WIREPOOL_RECORD";
const ENDED: u8 = 5;

fn record() -> Option<&'static Mutex<Record>> {
    static RECORD: OnceLock<Option<Mutex<Record>>> = OnceLock::new();
    let open = || {
        let path = std::env::var_os(FILE)?;
        let file = File::options().create(true).append(true).open(path);
        let file = file.expect("the record can be written");
        Some(Mutex::new(Record { file, begun: 0 }))
    };
    RECORD.get_or_init(open).as_ref()
}

impl Record {
    fn put(&mut self, words: [u64; 5], bytes: &[u8]) {
        let mut entry: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        entry.extend(bytes);
        self.file
            .write_all(&entry)
            .expect("the record can be written");
    }
}

/// Records that an operation begins. `None` if recording is off.
pub(crate) fn begin(path: &Path, offset: u64, act: Act<'_>) -> Option<Recorded> {
    let record = record()?;
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let (kind, len, bytes): (u64, u64, &[u8]) = match act {
        Act::Write(bytes) => (1, bytes.len() as u64, bytes),
        Act::WriteThrough(bytes) => (2, bytes.len() as u64, bytes),
        Act::Zero(len) => (3, len, &[]),
        Act::Flush => (4, 0, &[]),
    };
    let mut record = lock(record);
    record.begun += 1;
    let number = record.begun;
    record.put([kind, number, offset, len, hasher.finish()], bytes);
    Some(Recorded(number))
}

impl Recorded {
    /// Records that the disk confirmed the operation.
    pub(crate) fn ended(self) {
        if let Some(record) = record() {
            let mut record = lock(record);
            record.put([ENDED.into(), self.0, 0, 0, 0], &[]);
        }
    }
}
