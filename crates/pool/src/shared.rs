//! What a pool's owner and its volumes share, on whatever shard they are.
//!
//! **Owns** the devices, the node cache, how much may be dirty ([`Room`]), and who reads what may be freed
//! ([`Readers`]). **Called by** volumes and the owner. **Invariants**: locks are held for moments and never across an
//! `await`; a block that a reader may come to is not reused before the reader is done.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use io::BufPool;
use io::sync::{Bell, oneshot};

use crate::format::{BlockPtr, Node};
use crate::tree::{self, NodeCache};
use crate::vdev::Vdevs;
use crate::{Error, Result};

/// Memory for nodes, and for pieces of requests, that are being read.
const READ_BUFFER_BYTES: usize = 8 << 20;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does several things at the same time, on this task: what is dropped with it ends with it.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(Box::pin).map(Ok).collect();
    poll_fn(|cx| {
        let mut is_done = true;
        for slot in &mut running {
            if let Ok(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slot = Err(output),
                    Poll::Pending => is_done = false,
                }
            }
        }
        match is_done {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    running
        .into_iter()
        .filter_map(std::result::Result::err)
        .collect()
}

/// A pool, as its volumes see it.
pub(crate) struct Shared {
    pub(crate) vdevs: Arc<Vdevs>,
    cache: Mutex<NodeCache>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) room: Room,
    /// Wakes the owner.
    pub(crate) bell: Bell,
    /// Buffers of the pool's own writes. Whoever holds one waits for nothing but the devices.
    pub(crate) buffers: BufPool,
    /// Buffers of nodes and pieces that are read. Whoever holds one waits for nothing but the devices.
    pub(crate) read_buffers: BufPool,
    failed: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        vdevs: Arc<Vdevs>,
        cache_bytes: usize,
        dirty_max: u64,
        buffer_bytes: usize,
    ) -> Self {
        Self {
            vdevs,
            cache: Mutex::new(NodeCache::new(cache_bytes)),
            readers: Arc::default(),
            room: Room::new(dirty_max),
            bell: Bell::new(),
            buffers: BufPool::new(buffer_bytes),
            read_buffers: BufPool::new(READ_BUFFER_BYTES),
            failed: AtomicBool::new(false),
        }
    }

    /// Whether a write or flush failed on every side of a vdev: nothing more is taken.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.room.wake();
        self.bell.ring();
    }

    /// A node of some tree, from the cache or the devices.
    pub(crate) async fn node(&self, ptr: &BlockPtr) -> Result<Arc<Node>> {
        if let Some(node) = lock(&self.cache).get(ptr) {
            return Ok(node);
        }
        let bytes = self.vdevs.read_to(ptr, &self.read_buffers).await?;
        let node = tree::load(ptr, bytes[..ptr.physical_size as usize].to_vec())?;
        self.hold(ptr, node.clone());
        Ok(node)
    }

    pub(crate) fn hold(&self, ptr: &BlockPtr, node: Arc<Node>) {
        lock(&self.cache).insert(ptr, node);
    }

    pub(crate) fn cache_stats(&self) -> tree::CacheStats {
        lock(&self.cache).stats()
    }
}

/// Who reads what a checkpoint may free.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    age: u64,
    /// Readers by the age in which they began.
    began: BTreeMap<u64, u64>,
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

/// Somebody reads: what was not free when he began is not reused.
pub(crate) struct Reader {
    readers: Arc<Readers>,
    age: u64,
}

impl Readers {
    pub(crate) fn enter(self: &Arc<Self>) -> Reader {
        let mut counts = lock(&self.0);
        let age = counts.age;
        *counts.began.entry(age).or_default() += 1;
        Reader {
            readers: self.clone(),
            age,
        }
    }

    /// Waits until everybody is done who began before this call.
    pub(crate) async fn quiesce(&self) {
        let done = {
            let mut counts = lock(&self.0);
            let age = counts.age;
            counts.age += 1;
            if counts.began.is_empty() {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            counts.waiting.push((age, sender));
            receiver
        };
        done.await;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut counts = lock(&self.readers.0);
        let left = counts.began.get_mut(&self.age).map(|n| {
            *n -= 1;
            *n
        });
        if left == Some(0) {
            counts.began.remove(&self.age);
            let oldest = counts.began.first_key_value().map_or(u64::MAX, |(a, _)| *a);
            // dropping a sender wakes its receiver
            counts.waiting.retain(|(age, _)| *age >= oldest);
        }
    }
}

/// How much may be dirty, and how much of that has a place to go to.
pub(crate) struct Room(Mutex<Space>);

struct Space {
    /// Bytes of records in memory, not written yet.
    dirty: u64,
    dirty_max: u64,
    /// Of them, bytes without an address yet.
    promised: u64,
    /// Bytes that data may still be allocated from, as the owner last said.
    allocatable: u64,
    /// Checkpoints that ended.
    checkpoints: u64,
    /// Somebody waits for a checkpoint to free something.
    short: bool,
    /// Nothing that a checkpoint could free is left, as the owner last said.
    settled: bool,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// Bytes that may be dirty. Dropped, they are given back.
pub(crate) struct Entered<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Entered<'_> {
    /// They are dirty.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.room.replaced(self.bytes);
    }
}

/// Checkpoints after which somebody who waits for space gives up: one may have begun before what frees it.
const CHECKPOINTS_MAX: u64 = 2;

impl Room {
    fn new(dirty_max: u64) -> Self {
        Self(Mutex::new(Space {
            dirty: 0,
            dirty_max,
            promised: 0,
            allocatable: 0,
            checkpoints: 0,
            short: false,
            settled: false,
            waiting: VecDeque::new(),
        }))
    }

    /// Waits until `bytes` more may be dirty.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no place for them, also after a checkpoint; [`Error::Device`].
    pub(crate) async fn enter(&self, shared: &Shared, bytes: u64) -> Result<Entered<'_>> {
        let mut asked_at = None;
        loop {
            if shared.has_failed() {
                return Err(Error::Device);
            }
            let changed = {
                let mut space = lock(&self.0);
                let fits = space.promised + bytes <= space.allocatable;
                if fits && (space.dirty == 0 || space.dirty + bytes <= space.dirty_max) {
                    space.dirty += bytes;
                    space.promised += bytes;
                    return Ok(Entered { room: self, bytes });
                }
                if !fits {
                    let asked_at = *asked_at.get_or_insert(space.checkpoints);
                    if space.settled || space.checkpoints >= asked_at + CHECKPOINTS_MAX {
                        return Err(Error::NoSpace);
                    }
                    space.short = true;
                }
                let (sender, receiver) = oneshot::channel();
                space.waiting.push_back(sender);
                receiver
            };
            shared.bell.ring();
            changed.await;
        }
    }

    /// Records of these bytes are dirty no more, without having been written.
    pub(crate) fn replaced(&self, bytes: u64) {
        let mut space = lock(&self.0);
        space.dirty -= bytes;
        space.promised -= bytes;
        space.waiting.clear();
    }

    /// Records of these bytes have their addresses; so much may still be allocated.
    pub(crate) fn placed(&self, bytes: u64, allocatable: u64) {
        let mut space = lock(&self.0);
        space.promised -= bytes;
        space.allocatable = allocatable;
        space.settled = false;
    }

    /// Records of these bytes are written.
    pub(crate) fn written(&self, bytes: u64) {
        let mut space = lock(&self.0);
        space.dirty -= bytes;
        space.waiting.clear();
    }

    /// So much may be allocated. `settled` if another checkpoint would free nothing.
    pub(crate) fn checkpointed(&self, allocatable: u64, settled: bool) {
        let mut space = lock(&self.0);
        space.allocatable = allocatable;
        space.checkpoints += 1;
        space.settled = settled;
        space.waiting.clear();
    }

    /// Whether somebody waits for space; asks once.
    pub(crate) fn is_short(&self) -> bool {
        std::mem::take(&mut lock(&self.0).short)
    }

    /// Bytes of records in memory, not written yet.
    pub(crate) fn dirty(&self) -> u64 {
        lock(&self.0).dirty
    }

    fn wake(&self) {
        lock(&self.0).waiting.clear();
    }
}
