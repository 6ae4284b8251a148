//! The log of the kernel's device-mapper target `log-writes`.
//!
//! **Owns** its layout. **Called by** the replay. **Invariants**: a log's bytes are checked before they are used.
//! Entries are in the order in which the kernel knew them to be on the medium: a write that needs no flush when it
//! completed; any other write with the first flush that was issued after it completed, before that flush's own entry.
//!
//! Source: Documentation/admin-guide/device-mapper/log-writes.rst of the kernel. All little endian. Sector 0 begins
//! with magic (8), version (8), number of entries (8) and sector size (4). From sector 1 on, each entry takes a
//! sector that begins with the first sector of the device (8), sectors (8), flags (8) and length of inline data (8),
//! followed by the sectors that it wrote; a discard has none. The text of a mark is inline, behind the entry's head.

use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
const METADATA: u64 = 1 << 4;
/// Bytes of an entry's head.
const HEAD: usize = 32;
/// Maximum number of entries of a log.
const ENTRIES_MAX: u64 = 1 << 20;
/// Maximum bytes of an entry; a single discard may be large.
const LENGTH_MAX: u64 = 256 << 20;

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A write; its data is in the log at this offset.
    Write(u64),
    /// A discard: the contents are undefined.
    Discard,
    /// A mark with this text.
    Mark(String),
    /// Only a flush.
    Flush,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The kind.
    pub kind: Kind,
    /// Offset on the device, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
    /// A flush completed with it: the entries before it are on the medium.
    pub flushes: bool,
    /// It is on the medium itself, without a flush.
    pub through: bool,
}

/// An open log.
#[derive(Debug)]
pub struct Log {
    file: File,
    sector: u64,
    entries: u64,
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = bytes.as_chunks::<8>().0.iter();
    std::array::from_fn(|_| words.next().map_or(0, |word| u64::from_le_bytes(*word)))
}

impl Log {
    /// Opens a log's device, or an image of it.
    ///
    /// # Errors
    /// It cannot be read, or is not a log.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0)?;
        let [magic, version, entries, size] = words(&head);
        let sector = size & u64::from(u32::MAX);
        ensure!(
            magic == MAGIC,
            "it does not begin as a log does: {magic:#x}"
        );
        ensure!(version == VERSION, "a log of version {version}");
        ensure!(entries <= ENTRIES_MAX, "{entries} entries");
        let known = sector.is_power_of_two() && (512..=65536).contains(&sector);
        ensure!(known, "sectors of {sector} bytes");
        Ok(Self {
            file,
            sector,
            entries,
        })
    }

    /// The entries in their order.
    ///
    /// # Errors
    /// An entry cannot be read or is malformed.
    pub fn entries(&self) -> Result<Vec<LogEntry>> {
        let mut entries = Vec::new();
        let mut at = self.sector;
        for number in 0..self.entries {
            let (entry, next) = self
                .entry(at)
                .with_context(|| format!("entry {number} at byte {at} of the log"))?;
            entries.push(entry);
            at = next;
        }
        Ok(entries)
    }

    /// The entry at an offset of the log, and the offset of the next one.
    fn entry(&self, at: u64) -> Result<(LogEntry, u64)> {
        let mut sector = vec![0; self.sector as usize];
        self.file.read_exact_at(&mut sector, at)?;
        let [first, sectors, flags, inline] = words(&sector);
        ensure!(
            flags & !(FLUSH | FUA | DISCARD | MARK | METADATA) == 0,
            "flags {flags:#x}"
        );
        let len = sectors.saturating_mul(self.sector);
        ensure!(len <= LENGTH_MAX, "{len} bytes at once");
        let offset = first
            .checked_mul(self.sector)
            .filter(|offset| offset.checked_add(len).is_some());
        let offset = offset.with_context(|| format!("sector {first}"))?;
        let data = at + self.sector;
        let (kind, next) = if flags & MARK != 0 {
            let text = sector.get(HEAD..HEAD.saturating_add(inline as usize));
            let text = text.with_context(|| format!("a mark of {inline} bytes"))?;
            let text = String::from_utf8_lossy(text);
            (
                Kind::Mark(text.trim_end_matches('\0').to_owned()),
                data + len,
            )
        } else if inline != 0 {
            bail!("inline data that is no mark");
        } else if flags & DISCARD != 0 {
            (Kind::Discard, data)
        } else if sectors == 0 {
            (Kind::Flush, data)
        } else {
            (Kind::Write(data), data + len)
        };
        let entry = LogEntry {
            kind,
            offset,
            len,
            flushes: flags & FLUSH != 0,
            through: flags & FUA != 0,
        };
        Ok((entry, next))
    }

    /// The data of an entry: the written bytes, or `anything` for each byte of a discard; none for other kinds.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn bytes(&self, entry: &LogEntry, anything: u8) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![anything; entry.len as usize];
        match entry.kind {
            Kind::Write(at) => self.file.read_exact_at(&mut bytes, at)?,
            Kind::Discard => {}
            Kind::Mark(_) | Kind::Flush => return Ok(None),
        }
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log with these entries: head words and the bytes behind the head.
    fn log(super_block: [u64; 4], entries: &[([u64; 4], &[u8])]) -> Result<(Log, Vec<LogEntry>)> {
        let file = tempfile::NamedTempFile::new()?;
        let mut image = Vec::new();
        let mut put = |head: [u64; 4], inline: &[u8], data: &[u8]| {
            let mut sector: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
            sector.extend(inline);
            sector.resize(512, 0);
            image.extend(sector);
            image.extend(data);
        };
        put(super_block, &[], &[]);
        for (head, data) in entries {
            match head[2] & MARK {
                0 => put(*head, &[], data),
                _ => put(*head, data, &[]),
            }
        }
        std::fs::write(file.path(), image)?;
        let log = Log::open(file.path())?;
        let entries = log.entries()?;
        Ok((log, entries))
    }

    const HEAD_OF_4: [u64; 4] = [MAGIC, 1, 4, 512];

    #[test]
    fn writes_discards_marks_and_flushes_are_told_apart() {
        let (log, entries) = log(
            HEAD_OF_4,
            &[
                ([8, 2, 0, 0], &[7; 1024]),
                ([16, 100, DISCARD, 0], &[]),
                ([0, 0, MARK, 3], b"me\0"),
                ([0, 0, FLUSH, 0], &[]),
            ],
        )
        .unwrap();
        let [write, discard, mark, flush] = &entries[..] else {
            panic!("{entries:?}");
        };
        assert_eq!((write.offset, write.len), (4096, 1024));
        assert_eq!(log.bytes(write, 1).unwrap(), Some(vec![7; 1024]));
        assert_eq!(log.bytes(discard, 1).unwrap(), Some(vec![1; 51200]));
        assert_eq!(mark.kind, Kind::Mark("me".into()));
        assert_eq!(log.bytes(flush, 1).unwrap(), None);
        assert!(flush.flushes && !flush.through && !write.flushes);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let flush: ([u64; 4], &[u8]) = ([0, 0, FLUSH, 0], &[]);
        for head in [
            [MAGIC + 1, 1, 1, 512],
            [MAGIC, 2, 1, 512],
            [MAGIC, 1, 2, 512],
            [MAGIC, 1, u64::MAX, 512],
            [MAGIC, 1, 1, 513],
            [MAGIC, 1, 1, 0],
        ] {
            assert!(log(head, &[flush]).is_err(), "{head:?}");
        }
        for head in [
            [0, u64::MAX, 0, 0],
            [u64::MAX, 1, 0, 0],
            [0, 0, 1 << 40, 0],
            [0, 0, MARK, u64::MAX],
            [0, 1, 0, 9],
        ] {
            let made = log([MAGIC, 1, 1, 512], &[(head, &[])]);
            assert!(made.is_err(), "{head:?}");
        }
    }
}
