//! Staging area of a socket: received bytes are appended at the end and parsed from the front.
//!
//! **Invariants**: `start <= end <= capacity`; the memory grows to its full size only when bytes arrive, so an idle
//! connection costs a page at most.

/// A byte queue with one contiguous readable part and one contiguous free tail.
pub struct RecvBuf {
    data: Box<[u8]>,
    start: usize,
    end: usize,
}

impl RecvBuf {
    /// An empty buffer of `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> RecvBuf {
        RecvBuf {
            data: vec![0; capacity].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    /// The bytes that were received and not consumed.
    #[must_use]
    pub fn readable(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// The same bytes, for changes in place.
    pub fn readable_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.start..self.end]
    }

    /// Removes `n` bytes from the front. Panics if fewer are readable.
    pub fn consume(&mut self, n: usize) {
        assert!(
            n <= self.end - self.start,
            "consumed more than was readable"
        );
        self.start += n;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Returns the number of bytes that can be received before the buffer is full. Moves the readable bytes to the front
    /// first if the tail is shorter than `want`.
    pub fn make_room(&mut self, want: usize) -> usize {
        if self.data.len() - self.end < want && self.start > 0 {
            self.data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.data.len() - self.end
    }

    /// Size of the buffer, bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.data.len()
    }

    /// Appends bytes that did not come from a socket: `write` gets the free tail, and returns the number of bytes that it wrote to its
    /// begin. Returns that number.
    pub fn append(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let written = write(self.tail());
        self.filled(written);
        written
    }

    /// The free tail.
    pub(crate) fn tail(&mut self) -> &mut [u8] {
        &mut self.data[self.end..]
    }

    /// Makes `n` bytes of the tail readable, which were filled.
    pub(crate) fn filled(&mut self, n: usize) {
        assert!(
            n <= self.data.len() - self.end,
            "filled more than there was room for"
        );
        self.end += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_bytes_are_read_in_order_across_moves() {
        let mut b = RecvBuf::new(8);
        b.tail()[..6].copy_from_slice(b"abcdef");
        b.filled(6);
        b.consume(4);
        assert_eq!(b.make_room(4), 6);
        b.tail()[..2].copy_from_slice(b"gh");
        b.filled(2);
        assert_eq!(b.readable(), b"efgh");
        b.consume(4);
        assert_eq!(b.make_room(8), 8);
        let appended = b.append(|tail| {
            tail[..2].copy_from_slice(b"ij");
            2
        });
        assert_eq!((appended, b.readable()), (2, &b"ij"[..]));
    }
}
