//! Requests to the owner: demands that changes become durable, and the sign that there is work.
//!
//! **Owns** the waiting demands, and the end of a dataset, after which there are none. **Called by** requests and the owner, under
//! the dataset's lock. **Invariant**: each demand gets one answer.

use backend::Durable;
use io::sync::oneshot;
use io::time::Instant;

use crate::{Error, Result};

/// The owner's answer to a demand: the changes that the demand names are durable.
pub(crate) struct Promise {
    pub(crate) proof: Durable,
    /// When the journal had taken the changes into a batch.
    pub(crate) taken_at: Instant,
    /// When the devices were asked to make data and batch stable.
    pub(crate) flush_at: Instant,
}

/// Answers a demand that dirty, or urgent, records become durable.
pub(crate) type Demand = oneshot::Sender<Result<Promise>>;

/// See the module header.
#[derive(Default)]
pub(crate) struct Demands {
    waiting: Vec<Demand>,
    /// Whether the owner knows that the dataset has work: [`crate::shared::Shared::asking`] has its number, or the owner took
    /// it from there.
    is_asking: bool,
    /// Whether the dataset is destroyed, or its pool closed.
    is_ended: bool,
}

impl Demands {
    /// # Errors
    /// [`Error::Closed`] if the dataset has ended.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_ended {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    pub(super) fn add(&mut self, demand: Demand) {
        self.waiting.push(demand);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of waiting demands.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the waiting demands.
    pub(crate) fn take(&mut self) -> Vec<Demand> {
        std::mem::take(&mut self.waiting)
    }

    /// The dataset has work. Returns whether the owner does not know yet.
    pub(super) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.is_asking, true)
    }

    /// Whether the owner knows that the dataset has work.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// The dataset has no work any longer.
    pub(crate) fn rest(&mut self) {
        self.is_asking = false;
    }

    /// Answers the waiting demands with an error.
    pub(crate) fn refuse(&mut self, error: impl Fn() -> Error) {
        for demand in self.waiting.drain(..) {
            demand.send(Err(error()));
        }
    }

    /// The dataset is gone: refuses the waiting demands and all later ones.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        self.refuse(|| Error::Closed);
    }
}
