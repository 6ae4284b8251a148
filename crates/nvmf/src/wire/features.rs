//! Features (Base 5.15, 5.27): identifiers, the select field and the values Wirepool knows.
//!
//! Called by the controller's admin commands and by the initiator.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{Nsid, Sqe};
use super::layout;
use super::opcode::admin;

/// Feature identifiers (Base figure 317).
pub mod fid {
    /// Arbitration.
    pub const ARBITRATION: u8 = 0x01;
    /// Power Management.
    pub const POWER_MANAGEMENT: u8 = 0x02;
    /// Temperature Threshold.
    pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
    /// Error Recovery.
    pub const ERROR_RECOVERY: u8 = 0x05;
    /// Volatile Write Cache.
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    /// Number of Queues.
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
    /// Interrupt Coalescing; not in fabrics.
    pub const INTERRUPT_COALESCING: u8 = 0x08;
    /// Interrupt Vector Configuration; not in fabrics.
    pub const INTERRUPT_VECTOR: u8 = 0x09;
    /// Write Atomicity Normal.
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    /// Asynchronous Event Configuration.
    pub const ASYNC_EVENT_CONFIG: u8 = 0x0b;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 0x0e;
    /// Keep Alive Timer.
    pub const KEEP_ALIVE_TIMER: u8 = 0x0f;
    /// Host Behavior Support.
    pub const HOST_BEHAVIOR: u8 = 0x16;
    /// I/O Command Set Profile.
    pub const IO_COMMAND_SET_PROFILE: u8 = 0x19;
    /// Host Identifier.
    pub const HOST_IDENTIFIER: u8 = 0x81;
    /// Reservation Notification Mask.
    pub const RESERVATION_NOTIFICATION_MASK: u8 = 0x82;
    /// Reservation Persistence.
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
    /// Namespace Write Protection Config.
    pub const WRITE_PROTECTION: u8 = 0x84;
}

/// SEL of Get Features (CDW10 bits 10:8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Select {
    /// The current value.
    Current = 0,
    /// The default value.
    Default = 1,
    /// The saved value.
    Saved = 2,
    /// The capabilities of the feature.
    Supported = 3,
}

/// Reads and writes the fields of Get Features and Set Features.
impl Sqe {
    /// FID (CDW10 bits 7:0).
    #[must_use]
    pub fn feature_id(&self) -> u8 {
        self.cdw10.get() as u8
    }

    /// SEL of Get Features; `None` if reserved.
    #[must_use]
    pub fn feature_select(&self) -> Option<Select> {
        match self.cdw10.get() >> 8 & 0b111 {
            0 => Some(Select::Current),
            1 => Some(Select::Default),
            2 => Some(Select::Saved),
            3 => Some(Select::Supported),
            _ => None,
        }
    }

    /// SV of Set Features: save the value across resets.
    #[must_use]
    pub fn feature_save(&self) -> bool {
        self.cdw10.get() & 1 << 31 != 0
    }
}

/// Get Features.
#[must_use]
pub fn get(fid: u8, select: Select, nsid: Nsid) -> Sqe {
    let mut sqe = Sqe::new(admin::GET_FEATURES, nsid);
    sqe.cdw10 = U32::new(u32::from(fid) | u32::from(select as u8) << 8);
    sqe
}

/// Set Features with `value` in CDW11, not saved.
#[must_use]
pub fn set(fid: u8, value: u32, nsid: Nsid) -> Sqe {
    let mut sqe = Sqe::new(admin::SET_FEATURES, nsid);
    sqe.cdw10 = U32::new(u32::from(fid));
    sqe.cdw11 = U32::new(value);
    sqe
}

bitflags! {
    /// Result of Get Features with [`Select::Supported`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FeatureCapabilities: u32 {
        /// Can be saved.
        const SAVEABLE = 1 << 0;
        /// Applies to a namespace.
        const NAMESPACE_SPECIFIC = 1 << 1;
        /// Can be changed.
        const CHANGEABLE = 1 << 2;
    }
}

bitflags! {
    /// Value of Asynchronous Event Configuration (Base 5.27.1.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct AsyncEventConfig: u32 {
        /// SMART critical warnings, one bit each.
        const SMART_WARNINGS = 0xff;
        /// Namespace Attribute Notices.
        const NAMESPACE_ATTRIBUTE = 1 << 8;
        /// Firmware Activation Notices.
        const FIRMWARE_ACTIVATION = 1 << 9;
        /// Asymmetric Namespace Access Change Notices.
        const ANA_CHANGE = 1 << 11;
        /// Discovery Log Page Change Notification; discovery controllers only.
        const DISCOVERY_CHANGE = 1 << 31;
    }
}

/// Value and result of Number of Queues (Base 5.27.1.5): both 0's based on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberOfQueues {
    /// I/O submission queues, 1 to 65536.
    pub submission: u32,
    /// I/O completion queues, 1 to 65536.
    pub completion: u32,
}

impl NumberOfQueues {
    /// From CDW11 or from a completion's DW0.
    #[must_use]
    pub fn from_dword(dword: u32) -> Self {
        Self {
            submission: (dword & 0xffff) + 1,
            completion: (dword >> 16) + 1,
        }
    }

    /// As CDW11 or a completion's DW0; counts are clamped to the range of the field.
    #[must_use]
    pub fn to_dword(self) -> u32 {
        let zero_based = |n: u32| n.clamp(1, 0x1_0000) - 1;
        zero_based(self.completion) << 16 | zero_based(self.submission)
    }
}

/// Data of Timestamp (Base 5.27.1.12).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Timestamp {
    /// Milliseconds since 1970, 48 bits little endian.
    pub milliseconds: [u8; 6],
    /// Synch (bit 0) and Timestamp Origin (bits 3:1).
    pub attributes: u8,
    reserved7: u8,
}
layout!(Timestamp, 8, milliseconds @ 0, attributes @ 6);

/// Data of Host Behavior Support (Base 5.27.1.18).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct HostBehavior {
    /// ACRE: advanced command retry enable.
    pub advanced_retry: u8,
    /// ETDAS: extended telemetry data area 4.
    pub telemetry_area4: u8,
    /// LBAFEE: LBA format extension enable.
    pub lba_format_extension: u8,
    reserved3: u8,
    /// Copy descriptor formats enabled.
    pub copy_formats: U16,
    reserved6: [u8; 506],
}
layout!(HostBehavior, 512, advanced_retry @ 0, telemetry_area4 @ 1, lba_format_extension @ 2, copy_formats @ 4);

bitflags! {
    /// Value of Reservation Notification Mask: a set bit suppresses the notice.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReservationMask: u32 {
        /// Registration preempted.
        const REGISTRATION_PREEMPTED = 1 << 1;
        /// Reservation released.
        const RESERVATION_RELEASED = 1 << 2;
        /// Reservation preempted.
        const RESERVATION_PREEMPTED = 1 << 3;
    }
}

/// An asynchronous event: DW0 of an Asynchronous Event Request's completion (Base 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AsyncEvent {
    /// Bits 2:0: type; see the constants of [`AsyncEvent`].
    pub kind: u8,
    /// Bits 15:8: information, by type.
    pub info: u8,
    /// Bits 23:16: the log page to read, which also clears the event.
    pub log_page: u8,
}

impl AsyncEvent {
    /// Type: error.
    pub const KIND_ERROR: u8 = 0;
    /// Type: SMART or health.
    pub const KIND_HEALTH: u8 = 1;
    /// Type: notice.
    pub const KIND_NOTICE: u8 = 2;
    /// Type: I/O command specific.
    pub const KIND_IO: u8 = 6;

    /// Namespace attribute changed.
    pub const NAMESPACE_CHANGED: Self = Self {
        kind: Self::KIND_NOTICE,
        info: 0x00,
        log_page: super::log::lid::CHANGED_NAMESPACES,
    };
    /// Asymmetric namespace access change.
    pub const ANA_CHANGED: Self = Self {
        kind: Self::KIND_NOTICE,
        info: 0x03,
        log_page: super::log::lid::ANA,
    };
    /// Discovery log page change.
    pub const DISCOVERY_CHANGED: Self = Self {
        kind: Self::KIND_NOTICE,
        info: 0xf0,
        log_page: super::log::lid::DISCOVERY,
    };
    /// Reservation notification log page available.
    pub const RESERVATION_NOTICE: Self = Self {
        kind: Self::KIND_IO,
        info: 0x00,
        log_page: super::log::lid::RESERVATION_NOTIFICATION,
    };

    /// From a completion's DW0.
    #[must_use]
    pub fn from_dword(dword: u32) -> Self {
        Self {
            kind: dword as u8 & 0b111,
            info: (dword >> 8) as u8,
            log_page: (dword >> 16) as u8,
        }
    }

    /// As a completion's DW0.
    #[must_use]
    pub fn to_dword(self) -> u32 {
        u32::from(self.kind & 0b111) | u32::from(self.info) << 8 | u32::from(self.log_page) << 16
    }
}
