//! Commands with the device: begun with all data of a piece, gone on with when the piece has moved.
//!
//! **Called by** [`super::command`] and by what waited for the budget. **Invariants**: a command holds the budget of one
//! piece; one that was aborted begins no further piece.

use super::command::{Stage, check_condition};
use super::connection::Core;
use io::spawn;
use scsi::{Step, Transfer};
use session::Hold;
use std::future::Future;
use std::task::{Context, Poll};

impl Core {
    /// Hands a command with all its data to the device.
    pub(super) fn execute(&mut self, slot: usize) {
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let Some(task) = c.task.take() else { return };
        c.stage = Stage::Executing;
        c.due = None;
        let mut buf = c.buf.take();
        if let Some(b) = &mut buf {
            b.set_len((c.end - c.base) as usize);
        }
        let buf = buf.filter(|_| c.end > c.base);
        let cancel = c.cancel.clone();
        let barriers = c.barriers.clone();
        // The backend keeps its buffer when the connection ends first, so what waits for it keeps the hold.
        let mut hold = c.hold.take();
        if let Some(hold) = &mut hold {
            hold.to_backend();
        }
        let mut future = Box::pin(task.step(buf, cancel));
        let waker = self.link.waker().clone();
        if let Poll::Ready(step) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return self.stepped(slot, step, hold);
        }
        let me = self.me.clone();
        // Whoever takes this connection's place waits until its commands have ended.
        let alive = self.member.as_ref().map(|m| m.alive.clone());
        drop(spawn(async move {
            let step = future.await;
            if let Some(conn) = me.upgrade() {
                let mut core = conn.core.borrow_mut();
                core.stepped(slot, step, hold);
                core.link.waker().wake_by_ref();
            }
            drop((barriers, alive));
        }));
    }

    /// A command has ended, or goes on with its next piece.
    fn stepped(&mut self, slot: usize, step: Step, hold: Option<Hold>) {
        let (task, data) = match step {
            Step::Ended(outcome) => {
                if !outcome.data_in.is_empty() {
                    self.holds_until_sent(hold);
                }
                return self.finish(slot, outcome);
            }
            Step::Moved(task, data) => (task, data),
        };
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        if c.aborted.is_some() {
            return self.finish(slot, check_condition(0x0b, (0, 0), 0));
        }
        c.stage = Stage::Transfer;
        if let Transfer::Out(n) = task.piece() {
            c.base = c.end;
            c.end += n;
        }
        c.task = Some(task);
        let (itt, sent) = (c.itt, c.sent);
        if !data.is_empty() {
            self.holds_until_sent(hold);
        }
        let sent = self.send_data_in(itt, sent, data, None);
        if let Some(c) = self.commands.get_mut(slot) {
            c.sent = sent;
        }
        self.proceed(slot);
    }
}
