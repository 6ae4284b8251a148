//! Write budget: limits dirty bytes, and admits writes to free space, quotas and reservations.
//!
//! **Owns** the sums of the pool and the [`Account`] of each volume. **Called by** volumes before they take a record, and by
//! the owner when records get their extents and when checkpoints end. **Invariants**: each admitted record has free space;
//! no volume takes space that is reserved for another one; a volume's sum is at least the space that it takes; the free
//! space at a checkpoint's begin lasts until its end ([`CheckpointThrottle`]). Free space is that of free rows, so promised
//! records, reservations and nodes count the whole rows that they may need. `docs/decisions/0157`.

mod mover;
mod prospect;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

use io::stage::{self, Stage};
use io::sync::{Bell, oneshot};

use crate::account::{Account, Extents, Put, Standing};
use crate::checkpoint_throttle::CheckpointThrottle;
use crate::format::{Dataset, RECORD_SIZE_MIN, TreeId};
use crate::vdev::ExtentSpace;
use crate::{Error, Result};
use io::sync::lock;
use prospect::Prospect;

/// Checkpoints after which the first waiting write fails with no space. Two, since the first one may have begun before
/// the change that freed space.
const CHECKPOINTS_MAX: u64 = 2;

/// Safety factor: the next checkpoint may see up to twice the writes of the last one.
const MARGIN: u64 = 2;
/// A checkpoint is due because space is short when it would free this many times the free space: each checkpoint costs
/// as much as all nodes.
const PART_LEFT: u64 = 3;
/// The part of the written bytes that a checkpoint is expected to free even if the last one freed nothing.
const UNEXPECTED: u64 = 4;

/// The part of the memory for dirty records up to which durable records may stay dirty.
const HELD_PART: u64 = 4;
/// Durable records may stay dirty while this many times the dirty bytes are free: a checkpoint, which would free space, waits until
/// they have extents.
const HELD_SPACE: u64 = 4;

/// Bytes kept free for the pool's own nodes where a volume has a reservation.
const NODES_MIN: u64 = 1 << 20;

/// See the module header.
pub(crate) struct WriteBudget(Mutex<Sums>);

struct Sums {
    /// Bytes of records in memory that are not written yet.
    dirty: u64,
    dirty_max: u64,
    /// Bytes of dirty records without an extent.
    promised: u64,
    /// Most bytes that their extents take beyond that.
    promised_more: u64,
    /// Free bytes that records may take, as the owner last said.
    allocatable: u64,
    /// Bytes of the extents that were given to records since the last checkpoint began.
    put: u64,
    last: LastCheckpoint,
    /// Whether the owner was told that space is running out.
    is_low: bool,
    throttle: CheckpointThrottle,
    /// Checkpoints that ended.
    checkpoints: u64,
    /// Whether a write waits for a checkpoint to free space.
    is_short: bool,
    /// The places of writes that wait for space of the pool. The lowest number gets freed space first.
    line: BTreeSet<u64>,
    next_place: u64,
    /// Whether another checkpoint would free nothing, as the owner last said.
    is_all_freed: bool,
    /// Whether the blocks of a destroyed dataset are being freed.
    is_freeing: bool,
    accounts: BTreeMap<TreeId, Account>,
    /// Bytes kept free for volumes: the unused part of their reservations.
    reserved: u64,
    /// Bytes kept free for nodes that the next checkpoints write.
    nodes: u64,
    extents: Extents,
    /// Bytes of deleted contents of files, about, which the next checkpoint frees.
    freed: u64,
    prospect: Prospect,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// The bytes of free extents that an account wants, beside those of its dirty records.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    reserved: u64,
    nodes: u64,
    promised_more: u64,
}

impl Wanted {
    fn of(account: &Account, extents: &Extents) -> Self {
        Self {
            reserved: account.reserved(extents),
            nodes: account.nodes(extents),
            promised_more: account.promised_more(extents),
        }
    }

    const NOTHING: Self = Self {
        reserved: 0,
        nodes: 0,
        promised_more: 0,
    };

    fn sum(self) -> u64 {
        self.reserved + self.nodes + self.promised_more
    }
}

/// The effect of the last checkpoint on space, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct LastCheckpoint {
    /// Put between the checkpoint before it and its begin.
    held: u64,
    /// Freed by it.
    freed: u64,
    /// Admitted while it was written.
    meanwhile: u64,
    /// Admitted before it, without an extent when it began.
    promised: u64,
    /// Nodes that it replaced, about.
    rewritten: u64,
}

/// Whether a write fits.
struct Fit {
    /// The pool has free space for it.
    in_pool: bool,
    /// The pool has free space for it that the throttle does not hold back.
    now: bool,
    /// The volume's quota allows it.
    in_quota: bool,
}

/// Admitted bytes of a volume. They are given back when this is dropped.
pub(crate) struct Admitted<'a> {
    budget: &'a WriteBudget,
    id: TreeId,
    bytes: u64,
}

impl Admitted<'_> {
    /// The bytes are dirty now.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.budget.replaced(self.id, self.bytes);
    }
}

/// A place among the writes that wait for space of the pool. It is given up when this is dropped.
struct PlaceInLine<'a> {
    budget: &'a WriteBudget,
    number: u64,
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        let mut sums = lock(&self.budget.0);
        sums.line.remove(&self.number);
        sums.waiting.clear();
    }
}

impl Sums {
    fn update(&mut self, id: TreeId, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.accounts.get_mut(&id) else {
            return;
        };
        let before = Wanted::of(account, &self.extents);
        change(account);
        let after = Wanted::of(account, &self.extents);
        self.replace(before, after);
    }

    /// An account wants other space than before.
    fn replace(&mut self, before: Wanted, after: Wanted) {
        self.reserved = self.reserved - before.reserved + after.reserved;
        self.nodes = self.nodes - before.nodes + after.nodes;
        self.promised_more = self.promised_more - before.promised_more + after.promised_more;
    }

    /// Bytes of extents that are promised, reserved, or kept for nodes.
    fn wanted(&self) -> u64 {
        self.promised + self.promised_more + self.reserved + self.nodes
    }

    /// Sets the free bytes that records may take, and wakes waiting writes.
    fn supply(&mut self, allocatable: u64, is_all_freed: bool, is_freeing: bool) {
        self.allocatable = allocatable;
        self.is_all_freed = is_all_freed;
        self.is_freeing = is_freeing;
        self.waiting.clear();
    }

    /// Free bytes that are neither promised nor reserved.
    fn left(&self) -> u64 {
        self.allocatable.saturating_sub(self.wanted())
    }

    /// Whether a checkpoint should begin before a write has to wait for space: as late as the writes during the checkpoint
    /// allow.
    fn is_running_out(&self) -> bool {
        let LastCheckpoint {
            held,
            freed,
            meanwhile,
            rewritten,
            ..
        } = self.last;
        let left = self.left();
        let needed = match held {
            0 => u64::MAX,
            _ => MARGIN * meanwhile + rewritten,
        };
        if left >= needed {
            return false;
        }
        // overwritten blocks are freed: expect the same share of the put bytes as last time
        let put = self.put + self.promised + self.promised_more;
        let expected = u128::from(put) * u128::from(freed);
        let expected = expected.checked_div(held.into()).unwrap_or(0) as u64;
        left < expected.max(put / UNEXPECTED) / PART_LEFT
    }

    /// Bytes of extents that are wanted if `account` changed so that `bytes` more are promised.
    fn wanted_after(
        &self,
        mut account: Account,
        bytes: u64,
        change: impl FnOnce(&mut Account),
    ) -> u64 {
        let before = Wanted::of(&account, &self.extents).sum();
        change(&mut account);
        self.wanted() - before + bytes + Wanted::of(&account, &self.extents).sum()
    }

    /// Whether `bytes` more of a volume fit.
    fn fits(&self, id: TreeId, bytes: u64) -> Fit {
        let account = self.accounts.get(&id).copied().unwrap_or_default();
        let mut wanted = self.wanted_after(account, bytes, |after| after.promised += bytes);
        let others = self.reserved > account.reserved(&self.extents);
        if others && account.unused() < bytes {
            wanted += self.extents.full_nodes(NODES_MIN);
        }
        let held_back = match account.unused() < bytes {
            true => self.throttle.held_back(),
            false => 0,
        };
        Fit {
            in_pool: wanted <= self.allocatable,
            now: wanted + held_back <= self.allocatable,
            in_quota: account.fits(bytes),
        }
    }

    /// Whether a write is the first in line for space of the pool, or needs only its volume's reservation.
    fn is_first(&self, id: TreeId, bytes: u64, place: Option<&PlaceInLine<'_>>) -> bool {
        let first = self.line.first();
        let own = || self.accounts.get(&id).is_some_and(|a| a.unused() >= bytes);
        first.is_none_or(|first| place.is_some_and(|p| p.number == *first) || own())
    }

    /// Whether a checkpoint could free space for a write of a volume that waits since `asked_at` checkpoints had ended.
    fn may_help(&self, id: TreeId, needs_pool: bool, asked_at: u64) -> bool {
        let waited = self.checkpoints >= asked_at + CHECKPOINTS_MAX;
        if self.is_all_freed || (waited && !(needs_pool && self.is_freeing)) {
            return false;
        }
        let account = self.accounts.get(&id).copied().unwrap_or_default();
        needs_pool || self.is_freeing || account.unmerged() > 0
    }
}

impl WriteBudget {
    /// Nothing is admitted. `dirty_max` bytes may be dirty; tree nodes have `node_size` bytes; extents take `space`.
    pub(crate) fn new(dirty_max: u64, node_size: u64, space: ExtentSpace) -> Self {
        Self(Mutex::new(Sums {
            dirty: 0,
            dirty_max,
            promised: 0,
            promised_more: 0,
            allocatable: 0,
            put: 0,
            last: LastCheckpoint::default(),
            is_low: false,
            throttle: CheckpointThrottle::default(),
            checkpoints: 0,
            is_short: false,
            line: BTreeSet::new(),
            next_place: 0,
            is_all_freed: false,
            is_freeing: false,
            accounts: BTreeMap::new(),
            reserved: 0,
            nodes: 0,
            extents: Extents { space, node_size },
            freed: 0,
            prospect: Prospect::none(),
            waiting: VecDeque::new(),
        }))
    }

    /// Waits until `bytes` more of a volume may be dirty. Rings the owner's `bell` when space is short.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if checkpoints and the row mover freed no space for them; [`Error::Quota`]; an error that `trouble`
    /// returns.
    pub(crate) async fn admit(
        &self,
        (id, bytes): (TreeId, u64),
        bell: &Bell,
        trouble: impl Fn() -> Option<Error>,
    ) -> Result<Admitted<'_>> {
        let mut asked_at = None;
        let mut place = None;
        loop {
            if let Some(trouble) = trouble() {
                return Err(trouble);
            }
            let changed = {
                let mut sums = lock(&self.0);
                let fit = sums.fits(id, bytes);
                let fits = fit.in_pool && fit.in_quota;
                if !fit.now && place.is_none() {
                    let number = sums.next_place;
                    sums.next_place += 1;
                    sums.line.insert(number);
                    let budget = self;
                    place = Some(PlaceInLine { budget, number });
                }
                let is_first = sums.is_first(id, bytes, place.as_ref());
                let has_memory = sums.dirty == 0 || sums.dirty + bytes <= sums.dirty_max;
                if fits && fit.now && is_first && has_memory {
                    sums.dirty += bytes;
                    sums.promised += bytes;
                    sums.is_all_freed = false;
                    sums.update(id, |account| account.promised += bytes);
                    if !sums.is_low && sums.is_running_out() {
                        sums.is_low = true;
                        bell.ring();
                    }
                    let budget = self;
                    return Ok(Admitted { budget, id, bytes });
                }
                if !fits && (sums.is_all_freed || is_first) {
                    let asked_at = *asked_at.get_or_insert(sums.checkpoints);
                    if sums.may_help(id, !fit.in_pool, asked_at) {
                        sums.is_short = true;
                    } else if fit.in_pool {
                        return Err(Error::Quota);
                    } else if !sums.prospect.wait() {
                        return Err(Error::NoSpace);
                    }
                }
                let (sender, receiver) = oneshot::channel();
                sums.waiting.push_back(sender);
                receiver
            };
            bell.ring();
            let _room = stage::wait(Stage::Memory);
            changed.await;
        }
    }

    /// Whether so few bytes are dirty that records may stay so although they are durable.
    pub(crate) fn may_hold(&self) -> bool {
        let sums = lock(&self.0);
        sums.dirty <= sums.dirty_max / HELD_PART
            && sums.dirty.saturating_mul(HELD_SPACE) <= sums.left()
    }

    /// Replay found records of `bytes` bytes that were admitted before, and that have no extent.
    pub(crate) fn replayed(&self, id: TreeId, bytes: u64) {
        let mut sums = lock(&self.0);
        sums.dirty += bytes;
        sums.promised += bytes;
        sums.update(id, |account| account.promised += bytes);
    }

    /// Releases the admission of `bytes` bytes of dirty records that were overwritten before write-back.
    pub(crate) fn replaced(&self, id: TreeId, bytes: u64) {
        let mut sums = lock(&self.0);
        sums.is_all_freed = false;
        sums.dirty -= bytes;
        sums.promised -= bytes;
        sums.update(id, |account| account.promised -= bytes);
        sums.waiting.clear();
    }

    /// A number of records got extents of `extents` bytes, in which their blocks take `stored` bytes. `allocatable` bytes are
    /// free now.
    pub(crate) fn placed(
        &self,
        id: TreeId,
        (bytes, records): (u64, u64),
        (stored, extents): (u64, u64),
        allocatable: u64,
    ) {
        let mut sums = lock(&self.0);
        let left = sums.left();
        sums.promised -= bytes;
        sums.allocatable = allocatable;
        sums.is_all_freed = false;
        sums.update(id, |account| {
            account.promised -= bytes;
            account.layered.bytes += stored;
            account.layered.records += records;
        });
        sums.put += extents;
        sums.prospect.put(extents);
        if stored < bytes || sums.left() > left {
            // compressed records, and rows that records share, left space for waiting writes
            sums.waiting.clear();
        }
    }

    /// Records of `bytes` bytes are written.
    pub(crate) fn written(&self, bytes: u64) {
        let mut sums = lock(&self.0);
        sums.dirty -= bytes;
        sums.waiting.clear();
    }

    /// A checkpoint begins. It holds the records that have an extent: all of them belong to the volumes `changed`.
    pub(crate) fn begin_checkpoint(&self, changed: &[TreeId]) {
        let mut sums = lock(&self.0);
        for id in changed {
            sums.update(*id, Account::begin_merge);
        }
        sums.last.held = std::mem::take(&mut sums.put);
        sums.freed = 0;
        sums.last.promised = sums.promised + sums.promised_more;
        let left = sums.left();
        // the nodes that the checkpoint replaces are free only after its end
        let accounts = changed.iter().filter_map(|id| sums.accounts.get(id));
        let rewritten = accounts.map(|a| a.rewritten(&sums.extents));
        sums.last.rewritten = rewritten.sum();
        let rewritten = sums.last.rewritten.min(left / 2);
        sums.throttle = CheckpointThrottle::begin(left, rewritten);
    }

    /// `parts` parts of the current checkpoint are left; 0 after its end.
    pub(crate) fn set_parts_left(&self, parts: u64) {
        let mut sums = lock(&self.0);
        sums.throttle.set_parts_left(parts);
        sums.waiting.clear();
    }

    /// Whether the nodes of a snapshot that is taken now have free space. If not, a checkpoint may free some.
    pub(crate) fn may_snapshot(&self, id: TreeId) -> bool {
        let sums = lock(&self.0);
        let account = sums.accounts.get(&id).copied().unwrap_or_default();
        sums.wanted_after(account, 0, Account::share) <= sums.allocatable
    }

    /// A snapshot of a volume was taken.
    pub(crate) fn snapshot(&self, id: TreeId) {
        lock(&self.0).update(id, Account::share);
    }

    /// A checkpoint has ended, after which a volume stands so.
    pub(crate) fn merged(&self, id: TreeId, standing: Standing) {
        lock(&self.0).update(id, |account| account.end_merge(standing));
    }

    /// The blocks that a checkpoint freed are reusable: `before` bytes were free, `now` are. `is_all_freed` if another
    /// one would free nothing; `is_freeing` if destroys are pending.
    pub(crate) fn checkpointed(&self, before: u64, now: u64, is_all_freed: bool, is_freeing: bool) {
        let mut sums = lock(&self.0);
        sums.last.freed = now.saturating_sub(before);
        sums.is_low = false;
        let came = sums.put + sums.promised + sums.promised_more;
        let came = came.saturating_sub(sums.last.promised);
        // one quiet checkpoint halves the expectation
        sums.last.meanwhile = came.max(sums.last.meanwhile / 2);
        sums.checkpoints += 1;
        sums.supply(now, is_all_freed, is_freeing);
    }

    /// The pool was opened, or grew: records may take `allocatable` bytes. `is_freeing` if destroys are pending.
    pub(crate) fn supplied(&self, allocatable: u64, is_freeing: bool) {
        lock(&self.0).supply(allocatable, false, is_freeing);
    }

    /// A vdev was added: extents take this space from now on.
    pub(crate) fn set_extents(&self, space: ExtentSpace) {
        let mut sums = lock(&self.0);
        let node_size = sums.extents.node_size;
        let before = std::mem::replace(&mut sums.extents, Extents { space, node_size });
        let accounts: Vec<Account> = sums.accounts.values().copied().collect();
        for account in accounts {
            let before = Wanted::of(&account, &before);
            let after = Wanted::of(&account, &sums.extents);
            sums.replace(before, after);
        }
    }

    /// A dataset was destroyed: checkpoints will free its blocks.
    pub(crate) fn destroyed(&self) {
        let mut sums = lock(&self.0);
        sums.is_all_freed = false;
        sums.is_freeing = true;
        sums.prospect.destroyed();
    }

    /// Opens the account of a volume. `layered` was put since the last checkpoint.
    pub(crate) fn open(&self, id: TreeId, dataset: &Dataset, standing: Standing, layered: Put) {
        let mut sums = lock(&self.0);
        let (record_size, size) = match dataset.kind.has_files() {
            // small files have small records, of any number
            true => (RECORD_SIZE_MIN.into(), u64::MAX),
            false => (dataset.record_size.into(), dataset.size),
        };
        let account = Account {
            record_size,
            usual_size: dataset.record_size.into(),
            size,
            refquota: dataset.refquota,
            ..Account::default()
        };
        sums.accounts.insert(id, account);
        sums.update(id, |account| {
            account.layered = layered;
            account.stand(standing);
        });
    }

    /// A volume has `size` bytes from now on.
    pub(crate) fn resized(&self, id: TreeId, size: u64) {
        lock(&self.0).update(id, |account| account.size = account.size.max(size));
    }

    /// Closes the account of a destroyed volume.
    pub(crate) fn close(&self, id: TreeId) {
        let mut sums = lock(&self.0);
        if let Some(account) = sums.accounts.remove(&id) {
            let before = Wanted::of(&account, &sums.extents);
            sums.replace(before, Wanted::NOTHING);
        }
        sums.waiting.clear();
    }

    /// Sets the bytes that a volume may take at most, 0 for no limit, and the bytes that are kept free for it.
    pub(crate) fn set_limits(&self, id: TreeId, quota: u64, reservation: u64) {
        let mut sums = lock(&self.0);
        sums.update(id, |account| {
            account.quota = quota;
            account.reservation = reservation;
        });
        sums.waiting.clear();
    }

    /// Sets the bytes that a volume may take at most without its snapshots, 0 for no limit.
    pub(crate) fn set_refquota(&self, id: TreeId, refquota: u64) {
        let mut sums = lock(&self.0);
        if let Some(account) = sums.accounts.get_mut(&id)
            && account.refquota != refquota
        {
            account.refquota = refquota;
            sums.waiting.clear();
        }
    }

    /// Whether a volume may have a reservation of `reservation` bytes.
    pub(crate) fn may_reserve(&self, id: TreeId, reservation: u64) -> bool {
        let sums = lock(&self.0);
        let mut account = sums.accounts.get(&id).copied().unwrap_or_default();
        let others = sums.reserved - account.reserved(&sums.extents);
        account.reservation = reservation;
        let reserved = others + account.reserved(&sums.extents);
        sums.promised + sums.promised_more + reserved <= sums.allocatable
    }

    /// Contents of files were deleted: the next checkpoint frees about this many bytes, unless a snapshot holds them.
    pub(crate) fn freed(&self, id: TreeId, bytes: u64) {
        let mut sums = lock(&self.0);
        sums.freed += bytes;
        sums.is_all_freed = false;
        sums.update(id, |account| account.freed += bytes);
    }

    /// Bytes of deleted contents of files, about, which the next checkpoint frees.
    pub(crate) fn pending_frees(&self) -> u64 {
        lock(&self.0).freed
    }

    /// Bytes that a volume and its snapshots take, less pending frees, and bytes kept free for it.
    pub(crate) fn of(&self, id: TreeId) -> (u64, u64) {
        let sums = lock(&self.0);
        let account = sums.accounts.get(&id).copied().unwrap_or_default();
        (account.taken() - account.pending_frees(), account.unused())
    }

    /// Bytes that a dataset takes, and that it may still take. Bytes that the next checkpoint frees are free here: a write that
    /// needs them waits for it.
    pub(crate) fn space_of(&self, id: TreeId) -> (u64, u64) {
        let sums = lock(&self.0);
        let account = sums.accounts.get(&id).copied().unwrap_or_default();
        let freed = account.pending_frees();
        let in_pool = sums.left() + account.reserved(&sums.extents);
        let left = in_pool.min(account.left()).saturating_add(freed);
        (account.taken() - freed, left)
    }

    /// Bytes kept free for volumes.
    pub(crate) fn reserved(&self) -> u64 {
        lock(&self.0).reserved
    }

    /// Bytes kept free for nodes that the next checkpoints write.
    pub(crate) fn kept_for_nodes(&self) -> u64 {
        lock(&self.0).nodes
    }

    /// Whether a checkpoint should begin before a write has to wait for space.
    pub(crate) fn is_running_out(&self) -> bool {
        lock(&self.0).is_running_out()
    }

    /// Whether a write began to wait for space since the last call.
    pub(crate) fn take_shortage(&self) -> bool {
        std::mem::take(&mut lock(&self.0).is_short)
    }

    /// Bytes of records in memory that are not written yet.
    pub(crate) fn dirty(&self) -> u64 {
        lock(&self.0).dirty
    }

    /// Has waiting writes look again whether they fit.
    pub(crate) fn wake(&self) {
        lock(&self.0).waiting.clear();
    }
}
