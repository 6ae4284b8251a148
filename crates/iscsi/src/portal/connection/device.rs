//! Steps of commands at the device, and task management functions that wait for other connections.
//!
//! **Called by** the core for its full feature phase. **Invariants**: a step that ends at once costs no task; a step that goes on is
//! kept until it ends, also when its connection ends first, with its ledger bytes and the tokens that others wait for.

use super::{Core, Phase};
use crate::portal::full_feature::{Aborting, DeviceStep};
use io::spawn;
use io::stage::Trail;
use scsi::Step;
use session::Hold;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

impl Core {
    /// Hands a command with all data of its piece to the device.
    pub(super) fn execute(&mut self, slot: usize) {
        let Phase::FullFeature(f) = &mut self.phase else {
            return;
        };
        let now = self.transport.now();
        let Some(step) = f.start(slot, now) else {
            return;
        };
        let DeviceStep {
            task,
            buf,
            cancel,
            hold,
            barriers,
            trail,
        } = step;
        let mut future = Box::pin(trail.follow(task.step(buf, cancel)));
        let waker = self.transport.link().waker().clone();
        if let Poll::Ready(step) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return self.stepped(slot, step, hold);
        }
        let alive = f.alive();
        let me = self.me.clone();
        drop(spawn(async move {
            let step = future.await;
            if let Some(conn) = me.upgrade() {
                let mut core = conn.core.borrow_mut();
                core.stepped(slot, step, hold);
                core.wake();
            }
            drop((barriers, alive));
        }));
    }

    /// A step has ended: the command ends, or goes on with its next piece.
    fn stepped(&mut self, slot: usize, step: (Step, Trail), mut hold: Option<Hold>) {
        if let Phase::FullFeature(f) = &mut self.phase {
            let next = f.stepped(&mut self.transport, slot, step, &mut hold);
            self.go_on(next);
        }
    }

    /// Answers a task management function when its tasks have ended.
    pub(super) fn await_tasks(&mut self, aborting: Aborting) {
        let Aborting {
            itt,
            mut ended,
            then,
        } = aborting;
        let Phase::FullFeature(f) = &mut self.phase else {
            return;
        };
        let waker = self.transport.link().waker().clone();
        let polled = Pin::new(&mut ended).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            return f.tasks_ended(&mut self.transport, itt, then);
        }
        let me = self.me.clone();
        drop(spawn(async move {
            ended.await;
            if let Some(conn) = me.upgrade() {
                let mut core = conn.core.borrow_mut();
                let core = &mut *core;
                if let Phase::FullFeature(f) = &mut core.phase {
                    f.tasks_ended(&mut core.transport, itt, then);
                    core.wake();
                }
            }
        }));
    }
}
