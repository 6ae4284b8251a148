//! Reads of blocks, from cache devices or from the members.
//!
//! **Owns** the order: cache devices first; and the offer of what the members had to cache devices. **Called by** reads of records and of
//! nodes that memory does not have. **Invariants**: every block was verified; one that is on the list of lost blocks is read from the
//! members, so that only they can take it off the list.

use io::{BufPool, IoBuf, time};

use crate::format::{Block, BlockPtr, TreeId};
use crate::shared::Shared;
use crate::{Error, Result};

/// The caches that a read uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caching {
    /// Whether the record cache is asked, and has the record afterwards.
    pub(crate) in_memory: bool,
    /// Whether cache devices are asked, and may have the block afterwards.
    pub(crate) on_devices: bool,
}

impl Caching {
    /// No cache: for work that clients did not ask for.
    pub(crate) const NONE: Self = Self {
        in_memory: false,
        on_devices: false,
    };
}

impl Shared {
    /// The block of a node from the members.
    async fn read_node_of_members(&self, ptr: &BlockPtr) -> Result<IoBuf> {
        let from = time::now();
        let read = self.vdevs.read_to(ptr, &self.read_buffers).await;
        let is_special = self.vdevs.is_special(self.vdevs.address_of(ptr).vdev);
        self.node_reads.add(is_special, time::now().since(from));
        read
    }

    /// The blocks with the space that each takes, if cache devices may be asked for all of them.
    fn cacheable(&self, ptrs: &[BlockPtr]) -> Option<Vec<(BlockPtr, usize)>> {
        let one = |ptr: &BlockPtr| {
            let space = self.vdevs.stored_size(ptr).ok();
            let space = space.filter(|_| !self.lost.lists(ptr))?;
            Some((*ptr, space))
        };
        match self.caches.is_on() {
            true => ptrs.iter().map(one).collect(),
            false => None,
        }
    }

    /// The verified block of a node of a tree, in whole sectors.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::read`].
    pub(crate) async fn read_node_block(&self, tree: TreeId, ptr: &BlockPtr) -> Result<IoBuf> {
        let block = self.cacheable(std::slice::from_ref(ptr));
        let Some(block) = block.filter(|_| self.caches.takes_nodes(tree)) else {
            return self.read_node_of_members(ptr).await;
        };
        if let Some(found) = self.caches.read_run(&block, &self.read_buffers).await {
            return Ok(found);
        }
        let read = self.read_node_of_members(ptr).await?;
        self.caches.offer(ptr, &read);
        Ok(read)
    }

    /// As [`crate::vdev::Vdevs::read_run`].
    pub(crate) async fn read_run(
        &self,
        ptrs: &[BlockPtr],
        buffers: &BufPool,
        caching: Caching,
    ) -> std::result::Result<IoBuf, Vec<Error>> {
        let blocks = caching.on_devices.then(|| self.cacheable(ptrs)).flatten();
        let Some(blocks) = blocks else {
            return self.vdevs.read_run(ptrs, buffers).await;
        };
        if let Some(found) = Box::pin(self.caches.read_run(&blocks, buffers)).await {
            return Ok(found);
        }
        let read = self.vdevs.read_run(ptrs, buffers).await?;
        let mut rest = &read[..];
        for (ptr, space) in &blocks {
            let (block, behind) = rest.split_at(*space);
            self.caches.offer(ptr, block);
            rest = behind;
        }
        Ok(read)
    }

    /// Reads one block into a buffer that has the length of its space. Returns another buffer if a device kept it.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::read_run`].
    pub(crate) async fn read_block_into(
        &self,
        ptr: &BlockPtr,
        buf: IoBuf,
        caching: Caching,
    ) -> std::result::Result<IoBuf, Vec<Error>> {
        let ptrs = std::slice::from_ref(ptr);
        if !caching.on_devices || self.cacheable(ptrs).is_none() {
            return self.vdevs.read_run_into(ptrs, buf).await;
        }
        let read = match Box::pin(self.caches.read_into(ptr, buf)).await {
            Ok(found) => return Ok(found),
            Err(Some(buf)) => self.vdevs.read_run_into(ptrs, buf).await?,
            Err(None) => self.vdevs.read_run(ptrs, &io::pool()).await?,
        };
        self.caches.offer(ptr, &read);
        Ok(read)
    }

    /// As [`crate::vdev::Vdevs::read_parts`].
    pub(crate) async fn read_parts(
        &self,
        block: &Block,
        from: usize,
        buf: IoBuf,
        caching: Caching,
    ) -> Result<IoBuf> {
        let ptrs = std::slice::from_ref(block.ptr());
        if !caching.on_devices || self.cacheable(ptrs).is_none() {
            return self.vdevs.read_parts(block, from, buf).await;
        }
        let len = buf.len();
        let buf = match Box::pin(self.caches.read_parts(block, from, buf)).await {
            Ok(found) => return Ok(found),
            Err(Some(buf)) => buf,
            Err(None) => io::pool().alloc(len).await,
        };
        let read = self.vdevs.read_parts(block, from, buf).await?;
        self.caches.offer_parts(block, from, &read);
        Ok(read)
    }
}
