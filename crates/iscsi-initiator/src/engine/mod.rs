//! A session without I/O: requests in, bytes out; received headers and data in, ended tasks out.
//!
//! **Owns** the serial numbers of the session and its connection (§4.2.2), the tasks, and the batch to be sent next.
//! **Called by** the queue, its receiver and its sender. **Invariants**: commands are sent within the target's window, in the
//! order of submission; each serial number of the target is the successor of the last one, because at error recovery level 0
//! a gap means loss; a task sends no more data than the target requested or immediate data allows, and nothing beyond its
//! end.

mod arrivals;
mod echo;

pub(super) use arrivals::{Arrival, DataIn};
pub(super) use echo::Echo;

use super::error::Error;
use super::limits::{ABORTS_MAX, EVENTS_MAX};
use super::login::{FIRST_CMD_SN, LoggedIn};
use super::outgoing::{Message, Outgoing};
use super::state::Event;
use super::tasks::{self, Data, Task, Tasks};
use io::SendBatch;
use io::sync::Permit;
use iscsi::login::Parameters;
use iscsi::wire::request::{
    DataOut, LogoutRequest, NopOut, ScsiCommand, TaskAttribute, TaskManagement,
};
use iscsi::wire::{Itt, Lun, Sn, Ttt};
use std::collections::VecDeque;
use std::time::Duration;

/// ABORT TASK (§11.5.1).
const ABORT_TASK: u8 = 1;
/// Bit in the tags of requests that are not SCSI tasks.
const OTHER_TAG: u32 = 1 << 30;

/// See the module header.
pub(super) struct Engine {
    pub(super) tasks: Tasks,
    /// The PDUs to be sent next.
    pub(super) batch: Outgoing,
    /// Number of the batch to be sent next.
    pub(super) batch_number: u64,
    parameters: Parameters,
    cmd_sn: Sn,
    max_cmd_sn: Sn,
    exp_stat_sn: Sn,
    /// The largest window of the target so far, commands.
    pub(super) window: u32,
    /// Whether commands may be sent.
    open: bool,
    /// Parked tasks that wait only for the window.
    waiting: VecDeque<u16>,
    /// Outstanding abort requests, and the tasks to be aborted.
    aborts: Vec<(Itt, Itt)>,
    /// The outstanding ping.
    ping: Option<Itt>,
    /// The ping that a user waits for.
    echo: Echo,
    logout: Option<Itt>,
    next_tag: u32,
    nop_replies: u32,
    tick: u32,
    /// PDUs received on all connections.
    pub(super) heard: u64,
    /// Tasks that the target ended, on all connections.
    pub(super) completed: u64,
    /// Events that the target reported, oldest first.
    pub(super) events: VecDeque<Event>,
    /// Events dropped because they were not fetched.
    pub(super) events_lost: u64,
    /// The target asked for a logout within this time.
    pub(super) leave_within: Option<Duration>,
}

impl Engine {
    pub(super) fn new(depth: u16) -> Engine {
        Engine {
            tasks: tasks::new_tasks(depth),
            batch: Outgoing::Messages(Vec::new()),
            batch_number: 0,
            parameters: Parameters::default(),
            cmd_sn: FIRST_CMD_SN,
            max_cmd_sn: FIRST_CMD_SN,
            exp_stat_sn: Sn(0),
            window: 0,
            open: false,
            waiting: VecDeque::new(),
            aborts: Vec::new(),
            ping: None,
            echo: Echo::default(),
            logout: None,
            next_tag: 0,
            nop_replies: 0,
            tick: 0,
            heard: 0,
            completed: 0,
            events: VecDeque::new(),
            events_lost: 0,
            leave_within: None,
        }
    }

    /// Called after a login: sends parked tasks in the form of `batch`, which is empty. New tasks are sent at once from here on.
    pub(super) fn begin(&mut self, session: &LoggedIn, batch: Outgoing) {
        self.batch = batch;
        self.parameters = session.parameters;
        self.cmd_sn = FIRST_CMD_SN;
        self.max_cmd_sn = session.max_cmd_sn;
        self.window = session.max_cmd_sn.next().since(session.exp_cmd_sn);
        self.exp_stat_sn = session.exp_stat_sn;
        self.aborts.clear();
        self.ping = None;
        self.logout = None;
        self.nop_replies = 0;
        self.leave_within = None;
        self.open = true;
        self.waiting = self.tasks.parked().into();
        self.send_waiting();
    }

    /// Stops sending commands.
    pub(super) fn close(&mut self) {
        self.open = false;
        self.waiting.clear();
    }

    /// Handles a broken connection; see [`tasks::disconnect`].
    pub(super) fn disconnect(&mut self, error: &Error, keep: bool) {
        self.close();
        self.batch.clear();
        self.echo.fail(error);
        tasks::disconnect(&mut self.tasks, error, keep);
    }

    /// Adds a task, and sends it if the window is open. Returns its slot.
    pub(super) fn submit(&mut self, task: Task, permit: Permit) -> u16 {
        let index = self.tasks.insert(task.into(), permit);
        if self.open {
            self.waiting.push_back(index);
            self.send_waiting();
        }
        index
    }

    /// Swaps an empty batch for the one to be sent. Returns whether there is something to send.
    pub(super) fn swap_batch(&mut self, batch: &mut SendBatch) -> bool {
        match &mut self.batch {
            Outgoing::Stream(next, _) if !next.is_empty() => std::mem::swap(next, batch),
            Outgoing::Stream(..) | Outgoing::Messages(_) => return false,
        }
        self.batch_number += 1;
        self.nop_replies = 0;
        true
    }

    /// Takes the messages that are to be sent, over iSER.
    pub(super) fn take_messages(&mut self) -> Vec<Message> {
        self.batch_number += 1;
        self.nop_replies = 0;
        match &mut self.batch {
            Outgoing::Stream(..) => Vec::new(),
            Outgoing::Messages(messages) => std::mem::take(messages),
        }
    }

    /// Sends waiting tasks as far as the window is open.
    pub(super) fn send_waiting(&mut self) {
        while self.open && !self.max_cmd_sn.is_before(self.cmd_sn) {
            let Some(index) = self.waiting.pop_front() else {
                return;
            };
            self.transmit(index);
        }
    }

    fn transmit(&mut self, index: u16) {
        let Some(tag) = self.tasks.send(index, self.tick) else {
            return;
        };
        let itt = Itt(tag);
        let p = &self.parameters;
        let slot = self.tasks.get_mut(index);
        slot.command.cmd_sn = self.cmd_sn;
        slot.command.next_sn = 0;
        let len = slot.data_len;
        let write = slot.data.outgoing().is_some() && len > 0;
        let (mut immediate, mut unsolicited) = (0, 0);
        if write && p.immediate_data {
            immediate = len.min(p.first_burst).min(p.max_send_data);
        }
        if write && !p.initial_r2t {
            unsolicited = len.min(p.first_burst);
        }
        slot.moved = unsolicited.max(immediate);
        let end = slot.moved;
        let command = ScsiCommand {
            immediate: false,
            last: end == immediate,
            read: matches!(slot.data, Data::In(_)) && len > 0,
            write,
            attribute: TaskAttribute::Simple,
            lun: slot.command.lun,
            itt,
            expected_len: len,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: slot.command.cdb,
        };
        self.cmd_sn = self.cmd_sn.next();
        let slot = self.tasks.get(index);
        let begins = (slot, Some(index));
        self.batch.put_part(command.build(), begins, (0, immediate));
        if immediate < end {
            self.data_out(index, itt, Ttt::NONE, immediate, end);
        }
    }

    /// Puts a sequence of Data-Out PDUs (§11.7) into the batch.
    fn data_out(&mut self, index: u16, itt: Itt, ttt: Ttt, start: u32, end: u32) {
        let slot = self.tasks.get(index);
        let lun = if ttt == Ttt::NONE {
            Lun::default()
        } else {
            slot.command.lun
        };
        let (mut offset, mut data_sn) = (start, 0);
        while offset < end {
            let len = (end - offset).min(self.parameters.max_send_data);
            let pdu = DataOut {
                last: offset + len == end,
                lun,
                itt,
                ttt,
                exp_stat_sn: self.exp_stat_sn,
                data_sn,
                offset,
            };
            self.batch
                .put_part(pdu.build(), (slot, None), (offset, len));
            offset += len;
            data_sn += 1;
        }
    }

    fn tag(&mut self) -> Itt {
        self.next_tag = (self.next_tag + 1) % OTHER_TAG;
        Itt(OTHER_TAG | self.next_tag)
    }

    /// Sends a ping. Returns `false` if the last ping has no answer.
    pub(super) fn ping(&mut self) -> bool {
        if self.ping.is_some() {
            return false;
        }
        let itt = self.tag();
        self.ping = Some(itt);
        self.nop_out(itt, Ttt::NONE, Lun::default());
        true
    }

    fn nop_out(&mut self, itt: Itt, ttt: Ttt, lun: Lun) {
        let nop = NopOut {
            immediate: true,
            lun,
            itt,
            ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.batch.put(nop.build());
    }

    /// Sends a logout request that closes the session (§11.14). No command is sent after it.
    pub(super) fn log_out(&mut self) {
        self.close();
        let itt = self.tag();
        self.logout = Some(itt);
        let request = LogoutRequest {
            immediate: true,
            reason: 0,
            itt,
            cid: 0,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.batch.put(request.build());
    }

    /// Called once per tick, a fraction of the command timeout. Aborts tasks that have had no answer for `ticks` ticks.
    /// Returns `false` if an abort has had no answer for as long.
    pub(super) fn tick(&mut self, ticks: u32) -> bool {
        self.tick = self.tick.wrapping_add(1);
        while self.aborts.len() < ABORTS_MAX
            && let Some(index) = self.tasks.expire(self.tick, ticks)
        {
            let (itt, referenced) = (self.tag(), Itt(self.tasks.tag(index)));
            self.aborts.push((itt, referenced));
            let slot = self.tasks.get(index);
            let request = TaskManagement {
                immediate: true,
                function: ABORT_TASK,
                lun: slot.command.lun,
                itt,
                referenced,
                cmd_sn: self.cmd_sn,
                exp_stat_sn: self.exp_stat_sn,
                ref_cmd_sn: slot.command.cmd_sn,
            };
            self.batch.put(request.build());
        }
        !self.tasks.has_abort_expired(self.tick, ticks)
    }

    /// Stores an event for the user.
    pub(super) fn tell(&mut self, event: Event) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.events_lost += 1;
        }
        self.events.push_back(event);
    }
}
