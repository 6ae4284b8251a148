//! SCSI commands and task management functions as initiators send them (§11.2.2, §11.3, §11.5).
//!
//! **Called by** [`super::request`]. **Invariants**: `parse(build(x)) == x`; additional header segments are taken only if their
//! lengths add up.

use super::bhs::{Bhs, Itt, Lun, Opcode};
use super::response::RejectReason;
use super::sn::Sn;

/// Order of a task among the tasks of its unit (§11.3.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskAttribute {
    /// Untagged.
    Untagged,
    /// Simple.
    Simple,
    /// Ordered.
    Ordered,
    /// Head of queue.
    HeadOfQueue,
    /// ACA.
    Aca,
}

/// SCSI Command (§11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScsiCommand {
    /// I bit.
    pub immediate: bool,
    /// No unsolicited Data-Out follows.
    pub last: bool,
    /// Data comes to the initiator.
    pub read: bool,
    /// Data goes to the target.
    pub write: bool,
    /// Its order among the tasks.
    pub attribute: TaskAttribute,
    /// Logical unit.
    pub lun: Lun,
    /// Its tag.
    pub itt: Itt,
    /// Bytes that the initiator expects to be transferred.
    pub expected_len: u32,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// The CDB, or its first 16 bytes.
    pub cdb: [u8; 16],
}

impl ScsiCommand {
    pub(super) fn parse(b: &Bhs) -> Result<ScsiCommand, RejectReason> {
        let mut cdb = [0; 16];
        cdb.copy_from_slice(&b.0[32..]);
        let c = ScsiCommand {
            immediate: b.is_immediate(),
            last: b.is_final(),
            read: b.flags() & 0x40 != 0,
            write: b.flags() & 0x20 != 0,
            attribute: match b.flags() & 7 {
                0 => TaskAttribute::Untagged,
                1 => TaskAttribute::Simple,
                2 => TaskAttribute::Ordered,
                3 => TaskAttribute::HeadOfQueue,
                4 => TaskAttribute::Aca,
                _ => return Err(RejectReason::INVALID_PDU_FIELD),
            },
            lun: b.lun(),
            itt: b.itt(),
            expected_len: b.u32_at(20),
            cmd_sn: b.sn(),
            exp_stat_sn: b.exp_sn(),
            cdb,
        };
        // §11.3.1.2: F is 0 only if unsolicited data follows, which only a write has.
        if c.itt == Itt::NONE || !c.last && !c.write {
            return Err(RejectReason::INVALID_PDU_FIELD);
        }
        Ok(c)
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::ScsiCommand);
        b.0[0] |= u8::from(self.immediate) << 6;
        b.0[1] = u8::from(self.last) << 7
            | u8::from(self.read) << 6
            | u8::from(self.write) << 5
            | self.attribute as u8;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.expected_len);
        b.set_request_sns(self.cmd_sn, self.exp_stat_sn);
        b.0[32..].copy_from_slice(&self.cdb);
        b
    }
}

/// Additional header segments of a SCSI command (§11.2.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ahs {
    /// The CDB after its first 16 bytes; at most 1020 bytes.
    pub cdb_rest: Vec<u8>,
    /// Expected read data length of a bidirectional command.
    pub bidirectional_read_len: Option<u32>,
}

impl Ahs {
    /// Parses the segments. Errors: a length that does not fit, or one kind twice.
    pub fn parse(mut bytes: &[u8]) -> Result<Ahs, RejectReason> {
        let mut ahs = Ahs::default();
        while let [hi, lo, kind, rest @ ..] = bytes {
            let len = usize::from(u16::from_be_bytes([*hi, *lo]));
            // AHSLength counts what follows the type, without padding; the segment is padded to whole words.
            let padded = (3 + len).next_multiple_of(4) - 3;
            let (Some(body), Some(next)) = (rest.get(..len), rest.get(padded..)) else {
                return Err(RejectReason::INVALID_PDU_FIELD);
            };
            match (kind & 0x3f, body) {
                (1, [_, cdb @ ..]) if ahs.cdb_rest.is_empty() => ahs.cdb_rest = cdb.to_vec(),
                (2, [_, a, b, c, d]) if ahs.bidirectional_read_len.is_none() => {
                    ahs.bidirectional_read_len = Some(u32::from_be_bytes([*a, *b, *c, *d]));
                }
                _ => return Err(RejectReason::INVALID_PDU_FIELD),
            }
            bytes = next;
        }
        Ok(ahs)
    }
}

/// Task Management Function Request (§11.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskManagement {
    /// I bit.
    pub immediate: bool,
    /// The function, see [`TaskFunction`].
    pub function: u8,
    /// Logical unit.
    pub lun: Lun,
    /// Its tag.
    pub itt: Itt,
    /// Tag of the task to abort.
    pub referenced: Itt,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// CmdSN of the task to abort.
    pub ref_cmd_sn: Sn,
}

/// Task management functions (§11.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskFunction {
    /// Ends one task.
    AbortTask,
    /// Ends the session's tasks of a logical unit.
    AbortTaskSet,
    /// Clears an ACA condition.
    ClearAca,
    /// Ends all tasks of a logical unit.
    ClearTaskSet,
    /// Resets a logical unit.
    LogicalUnitReset,
    /// Resets the target.
    TargetWarmReset,
    /// Resets the target and ends all sessions.
    TargetColdReset,
    /// Moves a task to another connection (error recovery level 2).
    TaskReassign,
}

impl TaskManagement {
    pub(super) fn parse(b: &Bhs) -> TaskManagement {
        TaskManagement {
            immediate: b.is_immediate(),
            function: b.flags() & 0x7f,
            lun: b.lun(),
            itt: b.itt(),
            referenced: Itt(b.u32_at(20)),
            cmd_sn: b.sn(),
            exp_stat_sn: b.exp_sn(),
            ref_cmd_sn: Sn(b.u32_at(32)),
        }
    }

    /// The function, if it is a known one.
    #[must_use]
    pub fn function(&self) -> Option<TaskFunction> {
        Some(match self.function {
            1 => TaskFunction::AbortTask,
            2 => TaskFunction::AbortTaskSet,
            3 => TaskFunction::ClearAca,
            4 => TaskFunction::ClearTaskSet,
            5 => TaskFunction::LogicalUnitReset,
            6 => TaskFunction::TargetWarmReset,
            7 => TaskFunction::TargetColdReset,
            8 => TaskFunction::TaskReassign,
            _ => return None,
        })
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::TaskManagement);
        b.0[0] |= u8::from(self.immediate) << 6;
        b.0[1] = Bhs::FINAL | self.function;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.referenced.0);
        b.set_request_sns(self.cmd_sn, self.exp_stat_sn);
        b.set_u32(32, self.ref_cmd_sn.0);
        b
    }
}
