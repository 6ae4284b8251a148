//! Commands that wait for others of their logical unit: ORDERED ones, and those behind them (SAM-5 8.6).
//!
//! **Called by** the connection in every turn, and when a command is to begin. **Invariants**: what waits holds no buffer of
//! the pool, which those that it waits for may need; data that came unasked is kept beside, at most FirstBurstLength.

use super::command::Stage;
use super::connection::Core;
use std::task::{Context, Poll};

impl Core {
    /// Whether a delivered command may begin. If not it waits, and this connection is woken.
    pub(super) fn has_turn(&mut self, slot: usize) -> bool {
        let Some(c) = self.commands.get_mut(slot) else {
            return true;
        };
        let mut cx = Context::from_waker(&self.waker);
        let turn = c.task.as_ref().map(|t| t.poll_turn(&mut cx));
        if turn.is_none_or(|t| t == Poll::Ready(())) {
            return true;
        }
        c.stage = Stage::Waiting;
        if let Some(buf) = c.buf.take() {
            let came = (c.asked as usize).min(buf.len());
            c.early = Some(buf[..came].to_vec());
            self.budget_used -= std::mem::take(&mut c.reserved);
        }
        self.waiting.push(slot);
        false
    }

    /// Begins what has waited long enough.
    pub(super) fn run_waiting(&mut self) {
        for slot in std::mem::take(&mut self.waiting) {
            if let Some(c) = self.commands.get_mut(slot) {
                c.stage = Stage::Transfer;
                self.proceed(slot);
            }
        }
    }
}
