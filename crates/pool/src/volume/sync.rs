//! When a volume's writes become durable, and what its clients are told.
//!
//! **Owns** the difference between what is durable and what `sync=disabled` says is. **Called by** the volume's requests.
//! **Invariants**: a [`Waiver`] is made from the state of the volume whose request is answered, under its lock, while it is
//! set so, and ends with that answer: it is not cloned, not kept, and the pool's owner has never seen one, so that it
//! reaches no other volume. What the pool itself needs durable never takes this way. `docs/decisions/0108`.

use std::time::Duration;

use backend::{Durable, Waived};
use io::JoinHandle;

use super::{Inner, State};
use crate::format::Sync;
use crate::shared::lock;
use crate::{Error, Result};

/// How often a write that waits for the devices looks whether the pool takes no changes.
const WRITTEN_LOOK: Duration = Duration::from_secs(1);

/// This volume's clients are told of stable storage without it.
struct Waiver<'a>(
    #[expect(dead_code, reason = "it lives no longer than the volume is locked")] &'a State,
);

impl Waived for Waiver<'_> {}

impl<'a> Waiver<'a> {
    fn of(state: &'a State) -> Option<Self> {
        (state.dataset.sync == Sync::Disabled).then_some(Waiver(state))
    }
}

impl Inner {
    /// What a client gets that asked for what is urgent, or with `all` for whatever was acknowledged, to be durable.
    pub(super) async fn promise(&self, all: bool) -> Result<Durable> {
        {
            let state = lock(&self.state);
            if let Some(waiver) = Waiver::of(&state).filter(|_| !state.gone) {
                return Ok(Durable::waived(waiver));
            }
        }
        self.durable(all).await
    }

    /// A change was made. If the volume is set so, it is durable before that is said.
    pub(super) async fn settle(&self) -> Result<()> {
        if self.sync() == Sync::Always {
            let _proof = self.durable(false).await?;
        }
        Ok(())
    }

    /// Waits until the devices have a large write.
    ///
    /// # Errors
    /// [`Error::Closed`]; why the pool takes no changes: for want of space the write may still come.
    pub(super) async fn written(&self, mut write: JoinHandle<Option<()>>) -> Result<()> {
        let done = loop {
            match io::timeout(WRITTEN_LOOK, &mut write).await {
                Ok(done) => break done,
                Err(_) => match self.shared.trouble() {
                    Some(trouble) => return Err(trouble),
                    None => continue,
                },
            }
        };
        let lost = || match lock(&self.state).gone {
            true => Error::Closed,
            false => self.shared.trouble().unwrap_or(Error::Device),
        };
        done.flatten().ok_or_else(lost)
    }

    pub(super) fn sync(&self) -> Sync {
        self.settings.sync()
    }
}
