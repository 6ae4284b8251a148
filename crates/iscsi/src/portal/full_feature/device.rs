//! Steps of commands at the device, and the queues before them.
//!
//! **Called by** the connection, which runs the steps. **Invariants**: a command holds ledger bytes of one piece; an aborted command
//! begins no further piece; a command that waits for older commands of its logical unit (SAM-5 8.6) holds no more than its
//! unsolicited data, at most FirstBurstLength, because the older commands may need the buffers.

use super::FullFeature;
use super::command::{Progress, check_condition};
use super::next::Next;
use crate::portal::session::{Alive, Barrier};
use crate::portal::transport::PortalTransport;
use io::IoBuf;
use io::stage::Trail;
use io::time::Instant;
use scsi::{Cancel, Step, Task};
use session::Hold;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A step that is to be run at the device.
pub(crate) struct DeviceStep {
    pub(crate) task: Task,
    /// Data of the piece.
    pub(crate) buf: Option<IoBuf>,
    pub(crate) cancel: Cancel,
    /// Ledger bytes of the piece. The backend keeps its buffer when the connection ends first, so the step keeps the hold.
    pub(crate) hold: Option<Hold>,
    /// Dropped when the step has ended.
    pub(crate) barriers: Rc<RefCell<Vec<Barrier>>>,
    /// The command's time by stage so far.
    pub(crate) trail: Trail,
}

impl FullFeature {
    /// Takes the next step of a command, with all data of its piece.
    pub(crate) fn start(&mut self, slot: usize, now: Instant) -> Option<DeviceStep> {
        let c = self.commands.get_mut(slot)?;
        let task = c.take_task()?;
        c.go(Progress::Executing, now);
        let (buf, hold) = c.data.take_piece();
        Some(DeviceStep {
            task,
            buf,
            cancel: c.cancel.clone(),
            hold,
            barriers: c.barriers.clone(),
            trail: c.trail(),
        })
    }

    /// A token that a step at the backend holds, so that a login that replaces this connection waits for it (§6.3.5).
    pub(crate) fn alive(&self) -> Arc<Alive> {
        self.member.alive()
    }

    /// A step has ended. Takes `hold` if its data is on the way to the initiator.
    pub(crate) fn stepped(
        &mut self,
        transport: &mut PortalTransport,
        slot: usize,
        (step, trail): (Step, Trail),
        hold: &mut Option<Hold>,
    ) -> Next {
        if let Some(c) = self.commands.get_mut(slot) {
            c.set_trail(trail);
        }
        let (task, data) = match step {
            Step::Ended(outcome) => {
                if !outcome.data_in.is_empty() {
                    transport.hold_until_sent(hold.take());
                }
                self.finish(transport, slot, outcome);
                return Next::Idle;
            }
            Step::Moved(task, data) => (task, data),
        };
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        if c.aborted.is_some() {
            self.finish(transport, slot, check_condition(0x0b, (0, 0), 0));
            return Next::Idle;
        }
        c.go(Progress::Transfer, transport.now());
        c.set_task(task);
        let (to, sent) = ((c.request.itt, c.memory), c.sent);
        if !data.is_empty() {
            transport.hold_until_sent(hold.take());
        }
        let sent = self.send_data_in(transport, to, sent, data, None);
        if let Some(c) = self.commands.get_mut(slot) {
            c.sent = sent;
        }
        self.proceed(transport, slot)
    }

    /// Whether a delivered command may begin. If not it waits, and the connection is woken when it may.
    pub(super) fn has_turn(&mut self, transport: &PortalTransport, slot: usize) -> bool {
        let Some(c) = self.commands.get_mut(slot) else {
            return true;
        };
        let mut cx = Context::from_waker(transport.link().waker());
        let turn = c.task().map(|t| t.poll_turn(&mut cx));
        if turn.is_none_or(|t| t == Poll::Ready(())) {
            return true;
        }
        c.go(Progress::Waiting, transport.now());
        c.data
            .set_aside(|unsolicited| self.early.copy(transport, unsolicited));
        self.waiting.push(slot);
        false
    }

    /// Takes the commands that wait for older commands of their logical unit.
    pub(crate) fn take_waiting(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.waiting)
    }

    /// Tries again whether a waiting command may begin.
    pub(crate) fn retry(&mut self, transport: &mut PortalTransport, slot: usize) -> Next {
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        c.go(Progress::Transfer, transport.now());
        self.proceed(transport, slot)
    }

    /// Takes the first deferred command out of its queue and moves it on. `None` if it must wait longer, or none is deferred.
    pub(crate) fn next_deferred(&mut self, transport: &mut PortalTransport) -> Option<Next> {
        if transport.is_closing() {
            return None;
        }
        while let Some(slot) = self.deferred.first() {
            let c = self.commands.get_mut(slot);
            let waiting = c.and_then(|c| match c.progress {
                Progress::Deferred { room } => Some((c, room)),
                _ => None,
            });
            let Some((c, len)) = waiting else {
                self.deferred.remove(slot);
                continue;
            };
            let needs_no_data = c.expected().write == 0 || !c.data.has_piece();
            if !self.deferred.awaits_buffer() {
                let hold = transport.link_mut().hold(io::buf::capacity_of(len))?;
                if needs_no_data {
                    self.deferred.pop();
                    c.data.set_hold(hold);
                    return Some(Next::Execute(slot));
                }
                let pool = transport.link().pool();
                self.deferred.await_buffer(hold, pool, len);
            }
            let (hold, buf) = self.deferred.poll_buffer(transport.link().waker())?;
            self.deferred.pop();
            c.go(Progress::Transfer, transport.now());
            c.data.give_buffer(buf, hold);
            return Some(self.proceed(transport, slot));
        }
        self.deferred.forget_buffer();
        if !self.early.is_waiting() {
            transport.link_mut().forget_request();
        }
        None
    }

    /// Whether the first deferred command can go on in this turn.
    pub(crate) fn can_resume(&self, transport: &PortalTransport) -> bool {
        let account = transport.link().account();
        let first = self.deferred.first();
        !self.deferred.awaits_buffer()
            && !account.is_waiting()
            && first
                .and_then(|slot| self.commands.get(slot))
                .is_some_and(|c| match c.progress {
                    Progress::Deferred { room } => account.fits(io::buf::capacity_of(room)),
                    // It has left the queue: the next look at the queue removes it.
                    _ => true,
                })
    }
}
