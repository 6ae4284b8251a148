//! The blocks that a directory tree would have in a filesystem of a pool.
//!
//! **Called by** `pool advise special POOL DIRECTORY`. **Invariants**: files are read, links are not followed, and other file systems below are not entered. Records are compressed
//! as a pool compresses them (lz4, 128 KiB); of a long file only some records are, and stand for the others.

use anyhow::{Context, Result};
use pool::format::Packing;
use pool::{INLINE_MAX, stored_size};
use server::api::{BlockCount, BlocksBySize};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a record of a filesystem with default properties.
const RECORD: u64 = 128 << 10;
/// The end of a file is stored in whole units of this size, bytes.
const UNIT: u64 = 4096;
/// Records of a file that are compressed, at most.
const SAMPLES: u64 = 8;
/// Smallest class of records, bytes.
const CLASS_MIN: u64 = 512;
/// Bytes of an object in the nodes of a filesystem, when its tree is written at once: its inode, and its name without the bytes of the name.
/// Found by copying trees (see the test).
const OBJECT_BYTES: u64 = 187;
/// Bytes of a record's pointer in a node, with its key.
const POINTER_BYTES: u64 = 66;
/// Bytes of the key of contents that are in a node.
const INLINE_KEY_BYTES: u64 = 19;

/// Counts the blocks of the tree below `root`, in a pool with sectors of `sector` bytes.
///
/// # Errors
/// The directory cannot be read. Files and directories in it that cannot be read are passed over, with a remark on stderr.
pub(super) fn blocks(root: &Path, sector: u32) -> Result<BlocksBySize> {
    let shown = || root.display().to_string();
    let own = root.symlink_metadata().with_context(shown)?;
    let first = std::fs::read_dir(root).with_context(shown)?;
    let mut counted = Counted {
        sector,
        device: own.dev(),
        ..Counted::default()
    };
    let mut waiting = vec![first];
    while let Some(entries) = waiting.pop() {
        for entry in entries {
            let path = entry.with_context(shown)?.path();
            match counted.object(&path) {
                Ok(Some(below)) => waiting.push(below),
                Ok(None) => {}
                Err(e) => eprintln!("{}: {e}: it is not counted", path.display()),
            }
        }
    }
    Ok(counted.blocks())
}

#[derive(Default)]
struct Counted {
    sector: u32,
    device: u64,
    /// Bytes of entries in nodes.
    entries: u64,
    /// Number and bytes of records by class.
    records: BTreeMap<u64, (u64, u64)>,
}

impl Counted {
    /// Counts a file or directory. Returns the entries of a directory.
    fn object(&mut self, path: &Path) -> std::io::Result<Option<std::fs::ReadDir>> {
        let metadata = path.symlink_metadata()?;
        let name = path.file_name().map_or(0, |name| name.len() as u64);
        self.entries += OBJECT_BYTES + name;
        if metadata.is_file() {
            self.file(path, &metadata)?;
        }
        let is_below = metadata.is_dir() && metadata.dev() == self.device;
        is_below.then(|| std::fs::read_dir(path)).transpose()
    }

    fn file(&mut self, path: &Path, metadata: &Metadata) -> std::io::Result<()> {
        let size = metadata.len();
        if size <= INLINE_MAX as u64 {
            self.entries += size + INLINE_KEY_BYTES;
            return Ok(());
        }
        let count = size.div_ceil(RECORD);
        self.entries += count * POINTER_BYTES;
        let mut file = File::open(path)?;
        // the last record has another length, and stands for itself
        let others = (count - 1).min(SAMPLES);
        for n in 0..others {
            let (from, to) = (n * (count - 1) / others, (n + 1) * (count - 1) / others);
            let size = self.stored(&mut file, from)?;
            self.add(size, to - from);
        }
        let size = self.stored(&mut file, count - 1)?;
        self.add(size, 1);
        Ok(())
    }

    /// Bytes of a record of the file, as stored.
    fn stored(&self, file: &mut File, number: u64) -> std::io::Result<u64> {
        file.seek(SeekFrom::Start(number * RECORD))?;
        let mut record = Vec::new();
        file.take(RECORD).read_to_end(&mut record)?;
        record.resize(record.len().next_multiple_of(UNIT as usize), 0);
        Ok(stored_size(Packing::Lz4, self.sector, &record) as u64)
    }

    fn add(&mut self, size: u64, records: u64) {
        let class = size.next_power_of_two().max(CLASS_MIN);
        let (count, bytes) = self.records.entry(class).or_default();
        *count += records;
        *bytes += records * size;
    }

    fn blocks(self) -> BlocksBySize {
        let records = self.records.into_iter();
        let records = records.map(|(up_to, (blocks, bytes))| BlockCount {
            up_to,
            blocks,
            bytes,
        });
        BlocksBySize {
            nodes: BlockCount {
                up_to: 0,
                blocks: 0,
                bytes: self.entries,
            },
            records: records.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
