//! State of a controller, which its handles share with its supervising task.
//!
//! **Owns** the queues, the data that the controller returned, its events and its counts. **Called by** [`super::controller`] and
//! [`super::recovery`]. **Invariant**: the queues are created at the first connect and outlive connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use initiator::LinkState;
use io::sync::Notify;

use super::config::Config;
use super::error::{Error, Result};
use super::limits::EVENTS_MAX;
use super::queue::Queue;
use nvmf::wire::fabrics::Cap;
use nvmf::wire::features::AsyncEvent;
use nvmf::wire::identify::IdentifyController;

/// Data that the controller returned when it was last connected.
#[derive(Debug, Clone)]
pub struct ControllerInfo {
    /// CNTLID.
    pub cntlid: u16,
    /// CAP.
    pub cap: Cap,
    /// VS.
    pub version: u32,
    /// Identify Controller.
    pub identify: Box<IdentifyController>,
}

impl ControllerInfo {
    /// CTRATT bit 6: any traffic counts as keep-alive.
    #[must_use]
    pub fn traffic_based_keep_alive(&self) -> bool {
        self.identify.ctratt.get() & 1 << 6 != 0
    }
}

/// Counts since the first connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Connections restored.
    pub reconnects: u64,
    /// Keep Alive commands sent.
    pub keep_alives: u64,
    /// Events dropped because they were not fetched.
    pub events_lost: u64,
    /// Commands answered on I/O queues.
    pub io_completed: u64,
}

/// State that the handles of a controller share with its supervising task.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) state: Cell<LinkState>,
    pub(crate) admin: Queue,
    pub(crate) io: RefCell<Vec<Queue>>,
    pub(crate) info: RefCell<Option<Rc<ControllerInfo>>>,
    pub(crate) stats: RefCell<Stats>,
    /// Notified when a queue's connection breaks, and when this side closes.
    pub(crate) wake: Rc<Notify>,
    pub(crate) closing: Cell<bool>,
    pub(crate) events: RefCell<VecDeque<AsyncEvent>>,
    pub(crate) event_ready: Notify,
    pub(crate) next_queue: Cell<usize>,
}

impl Inner {
    /// The queue for the next I/O command, round robin.
    pub(crate) fn io_queue(&self) -> Result<Queue> {
        let queues = self.io.borrow();
        let turn = self.next_queue.get();
        self.next_queue.set(turn.wrapping_add(1));
        if queues.is_empty() {
            return Err(Error::Invalid("the controller has no I/O queues"));
        }
        Ok(queues[turn % queues.len()].clone())
    }

    /// All queues, the admin queue first.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let mut queues = vec![self.admin.clone()];
        queues.extend(self.io.borrow().iter().cloned());
        queues
    }

    /// Data that the controller returned at the last connect.
    pub(crate) fn info(&self) -> Rc<ControllerInfo> {
        self.info
            .borrow()
            .clone()
            .expect("known since the first connect, without which there is no handle")
    }

    /// Stores an event for [`super::Controller::next_event`].
    pub(crate) fn push_event(&self, event: AsyncEvent) {
        let mut events = self.events.borrow_mut();
        if events.len() == EVENTS_MAX {
            events.pop_front();
            self.stats.borrow_mut().events_lost += 1;
        }
        events.push_back(event);
        self.event_ready.notify();
    }

    /// Changes the state, and wakes tasks that wait for events.
    pub(crate) fn enter(&self, state: LinkState) {
        self.state.set(state);
        self.event_ready.notify();
    }
}
