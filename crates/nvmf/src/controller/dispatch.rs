//! Dispatch: from a command that has arrived to its handler.
//!
//! **Called by** the receiver, and by turns for deferred commands. **Invariants**: a command that cannot be executed is refused
//! before its data is transferred where that can be known; a command is executed once, when its data is here.

use super::command::{Command, QueueType};
use super::exchange::{Capsule, Found, Input, Resumed};
use super::features;
use super::phase::{Active, Core, Ready};
use super::request::{AdminRequest, FabricsRequest, Request};
use super::status::Completion;
use crate::wire::command::Sqe;
use crate::wire::fabrics::CONNECT_DATA_LEN;
use crate::wire::pdu::PduError;
use crate::wire::status::Status;
use io::IoBuf;
use std::sync::atomic::Ordering;

impl Core {
    /// Takes a command capsule that is here, whole (TCP 3.6.2.6). Data that is not intact fails the command and not the
    /// connection (TCP 3.3.1.1).
    #[inline]
    pub(super) fn capsule(&mut self, sqe: &Sqe, capsule: Capsule<'_>, is_intact: bool) {
        if self.is_draining() {
            // Never answered, so the host sends it again when it has connected again.
            return;
        }
        let queue = match self.queue() {
            None => QueueType::None,
            Some(q) if q.is_admin() => QueueType::Admin,
            Some(_) => QueueType::Io,
        };
        let Some((exchange, common)) = self.exchange_mut() else {
            return;
        };
        common.link.tally().command();
        let command = Command::parse(sqe, queue, common.now());
        exchange.advance();
        if exchange.table().has_cid(command.cid()) && !self.take_over(&command) {
            let conflict = Completion::failed(Status::COMMAND_ID_CONFLICT.dnr());
            return self.complete(command, conflict);
        }
        if self.is_full() {
            command.abandon();
            return self.terminate(
                PduError::limit("more commands outstanding than the queue has entries"),
                &[],
            );
        }
        if !is_intact {
            let counters = &self.common.target().counters;
            counters.data_digest_errors.fetch_add(1, Ordering::Relaxed);
            let damaged = Completion::failed(Status::TRANSIENT_TRANSPORT_ERROR);
            return self.complete(command, damaged);
        }
        match self.active() {
            Some(Active::Ready(mut ready)) => ready.dispatch(command, capsule),
            Some(Active::Connecting(..)) => self.dispatch_connecting(command, capsule),
            None => command.abandon(),
        }
    }

    fn take_over(&mut self, command: &Command) -> bool {
        self.ready()
            .is_some_and(|mut ready| ready.take_over_event_request(command))
    }

    /// Ends a command in a phase that has commands.
    pub(super) fn complete(&mut self, command: Command, done: Completion) {
        match self.active() {
            Some(Active::Ready(mut ready)) => ready.complete(command, done),
            Some(Active::Connecting(common, exchange)) => {
                common.count_failure(&done);
                exchange.reply(common, command, done);
            }
            None => command.abandon(),
        }
    }

    /// Finds the data of a command before Connect, and executes it.
    fn dispatch_connecting(&mut self, command: Command, capsule: Capsule<'_>) {
        let need = match command.request() {
            Request::Fabrics(FabricsRequest::Connect(_)) => CONNECT_DATA_LEN,
            Request::Fabrics(_) => 0,
            // Base 6: before Connect only fabrics commands may come.
            Request::Admin(_) | Request::Io(_) | Request::BeforeConnect => {
                let early = Completion::failed(Status::COMMAND_SEQUENCE_ERROR.dnr());
                return self.complete(command, early);
            }
        };
        let Some((exchange, _)) = self.exchange_mut() else {
            return command.abandon();
        };
        match exchange.find_data(command, need, capsule) {
            Found::Here(command, input) => self.execute_connecting(command, input.bytes()),
            Found::Refused(command, status) => self.complete(command, Completion::failed(status)),
            Found::Deferred => self.run_deferred(),
        }
    }

    /// Executes a command before Connect whose data is here. Only Connect is in order (Base 6.3).
    fn execute_connecting(&mut self, command: Command, data: &[u8]) {
        self.common.tally.fabrics += 1;
        match command.request() {
            Request::Fabrics(FabricsRequest::Connect(asked)) => self.connect(command, asked, data),
            _ => {
                let early = Completion::failed(Status::COMMAND_SEQUENCE_ERROR.dnr());
                self.complete(command, early);
            }
        }
    }

    /// Starts commands that were deferred for buffers, as far as buffers go.
    #[inline]
    pub(super) fn run_deferred(&mut self) {
        match self.active() {
            Some(Active::Ready(mut ready)) => ready.run_deferred(),
            Some(Active::Connecting(common, exchange)) => {
                while let Some(resumed) = exchange.next_deferred(common) {
                    // Only Connect can be deferred here. It reads nothing, and no command has come that could abort it.
                    let (Resumed::Aborted(command, _) | Resumed::Reads(command)) = resumed;
                    command.abandon();
                }
            }
            None => {}
        }
    }

    /// The data of a command has arrived, or the command ends with a status instead.
    pub(super) fn data_received(&mut self, command: Command, data: Result<IoBuf, Status>) {
        match (self.active(), data) {
            (Some(Active::Ready(mut ready)), data) => ready.data_received(command, data),
            (Some(Active::Connecting(..)), Ok(data)) => self.execute_connecting(command, &data),
            (_, Err(status)) => self.complete(command, Completion::failed(status)),
            (None, Ok(_)) => command.abandon(),
        }
    }
}

impl Ready<'_> {
    /// Finds a new command's data and executes it, now or when the data is here.
    #[inline]
    fn dispatch(&mut self, command: Command, capsule: Capsule<'_>) {
        let Some(command) = self.pair_up(command) else {
            return;
        };
        let need = match self.data_len(&command) {
            Ok(need) => need,
            Err(status) => return self.refuse_command(command, status),
        };
        match self.exchange.find_data(command, need, capsule) {
            Found::Here(command, input) => self.execute(command, input),
            Found::Refused(command, status) => self.refuse_command(command, status),
            Found::Deferred => self.run_deferred(),
        }
    }

    /// Bytes that the command transfers from the host. Errors: the status of a command that must not transfer data.
    #[inline]
    fn data_len(&self, command: &Command) -> Result<usize, Status> {
        match command.request() {
            Request::Io(request) => self.io_data_len(command, request),
            Request::Fabrics(FabricsRequest::Connect(_)) => Ok(CONNECT_DATA_LEN),
            Request::Admin(AdminRequest::SetFeatures(set)) => Ok(features::data_len(set.feature)),
            Request::Fabrics(_) | Request::Admin(_) | Request::BeforeConnect => Ok(0),
        }
    }

    /// Executes a command whose data is here.
    #[inline]
    fn execute(&mut self, command: Command, input: Input<'_>) {
        match command.request() {
            Request::Io(request) => self.io_command(command, request, input),
            Request::Fabrics(request) => {
                self.common.tally.fabrics += 1;
                self.fabrics_command(command, request);
            }
            Request::Admin(request) => {
                self.common.tally.admin += 1;
                let is_ready = self.queue.controller().state().is_ready();
                // Base 3.5.3: commands need an enabled controller.
                if is_ready {
                    self.admin_command(command, request, input.bytes());
                } else {
                    self.fail(command, Status::COMMAND_SEQUENCE_ERROR.dnr());
                }
            }
            Request::BeforeConnect => self.fail(command, Status::COMMAND_SEQUENCE_ERROR.dnr()),
        }
    }

    /// The data of a command has arrived, or the command ends with a status instead.
    fn data_received(&mut self, command: Command, data: Result<IoBuf, Status>) {
        match data {
            Ok(data) => self.execute(command, Input::Buffer(data)),
            Err(status) => self.refuse_command(command, status),
        }
    }

    /// Starts commands that were deferred for buffers, as far as buffers go.
    fn run_deferred(&mut self) {
        while let Some(resumed) = self.exchange.next_deferred(self.common) {
            match resumed {
                Resumed::Reads(command) => self.start_reading(command),
                Resumed::Aborted(command, status) => self.refuse_command(command, status),
            }
        }
    }
}
