//! The basic header segment (§11.2.1): 48 bytes, and the fields that many PDUs have at the same place.
//!
//! **Called by** the request and response types, which give the other bytes their meaning. **Invariants**: every access
//! is at a fixed place within the 48 bytes; numbers are big-endian.

use super::Sn;
use std::fmt;

/// Bytes of a basic header segment.
pub const BHS_LEN: usize = 48;

/// Kind of a PDU (§11.2.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Opcode {
    /// NOP-Out (§11.18).
    NopOut = 0x00,
    /// SCSI Command (§11.3).
    ScsiCommand = 0x01,
    /// Task Management Function Request (§11.5).
    TaskManagement = 0x02,
    /// Login Request (§11.12).
    LoginRequest = 0x03,
    /// Text Request (§11.10).
    TextRequest = 0x04,
    /// SCSI Data-Out (§11.7).
    DataOut = 0x05,
    /// Logout Request (§11.14).
    LogoutRequest = 0x06,
    /// SNACK Request (§11.16).
    Snack = 0x10,
    /// NOP-In (§11.19).
    NopIn = 0x20,
    /// SCSI Response (§11.4).
    ScsiResponse = 0x21,
    /// Task Management Function Response (§11.6).
    TaskResponse = 0x22,
    /// Login Response (§11.13).
    LoginResponse = 0x23,
    /// Text Response (§11.11).
    TextResponse = 0x24,
    /// SCSI Data-In (§11.7).
    DataIn = 0x25,
    /// Logout Response (§11.15).
    LogoutResponse = 0x26,
    /// Ready To Transfer (§11.8).
    R2t = 0x31,
    /// Asynchronous Message (§11.9).
    AsyncMessage = 0x32,
    /// Reject (§11.17).
    Reject = 0x3f,
}

impl Opcode {
    /// All opcodes.
    pub const ALL: [Opcode; 18] = [
        Opcode::NopOut,
        Opcode::ScsiCommand,
        Opcode::TaskManagement,
        Opcode::LoginRequest,
        Opcode::TextRequest,
        Opcode::DataOut,
        Opcode::LogoutRequest,
        Opcode::Snack,
        Opcode::NopIn,
        Opcode::ScsiResponse,
        Opcode::TaskResponse,
        Opcode::LoginResponse,
        Opcode::TextResponse,
        Opcode::DataIn,
        Opcode::LogoutResponse,
        Opcode::R2t,
        Opcode::AsyncMessage,
        Opcode::Reject,
    ];

    /// The opcode of this number, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Opcode> {
        Opcode::ALL.into_iter().find(|o| *o as u8 == code)
    }
}

/// An initiator task tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Itt(pub u32);

impl Itt {
    /// The reserved value: no task.
    pub const NONE: Itt = Itt(u32::MAX);
}

/// A target transfer tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ttt(pub u32);

impl Ttt {
    /// The reserved value: no transfer.
    pub const NONE: Ttt = Ttt(u32::MAX);
}

/// A logical unit number as it crosses the wire (SAM-5 4.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Lun(pub [u8; 8]);

/// The initiator's part of a session identifier (§11.12.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Isid(pub [u8; 6]);

impl fmt::Display for Isid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A basic header segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bhs(pub [u8; BHS_LEN]);

impl Bhs {
    /// Bit of byte 0: deliver without regard to CmdSN order.
    pub const IMMEDIATE: u8 = 0x40;
    /// Bit of byte 1: the last PDU of its sequence.
    pub const FINAL: u8 = 0x80;

    /// A header of zeros, with this opcode.
    #[must_use]
    pub fn new(opcode: Opcode) -> Bhs {
        let mut b = [0; BHS_LEN];
        b[0] = opcode as u8;
        Bhs(b)
    }

    /// The opcode, if it is a known one.
    #[must_use]
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_code(self.0[0] & 0x3f)
    }

    /// The I bit.
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        self.0[0] & Bhs::IMMEDIATE != 0
    }

    /// Byte 1: opcode-specific flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.0[1]
    }

    /// The F bit.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.0[1] & Bhs::FINAL != 0
    }

    /// Bytes of additional header segments.
    #[must_use]
    pub fn ahs_len(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Bytes of the data segment, without padding.
    #[must_use]
    pub fn data_len(&self) -> u32 {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]])
    }

    /// Sets the length of the data segment; the upper byte is lost.
    pub fn set_data_len(&mut self, len: u32) {
        assert!(len < 1 << 24, "a data segment has 24 bits of length");
        self.0[5..8].copy_from_slice(&len.to_be_bytes()[1..]);
    }

    /// Bytes 8 to 15.
    #[must_use]
    pub fn lun(&self) -> Lun {
        let mut lun = [0; 8];
        lun.copy_from_slice(&self.0[8..16]);
        Lun(lun)
    }

    /// Sets bytes 8 to 15.
    pub fn set_lun(&mut self, lun: Lun) {
        self.0[8..16].copy_from_slice(&lun.0);
    }

    /// Initiator task tag.
    #[must_use]
    pub fn itt(&self) -> Itt {
        Itt(self.u32_at(16))
    }

    /// Sets the initiator task tag.
    pub fn set_itt(&mut self, itt: Itt) {
        self.set_u32(16, itt.0);
    }

    /// Target transfer tag, where the PDU has one.
    #[must_use]
    pub fn ttt(&self) -> Ttt {
        Ttt(self.u32_at(20))
    }

    /// CmdSN of a request, StatSN of a response.
    #[must_use]
    pub fn sn(&self) -> Sn {
        Sn(self.u32_at(24))
    }

    /// ExpStatSN of a request, ExpCmdSN of a response.
    #[must_use]
    pub fn exp_sn(&self) -> Sn {
        Sn(self.u32_at(28))
    }

    /// MaxCmdSN of a response.
    #[must_use]
    pub fn max_cmd_sn(&self) -> Sn {
        Sn(self.u32_at(32))
    }

    /// Sets CmdSN and ExpStatSN of a request.
    pub fn set_request_sns(&mut self, cmd_sn: Sn, exp_stat_sn: Sn) {
        self.set_u32(24, cmd_sn.0);
        self.set_u32(28, exp_stat_sn.0);
    }

    /// Sets ExpCmdSN and MaxCmdSN of a response.
    pub fn set_window(&mut self, exp_cmd_sn: Sn, max_cmd_sn: Sn) {
        self.set_u32(28, exp_cmd_sn.0);
        self.set_u32(32, max_cmd_sn.0);
    }

    /// Sets StatSN of a response.
    pub fn set_stat_sn(&mut self, sn: Sn) {
        self.set_u32(24, sn.0);
    }

    /// The 16-bit number at `at`, a constant of the caller.
    #[must_use]
    pub fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// The 32-bit number at `at`, a constant of the caller.
    #[must_use]
    pub fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    pub(crate) fn set_u16(&mut self, at: usize, v: u16) {
        self.0[at..at + 2].copy_from_slice(&v.to_be_bytes());
    }

    pub(crate) fn set_u32(&mut self, at: usize, v: u32) {
        self.0[at..at + 4].copy_from_slice(&v.to_be_bytes());
    }
}

impl fmt::Debug for Bhs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.opcode() {
            Some(o) => write!(f, "{o:?}")?,
            None => write!(f, "opcode {:#04x}", self.0[0] & 0x3f)?,
        }
        write!(f, " {:02x?}", self.0)
    }
}

/// Bytes that follow a data segment of `len` bytes to make it whole words (§11.1).
#[must_use]
pub fn padding(len: u32) -> usize {
    (len.wrapping_neg() & 3) as usize
}
