//! RAM regions: the memory of a RAM disk, which several shards read and write concurrently.
//!
//! **Owns** anonymous mappings. **Invariants**: the memory is accessed only through raw pointers and copies, never through
//! references, because another shard or the kernel may write it at the same time; a reader that races with a writer may see a
//! mixture of old and new bytes, as on any medium beyond its atomic unit.

use crate::{Error, Result};
use std::ptr::NonNull;
use std::sync::Arc;

/// An anonymous mapping. Its pages take memory when they are first written.
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the region is plain memory that lives as long as the value; races are allowed by design (above).
unsafe impl Send for Region {}
// SAFETY: as above; all access is by raw copies.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` zero bytes. Errors: `Exhausted` if there is no address space.
    pub fn anonymous(len: u64) -> Result<Region> {
        let len = usize::try_from(len).map_err(|_| Error::Exhausted(libc::ENOMEM))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps no memory of ours.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len.max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(Region {
            ptr: NonNull::new(p.cast()).expect("mmap never returns null"),
            len: len.max(1),
        })
    }

    /// Length, bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Always false: a region has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let end = usize::try_from(offset)
            .ok()
            .and_then(|o| o.checked_add(len));
        assert!(
            end.is_some_and(|e| e <= self.len),
            "access beyond the region"
        );
        // SAFETY: the offset lies within the mapping, as just checked.
        unsafe { self.ptr.as_ptr().add(offset as usize) }
    }

    /// Returns `len` bytes from `offset` on, to be sent without a copy. Panics beyond the end.
    #[must_use]
    pub fn slice(self: &Arc<Self>, offset: u64, len: usize) -> RamSlice {
        let _ = self.at(offset, len);
        RamSlice {
            region: self.clone(),
            offset: offset as usize,
            len,
        }
    }

    /// Copies `data` to `offset`. Panics beyond the end.
    pub fn write(&self, offset: u64, data: &[u8]) {
        let dst = self.at(offset, data.len());
        // SAFETY: in range; `data` is a reference and so never part of the region.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), dst, data.len()) }
    }

    /// Copies from `offset` into `out`. Panics beyond the end.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let src = self.at(offset, out.len());
        // SAFETY: in range; `out` is a reference and so never part of the region.
        unsafe { std::ptr::copy_nonoverlapping(src, out.as_mut_ptr(), out.len()) }
    }

    /// Bytes that take memory (mincore(2), whole pages).
    #[must_use]
    pub fn resident(&self) -> u64 {
        const PAGES: usize = 65_536;
        let page = crate::limits::BUF_ALIGN;
        let mut seen = vec![0u8; PAGES];
        let mut total = 0;
        for start in (0..self.len).step_by(PAGES * page) {
            let len = (self.len - start).min(PAGES * page);
            // SAFETY: the range lies within the mapping, and `seen` has a byte for each of its pages.
            let r = unsafe {
                libc::mincore(self.ptr.as_ptr().add(start).cast(), len, seen.as_mut_ptr())
            };
            if r == 0 {
                let pages = len.div_ceil(page);
                total += seen[..pages].iter().filter(|s| **s & 1 != 0).count() as u64 * page as u64;
            }
        }
        total
    }

    /// Zeroes `len` bytes from `offset` on. Whole pages give their memory back.
    pub fn zero(&self, offset: u64, len: u64) {
        let len = usize::try_from(len).expect("a region fits the address space");
        let start = self.at(offset, len);
        let page = crate::limits::BUF_ALIGN;
        let head = start.align_offset(page).min(len);
        let pages = (len - head) / page * page;
        // SAFETY: both plain ranges lie within the mapping; MADV_DONTNEED on whole pages of a private anonymous
        // mapping makes them read as zero.
        unsafe {
            std::ptr::write_bytes(start, 0, head);
            if pages > 0 && libc::madvise(start.add(head).cast(), pages, libc::MADV_DONTNEED) != 0 {
                std::ptr::write_bytes(start.add(head), 0, pages);
            }
            std::ptr::write_bytes(start.add(head + pages), 0, len - head - pages);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping; slices hold an `Arc` of it, so none is left.
        unsafe {
            libc::munmap(self.ptr.as_ptr().cast(), self.len);
        }
    }
}

/// A range of a [`Region`], which it keeps alive.
pub struct RamSlice {
    region: Arc<Region>,
    offset: usize,
    len: usize,
}

impl RamSlice {
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

    pub(crate) fn copy_to(&self, start: usize, out: &mut [u8]) {
        assert!(start + out.len() <= self.len, "access beyond the slice");
        self.region.read((self.offset + start) as u64, out);
    }

    pub(crate) fn as_ptr(&self, start: usize) -> *const u8 {
        assert!(start <= self.len, "access beyond the slice");
        self.region
            .at((self.offset + start) as u64, self.len - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_when_written_and_given_back_when_zeroed() {
        let r = Region::anonymous(1 << 30).expect("map");
        assert_eq!(r.resident(), 0);
        r.write(4096 * 7, &[1; 4096 * 3]);
        assert_eq!(r.resident(), 4096 * 3);
        r.zero(0, 1 << 20);
        assert_eq!(r.resident(), 0);
    }

    #[test]
    fn zeroing_any_range_leaves_its_neighbours() {
        let r = Region::anonymous(64 << 10).expect("map");
        for (off, len) in [
            (0u64, 1u64),
            (5, 4090),
            (4096, 4096),
            (4000, 12_000),
            (60_000, 5536),
        ] {
            r.write(0, &vec![0xaa; 64 << 10]);
            r.zero(off, len);
            let mut all = vec![0; 64 << 10];
            r.read(0, &mut all);
            for (i, b) in all.iter().enumerate() {
                let inside = (off..off + len).contains(&(i as u64));
                assert_eq!(*b, if inside { 0 } else { 0xaa }, "byte {i} of {off}+{len}");
            }
        }
    }
}
