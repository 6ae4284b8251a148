//! States: an open, a lock state, a delegation, or a delegation that was revoked.
//!
//! **Owns** [`State`] and its kinds, [`File`], [`Waiter`], [`Register`] and [`Withdrawn`]. **Called by** the table, and by the operations of each kind. **Invariants**:
//! each number in a list is the number of a state in the table.

use crate::held::{HeldTimes, ReportedTimes};
use crate::index::OpenIndex;
use crate::limits::RECALLED_FILES_MAX;
use crate::ranges::{Range, Ranges};
use crate::{Origin, Revocation};
use backend::file::{Handle, Hold};
use io::time::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Time after a recall in which a file gets no delegation.
pub(crate) const REST: Duration = Duration::from_secs(30);
/// Time for which attributes that a client told are shown without asking again.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum Kind {
    Open(Open),
    /// Of this open.
    Lock(u64),
    Delegation(Delegation),
    /// A state that was revoked: its client has not freed the stateid.
    Revoked(Revocation),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) client: u64,
    pub(crate) owner: Vec<u8>,
    pub(crate) file: Handle,
    pub(crate) seqid: u32,
    pub(crate) kind: Kind,
}

#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) opens: OpenIndex,
    /// Lock states by client and owner.
    pub(crate) lockers: HashMap<(u64, Vec<u8>), u64>,
    pub(crate) ranges: Ranges,
    pub(crate) delegations: Vec<u64>,
    /// Lock owners that wait, and when they asked last.
    pub(crate) waiters: VecDeque<(Waiter, Instant)>,
}

impl File {
    pub(crate) fn is_unused(&self) -> bool {
        let is_held = !self.lockers.is_empty() || !self.delegations.is_empty();
        self.opens.is_empty() && !is_held && self.waiters.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Open {
    /// Combinations of access and deny that were opened and not downgraded: bit `(access - 1) * 4 + deny`.
    pub(crate) combinations: u16,
    pub(crate) lockers: BTreeSet<u64>,
    /// Keeps the file; `None` while it is not exported.
    pub(crate) hold: Option<Hold>,
}

impl Open {
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let bits = (0..12).filter(|bit| self.combinations & (1 << bit) != 0);
        bits.map(|bit| (bit / 4 + 1, bit % 4))
    }

    /// Access and deny of all combinations together.
    pub(crate) fn share(&self) -> (u32, u32) {
        self.all()
            .fold((0, 0), |(a, d), (access, deny)| (a | access, d | deny))
    }
}

pub(crate) fn bit_of(access: u32, deny: u32) -> u16 {
    1 << ((access - 1) * 4 + deny)
}

/// What the holder of a write delegation told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// Its own `change` and the size.
    pub(crate) own: (u64, u64),
    /// The `change` that is shown.
    pub(crate) shown: u64,
    /// The times, as far as they count.
    pub(crate) times: ReportedTimes,
    pub(crate) at: Instant,
}

impl Told {
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now.since(self.at) < FRESH
    }
}

/// A lock owner that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// Its client.
    pub client: u64,
    /// Its name.
    pub owner: Vec<u8>,
    /// The file.
    pub file: Handle,
    /// The number of its export.
    pub export: u32,
    /// The bytes.
    pub range: Range,
    /// Whether the lock would exclude every other one.
    pub is_exclusive: bool,
}

impl Waiter {
    pub(crate) fn is_of(&self, client: u64, owner: &[u8]) -> bool {
        self.client == client && self.owner == owner
    }

    pub(crate) fn excludes(&self, other: &Waiter) -> bool {
        let is_other = !self.is_of(other.client, &other.owner);
        is_other
            && (self.is_exclusive || other.is_exclusive)
            && self.range.start <= other.range.end
            && other.range.start <= self.range.end
    }
}

/// A delegation.
#[derive(Debug)]
pub(crate) struct Delegation {
    pub(crate) is_write: bool,
    pub(crate) export: u32,
    pub(crate) origin: Origin,
    pub(crate) recalled_at: Option<Instant>,
    /// Number of uses of the file by the holder since the recall.
    pub(crate) progress: u64,
    /// The `change` attribute when it was granted.
    pub(crate) change: u64,
    pub(crate) told: Option<Told>,
    pub(crate) is_asked: bool,
    /// The file's times, if they are delegated, too.
    pub(crate) held: Option<HeldTimes>,
    /// Keeps the file; `None` while it is not exported.
    pub(crate) hold: Option<Hold>,
}

impl Delegation {
    pub(crate) fn is_write(&self) -> bool {
        self.is_write
    }

    pub(crate) fn into_hold(self) -> Option<Hold> {
        self.hold
    }
}

/// Facts about all delegations.
#[derive(Debug, Default)]
pub(crate) struct Register {
    /// Delegations of the shard.
    pub(crate) count: usize,
    /// Files whose delegations were recalled, the oldest first.
    pub(crate) recalled: VecDeque<(Handle, Instant)>,
    /// Numbers of changes under way, by file.
    pub(crate) changing: HashMap<Handle, u32>,
    /// Numbers of revoked stateids that were not freed, by client: after a recall, and by the administrator.
    pub(crate) revoked: HashMap<u64, (usize, usize)>,
}

impl Register {
    pub(crate) fn recalled(&mut self, file: Handle, now: Instant) {
        self.recalled
            .retain(|(other, at)| *other != file && now.since(*at) < REST);
        if self.recalled.len() >= RECALLED_FILES_MAX {
            self.recalled.pop_front();
        }
        self.recalled.push_back((file, now));
    }

    pub(crate) fn is_resting(&self, file: Handle, now: Instant) -> bool {
        let mut all = self.recalled.iter().rev();
        all.any(|(other, at)| *other == file && now.since(*at) < REST)
    }

    fn count(counts: &mut (usize, usize), why: Revocation) -> &mut usize {
        match why {
            Revocation::Recall => &mut counts.0,
            Revocation::Admin => &mut counts.1,
        }
    }

    /// A stateid is revoked.
    pub(crate) fn revoke(&mut self, client: u64, why: Revocation) {
        *Self::count(self.revoked.entry(client).or_default(), why) += 1;
    }

    /// A revoked stateid was freed, or its client is gone.
    pub(crate) fn freed(&mut self, client: u64, why: Revocation) {
        if let Some(counts) = self.revoked.get_mut(&client) {
            *Self::count(counts, why) -= 1;
            if *counts == (0, 0) {
                self.revoked.remove(&client);
            }
        }
    }
}

/// File systems that are not exported, or are about to be withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Withdrawn {
    /// File systems with states that are not exported, and since when.
    pub(crate) since: BTreeMap<u64, Instant>,
    /// File systems that get no delegations until they are exported again.
    pub(crate) frozen: BTreeSet<u64>,
}

impl Withdrawn {
    /// Whether a file system gets no delegations.
    pub(crate) fn is_frozen(&self, filesystem: u64) -> bool {
        self.frozen.contains(&filesystem) || self.since.contains_key(&filesystem)
    }
}
