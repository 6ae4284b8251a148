//! Completion status (Base 3.3.3.2.1, figures 92 to 97; fabrics values in Base 6).
//!
//! Called by the target to answer and by the initiator to understand. A [`Status`] is the 15-bit
//! status field of a completion, without the phase tag, which fabrics transports leave zero.

use std::fmt;

/// The status field: code (bits 7:0), code type (10:8), retry delay (12:11), more (13), do not
/// retry (14).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

const MORE: u16 = 1 << 13;
const DNR: u16 = 1 << 14;
const CODE_MASK: u16 = 0x7ff;

impl Status {
    /// The status field with these 15 bits; the top bit of `bits` is dropped.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x7fff)
    }

    /// The 15 bits of the status field.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// A status of this type and code, without flags.
    #[must_use]
    pub const fn new(kind: StatusType, code: u8) -> Self {
        Self((kind.0 as u16) << 8 | code as u16)
    }

    /// The status code type (SCT).
    #[must_use]
    pub const fn kind(self) -> StatusType {
        StatusType((self.0 >> 8) as u8 & 0b111)
    }

    /// The status code (SC).
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// The same status with Do Not Retry set: the same command would fail again.
    #[must_use]
    pub const fn dnr(self) -> Self {
        Self(self.0 | DNR)
    }

    /// The same status with More set: the error log has an entry about it.
    #[must_use]
    pub const fn more(self) -> Self {
        Self(self.0 | MORE)
    }

    /// Whether Do Not Retry is set.
    #[must_use]
    pub const fn is_dnr(self) -> bool {
        self.0 & DNR != 0
    }

    /// Whether More is set.
    #[must_use]
    pub const fn is_more(self) -> bool {
        self.0 & MORE != 0
    }

    /// Command Retry Delay: 0 for at once, 1 to 3 for CRDT1 to CRDT3.
    #[must_use]
    pub const fn retry_delay(self) -> u8 {
        (self.0 >> 11) as u8 & 0b11
    }

    /// Whether the command succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 & CODE_MASK == 0
    }

    /// Whether type and code equal those of `other`; the flags do not count.
    #[must_use]
    pub const fn is(self, other: Self) -> bool {
        self.0 & CODE_MASK == other.0 & CODE_MASK
    }
}

/// A status code type (Base figure 93).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusType(pub u8);

impl StatusType {
    /// Generic command status.
    pub const GENERIC: Self = Self(0);
    /// Command specific status.
    pub const COMMAND: Self = Self(1);
    /// Media and data integrity errors.
    pub const MEDIA: Self = Self(2);
    /// Path related status.
    pub const PATH: Self = Self(3);
    /// Vendor specific.
    pub const VENDOR: Self = Self(7);
}

macro_rules! statuses {
    ($($name:ident = $kind:ident $code:literal, $text:literal;)*) => {
        impl Status {
            $(#[doc = concat!($text, ".")]
            pub const $name: Self = Self::new(StatusType::$kind, $code);)*

            /// The name of the status, if it is defined here. Codes 80h to BFh of the
            /// command specific type mean different things to different commands; the name is
            /// that of fabrics commands where both define one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match Self(self.0 & CODE_MASK) {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = GENERIC 0x00, "successful completion";
    INVALID_OPCODE = GENERIC 0x01, "invalid command opcode";
    INVALID_FIELD = GENERIC 0x02, "invalid field in command";
    COMMAND_ID_CONFLICT = GENERIC 0x03, "command ID conflict";
    DATA_TRANSFER_ERROR = GENERIC 0x04, "data transfer error";
    ABORTED_POWER_LOSS = GENERIC 0x05, "aborted due to power loss notification";
    INTERNAL_ERROR = GENERIC 0x06, "internal error";
    ABORT_REQUESTED = GENERIC 0x07, "command abort requested";
    ABORTED_QUEUE_DELETED = GENERIC 0x08, "aborted due to submission queue deletion";
    ABORTED_FAILED_FUSED = GENERIC 0x09, "aborted due to failed fused command";
    ABORTED_MISSING_FUSED = GENERIC 0x0a, "aborted due to missing fused command";
    INVALID_NAMESPACE = GENERIC 0x0b, "invalid namespace or format";
    COMMAND_SEQUENCE_ERROR = GENERIC 0x0c, "command sequence error";
    INVALID_SGL_SEGMENT = GENERIC 0x0d, "invalid SGL segment descriptor";
    INVALID_SGL_COUNT = GENERIC 0x0e, "invalid number of SGL descriptors";
    DATA_SGL_LENGTH_INVALID = GENERIC 0x0f, "data SGL length invalid";
    METADATA_SGL_LENGTH_INVALID = GENERIC 0x10, "metadata SGL length invalid";
    SGL_TYPE_INVALID = GENERIC 0x11, "SGL descriptor type invalid";
    PRP_OFFSET_INVALID = GENERIC 0x13, "PRP offset invalid";
    ATOMIC_WRITE_UNIT_EXCEEDED = GENERIC 0x14, "atomic write unit exceeded";
    OPERATION_DENIED = GENERIC 0x15, "operation denied";
    SGL_OFFSET_INVALID = GENERIC 0x16, "SGL offset invalid";
    HOST_ID_INCONSISTENT = GENERIC 0x18, "host identifier inconsistent format";
    KEEP_ALIVE_EXPIRED = GENERIC 0x19, "keep alive timer expired";
    KEEP_ALIVE_INVALID = GENERIC 0x1a, "keep alive timeout invalid";
    ABORTED_PREEMPTED = GENERIC 0x1b, "aborted due to preempt and abort";
    SANITIZE_FAILED = GENERIC 0x1c, "sanitize failed";
    SANITIZE_IN_PROGRESS = GENERIC 0x1d, "sanitize in progress";
    SGL_GRANULARITY_INVALID = GENERIC 0x1e, "SGL data block granularity invalid";
    WRITE_PROTECTED = GENERIC 0x20, "namespace is write protected";
    COMMAND_INTERRUPTED = GENERIC 0x21, "command interrupted";
    TRANSIENT_TRANSPORT_ERROR = GENERIC 0x22, "transient transport error";
    COMMAND_LOCKED_DOWN = GENERIC 0x23, "command prohibited by command and feature lockdown";
    ADMIN_MEDIA_NOT_READY = GENERIC 0x24, "admin command media not ready";
    LBA_OUT_OF_RANGE = GENERIC 0x80, "LBA out of range";
    CAPACITY_EXCEEDED = GENERIC 0x81, "capacity exceeded";
    NAMESPACE_NOT_READY = GENERIC 0x82, "namespace not ready";
    RESERVATION_CONFLICT = GENERIC 0x83, "reservation conflict";
    FORMAT_IN_PROGRESS = GENERIC 0x84, "format in progress";

    INVALID_QUEUE_ID = COMMAND 0x01, "invalid queue identifier";
    INVALID_QUEUE_SIZE = COMMAND 0x02, "invalid queue size";
    ABORT_LIMIT_EXCEEDED = COMMAND 0x03, "abort command limit exceeded";
    ASYNC_EVENT_LIMIT_EXCEEDED = COMMAND 0x05, "asynchronous event request limit exceeded";
    INVALID_FIRMWARE_SLOT = COMMAND 0x06, "invalid firmware slot";
    INVALID_FIRMWARE_IMAGE = COMMAND 0x07, "invalid firmware image";
    INVALID_LOG_PAGE = COMMAND 0x09, "invalid log page";
    INVALID_FORMAT = COMMAND 0x0a, "invalid format";
    FEATURE_NOT_SAVEABLE = COMMAND 0x0d, "feature identifier not saveable";
    FEATURE_NOT_CHANGEABLE = COMMAND 0x0e, "feature not changeable";
    FEATURE_NOT_NAMESPACE_SPECIFIC = COMMAND 0x0f, "feature not namespace specific";
    OVERLAPPING_RANGE = COMMAND 0x14, "overlapping range";
    NAMESPACE_ID_UNAVAILABLE = COMMAND 0x16, "namespace identifier unavailable";
    IO_COMMAND_SET_NOT_SUPPORTED = COMMAND 0x29, "I/O command set not supported";
    IO_COMMAND_SET_NOT_ENABLED = COMMAND 0x2a, "I/O command set not enabled";
    IO_COMMAND_SET_COMBINATION = COMMAND 0x2b, "I/O command set combination rejected";
    INVALID_IO_COMMAND_SET = COMMAND 0x2c, "invalid I/O command set";
    CONNECT_INCOMPATIBLE_FORMAT = COMMAND 0x80, "connect: incompatible format";
    CONNECT_CONTROLLER_BUSY = COMMAND 0x81, "connect: controller busy";
    CONNECT_INVALID_PARAMETERS = COMMAND 0x82, "connect: invalid parameters";
    CONNECT_RESTART_DISCOVERY = COMMAND 0x83, "connect: restart discovery";
    CONNECT_INVALID_HOST = COMMAND 0x84, "connect: invalid host";
    CONNECT_INVALID_QUEUE_TYPE = COMMAND 0x85, "disconnect: invalid queue type";
    DISCOVER_RESTART = COMMAND 0x90, "discover restart";
    AUTHENTICATION_REQUIRED = COMMAND 0x91, "authentication required";

    WRITE_FAULT = MEDIA 0x80, "write fault";
    UNRECOVERED_READ = MEDIA 0x81, "unrecovered read error";
    GUARD_CHECK = MEDIA 0x82, "end-to-end guard check error";
    APPLICATION_TAG_CHECK = MEDIA 0x83, "end-to-end application tag check error";
    REFERENCE_TAG_CHECK = MEDIA 0x84, "end-to-end reference tag check error";
    COMPARE_FAILURE = MEDIA 0x85, "compare failure";
    ACCESS_DENIED = MEDIA 0x86, "access denied";
    DEALLOCATED_BLOCK = MEDIA 0x87, "deallocated or unwritten logical block";

    INTERNAL_PATH_ERROR = PATH 0x00, "internal path error";
    ANA_PERSISTENT_LOSS = PATH 0x01, "asymmetric access persistent loss";
    ANA_INACCESSIBLE = PATH 0x02, "asymmetric access inaccessible";
    ANA_TRANSITION = PATH 0x03, "asymmetric access transition";
    CONTROLLER_PATH_ERROR = PATH 0x60, "controller pathing error";
    HOST_PATH_ERROR = PATH 0x70, "host pathing error";
    ABORTED_BY_HOST = PATH 0x71, "command aborted by host";
}

/// Codes of the command specific type whose meaning on an NVM I/O command differs from that on a
/// fabrics command (NVM 3.2, figure 16).
impl Status {
    /// Dataset Management, Read, Write: conflicting attributes.
    pub const NVM_CONFLICTING_ATTRIBUTES: Self = Self::new(StatusType::COMMAND, 0x80);
    /// Protection information that the namespace does not have, or that is inconsistent.
    pub const NVM_INVALID_PROTECTION_INFO: Self = Self::new(StatusType::COMMAND, 0x81);
    /// A write to a read-only range.
    pub const NVM_READ_ONLY_RANGE: Self = Self::new(StatusType::COMMAND, 0x82);
    /// More blocks or ranges than the namespace's limits for this command.
    pub const NVM_COMMAND_SIZE_LIMIT: Self = Self::new(StatusType::COMMAND, 0x83);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => f.write_str("unknown status")?,
        }
        write!(f, " (sct {:x}h sc {:02x}h", self.kind().0, self.code())?;
        if self.is_dnr() {
            f.write_str(", do not retry")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
