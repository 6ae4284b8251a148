//! SCSI commands without a response, and their table.
//!
//! **Owns** the commands of one connection by slot and by tag. **Called by** the files of the full feature phase.
//! **Invariants**: a command leaves the table as a value, which a response or [`Command::abandon`] consumes. In debug builds a
//! command that is dropped in another way panics: its initiator would wait for ever. A table that is dropped abandons its
//! commands: the connection is lost.

use super::write_data::{TransportError, WriteData};
use crate::portal::session::Barrier;
use crate::wire::Itt;
use crate::wire::iser::IserHeader;
use crate::wire::request::{ScsiCommand, TaskAttribute};
use io::Payload;
use io::stage::{Stage, Trail};
use io::time::Instant;
use scsi::{Cancel, ExpectedLength, Outcome, Status, Task, Transfer};
use session::latency::CommandKind;
use slab::Slab;
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

/// A command without a response.
pub(super) struct Command {
    /// The request, checked once.
    pub(super) request: ScsiCommand,
    /// Memory of the initiator for its data, over RDMA.
    pub(super) memory: IserHeader,
    /// The part of the CDB after its first 16 bytes.
    pub(super) cdb_rest: Vec<u8>,
    trail: Trail,
    pub(super) progress: Progress,
    course: Course,
    /// Data from the initiator.
    pub(super) data: WriteData,
    /// Data that the initiator has of it.
    pub(super) sent: Sent,
    pub(super) aborted: Option<Aborted>,
    pub(super) cancel: Cancel,
    /// Held by a task management function that waits for this command; shared with the future that executes it.
    pub(super) barriers: Rc<RefCell<Vec<Barrier>>>,
    unanswered: Unanswered,
}

/// Panics in debug builds when it is dropped. Release builds compile it to nothing.
struct Unanswered;

impl Unanswered {
    fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking(),
            "a command was dropped without a response"
        );
    }
}

/// How far a command is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its PDU is arriving.
    Arriving,
    /// Commands with earlier CmdSNs are missing.
    Held,
    /// Older commands of its logical unit must end first.
    Waiting,
    /// Data from the initiator is awaited.
    Transfer,
    /// It waits for ledger bytes, or for ledger bytes and a buffer, of `room` bytes.
    Deferred { room: usize },
    /// The device has it.
    Executing,
}

/// The way on which a command comes to its end.
enum Course {
    /// The device executes it. The task is not here before the device has accepted it, and while a step runs.
    Device(Option<Task>),
    /// The device does not execute it: this is its outcome.
    Refused(Outcome),
    /// Its transport failed. The device's task keeps its place until the response.
    Failed(TransportError, Option<Task>),
}

/// How an aborted command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aborted {
    /// Without a response.
    Silently,
    /// With TASK ABORTED status.
    WithStatus,
}

/// Read data of a command that was sent.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent {
    /// DataSN of the next Data-In.
    pub(super) data_sn: u32,
    /// Bytes.
    pub(super) bytes: u32,
}

/// CHECK CONDITION in fixed format (SPC-4 4.5.3).
pub(super) fn check_condition(key: u8, (asc, ascq): (u8, u8), expected: u32) -> Outcome {
    let mut sense = vec![0; 18];
    sense[0] = 0x70;
    sense[2] = key;
    sense[7] = 10;
    sense[12] = asc;
    sense[13] = ascq;
    Outcome {
        sense,
        ..without_data(Status::CheckCondition, expected)
    }
}

/// An outcome without sense and data; of `expected` bytes none was moved.
pub(super) fn without_data(status: Status, expected: u32) -> Outcome {
    Outcome {
        status,
        sense: Vec::new(),
        data_in: Payload::from(Vec::new()),
        residual: match expected {
            0 => scsi::Residual::None,
            n => scsi::Residual::Underflow(n),
        },
    }
}

/// Kind of a CDB, by its operation code (SPC-4 annex E.3).
fn kind_of(operation_code: u8) -> CommandKind {
    match operation_code {
        0x08 | 0x28 | 0x88 | 0xa8 => CommandKind::Read,
        0x0a | 0x2a | 0x8a | 0xaa => CommandKind::Write,
        0x35 | 0x91 => CommandKind::Flush,
        _ => CommandKind::Other,
    }
}

impl Command {
    /// A command whose PDU is arriving, with `immediate` bytes of data.
    pub(super) fn new(
        request: ScsiCommand,
        cdb_rest: Vec<u8>,
        immediate: u32,
        started: Instant,
    ) -> Command {
        Command {
            request,
            memory: IserHeader::default(),
            cdb_rest,
            trail: Trail::begin(started),
            progress: Progress::Arriving,
            course: Course::Device(None),
            data: WriteData::new(immediate),
            sent: Sent::default(),
            aborted: None,
            cancel: Cancel::default(),
            barriers: Rc::default(),
            unanswered: Unanswered,
        }
    }

    /// Bytes that the initiator expects to be moved.
    pub(super) fn expected(&self) -> ExpectedLength {
        let r = &self.request;
        ExpectedLength {
            read: if r.read { r.expected_len } else { 0 },
            write: if r.write { r.expected_len } else { 0 },
        }
    }

    /// Task attribute for the device.
    pub(super) fn attribute(&self) -> scsi::TaskAttribute {
        match self.request.attribute {
            TaskAttribute::Untagged | TaskAttribute::Simple => scsi::TaskAttribute::Simple,
            TaskAttribute::Ordered => scsi::TaskAttribute::Ordered,
            TaskAttribute::HeadOfQueue => scsi::TaskAttribute::HeadOfQueue,
            TaskAttribute::Aca => scsi::TaskAttribute::Aca,
        }
    }

    /// From `now` on it is at this point of its way.
    pub(super) fn go(&mut self, progress: Progress, now: Instant) {
        self.progress = progress;
        let stage = match progress {
            Progress::Arriving | Progress::Transfer => Stage::Receive,
            Progress::Held | Progress::Waiting => Stage::Queue,
            Progress::Deferred { .. } => Stage::Memory,
            Progress::Executing => Stage::Compute,
        };
        self.trail.enter(stage, now);
    }

    /// Its time by stage so far.
    pub(super) fn trail(&self) -> Trail {
        self.trail
    }

    /// Sets its time by stage so far.
    pub(super) fn set_trail(&mut self, trail: Trail) {
        self.trail = trail;
    }

    /// Kind, for the latency counters.
    pub(super) fn kind(&self) -> CommandKind {
        kind_of(self.request.cdb[0])
    }

    /// Whether its CmdSN was not counted as delivered.
    pub(super) fn is_before_its_turn(&self) -> bool {
        matches!(self.progress, Progress::Arriving | Progress::Held)
    }

    /// Whether it needs PDUs that follow on its connection.
    pub(super) fn awaits_what_follows(&self) -> bool {
        !self.data.is_settled() || self.progress == Progress::Held
    }

    /// Whether the device is to execute it.
    pub(super) fn is_ordinary(&self) -> bool {
        matches!(self.course, Course::Device(_))
    }

    /// Whether its transport failed.
    pub(super) fn is_failed(&self) -> bool {
        matches!(self.course, Course::Failed(..))
    }

    /// Its transport failed; the first failure stays.
    pub(super) fn fail(&mut self, error: TransportError) {
        if !self.is_failed() {
            self.course = Course::Failed(error, self.take_task());
        }
    }

    /// The device does not execute it, unless its transport failed before.
    pub(super) fn refuse(&mut self, outcome: Outcome) {
        if !self.is_failed() {
            self.course = Course::Refused(outcome);
        }
    }

    /// The outcome of a command that the device does not execute.
    pub(super) fn outcome_without_device(&mut self) -> Option<Outcome> {
        match mem::replace(&mut self.course, Course::Device(None)) {
            Course::Device(task) => {
                self.course = Course::Device(task);
                None
            }
            Course::Refused(outcome) => Some(outcome),
            Course::Failed(error, _) => {
                let expected = self.expected();
                let expected = expected.write.max(expected.read);
                Some(check_condition(0x0b, error, expected))
            }
        }
    }

    /// The device's task, if it is here.
    pub(super) fn task(&self) -> Option<&Task> {
        match &self.course {
            Course::Device(task) => task.as_ref(),
            Course::Refused(_) | Course::Failed(..) => None,
        }
    }

    /// Takes the device's task out, for a step.
    pub(super) fn take_task(&mut self) -> Option<Task> {
        match &mut self.course {
            Course::Device(task) => task.take(),
            Course::Refused(_) | Course::Failed(..) => None,
        }
    }

    /// The device has accepted the command, or a step of its task has ended.
    pub(super) fn set_task(&mut self, task: Task) {
        if let Transfer::Out(n) = task.piece() {
            self.data.begin_piece(n);
        }
        if let Course::Device(place) | Course::Failed(_, place) = &mut self.course {
            *place = Some(task);
        }
    }

    /// Ends the command with a response. Returns what the response needs: tag, memory and data sent.
    pub(super) fn answer(self) -> (Itt, IserHeader, Sent) {
        self.unanswered.answered();
        (self.request.itt, self.memory, self.sent)
    }

    /// Ends the command without a response: it was aborted, its PDU was damaged or came too late, or its connection is lost.
    pub(super) fn abandon(self) {
        self.unanswered.answered();
    }
}

/// The commands of a connection without a response.
#[derive(Default)]
pub(super) struct CommandTable {
    slots: Slab<Command>,
    by_itt: HashMap<Itt, usize>,
    immediates: usize,
}

impl CommandTable {
    /// Adds a command. Returns its slot.
    pub(super) fn insert(&mut self, command: Command) -> usize {
        let request = command.request;
        let slot = self.slots.insert(command);
        self.by_itt.insert(request.itt, slot);
        self.immediates += usize::from(request.immediate);
        slot
    }

    /// Takes a command off the table.
    #[must_use]
    pub(super) fn remove(&mut self, slot: usize) -> Option<Command> {
        let command = self.slots.try_remove(slot)?;
        self.by_itt.remove(&command.request.itt);
        self.immediates -= usize::from(command.request.immediate);
        Some(command)
    }

    /// The slot of the command with this tag.
    pub(super) fn find(&self, itt: Itt) -> Option<usize> {
        self.by_itt.get(&itt).copied()
    }

    /// The command in a slot.
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<&Command> {
        self.slots.get(slot)
    }

    /// The command in a slot, to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Command> {
        self.slots.get_mut(slot)
    }

    /// All commands with their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Command)> {
        self.slots.iter()
    }

    /// Count of commands.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Count of immediate commands.
    pub(super) fn immediates(&self) -> usize {
        self.immediates
    }

    /// When the first data that is awaited must be here.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|(_, c)| c.data.due()).min()
    }
}

impl Drop for CommandTable {
    fn drop(&mut self) {
        for command in self.slots.drain() {
            command.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Lun, Sn};
    use io::sim::{Sim, SimConfig};
    use std::panic::AssertUnwindSafe;

    fn command(itt: u32) -> Command {
        let request = ScsiCommand {
            immediate: true,
            last: true,
            read: false,
            write: false,
            attribute: TaskAttribute::Simple,
            lun: Lun::default(),
            itt: Itt(itt),
            expected_len: 0,
            cmd_sn: Sn(0),
            exp_stat_sn: Sn(0),
            cdb: [0; 16],
        };
        Command::new(request, Vec::new(), 0, io::time::now())
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_command_that_is_dropped_without_a_response_panics() {
        Sim::new(1, SimConfig::default()).block_on(async {
            let command = command(1);
            let dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(command)));
            let message = dropped.expect_err("it panics");
            assert_eq!(
                message.downcast_ref::<&str>(),
                Some(&"a command was dropped without a response")
            );
        });
    }

    #[test]
    fn commands_end_by_an_answer_by_being_abandoned_or_with_their_table() {
        Sim::new(1, SimConfig::default()).block_on(async {
            assert_eq!(command(1).answer().0, Itt(1));
            command(2).abandon();
            let mut table = CommandTable::default();
            let slot = table.insert(command(3));
            table.insert(command(4));
            assert_eq!((table.find(Itt(3)), table.immediates()), (Some(slot), 2));
            table.remove(slot).expect("in the table").abandon();
            assert_eq!((table.find(Itt(3)), table.len()), (None, 1));
        });
    }
}
