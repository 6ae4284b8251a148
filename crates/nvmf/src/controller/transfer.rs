//! Commands without a reply yet, and the data that hosts send for them.
//!
//! **Owns** the table of parked commands: those that wait for a buffer, for data, or for the backend. **Called by**
//! the receiver and by the commands. **Invariants**: an R2T goes out only when its buffer is there and fits the
//! connection's budget; one R2T per command asks for all of its data, so that any MAXR2T is honoured; TTAG is the slot,
//! so that finding the command takes no search; data must come in order (TCP 3.3.2).

use super::connection::{Core, Current};
use super::counters::ConnectionState;
use super::io_commands::Input;
use super::status::Completion;
use crate::wire::command::{Sgl, Sqe};
use crate::wire::opcode::{self, io as nvm};
use crate::wire::pdu::{DataPdu, PduError, R2t};
use crate::wire::status::Status;
use backend::Reply;
use io::time::Instant;
use io::{IoBuf, Payload, spawn};
use session::digest::crc32c;
use session::latency::CommandKind;
use session::{Hold, rate};
use std::future::Future;

/// A command without a reply.
pub(super) struct Command {
    pub(super) sqe: Sqe,
    current: Current,
    pub(super) stage: Stage,
    /// It ends with this as soon as nothing of it is on its way any more.
    pub(super) aborted: Option<Status>,
}

/// What a parked command waits for.
pub(super) enum Stage {
    /// The budget (a Read), or the budget and a buffer (data from the host).
    Deferred { len: usize },
    /// Data from the host.
    Transfer(Transfer),
    /// The other half of a fused pair.
    Fused,
    /// The backend.
    Executing,
}

/// Data on its way from the host.
pub(super) struct Transfer {
    /// `None` while the socket has it.
    buf: Option<IoBuf>,
    received: usize,
    len: usize,
    /// When all of it must be here; pieces that arrive do not move this.
    due: Instant,
    /// A data digest did not match.
    damaged: bool,
    /// Where the PDU being received began, for its digest.
    pdu_start: usize,
}

/// A payload's bytes, which the caller knows to be stable.
pub(super) fn bytes_of(payload: &Payload) -> &[u8] {
    payload.as_slice().unwrap_or_default()
}

/// The kind that a command's latency is counted under.
fn kind_of(sqe: &Sqe, io: bool) -> CommandKind {
    match sqe.opcode {
        nvm::READ if io => CommandKind::Read,
        nvm::WRITE if io => CommandKind::Write,
        nvm::FLUSH if io => CommandKind::Flush,
        _ => CommandKind::Other,
    }
}

impl Core {
    /// Starts work on a command that just arrived.
    pub(super) fn begin(&mut self, sqe: &Sqe) {
        let io = self.queue.as_ref().is_some_and(|q| q.qid > 0);
        self.current = Current {
            kind: kind_of(sqe, io),
            started: self.now(),
            hold: None,
        };
    }

    /// Ends the command being worked on with an error.
    pub(super) fn fail(&mut self, sqe: &Sqe, status: Status) {
        self.complete(Completion::failed(sqe.cid(), status));
    }

    /// Commands that a reply is owed for.
    pub(super) fn outstanding(&self) -> usize {
        self.commands.len() + self.async_events.len()
    }

    /// Puts the command being worked on aside.
    pub(super) fn park(&mut self, sqe: &Sqe, stage: Stage) -> usize {
        self.cids.insert(sqe.cid());
        let current = self.current.aside();
        self.commands.insert(Command {
            sqe: *sqe,
            current,
            stage,
            aborted: None,
        })
    }

    /// Goes on with a command that was put aside.
    pub(super) fn unpark(&mut self, slot: usize) -> Option<Command> {
        let mut command = self.commands.try_remove(slot)?;
        self.cids.remove(command.sqe.cid());
        self.current = command.current.aside();
        Some(command)
    }

    /// Goes on with `done` when the backend has answered: now, or from a task of its own.
    pub(super) fn wait_for<T: Unpin + 'static>(
        &mut self,
        sqe: &Sqe,
        reply: Reply<T>,
        done: impl FnOnce(&mut Core, backend::Result<T>) + 'static,
    ) {
        match reply {
            Reply::Ready(Some(result)) => done(self, result),
            Reply::Ready(None) => done(self, Err(backend::StorageError::Aborted)),
            Reply::Later(future) => self.wait_on(sqe, future, done),
        }
    }

    /// Goes on with `done` when `future` has ended.
    pub(super) fn wait_on<T: 'static>(
        &mut self,
        sqe: &Sqe,
        future: impl Future<Output = T> + 'static,
        done: impl FnOnce(&mut Core, T) + 'static,
    ) {
        // The backend keeps its buffer when the connection ends first, so the task keeps the hold.
        let mut hold = self.current.hold.take();
        if let Some(hold) = &mut hold {
            hold.to_backend();
        }
        let slot = self.park(sqe, Stage::Executing);
        let me = self.me.clone();
        drop(spawn(async move {
            let result = future.await;
            let Some(conn) = me.upgrade() else { return };
            let mut core = conn.core.borrow_mut();
            if core.unpark(slot).is_some() {
                core.current.hold = hold;
                done(&mut core, result);
                core.link.waker().wake_by_ref();
            }
        }));
    }

    /// Whether in-capsule data of this command goes into a buffer of the pool.
    pub(super) fn wants_buffer(sqe: &Sqe) -> bool {
        matches!(sqe.opcode, nvm::WRITE | nvm::COMPARE)
    }

    /// Finds a new command's data and executes it, now or when the data is here.
    pub(super) fn dispatch(&mut self, sqe: &Sqe, capsule: &[u8]) {
        if !self.pair_up(sqe) {
            return;
        }
        let need = match self.data_len(sqe) {
            Ok(need) => need,
            Err(status) => return self.refuse_command(sqe, status),
        };
        if need == 0 {
            return self.execute(sqe, Input::None);
        }
        match sqe.sgl.parse() {
            Sgl::InCapsule { offset, length } => match in_capsule(capsule, offset, length) {
                Ok(data) if length_suits(sqe, data.len(), need) => {
                    self.execute(sqe, Input::Capsule(&data[..need]));
                }
                Ok(_) => self.refuse_command(sqe, Status::DATA_SGL_LENGTH_INVALID.dnr()),
                Err(status) => self.refuse_command(sqe, status),
            },
            Sgl::Transport { length } if length_suits(sqe, length as usize, need) => {
                let slot = self.park(sqe, Stage::Deferred { len: need });
                self.deferred.push(slot);
                self.run_deferred();
            }
            Sgl::Transport { .. } | Sgl::Empty => {
                self.refuse_command(sqe, Status::DATA_SGL_LENGTH_INVALID.dnr());
            }
            Sgl::Unsupported { .. } => self.refuse_command(sqe, Status::SGL_TYPE_INVALID.dnr()),
        }
    }

    /// Bytes that the command transfers from the host, after the checks that must come before a transfer.
    fn data_len(&mut self, sqe: &Sqe) -> Result<usize, Status> {
        match (&self.queue, sqe.opcode) {
            (_, opcode::FABRICS) => Ok(Core::fabrics_data_len(sqe)),
            // Base 6: before Connect nothing else may come.
            (None, _) => Err(Status::COMMAND_SEQUENCE_ERROR.dnr()),
            (Some(q), _) if q.qid == 0 => Ok(Core::admin_data_len(sqe)),
            (Some(_), _) => self.io_data_len(sqe),
        }
    }

    /// Executes a command whose data is here.
    fn execute(&mut self, sqe: &Sqe, input: Input<'_>) {
        match (&self.queue, sqe.opcode) {
            (_, opcode::FABRICS) => {
                self.own_tally.fabrics += 1;
                self.fabrics_command(sqe, &input);
            }
            (None, _) => self.fail(sqe, Status::COMMAND_SEQUENCE_ERROR.dnr()),
            (Some(q), _) if q.qid == 0 => {
                self.own_tally.admin += 1;
                // Base 3.5.3: commands need an enabled controller.
                if q.controller.state().is_ready() {
                    self.admin_command(sqe, &input);
                } else {
                    self.fail(sqe, Status::COMMAND_SEQUENCE_ERROR.dnr());
                }
            }
            (Some(_), _) => self.io_command(sqe, input),
        }
    }

    /// Starts what waited for the budget or for a buffer, as far as it goes.
    pub(super) fn run_deferred(&mut self) {
        if self.state() == ConnectionState::Terminating {
            return;
        }
        while let Some(slot) = self.deferred.first() {
            let Some(command) = self.commands.get_mut(slot) else {
                self.deferred.remove(slot);
                continue;
            };
            let Stage::Deferred { len } = command.stage else {
                self.deferred.remove(slot);
                continue;
            };
            if let Some(status) = command.aborted {
                self.deferred.remove(slot);
                self.end_aborted(slot, status);
                continue;
            }
            let sqe = command.sqe;
            if !self.deferred.awaits_buffer() {
                let bytes = io::buf::capacity_of(len);
                let Some(hold) = self.link.hold(bytes) else {
                    return;
                };
                if matches!(sqe.opcode, nvm::READ | nvm::VERIFY) {
                    self.deferred.pop();
                    self.unpark(slot);
                    self.start_reading(&sqe, hold);
                    continue;
                }
                self.deferred.await_buffer(hold, self.link.pool(), len);
            }
            let Some((hold, buf)) = self.deferred.poll_buffer(self.link.waker()) else {
                return;
            };
            self.deferred.pop();
            self.grant(slot, sqe, buf, hold, len);
        }
        self.link.forget_request();
    }

    /// Asks for the data of a command whose buffer is here.
    fn grant(&mut self, slot: usize, sqe: Sqe, buf: IoBuf, mut hold: Hold, len: usize) {
        let now = self.now();
        self.awaited += len;
        let due = rate::deadline(now, self.target().config.data_timeout, self.awaited);
        hold.to_peer(now);
        if let Some(c) = self.commands.get_mut(slot) {
            c.current.hold = Some(hold);
            c.stage = Stage::Transfer(Transfer {
                buf: Some(buf),
                received: 0,
                len,
                due,
                damaged: false,
                pdu_start: 0,
            });
        }
        self.link.await_transfer(due);
        self.ready_to_transfer(&R2t {
            cccid: sqe.cid(),
            ttag: slot as u16,
            offset: 0,
            length: len as u32,
        });
    }

    /// When the first of the transfers must have ended; none without transfers.
    pub(super) fn first_due(&self) -> Option<Instant> {
        let due = |c: &Command| match &c.stage {
            Stage::Transfer(t) => Some(t.due),
            _ => None,
        };
        self.commands.iter().filter_map(|(_, c)| due(c)).min()
    }

    fn transfer(&mut self, slot: usize) -> Option<&mut Transfer> {
        match self.commands.get_mut(slot).map(|c| &mut c.stage) {
            Some(Stage::Transfer(t)) => Some(t),
            _ => None,
        }
    }

    /// Checks the header of an H2CData (TCP 3.6.2.8) against its R2T.
    pub(super) fn data_arrives(&mut self, data: &DataPdu, len: u32) -> Result<usize, PduError> {
        let slot = usize::from(data.ttag);
        let cid = self.commands.get(slot).map(|c| c.sqe.cid());
        let Some(t) = self.transfer(slot) else {
            return Err(PduError::field(10, "TTAG of no outstanding R2T"));
        };
        if cid != Some(data.cccid) {
            return Err(PduError::field(8, "CCCID is not that of the R2T"));
        }
        let end = data.offset as usize + len as usize;
        if end > t.len {
            return Err(PduError::out_of_range("data beyond what the R2T asked for"));
        }
        if data.offset as usize != t.received {
            return Err(PduError::out_of_range("data out of order"));
        }
        if data.last != (end == t.len) {
            return Err(PduError::field(
                1,
                "LAST_PDU is not on the last PDU of the transfer",
            ));
        }
        t.pdu_start = t.received;
        Ok(slot)
    }

    /// Copies data that had to be received into the staging area.
    pub(super) fn put_data(&mut self, slot: usize, data: &[u8]) {
        if let Some(t) = self.transfer(slot)
            && let Some(buf) = &mut t.buf
        {
            buf[t.received..t.received + data.len()].copy_from_slice(data);
            t.received += data.len();
            self.link.data_received(data.len());
        }
    }

    /// Lends a command's buffer to the socket, from the first byte that is missing.
    pub(super) fn take_buffer(&mut self, slot: usize) -> Option<(IoBuf, usize)> {
        let t = self.transfer(slot)?;
        Some((t.buf.take()?, t.received))
    }

    /// The socket gives a buffer back with `n` more bytes in it.
    pub(super) fn put_buffer(&mut self, slot: usize, buf: IoBuf, n: usize) {
        if let Some(t) = self.transfer(slot) {
            t.buf = Some(buf);
            t.received += n;
            self.link.data_received(n);
        }
    }

    /// All data of an H2CData is here; its digest too, if there is one. With the last one the command goes on.
    pub(super) fn pdu_received(&mut self, slot: usize, last: bool, digest: Option<u32>) {
        let Some(t) = self.transfer(slot) else { return };
        if let (Some(digest), Some(buf)) = (digest, &t.buf)
            && crc32c(&buf[t.pdu_start..t.received]) != digest
        {
            t.damaged = true;
        }
        if !last {
            return;
        }
        let Some(command) = self.unpark(slot) else {
            return;
        };
        self.link.set_transfer_due(self.first_due());
        if let Some(hold) = &mut self.current.hold {
            hold.to_backend();
        }
        let Stage::Transfer(Transfer {
            buf: Some(buf),
            len,
            damaged,
            ..
        }) = command.stage
        else {
            return;
        };
        self.awaited -= len;
        if damaged {
            self.target()
                .counters
                .data_digest_errors
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return self.refuse_command(&command.sqe, Status::TRANSIENT_TRANSPORT_ERROR);
        }
        match command.aborted {
            Some(status) => self.refuse_command(&command.sqe, status),
            None => self.execute(&command.sqe, Input::Buffer(buf)),
        }
    }

    /// Ends a command that waits, without executing it.
    pub(super) fn end_aborted(&mut self, slot: usize, status: Status) {
        if let Some(command) = self.unpark(slot) {
            self.refuse_command(&command.sqe, status);
        }
    }

    /// Whether work that was held back can go on in this turn.
    pub(super) fn can_resume(&self) -> bool {
        if self.state() == ConnectionState::Terminating {
            return false;
        }
        let front = self
            .deferred
            .first()
            .and_then(|slot| self.commands.get(slot));
        let fits = |len: usize| self.link.account().fits(io::buf::capacity_of(len));
        !self.deferred.awaits_buffer()
            && !self.link.account().is_waiting()
            && front.is_some_and(|c| matches!(c.stage, Stage::Deferred { len } if fits(len)))
    }
}

/// Whether an SGL of `length` bytes suits a command that needs `need`. User data is exact (Base 4.1.2); a structure
/// may lie in a larger buffer: Linux always sends room for 256 ranges with Dataset Management.
fn length_suits(sqe: &Sqe, length: usize, need: usize) -> bool {
    length == need || length > need && !Core::wants_buffer(sqe)
}

/// The part of a capsule's data that a command's SGL names.
fn in_capsule(capsule: &[u8], offset: u64, length: u32) -> Result<&[u8], Status> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = capsule
        .get(start..)
        .ok_or(Status::SGL_OFFSET_INVALID.dnr())?;
    rest.get(..length as usize)
        .ok_or(Status::DATA_SGL_LENGTH_INVALID.dnr())
}
