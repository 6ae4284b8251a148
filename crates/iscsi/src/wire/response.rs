//! Responses of targets.
//!
//! **Called by** the target, which adds StatSN, ExpCmdSN and MaxCmdSN when it sends a PDU. Initiators read the fields that
//! they need from the header. **Invariants**: fields that are not named here are zero.

use super::bhs::{Bhs, Isid, Itt, Lun, Opcode, Ttt};

/// Why a PDU was refused (§11.17.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RejectReason(pub u8);

impl RejectReason {
    /// The data digest did not match.
    pub const DATA_DIGEST_ERROR: RejectReason = RejectReason(0x02);
    /// The PDUs that a SNACK asked for are not there.
    pub const SNACK_REJECT: RejectReason = RejectReason(0x03);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: RejectReason = RejectReason(0x04);
    /// Not supported.
    pub const COMMAND_NOT_SUPPORTED: RejectReason = RejectReason(0x05);
    /// Too many immediate commands.
    pub const IMMEDIATE_COMMANDS: RejectReason = RejectReason(0x06);
    /// The tag is in use by another task.
    pub const TASK_IN_PROGRESS: RejectReason = RejectReason(0x07);
    /// A field is wrong.
    pub const INVALID_PDU_FIELD: RejectReason = RejectReason(0x09);
    /// Resources ran out.
    pub const LONG_OPERATION: RejectReason = RejectReason(0x0a);
    /// A negotiation was ended.
    pub const NEGOTIATION_RESET: RejectReason = RejectReason(0x0b);
    /// Waiting for a Logout.
    pub const WAITING_FOR_LOGOUT: RejectReason = RejectReason(0x0c);
}

/// Difference between the expected and the transferred length (§11.4.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Residual {
    /// The lengths are equal.
    #[default]
    None,
    /// Bytes that the command needed beyond the expected length.
    Overflow(u32),
    /// Expected bytes that were not transferred.
    Underflow(u32),
}

impl Residual {
    /// The residual of a command that needed `needed` bytes of `expected`.
    #[must_use]
    pub fn of(needed: u64, expected: u32) -> Residual {
        let expected = u64::from(expected);
        let clamp = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        match needed.cmp(&expected) {
            std::cmp::Ordering::Equal => Residual::None,
            std::cmp::Ordering::Greater => Residual::Overflow(clamp(needed - expected)),
            std::cmp::Ordering::Less => Residual::Underflow(clamp(expected - needed)),
        }
    }

    fn put(self, b: &mut Bhs) {
        match self {
            Residual::None => {}
            Residual::Overflow(n) => {
                b.0[1] |= 4;
                b.set_u32(44, n);
            }
            Residual::Underflow(n) => {
                b.0[1] |= 2;
                b.set_u32(44, n);
            }
        }
    }

    /// The residual of a SCSI Response or of a Data-In with status.
    #[must_use]
    pub fn parse(b: &Bhs) -> Residual {
        match b.flags() >> 1 & 3 {
            2 => Residual::Overflow(b.u32_at(44)),
            1 => Residual::Underflow(b.u32_at(44)),
            _ => Residual::None,
        }
    }
}

/// SCSI Response (§11.4) of a command that was completed at the target.
#[derive(Debug, Clone, Copy)]
pub struct ScsiResponse {
    /// SAM status.
    pub status: u8,
    /// The task.
    pub itt: Itt,
    /// Data-In PDUs that were sent for it.
    pub exp_data_sn: u32,
    /// Residual count.
    pub residual: Residual,
}

impl ScsiResponse {
    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::ScsiResponse);
        b.0[1] = Bhs::FINAL;
        self.residual.put(&mut b);
        b.0[3] = self.status;
        b.set_itt(self.itt);
        b.set_u32(36, self.exp_data_sn);
        b
    }
}

/// SCSI Data-In (§11.7).
#[derive(Debug, Clone, Copy)]
pub struct DataIn {
    /// The last PDU of its sequence.
    pub last: bool,
    /// Status and residual, where the PDU ends the command (S bit).
    pub status: Option<(u8, Residual)>,
    /// The task.
    pub itt: Itt,
    /// Its number.
    pub data_sn: u32,
    /// Offset in the task's data, bytes.
    pub offset: u32,
    /// Bytes of data.
    pub len: u32,
}

impl DataIn {
    /// Bit of byte 1: the PDU carries the status.
    pub const STATUS: u8 = 1;

    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::DataIn);
        b.0[1] = u8::from(self.last) << 7;
        if let Some((status, residual)) = self.status {
            b.0[1] |= DataIn::STATUS;
            b.0[3] = status;
            residual.put(&mut b);
        }
        b.set_data_len(self.len);
        b.set_itt(self.itt);
        b.set_u32(20, Ttt::NONE.0);
        b.set_u32(36, self.data_sn);
        b.set_u32(40, self.offset);
        b
    }
}

/// Ready To Transfer (§11.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct R2t {
    /// Logical unit.
    pub lun: Lun,
    /// The task.
    pub itt: Itt,
    /// Tag that the data will carry.
    pub ttt: Ttt,
    /// Its number within the task.
    pub r2t_sn: u32,
    /// Offset of the wanted data in the task's data, bytes.
    pub offset: u32,
    /// Bytes wanted.
    pub len: u32,
}

impl R2t {
    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::R2t);
        b.0[1] = Bhs::FINAL;
        b.set_lun(self.lun);
        b.set_itt(self.itt);
        b.set_u32(20, self.ttt.0);
        b.set_u32(36, self.r2t_sn);
        b.set_u32(40, self.offset);
        b.set_u32(44, self.len);
        b
    }

    /// The R2T that a header is, whose opcode was checked.
    #[must_use]
    pub fn parse(b: &Bhs) -> R2t {
        R2t {
            lun: b.lun(),
            itt: b.itt(),
            ttt: b.ttt(),
            r2t_sn: b.u32_at(36),
            offset: b.u32_at(40),
            len: b.u32_at(44),
        }
    }
}

/// Result of a task management function (§11.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskResult {
    /// Done.
    Complete = 0,
    /// The task does not exist.
    NoTask = 1,
    /// The logical unit does not exist.
    NoLun = 2,
    /// Tasks keep their connection.
    AllegianceReassignment = 4,
    /// Not supported.
    NotSupported = 5,
    /// Refused.
    Rejected = 255,
}

/// Task Management Function Response (§11.6).
#[must_use]
pub fn task_response(itt: Itt, result: TaskResult) -> Bhs {
    let mut b = Bhs::new(Opcode::TaskResponse);
    b.0[1] = Bhs::FINAL;
    b.0[2] = result as u8;
    b.set_itt(itt);
    b
}

/// Login Response (§11.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginResponse {
    /// Leave the stage.
    pub transit: bool,
    /// Current stage.
    pub csg: u8,
    /// Next stage.
    pub nsg: u8,
    /// ISID.
    pub isid: Isid,
    /// TSIH, in the last response of a login.
    pub tsih: u16,
    /// The request's tag.
    pub itt: Itt,
    /// Status class and detail.
    pub status: LoginStatus,
}

impl LoginResponse {
    /// As a header.
    #[must_use]
    pub fn build(&self) -> Bhs {
        let mut b = Bhs::new(Opcode::LoginResponse);
        b.0[1] = u8::from(self.transit) << 7 | self.csg << 2;
        if self.transit {
            b.0[1] |= self.nsg;
        }
        b.0[8..14].copy_from_slice(&self.isid.0);
        b.set_u16(14, self.tsih);
        b.set_itt(self.itt);
        b.set_u16(36, self.status.0);
        b
    }

    /// The response that a header is, whose opcode was checked.
    #[must_use]
    pub fn parse(b: &Bhs) -> LoginResponse {
        let mut isid = [0; 6];
        isid.copy_from_slice(&b.0[8..14]);
        LoginResponse {
            transit: b.is_final(),
            csg: b.flags() >> 2 & 3,
            nsg: b.flags() & 3,
            isid: Isid(isid),
            tsih: b.u16_at(14),
            itt: b.itt(),
            status: LoginStatus(b.u16_at(36)),
        }
    }
}

/// Status class and detail of a login (§11.13.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginStatus(pub u16);

impl LoginStatus {
    /// Go on.
    pub const SUCCESS: LoginStatus = LoginStatus(0x0000);
    /// The target has moved for a while; TargetAddress is its address.
    pub const MOVED_TEMPORARILY: LoginStatus = LoginStatus(0x0101);
    /// The target has moved for good.
    pub const MOVED_PERMANENTLY: LoginStatus = LoginStatus(0x0102);
    /// The initiator broke the protocol.
    pub const INITIATOR_ERROR: LoginStatus = LoginStatus(0x0200);
    /// Wrong or missing secret.
    pub const AUTHENTICATION_FAILURE: LoginStatus = LoginStatus(0x0201);
    /// This initiator may not use this target.
    pub const AUTHORIZATION_FAILURE: LoginStatus = LoginStatus(0x0202);
    /// No such target here.
    pub const NOT_FOUND: LoginStatus = LoginStatus(0x0203);
    /// The target was here.
    pub const TARGET_REMOVED: LoginStatus = LoginStatus(0x0204);
    /// No common version.
    pub const UNSUPPORTED_VERSION: LoginStatus = LoginStatus(0x0205);
    /// Too many connections of this session.
    pub const TOO_MANY_CONNECTIONS: LoginStatus = LoginStatus(0x0206);
    /// A name is missing.
    pub const MISSING_PARAMETER: LoginStatus = LoginStatus(0x0207);
    /// The session cannot be joined by this connection.
    pub const CANNOT_INCLUDE: LoginStatus = LoginStatus(0x0208);
    /// Unknown session type.
    pub const SESSION_TYPE_NOT_SUPPORTED: LoginStatus = LoginStatus(0x0209);
    /// No session of this TSIH.
    pub const SESSION_DOES_NOT_EXIST: LoginStatus = LoginStatus(0x020a);
    /// Not a login request.
    pub const INVALID_DURING_LOGIN: LoginStatus = LoginStatus(0x020b);
    /// The target failed.
    pub const TARGET_ERROR: LoginStatus = LoginStatus(0x0300);
    /// The target takes no logins now.
    pub const SERVICE_UNAVAILABLE: LoginStatus = LoginStatus(0x0301);
    /// Resources ran out.
    pub const OUT_OF_RESOURCES: LoginStatus = LoginStatus(0x0302);

    /// Why a login was refused, for the log.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::MOVED_TEMPORARILY | Self::MOVED_PERMANENTLY => "refused: the target has moved",
            Self::AUTHENTICATION_FAILURE => "refused: wrong or missing secret",
            Self::AUTHORIZATION_FAILURE => "refused: not on the target's list",
            Self::NOT_FOUND | Self::TARGET_REMOVED => "refused: no such target",
            Self::TOO_MANY_CONNECTIONS | Self::OUT_OF_RESOURCES => "refused: too many of them",
            Self::TARGET_ERROR | Self::SERVICE_UNAVAILABLE => "refused: the target cannot",
            _ => "refused: not as the protocol has it",
        }
    }
}

/// Text Response (§11.11). `ttt` is none in the last one.
#[must_use]
pub fn text_response(itt: Itt, last: bool, more: bool, ttt: Ttt) -> Bhs {
    let mut b = Bhs::new(Opcode::TextResponse);
    b.0[1] = u8::from(last) << 7 | u8::from(more) << 6;
    b.set_itt(itt);
    b.set_u32(20, ttt.0);
    b
}

/// Logout Response (§11.15): 0 closed, 1 no such connection, 2 recovery is not supported, 3 cleanup failed.
#[must_use]
pub fn logout_response(itt: Itt, response: u8, time2wait_s: u16, time2retain_s: u16) -> Bhs {
    let mut b = Bhs::new(Opcode::LogoutResponse);
    b.0[1] = Bhs::FINAL;
    b.0[2] = response;
    b.set_itt(itt);
    b.set_u16(40, time2wait_s);
    b.set_u16(42, time2retain_s);
    b
}

/// Event of an asynchronous message (§11.9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncEvent {
    /// Log this connection out within this number of seconds.
    LogoutRequest(u16),
    /// This connection will be dropped.
    ConnectionDropped(u16),
    /// All connections of the session will be dropped.
    SessionDropped,
}

/// Asynchronous Message (§11.9) about the transport.
#[must_use]
pub fn async_message(event: AsyncEvent) -> Bhs {
    let mut b = Bhs::new(Opcode::AsyncMessage);
    b.0[1] = Bhs::FINAL;
    b.set_itt(Itt::NONE);
    match event {
        AsyncEvent::LogoutRequest(seconds) => {
            b.0[36] = 1;
            b.set_u16(42, seconds);
        }
        AsyncEvent::ConnectionDropped(cid) => {
            b.0[36] = 2;
            b.set_u16(38, cid);
        }
        AsyncEvent::SessionDropped => b.0[36] = 3,
    }
    b
}

/// Reject (§11.17); its data is the header that was refused.
#[must_use]
pub fn reject(reason: RejectReason) -> Bhs {
    let mut b = Bhs::new(Opcode::Reject);
    b.0[1] = Bhs::FINAL;
    b.0[2] = reason.0;
    b.set_itt(Itt::NONE);
    b
}

/// NOP-In (§11.19).
#[must_use]
pub fn nop_in(itt: Itt, ttt: Ttt, lun: Lun) -> Bhs {
    let mut b = Bhs::new(Opcode::NopIn);
    b.0[1] = Bhs::FINAL;
    b.set_lun(lun);
    b.set_itt(itt);
    b.set_u32(20, ttt.0);
    b
}
