//! Fabrics commands (Base 6): Connect, Property Get and Set, Disconnect, and the controller
//! properties they reach (Base 3.1.3).
//!
//! Called by the controller's connections, and by the initiator's connect. The command
//! views read and write the fabrics specific bytes of an [`Sqe`]; the data structures lie in
//! in-capsule data.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{Nsid, Sqe};
use super::nqn::{HostId, Nqn, NqnError, NqnField};
use super::opcode::{FABRICS, fabrics};
use super::status::Status;
use super::{FormatError, layout, read_prefix};

/// CNTLID in Connect data that asks for any controller of the dynamic model.
pub const CNTLID_DYNAMIC: u16 = 0xffff;
/// CNTLID in Connect data that asks for any controller of the static model.
pub const CNTLID_STATIC: u16 = 0xfffe;
/// Bytes of Connect data.
pub const CONNECT_DATA_LEN: usize = 1024;

bitflags! {
    /// CATTR of Connect.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ConnectAttributes: u8 {
        /// Disable SQ flow control.
        const NO_SQ_FLOW_CONTROL = 1 << 2;
        /// Individual I/O queue deletion is supported.
        const QUEUE_DELETION = 1 << 3;
    }
}

/// The Connect command's own fields (Base 6.3, figure 380).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect {
    /// RECFMT (bytes 41:40): format of the data; only 0 exists.
    pub record_format: u16,
    /// QID (43:42): 0 for the admin queue.
    pub qid: u16,
    /// SQSIZE (45:44): entries of the queue, 0's based.
    pub sqsize: u16,
    /// CATTR (46).
    pub attributes: ConnectAttributes,
    /// KATO (51:48): keep alive timeout in milliseconds, 0 for none; admin queue only.
    pub kato_ms: u32,
}

impl Connect {
    /// Byte offset of QID in the command, for [`ConnectFault`].
    pub const QID_OFFSET: u16 = 42;
    /// Byte offset of SQSIZE in the command.
    pub const SQSIZE_OFFSET: u16 = 44;

    /// Reads the fields of a command whose fabrics type is Connect.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let dw10 = sqe.cdw10.get();
        let dw11 = sqe.cdw11.get();
        Self {
            record_format: dw10 as u16,
            qid: (dw10 >> 16) as u16,
            sqsize: dw11 as u16,
            attributes: ConnectAttributes::from_bits_truncate((dw11 >> 16) as u8),
            kato_ms: sqe.cdw12.get(),
        }
    }

    /// The command; its SGL and CID are for the queue to set.
    #[must_use]
    pub fn to_sqe(&self) -> Sqe {
        let mut sqe = command(fabrics::CONNECT);
        sqe.cdw10 = U32::new(u32::from(self.qid) << 16 | u32::from(self.record_format));
        sqe.cdw11 = U32::new(u32::from(self.attributes.bits()) << 16 | u32::from(self.sqsize));
        sqe.cdw12 = U32::new(self.kato_ms);
        sqe
    }
}

/// Connect data (Base figure 381).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ConnectData {
    /// HOSTID (bytes 15:0).
    pub host_id: HostId,
    /// CNTLID (17:16): the controller wanted, or [`CNTLID_DYNAMIC`].
    pub cntlid: U16,
    reserved18: [u8; 238],
    /// SUBNQN (511:256).
    pub subnqn: NqnField,
    /// HOSTNQN (767:512).
    pub hostnqn: NqnField,
    reserved768: [u8; 256],
}
layout!(ConnectData, CONNECT_DATA_LEN, host_id @ 0, cntlid @ 16, subnqn @ 256, hostnqn @ 512);

impl ConnectData {
    /// Byte offset of HOSTID, for [`ConnectFault`].
    pub const HOSTID_OFFSET: u16 = 0;
    /// Byte offset of CNTLID.
    pub const CNTLID_OFFSET: u16 = 16;
    /// Byte offset of SUBNQN.
    pub const SUBNQN_OFFSET: u16 = 256;
    /// Byte offset of HOSTNQN.
    pub const HOSTNQN_OFFSET: u16 = 512;

    /// The data of a Connect.
    #[must_use]
    pub fn new(host_id: HostId, cntlid: u16, subnqn: &Nqn, hostnqn: &Nqn) -> Self {
        Self {
            host_id,
            cntlid: U16::new(cntlid),
            subnqn: subnqn.into(),
            hostnqn: hostnqn.into(),
            ..Self::new_zeroed()
        }
    }

    /// Reads the structure; names are checked by [`ConnectData::names`].
    ///
    /// # Errors
    /// [`FormatError::Short`] with fewer than 1024 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        read_prefix("connect data", bytes)
    }

    /// The subsystem's and the host's name; the host's may be [`Nqn::unnamed`].
    ///
    /// # Errors
    /// The fault to answer with, and the defect of the name.
    pub fn names(&self) -> Result<(Nqn, Nqn), (ConnectFault, NqnError)> {
        let subnqn = self
            .subnqn
            .parse()
            .map_err(|e| (ConnectFault::data(Self::SUBNQN_OFFSET), e))?;
        let hostnqn = self
            .hostnqn
            .parse_host()
            .map_err(|e| (ConnectFault::data(Self::HOSTNQN_OFFSET), e))?;
        Ok((subnqn, hostnqn))
    }
}

/// DW0 of a successful Connect (Base figure 382).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectAccepted {
    /// CNTLID of the controller.
    pub cntlid: u16,
    /// AUTHREQ: bit 1 in-band authentication, bit 2 after TLS, required before other commands.
    pub auth_required: u16,
}

impl ConnectAccepted {
    /// From the completion's result.
    #[must_use]
    pub fn from_result(result: u64) -> Self {
        Self {
            cntlid: result as u16,
            auth_required: (result >> 16) as u16,
        }
    }

    /// As the completion's result.
    #[must_use]
    pub fn to_result(self) -> u64 {
        u64::from(self.auth_required) << 16 | u64::from(self.cntlid)
    }
}

/// DW0 of a Connect refused with [`Status::CONNECT_INVALID_PARAMETERS`]: which parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectFault {
    /// IATTR bit 0: the parameter is in the data, not in the command.
    pub in_data: bool,
    /// IPO: the parameter's byte offset.
    pub offset: u16,
}

impl ConnectFault {
    /// A parameter in the Connect data.
    #[must_use]
    pub const fn data(offset: u16) -> Self {
        Self {
            in_data: true,
            offset,
        }
    }

    /// A parameter in the command.
    #[must_use]
    pub const fn command(offset: u16) -> Self {
        Self {
            in_data: false,
            offset,
        }
    }

    /// From the completion's result.
    #[must_use]
    pub fn from_result(result: u64) -> Self {
        Self {
            in_data: result >> 16 & 1 != 0,
            offset: result as u16,
        }
    }

    /// As the completion's result.
    #[must_use]
    pub fn to_result(self) -> u64 {
        u64::from(self.in_data) << 16 | u64::from(self.offset)
    }

    /// The status that goes with it.
    #[must_use]
    pub const fn status(self) -> Status {
        Status::CONNECT_INVALID_PARAMETERS.dnr()
    }
}

/// Property Get (Base 6.5) or Property Set (Base 6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property {
    /// ATTRIB bits 2:0 (byte 40): whether the property has 8 bytes, else 4. `None` if the size
    /// field is neither.
    pub wide: Option<bool>,
    /// OFST (bytes 47:44).
    pub offset: u32,
    /// VALUE (bytes 55:48); Property Set only.
    pub value: u64,
}

impl Property {
    /// Reads the fields of a Property Get or Property Set.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let wide = match sqe.cdw10.get() & 0b111 {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let value = u64::from(sqe.cdw13.get()) << 32 | u64::from(sqe.cdw12.get());
        Self {
            wide,
            offset: sqe.cdw11.get(),
            value,
        }
    }

    /// A Property Get of a property of 8 (`wide`) or 4 bytes.
    #[must_use]
    pub fn get(offset: u32, wide: bool) -> Sqe {
        let mut sqe = command(fabrics::PROPERTY_GET);
        sqe.cdw10 = U32::new(u32::from(wide));
        sqe.cdw11 = U32::new(offset);
        sqe
    }

    /// A Property Set of a property of 8 (`wide`) or 4 bytes.
    #[must_use]
    pub fn set(offset: u32, wide: bool, value: u64) -> Sqe {
        let mut sqe = command(fabrics::PROPERTY_SET);
        sqe.cdw10 = U32::new(u32::from(wide));
        sqe.cdw11 = U32::new(offset);
        sqe.cdw12 = U32::new(value as u32);
        sqe.cdw13 = U32::new((value >> 32) as u32);
        sqe
    }
}

/// A Disconnect (Base 6.4), record format 0.
#[must_use]
pub fn disconnect() -> Sqe {
    command(fabrics::DISCONNECT)
}

/// RECFMT of a Disconnect.
#[must_use]
pub fn disconnect_record_format(sqe: &Sqe) -> u16 {
    sqe.cdw10.get() as u16
}

fn command(fabrics_type: u8) -> Sqe {
    Sqe::new(FABRICS, Nsid(u32::from(fabrics_type)))
}

/// Offsets of the controller properties that fabrics controllers have (Base 3.1.3).
pub mod property {
    /// Controller Capabilities, 8 bytes.
    pub const CAP: u32 = 0x00;
    /// Version, 4 bytes.
    pub const VS: u32 = 0x08;
    /// Controller Configuration, 4 bytes.
    pub const CC: u32 = 0x14;
    /// Controller Status, 4 bytes.
    pub const CSTS: u32 = 0x1c;
    /// NVM Subsystem Reset, 4 bytes, optional.
    pub const NSSR: u32 = 0x20;
}

/// NVMe version 2.0 as VS and the VER field write it.
pub const VERSION_2_0: u32 = 0x0002_0000;

bitflags! {
    /// CAP, Controller Capabilities (Base 3.1.3.1), its flags; the numeric fields have methods.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Cap: u64 {
        /// CQR: queues must be physically contiguous; always set in fabrics.
        const CONTIGUOUS_QUEUES = 1 << 16;
        /// NSSRS: NVM subsystem reset is supported.
        const SUBSYSTEM_RESET = 1 << 36;
        /// CSS: the NVM command set is supported.
        const NVM_COMMAND_SET = 1 << 37;
        /// CSS: I/O command sets can be selected.
        const IO_COMMAND_SETS = 1 << 43;
        /// CSS: no I/O command set, as in a discovery controller.
        const NO_IO_COMMAND_SET = 1 << 44;
        /// CRMS: controller ready with media.
        const READY_WITH_MEDIA = 1 << 59;
        const _ = !0;
    }
}

impl Cap {
    /// Capabilities with MQES (largest queue, entries 0's based) and TO (ready timeout in units of
    /// 500 ms) besides `flags`; pages of 4 KiB, stride 0.
    #[must_use]
    pub fn new(mqes: u16, timeout_500ms: u8, flags: Self) -> Self {
        flags | Self::from_bits_retain(u64::from(mqes) | u64::from(timeout_500ms) << 24)
    }

    /// MQES: entries of the largest queue, 0's based.
    #[must_use]
    pub fn mqes(self) -> u16 {
        self.bits() as u16
    }

    /// TO: how long CSTS.RDY may take, in units of 500 ms.
    #[must_use]
    pub fn timeout_500ms(self) -> u8 {
        (self.bits() >> 24) as u8
    }

    /// MPSMIN: the least page size, as a power of two above 4 KiB; the unit of MDTS.
    #[must_use]
    pub fn mpsmin(self) -> u8 {
        (self.bits() >> 48) as u8 & 0xf
    }
}

bitflags! {
    /// CC, Controller Configuration (Base 3.1.3.5), its flags; the numeric fields have methods.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Cc: u32 {
        /// EN: enable.
        const ENABLE = 1 << 0;
        /// CRIME: ready independent of media.
        const READY_INDEPENDENT_OF_MEDIA = 1 << 24;
        const _ = !0;
    }
}

impl Cc {
    /// The value that a host writes to enable: 64-byte submission and 16-byte completion entries, with the
    /// command set selection `css` (0 NVM, 6 all supported, 7 admin only).
    #[must_use]
    pub fn enabled(css: u8) -> Self {
        Self::from_bits_retain(1 | u32::from(css & 0b111) << 4 | 6 << 16 | 4 << 20)
    }

    /// CSS: I/O command set selected.
    #[must_use]
    pub fn css(self) -> u8 {
        (self.bits() >> 4) as u8 & 0b111
    }

    /// MPS: page size, as a power of two above 4 KiB.
    #[must_use]
    pub fn mps(self) -> u8 {
        (self.bits() >> 7) as u8 & 0xf
    }

    /// AMS: arbitration mechanism selected.
    #[must_use]
    pub fn ams(self) -> u8 {
        (self.bits() >> 11) as u8 & 0b111
    }

    /// SHN: shutdown notification; 0 none, 1 normal, 2 abrupt.
    #[must_use]
    pub fn shn(self) -> u8 {
        (self.bits() >> 14) as u8 & 0b11
    }

    /// The same with this shutdown notification.
    #[must_use]
    pub fn with_shn(self, shn: u8) -> Self {
        Self::from_bits_retain(self.bits() & !(0b11 << 14) | u32::from(shn & 0b11) << 14)
    }

    /// IOSQES: I/O submission queue entry size, as a power of two.
    #[must_use]
    pub fn iosqes(self) -> u8 {
        (self.bits() >> 16) as u8 & 0xf
    }

    /// IOCQES: I/O completion queue entry size, as a power of two.
    #[must_use]
    pub fn iocqes(self) -> u8 {
        (self.bits() >> 20) as u8 & 0xf
    }
}

bitflags! {
    /// CSTS, Controller Status (Base 3.1.3.6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Csts: u32 {
        /// RDY: ready.
        const READY = 1 << 0;
        /// CFS: fatal status.
        const FATAL = 1 << 1;
        /// SHST 01b: shutdown in progress.
        const SHUTDOWN_OCCURRING = 1 << 2;
        /// SHST 10b: shutdown complete.
        const SHUTDOWN_COMPLETE = 1 << 3;
        /// NSSRO: a subsystem reset occurred.
        const SUBSYSTEM_RESET_OCCURRED = 1 << 4;
        /// PP: processing paused.
        const PROCESSING_PAUSED = 1 << 5;
    }
}
