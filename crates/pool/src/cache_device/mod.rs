//! Cache devices of a pool: a second level of the caches, on fast disks, which survives restarts.
//!
//! A read asks the caches in memory, then the cache devices, then the members. The devices hold blocks as they are stored, and parts of
//! long records, under the hash of address and placement, which name contents for ever.
//!
//! **Owns** the set of devices. **Called by** reads, on all shards, and by the pool's owner, which adds and removes devices. **Invariants**: every block from a device
//! has the checksum in its pointer, so that a device is never needed and never wrong: not after power cuts, rewinds, rot, or the loss of
//! epochs whose numbers are given out again; nothing is repaired from a device. `docs/decisions/0186`.

mod daily;
mod device;
mod index;
mod ring;
mod sketch;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use futures_util::{StreamExt, stream};
use io::disk::Disk;
use io::sync::{read, write};
use io::{BufPool, IoBuf};

use crate::format::{Block, BlockPtr, CacheGuid, CacheLabel, TreeId};
use device::{CacheDevice, Fetched};

pub use device::{CacheCounts, CacheFault, CacheStatus};

/// Reads of one request in flight.
const READS_AT_ONCE: usize = 16;

/// See the module header.
pub(crate) struct CacheDevices {
    devices: RwLock<Vec<Arc<CacheDevice>>>,
    is_any: AtomicBool,
    /// Trees of which no nodes enter (`secondarycache`).
    without_nodes: RwLock<BTreeSet<TreeId>>,
    /// Bytes that may be written to a device in 24 hours; `None` for its size.
    daily: Option<u64>,
}

impl CacheDevices {
    /// No devices.
    pub(crate) fn new(daily: Option<u64>) -> Self {
        Self {
            devices: RwLock::default(),
            is_any: AtomicBool::new(false),
            without_nodes: RwLock::default(),
            daily,
        }
    }

    /// Whether there are devices.
    pub(crate) fn is_on(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Whether nodes of a tree may be on devices.
    pub(crate) fn takes_nodes(&self, tree: TreeId) -> bool {
        !read(&self.without_nodes).contains(&tree)
    }

    /// Sets [`CacheDevices::takes_nodes`]. Nodes that are on devices stay until they are the oldest.
    pub(crate) fn set_nodes(&self, tree: TreeId, takes: bool) {
        if self.takes_nodes(tree) == takes {
            return;
        }
        let mut without = write(&self.without_nodes);
        match takes {
            true => without.remove(&tree),
            false => without.insert(tree),
        };
    }

    /// Whether there is this device, working or not.
    pub(crate) fn has(&self, guid: CacheGuid) -> bool {
        read(&self.devices)
            .iter()
            .any(|device| device.guid() == guid)
    }

    /// Adds a device, with the blocks that are on it. Returns whether it is large enough.
    ///
    /// # Errors
    /// It is gone, or does not answer.
    pub(crate) async fn open(&self, disk: Disk, label: &CacheLabel) -> io::Result<bool> {
        let Some(device) = CacheDevice::open(disk, label, self.daily).await? else {
            return Ok(false);
        };
        write(&self.devices).push(Arc::new(device));
        self.is_any.store(true, Ordering::Release);
        Ok(true)
    }

    /// Removes a device. Returns its disk, unless operations on it may be outstanding.
    pub(crate) fn remove(&self, guid: CacheGuid) -> Option<Disk> {
        let mut devices = write(&self.devices);
        let index = devices.iter().position(|device| device.guid() == guid)?;
        let device = devices.remove(index);
        self.is_any.store(!devices.is_empty(), Ordering::Release);
        (!device.is_out()).then(|| device.disk().clone())
    }

    /// Writes what has gathered in memory, and takes no more blocks.
    pub(crate) async fn close(&self) {
        for device in self.all() {
            device.close().await;
        }
    }

    /// The devices, for operators.
    pub(crate) fn status(&self) -> Vec<CacheStatus> {
        self.all().iter().map(|device| device.status()).collect()
    }

    fn all(&self) -> Vec<Arc<CacheDevice>> {
        read(&self.devices).clone()
    }

    /// The device that has a block.
    fn holder(&self, name: u64) -> Option<Arc<CacheDevice>> {
        let devices = read(&self.devices);
        devices.iter().find(|device| device.has(name)).cloned()
    }

    /// The device that would take a block; `None` if no device works.
    fn taker(&self, name: u64) -> Option<Arc<CacheDevice>> {
        let devices = read(&self.devices);
        let mut working = devices.iter().filter(|device| !device.is_out());
        let count = working.clone().count();
        match count {
            0 => None,
            _ => working.nth((name % count as u64) as usize).cloned(),
        }
    }

    /// Whether a device has the block of this name. Otherwise the lookup counts as a miss.
    fn find(&self, name: u64) -> Option<Arc<CacheDevice>> {
        let holder = self.holder(name);
        if holder.is_none()
            && let Some(taker) = self.taker(name)
        {
            taker.count_miss(name);
        }
        holder
    }

    /// Offers a block to the device that has it, or would take it.
    fn offer_named(&self, name: u64, bytes: &[u8]) {
        if let Some(device) = self.holder(name).or_else(|| self.taker(name)) {
            device.offer(name, bytes);
        }
    }

    /// Reads a block of `ptr` into `buf`, whose length is the space that it takes. A buffer is returned in either case, unless a device kept it.
    pub(crate) async fn read_into(
        &self,
        ptr: &BlockPtr,
        buf: IoBuf,
    ) -> Result<IoBuf, Option<IoBuf>> {
        let name = ptr.name_hash();
        let Some(device) = self.find(name) else {
            return Err(Some(buf));
        };
        let size = ptr.physical_size as usize;
        let is_right = |bytes: &[u8]| bytes.get(..size).is_some_and(|b| ptr.verify(b).is_ok());
        match device.fetch(name, buf, is_right).await {
            Fetched::Hit(buf) => Ok(buf),
            Fetched::Miss(buf) => Err(buf),
        }
    }

    /// Reads adjacent blocks, which take these spaces, if all of them are on devices.
    pub(crate) async fn read_run(
        &self,
        blocks: &[(BlockPtr, usize)],
        buffers: &BufPool,
    ) -> Option<IoBuf> {
        let find = |(ptr, _): &(BlockPtr, usize)| self.find(ptr.name_hash());
        if let [(ptr, space)] = blocks {
            let _device = find(&blocks[0])?;
            let buf = buffers.alloc(*space).await;
            return self.read_into(ptr, buf).await.ok();
        }
        let found: Option<Vec<_>> = blocks.iter().map(find).collect();
        let _devices = found?;
        let reads = blocks.iter().map(|(ptr, space)| async move {
            let buf = io::pool().alloc(*space).await;
            self.read_into(ptr, buf).await.ok()
        });
        let reads = stream::iter(reads).buffered(READS_AT_ONCE);
        let read: Vec<Option<IoBuf>> = reads.collect().await;
        let read: Vec<IoBuf> = read.into_iter().collect::<Option<_>>()?;
        let mut all = buffers
            .alloc(read.iter().map(|block| block.len()).sum())
            .await;
        let mut rest = &mut all[..];
        for block in read {
            let (part, behind) = rest.split_at_mut(block.len());
            part.copy_from_slice(&block);
            rest = behind;
        }
        Some(all)
    }

    /// Offers a block that was read from the members, as it is stored.
    pub(crate) fn offer(&self, ptr: &BlockPtr, bytes: &[u8]) {
        self.offer_named(ptr.name_hash(), bytes);
    }

    /// As [`CacheDevices::read_into`], for the parts of a block that begin at byte `from` of it and have the length of `buf`, if devices have all of
    /// them.
    pub(crate) async fn read_parts(
        &self,
        block: &Block,
        from: usize,
        mut buf: IoBuf,
    ) -> Result<IoBuf, Option<IoBuf>> {
        if buf.len() <= block.part_size() {
            return self.read_part(block, from, buf).await;
        }
        let starts = (from..from + buf.len()).step_by(block.part_size());
        for (start, part) in starts.zip(buf.chunks_mut(block.part_size())) {
            let own = io::pool().alloc(part.len()).await;
            match self.read_part(block, start, own).await {
                Ok(found) => part.copy_from_slice(&found),
                Err(_) => return Err(Some(buf)),
            }
        }
        Ok(buf)
    }

    async fn read_part(
        &self,
        block: &Block,
        from: usize,
        buf: IoBuf,
    ) -> Result<IoBuf, Option<IoBuf>> {
        let name = block.ptr().part_name_hash(from);
        let Some(device) = self.find(name) else {
            return Err(Some(buf));
        };
        let is_right = |bytes: &[u8]| block.verify_parts(from, bytes).is_ok();
        match device.fetch(name, buf, is_right).await {
            Fetched::Hit(buf) => Ok(buf),
            Fetched::Miss(buf) => Err(buf),
        }
    }

    /// As [`CacheDevices::offer`], for the parts from byte `from` of a block on.
    pub(crate) fn offer_parts(&self, block: &Block, from: usize, bytes: &[u8]) {
        let starts = (from..from + bytes.len()).step_by(block.part_size());
        for (start, part) in starts.zip(bytes.chunks(block.part_size())) {
            self.offer_named(block.ptr().part_name_hash(start), part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::index::Index;
    use super::sketch::{Evicted, Sketch};
    use io::rng::Prng;

    /// The tables of a full device of 16 KiB blocks.
    #[test]
    fn a_block_takes_at_most_ten_bytes_of_memory() {
        const SIZE: u64 = 16 << 30;
        const BLOCKS: usize = (SIZE >> 14) as usize;
        let mut rng = Prng::new(1);
        let (mut index, mut sketch) = (Index::new(SIZE), Sketch::new(SIZE));
        let mut evicted = Evicted::default();
        for place in 0..BLOCKS {
            let name = rng.u64();
            index.insert(name, place as u32);
            evicted.note(!name, index.len());
        }
        sketch.fit(index.len());
        let memory = index.memory() + sketch.memory() + evicted.memory();
        assert!(
            memory <= 10 * index.len(),
            "{memory} bytes for {BLOCKS} blocks"
        );
    }
}
