//! Fused pairs of one I/O queue, until they are executed (Base 3.4.2).
//!
//! **Owns** the halves that have arrived, and their data. **Called by** the handlers of fused commands. **Invariants**: a half
//! is parked in the command table from the moment that it is settled until its pair is taken.

use crate::wire::command::Cid;
use crate::wire::status::Status;
use io::IoBuf;

/// The pairs of one I/O queue, oldest first.
#[derive(Default)]
pub(super) struct FusedPairs(Vec<Pair>);

/// A pair, from the arrival of its first half on.
pub(super) struct Pair {
    pub(super) first: Half,
    pub(super) second: Option<Half>,
    /// The command after the first half was not the second.
    is_broken: bool,
}

/// One command of a pair.
pub(super) struct Half {
    cid: Cid,
    pub(super) state: HalfState,
}

/// The state of a half.
pub(super) enum HalfState {
    /// Its data is on its way.
    Pending,
    /// Its data is here; the command is parked in this slot.
    Ready { slot: usize, data: IoBuf },
    /// It cannot be executed. The command is parked until the pair is settled.
    Refused { slot: usize, status: Status },
}

impl Half {
    fn new(cid: Cid) -> Half {
        Half {
            cid,
            state: HalfState::Pending,
        }
    }

    fn is_settled(&self) -> bool {
        !matches!(self.state, HalfState::Pending)
    }
}

impl Pair {
    /// Whether no half is on its way any longer.
    fn is_settled(&self) -> bool {
        self.first.is_settled()
            && (self.is_broken || self.second.as_ref().is_some_and(Half::is_settled))
    }

    fn pending(&mut self, cid: Cid) -> Option<&mut Half> {
        let second = self.second.iter_mut();
        std::iter::once(&mut self.first)
            .chain(second)
            .find(|h| h.cid == cid && !h.is_settled())
    }
}

impl FusedPairs {
    /// Whether the last pair waits for its second half.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        let last = self.0.last();
        last.is_some_and(|p| p.second.is_none() && !p.is_broken)
    }

    /// A first half begins a pair.
    pub(super) fn begin(&mut self, cid: Cid) {
        self.0.push(Pair {
            first: Half::new(cid),
            second: None,
            is_broken: false,
        });
    }

    /// A second half completes the open pair.
    pub(super) fn join(&mut self, cid: Cid) {
        if let Some(last) = self.0.last_mut() {
            last.second = Some(Half::new(cid));
        }
    }

    /// The command after the first half was another one. Returns the pair if nothing of it is on its way.
    pub(super) fn break_open(&mut self) -> Option<Pair> {
        self.0.last_mut()?.is_broken = true;
        self.take_settled(self.0.len() - 1)
    }

    /// The pair that a pending half belongs to.
    pub(super) fn position(&mut self, cid: Cid) -> Option<usize> {
        self.0.iter_mut().position(|p| p.pending(cid).is_some())
    }

    /// A pending half of the pair at this position is settled. Returns the pair if nothing of it is on its way.
    pub(super) fn end_half(&mut self, at: usize, cid: Cid, state: HalfState) -> Option<Pair> {
        if let Some(half) = self.0[at].pending(cid) {
            half.state = state;
        }
        self.take_settled(at)
    }

    fn take_settled(&mut self, at: usize) -> Option<Pair> {
        self.0[at].is_settled().then(|| self.0.remove(at))
    }
}
