//! A file that stands for a disk under power cuts.
//!
//! **Owns** the file and the effect of a cut. **Called by** replays. **Invariants**: applied writes are durable. A
//! cut leaves each other write in full, not at all, or in some of its sectors, as a seed decides; it can be undone
//! completely.

use io::rng::Prng;
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Atomic unit of a power cut, bytes.
const SECTOR: usize = 512;

/// A write of bytes at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Offset, bytes.
    pub offset: u64,
    /// The data.
    pub bytes: Vec<u8>,
}

/// A disk during the replay of a recording.
#[derive(Debug)]
pub struct Medium(File);

/// The contents before a cut, in the order in which they were overwritten.
#[must_use = "a medium that is not mended went another way than the record"]
pub struct Before(Vec<Write>);

impl Medium {
    /// A new sparse file of this many bytes.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn create(path: &Path, size: u64) -> Result<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        file.set_len(size)?;
        Ok(Self(file))
    }

    /// Carries out a durable write.
    ///
    /// # Errors
    /// Those of writing.
    pub fn apply(&self, write: &Write) -> Result<()> {
        self.0.write_all_at(&write.bytes, write.offset)
    }

    /// Cuts the power while these writes are unconfirmed: each is there in full, not at all, or in some of its
    /// sectors.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn cut<'a>(
        &self,
        writes: impl IntoIterator<Item = &'a Write>,
        rng: &mut Prng,
    ) -> Result<Before> {
        let mut before = Vec::new();
        for Write { offset, bytes } in writes {
            let fate = rng.below(3);
            let mut was = vec![0; bytes.len()];
            self.0.read_exact_at(&mut was, *offset)?;
            let mut now = was.clone();
            for (new, old) in bytes.chunks(SECTOR).zip(now.chunks_mut(SECTOR)) {
                if fate == 0 || fate == 1 && rng.chance(0.5) {
                    old.copy_from_slice(new);
                }
            }
            self.0.write_all_at(&now, *offset)?;
            before.push(Write {
                offset: *offset,
                bytes: was,
            });
        }
        Ok(Before(before))
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Undoes a cut.
    ///
    /// # Errors
    /// Those of writing.
    pub fn mend(&self, before: Before) -> Result<()> {
        before.0.iter().rev().try_for_each(|was| self.apply(was))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_takes_some_and_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let medium = Medium::create(&dir.path().join("m"), 65536).unwrap();
        let write = |offset, byte| Write {
            offset,
            bytes: vec![byte; 4096],
        };
        let read = || {
            let mut bytes = vec![0; 65536];
            medium.0.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        medium.apply(&write(4096, 1)).unwrap();
        let durable = read();
        let lost = [write(4096, 2), write(4096, 3), write(8192, 4)];
        let mut rng = Prng::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..64 {
            let before = medium.cut(&lost, &mut rng).unwrap();
            let now = read();
            assert_eq!(now[..4096], durable[..4096]);
            seen.insert(now);
            medium.mend(before).unwrap();
            assert_eq!(read(), durable);
        }
        assert!(seen.len() > 8 && seen.contains(&durable), "{}", seen.len());
    }
}
