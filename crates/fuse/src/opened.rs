//! Open files of a mount.
//!
//! **Owns** the hold of each file that the kernel has open, by file handle number, and the number of writers of each file.
//! **Called by** open, create and release. **Invariants**: at most [`OPEN_FILES_MAX`] files; a hold is dropped on a shard,
//! since closing is work of the file system; a file without writers has no dirty data in the kernel, because the kernel writes
//! it back before it releases the last one (`fuse_release` in fs/fuse/file.c).

use crate::limits::OPEN_FILES_MAX;
use backend::file::Hold;
use io::sync::lock;
use slab::Slab;
use std::collections::HashMap;
use std::sync::Mutex;

struct OpenFile {
    hold: Hold,
    /// Inode number, if it was opened for writing.
    writes: Option<u64>,
    /// Whether the kernel does not cache its data, although the program did not ask for that.
    is_direct: bool,
}

#[derive(Default)]
struct Files {
    open: Slab<OpenFile>,
    /// Handles open for writing, by inode number.
    writers: HashMap<u64, usize>,
}

/// The open files.
#[derive(Default)]
pub(crate) struct Opened(Mutex<Files>);

impl Opened {
    /// Adds a file; `writes` is its inode number if it was opened for writing. Returns its number, or the hold if there are
    /// too many.
    pub(crate) fn add(
        &self,
        hold: Hold,
        writes: Option<u64>,
        is_direct: bool,
    ) -> Result<u64, Hold> {
        let mut files = lock(&self.0);
        if files.open.len() >= OPEN_FILES_MAX {
            return Err(hold);
        }
        if let Some(number) = writes {
            *files.writers.entry(number).or_default() += 1;
        }
        let file = OpenFile {
            hold,
            writes,
            is_direct,
        };
        Ok(files.open.insert(file) as u64)
    }

    /// Removes a file. `None` for a number that is not open.
    pub(crate) fn remove(&self, number: u64) -> Option<Hold> {
        let mut files = lock(&self.0);
        let file = files.open.try_remove(usize::try_from(number).ok()?)?;
        if let Some(inode) = file.writes
            && let Some(count) = files.writers.get_mut(&inode)
        {
            *count -= 1;
            if *count == 0 {
                files.writers.remove(&inode);
            }
        }
        Some(file.hold)
    }

    /// Whether the kernel does not cache the data of an open file: then it sends no fsync after a write with O_SYNC.
    pub(crate) fn is_direct(&self, number: u64) -> bool {
        let files = lock(&self.0);
        let file = usize::try_from(number).ok().and_then(|n| files.open.get(n));
        file.is_some_and(|file| file.is_direct)
    }

    /// Whether a file is open for writing, by its inode number.
    pub(crate) fn has_writer(&self, number: u64) -> bool {
        lock(&self.0).writers.contains_key(&number)
    }

    /// Removes all files, at the end of the mount.
    pub(crate) fn take_all(&self) -> Vec<Hold> {
        let mut files = lock(&self.0);
        files.writers.clear();
        files.open.drain().map(|f| f.hold).collect()
    }

    /// Number of open files.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_writer_until_the_last_one_is_closed() {
        let opened = Opened::default();
        let open = |writes| opened.add(Hold::new(|| ()), writes, false).unwrap();
        let (first, second, reader) = (open(Some(7)), open(Some(7)), open(None));
        assert_eq!(opened.len(), 3);
        drop(opened.remove(first));
        assert!(opened.has_writer(7) && !opened.has_writer(8));
        drop(opened.remove(second));
        drop(opened.remove(reader));
        assert!(!opened.has_writer(7));
        assert!(opened.remove(second).is_none() && opened.remove(u64::MAX).is_none());
        assert_eq!(opened.len(), 0);
        let direct = opened.add(Hold::new(|| ()), Some(7), true).unwrap();
        assert!(opened.is_direct(direct) && !opened.is_direct(direct + 1));
    }
}
