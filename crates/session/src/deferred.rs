//! Deferred commands of one connection: commands that wait for buffers, in order of arrival.
//!
//! **Owns** their order, and the buffer request of the first one. **Called by** a protocol's `run_deferred`.
//! **Invariants**: the ledger grants the bytes of a buffer before the pool is asked for it.

use crate::Hold;
use io::IoBuf;
use io::buf::{Alloc, BufPool};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Deferred commands of one connection, as slot numbers.
#[derive(Default)]
pub struct Deferred {
    slots: VecDeque<usize>,
    /// The pool's pending allocation for the first command, with the bytes that the ledger granted.
    buffer: Option<(Hold, Alloc)>,
}

impl Deferred {
    /// Whether no command is deferred.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Defers a command.
    pub fn push(&mut self, slot: usize) {
        self.slots.push_back(slot);
    }

    /// The slot of the first deferred command; `None` if no command is deferred.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.slots.front().copied()
    }

    /// Removes the first command, which can now run.
    pub fn pop(&mut self) {
        self.slots.pop_front();
    }

    /// Removes a command that was aborted. Its pending buffer is released, because the next command may need another size.
    pub fn remove(&mut self, slot: usize) {
        if self.first() == Some(slot) {
            self.buffer = None;
        }
        self.slots.retain(|s| *s != slot);
    }

    /// Whether a buffer for the first command is pending.
    #[must_use]
    pub fn awaits_buffer(&self) -> bool {
        self.buffer.is_some()
    }

    /// Requests a buffer of `len` bytes for the first command; `hold` has the ledger's bytes for it.
    pub fn await_buffer(&mut self, hold: Hold, pool: &BufPool, len: usize) {
        self.buffer = Some((hold, pool.alloc(len)));
    }

    /// Returns the pending buffer if it is ready. Otherwise `waker` is woken when it is.
    pub fn poll_buffer(&mut self, waker: &Waker) -> Option<(Hold, IoBuf)> {
        let (_, alloc) = self.buffer.as_mut()?;
        let Poll::Ready(buf) = Pin::new(alloc).poll(&mut Context::from_waker(waker)) else {
            return None;
        };
        self.buffer.take().map(|(hold, _)| (hold, buf))
    }

    /// Releases the pending buffer of the first command.
    pub fn forget_buffer(&mut self) {
        self.buffer = None;
    }

    /// Removes all commands: the connection has ended.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.buffer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Account, HostKey, Ledger};
    use io::sim::{Sim, SimConfig};

    const PIECE: usize = 4096;

    /// Regression: the buffer of an aborted command went to the next command, which needed a larger one.
    #[test]
    fn the_buffer_of_an_aborted_command_goes_to_no_other() {
        Sim::new(1, SimConfig::default()).block_on(async {
            let pool = io::pool();
            let _full: Vec<IoBuf> = std::iter::from_fn(|| pool.try_alloc(PIECE)).collect();
            let host = HostKey::unnamed([10, 0, 0, 1].into());
            let ledger = Ledger::new(pool.stats().limit);
            let account = Account::new(&ledger, host, 1 << 20, io::time::now(), || {});
            let mut deferred = Deferred::default();
            for slot in [7, 8, 9] {
                deferred.push(slot);
            }
            let hold = account.try_hold(PIECE).expect("nothing is held");
            deferred.await_buffer(hold, &pool, PIECE);
            assert!(deferred.poll_buffer(Waker::noop()).is_none(), "no room");
            deferred.remove(8);
            assert!(deferred.awaits_buffer(), "another command is gone");
            deferred.remove(7);
            assert!(!deferred.awaits_buffer());
            assert_eq!((account.held(), deferred.first()), (0, Some(9)));
        });
    }
}
