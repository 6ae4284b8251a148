//! SCSI commands on a connection, from their PDU to their response.
//!
//! **Owns** the table of commands without a response. **Called by** the receiver, which brings commands and their data,
//! and by whatever ends. **Invariants**: a command is accepted by the device once, in the order of CmdSN; what executes
//! is never forgotten before its future has ended; the budget that a command holds is given back when it leaves the
//! table.
//!
//! Section: §11.3.

use super::connection::Core;
use super::counters::ConnectionState;
use super::early::{Early, Room};
use super::full_feature::Held;
use super::receive::Into;
use super::respond::Sent;
use super::session::{AbortOrder, Barrier, SessionKind};
use super::tally::kind_of;
use super::transfer::Sequence;
use super::window::Verdict;
use crate::limits::IMMEDIATE_COMMANDS_MAX;
use crate::wire::request::{Ahs, ScsiCommand, TaskAttribute};
use crate::wire::response::RejectReason;
use crate::wire::{Bhs, Itt, Lun, Sn, Ttt};
use io::time::Instant;
use io::{IoBuf, Payload};
use scsi::{Cancel, ExpectedLength, Outcome, Status, Task, Transfer};
use session::latency::CommandKind;
use session::{Hold, rate};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A command without a response.
pub(super) struct Command {
    pub(super) itt: Itt,
    pub(super) lun: Lun,
    pub(super) cmd_sn: Sn,
    pub(super) immediate: bool,
    kind: CommandKind,
    started: Instant,
    attribute: scsi::TaskAttribute,
    cdb: [u8; 16],
    cdb_rest: Vec<u8>,
    pub(super) expected: ExpectedLength,
    bidirectional: bool,
    pub(super) stage: Stage,
    pub(super) buf: Option<IoBuf>,
    /// Data that came before there was a buffer for it.
    pub(super) early: Option<Early>,
    /// Bytes that it waits for: of a buffer, or of the budget.
    pub(super) room: usize,
    pub(super) task: Option<Task>,
    refused: Option<Outcome>,
    /// Bytes that the device wants now: those of `base` to `end` of the command's data, which `buf` is for.
    pub(super) base: u32,
    pub(super) end: u32,
    /// Of its data to the initiator.
    pub(super) sent: Sent,
    /// Everything before here has come, was asked for, or is `missing`.
    pub(super) asked: u32,
    /// Sequences of Data-Out PDUs that are not complete.
    pub(super) sequences: Vec<Sequence>,
    pub(super) missing: Vec<(u32, u32)>,
    pub(super) r2t_sn: u32,
    pub(super) recoveries: u32,
    /// When the data that it waits for must be here; pieces that arrive do not move this.
    pub(super) due: Option<Instant>,
    /// ASC and ASCQ of what went wrong on the way (§11.4.7.2).
    pub(super) failure: Option<(u8, u8)>,
    /// Of the shard's buffers: one piece.
    pub(super) hold: Option<Hold>,
    pub(super) aborted: Option<Aborted>,
    pub(super) cancel: Cancel,
    /// Held by what waits for this command's end; the future that executes it shares them.
    pub(super) barriers: Rc<RefCell<Vec<Barrier>>>,
}

/// Where a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its PDU is arriving.
    Arriving,
    /// Others must come first.
    Held,
    /// Older commands of its logical unit must end first.
    Waiting,
    /// Data from the initiator is awaited.
    Transfer,
    /// It waits for the budget, or for the budget and a buffer.
    Deferred,
    /// The device has it.
    Executing,
}

/// How an aborted command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aborted {
    /// Without a response.
    Silently,
    /// With TASK ABORTED status.
    WithStatus,
}

/// Sense of errors of the transport (§11.4.7.2): ABORTED COMMAND.
pub(super) const UNEXPECTED_UNSOLICITED_DATA: (u8, u8) = (0x0c, 0x0c);
pub(super) const INCORRECT_AMOUNT_OF_DATA: (u8, u8) = (0x0c, 0x0d);
pub(super) const PROTOCOL_SERVICE_CRC_ERROR: (u8, u8) = (0x47, 0x05);

/// CHECK CONDITION in fixed format (SPC-4 4.5.3).
pub(super) fn check_condition(key: u8, (asc, ascq): (u8, u8), expected: u32) -> Outcome {
    let mut sense = vec![0; 18];
    sense[0] = 0x70;
    sense[2] = key;
    sense[7] = 10;
    sense[12] = asc;
    sense[13] = ascq;
    Outcome {
        status: Status::CheckCondition,
        sense,
        data_in: Payload::from(Vec::new()),
        residual: match expected {
            0 => scsi::Residual::None,
            n => scsi::Residual::Underflow(n),
        },
    }
}

/// TASK SET FULL (SAM-5 5.3.1): the initiator sends the command again when others have ended.
fn task_set_full(expected: u32) -> Outcome {
    Outcome {
        status: Status::TaskSetFull,
        sense: Vec::new(),
        data_in: Payload::from(Vec::new()),
        residual: match expected {
            0 => scsi::Residual::None,
            n => scsi::Residual::Underflow(n),
        },
    }
}

impl Command {
    /// Whether its CmdSN was not counted as delivered.
    pub(super) fn is_before_its_turn(&self) -> bool {
        matches!(self.stage, Stage::Arriving | Stage::Held)
    }

    /// Whether it cannot go on before something that follows on its connection has come.
    pub(super) fn awaits_what_follows(&self) -> bool {
        !self.sequences.is_empty() || self.stage == Stage::Held
    }

    fn is_out_of_the_ordinary(&self) -> bool {
        self.failure.is_some() || self.refused.is_some()
    }
}

impl Core {
    /// A command's header is here (§11.3); its immediate data follows.
    pub(super) fn command_header(
        &mut self,
        bhs: &Bhs,
        ahs: Ahs,
        data_len: u32,
        room: Room,
    ) -> Into {
        if self.state() == ConnectionState::Draining {
            // Never answered, so the initiator sends it again when it has connected again.
            return Into::Nothing;
        }
        let parsed = crate::wire::request::Request::parse(bhs);
        let c = match parsed {
            Ok(crate::wire::request::Request::Scsi(c)) => c,
            Ok(_) => return self.reject_unseen(RejectReason::PROTOCOL_ERROR, bhs),
            Err(reason) => return self.reject_unseen(reason, bhs),
        };
        let Some(member) = &self.member else {
            return self.reject_unseen(RejectReason::PROTOCOL_ERROR, bhs);
        };
        if matches!(member.session.kind, SessionKind::Discovery) {
            return self.reject_unseen(RejectReason::COMMAND_NOT_SUPPORTED, bhs);
        }
        if !c.immediate && !member.session.is_open_to(c.cmd_sn) {
            let counters = &self.target().counters;
            counters.ignored_commands.fetch_add(1, Ordering::Relaxed);
            return Into::Nothing;
        }
        if self.by_itt.contains_key(&c.itt) {
            return self.reject_unseen(RejectReason::TASK_IN_PROGRESS, bhs);
        }
        if c.immediate && self.immediates >= IMMEDIATE_COMMANDS_MAX {
            return self.reject_unseen(RejectReason::IMMEDIATE_COMMANDS, bhs);
        }
        self.acknowledged(c.exp_stat_sn);
        let mut command = self.new_command(&c, ahs, data_len);
        let failed = command.failure.is_some();
        if room == Room::None && !failed {
            command.refused = Some(task_set_full(c.expected_len));
        }
        let slot = self.commands.insert(command);
        self.by_itt.insert(c.itt, slot);
        self.immediates += usize::from(c.immediate);
        if failed && data_len > 0 {
            self.command_arrived(slot);
            return Into::Nothing;
        }
        if let Some(early) = self.early.take() {
            self.make_room(slot, early);
        }
        Into::Command { slot, at: 0 }
    }

    fn new_command(&self, c: &ScsiCommand, ahs: Ahs, data_len: u32) -> Command {
        let p = &self.parameters;
        let unsolicited = data_len > 0 || !c.last;
        let most = p.first_burst.min(c.expected_len);
        let allowed = c.write
            && (data_len == 0 || p.immediate_data && data_len <= most)
            && (c.last || !p.initial_r2t);
        let failure = (unsolicited && !allowed).then_some(UNEXPECTED_UNSOLICITED_DATA);
        let mut sequences = Vec::new();
        if !c.last && failure.is_none() {
            sequences.push(Sequence::new(Ttt::NONE, data_len, most));
        }
        let pause = self.target().config.data_timeout;
        let due = (unsolicited && failure.is_none())
            .then(|| rate::deadline(self.now(), pause, self.link.account().held()));
        Command {
            itt: c.itt,
            lun: c.lun,
            cmd_sn: c.cmd_sn,
            immediate: c.immediate,
            kind: kind_of(c.cdb[0]),
            started: self.now(),
            attribute: match c.attribute {
                TaskAttribute::Untagged | TaskAttribute::Simple => scsi::TaskAttribute::Simple,
                TaskAttribute::Ordered => scsi::TaskAttribute::Ordered,
                TaskAttribute::HeadOfQueue => scsi::TaskAttribute::HeadOfQueue,
                TaskAttribute::Aca => scsi::TaskAttribute::Aca,
            },
            cdb: c.cdb,
            cdb_rest: ahs.cdb_rest,
            expected: ExpectedLength {
                read: if c.read { c.expected_len } else { 0 },
                write: if c.write { c.expected_len } else { 0 },
            },
            bidirectional: c.read && c.write,
            stage: Stage::Arriving,
            buf: None,
            early: None,
            room: 0,
            task: None,
            refused: None,
            base: 0,
            end: 0,
            sent: Sent::default(),
            asked: data_len,
            sequences,
            missing: Vec::new(),
            r2t_sn: 0,
            recoveries: 0,
            due,
            failure,
            hold: None,
            aborted: None,
            cancel: Cancel::default(),
            barriers: Rc::default(),
        }
    }

    /// A command is here with its immediate data.
    pub(super) fn command_arrived(&mut self, slot: usize) {
        let (Some(c), Some(m)) = (self.commands.get_mut(slot), &self.member) else {
            return;
        };
        let verdict = if c.immediate {
            Verdict::Deliver { more: false }
        } else {
            m.session.arrived(c.cmd_sn)
        };
        match verdict {
            Verdict::Deliver { .. } => self.deliver(slot),
            Verdict::Hold => {
                c.stage = Stage::Held;
                let sn = c.cmd_sn.0;
                self.held.insert(sn, Held::Command(slot));
                self.await_data(slot);
            }
            Verdict::Ignore => self.forget(slot),
        }
    }

    /// Gives a command to the device, in its turn.
    pub(super) fn deliver(&mut self, slot: usize) {
        self.link.tally().command();
        let (Some(c), Some(m)) = (self.commands.get_mut(slot), &self.member) else {
            return;
        };
        let SessionKind::Normal { entry, nexus } = &m.session.kind else {
            return;
        };
        c.stage = Stage::Transfer;
        if c.bidirectional && c.failure.is_none() {
            // No command of ours is bidirectional: ILLEGAL REQUEST, invalid field in command information unit.
            c.refused = Some(check_condition(5, (0x0e, 0x03), c.expected.write));
        } else if !c.is_out_of_the_ordinary() {
            let whole: Vec<u8>;
            let cdb: &[u8] = if c.cdb_rest.is_empty() {
                &c.cdb
            } else {
                whole = [c.cdb.as_slice(), &c.cdb_rest].concat();
                &whole
            };
            match entry
                .device
                .accept(nexus, c.lun.0, cdb, c.attribute, c.expected)
            {
                Ok(task) => {
                    if let Transfer::Out(n) = task.piece() {
                        c.end = n;
                    }
                    c.task = Some(task);
                }
                Err(outcome) => c.refused = Some(outcome),
            }
        }
        if c.sequences.is_empty() {
            // What came with it is here, whole.
            c.due = None;
        }
        self.await_data(slot);
        self.proceed(slot);
    }

    /// Goes on with a delivered command as far as it goes.
    pub(super) fn proceed(&mut self, slot: usize) {
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        if c.stage != Stage::Transfer {
            return;
        }
        let (ordinary, unasked) = (!c.is_out_of_the_ordinary(), !c.sequences.is_empty());
        // Data that comes unasked comes first.
        if ordinary && !unasked && !self.has_turn(slot) {
            return;
        }
        if ordinary && self.commands.get(slot).is_some_and(|c| c.buf.is_some()) {
            self.ask(slot);
        }
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        if !c.sequences.is_empty() {
            return;
        }
        if self.link.transfer_due().is_some() {
            self.link.set_transfer_due(self.first_due());
        }
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        if let Some(asc) = c.failure {
            let outcome = check_condition(0x0b, asc, c.expected.write.max(c.expected.read));
            return self.finish(slot, outcome);
        }
        if let Some(outcome) = c.refused.take() {
            return self.finish(slot, outcome);
        }
        let len = match c.task.as_ref().map(Task::piece) {
            // An allocation length of a command that is not split may be any number; its reply is small.
            Some(Transfer::In(n)) => n.min(scsi::limits::PIECE_BYTES_MAX) as usize,
            Some(Transfer::Out(n)) if c.buf.is_none() => n as usize,
            Some(Transfer::None) => c.task.as_ref().map_or(0, Task::inner_bytes),
            Some(Transfer::Out(_)) | None => 0,
        };
        if len == 0 {
            return self.execute(slot);
        }
        let at_once = c.expected.write == 0 && self.deferred.is_empty();
        if at_once && let Some(hold) = self.link.account().try_hold(io::buf::capacity_of(len)) {
            c.hold = Some(hold);
            return self.execute(slot);
        }
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        c.stage = Stage::Deferred;
        c.room = len;
        self.deferred.push(slot);
        self.run_deferred();
    }

    /// Takes a command off the table.
    fn remove(&mut self, slot: usize) -> Option<Command> {
        let c = self.commands.try_remove(slot)?;
        self.by_itt.remove(&c.itt);
        self.disown(slot);
        if c.stage == Stage::Waiting {
            self.waiting.retain(|s| *s != slot);
        }
        if c.immediate {
            self.immediates -= 1;
        }
        Some(c)
    }

    /// Forgets a command that was not delivered: as if it had never come.
    pub(super) fn forget(&mut self, slot: usize) {
        self.remove(slot);
    }

    /// Ends a command with what the device says.
    pub(super) fn finish(&mut self, slot: usize, outcome: Outcome) {
        let Some(c) = self.remove(slot) else { return };
        if let (false, Some(m)) = (c.immediate, &self.member) {
            m.session.command_ended();
        }
        self.link.command_ended(c.kind, c.started);
        match c.aborted {
            None => self.respond(&c, outcome),
            Some(Aborted::Silently) => {}
            Some(Aborted::WithStatus) => {
                let aborted = Outcome {
                    status: Status::TaskAborted,
                    sense: Vec::new(),
                    data_in: Payload::from(Vec::new()),
                    residual: scsi::Residual::None,
                };
                self.respond(&c, aborted);
            }
        }
    }

    /// Aborts what others asked to abort.
    pub(super) fn abort_ordered(&mut self) {
        let Some(m) = self.member.clone() else { return };
        for order in m.handle.take_orders() {
            let slots: Vec<usize> = self
                .commands
                .iter()
                .filter(|(_, c)| !c.is_before_its_turn() && order.covers(c.lun, c.itt))
                .map(|(slot, _)| slot)
                .collect();
            for slot in slots {
                self.abort(slot, &order);
            }
        }
    }

    /// Aborts one command: now, or when the device has let go of it.
    pub(super) fn abort(&mut self, slot: usize, order: &AbortOrder) {
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        c.aborted = Some(if order.task_aborted {
            Aborted::WithStatus
        } else {
            Aborted::Silently
        });
        c.cancel.cancel();
        c.barriers.borrow_mut().extend(order.barrier.clone());
        if c.stage != Stage::Executing {
            self.deferred.remove(slot);
            self.finish(slot, check_condition(0x0b, (0, 0), 0));
            self.link.set_transfer_due(self.first_due());
        }
    }
}
