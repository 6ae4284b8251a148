//! A SCSI command from its header to the device, and its end (§11.3).
//!
//! **Called by** the receiver, which brings commands and their data, and by steps that have ended. **Invariants**: a command is
//! accepted by the device once, in the order of CmdSN; a command that was not delivered is forgotten as if it had never arrived.

use super::FullFeature;
use super::command::{Aborted, Command, Progress, check_condition, without_data};
use super::next::Next;
use super::write_data::UNEXPECTED_UNSOLICITED_DATA;
use crate::limits::IMMEDIATE_COMMANDS_MAX;
use crate::portal::early::{EarlyLen, Room};
use crate::portal::incoming::Destination;
use crate::portal::session::AbortOrder;
use crate::portal::transport::PortalTransport;
use crate::portal::window::Verdict;
use crate::wire::Opcode;
use crate::wire::decode::Header;
use crate::wire::request::{Ahs, Request, ScsiCommand};
use crate::wire::response::RejectReason;
use scsi::{Outcome, Status, Task, Transfer};
use session::rate;
use std::sync::atomic::Ordering;

impl FullFeature {
    /// Reserves a buffer for the unsolicited data of a command whose header is here.
    pub(crate) fn reserve_early(
        &mut self,
        transport: &mut PortalTransport,
        header: &Header,
        command: &ScsiCommand,
    ) -> Room {
        let unasked = command.write && (header.data_len > 0 || !command.last);
        if !unasked || self.is_draining() {
            return Room::Ready;
        }
        let most = match command.last {
            true => header.data_len,
            false => self.member.parameters().first_burst,
        };
        let len = EarlyLen {
            unsolicited: most.min(command.expected_len) as usize,
            piece: command.expected_len.min(scsi::limits::PIECE_BYTES_MAX) as usize,
        };
        if len.unsolicited == 0 || self.early.reserve(transport, len) {
            return Room::Ready;
        }
        let others = self.commands.iter().any(|(_, c)| c.awaits_what_follows());
        let alone = self.member.session().parameters.max_connections == 1;
        if others || !alone {
            return self.early.reserve_outside(transport, len);
        }
        // A deferred command of this connection is in the ledger's queue already.
        if !self.deferred.is_empty() {
            return Room::Later;
        }
        self.early.reserve_later(transport, len)
    }

    /// Takes a header. Returns where its data segment belongs.
    pub(crate) fn route(
        &mut self,
        transport: &mut PortalTransport,
        header: &Header,
        ahs: &[u8],
        request: Result<Request, RejectReason>,
        room: Room,
    ) -> (Destination, Next) {
        let bhs = &header.bhs;
        if bhs.opcode() != Some(Opcode::ScsiCommand) {
            return match request {
                Ok(Request::DataOut(pdu)) => self.data_header(transport, bhs, pdu, header.data_len),
                request => {
                    let to = Destination::of_request(request, header.data_len);
                    (to, Next::Idle)
                }
            };
        }
        let checked = Ahs::parse(ahs).map(|ahs| (request, ahs));
        let reason = match checked {
            // Never answered, so the initiator sends the command again when it has connected again.
            Ok(_) if self.is_draining() => return (Destination::Nothing, Next::Idle),
            Ok((Ok(Request::Scsi(c)), ahs)) => {
                match self.command_header(transport, header, c, ahs, room) {
                    Ok(routed) => return routed,
                    Err(reason) => reason,
                }
            }
            Ok((Ok(_), _)) => RejectReason::PROTOCOL_ERROR,
            Ok((Err(reason), _)) | Err(reason) => reason,
        };
        self.member.reject(transport, reason, bhs);
        (Destination::Nothing, Next::Idle)
    }

    /// Gives back a reserved buffer that no command has taken.
    pub(crate) fn forget_early(&mut self) {
        drop(self.early.take());
    }

    /// A command's header is here (§11.3); its immediate data follows. Errors: the reason to reject it for.
    fn command_header(
        &mut self,
        transport: &mut PortalTransport,
        header: &Header,
        c: ScsiCommand,
        ahs: Ahs,
        room: Room,
    ) -> Result<(Destination, Next), RejectReason> {
        if !c.immediate && !self.member.session().is_open_to(c.cmd_sn) {
            let counters = &transport.shared().counters;
            counters.ignored_commands.fetch_add(1, Ordering::Relaxed);
            return Ok((Destination::Nothing, Next::Idle));
        }
        if self.commands.find(c.itt).is_some() {
            return Err(RejectReason::TASK_IN_PROGRESS);
        }
        if c.immediate && self.commands.immediates() >= IMMEDIATE_COMMANDS_MAX {
            return Err(RejectReason::IMMEDIATE_COMMANDS);
        }
        self.member.acknowledged(c.exp_stat_sn);
        if transport.is_iser() && !self.names_memory(transport, &c, header.data_len) {
            transport.complain("a command that names no memory for its data");
            self.reject_and_close(transport, RejectReason::INVALID_PDU_FIELD, &header.bhs);
            return Ok((Destination::Nothing, Next::Idle));
        }
        let mut command = self.new_command(transport, c, ahs, header.data_len);
        let failed = command.is_failed();
        if room == Room::None {
            // SAM-5 5.3.1: the initiator sends the command again when others have ended.
            command.refuse(without_data(Status::TaskSetFull, c.expected_len));
        }
        let slot = self.commands.insert(command);
        if failed && header.data_len > 0 {
            let next = self.command_arrived(transport, slot);
            return Ok((Destination::Nothing, next));
        }
        if let Some(early) = self.early.take() {
            let now = transport.now();
            if let Some(c) = self.commands.get_mut(slot) {
                c.data.take_early(early, now);
            }
        }
        Ok((Destination::Command { slot, at: 0 }, Next::Idle))
    }

    /// Whether a command with `data_len` bytes of immediate data names memory for all data that is to be moved by RDMA.
    fn names_memory(&self, transport: &PortalTransport, c: &ScsiCommand, data_len: u32) -> bool {
        let memory = transport.advertised();
        let unsolicited = match c.last {
            true => data_len,
            false => self.member.parameters().first_burst,
        };
        let reads = c.read && c.expected_len > 0;
        let writes = c.write && c.expected_len > unsolicited;
        (!reads || memory.read.is_some()) && (!writes || memory.write.is_some())
    }

    fn new_command(
        &self,
        transport: &PortalTransport,
        c: ScsiCommand,
        ahs: Ahs,
        data_len: u32,
    ) -> Command {
        let p = self.member.parameters();
        let unsolicited = data_len > 0 || !c.last;
        let most = p.first_burst.min(c.expected_len);
        let allowed = c.write
            && (data_len == 0 || p.immediate_data && data_len <= most)
            && (c.last || !p.initial_r2t);
        let mut command = Command::new(c, ahs.cdb_rest, data_len, transport.now());
        command.memory = transport.advertised();
        if unsolicited && !allowed {
            command.fail(UNEXPECTED_UNSOLICITED_DATA);
            return command;
        }
        if !c.last {
            command.data.await_unsolicited(most);
        }
        if unsolicited {
            let pause = transport.shared().config.data_timeout;
            let held = transport.link().account().held();
            command
                .data
                .set_due(rate::deadline(transport.now(), pause, held));
        }
        command
    }

    /// A command is here with its immediate data.
    pub(crate) fn command_arrived(&mut self, transport: &mut PortalTransport, slot: usize) -> Next {
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        let verdict = if c.request.immediate {
            Verdict::Deliver { more: false }
        } else {
            self.member.session().arrived(c.request.cmd_sn)
        };
        match verdict {
            Verdict::Deliver { .. } => self.deliver(transport, slot),
            Verdict::Hold => {
                c.go(Progress::Held, transport.now());
                self.member.hold_command(c.request.cmd_sn, slot);
                self.await_data(transport, slot);
                Next::Idle
            }
            Verdict::Ignore => {
                self.forget(transport, slot);
                Next::Idle
            }
        }
    }

    /// Gives a command to the device, in its turn.
    pub(super) fn deliver(&mut self, transport: &mut PortalTransport, slot: usize) -> Next {
        transport.link_mut().tally().command();
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        c.go(Progress::Transfer, transport.now());
        let bidirectional = c.request.read && c.request.write;
        if bidirectional {
            // No command is bidirectional: ILLEGAL REQUEST, invalid field in command information unit.
            c.refuse(check_condition(5, (0x0e, 0x03), c.request.expected_len));
        } else if c.is_ordinary() {
            let whole: Vec<u8>;
            let cdb: &[u8] = if c.cdb_rest.is_empty() {
                &c.request.cdb
            } else {
                whole = [c.request.cdb.as_slice(), &c.cdb_rest].concat();
                &whole
            };
            let device = &self.entry.device;
            let (lun, attribute) = (c.request.lun.0, c.attribute());
            match device.accept(&self.nexus, lun, cdb, attribute, c.expected()) {
                Ok(task) => c.set_task(task),
                Err(outcome) => c.refuse(outcome),
            }
        }
        c.data.end_wait_if_settled();
        self.await_data(transport, slot);
        self.proceed(transport, slot)
    }

    /// Moves a delivered command on until it must wait.
    pub(super) fn proceed(&mut self, transport: &mut PortalTransport, slot: usize) -> Next {
        let Some(c) = self.commands.get(slot) else {
            return Next::Idle;
        };
        if c.progress != Progress::Transfer {
            return Next::Idle;
        }
        let (ordinary, unasked) = (c.is_ordinary(), !c.data.is_settled());
        // Unsolicited data arrives first.
        if ordinary && !unasked && !self.has_turn(transport, slot) {
            return Next::Idle;
        }
        if ordinary && self.commands.get(slot).is_some_and(|c| c.data.has_buffer()) {
            self.ask(transport, slot);
        }
        let complete = self.commands.get(slot);
        if complete.is_none_or(|c| !c.data.is_settled()) {
            return Next::Idle;
        }
        if transport.link().transfer_due().is_some() {
            transport.link_mut().set_transfer_due(self.first_due());
        }
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        if let Some(outcome) = c.outcome_without_device() {
            self.finish(transport, slot, outcome);
            return Next::Idle;
        }
        self.begin(transport, slot)
    }

    /// Begins a piece of a command whose data is here, at once or when there are ledger bytes for it.
    fn begin(&mut self, transport: &mut PortalTransport, slot: usize) -> Next {
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        let len = match c.task().map(Task::piece) {
            // The allocation length of a command that is not split may be any number; its reply is small.
            Some(Transfer::In(n)) => n.min(scsi::limits::PIECE_BYTES_MAX) as usize,
            Some(Transfer::Out(n)) if !c.data.has_buffer() => n as usize,
            Some(Transfer::None) => c.task().map_or(0, Task::inner_bytes),
            Some(Transfer::Out(_)) | None => 0,
        };
        if len == 0 {
            return Next::Execute(slot);
        }
        let at_once = c.expected().write == 0 && self.deferred.is_empty();
        if at_once {
            let bytes = io::buf::capacity_of(len);
            if let Some(hold) = transport.link().account().try_hold(bytes) {
                c.data.set_hold(hold);
                return Next::Execute(slot);
            }
        }
        c.go(Progress::Deferred { room: len }, transport.now());
        self.deferred.push(slot);
        Next::RunDeferred
    }

    /// Takes a command off the table and out of the queue for a turn.
    fn remove(&mut self, transport: &mut PortalTransport, slot: usize) -> Option<Command> {
        let c = self.commands.remove(slot)?;
        transport.position_mut().disown(slot);
        if c.progress == Progress::Waiting {
            self.waiting.retain(|s| *s != slot);
        }
        Some(c)
    }

    /// Forgets a command that was not delivered, as if it had never arrived.
    pub(crate) fn forget(&mut self, transport: &mut PortalTransport, slot: usize) {
        if let Some(c) = self.remove(transport, slot) {
            c.abandon();
        }
    }

    /// Ends a command with the device's outcome.
    pub(super) fn finish(
        &mut self,
        transport: &mut PortalTransport,
        slot: usize,
        outcome: Outcome,
    ) {
        let Some(c) = self.remove(transport, slot) else {
            return;
        };
        if !c.request.immediate {
            self.member.session().command_ended();
        }
        transport.link_mut().command_ended(c.kind(), c.trail());
        match c.aborted {
            None => self.respond(transport, c, outcome),
            Some(Aborted::Silently) => c.abandon(),
            Some(Aborted::WithStatus) => {
                self.respond(transport, c, without_data(Status::TaskAborted, 0));
            }
        }
    }

    /// Aborts the commands that others asked to abort.
    pub(crate) fn abort_ordered(&mut self, transport: &mut PortalTransport) {
        for order in self.member.handle().take_orders() {
            let covered = self.commands.iter().filter(|(_, c)| {
                !c.is_before_its_turn() && order.covers(c.request.lun, c.request.itt)
            });
            let slots: Vec<usize> = covered.map(|(slot, _)| slot).collect();
            for slot in slots {
                self.abort(transport, slot, &order);
            }
        }
    }

    /// Aborts one command: now, or when its step at the device or its READ has ended.
    pub(super) fn abort(
        &mut self,
        transport: &mut PortalTransport,
        slot: usize,
        order: &AbortOrder,
    ) {
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
        // A READ uses the initiator's memory until it has ended.
        if c.progress != Progress::Executing && !c.data.is_reading() {
            self.deferred.remove(slot);
            self.finish(transport, slot, check_condition(0x0b, (0, 0), 0));
            transport.link_mut().set_transfer_due(self.first_due());
        }
    }
}
