//! Memory for buffers: mapped slabs, divided into blocks.
//!
//! The process's allocator is not used: glibc puts a header before each aligned block, so that blocks of one page
//! take two.
//!
//! **Owns** the mappings. **Called by** [`super::pool`]. **Invariants**: no two blocks share memory; a slab lives as
//! long as one of its blocks; the memory of an emptied block belongs to the kernel until it is written again, and is
//! zero then.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::limits::BUF_ALIGN;

/// Bytes of a slab; one that a larger block needs has its size.
const SLAB_LEN: usize = 1 << 20;

struct Slab {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a slab is plain memory; who may use which part is the blocks' affair.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(len: usize) -> Arc<Slab> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let ptr = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let ptr = NonNull::new(ptr.cast()).filter(|_| ptr != libc::MAP_FAILED);
        let Some(ptr) = ptr else {
            let layout = Layout::from_size_align(len, BUF_ALIGN);
            handle_alloc_error(layout.expect("slabs are whole pages"))
        };
        Arc::new(Slab { ptr, len })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no block is left.
        unsafe {
            libc::munmap(self.ptr.as_ptr().cast(), self.len);
        }
    }
}

/// A page-aligned part of a slab; zero until it is written.
pub(super) struct Block {
    ptr: NonNull<u8>,
    len: usize,
    _slab: Arc<Slab>,
}

// SAFETY: a block is plain memory owned by exactly one holder at a time.
unsafe impl Send for Block {}
// SAFETY: shared access to a block is only ever reading through `&IoBuf`.
unsafe impl Sync for Block {}

impl Block {
    /// The blocks of `len` bytes, whole pages and a power of two, of a new slab; one at least.
    pub(super) fn of_new_slab(len: usize) -> Vec<Block> {
        assert!(len.is_power_of_two() && len.is_multiple_of(BUF_ALIGN));
        let slab = Slab::new(len.max(SLAB_LEN));
        let starts = (0..slab.len).step_by(len);
        let block = |start| Block {
            // SAFETY: the slab has `len` bytes from `start` on.
            ptr: unsafe { slab.ptr.add(start) },
            len,
            _slab: slab.clone(),
        };
        starts.map(block).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Gives the memory back to the kernel; the addresses stay this block's.
    pub(super) fn empty(&mut self) {
        // SAFETY: whole pages of our own anonymous mapping, which `&mut self` makes ours alone.
        let given =
            unsafe { libc::madvise(self.ptr.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
        assert_eq!(given, 0, "whole pages of an anonymous mapping");
    }
}
