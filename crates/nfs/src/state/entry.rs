//! States: an open, a lock state, a delegation, or a delegation that was revoked.
//!
//! **Owns** [`State`] and its kinds, [`File`], [`Waiter`], [`Register`] and [`Withdrawn`]. **Called by** the table, and by the operations of each kind. **Invariants**:
//! each number in a list is the number of a state in the table.

use super::held::{HeldTimes, ReportedTimes};
use super::index::OpenIndex;
use super::ranges::{Range, Ranges};
use crate::limits::RECALLED_FILES_MAX;
use crate::wire::Status;
use crate::wire::callback::ReferringCall;
use backend::file::{Handle, Hold};
use io::time::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Time after a recall in which a file gets no delegation.
pub(super) const REST: Duration = Duration::from_secs(30);
/// Time for which attributes that a client told are shown without asking again.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Kind {
    Open(Open),
    /// Of this open.
    Lock(u64),
    Delegation(Delegation),
    /// A state that was revoked: its client has not freed the stateid.
    Revoked(Revocation),
}

/// Why a state was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revocation {
    /// A delegation was not returned in time.
    Recall,
    /// The administrator ended it: the export is gone, or denied to the host.
    Admin,
}

impl Revocation {
    /// The status of operations with the stateid (§8.2.4).
    pub(super) fn status(self) -> Status {
        match self {
            Revocation::Recall => Status::DelegRevoked,
            Revocation::Admin => Status::AdminRevoked,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) client: u64,
    pub(super) owner: Vec<u8>,
    pub(super) file: Handle,
    pub(super) seqid: u32,
    pub(super) kind: Kind,
}

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) opens: OpenIndex,
    /// Lock states by client and owner.
    pub(super) lockers: HashMap<(u64, Vec<u8>), u64>,
    pub(super) ranges: Ranges,
    pub(super) delegations: Vec<u64>,
    /// Lock owners that wait, and when they asked last.
    pub(super) waiters: VecDeque<(Waiter, Instant)>,
}

impl File {
    pub(super) fn is_unused(&self) -> bool {
        let is_held = !self.lockers.is_empty() || !self.delegations.is_empty();
        self.opens.is_empty() && !is_held && self.waiters.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Open {
    /// Combinations of access and deny that were opened and not downgraded: bit `(access - 1) * 4 + deny`.
    pub(super) combinations: u16,
    pub(super) lockers: BTreeSet<u64>,
    /// Keeps the file; `None` while it is not exported.
    pub(super) hold: Option<Hold>,
}

impl Open {
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let bits = (0..12).filter(|bit| self.combinations & (1 << bit) != 0);
        bits.map(|bit| (bit / 4 + 1, bit % 4))
    }

    /// Access and deny of all combinations together.
    pub(super) fn share(&self) -> (u32, u32) {
        self.all()
            .fold((0, 0), |(a, d), (access, deny)| (a | access, d | deny))
    }
}

pub(super) fn bit_of(access: u32, deny: u32) -> u16 {
    1 << ((access - 1) * 4 + deny)
}

/// What the holder of a write delegation told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// Its own `change` and the size.
    pub(super) own: (u64, u64),
    /// The `change` that is shown.
    pub(super) shown: u64,
    /// The times, as far as they count.
    pub(super) times: ReportedTimes,
    pub(super) at: Instant,
}

impl Told {
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
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
    pub(super) fn is_of(&self, client: u64, owner: &[u8]) -> bool {
        self.client == client && self.owner == owner
    }

    pub(super) fn excludes(&self, other: &Waiter) -> bool {
        let is_other = !self.is_of(other.client, &other.owner);
        is_other
            && (self.is_exclusive || other.is_exclusive)
            && self.range.start <= other.range.end
            && other.range.start <= self.range.end
    }
}

/// A delegation.
#[derive(Debug)]
pub(super) struct Delegation {
    pub(super) is_write: bool,
    pub(super) export: u32,
    pub(super) origin: ReferringCall,
    pub(super) recalled_at: Option<Instant>,
    /// Number of uses of the file by the holder since the recall.
    pub(super) progress: u64,
    /// The `change` attribute when it was granted.
    pub(super) change: u64,
    pub(super) told: Option<Told>,
    pub(super) is_asked: bool,
    /// The file's times, if they are delegated, too.
    pub(super) held: Option<HeldTimes>,
    /// Keeps the file; `None` while it is not exported.
    pub(super) hold: Option<Hold>,
}

impl Delegation {
    pub(super) fn is_write(&self) -> bool {
        self.is_write
    }

    pub(super) fn into_hold(self) -> Option<Hold> {
        self.hold
    }
}

/// Facts about all delegations.
#[derive(Debug, Default)]
pub(super) struct Register {
    /// Delegations of the shard.
    pub(super) count: usize,
    /// Files whose delegations were recalled, the oldest first.
    pub(super) recalled: VecDeque<(Handle, Instant)>,
    /// Numbers of changes under way, by file.
    pub(super) changing: HashMap<Handle, u32>,
    /// Numbers of revoked stateids that were not freed, by client: after a recall, and by the administrator.
    pub(super) revoked: HashMap<u64, (usize, usize)>,
}

impl Register {
    pub(super) fn recalled(&mut self, file: Handle, now: Instant) {
        self.recalled
            .retain(|(other, at)| *other != file && now.since(*at) < REST);
        if self.recalled.len() >= RECALLED_FILES_MAX {
            self.recalled.pop_front();
        }
        self.recalled.push_back((file, now));
    }

    pub(super) fn is_resting(&self, file: Handle, now: Instant) -> bool {
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
    pub(super) fn revoke(&mut self, client: u64, why: Revocation) {
        *Self::count(self.revoked.entry(client).or_default(), why) += 1;
    }

    /// A revoked stateid was freed, or its client is gone.
    pub(super) fn freed(&mut self, client: u64, why: Revocation) {
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
pub(super) struct Withdrawn {
    /// File systems with states that are not exported, and since when.
    pub(super) since: BTreeMap<u64, Instant>,
    /// File systems that get no delegations until they are exported again.
    pub(super) frozen: BTreeSet<u64>,
}

impl Withdrawn {
    /// Whether a file system gets no delegations.
    pub(super) fn is_frozen(&self, filesystem: u64) -> bool {
        self.frozen.contains(&filesystem) || self.since.contains_key(&filesystem)
    }
}
