//! When checkpoints begin, how far the current one is, and what the last one left to the next.
//!
//! **Owns** the stage, the requests and reasons for a checkpoint, the pauses, the datasets that need a root of their own, and
//! the newest uberblock. **Called by** the owner's loop, by checkpoints (`checkpoint.rs`), and by operations that need one.
//! **Invariants**: one checkpoint is written at a time; none begins during a pause; a dataset without a root of its own is in
//! `rootless` or in `rooting` until a durable checkpoint has its root.

use std::collections::BTreeSet;

use io::sync::oneshot;

use super::idle::Idleness;
use crate::checkpoint_throttle::CheckpointProgress;
use crate::format::{TreeId, Uberblock};
use crate::{Error, Result};

/// Answers a request for a checkpoint.
pub(super) type CheckpointRequest = oneshot::Sender<Result<()>>;

/// Whether a checkpoint is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No.
    Idle,
    /// Yes. Another one begins after it if one is due then.
    Running,
}

/// See the module header.
pub(in crate::owner) struct Checkpointer {
    stage: Stage,
    requests: Vec<CheckpointRequest>,
    /// Requests that the end of the current checkpoint answers, although they are younger than its beginning.
    end_requests: Vec<CheckpointRequest>,
    /// Whether space is short, so that a checkpoint is due that may free some.
    is_space_short: bool,
    /// Number of times that a change found no room in the journal.
    journal_full: u64,
    /// Whether a checkpoint is due because the pool is idle.
    is_idle_due: bool,
    idleness: Idleness,
    /// Pauses that did not end.
    pauses: usize,
    /// Whether the next checkpoint waits until records that only the journal has get blocks.
    waits_for_journaled: bool,
    progress: CheckpointProgress,
    /// Durable checkpoints whose freed blocks are not reusable yet.
    releasing: usize,
    /// Datasets whose root the next checkpoint must write, also if nothing in them changed.
    rootless: BTreeSet<TreeId>,
    /// The datasets whose root the current checkpoint must write.
    rooting: BTreeSet<TreeId>,
    /// The last durable checkpoint.
    uberblock: Uberblock,
    /// The highest sequence of an uberblock on the disks.
    newest: u64,
}

impl Checkpointer {
    /// The pool was opened at `uberblock`; `newest` is the highest sequence of an uberblock on its disks.
    pub(in crate::owner) fn new(uberblock: Uberblock, newest: u64) -> Self {
        Self {
            stage: Stage::Idle,
            requests: Vec::new(),
            end_requests: Vec::new(),
            is_space_short: false,
            journal_full: 0,
            is_idle_due: false,
            idleness: Idleness::default(),
            pauses: 0,
            waits_for_journaled: false,
            progress: CheckpointProgress::default(),
            releasing: 0,
            rootless: BTreeSet::new(),
            rooting: BTreeSet::new(),
            uberblock,
            newest,
        }
    }

    /// The last durable checkpoint.
    pub(in crate::owner) fn uberblock(&self) -> &Uberblock {
        &self.uberblock
    }

    /// The highest sequence of an uberblock on the disks.
    pub(in crate::owner) fn newest(&self) -> u64 {
        self.newest
    }

    /// Requests a checkpoint.
    pub(in crate::owner) fn request(&mut self, request: CheckpointRequest) {
        self.requests.push(request);
    }

    /// Requests an answer at the end of the current checkpoint, or a checkpoint if none is being written.
    pub(in crate::owner) fn request_end(&mut self, request: CheckpointRequest) {
        match self.is_running() {
            true => self.end_requests.push(request),
            false => self.requests.push(request),
        }
    }

    /// Requests a checkpoint because space in the pool or in the journal is short.
    pub(in crate::owner) fn request_space(&mut self) {
        self.is_space_short = true;
    }

    /// The same, unless a checkpoint is being written that may free some.
    pub(in crate::owner) fn request_space_if_idle(&mut self) {
        self.is_space_short |= !self.is_running();
    }

    /// Number of times that a change found no room in the journal, and waited.
    pub(in crate::owner) fn journal_full(&self) -> u64 {
        self.journal_full
    }

    /// A change found no room in the journal, and waits for a checkpoint.
    pub(in crate::owner) fn request_journal(&mut self) {
        self.journal_full += 1;
        self.request_space_if_idle();
    }

    /// Answers all requests with an error.
    pub(in crate::owner) fn refuse(&mut self, error: &Error) {
        let end_requests = self.end_requests.drain(..);
        for request in self.requests.drain(..).chain(end_requests) {
            request.send(Err(error.clone()));
        }
    }

    /// A second passed; replay would read the first number of bytes of a journal of the second one. A checkpoint would free the
    /// first number of bytes of `frees` in a pool of the second one.
    pub(in crate::owner) fn tick(&mut self, (used, size): (u64, u64), frees: (u64, u64)) {
        self.is_idle_due = self.idleness.tick(used, size);
        self.is_idle_due |= self.idleness.tick_frees(frees.0, frees.1);
    }

    /// Whether one is due because space is short or the pool is idle.
    pub(in crate::owner) fn is_due(&self) -> bool {
        self.is_space_short || self.is_idle_due
    }

    /// Whether a checkpoint is being written.
    pub(in crate::owner) fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }

    /// Whether blocks that a durable checkpoint freed are not reusable yet.
    pub(in crate::owner) fn is_releasing(&self) -> bool {
        self.releasing > 0
    }

    /// Whether a checkpoint may begin that was requested, or `is_due`.
    pub(super) fn may_begin(&self, is_due: bool) -> bool {
        (is_due || !self.requests.is_empty()) && !self.is_running() && self.pauses == 0
    }

    /// A checkpoint begins. Returns the requests that it answers.
    pub(super) fn begin(&mut self) -> Vec<CheckpointRequest> {
        self.stage = Stage::Running;
        std::mem::take(&mut self.requests)
    }

    /// The next checkpoint waits until records that only the journal has get blocks, or does not. Returns whether it waits from now on.
    pub(super) fn wait_for_journaled(&mut self, waits: bool) -> bool {
        let waited = std::mem::replace(&mut self.waits_for_journaled, waits);
        waits && !waited
    }

    /// Whether the next checkpoint waits until records that only the journal has get blocks.
    pub(in crate::owner) fn waits_for_journaled(&self) -> bool {
        self.waits_for_journaled
    }

    /// The current checkpoint holds all changes up to now. Returns the datasets whose root it must write.
    pub(in crate::owner) fn freeze(&mut self) -> &BTreeSet<TreeId> {
        self.is_space_short = false;
        self.is_idle_due = false;
        self.rooting = std::mem::take(&mut self.rootless);
        &self.rooting
    }

    /// The current checkpoint takes about `steps` steps.
    pub(super) fn begin_progress(&mut self, steps: u64) {
        self.progress = CheckpointProgress::begin(steps);
    }

    /// The current checkpoint did `steps` steps. Returns the parts that are left of it, if these are fewer now.
    pub(in crate::owner) fn advance(&mut self, steps: u64) -> Option<u64> {
        self.progress.advance(steps)
    }

    /// The current checkpoint is durable.
    pub(in crate::owner) fn durable(&mut self, uberblock: Uberblock) {
        self.uberblock = uberblock;
        self.newest = uberblock.sequence;
        self.rooting.clear();
        self.releasing += 1;
    }

    /// The blocks that a durable checkpoint freed are reusable.
    pub(in crate::owner) fn released(&mut self) {
        self.releasing -= 1;
    }

    /// The current checkpoint has ended. Returns the requests that its end answers.
    pub(in crate::owner) fn end(&mut self) -> Vec<CheckpointRequest> {
        self.stage = Stage::Idle;
        std::mem::take(&mut self.end_requests)
    }

    /// No checkpoint begins until [`Checkpointer::resume`].
    pub(in crate::owner) fn pause(&mut self) {
        self.pauses += 1;
    }

    /// Ends a pause.
    pub(in crate::owner) fn resume(&mut self) {
        self.pauses -= 1;
    }

    /// The next checkpoint must write the root of a dataset.
    pub(in crate::owner) fn add_rootless(&mut self, dataset: TreeId) {
        self.rootless.insert(dataset);
    }

    /// Forgets a destroyed dataset.
    pub(in crate::owner) fn forget(&mut self, dataset: TreeId) {
        self.rootless.remove(&dataset);
    }

    /// Whether no checkpoint holds a dataset whose root must be written.
    pub(in crate::owner) fn is_rootless(&self, dataset: TreeId) -> bool {
        self.rootless.contains(&dataset)
    }

    /// Whether every dataset without a root of its own is in the current checkpoint.
    pub(super) fn takes_all_roots(&self) -> bool {
        self.rootless.is_empty()
    }

    /// Whether a durable checkpoint has the root of a dataset.
    pub(in crate::owner) fn has_root(&self, dataset: TreeId) -> bool {
        !self.rootless.contains(&dataset) && !self.rooting.contains(&dataset)
    }
}
