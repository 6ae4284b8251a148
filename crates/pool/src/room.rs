//! How much may be dirty, and how much of that has a place to go to.
//!
//! **Owns** the sums: of the pool, and of each volume against its quota and reservation. **Called by** volumes before they take
//! a record, and by the owner as records get their places and checkpoints end. **Invariants**: what was let in has a place;
//! no volume takes what is reserved for another; a volume's sum is never less than what it takes; what there is when a
//! checkpoint begins lasts until it ends ([`HeldBack`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

use io::sync::oneshot;

use crate::account::{Account, Put, Standing};
use crate::format::{Dataset, TreeId};
use crate::pace::HeldBack;
use crate::shared::{Shared, lock};
use crate::{Error, Result};

/// Checkpoints after which the first of those who wait for space gives up: one may have begun before what frees it.
const CHECKPOINTS_MAX: u64 = 2;

/// What was put during the last checkpoint may be put so many times during the next one.
const MARGIN: u64 = 2;
/// A checkpoint that does not come for want of space gives back so many times what is left: each costs as much as all nodes.
const PART_LEFT: u64 = 3;
/// This part of what was put may come back also if none did last time.
const UNEXPECTED: u64 = 4;

/// Bytes kept for the pool's own nodes, where something is reserved.
const NODES_MIN: u64 = 1 << 20;

pub(crate) struct Room(Mutex<Space>);

struct Space {
    /// Bytes of records in memory, not written yet.
    dirty: u64,
    dirty_max: u64,
    /// Of them, bytes without an address yet.
    promised: u64,
    /// Bytes that data may still be allocated from, as the owner last said.
    allocatable: u64,
    /// Bytes that got an address since the last checkpoint began.
    put: u64,
    /// Of the last checkpoint.
    last: Course,
    /// The owner was told that it is running out.
    is_low: bool,
    held_back: HeldBack,
    /// Checkpoints that ended.
    checkpoints: u64,
    /// Somebody waits for a checkpoint to free something.
    short: bool,
    /// Who waits for space of the pool: what is freed is theirs, in order.
    line: BTreeSet<u64>,
    /// Who comes next.
    next_in_line: u64,
    /// Nothing that a checkpoint could free is left, as the owner last said.
    settled: bool,
    /// Something that was destroyed is being freed.
    freeing: bool,
    accounts: BTreeMap<TreeId, Account>,
    /// Bytes kept free for volumes: what is left of their reservations.
    reserved: u64,
    /// Bytes kept free for nodes that the next checkpoints write.
    nodes: u64,
    node_size: u64,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// What a checkpoint did to space, bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    /// Put before it, since the one before.
    held: u64,
    /// Free through it.
    gave: u64,
    /// Let in while it was written.
    meanwhile: u64,
    /// Let in before it, without an address yet.
    promised: u64,
    /// Of nodes that it wrote anew, about.
    rewritten: u64,
}

/// Whether there is room for more of a volume.
struct Fit {
    /// The pool has a place for it.
    in_pool: bool,
    /// That is not kept for those who come later during this checkpoint.
    now: bool,
    /// The volume may have it.
    in_quota: bool,
}

/// Bytes of a volume that may be dirty. Dropped, they are given back.
pub(crate) struct Entered<'a> {
    room: &'a Room,
    id: TreeId,
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
        self.room.replaced(self.id, self.bytes);
    }
}

/// A place among those who wait for space of the pool. Dropped, it is given up.
struct InLine<'a> {
    room: &'a Room,
    number: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut space = lock(&self.room.0);
        space.line.remove(&self.number);
        space.waiting.clear();
    }
}

impl Space {
    fn update(&mut self, id: TreeId, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.accounts.get_mut(&id) else {
            return;
        };
        let (unused, nodes) = (account.unused(), account.nodes(self.node_size));
        change(account);
        self.reserved = self.reserved - unused + account.unused();
        self.nodes = self.nodes - nodes + account.nodes(self.node_size);
    }

    /// So much may be allocated: who waits looks again.
    fn supply(&mut self, allocatable: u64, settled: bool, freeing: bool) {
        self.allocatable = allocatable;
        self.settled = settled;
        self.freeing = freeing;
        self.waiting.clear();
    }

    /// Bytes that nobody asked for yet.
    fn left(&self) -> u64 {
        let wanted = self.promised + self.reserved + self.nodes;
        self.allocatable.saturating_sub(wanted)
    }

    /// Whether a checkpoint should come before somebody waits for space: it does as late as leaves room for what comes meanwhile.
    fn is_running_out(&self) -> bool {
        let Course {
            held,
            gave,
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
        // what is overwritten comes back: of what was put, the share that did last time
        let put = self.put + self.promised;
        let expected = u128::from(put) * u128::from(gave);
        let expected = expected.checked_div(held.into()).unwrap_or(0) as u64;
        left < expected.max(put / UNEXPECTED) / PART_LEFT
    }

    /// Bytes that would be kept for nodes if this happened to a volume.
    fn nodes_after(&self, mut account: Account, change: impl FnOnce(&mut Account)) -> u64 {
        let others = self.nodes - account.nodes(self.node_size);
        change(&mut account);
        others + account.nodes(self.node_size)
    }

    /// Whether there is room for more of a volume.
    fn fits(&self, id: TreeId, bytes: u64) -> Fit {
        let account = self.accounts.get(&id).copied().unwrap_or_default();
        let mut others = self.reserved - account.unused().min(bytes);
        if others > 0 && account.unused() < bytes {
            others += NODES_MIN;
        }
        let nodes = self.nodes_after(account, |after| after.promised += bytes);
        let wanted = self.promised + bytes + others + nodes;
        let held_back = match account.unused() < bytes {
            true => self.held_back.bytes(),
            false => 0,
        };
        Fit {
            in_pool: wanted <= self.allocatable,
            now: wanted + held_back <= self.allocatable,
            in_quota: account.fits(bytes),
        }
    }

    /// Whether nobody has waited longer for space that is not the volume's own.
    fn is_turn(&self, id: TreeId, bytes: u64, place: Option<&InLine<'_>>) -> bool {
        let first = self.line.first();
        let own = || self.accounts.get(&id).is_some_and(|a| a.unused() >= bytes);
        first.is_none_or(|first| place.is_some_and(|p| p.number == *first) || own())
    }

    /// Whether a checkpoint could make room where there is none now.
    fn may_help(&self, id: TreeId, in_pool: bool, asked_at: u64) -> bool {
        let waited = self.checkpoints >= asked_at + CHECKPOINTS_MAX;
        if self.settled || (waited && !(in_pool && self.freeing)) {
            return false;
        }
        let account = self.accounts.get(&id).copied().unwrap_or_default();
        in_pool || self.freeing || account.merging.bytes + account.layered.bytes > 0
    }
}

impl Room {
    pub(crate) fn new(dirty_max: u64, node_size: u64) -> Self {
        Self(Mutex::new(Space {
            dirty: 0,
            dirty_max,
            promised: 0,
            allocatable: 0,
            put: 0,
            last: Course::default(),
            is_low: false,
            held_back: HeldBack::default(),
            checkpoints: 0,
            short: false,
            line: BTreeSet::new(),
            next_in_line: 0,
            settled: false,
            freeing: false,
            accounts: BTreeMap::new(),
            reserved: 0,
            nodes: 0,
            node_size,
            waiting: VecDeque::new(),
        }))
    }

    /// Waits until `bytes` more of a volume may be dirty.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no place for them, also after checkpoints; [`Error::Quota`]; what [`Shared::trouble`] says.
    pub(crate) async fn enter(
        &self,
        shared: &Shared,
        id: TreeId,
        bytes: u64,
    ) -> Result<Entered<'_>> {
        let mut asked_at = None;
        let mut place = None;
        loop {
            if let Some(trouble) = shared.trouble() {
                return Err(trouble);
            }
            let changed = {
                let mut space = lock(&self.0);
                let fit = space.fits(id, bytes);
                let fits = fit.in_pool && fit.in_quota;
                if !fit.now && place.is_none() {
                    let number = space.next_in_line;
                    space.next_in_line += 1;
                    space.line.insert(number);
                    place = Some(InLine { room: self, number });
                }
                let is_turn = space.is_turn(id, bytes, place.as_ref());
                let has_memory = space.dirty == 0 || space.dirty + bytes <= space.dirty_max;
                if fits && fit.now && is_turn && has_memory {
                    space.dirty += bytes;
                    space.promised += bytes;
                    space.settled = false;
                    space.update(id, |account| account.promised += bytes);
                    if !space.is_low && space.is_running_out() {
                        space.is_low = true;
                        shared.bell.ring();
                    }
                    let room = self;
                    return Ok(Entered { room, id, bytes });
                }
                if !fits && (space.settled || is_turn) {
                    let asked_at = *asked_at.get_or_insert(space.checkpoints);
                    if !space.may_help(id, !fit.in_pool, asked_at) {
                        return Err(if fit.in_pool {
                            Error::Quota
                        } else {
                            Error::NoSpace
                        });
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

    /// Records of these bytes are dirty no more, without having been written; what takes their place may free something.
    pub(crate) fn replaced(&self, id: TreeId, bytes: u64) {
        let mut space = lock(&self.0);
        space.settled = false;
        space.dirty -= bytes;
        space.promised -= bytes;
        space.update(id, |account| account.promised -= bytes);
        space.waiting.clear();
    }

    /// Records of these bytes have their addresses, and take `stored` bytes there; so much may still be allocated.
    pub(crate) fn placed(&self, id: TreeId, bytes: u64, stored: u64, allocatable: u64) {
        let mut space = lock(&self.0);
        space.promised -= bytes;
        space.allocatable = allocatable;
        space.settled = false;
        space.update(id, |account| {
            account.promised -= bytes;
            account.layered.bytes += stored;
            account.layered.records += account.records_of(bytes);
        });
        space.put += stored;
        if stored < bytes {
            // more fits than was promised
            space.waiting.clear();
        }
    }

    /// Records of these bytes are written.
    pub(crate) fn written(&self, bytes: u64) {
        let mut space = lock(&self.0);
        space.dirty -= bytes;
        space.waiting.clear();
    }

    /// A checkpoint begins: it holds the records that have an address. No other volume than these has any since the last one.
    pub(crate) fn begin_checkpoint(&self, changed: &[TreeId]) {
        let mut space = lock(&self.0);
        for id in changed {
            space.update(*id, |account| {
                let Put {
                    bytes,
                    records,
                    snapshots,
                } = std::mem::take(&mut account.layered);
                account.merging.bytes += bytes;
                account.merging.records += records;
                account.merging.snapshots += snapshots;
            });
        }
        space.last.held = std::mem::take(&mut space.put);
        space.last.promised = space.promised;
        let left = space.left();
        // nodes that take the place of others: those are free only afterwards
        let accounts = changed.iter().filter_map(|id| space.accounts.get(id));
        let rewritten = accounts.map(|a| a.rewritten(space.node_size));
        space.last.rewritten = rewritten.sum();
        let rewritten = space.last.rewritten.min(left / 2);
        space.held_back = HeldBack::begin(left, rewritten);
    }

    /// The checkpoint that is being written has so many ticks to go; none when it has ended.
    pub(crate) fn pace(&self, ticks: u64) {
        let mut space = lock(&self.0);
        space.held_back.tick(ticks);
        space.waiting.clear();
    }

    /// Whether there is room for the nodes of a snapshot that is taken now; a checkpoint helps.
    pub(crate) fn may_snapshot(&self, id: TreeId) -> bool {
        let space = lock(&self.0);
        let account = space.accounts.get(&id).copied().unwrap_or_default();
        let nodes = space.nodes_after(account, Account::share);
        space.promised + space.reserved + nodes <= space.allocatable
    }

    /// A snapshot was taken of a volume.
    pub(crate) fn snapshot(&self, id: TreeId) {
        lock(&self.0).update(id, Account::share);
    }

    /// A checkpoint has ended: this is how a volume is by it.
    pub(crate) fn merged(&self, id: TreeId, standing: Standing) {
        lock(&self.0).update(id, |account| {
            account.merging = Put::default();
            account.stand(standing);
        });
    }

    /// What a checkpoint freed is reusable: so much may be allocated `now`. `settled` if another would free nothing; `freeing`
    /// if it goes on with something.
    pub(crate) fn checkpointed(&self, before: u64, now: u64, settled: bool, freeing: bool) {
        let mut space = lock(&self.0);
        space.last.gave = now.saturating_sub(before);
        space.is_low = false;
        let came = space.put + space.promised;
        let came = came.saturating_sub(space.last.promised);
        // a lull is soon forgotten
        space.last.meanwhile = came.max(space.last.meanwhile / 2);
        space.checkpoints += 1;
        space.supply(now, settled, freeing);
    }

    /// The pool was opened, or has more disks or larger ones: so much may be allocated. `freeing` if checkpoints free something.
    pub(crate) fn supplied(&self, allocatable: u64, freeing: bool) {
        lock(&self.0).supply(allocatable, false, freeing);
    }

    /// Something was destroyed: checkpoints will free it.
    pub(crate) fn destroyed(&self) {
        let mut space = lock(&self.0);
        space.settled = false;
        space.freeing = true;
    }

    /// A volume is there, and is so; `layered` was put since the last checkpoint.
    pub(crate) fn open(&self, id: TreeId, dataset: &Dataset, standing: Standing, layered: Put) {
        let mut space = lock(&self.0);
        let account = Account {
            record_size: dataset.record_size.into(),
            size: dataset.size,
            ..Account::default()
        };
        space.accounts.insert(id, account);
        space.update(id, |account| {
            account.layered = layered;
            account.stand(standing);
        });
    }

    /// A volume's client sees so many bytes from now on.
    pub(crate) fn resized(&self, id: TreeId, size: u64) {
        lock(&self.0).update(id, |account| account.size = account.size.max(size));
    }

    /// A volume is gone.
    pub(crate) fn close(&self, id: TreeId) {
        let mut space = lock(&self.0);
        if let Some(account) = space.accounts.remove(&id) {
            space.reserved -= account.unused();
            space.nodes -= account.nodes(space.node_size);
        }
        space.waiting.clear();
    }

    /// A volume may take `quota` at most, 0 for no limit, and `reservation` is kept free for it.
    pub(crate) fn set_limits(&self, id: TreeId, quota: u64, reservation: u64) {
        let mut space = lock(&self.0);
        space.update(id, |account| {
            account.quota = quota;
            account.reservation = reservation;
        });
        space.waiting.clear();
    }

    /// Whether there is room for a reservation.
    pub(crate) fn may_reserve(&self, id: TreeId, reservation: u64) -> bool {
        let space = lock(&self.0);
        let mut account = space.accounts.get(&id).copied().unwrap_or_default();
        let others = space.reserved - account.unused();
        account.reservation = reservation;
        space.promised + others + account.unused() <= space.allocatable
    }

    /// Bytes that a volume and its snapshots take, and bytes kept free for it.
    pub(crate) fn of(&self, id: TreeId) -> (u64, u64) {
        let space = lock(&self.0);
        let account = space.accounts.get(&id).copied().unwrap_or_default();
        (account.taken(), account.unused())
    }

    /// Bytes kept free for volumes.
    pub(crate) fn reserved(&self) -> u64 {
        lock(&self.0).reserved
    }

    /// Bytes kept free for nodes that the next checkpoints write.
    pub(crate) fn kept_for_nodes(&self) -> u64 {
        lock(&self.0).nodes
    }

    /// Whether a checkpoint should come before somebody waits for space.
    pub(crate) fn is_running_out(&self) -> bool {
        lock(&self.0).is_running_out()
    }

    /// Whether somebody waits for space; asks once.
    pub(crate) fn is_short(&self) -> bool {
        std::mem::take(&mut lock(&self.0).short)
    }

    /// Bytes of records in memory, not written yet.
    pub(crate) fn dirty(&self) -> u64 {
        lock(&self.0).dirty
    }

    pub(crate) fn wake(&self) {
        lock(&self.0).waiting.clear();
    }
}
