//! The devices of a pool: a stripe of vdevs, found and trusted by their labels.
//!
//! **Owns** the pool's disks, the membership of each vdev, labels, and the ring of uberblocks. **Called by** the pool for
//! every read and write. **Invariants**: data that [`Vdevs::read`] returns has its pointer's checksum; [`Stable`] exists only
//! after every member that is in confirmed a flush, and after their labels exclude the other members; blocks are written only
//! to places to which no pointer in use points. Layout: `docs/format.md`, "Labels" to "Vdevs". Rule of trust:
//! `docs/decisions/0101`.

mod add;
mod area;
mod cache;
mod cache_label;
mod copies;
mod create;
mod error;
mod expand;
mod extent_space;
mod file_space;
mod fork;
mod geometry;
mod grow;
mod journal_rings;
mod labels;
mod layout;
mod leaf;
pub mod limits;
mod member;
mod members;
mod open;
pub mod parity;
mod pending;
mod raidz_mend;
mod raidz_read;
mod raidz_scrub;
mod raidz_write;
mod read;
mod rebuild;
mod relocations;
mod remove;
mod replace;
mod rings;
mod row_places;
mod rows;
mod scan;
mod space_below;
mod spare;
mod spare_label;
mod store;
mod stripe;
mod top;
mod witness;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use backend::RangeLock;
use io::{BufPool, SharedBuf, spawn};

use crate::error::{Error, Result};
use crate::format::{
    Address, Birth, BlockPtr, BlockSpace, Features, Host, JournalLayout, JournalRings, LabelEpoch,
    LabelHistory, NodeSize, PoolGuid, PoolState, Uberblock, VdevClass, VdevGuid, VdevId, VdevKind,
    VdevOffset,
};
use crate::written::{ClassCounters, WriteClass, WrittenBytes};

use leaf::Leaf;
use member::{Attempt, Changes, Reach};
use space_below::SpaceBelow;
use stripe::Stripe;
use top::TopVdev;

pub(crate) use cache::CACHE_SIZE_MIN;
pub use cache::{cache_label, check_new_cache};
pub(crate) use copies::{Copies, PlacedBlock};
pub use create::{PoolSpec, create};
pub use error::SetupError;
pub use expand::ExpansionStatus;
pub(crate) use expand::{MoveStep, RowsToMove};
pub use extent_space::ExtentSpace;
pub(crate) use fork::first_apart;
pub use geometry::{AREA_SIZE, AREAS, DATA_START, RING_SLOTS, least_size};
pub(crate) use geometry::{areas, data_size, has_room, slot_offset};
pub use layout::{Layout, VdevSpec};
pub use leaf::{Fault, MemberCounters, MemberTimes};
pub use member::{MemberState, MemberStatus};
pub use members::Resilvered;
pub use open::{OpenOptions, open};
pub(crate) use row_places::Moving;
pub use rows::NarrowRows;
pub use scan::{
    FoundCache, FoundMember, FoundPool, FoundSpare, FoundVdev, Presence, Scan, Unread, scan,
};
pub(crate) use spare::new_guid;
pub use spare::{check_new_spare, spare_label};
pub use witness::{Witness, Witnessed};

/// Proof that everything written before is on every member that is in, and that no other member will be trusted. Only
/// [`Vdevs::flush`] creates one.
#[derive(Debug)]
#[must_use = "a flush that nobody relies on was paid for in vain"]
pub struct Stable(());

impl backend::Confirmed for Stable {}

/// A top-level vdev, for the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdevInfo {
    /// Its index.
    pub id: VdevId,
    /// Its class.
    pub class: VdevClass,
    /// End of its data, bytes.
    pub size: u64,
    /// Start of the allocator's part, behind the area of the journal.
    pub first_free: VdevOffset,
    /// Sector size, bytes: addresses and lengths are whole sectors.
    pub sector: u32,
    /// Sectors that are written as a whole: the data of a row of a raidz, 1 on a mirror. During an expansion, that of wide rows.
    pub row: u32,
    /// The same at the creation of the vdev.
    pub first_row: u32,
    /// The rows that an expansion has not reached.
    pub narrow: Option<NarrowRows>,
    /// Whether it was removed: nothing is on it, and its blocks are on other vdevs.
    pub is_removed: bool,
}

/// A top-level vdev, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VdevStatus {
    /// Its index.
    pub id: VdevId,
    /// Its identifier.
    pub guid: VdevGuid,
    /// Its kind, as labels record it.
    pub kind: VdevKind,
    /// Its class.
    pub class: VdevClass,
    /// Size of its data, bytes, without parity.
    pub size: u64,
    /// Size of the data and parity of each member, bytes.
    pub member_size: u64,
    /// Its members.
    pub members: Vec<MemberStatus>,
    /// Whether segments of the journal are on it.
    pub has_journal: bool,
}

/// Fields that the labels of all members have in common.
#[derive(Debug, Clone)]
struct Shared {
    name: String,
    state: PoolState,
    host: Host,
    /// Epoch of the labels begun last.
    epoch: LabelEpoch,
    /// Epoch of the newest durable labels.
    durable: LabelEpoch,
    features: Features,
    /// The vdevs on which the journal is.
    rings: JournalRings,
    /// For each vdev at the opening of the pool: the older labels that its present labels replace.
    histories: Vec<LabelHistory>,
}

/// Progress of uberblocks since the pool was opened, as counts.
#[derive(Default)]
struct Uberblocks {
    begun: u64,
    /// The uberblock that was written and not flushed yet, with the epoch that it ends.
    written: Option<(u64, Birth)>,
    durable: u64,
    /// The epoch that the newest durable uberblock ends, if one was written.
    epoch: Option<Birth>,
}

/// The devices of an open pool. Shared by all shards.
pub struct Vdevs {
    pool: PoolGuid,
    node_size: NodeSize,
    journal: JournalLayout,
    stripe: Stripe,
    block_space: BlockSpace,
    read_only: bool,
    witness: OnceLock<Arc<dyn Witness>>,
    shared: Mutex<Shared>,
    changes: Changes,
    below: SpaceBelow,
    /// Number of changes of membership that labels record.
    labelled: Mutex<u64>,
    /// Orders the tasks that write labels.
    labelling: RangeLock,
    /// Orders the tasks that write to the rings of uberblocks. Entered after `labelling`.
    ring_writes: RangeLock,
    uberblocks: Mutex<Uberblocks>,
    /// Copies of blocks of vdevs that are being removed, or were removed.
    copies: Arc<Copies>,
    /// Bytes of [`Vdevs::write`], once for all members.
    written: ClassCounters,
    scratch: BufPool,
}

/// The devices of an open pool, and the checkpoints on them.
pub struct Opened {
    /// The devices.
    pub vdevs: Vdevs,
    /// The uberblock at which the pool is opened.
    pub uberblock: Uberblock,
    /// Sequence of the newest uberblock on the disks. The next uberblock has a higher one, also after a rewind.
    pub newest: u64,
    /// All checkpoints on the disks, newest first.
    pub checkpoints: Vec<Uberblock>,
    /// Whether the operator chose the uberblock, so that later changes may be lost.
    pub is_chosen: bool,
    /// Whether the journal of a pool that was in use is on a log that is missing, and was given up.
    pub lacks_journal: bool,
}

impl Vdevs {
    fn new(
        pool: PoolGuid,
        shared: Shared,
        node_size: NodeSize,
        journal: JournalLayout,
        tops: Vec<TopVdev>,
        changes: Changes,
        read_only: bool,
    ) -> Self {
        Self {
            pool,
            node_size,
            journal,
            below: tops.first().map(TopVdev::below).unwrap_or_default(),
            block_space: BlockSpace::new(tops.iter().map(TopVdev::sector).max().unwrap_or(1)),
            stripe: Stripe::new(tops),
            read_only,
            witness: OnceLock::new(),
            shared: Mutex::new(shared),
            changes,
            labelled: Mutex::new(0),
            labelling: RangeLock::default(),
            ring_writes: RangeLock::default(),
            uberblocks: Mutex::default(),
            copies: Arc::default(),
            written: ClassCounters::default(),
            scratch: BufPool::new(limits::SCRATCH_BYTES),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn uberblocks(&self) -> MutexGuard<'_, Uberblocks> {
        self.uberblocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool's identifier.
    #[must_use]
    pub fn pool(&self) -> PoolGuid {
        self.pool
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.shared().name.clone()
    }

    /// The node size of the pool's own tree.
    #[must_use]
    pub fn node_size(&self) -> NodeSize {
        self.node_size
    }

    /// Whether the pool is open for reading only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Largest sector size of all vdevs, bytes.
    #[must_use]
    pub fn sector(&self) -> u32 {
        self.stripe.iter().map(TopVdev::sector).max().unwrap_or(0)
    }

    /// Whether a present member is a hard disk.
    #[must_use]
    pub fn has_hard_disks(&self) -> bool {
        self.stripe.iter().any(TopVdev::has_hard_disks)
    }

    /// The space that blocks take. All vdevs of a pool have sectors of one size.
    #[must_use]
    pub fn block_space(&self) -> BlockSpace {
        self.block_space
    }

    /// Bytes that a block takes.
    #[must_use]
    pub fn allocated(&self, ptr: &BlockPtr) -> u64 {
        self.block_space.of_block(ptr)
    }

    /// Bytes in which extents at an address are given out: the data of a row; one sector on a mirror.
    #[must_use]
    pub fn extent_unit(&self, at: Address) -> u32 {
        let top = self.top(at.vdev);
        top.map_or(1, |top| top.extent_unit_at(at.offset))
    }

    /// The space that extents take on the vdevs.
    #[must_use]
    pub fn extent_space(&self) -> ExtentSpace {
        let present = self.table().into_iter().filter(|info| !info.is_removed);
        let units = present.flat_map(|info| {
            let rows = [Some(info.row), info.narrow.map(|narrow| narrow.row)];
            let bytes = move |row| u64::from(row) * u64::from(info.sector);
            rows.into_iter().flatten().map(bytes)
        });
        ExtentSpace::new(units)
    }

    /// Sector size of a vdev, bytes; `None` if there is no such vdev.
    #[must_use]
    pub fn sector_of(&self, vdev: VdevId) -> Option<u32> {
        self.top(vdev).map(TopVdev::sector)
    }

    /// End of a vdev's addresses, bytes; 0 if there is no such vdev.
    pub(crate) fn end_of_vdev(&self, vdev: VdevId) -> u64 {
        self.top(vdev).map_or(0, TopVdev::end)
    }

    /// The top-level vdevs, by index, with the removed ones.
    #[must_use]
    pub fn table(&self) -> Vec<VdevInfo> {
        self.stripe.all().map(|m| self.info(m)).collect()
    }

    fn info(&self, top: &TopVdev) -> VdevInfo {
        VdevInfo {
            id: top.id(),
            class: top.entry().class,
            size: top.end(),
            first_free: VdevOffset(self.journal.size_on(&top.entry())),
            sector: top.sector(),
            row: top.extent_unit() / top.sector(),
            first_row: top.rows().map_or(1, |rows| rows.first_data() as u32),
            narrow: top.rows().and_then(|rows| rows.narrow()),
            is_removed: top.is_removed(),
        }
    }

    fn top(&self, vdev: VdevId) -> Option<&TopVdev> {
        self.stripe.get(usize::from(vdev.0))
    }

    /// Whether the range is whole sectors of a vdev's data.
    fn holds(&self, at: Address, len: usize) -> bool {
        self.top(at.vdev).is_some_and(|top| {
            let sector = u64::from(top.sector());
            let end = at.offset.0.checked_add(len as u64);
            at.offset.0.is_multiple_of(sector)
                && (len as u64).is_multiple_of(sector)
                && end.is_some_and(|end| end <= top.end())
        })
    }

    /// Writes whole sectors to every member that takes writes. They are durable after [`Vdevs::flush`]. On a raidz, a range
    /// behind the journal begins with a row, and the rest of its last row is filled with zeroes.
    ///
    /// # Errors
    /// [`Error::Device`] if fewer members have them than the layout needs: their contents are undefined. [`Error::ReadOnly`].
    ///
    /// # Panics
    /// If the range is not whole sectors of a vdev's data, or does not begin with a row of a raidz.
    pub async fn write(
        &self,
        at: Address,
        data: impl Into<SharedBuf>,
        class: WriteClass,
    ) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let data = data.into();
        assert!(self.holds(at, data.len()), "{} bytes at {at}", data.len());
        self.written.add(class, data.len());
        self.stripe[usize::from(at.vdev.0)]
            .write(at.offset, &data, class)
            .await
    }

    /// Bytes of blocks and batches that were written since the pool was opened, each once for all members of its vdev. Labels
    /// are not in it, and of repairs only those of replay.
    #[must_use]
    pub fn written(&self) -> WrittenBytes {
        self.written.read()
    }

    /// Discards a range on the disks; on a raidz, the whole rows in it. No pointer that any uberblock still reaches may point to it, and nothing may be written
    /// there until this returns. Disks without support are skipped.
    ///
    /// # Panics
    /// If the range is not whole sectors of a vdev's data.
    pub async fn trim(&self, at: Address, len: u64) {
        assert!(self.holds(at, len as usize), "{len} bytes at {at}");
        if self.read_only {
            return;
        }
        let top = &self.stripe[usize::from(at.vdev.0)];
        top.discard(at.offset, len).await;
    }

    /// Makes every write that completed before durable, on every member that is in.
    ///
    /// # Errors
    /// [`Error::Device`] if no member of a vdev confirmed: writes since the last flush may be lost. [`Error::ReadOnly`].
    pub async fn flush(&self) -> Result<Stable> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let ending = self.uberblocks().written.take();
        let pending: Vec<_> = self
            .stripe
            .iter()
            .filter_map(|m| Some((m, m.unflushed()?)))
            .collect();
        let tops = pending.iter().map(|(top, _)| *top);
        // A member that joins meanwhile, by an expansion, has no part of the writes that are flushed.
        let flush = |_: &TopVdev, leaf: Arc<Leaf>| async move { leaf.flush().await.is_ok() };
        let results = on_members(tops, Reach::Some, flush).await;
        let ended = pending
            .iter()
            .zip(results)
            .map(|((top, up_to), result)| top.end_flush(*up_to, result));
        ended.fold(Ok(()), Result::and)?;
        self.tell_labels().await?;
        if let Some((number, epoch)) = ending {
            let mut uberblocks = self.uberblocks();
            (uberblocks.durable, uberblocks.epoch) = (number, Some(epoch));
            drop(uberblocks);
            self.stripe.iter().for_each(|top| top.set_held(epoch));
        }
        Ok(Stable(()))
    }

    /// Faults members of vdevs that hang, so that waiting operations go on with the other members. Must be called
    /// approximately every second.
    pub(crate) fn give_up_hung(&self) {
        self.stripe.iter().for_each(TopVdev::give_up_hung);
    }

    /// Faults members of vdevs whose devices became too short for their data, but none without which fewer are in than the
    /// layout needs.
    pub async fn check_sizes(&self) {
        for top in self.stripe.iter() {
            let needed = geometry::least_size(top.data_size());
            for leaf in top.targets() {
                let Some(disk) = leaf.disk() else { continue };
                let size = io::timeout(limits::HANG_MAX, disk.size()).await;
                if let Ok(Ok(size)) = size
                    && size < needed
                {
                    leaf.condemn_short(size);
                }
            }
            top.fault();
        }
    }

    /// The state of all vdevs and members. Vdevs that were removed are not in it.
    #[must_use]
    pub fn status(&self) -> Vec<VdevStatus> {
        let rings = self.journal_rings();
        let status = |top: &TopVdev| {
            let members = top.status();
            let entry = top.entry();
            VdevStatus {
                id: top.id(),
                guid: entry.guid,
                kind: entry.kind,
                class: entry.class,
                size: top.end(),
                member_size: top.data_size(),
                members,
                has_journal: rings.has(top.id()),
            }
        };
        self.stripe.iter().map(status).collect()
    }
}

/// Calls `act` for every member of the vdevs that takes writes, concurrently, and judges each vdev by the results.
async fn on_members<'a, F: Future<Output = bool> + 'static>(
    tops: impl IntoIterator<Item = &'a TopVdev>,
    reach: Reach,
    act: impl Fn(&TopVdev, Arc<Leaf>) -> F,
) -> Vec<Result<()>> {
    let targets = |top: &'a TopVdev| (top, top.targets());
    on_leaves(tops.into_iter().map(targets), reach, act).await
}

/// As [`on_members`], for the given members.
async fn on_leaves<'a, F: Future<Output = bool> + 'static>(
    leaves: impl IntoIterator<Item = (&'a TopVdev, Vec<Arc<Leaf>>)>,
    reach: Reach,
    act: impl Fn(&TopVdev, Arc<Leaf>) -> F,
) -> Vec<Result<()>> {
    let start = |(top, leaves): (&'a TopVdev, Vec<Arc<Leaf>>)| {
        let on_member = |leaf: Arc<Leaf>| (leaf.clone(), spawn(act(top, leaf)));
        let running: Vec<_> = leaves.into_iter().map(on_member).collect();
        (top, running)
    };
    let all: Vec<_> = leaves.into_iter().map(start).collect();
    let mut results = Vec::with_capacity(all.len());
    for (top, running) in all {
        let judged = top.judge(&Attempt::all(running).await, reach);
        // the pool goes on without a vdev for the journal
        results.push(if top.is_gone() { Ok(()) } else { judged });
    }
    results
}
