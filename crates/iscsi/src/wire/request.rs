//! Requests of initiators.
//!
//! **Called by** the target (parsing) and by initiators (building). **Invariants**: `parse(build(x)) == x`; reserved
//! bits are ignored, as §11.1 asks. A request whose fields contradict each other is refused with the reason that the
//! Reject PDU then names.

use super::bhs::{Bhs, Isid, Itt, Lun, Opcode, Ttt};
use super::response::RejectReason;
use super::sn::Sn;

pub use super::task::{Ahs, ScsiCommand, TaskAttribute, TaskFunction, TaskManagement};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// NOP-Out.
    NopOut(NopOut),
    /// SCSI Command.
    Scsi(ScsiCommand),
    /// Task Management Function Request.
    TaskManagement(TaskManagement),
    /// Login Request.
    Login(LoginRequest),
    /// Text Request.
    Text(TextRequest),
    /// SCSI Data-Out.
    DataOut(DataOut),
    /// Logout Request.
    Logout(LogoutRequest),
    /// SNACK Request.
    Snack(Snack),
}

impl Request {
    /// The request that a header is. Errors: the reason to reject it for.
    pub fn parse(bhs: &Bhs) -> Result<Request, RejectReason> {
        Ok(match bhs.opcode() {
            Some(Opcode::NopOut) => Request::NopOut(NopOut::parse(bhs)?),
            Some(Opcode::ScsiCommand) => Request::Scsi(ScsiCommand::parse(bhs)?),
            Some(Opcode::TaskManagement) => Request::TaskManagement(TaskManagement::parse(bhs)),
            Some(Opcode::LoginRequest) => Request::Login(LoginRequest::parse(bhs)),
            Some(Opcode::TextRequest) => Request::Text(TextRequest::parse(bhs)?),
            Some(Opcode::DataOut) => Request::DataOut(DataOut::parse(bhs)),
            Some(Opcode::LogoutRequest) => Request::Logout(LogoutRequest::parse(bhs)),
            Some(Opcode::Snack) => Request::Snack(Snack::parse(bhs)),
            _ => return Err(RejectReason::COMMAND_NOT_SUPPORTED),
        })
    }
}

/// Login Request (§11.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest {
    /// Ready to leave the stage.
    pub transit: bool,
    /// More text follows in the next PDU.
    pub more: bool,
    /// Current stage.
    pub csg: u8,
    /// Next stage.
    pub nsg: u8,
    /// Lowest version spoken.
    pub version_min: u8,
    /// ISID.
    pub isid: Isid,
    /// TSIH; zero for a new session.
    pub tsih: u16,
    /// Its tag.
    pub itt: Itt,
    /// Connection ID.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl LoginRequest {
    /// The request that a header is, whose opcode was checked.
    #[must_use]
    pub fn parse(b: &Bhs) -> LoginRequest {
        let mut isid = [0; 6];
        isid.copy_from_slice(&b.0[8..14]);
        LoginRequest {
            transit: b.is_final(),
            more: b.flags() & 0x40 != 0,
            csg: b.flags() >> 2 & 3,
            nsg: b.flags() & 3,
            version_min: b.0[3],
            isid: Isid(isid),
            tsih: b.u16_at(14),
            itt: b.itt(),
            cid: b.u16_at(20),
            cmd_sn: b.sn(),
            exp_stat_sn: b.exp_sn(),
        }
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::LoginRequest);
        b.0[0] |= Bhs::IMMEDIATE;
        b.0[1] = u8::from(self.transit) << 7 | u8::from(self.more) << 6 | self.csg << 2 | self.nsg;
        b.0[3] = self.version_min;
        b.0[8..14].copy_from_slice(&self.isid.0);
        b.set_u16(14, self.tsih);
        b.set_itt(self.itt);
        b.set_u16(20, self.cid);
        b.set_request_sns(self.cmd_sn, self.exp_stat_sn);
        b
    }
}

/// Text Request (§11.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRequest {
    /// I bit.
    pub immediate: bool,
    /// The initiator has nothing more to say.
    pub last: bool,
    /// More text follows in the next PDU.
    pub more: bool,
    /// Logical unit, with a target transfer tag.
    pub lun: Lun,
    /// Its tag.
    pub itt: Itt,
    /// The exchange it continues.
    pub ttt: Ttt,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl TextRequest {
    fn parse(b: &Bhs) -> Result<TextRequest, RejectReason> {
        let t = TextRequest {
            immediate: b.is_immediate(),
            last: b.is_final(),
            more: b.flags() & 0x40 != 0,
            lun: b.lun(),
            itt: b.itt(),
            ttt: b.ttt(),
            cmd_sn: b.sn(),
            exp_stat_sn: b.exp_sn(),
        };
        // §11.10.2: with C, F must be 0.
        if t.itt == Itt::NONE || t.last && t.more {
            return Err(RejectReason::INVALID_PDU_FIELD);
        }
        Ok(t)
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::TextRequest);
        b.0[0] |= u8::from(self.immediate) << 6;
        b.0[1] = u8::from(self.last) << 7 | u8::from(self.more) << 6;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.ttt.0);
        b.set_request_sns(self.cmd_sn, self.exp_stat_sn);
        b
    }
}

/// SCSI Data-Out (§11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataOut {
    /// The last PDU of its sequence.
    pub last: bool,
    /// Logical unit, with a target transfer tag.
    pub lun: Lun,
    /// The task it belongs to.
    pub itt: Itt,
    /// The R2T it answers; none if it is unsolicited.
    pub ttt: Ttt,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// Its number within the sequence.
    pub data_sn: u32,
    /// Offset in the task's data, bytes.
    pub offset: u32,
}

impl DataOut {
    fn parse(b: &Bhs) -> DataOut {
        DataOut {
            last: b.is_final(),
            lun: b.lun(),
            itt: b.itt(),
            ttt: b.ttt(),
            exp_stat_sn: b.exp_sn(),
            data_sn: b.u32_at(36),
            offset: b.u32_at(40),
        }
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::DataOut);
        b.0[1] = u8::from(self.last) << 7;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.ttt.0);
        b.set_request_sns(Sn(0), self.exp_stat_sn);
        b.set_u32(36, self.data_sn);
        b.set_u32(40, self.offset);
        b
    }
}

/// Logout Request (§11.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogoutRequest {
    /// I bit.
    pub immediate: bool,
    /// 0: close the session; 1: close the connection; 2: remove the connection for recovery.
    pub reason: u8,
    /// Its tag.
    pub itt: Itt,
    /// CID of the connection to close.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl LogoutRequest {
    fn parse(b: &Bhs) -> LogoutRequest {
        LogoutRequest {
            immediate: b.is_immediate(),
            reason: b.flags() & 0x7f,
            itt: b.itt(),
            cid: b.u16_at(20),
            cmd_sn: b.sn(),
            exp_stat_sn: b.exp_sn(),
        }
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::LogoutRequest);
        b.0[0] |= u8::from(self.immediate) << 6;
        b.0[1] = Bhs::FINAL | self.reason;
        b.set_itt(self.itt);
        b.set_u16(20, self.cid);
        b.set_request_sns(self.cmd_sn, self.exp_stat_sn);
        b
    }
}

/// Kind of a SNACK (§11.16.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnackKind {
    /// Data-In or R2T PDUs of a task.
    Data,
    /// Responses of the connection.
    Status,
    /// Acknowledges data.
    DataAck,
    /// Data of a task, cut anew.
    ResegmentedData,
}

/// SNACK Request (§11.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snack {
    /// Its kind, see [`SnackKind`].
    pub kind: u8,
    /// Logical unit.
    pub lun: Lun,
    /// Tag of the task.
    pub itt: Itt,
    /// For a data acknowledgment.
    pub ttt: Ttt,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// The first missing number.
    pub begin: u32,
    /// Count of missing numbers; zero means all that follow.
    pub run: u32,
}

impl Snack {
    fn parse(b: &Bhs) -> Snack {
        Snack {
            kind: b.flags() & 0xf,
            lun: b.lun(),
            itt: b.itt(),
            ttt: b.ttt(),
            exp_stat_sn: b.exp_sn(),
            begin: b.u32_at(40),
            run: b.u32_at(44),
        }
    }

    /// Its kind, if it is a known one.
    #[must_use]
    pub fn kind(&self) -> Option<SnackKind> {
        Some(match self.kind {
            0 => SnackKind::Data,
            1 => SnackKind::Status,
            2 => SnackKind::DataAck,
            3 => SnackKind::ResegmentedData,
            _ => return None,
        })
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::Snack);
        b.0[1] = Bhs::FINAL | self.kind;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.ttt.0);
        b.set_request_sns(Sn(0), self.exp_stat_sn);
        b.set_u32(40, self.begin);
        b.set_u32(44, self.run);
        b
    }
}

/// NOP-Out (§11.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NopOut {
    /// I bit.
    pub immediate: bool,
    /// Logical unit, echoed with a target transfer tag.
    pub lun: Lun,
    /// Its tag; none if no answer is wanted.
    pub itt: Itt,
    /// The NOP-In it answers.
    pub ttt: Ttt,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl NopOut {
    fn parse(b: &Bhs) -> Result<NopOut, RejectReason> {
        let n = NopOut {
            immediate: b.is_immediate(),
            lun: b.lun(),
            itt: b.itt(),
            ttt: b.ttt(),
            cmd_sn: b.sn(),
            exp_stat_sn: b.exp_sn(),
        };
        // §11.18.1: a ping without a tag must be immediate.
        if n.itt == Itt::NONE && !n.immediate {
            return Err(RejectReason::INVALID_PDU_FIELD);
        }
        Ok(n)
    }

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::NopOut);
        b.0[0] |= u8::from(self.immediate) << 6;
        b.0[1] = Bhs::FINAL;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.ttt.0);
        b.set_request_sns(self.cmd_sn, self.exp_stat_sn);
        b
    }
}
