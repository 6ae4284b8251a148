//! Memory for buffers: mapped slabs, divided into blocks.
//!
//! The process's allocator is not used: glibc puts a header before each aligned block, so that a block of one page takes two.
//!
//! **Owns** the slabs. **Called by** [`super::pool`]. **Invariants**: no two blocks share memory; a slab lives as long as
//! one of its blocks; the kernel takes the memory of an emptied block until the block is written again; the block reads as
//! zero then.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::mapping::Mapping;
use crate::Result;
use crate::limits::BUF_ALIGN;
use crate::linux::{RdmaDevice, RegisteredSlab};
use crate::sync::lock;

/// Length of a slab, bytes. A larger block gets a slab of its own length.
const SLAB_LEN: usize = 1 << 20;

struct Slab {
    /// Its registrations with RDMA devices, which end before its memory.
    registered: Mutex<RegisteredSlab>,
    memory: Mapping,
    /// Bytes of emptied blocks.
    emptied: AtomicUsize,
}

impl Slab {
    fn new(len: usize) -> Arc<Slab> {
        let Ok(memory) = Mapping::new(len) else {
            let layout = Layout::from_size_align(len, BUF_ALIGN);
            handle_alloc_error(layout.expect("slabs are whole pages"))
        };
        Arc::new(Slab {
            registered: Mutex::default(),
            memory,
            emptied: AtomicUsize::new(0),
        })
    }
}

/// A page-aligned part of a slab; zero until it is written.
pub(super) struct Block {
    ptr: NonNull<u8>,
    len: usize,
    slab: Arc<Slab>,
}

// SAFETY: a block is plain memory with exactly one owner at a time.
unsafe impl Send for Block {}
// SAFETY: shared access to a block only reads, through `&IoBuf`.
unsafe impl Sync for Block {}

impl Block {
    /// Maps a new slab and divides it into blocks of `len` bytes (whole pages and a power of two). Returns at least one
    /// block.
    pub(super) fn of_new_slab(len: usize) -> Vec<Block> {
        assert!(len.is_power_of_two() && len.is_multiple_of(BUF_ALIGN));
        let slab = Slab::new(len.max(SLAB_LEN));
        let starts = (0..slab.memory.len()).step_by(len);
        let block = |start| Block {
            // SAFETY: the slab has `len` bytes from `start` on.
            ptr: unsafe { slab.memory.ptr().add(start) },
            len,
            slab: slab.clone(),
        };
        starts.map(block).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The key of the block's slab for requests to an RDMA device. Errors: `Exhausted` if the process may not lock the slab.
    pub(super) fn lkey(&self, device: &Arc<RdmaDevice>) -> Result<u32> {
        let memory = &self.slab.memory;
        let slab = (memory.ptr().as_ptr().cast_const(), memory.len());
        // SAFETY: a slab ends its registrations before its memory.
        unsafe { lock(&self.slab.registered).lkey(device, slab) }
    }

    /// Gives the block's memory back to the kernel. The block keeps its addresses. A slab that an RDMA device has gives its memory back when
    /// all its blocks are empty, because the device knows the slab's present pages.
    pub(super) fn empty(&mut self) {
        let emptied = self.slab.emptied.fetch_add(self.len, Ordering::Relaxed) + self.len;
        let mut registered = lock(&self.slab.registered);
        if registered.is_empty() {
            discard(self.ptr, self.len);
        } else if emptied == self.slab.memory.len() {
            *registered = RegisteredSlab::default();
            discard(self.slab.memory.ptr(), self.slab.memory.len());
        }
    }

    /// A new block, which is empty.
    pub(super) fn begin_empty(&self) {
        self.slab.emptied.fetch_add(self.len, Ordering::Relaxed);
    }

    /// An emptied block is used again.
    pub(super) fn refill(&self) {
        self.slab.emptied.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// Gives whole pages back to the kernel.
fn discard(at: NonNull<u8>, len: usize) {
    // SAFETY: whole pages of our own anonymous mapping, of which nothing is in use.
    let given = unsafe { libc::madvise(at.as_ptr().cast(), len, libc::MADV_DONTNEED) };
    assert_eq!(given, 0, "whole pages of an anonymous mapping");
}
