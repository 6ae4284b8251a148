//! Buffers with several owners.
//!
//! **Called by** protocols, which hand received data to file systems as a part of the request that it came in; by volumes and
//! write-back, for data on its way to a disk. **Invariant**: the bytes do not change while there is a second owner.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::IoBuf;

/// A part of a buffer, or all of it. Clones share the bytes; the buffer returns to its pool with the last clone.
#[derive(Clone)]
pub struct SharedBuf {
    bytes: Bytes,
    start: usize,
    len: usize,
}

#[derive(Clone)]
enum Bytes {
    /// A page-aligned buffer of a pool.
    Pooled(Arc<IoBuf>),
    /// A short request, which is not worth a page.
    Heap(Arc<[u8]>),
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
            bytes: self.bytes.clone(),
            start: self.start + start,
            len,
        }
    }

    /// Returns the part that has the bytes of `slice`, which was borrowed from this buffer: a parser's result as a part of what
    /// it parsed. No byte is copied.
    ///
    /// # Panics
    /// If `slice` has bytes outside of this buffer.
    #[must_use]
    pub fn part_of(&self, slice: &[u8]) -> SharedBuf {
        if slice.is_empty() {
            return self.part(0, 0);
        }
        let start = (slice.as_ptr() as usize).checked_sub(self.as_ptr() as usize);
        let start = start.expect("a borrowed slice begins within its buffer");
        self.part(start, slice.len())
    }

    /// Returns the whole buffer, if it is one of a pool and there is no other owner.
    #[must_use]
    pub fn into_inner(self) -> Option<IoBuf> {
        match self.bytes {
            Bytes::Pooled(buf) => Arc::into_inner(buf),
            Bytes::Heap(_) => None,
        }
    }
}

impl From<IoBuf> for SharedBuf {
    fn from(buf: IoBuf) -> Self {
        let len = buf.len();
        let bytes = Bytes::Pooled(Arc::new(buf));
        SharedBuf {
            bytes,
            start: 0,
            len,
        }
    }
}

impl From<&[u8]> for SharedBuf {
    /// A copy on the heap: for short data only, as no pool bounds it.
    fn from(bytes: &[u8]) -> Self {
        SharedBuf {
            bytes: Bytes::Heap(bytes.into()),
            start: 0,
            len: bytes.len(),
        }
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.bytes {
            Bytes::Pooled(buf) => buf,
            Bytes::Heap(bytes) => bytes,
        };
        &all[self.start..self.start + self.len]
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::BufPool;

    fn buffers() -> [SharedBuf; 2] {
        let pool = BufPool::new(1 << 20);
        let mut pooled = pool.try_alloc(100).expect("room");
        let bytes: Vec<u8> = (0..100).collect();
        pooled.copy_from_slice(&bytes);
        [pooled.into(), SharedBuf::from(&bytes[..])]
    }

    #[test]
    fn a_slice_is_found_in_its_buffer_and_in_a_part_of_it() {
        for all in buffers() {
            let part = all.part_of(&all[10..30]);
            assert_eq!(part.as_ptr(), all[10..].as_ptr(), "it was not copied");
            assert_eq!(part.len(), 20);
            assert_eq!(*part.part_of(&part[5..7]), [15, 16]);
            assert!(all.part_of(&[]).is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "within")]
    fn a_slice_of_another_buffer_is_refused() {
        let [one, other] = buffers();
        // One of both is in front of the other, and ends before it.
        let _part = one.part_of(&other);
        let _part = other.part_of(&one);
    }

    #[test]
    #[should_panic(expected = "within")]
    fn a_slice_in_front_of_a_part_is_refused() {
        let [all, _] = buffers();
        let _part = all.part(50, 50).part_of(&all[40..60]);
    }
}
