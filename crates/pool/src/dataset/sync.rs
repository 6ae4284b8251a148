//! Durability of a dataset's writes, and the `sync` property.
//!
//! **Owns** the [`Waiver`], which stands in for a durable write with `sync=disabled`. **Called by** requests
//! of volumes. **Invariants**: a waiver is made from the state of the dataset whose request is answered, under its lock,
//! while `sync=disabled` is set, and ends with that answer. It is not cloned and not kept, and the pool's owner never
//! sees one, so that it reaches no other dataset. The pool's own durability does not use it. `docs/decisions/0108`.

use std::ops::Range;
use std::time::Duration;

use backend::{Durable, Waived};
use io::JoinHandle;
use io::stage::{self, Stage};

use super::{OpenDataset, State};
use crate::format::{Key, Sync};
use crate::{Error, Result};
use io::sync::lock;

/// How often a write that waits for the devices checks whether the pool takes no changes.
const WRITTEN_LOOK: Duration = Duration::from_secs(1);

/// Clients of this dataset get a promise of stable storage without it.
struct Waiver<'a>(
    #[expect(dead_code, reason = "it lives no longer than the dataset is locked")] &'a State,
);

impl Waived for Waiver<'_> {}

impl<'a> Waiver<'a> {
    fn of(state: &'a State) -> Option<Self> {
        (state.dataset.sync == Sync::Disabled).then_some(Waiver(state))
    }
}

impl OpenDataset {
    /// The promise to a client that asked for urgent records, or with `all` for all acknowledged writes, to be
    /// durable.
    pub(crate) async fn promise(&self, all: bool) -> Result<Durable> {
        {
            let state = lock(&self.state);
            if let Some(waiver) = Waiver::of(&state).filter(|_| state.demands.check().is_ok()) {
                return Ok(Durable::waived(waiver));
            }
        }
        self.durable(all).await
    }

    /// As [`OpenDataset::promise`], for all staged transactions, and the records under these keys, or all.
    pub(crate) async fn promise_of(&self, keys: Option<Range<Key>>) -> Result<Durable> {
        if let Some(keys) = &keys {
            let mut state = lock(&self.state);
            state.dirty.make_urgent_in(keys.clone());
            state
                .tails
                .await_all(keys.start.object()..keys.end.object());
        }
        self.promise(keys.is_none()).await
    }

    /// Waits until a change is durable, with `sync=always`.
    pub(crate) async fn wait_if_always(&self) -> Result<()> {
        if self.settings.sync() == Sync::Always {
            let _proof = self.durable(false).await?;
        }
        Ok(())
    }

    /// Waits until the devices have a large write.
    ///
    /// # Errors
    /// [`Error::Closed`]; as [`Shared::trouble`](crate::shared::Shared::trouble), after which the write may still be
    /// made if only space is missing.
    pub(crate) async fn written(&self, mut write: JoinHandle<Option<()>>) -> Result<()> {
        let _device = stage::wait(Stage::Device);
        let done = loop {
            match io::timeout(WRITTEN_LOOK, &mut write).await {
                Ok(done) => break done,
                Err(_) => match self.shared.trouble() {
                    Some(trouble) => return Err(trouble),
                    None => continue,
                },
            }
        };
        let lost = || match lock(&self.state).demands.check() {
            Err(closed) => closed,
            Ok(()) => self.shared.trouble().unwrap_or(Error::Device),
        };
        done.flatten().ok_or_else(lost)
    }
}
