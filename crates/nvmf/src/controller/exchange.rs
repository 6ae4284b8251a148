//! Exchange: commands, data and replies between ICReq and the end of a connection.
//!
//! **Owns** the parked commands, their order for buffers, and the data that hosts were asked for. **Called by** the phases that take
//! commands ([`super::phase`]). **Invariants**: data is asked for only when its buffer is there and fits the connection's budget,
//! and all data of a command at once (over TCP with one R2T, so that any MAXR2T is honoured).

use super::command::{Command, Ended};
use super::common::Common;
use super::framing::AnyFraming;
use super::limits::ADMIN_UNSENT_MAX;
use super::request::{IoRequest, Request};
use super::status::Completion;
use super::table::{Awaiting, CommandTable, Transfer};
use super::tcp::Framing as TcpFraming;
use crate::wire::command::Sgl;
use crate::wire::completion::Cqe;
use crate::wire::status::Status;
use io::stage::Stage;
use io::{IoBuf, Payload};
use session::deferred::Deferred;
use session::{Hold, rate};
use std::sync::atomic::Ordering;
use zerocopy::little_endian::U16;

/// Replies that may lie unsent beyond twice the queue's entries.
const UNSENT_REPLIES: usize = 32;
/// Entries of a queue that are assumed for unsent replies before Connect.
const DEPTH_BEFORE_CONNECT: usize = 32;

/// Commands, data and replies of one connection.
pub(super) struct Exchange {
    framing: AnyFraming,
    table: CommandTable,
    /// Commands that wait for the budget or for a buffer, first come, first served.
    deferred: Deferred,
    /// Bytes that the host was asked for and that are not here whole.
    awaited: usize,
    submission: Submission,
    /// Replies that may lie unsent before the connection takes no further command.
    replies_max: usize,
    /// Bytes of payload that may lie unsent before the connection takes no further command.
    unsent_max: usize,
}

/// The submission queue as its controller sees it.
struct Submission {
    /// Entries. One before Connect.
    size: u16,
    /// Commands taken, modulo the size.
    head: u16,
    /// The host wants to see SQHD move.
    flow_control: bool,
}

/// SQHD when the host does not use it (Base 6.3.1).
const SQHD_UNUSED: u16 = 0xffff;

impl Submission {
    /// A command was taken.
    #[inline]
    fn advance(&mut self) {
        self.head = (self.head + 1) % self.size;
    }

    /// SQHD of the next reply.
    #[inline]
    fn sqhd(&self) -> u16 {
        if self.flow_control {
            self.head
        } else {
            SQHD_UNUSED
        }
    }

    /// Whether the host wants to see SQHD move. Otherwise data alone can say that a command succeeded.
    #[inline]
    fn has_flow_control(&self) -> bool {
        self.flow_control
    }
}

/// The data that a command brought.
pub(super) enum Input<'a> {
    /// None.
    None,
    /// In the capsule.
    Capsule(Capsule<'a>),
    /// In a buffer of its own.
    Buffer(IoBuf),
}

/// In-capsule data.
pub(super) struct Capsule<'a> {
    pub(super) bytes: &'a [u8],
    /// A buffer that the data fits in, for commands whose data goes to a backend.
    pub(super) spare: Option<IoBuf>,
}

impl Input<'_> {
    /// The bytes, where they lie.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Input::None => &[],
            Input::Capsule(capsule) => capsule.bytes,
            Input::Buffer(buf) => buf,
        }
    }

    /// The data as a buffer that a backend takes: in-capsule data is copied here, once.
    pub(super) fn into_buffer(self) -> Option<IoBuf> {
        match self {
            Input::None => None,
            Input::Buffer(buf) => Some(buf),
            Input::Capsule(Capsule { bytes, spare }) => {
                let mut buf = spare?;
                buf.set_len(bytes.len());
                buf.copy_from_slice(bytes);
                Some(buf)
            }
        }
    }
}

/// Where a new command's data is.
pub(super) enum Found<'a> {
    /// Here: the command can be executed.
    Here(Command, Input<'a>),
    /// Nowhere: the command ends with this status.
    Refused(Command, Status),
    /// With the host: the command is deferred until it has a buffer.
    Deferred,
}

/// A deferred command that the queue has to act on.
pub(super) enum Resumed {
    /// It reads, and has its bytes.
    Reads(Command),
    /// It ends with this status.
    Aborted(Command, Status),
}

impl Exchange {
    /// The exchange of a connection that waits for its Connect.
    pub(super) fn new(framing: AnyFraming) -> Exchange {
        Exchange {
            framing,
            table: CommandTable::default(),
            deferred: Deferred::default(),
            awaited: 0,
            submission: Submission {
                size: 1,
                head: 0,
                flow_control: false,
            },
            replies_max: 2 * DEPTH_BEFORE_CONNECT + UNSENT_REPLIES,
            unsent_max: ADMIN_UNSENT_MAX,
        }
    }

    /// The connection has become a queue of `size` entries. Its Connect was its first command.
    pub(super) fn become_queue(&mut self, size: u16, flow_control: bool) {
        self.submission = Submission {
            size,
            head: 1,
            flow_control,
        };
        self.replies_max = 2 * usize::from(size) + UNSENT_REPLIES;
    }

    /// The queue is an I/O queue, with at most `in_capsule` bytes of in-capsule data and `unsent_max` bytes unsent.
    pub(super) fn become_io_queue(&mut self, in_capsule: u32, unsent_max: usize) {
        self.unsent_max = unsent_max;
        self.framing
            .become_io_queue(self.submission.size, in_capsule);
    }

    /// The form that the transport gives to replies and data.
    #[inline]
    pub(super) fn framing(&self) -> &AnyFraming {
        &self.framing
    }

    /// The form that the transport gives to replies and data.
    #[inline]
    pub(super) fn framing_mut(&mut self) -> &mut AnyFraming {
        &mut self.framing
    }

    /// The form of PDUs, over TCP.
    #[inline]
    pub(super) fn tcp(&self) -> Option<&TcpFraming> {
        match &self.framing {
            AnyFraming::Tcp(tcp) => Some(tcp),
            AnyFraming::Rdma(_) => None,
        }
    }

    /// The parked commands.
    #[inline]
    pub(super) fn table(&self) -> &CommandTable {
        &self.table
    }

    /// The parked commands.
    #[inline]
    pub(super) fn table_mut(&mut self) -> &mut CommandTable {
        &mut self.table
    }

    /// Whether too much lies unsent to take another command.
    pub(super) fn is_congested(&self, common: &Common) -> bool {
        let output = common.link.output();
        output.replies() > self.replies_max || output.payload() > self.unsent_max
    }

    /// A command was taken.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.submission.advance();
    }

    /// Whether the queue has no entry for another command; `elsewhere` commands wait outside of the table.
    #[inline]
    pub(super) fn is_full(&self, elsewhere: usize) -> bool {
        self.table.len() + elsewhere >= usize::from(self.submission.size)
    }

    /// Finds the data of a new command that needs `need` bytes from the host. `capsule` is its in-capsule data.
    #[inline]
    pub(super) fn find_data<'a>(
        &mut self,
        command: Command,
        need: usize,
        capsule: Capsule<'a>,
    ) -> Found<'a> {
        if need == 0 {
            return Found::Here(command, Input::None);
        }
        let status = match command.sgl() {
            Sgl::InCapsule { offset, length } => match in_capsule(capsule.bytes, offset, length) {
                Ok(data) if length_suits(&command, data.len(), need) => {
                    let bytes = &data[..need];
                    let spare = capsule.spare;
                    return Found::Here(command, Input::Capsule(Capsule { bytes, spare }));
                }
                Ok(_) => Status::DATA_SGL_LENGTH_INVALID.dnr(),
                Err(status) => status,
            },
            sgl => match self.framing.host_memory(sgl) {
                Ok(length) if length_suits(&command, length as usize, need) => {
                    self.defer(command, need);
                    return Found::Deferred;
                }
                Ok(_) => Status::DATA_SGL_LENGTH_INVALID.dnr(),
                Err(status) => status,
            },
        };
        Found::Refused(command, status)
    }

    /// Defers a command that needs `len` bytes of buffers, behind all commands that are deferred already.
    pub(super) fn defer(&mut self, mut command: Command, len: usize) {
        // Within the turn of its arrival.
        command.enter(Stage::Memory, command.trail().began());
        let slot = self.table.park(command, Awaiting::Deferred { len });
        self.deferred.push(slot);
    }

    /// Takes a deferred command out of the table and the order for buffers.
    pub(super) fn take_deferred(&mut self, slot: usize) -> Option<Command> {
        self.deferred.remove(slot);
        Some(self.table.unpark(slot)?.command)
    }

    /// Gives `command` `len` bytes of buffers to hold. False if it has to be deferred: there are none, or other commands
    /// were deferred before.
    #[inline]
    pub(super) fn try_hold(&self, common: &Common, command: &mut Command, len: usize) -> bool {
        if !self.deferred.is_empty() {
            return false;
        }
        let hold = common.link.account().try_hold(io::buf::capacity_of(len));
        let is_held = hold.is_some();
        command.set_hold(hold);
        is_held
    }

    /// Asks for the data of deferred commands, as far as buffers go. Returns the first deferred command that does not wait for
    /// data; then there may be more. `None`: no command is deferred, or the first one waits.
    pub(super) fn next_deferred(&mut self, common: &mut Common) -> Option<Resumed> {
        while let Some(slot) = self.deferred.first() {
            let parked = self.table.get(slot);
            let Some((len, aborted, reads)) = parked.and_then(|p| match p.awaiting {
                Awaiting::Deferred { len } => Some((len, p.aborted, reads(p.command.request()))),
                _ => None,
            }) else {
                self.deferred.remove(slot);
                continue;
            };
            if let Some(status) = aborted {
                let command = self.take_deferred(slot)?;
                return Some(Resumed::Aborted(command, status));
            }
            if !self.deferred.awaits_buffer() {
                let hold = common.link.hold(io::buf::capacity_of(len))?;
                if reads {
                    self.deferred.pop();
                    let mut command = self.table.unpark(slot)?.command;
                    command.set_hold(Some(hold));
                    command.enter(Stage::Compute, common.now());
                    return Some(Resumed::Reads(command));
                }
                self.deferred.await_buffer(hold, common.link.pool(), len);
            }
            let (hold, buf) = self.deferred.poll_buffer(common.link.waker())?;
            self.deferred.pop();
            self.grant(common, slot, buf, hold, len);
        }
        common.link.forget_request();
        None
    }

    /// Whether a deferred command can go on in this turn.
    pub(super) fn can_resume(&self, common: &Common) -> bool {
        let front = self.deferred.first().and_then(|slot| self.table.get(slot));
        let account = common.link.account();
        let fits = |len: usize| account.fits(io::buf::capacity_of(len));
        !self.deferred.awaits_buffer()
            && !account.is_waiting()
            && front.is_some_and(|p| matches!(p.awaiting, Awaiting::Deferred { len } if fits(len)))
    }

    /// Asks for the data of a command whose buffer is here.
    fn grant(&mut self, common: &mut Common, slot: usize, buf: IoBuf, mut hold: Hold, len: usize) {
        let now = common.now();
        self.awaited += len;
        let pause = common.target().config.data_timeout;
        let due = rate::deadline(now, pause, self.awaited);
        hold.to_peer(now);
        let Some(parked) = self.table.get_mut(slot) else {
            return;
        };
        parked.command.set_hold(Some(hold));
        parked.command.enter(Stage::Receive, now);
        let mut transfer = Transfer::new(buf, len, due);
        common.link.await_transfer(due);
        let output = common.link.output_mut();
        let asker = (slot, &parked.command);
        self.framing.ask_for_data(output, asker, &mut transfer);
        parked.awaiting = Awaiting::Transfer(transfer);
    }

    /// All data that the command in this slot was asked for is here. Returns the command and its data, or the status that it ends with.
    pub(super) fn transferred(
        &mut self,
        common: &mut Common,
        slot: usize,
    ) -> Option<(Command, Result<IoBuf, Status>)> {
        let parked = self.table.unpark(slot)?;
        common.link.set_transfer_due(self.table.first_due());
        let mut command = parked.command;
        command.hold_to_backend();
        command.enter(Stage::Compute, common.now());
        let Awaiting::Transfer(t) = parked.awaiting else {
            // Only a slot with a transfer is named.
            command.abandon();
            return None;
        };
        self.awaited -= t.len();
        let data = match (t.into_data(), parked.aborted) {
            (None, _) => {
                let counters = &common.target().counters;
                counters.data_digest_errors.fetch_add(1, Ordering::Relaxed);
                Err(Status::TRANSIENT_TRANSPORT_ERROR)
            }
            (Some(_), Some(status)) => Err(status),
            (Some(buf), None) => Ok(buf),
        };
        Some((command, data))
    }

    /// Ends a command: its reply goes out with the next send.
    #[inline]
    pub(super) fn reply(&mut self, common: &mut Common, command: Command, done: Completion) {
        let sgl = command.sgl();
        let Ended {
            cid,
            kind,
            trail,
            hold,
        } = command.end();
        drop(hold);
        common.link.command_ended(kind, trail);
        let mut cqe = Cqe::with_result(cid, done.status, done.result);
        cqe.sqhd = U16::new(self.submission.sqhd());
        let output = common.link.output_mut();
        self.framing.put_reply(output, &cqe, sgl);
        output.count_reply();
    }

    /// Ends a command with data for the host and a zero result.
    ///
    /// Without SQ flow control the host needs nothing of the reply, and over TCP the data says that the command succeeded
    /// (TCP 3.3.2.2, SUCCESS).
    #[inline]
    pub(super) fn reply_with_data(
        &mut self,
        common: &mut Common,
        mut command: Command,
        payload: Payload,
    ) {
        common.link.hold_until_sent(command.take_hold());
        let success = self.framing.has_success_flag() && !self.submission.has_flow_control();
        self.framing
            .put_data(&mut common.link, &command, success, payload);
        if success {
            let ended = command.end();
            common.link.command_ended(ended.kind, ended.trail);
            common.link.output_mut().count_reply();
        } else {
            self.reply(common, command, Completion::SUCCESS);
        }
    }
}

/// Whether a deferred command reads: then it needs bytes of the budget, and no data from the host.
fn reads(request: Request) -> bool {
    matches!(
        request,
        Request::Io(IoRequest::Read(_) | IoRequest::Verify(_))
    )
}

/// Whether an SGL of `length` bytes suits a command that needs `need` bytes.
fn length_suits(command: &Command, length: usize, need: usize) -> bool {
    length == need || length > need && !command.has_user_data()
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
