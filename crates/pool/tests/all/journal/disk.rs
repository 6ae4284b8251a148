//! A simulated mirror that loses, tears and reorders unflushed writes, independently for each member and sector.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pool::format::{Address, BlockPtr, PoolGuid, Record, Sequence, VdevId, VdevOffset};
use pool::journal::{BatchWrite, Ring, Store, Writer};
use pool::{Error, Result};

pub(crate) const SECTOR: usize = 512;
pub(crate) const POOL: PoolGuid = PoolGuid(0x1122_3344_5566_7788);
/// Start of the data, behind the ring.
pub(crate) const DATA_START: u64 = 64 << 10;
const SIZE: usize = 1 << 20;
/// Most polls of a future that yields.
const TURNS_MAX: usize = 10_000;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % end
    }
}

/// The members' media, and their unflushed writes.
pub(crate) struct Mirror {
    pub(crate) members: RefCell<Vec<Vec<u8>>>,
    /// Unflushed writes: offset, bytes.
    unflushed: RefCell<Vec<(usize, Vec<u8>)>>,
    /// Number of reads.
    pub(crate) reads: Cell<u32>,
    /// Number of reads of data.
    pub(crate) data_reads: Cell<u32>,
}

impl Mirror {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            members: RefCell::new(vec![vec![0xa5; SIZE]; members]),
            unflushed: RefCell::default(),
            reads: Cell::new(0),
            data_reads: Cell::new(0),
        }
    }

    /// Begins a write, which may complete but is not flushed.
    pub(crate) fn put(&self, at: Address, bytes: &[u8]) {
        let entry = (at.offset.0 as usize, bytes.to_vec());
        self.unflushed.borrow_mut().push(entry);
    }

    /// Makes a write durable.
    pub(crate) fn keep(&self, at: Address) {
        let mut unflushed = self.unflushed.borrow_mut();
        for (offset, bytes) in unflushed.extract_if(.., |(o, _)| *o == at.offset.0 as usize) {
            for member in self.members.borrow_mut().iter_mut() {
                member[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }

    /// Cuts the power: each unflushed sector of each member survives or not, at random.
    pub(crate) fn power_cut(&self, random: &mut Random) {
        for (offset, bytes) in self.unflushed.borrow_mut().drain(..) {
            let odds = [0, 50, 95, 100][random.below(4) as usize];
            for member in self.members.borrow_mut().iter_mut() {
                for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                    if random.below(100) < odds {
                        let at = offset + n * SECTOR;
                        member[at..at + SECTOR].copy_from_slice(sector);
                    }
                }
            }
        }
    }
}

impl Store for Mirror {
    fn has_rows(&self, _: VdevId) -> bool {
        false
    }

    async fn is_sound(&self, ptr: &BlockPtr) -> bool {
        panic!("{ptr:?} is in no row")
    }

    async fn mend_rows(&self, blocks: &[BlockPtr]) -> Result<u64> {
        assert!(blocks.is_empty(), "no block is in a row");
        Ok(0)
    }

    fn candidates(&self) -> usize {
        self.members.borrow().len()
    }

    async fn read(&self, member: usize, at: Address, out: &mut [u8]) -> Result<()> {
        self.reads.set(self.reads.get() + 1);
        let is_data = u32::from(at.offset.0 >= DATA_START);
        self.data_reads.set(self.data_reads.get() + is_data);
        let start = at.offset.0 as usize;
        let members = self.members.borrow();
        let bytes = members[member].get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or(Error::Device)?);
        Ok(())
    }

    async fn write(&self, at: Address, bytes: &[u8]) -> Result<()> {
        let start = at.offset.0 as usize;
        for member in self.members.borrow_mut().iter_mut() {
            member[start..start + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }
}

pub(crate) fn at(offset: u64) -> Address {
    Address {
        vdev: VdevId(3),
        offset: VdevOffset(offset),
    }
}

pub(crate) fn ring(segments: u64, segment_size: u32) -> Ring {
    Ring {
        pool: POOL,
        first: 0,
        segments: (0..segments)
            .map(|n| at(n * u64::from(segment_size)))
            .collect(),
        segment_size,
        sector: SECTOR as u32,
    }
}

/// Appends a record as a batch of its own, durably. `put` writes the batch to a disk.
pub(crate) fn commit(
    writer: &mut Writer,
    record: [u8; 8],
    put: impl FnOnce(&BatchWrite),
) -> Sequence {
    let record = Record::State(record.into());
    let ticket = writer.append(&[record], 0).expect("room");
    let write = writer.next_write(true).expect("a batch");
    put(&write);
    writer.written(write.sequence);
    let flush = writer.begin_flush().expect("something to flush");
    writer.flushed(flush);
    ticket.sequence()
}

/// Runs a future that never has to wait for another task.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..TURNS_MAX {
        if let Poll::Ready(value) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return value;
        }
    }
    unreachable!("a disk in memory answers at once")
}
