//! State that a pool's owner and its volumes share, on all shards.
//!
//! **Owns** the devices, the caches of nodes and records, and the count of readers of blocks that may be freed ([`Readers`]).
//! **Called by** volumes and the owner. **Invariants**: locks are held for moments and never across an `await`; a block that
//! a reader may still reach is not reused before the reader has ended.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use io::BufPool;
use io::sync::{Bell, oneshot};

use crate::cache::RecordCache;
use crate::cache_device::CacheDevices;
use crate::ends::Ends;
use crate::format::{Birth, BlockPtr, Node, TreeId};
use crate::lost::{Lost, LostBlock};
use crate::node_reads::NodeReadCounters;
use crate::options::Options;
use crate::reuse::Reuse;
use crate::scattered::Scattered;
use crate::tree::{self, Need, NodeCache};
use crate::vdev::Vdevs;
use crate::workers::Workers;
use crate::write_budget::{Admitted, WriteBudget};
use crate::{Error, Result};
use io::sync::lock;

/// Memory for nodes, and for parts of requests, that are being read, bytes.
const READ_BUFFER_BYTES: usize = 8 << 20;

/// Tree identifier of pending destroys.
pub(crate) const DESTROYED: TreeId = TreeId(0);

/// Runs several futures concurrently on this task. Dropping it drops all of them.
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

/// The part of a pool that its volumes use.
pub(crate) struct Shared {
    pub(crate) vdevs: Arc<Vdevs>,
    cache: Mutex<NodeCache>,
    pub(crate) records: RecordCache,
    pub(crate) caches: CacheDevices,
    pub(crate) node_reads: NodeReadCounters,
    /// Ends of reads of parts of records.
    pub(crate) part_ends: Ends,
    /// Ends of writes.
    pub(crate) write_ends: Ends,
    /// Reuse distances of reads.
    pub(crate) reuse: Reuse,
    /// Whether new records get checksums of their parts: the pool has the feature for them.
    pub(crate) has_record_parts: bool,
    /// Parts of datasets whose records lie apart.
    pub(crate) scattered: Scattered,
    pub(crate) readers: Arc<Readers>,
    pub(crate) budget: WriteBudget,
    /// Most bytes of records that the journal takes in one append.
    pub(crate) append_max: usize,
    /// Shards that do a part of the owner's work.
    pub(crate) workers: Workers,
    /// Wakes the owner.
    pub(crate) bell: Bell,
    /// Datasets with work for the owner: dirty records, zeroed ranges, or demands. The owner visits no others.
    pub(crate) asking: Mutex<Vec<TreeId>>,
    /// Buffers of the pool's own writes. A task that holds one waits only for the devices.
    pub(crate) buffers: BufPool,
    /// Buffers of nodes and parts that are being read. A task that holds one waits only for the devices.
    pub(crate) read_buffers: BufPool,
    /// Blocks that no member has.
    pub(crate) lost: Lost,
    /// The epoch in which the pool was opened.
    opened_in: OnceLock<Birth>,
    /// Whether a batch of this epoch or a later one is durable, so that no later opening has the same epoch.
    is_epoch_durable: AtomicBool,
    /// The reason why no further changes are accepted.
    failure: OnceLock<Error>,
}

impl Shared {
    pub(crate) fn new(vdevs: Arc<Vdevs>, options: &Options) -> Self {
        let (node_size, extents) = (vdevs.node_size().get(), vdevs.extent_space());
        Self {
            append_max: vdevs.ring().append_max(),
            vdevs,
            cache: Mutex::new(NodeCache::new(options.cache_bytes)),
            records: RecordCache::new(options.record_cache_bytes),
            caches: CacheDevices::new(options.cache_daily_bytes),
            node_reads: NodeReadCounters::default(),
            part_ends: Ends::default(),
            write_ends: Ends::default(),
            reuse: Reuse::default(),
            has_record_parts: options.record_parts,
            scattered: Scattered::default(),
            readers: Arc::default(),
            budget: WriteBudget::new(options.dirty_bytes, node_size.into(), extents),
            workers: Workers::new(options.worker_bytes_min),
            bell: Bell::new(),
            asking: Mutex::default(),
            buffers: BufPool::new(options.buffer_bytes),
            read_buffers: BufPool::new(READ_BUFFER_BYTES),
            lost: Lost::default(),
            opened_in: OnceLock::new(),
            is_epoch_durable: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// The epoch in which the pool was opened.
    ///
    /// # Panics
    /// Before [`Shared::set_opened_in`].
    pub(crate) fn opened_in(&self) -> Birth {
        let epoch = self.opened_in.get().copied();
        epoch.expect("datasets are opened after the journal")
    }

    /// The journal was replayed: the pool is opened in this epoch.
    pub(crate) fn set_opened_in(&self, epoch: Birth) {
        self.opened_in.get_or_init(|| epoch);
    }

    /// Whether the epoch of the opening is on stable storage: no later opening has the same.
    pub(crate) fn is_epoch_durable(&self) -> bool {
        self.is_epoch_durable.load(Ordering::Acquire)
    }

    /// A batch of the epoch of the opening, or of a later one, is durable.
    pub(crate) fn epoch_is_durable(&self) {
        self.is_epoch_durable.store(true, Ordering::Release);
    }

    /// Whether a write or flush failed on every member of a vdev, so that no further changes are accepted.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Why no change is accepted, permanently or for now: a write or flush failed on every member of a vdev, or writes wait
    /// for space in the file system below.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.failure.get().cloned().or_else(|| self.vdevs.full())
    }

    /// Refuses further changes for this reason. Returns the reason that counts, which is the first.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let failure = match error {
            Error::FileSystemFull { .. } => error,
            _ => Error::Device,
        };
        let counts = self.failure.get_or_init(|| failure).clone();
        self.budget.wake();
        self.bell.ring();
        counts
    }

    /// Waits until `bytes` more of a volume may be dirty.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if checkpoints freed no space for them; [`Error::Quota`]; as [`Shared::trouble`].
    pub(crate) async fn admit(&self, id: TreeId, bytes: u64) -> Result<Admitted<'_>> {
        let trouble = || self.trouble();
        self.budget.admit((id, bytes), &self.bell, trouble).await
    }

    /// Reads a node of a tree, from the cache or the devices. Only a read from the devices waits: it has a future of its own on the heap,
    /// because the futures of all changes and reads contain this one, and are copied at each call.
    pub(crate) async fn node(&self, tree: TreeId, need: &Need) -> Result<Arc<Node>> {
        let cached = lock(&self.cache).get(&need.ptr);
        match cached {
            Some(node) => Ok(node),
            None => Box::pin(self.read_node(tree, need)).await,
        }
    }

    async fn read_node(&self, tree: TreeId, need: &Need) -> Result<Arc<Node>> {
        let ptr = &need.ptr;
        let bytes = self.read_node_block(tree, ptr).await;
        let loaded = bytes.and_then(|b| tree::load(ptr, b[..ptr.physical_size as usize].to_vec()));
        match &loaded {
            Ok(node) => match node.lost() {
                None => {
                    self.lost.is_right(ptr);
                    self.cache_node(ptr, node.clone());
                }
                // Each read of a stand-in notes the loss, so it is not kept.
                Some(keys) if tree != DESTROYED => {
                    let lost = LostBlock::stand_in(tree, keys.clone(), *ptr);
                    self.lost.note(&tree::lost(ptr), lost);
                }
                Some(_) => {}
            },
            Err(e) if tree != DESTROYED => {
                self.lost.note(e, LostBlock::node(tree, need.keys(), *ptr))
            }
            Err(_) => {}
        }
        loaded
    }

    pub(crate) fn cache_node(&self, ptr: &BlockPtr, node: Arc<Node>) {
        lock(&self.cache).insert(ptr, node);
    }

    pub(crate) fn cache_stats(&self) -> tree::CacheStats {
        lock(&self.cache).stats()
    }
}

/// Readers of blocks that a checkpoint may free.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    age: u64,
    /// Number of readers by the age in which they began.
    began: BTreeMap<u64, u64>,
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

/// A reader in progress. Blocks that were in use when it began are not reused before it is dropped.
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

    /// Waits until all readers that began before this call have ended.
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
            // Dropping a sender wakes its receiver.
            counts.waiting.retain(|(age, _)| *age >= oldest);
        }
    }
}
