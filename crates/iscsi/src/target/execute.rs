//! Commands with the device: begun with all data of a piece, gone on with when the piece has moved.
//!
//! **Called by** [`super::command`] and by what waited for the budget. **Invariants**: a command holds the budget of one
//! piece; one that was aborted begins no further piece.

use super::command::{Stage, check_condition};
use super::connection::Core;
use io::spawn;
use scsi::{Step, Transfer};
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
        let mut buf = c.buf.take();
        if let Some(b) = &mut buf {
            b.set_len((c.end - c.base) as usize);
        }
        let buf = buf.filter(|_| c.end > c.base);
        let cancel = c.cancel.clone();
        let barriers = c.barriers.clone();
        let read = match task.piece() {
            Transfer::In(n) => n as usize,
            Transfer::None | Transfer::Out(_) => 0,
        };
        self.reserve(slot, read);
        let mut future = Box::pin(task.step(buf, cancel));
        let waker = self.waker.clone();
        if let Poll::Ready(step) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return self.stepped(slot, step);
        }
        let me = self.me.clone();
        // Whoever takes this connection's place waits until its commands have ended.
        let alive = self.member.as_ref().map(|m| m.alive.clone());
        drop(spawn(async move {
            let step = future.await;
            if let Some(conn) = me.upgrade() {
                let mut core = conn.core.borrow_mut();
                core.stepped(slot, step);
                core.waker.wake_by_ref();
            }
            drop((barriers, alive));
        }));
    }

    /// A command has ended, or goes on with its next piece.
    fn stepped(&mut self, slot: usize, step: Step) {
        let (task, data) = match step {
            Step::Ended(outcome) => return self.finish(slot, outcome),
            Step::Moved(task, data) => (task, data),
        };
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        if c.aborted.is_some() {
            return self.finish(slot, check_condition(0x0b, (0, 0), 0));
        }
        self.budget_used -= std::mem::take(&mut c.reserved);
        c.stage = Stage::Transfer;
        if let Transfer::Out(n) = task.piece() {
            c.base = c.end;
            c.end += n;
        }
        c.task = Some(task);
        let (itt, sent) = (c.itt, c.sent);
        let sent = self.send_data_in(itt, sent, data, None);
        if let Some(c) = self.commands.get_mut(slot) {
            c.sent = sent;
        }
        self.proceed(slot);
    }
}
