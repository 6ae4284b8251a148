//! A member of a vdev: its state, and the results of operations on it.
//!
//! **Owns** the states of a member, and what labels record of each. **Called by** vdevs. **Invariant**: a member that missed a
//! write is not in. `docs/decisions/0101`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use io::JoinHandle;

use super::leaf::{Fault, Leaf, MemberCounters, MemberTimes};
use crate::format::{Birth, MemberGuid, Membership};

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// In: it has all data.
    Online,
    /// It missed writes. It takes every write but does not count for success, and is read only if no other member has the
    /// block.
    Stale,
    /// The operator took it offline. Nothing is sent to it.
    Offline,
    /// It had too many errors. Nothing is sent to it.
    Faulted,
    /// Its disk is missing.
    Missing,
}

impl MemberState {
    pub(super) fn takes_writes(self) -> bool {
        matches!(self, MemberState::Online | MemberState::Stale)
    }
}

/// A member, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its identifier.
    pub guid: MemberGuid,
    /// Path of its disk; empty if it is missing.
    pub path: std::path::PathBuf,
    /// Its state.
    pub state: MemberState,
    /// Of a member that is not in: it has every block born up to this epoch, from which a resilver begins.
    pub held: Birth,
    /// The reason why it is faulted, or about to be.
    pub fault: Option<Fault>,
    /// Its operations.
    pub counters: MemberCounters,
    /// Its latencies.
    pub times: MemberTimes,
}

/// Number of changes of membership, over all vdevs.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<AtomicU64>);

impl Changes {
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn so_far(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A member and its state.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) leaf: Arc<Leaf>,
    pub(super) state: MemberState,
    /// While it is resilvered and has missed nothing: the number of uberblocks begun before the resilver.
    pub(super) resilvering: Option<u64>,
    /// Whether it has everything, and waits only for labels to record that it is in.
    pub(super) joining: bool,
    /// It has every block born up to this epoch.
    pub(super) held: Birth,
}

impl Member {
    pub(super) fn new(leaf: Leaf, state: MemberState, held: Birth) -> Self {
        Self {
            leaf: Arc::new(leaf),
            state,
            resilvering: None,
            joining: false,
            held,
        }
    }

    /// The membership that labels record.
    pub(super) fn membership(&self) -> Membership {
        match self.state {
            MemberState::Online => Membership::In,
            MemberState::Stale if self.joining => Membership::In,
            MemberState::Offline => Membership::Offline,
            MemberState::Stale | MemberState::Faulted | MemberState::Missing => Membership::Stale,
        }
    }

    /// Records that it missed a write. Returns whether labels may record otherwise.
    pub(super) fn miss(&mut self) -> bool {
        self.resilvering = None;
        let told = std::mem::take(&mut self.joining) || self.state == MemberState::Online;
        if self.state == MemberState::Online {
            self.state = MemberState::Stale;
        }
        told
    }
}

/// The members that an operation goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All: as many of them as the layout needs must succeed.
    All,
    /// Those with a part of it: a copy of a raidz's journal, rows of the former width, or a flush that began before a member joined. All of
    /// them that stay in must succeed, and members without a part stay in.
    Some,
}

/// A member and the result of an operation on it.
pub(super) struct Attempt {
    pub(super) leaf: Arc<Leaf>,
    pub(super) has_it: bool,
}

impl Attempt {
    pub(super) fn new(leaf: Arc<Leaf>, has_it: bool) -> Self {
        Self { leaf, has_it }
    }

    /// Whether it was an operation on this member.
    pub(super) fn is_of(&self, leaf: &Arc<Leaf>) -> bool {
        Arc::ptr_eq(&self.leaf, leaf)
    }

    /// Waits for an operation on several members, which runs concurrently. Returns the results.
    pub(super) async fn all(running: Vec<(Arc<Leaf>, JoinHandle<bool>)>) -> Vec<Attempt> {
        let mut attempts = Vec::with_capacity(running.len());
        for (leaf, handle) in running {
            let has_it = handle.await.unwrap_or(false);
            attempts.push(Attempt { leaf, has_it });
        }
        attempts
    }
}
