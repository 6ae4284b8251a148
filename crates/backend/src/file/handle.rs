//! Handles of files, and holds that keep a file alive.

use std::fmt;

/// Identifies an object for ever: a number is used again only with another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The file system, or the snapshot of one. The `fsid` of clients.
    pub filesystem: u64,
    /// The object's number in the file system. The inode number of clients.
    pub object: u64,
    /// The generation of that number.
    pub generation: u64,
}

/// Keeps an open object alive after its last name is removed. Dropping it closes the object.
pub struct Hold(Option<Box<dyn FnOnce() + Send>>);

impl Hold {
    /// Calls `release` when it is dropped.
    #[must_use]
    pub fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(release)))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}
