//! Ready queues: how a command of a queue waits and ends.
//!
//! **Called by** the handlers of commands. **Invariants**: a command whose answer is known at once costs no allocation and no
//! task; a failure is in the controller's error log before its reply leaves.

use super::command::Command;
use super::namespace_view::NamespaceView;
use super::phase::{Connection, Lifeline, Ready};
use super::shared::TargetShared;
use super::status::Completion;
use super::table::Awaiting;
use crate::wire::command::Nsid;
use crate::wire::status::{Status, StatusType};
use backend::Reply;
use io::time::Instant;
use io::{Payload, spawn};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Ready<'_> {
    /// The target that the connection belongs to.
    #[inline]
    pub(super) fn target(&self) -> &Arc<TargetShared> {
        self.common.target()
    }

    /// When this turn began.
    #[inline]
    pub(super) fn now(&self) -> Instant {
        self.common.now()
    }

    /// Tells a command of several steps whether the connection still exists.
    pub(super) fn lifeline(&self) -> Lifeline {
        Lifeline::new(self.me)
    }

    /// The namespace of an I/O controller, as this connection sees it. Errors: Invalid Namespace.
    #[inline]
    pub(super) fn namespace(&self, nsid: Nsid) -> Result<Rc<NamespaceView>, Status> {
        self.views.get(nsid)
    }

    /// Brings the views of the namespaces up to date with the subsystem.
    pub(super) fn refresh_namespaces(&mut self) {
        let controller = self.queue.controller();
        if let Some(subsystem) = controller.subsystem() {
            self.views.refresh(subsystem, controller.host_id);
        }
    }

    /// Whether the host lets writes stay in a volatile cache (WCE).
    #[inline]
    pub(super) fn write_cache(&self) -> bool {
        let controller = self.queue.controller();
        controller.write_cache.load(Ordering::Relaxed)
    }

    /// Ends a command: its reply goes out with the next send.
    #[inline]
    pub(super) fn complete(&mut self, command: Command, done: Completion) {
        if !done.status.is_success() {
            self.log_failure(&command, &done);
        }
        self.exchange.reply(self.common, command, done);
    }

    /// Ends a command with an error.
    pub(super) fn fail(&mut self, command: Command, status: Status) {
        self.complete(command, Completion::failed(status));
    }

    /// Ends a command with data for the host and a zero result.
    #[inline]
    pub(super) fn complete_with_data(&mut self, command: Command, payload: Payload) {
        self.exchange.reply_with_data(self.common, command, payload);
    }

    /// Ends an admin command with a data structure; the host's SGL must have room for it (Base 4.1.2).
    pub(super) fn send_structure(&mut self, command: Command, payload: Payload) {
        match self.exchange.framing().host_memory(command.sgl()) {
            Ok(length) if length as usize >= payload.len() => {
                self.complete_with_data(command, payload);
            }
            Ok(_) => self.fail(command, Status::DATA_SGL_LENGTH_INVALID.dnr()),
            Err(status) => self.fail(command, status),
        }
    }

    fn log_failure(&mut self, command: &Command, done: &Completion) {
        self.common.count_failure(done);
        let controller = self.queue.controller();
        if done.status.kind() == StatusType::MEDIA
            && let Some(s) = controller.subsystem()
        {
            s.totals.media_errors.fetch_add(1, Ordering::Relaxed);
        }
        let mut state = controller.state();
        state.log_error(self.queue.qid(), command.cid(), done.status, Nsid::NONE);
    }

    /// Takes a parked command out of the table.
    #[inline]
    pub(super) fn unpark(&mut self, slot: usize) -> Option<Command> {
        Some(self.exchange.table_mut().unpark(slot)?.command)
    }

    /// Continues with `done` when the backend has answered: now, or from a task of its own.
    #[inline]
    pub(super) fn wait_for<T: Unpin + 'static>(
        &mut self,
        command: Command,
        reply: Reply<T>,
        done: impl FnOnce(&mut Ready<'_>, Command, backend::Result<T>) + 'static,
    ) {
        match reply {
            Reply::Ready(Some(result)) => done(self, command, result),
            Reply::Ready(None) => done(self, command, Err(backend::StorageError::Aborted)),
            Reply::Later(future) => self.wait_on(command, future, done),
        }
    }

    /// Continues with `done` when `future` has ended. Without the connection, `done` is not called.
    pub(super) fn wait_on<T: 'static>(
        &mut self,
        mut command: Command,
        future: impl Future<Output = T> + 'static,
        done: impl FnOnce(&mut Ready<'_>, Command, T) + 'static,
    ) {
        // The backend keeps its buffer when the connection ends first, so the task keeps the hold.
        let (hold, trail) = (command.take_hold_for_backend(), command.trail());
        let slot = self.exchange.table_mut().park(command, Awaiting::Executing);
        let me = self.me.clone();
        drop(spawn(async move {
            let (result, trail) = trail.follow(future).await;
            let Some(connection) = me.upgrade() else {
                return;
            };
            resume(&connection, slot, |ready, mut command| {
                command.set_hold(hold);
                command.set_trail(trail);
                done(ready, command, result);
            });
        }));
    }
}

/// Continues with a command that the backend had.
fn resume(connection: &Connection, slot: usize, go_on: impl FnOnce(&mut Ready<'_>, Command)) {
    let mut core = connection.core().borrow_mut();
    let Some(mut ready) = core.ready() else {
        return;
    };
    if let Some(command) = ready.unpark(slot) {
        go_on(&mut ready, command);
        core.common.link.waker().wake_by_ref();
    }
}
