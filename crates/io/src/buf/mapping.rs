//! An anonymous mapping: memory from the kernel, whole pages, zero until it is written.
//!
//! **Owns** the mapping until it is dropped. **Called by** slabs of buffers, and by areas of receives for RDMA.

use std::ptr::NonNull;

use crate::Result;

/// The memory. What uses it decides which part may be used where.
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory, of which this only knows the address.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes, which are whole pages. Errors: `Exhausted`, or another error of the kernel.
    pub(crate) fn new(len: usize) -> Result<Mapping> {
        // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps no memory of ours.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        let ptr = NonNull::new(mapped.cast()).expect("a mapping has an address");
        Ok(Mapping { ptr, len })
    }

    /// Its first byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Its length, bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which its owner uses no longer.
        unsafe {
            libc::munmap(self.ptr.as_ptr().cast(), self.len);
        }
    }
}
