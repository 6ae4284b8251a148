//! Payload of a read: bytes in a buffer, in the RAM region of a RAM disk, or zeroes.
//!
//! **Invariants**: a payload is never longer than its buffer or region. [`Payload::as_slice`] exists only for stable bytes:
//! RAM that other clients may write at any time has no slice, only copies.

use super::IoBuf;
use crate::ram::{RamSlice, Region};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Bytes to send. Cheap to move; their memory is given back when this is dropped.
pub struct Payload {
    data: Data,
    start: usize,
    len: usize,
}

enum Data {
    Buf(IoBuf),
    Shared(Arc<IoBuf>),
    Heap(Vec<u8>),
    SharedHeap(Arc<Vec<u8>>),
    Ram(RamSlice),
    SharedRam(Arc<RamSlice>),
}

impl Payload {
    /// `len` zero bytes that take no memory.
    #[must_use]
    pub fn zeroes(len: usize) -> Payload {
        static ZEROES: OnceLock<Arc<Region>> = OnceLock::new();
        let region = ZEROES.get_or_init(|| {
            Arc::new(
                Region::anonymous(crate::limits::BUF_LEN_MAX as u64)
                    .expect("address space for the zero region"),
            )
        });
        Payload {
            data: Data::Ram(region.slice(0, len)),
            start: 0,
            len,
        }
    }

    /// Bytes of a RAM region, sent without a copy.
    #[must_use]
    pub fn ram(slice: RamSlice) -> Payload {
        let len = slice.len();
        Payload {
            data: Data::Ram(slice),
            start: 0,
            len,
        }
    }

    /// A buffer that has other readers, such as a cache's.
    #[must_use]
    pub fn shared(buf: Arc<IoBuf>) -> Payload {
        let len = buf.len();
        Payload {
            data: Data::Shared(buf),
            start: 0,
            len,
        }
    }

    /// Length, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the part of `len` bytes from `start` on. Panics if it is beyond the end.
    #[must_use]
    pub fn sub(mut self, start: usize, len: usize) -> Payload {
        assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len),
            "a part lies within its payload"
        );
        self.start += start;
        self.len = len;
        self
    }

    /// Returns another handle of the same bytes: for data that is sent in several parts, or may be sent again.
    #[must_use]
    pub fn fork(&mut self) -> Payload {
        self.data = match std::mem::replace(&mut self.data, Data::Heap(Vec::new())) {
            Data::Buf(b) => Data::Shared(Arc::new(b)),
            Data::Heap(v) => Data::SharedHeap(Arc::new(v)),
            Data::Ram(r) => Data::SharedRam(Arc::new(r)),
            shared => shared,
        };
        let data = match &self.data {
            Data::Shared(b) => Data::Shared(b.clone()),
            Data::SharedHeap(v) => Data::SharedHeap(v.clone()),
            Data::SharedRam(r) => Data::SharedRam(r.clone()),
            Data::Buf(_) | Data::Heap(_) | Data::Ram(_) => {
                unreachable!("all were made shared above")
            }
        };
        Payload { data, ..*self }
    }

    /// The bytes, if they cannot change; `None` for RAM that writers share. Compute a digest only over stable bytes: copy
    /// others first with [`Payload::copy_to`].
    #[must_use]
    pub fn as_slice(&self) -> Option<&[u8]> {
        let all: &[u8] = match &self.data {
            Data::Buf(b) => b,
            Data::Shared(b) => b,
            Data::Heap(v) => v,
            Data::SharedHeap(v) => v,
            Data::Ram(_) | Data::SharedRam(_) => return None,
        };
        Some(&all[self.start..self.start + self.len])
    }

    /// Copies all bytes into `out`, which has the payload's length.
    pub fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(
            out.len(),
            self.len,
            "copy_to wants a slice of the payload's length"
        );
        self.copy_part(0, out);
    }

    /// Copies bytes from `at` on into `out`, which is no longer than the rest of the payload.
    pub fn copy_part(&self, at: usize, out: &mut [u8]) {
        assert!(
            out.len() <= self.len - at,
            "copy_part wants no more than there is"
        );
        match (&self.data, self.as_slice()) {
            (Data::Ram(r), _) => r.copy_to(self.start + at, out),
            (Data::SharedRam(r), _) => r.copy_to(self.start + at, out),
            (_, Some(s)) => out.copy_from_slice(&s[at..at + out.len()]),
            (_, None) => unreachable!("only RAM has no slice"),
        }
    }

    /// The buffer that has the bytes, if they are in one.
    pub(crate) fn io_buf(&self) -> Option<&IoBuf> {
        match &self.data {
            Data::Buf(buf) => Some(buf),
            Data::Shared(buf) => Some(buf),
            Data::Heap(_) | Data::SharedHeap(_) | Data::Ram(_) | Data::SharedRam(_) => None,
        }
    }

    /// Address of the bytes, for the kernel to read.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        match (&self.data, self.as_slice()) {
            (Data::Ram(r), _) => r.as_ptr(self.start),
            (Data::SharedRam(r), _) => r.as_ptr(self.start),
            (_, Some(s)) => s.as_ptr(),
            (_, None) => unreachable!("only RAM has no slice"),
        }
    }
}

impl From<IoBuf> for Payload {
    fn from(b: IoBuf) -> Payload {
        let len = b.len();
        Payload {
            data: Data::Buf(b),
            start: 0,
            len,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(v: Vec<u8>) -> Payload {
        let len = v.len();
        Payload {
            data: Data::Heap(v),
            start: 0,
            len,
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_copies_agree_for_every_kind() {
        let region = Arc::new(Region::anonymous(8192).expect("map"));
        region.write(4096, &[7; 100]);
        for p in [
            Payload::from([vec![0; 10], vec![7; 90]].concat()),
            Payload::ram(region.slice(4086, 100)),
        ] {
            let mut out = [0; 20];
            let mut p = p;
            for part in [p.fork().fork(), p] {
                part.sub(0, 40).sub(5, 20).copy_to(&mut out);
                assert_eq!(out, [[0; 5].as_slice(), &[7; 15]].concat()[..]);
                out.fill(0);
            }
        }
        assert!(Payload::zeroes(100).as_slice().is_none());
    }
}
