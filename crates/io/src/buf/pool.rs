//! Aligned buffers from a bounded pool.
//!
//! **Owns** all memory that disks read into and write from. **Called by** backends (reads), the server's protocols (writes)
//! and the lab. **Invariants**: `used + idle <= limit`, and buffers take no more of the process's memory than that; waiters
//! are served in order of arrival, so that small requests do not starve a large one; buffers are page-aligned, and zeroed
//! when first created.

use super::slab::Block;
use crate::Result;
use crate::limits::{BUF_ALIGN, BUF_LEN_MAX};
use crate::linux::RdmaDevice;
use crate::stage::{self, Stage};
use crate::sync::lock;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Size classes are powers of two from `BUF_ALIGN` to `BUF_LEN_MAX`.
const CLASSES: usize = (BUF_LEN_MAX / BUF_ALIGN).trailing_zeros() as usize + 1;

/// A bounded pool of aligned buffers. Cheap to clone; clones share the limit.
#[derive(Clone)]
pub struct BufPool(Arc<Mutex<Accounts>>);

struct Accounts {
    limit: usize,
    used: usize,
    idle: usize,
    free: [Vec<Block>; CLASSES],
    /// Blocks without memory: the kernel has it.
    empty: [Vec<Block>; CLASSES],
    waiters: VecDeque<Waiter>,
    next_ticket: u64,
}

struct Waiter {
    ticket: u64,
    waker: Waker,
}

/// Use of a pool, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Most bytes that the pool may have.
    pub limit: usize,
    /// Bytes in buffers in use.
    pub used: usize,
    /// Bytes kept for reuse.
    pub idle: usize,
    /// Number of requests that wait for memory.
    pub waiting: usize,
}

fn class_len(class: usize) -> usize {
    BUF_ALIGN << class
}

fn class_of(len: usize) -> usize {
    assert!(
        len <= BUF_LEN_MAX,
        "a buffer of {len} bytes is larger than BUF_LEN_MAX"
    );
    (len.max(1).div_ceil(BUF_ALIGN))
        .next_power_of_two()
        .trailing_zeros() as usize
}

/// Bytes that a buffer of `len` bytes takes from its pool: its size class.
#[must_use]
pub fn capacity_of(len: usize) -> usize {
    class_len(class_of(len))
}

impl BufPool {
    /// Creates a pool of at most `limit` bytes; at least the size of the largest buffer.
    #[must_use]
    pub fn new(limit: usize) -> BufPool {
        BufPool(Arc::new(Mutex::new(Accounts {
            limit: limit.max(BUF_LEN_MAX),
            used: 0,
            idle: 0,
            free: [const { Vec::new() }; CLASSES],
            empty: [const { Vec::new() }; CLASSES],
            waiters: VecDeque::new(),
            next_ticket: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        lock(&self.0)
    }

    /// Returns a buffer of `len` bytes (1 to [`BUF_LEN_MAX`]); `None` if there is no room or other requests wait.
    #[must_use]
    pub fn try_alloc(&self, len: usize) -> Option<IoBuf> {
        let mut s = self.lock();
        if !s.waiters.is_empty() {
            return None;
        }
        let block = s.take(class_of(len))?;
        drop(s);
        Some(self.wrap(block, len))
    }

    /// Returns a buffer of `len` bytes (1 to [`BUF_LEN_MAX`]). Waits in order of arrival while the pool is at its limit. The
    /// buffer has the contents of its last use: initialised, but not zero.
    pub fn alloc(&self, len: usize) -> Alloc {
        Alloc {
            pool: self.clone(),
            len,
            ticket: None,
            waiting: None,
        }
    }

    /// Returns the pool's use.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let s = self.lock();
        PoolStats {
            limit: s.limit,
            used: s.used,
            idle: s.idle,
            waiting: s.waiters.len(),
        }
    }

    /// Gives idle memory back to the kernel until at most `idle_max` bytes of it remain.
    pub fn trim(&self, idle_max: usize) {
        self.lock().trim(idle_max);
    }

    fn wrap(&self, block: Block, len: usize) -> IoBuf {
        IoBuf {
            block: Some(block),
            len,
            pool: self.clone(),
        }
    }

    fn give_back(&self, block: Block) {
        let mut s = self.lock();
        s.used -= block.len();
        s.idle += block.len();
        s.free[class_of(block.len())].push(block);
        if let Some(w) = s.waiters.front() {
            w.waker.wake_by_ref();
        }
    }
}

impl Accounts {
    fn take(&mut self, class: usize) -> Option<Block> {
        let len = class_len(class);
        if let Some(b) = self.free[class].pop() {
            self.idle -= len;
            self.used += len;
            return Some(b);
        }
        if self.used + len > self.limit {
            return None;
        }
        let others_max = self.limit - self.used - len;
        self.trim(others_max);
        self.used += len;
        assert!(
            self.used + self.idle <= self.limit,
            "the buffer pool is over its limit"
        );
        let empty = &mut self.empty[class];
        if empty.is_empty() {
            let new = Block::of_new_slab(len);
            new.iter().for_each(Block::begin_empty);
            empty.extend(new);
        }
        let block = empty.pop()?;
        block.refill();
        Some(block)
    }

    /// Empties idle blocks, the largest first, until at most `idle_max` bytes of them remain.
    fn trim(&mut self, idle_max: usize) {
        for class in (0..CLASSES).rev() {
            while self.idle > idle_max
                && let Some(mut block) = self.free[class].pop()
            {
                self.idle -= block.len();
                block.empty();
                self.empty[class].push(block);
            }
        }
    }
}

/// Future of a buffer; see [`BufPool::alloc`].
pub struct Alloc {
    pool: BufPool,
    len: usize,
    ticket: Option<u64>,
    waiting: Option<stage::Wait>,
}

impl Future for Alloc {
    type Output = IoBuf;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoBuf> {
        let pool = self.pool.clone();
        let mut s = pool.lock();
        let first = s
            .waiters
            .front()
            .is_none_or(|w| Some(w.ticket) == self.ticket);
        if first && let Some(block) = s.take(class_of(self.len)) {
            if self.ticket.take().is_some() {
                s.waiters.pop_front();
                if let Some(next) = s.waiters.front() {
                    next.waker.wake_by_ref();
                }
            }
            drop(s);
            self.waiting = None;
            return Poll::Ready(pool.wrap(block, self.len));
        }
        match self.ticket {
            Some(t) => {
                if let Some(w) = s.waiters.iter_mut().find(|w| w.ticket == t) {
                    w.waker.clone_from(cx.waker());
                }
            }
            None => {
                let ticket = s.next_ticket;
                s.next_ticket += 1;
                s.waiters.push_back(Waiter {
                    ticket,
                    waker: cx.waker().clone(),
                });
                drop(s);
                self.ticket = Some(ticket);
                self.waiting = Some(stage::wait(Stage::Memory));
            }
        }
        Poll::Pending
    }
}

impl Drop for Alloc {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut s = self.pool.lock();
        s.waiters.retain(|w| w.ticket != ticket);
        if let Some(next) = s.waiters.front() {
            next.waker.wake_by_ref();
        }
    }
}

/// A page-aligned buffer, which returns to its pool when dropped. Derefs to its `len` bytes.
pub struct IoBuf {
    block: Option<Block>,
    len: usize,
    pool: BufPool,
}

impl IoBuf {
    /// Sets the visible length, up to the capacity of the size class.
    pub fn set_len(&mut self, len: usize) {
        assert!(
            len <= self.capacity(),
            "a buffer cannot grow beyond its class"
        );
        self.len = len;
    }

    /// The key of the buffer's memory for requests to an RDMA device. Errors: `Exhausted` if the process may not lock the memory.
    pub(crate) fn lkey(&self, device: &Arc<RdmaDevice>) -> Result<u32> {
        self.block().lkey(device)
    }

    /// Whether the buffer returns to this pool.
    #[must_use]
    pub fn is_of(&self, pool: &BufPool) -> bool {
        Arc::ptr_eq(&self.pool.0, &pool.0)
    }

    /// Bytes that the buffer can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block().len()
    }

    fn block(&self) -> &Block {
        self.block
            .as_ref()
            .expect("a buffer has its block until it is dropped")
    }
}

impl Deref for IoBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is initialised memory of at least `len` bytes, and ours while `self` lives.
        unsafe { std::slice::from_raw_parts(self.block().ptr().as_ptr(), self.len) }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.block().ptr().as_ptr(), self.len) }
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give_back(block);
        }
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_round_up_to_powers_of_two_pages() {
        let pool = BufPool::new(16 << 20);
        for (len, cap) in [
            (1, 4096),
            (4096, 4096),
            (4097, 8192),
            (131_072, 131_072),
            (1 << 20, 1 << 20),
        ] {
            let b = pool.try_alloc(len).expect("there is room");
            assert_eq!((b.len(), b.capacity()), (len, cap));
            assert_eq!(b.as_ptr() as usize % BUF_ALIGN, 0);
        }
    }

    #[test]
    fn the_limit_holds_and_idle_memory_changes_class() {
        let pool = BufPool::new(4 << 20);
        let small: Vec<_> = (0..1024)
            .map(|_| pool.try_alloc(4096).expect("there is room"))
            .collect();
        assert!(pool.try_alloc(1).is_none());
        drop(small);
        let big = pool
            .try_alloc(2 << 20)
            .expect("idle small buffers make way");
        let s = pool.stats();
        assert_eq!(s.used, big.capacity());
        assert!(s.used + s.idle <= s.limit);
    }

    /// Bytes of this process that are in memory.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let pages = statm.split(' ').nth(1).expect("the second field");
        pages.parse::<usize>().expect("a number") * 4096
    }

    /// Regression: a buffer of one page took two, because the allocator's header was in a page of its own.
    #[test]
    fn buffers_take_as_much_memory_as_the_pool_counts() {
        const BYTES: usize = 128 << 20;
        let pool = BufPool::new(BYTES);
        let before = resident();
        let fill = |len: usize| -> Vec<IoBuf> {
            let count = BYTES / len;
            let buf = |_| {
                let mut buf = pool.try_alloc(len).expect("there is room");
                buf.fill(7);
                buf
            };
            (0..count).map(buf).collect()
        };
        for len in [4096, 32_768, 1 << 20, 4096] {
            let bufs = fill(len);
            let taken = resident().saturating_sub(before);
            assert!(taken < BYTES / 4 * 5, "{taken} bytes in buffers of {len}");
            drop(bufs);
        }
        pool.trim(0);
        assert_eq!(pool.stats().idle, 0);
        let taken = resident().saturating_sub(before);
        assert!(taken < BYTES / 4, "{taken} bytes are kept");
    }

    #[test]
    fn a_large_waiter_is_not_overtaken() {
        let pool = BufPool::new(2 << 20);
        let held = pool.try_alloc(4096).expect("there is room");
        let mut big = Box::pin(pool.alloc(2 << 20));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(big.as_mut().poll(&mut cx).is_pending());
        assert!(pool.try_alloc(4096).is_none(), "nobody passes a waiter");
        drop(held);
        assert!(big.as_mut().poll(&mut cx).is_ready());
        assert_eq!(pool.stats().waiting, 0);
    }
}
