//! Buffers with several owners.
//!
//! **Invariant**: the bytes do not change while there is a second owner.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::IoBuf;

/// A part of a buffer, or all of it. Clones share the bytes; the buffer returns to its pool with the last clone.
#[derive(Clone)]
pub struct SharedBuf {
    buf: Arc<IoBuf>,
    start: usize,
    len: usize,
}

impl SharedBuf {
    /// Returns the part of `len` bytes from `start` on.
    ///
    /// # Panics
    /// If the part is beyond the end.
    #[must_use]
    pub fn part(&self, start: usize, len: usize) -> SharedBuf {
        assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len),
            "a part lies within the whole"
        );
        SharedBuf {
            buf: self.buf.clone(),
            start: self.start + start,
            len,
        }
    }

    /// Returns the whole buffer, if there is no other owner.
    #[must_use]
    pub fn into_inner(self) -> Option<IoBuf> {
        Arc::into_inner(self.buf)
    }
}

impl From<IoBuf> for SharedBuf {
    fn from(buf: IoBuf) -> Self {
        let len = buf.len();
        let buf = Arc::new(buf);
        SharedBuf { buf, start: 0, len }
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.start..self.start + self.len]
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len)
    }
}
