//! A ping whose answer a user waits for, beside the automatic ones.
//!
//! **Owns** the tag of the ping and the waiting task. **Called by** the session's handle. **Invariants**: at most one such ping is
//! outstanding; one that was abandoned keeps its tag, so that its late answer is no error.

use super::Engine;
use crate::error::{Error, Result};
use iscsi::wire::{Itt, Lun, Ttt};
use std::task::{Poll, Waker};

/// See the module header.
#[derive(Default)]
pub(crate) enum Echo {
    /// No ping is outstanding.
    #[default]
    Idle,
    /// A ping has no answer yet.
    Sent(Itt, Option<Waker>),
    /// The ping was answered, or its connection ended.
    Ended(Result<()>),
}

impl Echo {
    /// Handles an answer. Returns whether it is the one to this ping.
    pub(super) fn answered(&mut self, itt: Itt) -> bool {
        let is_ours = matches!(self, Echo::Sent(sent, _) if *sent == itt);
        if is_ours {
            self.end(Ok(()));
        }
        is_ours
    }

    /// The connection ended.
    pub(super) fn fail(&mut self, error: &Error) {
        if matches!(self, Echo::Sent(..)) {
            self.end(Err(error.clone()));
        }
    }

    fn end(&mut self, result: Result<()>) {
        if let Echo::Sent(_, Some(waker)) = std::mem::replace(self, Echo::Ended(result)) {
            waker.wake();
        }
    }

    /// The end of the ping, once; otherwise `waker` is woken at the end.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<()>> {
        match std::mem::take(self) {
            Echo::Sent(itt, _) => {
                *self = Echo::Sent(itt, Some(waker.clone()));
                Poll::Pending
            }
            Echo::Ended(result) => Poll::Ready(result),
            Echo::Idle => Poll::Ready(Err(Error::Disconnected)),
        }
    }
}

impl Engine {
    /// Sends a ping for a user.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection; [`Error::Invalid`] while another one has no answer.
    pub(crate) fn send_echo(&mut self) -> Result<()> {
        if !self.open {
            return Err(Error::Disconnected);
        }
        if matches!(self.echo, Echo::Sent(..)) {
            return Err(Error::Invalid("the last ping has no answer yet"));
        }
        let itt = self.tag();
        self.echo = Echo::Sent(itt, None);
        self.nop_out(itt, Ttt::NONE, Lun::default());
        Ok(())
    }

    /// The ping of a user.
    pub(crate) fn echo(&mut self) -> &mut Echo {
        &mut self.echo
    }
}
