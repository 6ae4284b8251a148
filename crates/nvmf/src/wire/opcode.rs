//! Operation codes: admin (Base 5), fabrics (Base 6), NVM I/O (Base 7, NVM 3).
//!
//! Called by the controller, which dispatches commands, and by the initiator, which builds them.
//! Constants, not enums: a peer may send any byte, and a `match` over constants must handle the
//! unknown ones.

/// Opcode of every fabrics command, on admin and I/O queues alike.
pub const FABRICS: u8 = 0x7f;

/// Opcodes on the admin queue.
pub mod admin {
    /// Get Log Page (Base 5.16).
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify (Base 5.17).
    pub const IDENTIFY: u8 = 0x06;
    /// Abort (Base 5.1).
    pub const ABORT: u8 = 0x08;
    /// Set Features (Base 5.27).
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features (Base 5.15).
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request (Base 5.2).
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    /// Namespace Management (Base 5.23).
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    /// Firmware Commit (Base 5.12).
    pub const FIRMWARE_COMMIT: u8 = 0x10;
    /// Firmware Image Download (Base 5.13).
    pub const FIRMWARE_DOWNLOAD: u8 = 0x11;
    /// Device Self-test (Base 5.9).
    pub const DEVICE_SELF_TEST: u8 = 0x14;
    /// Namespace Attachment (Base 5.22).
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
    /// Keep Alive (Base 5.18).
    pub const KEEP_ALIVE: u8 = 0x18;
    /// Directive Send (Base 5.11).
    pub const DIRECTIVE_SEND: u8 = 0x19;
    /// Directive Receive (Base 5.10).
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    /// Format NVM (Base 5.14).
    pub const FORMAT_NVM: u8 = 0x80;
    /// Security Send (Base 5.26).
    pub const SECURITY_SEND: u8 = 0x81;
    /// Security Receive (Base 5.25).
    pub const SECURITY_RECEIVE: u8 = 0x82;
    /// Sanitize (Base 5.24).
    pub const SANITIZE: u8 = 0x84;
    /// Get LBA Status (NVM 4.2.1).
    pub const GET_LBA_STATUS: u8 = 0x86;
}

/// Opcodes of the NVM command set on an I/O queue.
pub mod io {
    /// Flush (Base 7.1).
    pub const FLUSH: u8 = 0x00;
    /// Write (NVM 3.2.6).
    pub const WRITE: u8 = 0x01;
    /// Read (NVM 3.2.4).
    pub const READ: u8 = 0x02;
    /// Write Uncorrectable (NVM 3.2.7).
    pub const WRITE_UNCORRECTABLE: u8 = 0x04;
    /// Compare (NVM 3.2.1).
    pub const COMPARE: u8 = 0x05;
    /// Write Zeroes (NVM 3.2.8).
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management (NVM 3.2.3).
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// Verify (NVM 3.2.5).
    pub const VERIFY: u8 = 0x0c;
    /// Reservation Register (Base 7.3).
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    /// Reservation Report (Base 7.5).
    pub const RESERVATION_REPORT: u8 = 0x0e;
    /// Reservation Acquire (Base 7.2).
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    /// Reservation Release (Base 7.4).
    pub const RESERVATION_RELEASE: u8 = 0x15;
    /// Copy (NVM 3.2.2).
    pub const COPY: u8 = 0x19;
}

/// Fabrics command types: byte 4 of a command whose opcode is [`FABRICS`].
pub mod fabrics {
    /// Property Set (Base 6.6).
    pub const PROPERTY_SET: u8 = 0x00;
    /// Connect (Base 6.3).
    pub const CONNECT: u8 = 0x01;
    /// Property Get (Base 6.5).
    pub const PROPERTY_GET: u8 = 0x04;
    /// Authentication Send (Base 6.2).
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// Authentication Receive (Base 6.1).
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    /// Disconnect (Base 6.4).
    pub const DISCONNECT: u8 = 0x08;
}

/// The direction of a command's data: bits 1:0 of its opcode (Base 3.3.3.1), or of the fabrics
/// command type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDirection {
    /// No data.
    None,
    /// Host to controller.
    HostToController,
    /// Controller to host.
    ControllerToHost,
    /// Both ways; no command that Wirepool knows.
    Bidirectional,
}

impl DataDirection {
    /// Of an opcode, or of a fabrics command type.
    #[must_use]
    pub fn of(code: u8) -> Self {
        match code & 0b11 {
            0 => Self::None,
            1 => Self::HostToController,
            2 => Self::ControllerToHost,
            _ => Self::Bidirectional,
        }
    }
}
