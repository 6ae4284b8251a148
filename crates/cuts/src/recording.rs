//! Replay of a recording that a server made of its writes to disks (`io::record`).
//!
//! **Owns** the way from entries to media: which writes are stable, which are not. **Called by** the test and the drill of power
//! cuts. **Invariants**: a medium has exactly the writes that a flush covered, or that went through, by the point that the replay
//! has reached; every other write that began is pending. An entry that the end of the process cut off is not used: its operation
//! had not reached the disk.

use crate::medium::{Medium, Write};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Bytes of an entry's head.
const HEAD: usize = 40;
/// Kinds of entries.
const WRITE: u64 = 1;
const WRITE_THROUGH: u64 = 2;
const ZERO: u64 = 3;
const FLUSH: u64 = 4;
const ENDED: u64 = 5;

/// An operation that was begun and that no flush covers.
struct Pending {
    number: u64,
    ended: bool,
    through: bool,
    write: Write,
}

/// A disk during the replay.
pub struct Image {
    path: PathBuf,
    medium: Medium,
    pending: Vec<Pending>,
    /// Flushes under way, and the writes that each covers.
    flushes: BTreeMap<u64, Vec<u64>>,
}

impl Image {
    /// The disk's path in the recording.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stable contents.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Writes that are not stable, in the order in which they began.
    pub fn pending(&self) -> impl Iterator<Item = &Write> {
        self.pending.iter().map(|p| &p.write)
    }

    fn apply(&mut self, covered: &[u64]) {
        let (done, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|p| covered.contains(&p.number));
        self.pending = rest;
        for pending in done {
            self.medium.apply(&pending.write).expect("write");
        }
    }

    /// An operation ended.
    fn end(&mut self, number: u64) {
        if let Some(covered) = self.flushes.remove(&number) {
            self.apply(&covered);
        }
        let mut through = false;
        for pending in self.pending.iter_mut().filter(|p| p.number == number) {
            pending.ended = true;
            through = pending.through;
        }
        if through {
            self.apply(&[number]);
        }
    }
}

fn word(entry: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(entry[at * 8..][..8].try_into().expect("eight bytes"))
}

/// The disks on their way through a recording.
pub struct Recording {
    images: BTreeMap<u64, Image>,
    /// Offset of the next entry.
    at: usize,
    /// The flush that is about to end.
    ending: Option<u64>,
}

impl Recording {
    /// A replay of these disks, from the beginning of a recording: each has its path in the recording, and its contents then.
    pub fn new(disks: impl IntoIterator<Item = (PathBuf, Medium)>) -> Self {
        let images = disks.into_iter().map(|(path, medium)| {
            let mut hasher = DefaultHasher::new();
            path.as_path().hash(&mut hasher);
            let image = Image {
                path,
                medium,
                pending: Vec::new(),
                flushes: BTreeMap::new(),
            };
            (hasher.finish(), image)
        });
        Self {
            images: images.collect(),
            at: 0,
            ending: None,
        }
    }

    /// The disks.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.images.values()
    }

    /// Lets a flush end that was about to, and goes on until another one is. Returns the position of its end in the recording;
    /// `None` at the end of the recording.
    pub fn next_flush(&mut self, record: &[u8]) -> Option<u64> {
        let ended = self.ending.take();
        for image in self.images.values_mut() {
            ended.into_iter().for_each(|number| image.end(number));
        }
        while let Some(entry) = record.get(self.at..).filter(|e| e.len() >= HEAD) {
            let [kind, number, offset, len, disk] = [0, 1, 2, 3, 4].map(|at| word(entry, at));
            let bytes = match kind {
                WRITE | WRITE_THROUGH => entry.get(HEAD..HEAD + len as usize)?.to_vec(),
                ZERO => vec![0; len as usize],
                _ => Vec::new(),
            };
            self.at += HEAD + if kind == ZERO { 0 } else { bytes.len() };
            if kind == ENDED {
                let mut images = self.images.values_mut();
                if images.any(|image| image.flushes.contains_key(&number)) {
                    self.ending = Some(number);
                    return Some((self.at - HEAD) as u64);
                }
                self.images.values_mut().for_each(|image| image.end(number));
                continue;
            }
            let image = self.images.get_mut(&disk).expect("a disk of the pool");
            if kind == FLUSH {
                let ended = image.pending.iter().filter(|p| p.ended);
                let covered = ended.map(|p| p.number).collect();
                image.flushes.insert(number, covered);
                continue;
            }
            image.pending.push(Pending {
                number,
                ended: false,
                through: kind == WRITE_THROUGH,
                write: Write { offset, bytes },
            });
        }
        None
    }

    /// Goes on to the end of the recording.
    pub fn to_end(&mut self, record: &[u8]) {
        while self.next_flush(record).is_some() {}
    }

    /// Forgets pending writes, whose fate the caller has decided, and starts with another recording of the same disks.
    pub fn restart(&mut self) {
        (self.at, self.ending) = (0, None);
        for image in self.images.values_mut() {
            image.pending.clear();
            image.flushes.clear();
        }
    }
}
