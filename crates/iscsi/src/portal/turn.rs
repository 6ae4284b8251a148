//! Commands that wait for others of their logical unit: ORDERED ones, and those behind them (SAM-5 8.6).
//!
//! **Called by** the connection in every turn, and when a command is to begin. **Invariants**: a command that waits holds no
//! more than the data that came unasked, at most FirstBurstLength: those that it waits for may need the buffers.

use super::command::Stage;
use super::connection::Core;
use std::task::{Context, Poll};

impl Core {
    /// Whether a delivered command may begin. If not it waits, and this connection is woken.
    pub(super) fn has_turn(&mut self, slot: usize) -> bool {
        let Some(c) = self.commands.get_mut(slot) else {
            return true;
        };
        let mut cx = Context::from_waker(self.link.waker());
        let turn = c.task.as_ref().map(|t| t.poll_turn(&mut cx));
        if turn.is_none_or(|t| t == Poll::Ready(())) {
            return true;
        }
        c.stage = Stage::Waiting;
        let asked = c.asked as usize;
        if let (Some(buf), hold) = (c.buf.take(), c.hold.take()) {
            let early = self.early_copy(&buf[..asked.min(buf.len())]);
            drop((buf, hold));
            if let Some(c) = self.commands.get_mut(slot) {
                c.early = Some(early);
            }
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
