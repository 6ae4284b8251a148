//! Log pages (Base 5.16): the command and the pages' data structures.
//!
//! Filled in by the target, read by the initiator.

pub mod ana;
pub mod discovery;

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use ana::{AnaGroup, AnaLog, AnaState};
pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryFlags, DiscoveryHeader, DiscoveryLog, SubsystemType,
    TransportType,
};

use super::command::{Nsid, Sqe};
use super::layout;
use super::opcode::admin;

/// Log page identifiers (Base figure 202).
pub mod lid {
    /// Supported Log Pages.
    pub const SUPPORTED: u8 = 0x00;
    /// Error Information.
    pub const ERROR: u8 = 0x01;
    /// SMART / Health Information.
    pub const SMART: u8 = 0x02;
    /// Firmware Slot Information.
    pub const FIRMWARE_SLOT: u8 = 0x03;
    /// Changed Namespace List.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Commands Supported and Effects.
    pub const COMMAND_EFFECTS: u8 = 0x05;
    /// Asymmetric Namespace Access.
    pub const ANA: u8 = 0x0c;
    /// Discovery.
    pub const DISCOVERY: u8 = 0x70;
    /// Reservation Notification.
    pub const RESERVATION_NOTIFICATION: u8 = 0x80;
}

/// The fields of Get Log Page (Base figures 197 to 201).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetLogPage {
    /// LID: which page.
    pub lid: u8,
    /// LSP: log specific parameter, 7 bits.
    pub lsp: u8,
    /// RAE: retain the asynchronous event.
    pub retain_event: bool,
    /// NUMD: bytes wanted; 0's based dwords on the wire.
    pub len: u64,
    /// LSI: log specific identifier.
    pub lsi: u16,
    /// LPO: offset into the page, in bytes, or an index if `offset_is_index`.
    pub offset: u64,
    /// OT: whether `offset` is an index.
    pub offset_is_index: bool,
    /// CSI: I/O command set.
    pub csi: u8,
}

impl GetLogPage {
    /// The whole of `len` bytes from the beginning of a page, which clears its event.
    #[must_use]
    pub fn new(lid: u8, len: u64) -> Self {
        Self {
            lid,
            lsp: 0,
            retain_event: false,
            len,
            lsi: 0,
            offset: 0,
            offset_is_index: false,
            csi: 0,
        }
    }

    /// Reads the fields of a Get Log Page.
    #[must_use]
    pub fn from_sqe(sqe: &Sqe) -> Self {
        let (dw10, dw11, dw14) = (sqe.cdw10.get(), sqe.cdw11.get(), sqe.cdw14.get());
        let dwords = u64::from(dw11 & 0xffff) << 16 | u64::from(dw10 >> 16);
        Self {
            lid: dw10 as u8,
            lsp: (dw10 >> 8) as u8 & 0x7f,
            retain_event: dw10 & 1 << 15 != 0,
            len: (dwords + 1) * 4,
            lsi: (dw11 >> 16) as u16,
            offset: u64::from(sqe.cdw13.get()) << 32 | u64::from(sqe.cdw12.get()),
            offset_is_index: dw14 & 1 << 23 != 0,
            csi: (dw14 >> 24) as u8,
        }
    }

    /// The command. A `len` that is no multiple of 4 is rounded up.
    #[must_use]
    pub fn to_sqe(&self, nsid: Nsid) -> Sqe {
        let dwords = u32::try_from(self.len.div_ceil(4).max(1) - 1).unwrap_or(u32::MAX);
        let mut sqe = Sqe::new(admin::GET_LOG_PAGE, nsid);
        sqe.cdw10 = U32::new(
            u32::from(self.lid)
                | u32::from(self.lsp & 0x7f) << 8
                | u32::from(self.retain_event) << 15
                | (dwords & 0xffff) << 16,
        );
        sqe.cdw11 = U32::new(dwords >> 16 | u32::from(self.lsi) << 16);
        sqe.cdw12 = U32::new(self.offset as u32);
        sqe.cdw13 = U32::new((self.offset >> 32) as u32);
        sqe.cdw14 = U32::new(u32::from(self.offset_is_index) << 23 | u32::from(self.csi) << 24);
        sqe
    }
}

/// An error log entry (Base figure 205).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ErrorEntry {
    /// Error count: unique, 0 in an entry that is not used.
    pub error_count: U64,
    /// SQID.
    pub sqid: U16,
    /// CID.
    pub cid: U16,
    /// Status field (bits 15:1) and phase tag.
    pub status_phase: U16,
    /// Where in the command the error is: byte (7:0) and bit (10:8), or FFFFh.
    pub parameter_location: U16,
    /// The first LBA with an error.
    pub lba: U64,
    /// Namespace.
    pub nsid: U32,
    /// Log page with vendor specific information.
    pub vendor_log: u8,
    /// TRTYPE.
    pub transport: u8,
    reserved30: [u8; 2],
    /// Command specific information.
    pub command_specific: U64,
    /// Transport specific information.
    pub transport_specific: U16,
    reserved42: [u8; 22],
}
layout!(ErrorEntry, 64, error_count @ 0, sqid @ 8, cid @ 10, status_phase @ 12, parameter_location @ 14, lba @ 16,
    nsid @ 24, vendor_log @ 28, transport @ 29, command_specific @ 32, transport_specific @ 40);

/// SMART / health information (Base figure 207). The 16-byte counters are 128-bit little endian.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SmartLog {
    /// Critical warning bits.
    pub critical_warning: u8,
    /// Composite temperature, kelvin.
    pub temperature: U16,
    /// Available spare, percent.
    pub available_spare: u8,
    /// Available spare threshold, percent.
    pub spare_threshold: u8,
    /// Percentage used.
    pub percentage_used: u8,
    /// Endurance group critical warning summary.
    pub endurance_group_warning: u8,
    reserved7: [u8; 25],
    /// Data read, in thousands of 512-byte units.
    pub data_units_read: [u8; 16],
    /// Data written, likewise.
    pub data_units_written: [u8; 16],
    /// Read commands.
    pub host_read_commands: [u8; 16],
    /// Write commands.
    pub host_write_commands: [u8; 16],
    /// Busy time, minutes.
    pub controller_busy_time: [u8; 16],
    /// Power cycles.
    pub power_cycles: [u8; 16],
    /// Power on hours.
    pub power_on_hours: [u8; 16],
    /// Unsafe shutdowns.
    pub unsafe_shutdowns: [u8; 16],
    /// Media and data integrity errors.
    pub media_errors: [u8; 16],
    /// Error log entries over the controller's life.
    pub error_log_entries: [u8; 16],
    /// Minutes above the warning temperature.
    pub warning_temperature_time: U32,
    /// Minutes above the critical temperature.
    pub critical_temperature_time: U32,
    /// Temperature sensors, kelvin.
    pub temperature_sensors: [U16; 8],
    /// Thermal management: transition counts and times.
    pub thermal_management: [U32; 4],
    reserved232: [u8; 280],
}
layout!(SmartLog, 512, critical_warning @ 0, temperature @ 1, available_spare @ 3, spare_threshold @ 4,
    percentage_used @ 5, endurance_group_warning @ 6, data_units_read @ 32, data_units_written @ 48,
    host_read_commands @ 64, host_write_commands @ 80, controller_busy_time @ 96, power_cycles @ 112,
    power_on_hours @ 128, unsafe_shutdowns @ 144, media_errors @ 160, error_log_entries @ 176,
    warning_temperature_time @ 192, critical_temperature_time @ 196, temperature_sensors @ 200,
    thermal_management @ 216);

/// Firmware slot information (Base figure 208).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct FirmwareSlotLog {
    /// AFI: slot running (2:0) and slot after the next reset (6:4).
    pub active: u8,
    reserved1: [u8; 7],
    /// FRS1 to FRS7: revisions, ASCII.
    pub revisions: [[u8; 8]; 7],
    reserved64: [u8; 448],
}
layout!(FirmwareSlotLog, 512, active @ 0, revisions @ 8);

/// Bytes of a Changed Namespace List, which is a namespace list.
pub const CHANGED_NAMESPACES_LEN: usize = 4096;

/// Commands supported and effects (Base figure 210), by opcode.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CommandEffectsLog {
    /// ACS: admin commands.
    pub admin: [U32; 256],
    /// IOCS: I/O commands.
    pub io: [U32; 256],
    reserved2048: [u8; 2048],
}
layout!(CommandEffectsLog, 4096, admin @ 0, io @ 1024);

bitflags! {
    /// One entry of [`CommandEffectsLog`] (Base figure 211).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CommandEffects: u32 {
        /// CSUPP: supported.
        const SUPPORTED = 1 << 0;
        /// LBCC: may change logical block content.
        const CONTENT_CHANGE = 1 << 1;
        /// NCC: may change a namespace's capabilities.
        const NAMESPACE_CHANGE = 1 << 2;
        /// NIC: may change the number of namespaces.
        const INVENTORY_CHANGE = 1 << 3;
        /// CCC: may change the controller's capabilities.
        const CONTROLLER_CHANGE = 1 << 4;
    }
}

/// Supported log pages (Base figure 203), by identifier: bit 0 of an entry says supported.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SupportedLog(pub [U32; 256]);
layout!(SupportedLog, 1024);

/// Reservation notification (Base figure 257).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ReservationNotification {
    /// Log page count: 0 if there is no notification, never 0 otherwise.
    pub count: U64,
    /// Type: 0 empty, 1 registration preempted, 2 reservation released, 3 reservation preempted.
    pub kind: u8,
    /// Further pages available; 255 for more.
    pub available: u8,
    reserved10: [u8; 2],
    /// Namespace.
    pub nsid: U32,
    reserved16: [u8; 48],
}
layout!(ReservationNotification, 64, count @ 0, kind @ 8, available @ 9, nsid @ 12);
