//! Settings of a device and its logical units, and the errors of changes.
//!
//! **Called by** the server, which makes them.

use backend::BlockBackend;
use session::reservation::ReservationStore;
use std::sync::Arc;
use thiserror::Error;
use uuid::Uuid;

/// Why a device refused a change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The number of a logical unit is in use.
    #[error("LUN {0} is taken")]
    LunTaken(u16),
    /// There is no logical unit of this number.
    #[error("there is no LUN {0}")]
    NoSuchLun(u16),
    /// A limit is reached.
    #[error("no room for more {0}")]
    Full(&'static str),
    /// The stored reservations cannot be read.
    #[error("the stored reservations of LUN {lun} are damaged, in {place}")]
    DamagedReservations {
        /// The number of the logical unit.
        lun: u16,
        /// Where they are stored, and the remedy.
        place: String,
    },
    /// A change of the reservations cannot be saved; nothing has changed.
    #[error("the reservations of LUN {lun} cannot be saved: {reason}")]
    UnsavedReservations {
        /// The number of the logical unit.
        lun: u16,
        /// The error of the medium.
        reason: String,
    },
    /// There is no target port with this relative identifier.
    #[error("there is no target port {0}")]
    NoSuchPort(u16),
    /// A relative target port identifier is zero or appears twice.
    #[error("target port {0} is zero or occurs twice")]
    InvalidPort(u16),
}

/// A target port: for iSCSI a portal group of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetPort {
    /// RELATIVE TARGET PORT IDENTIFIER, 1 or more.
    pub relative: u16,
    /// Portal group tag, part of the port's name.
    pub portal_group: u16,
    /// TARGET PORT GROUP.
    pub group: u16,
}

/// A device's identity.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// The target's name (for iSCSI `iqn.…`), 223 bytes at most.
    pub name: String,
    /// T10 VENDOR IDENTIFICATION, truncated to 8 ASCII characters.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, truncated to 16.
    pub product: String,
    /// PRODUCT REVISION LEVEL, truncated to 4.
    pub revision: String,
    /// The target ports; they can change later.
    pub ports: Vec<TargetPort>,
}

/// A logical unit.
pub struct UnitConfig {
    /// The disk.
    pub backend: Arc<dyn BlockBackend>,
    /// Identity of the disk, the same in every export.
    pub uuid: Uuid,
    /// UNIT SERIAL NUMBER, ASCII, 32 characters at most.
    pub serial: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Keeps persistent reservations.
    pub reservations: Arc<dyn ReservationStore>,
    /// Used space, percent of the size, at which initiators are warned (thin provisioning threshold).
    pub threshold_percent: Option<u8>,
}
