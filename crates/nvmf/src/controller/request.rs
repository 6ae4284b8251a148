//! Requests: the typed forms of the commands of the three command sets.
//!
//! **Owns** the fields of a submission queue entry, by opcode. **Called by** [`super::command`], which parses each command once,
//! and by the handlers. **Invariants**: parsing cannot fail. It reads fields, and judges nothing that other state decides: a
//! handler checks ranges against the namespace, and reservations against the host, before the backend gets the command, and
//! again after data was waited for. A reserved value of a field is `None`.

use crate::wire::command::{Cid, IoFlags, Sqe};
use crate::wire::copy;
use crate::wire::dsm::{self, DsmAttributes};
use crate::wire::fabrics::{Connect, Property, disconnect_record_format};
use crate::wire::features::Select;
use crate::wire::log::GetLogPage;
use crate::wire::opcode::{admin, fabrics, io as nvm};
use crate::wire::reservation::{
    AcquireAction, PersistChange, RegisterAction, ReleaseAction, ReservationType,
};
use session::latency::CommandKind;

/// What a command asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    /// A fabrics command, on any queue.
    Fabrics(FabricsRequest),
    /// A command of an admin queue.
    Admin(AdminRequest),
    /// A command of an I/O queue.
    Io(IoRequest),
    /// Another command before Connect.
    BeforeConnect,
}

/// A fabrics command (Base figure 376).
#[derive(Debug, Clone, Copy)]
pub(super) enum FabricsRequest {
    /// Connect (Base 6.3).
    Connect(Connect),
    /// Property Get (Base 6.5).
    PropertyGet(Property),
    /// Property Set (Base 6.6).
    PropertySet(Property),
    /// Disconnect (Base 6.4).
    Disconnect {
        /// RECFMT; only 0 exists.
        record_format: u16,
    },
    /// A type that this controller does not have.
    Unknown,
}

/// A command of an admin queue (Base figure 138).
#[derive(Debug, Clone, Copy)]
pub(super) enum AdminRequest {
    /// Get Log Page (Base 5.16).
    GetLogPage(GetLogPage),
    /// Identify (Base 5.17).
    Identify(Identify),
    /// Abort (Base 5.1).
    Abort {
        /// Queue of the command to abort.
        sqid: u16,
        /// The command to abort.
        cid: Cid,
    },
    /// Set Features (Base 5.27).
    SetFeatures(SetFeatures),
    /// Get Features (Base 5.15).
    GetFeatures(GetFeatures),
    /// Async Event Request (Base 5.2).
    AsyncEvent,
    /// Keep Alive (Base 5.18).
    KeepAlive,
    /// An opcode that this controller does not have.
    Unknown,
}

/// Identify.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identify {
    /// CNS: which structure.
    pub(super) cns: u8,
    /// CSI: of which I/O command set.
    pub(super) csi: u8,
    /// CNTID: from which controller on.
    pub(super) cntid: u16,
}

/// Set Features.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetFeatures {
    /// FID.
    pub(super) feature: u8,
    /// SV: save the value across resets.
    pub(super) save: bool,
    /// CDW11.
    pub(super) value: u32,
}

/// Get Features.
#[derive(Debug, Clone, Copy)]
pub(super) struct GetFeatures {
    /// FID.
    pub(super) feature: u8,
    /// SEL; `None` if reserved.
    pub(super) select: Option<Select>,
    /// CDW11.
    pub(super) cdw11: u32,
}

/// A command of an I/O queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum IoRequest {
    /// Read (NVM 3.2.4).
    Read(Blocks),
    /// Write (NVM 3.2.6).
    Write(Blocks),
    /// Compare (NVM 3.2.1).
    Compare(Blocks),
    /// Verify (NVM 3.2.5).
    Verify(Blocks),
    /// Write Zeroes (NVM 3.2.8).
    WriteZeroes(Blocks),
    /// Flush (Base 7.1).
    Flush,
    /// Dataset Management (NVM 3.2.3).
    DatasetManagement {
        /// Ranges in the data, 1 to 256.
        ranges: usize,
        /// AD: deallocate the ranges.
        deallocate: bool,
    },
    /// Copy (NVM 3.2.2).
    Copy(Copy),
    /// Reservation Register (Base 7.3).
    ReservationRegister(Register),
    /// Reservation Acquire (Base 7.2).
    ReservationAcquire(Acquire),
    /// Reservation Release (Base 7.4).
    ReservationRelease(Release),
    /// Reservation Report (Base 7.5).
    ReservationReport {
        /// Bytes that the host asks for.
        len: u64,
        /// EDS: the extended data structure.
        extended: bool,
    },
    /// An opcode that this controller does not have.
    Unknown,
}

/// The range and flags of a command on one run of blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    /// First block.
    pub(super) slba: u64,
    /// Blocks, 1 to 65536.
    pub(super) count: u32,
    /// Asks for protection information, which no namespace has.
    pub(super) is_protected: bool,
    /// Asks for a directive (DTYPE), which are not supported.
    pub(super) is_directed: bool,
    /// FUA: the reply promises stable storage.
    pub(super) fua: bool,
    /// DEAC: the blocks may be deallocated.
    pub(super) deallocate: bool,
}

/// Copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    /// First block of the destination.
    pub(super) destination: u64,
    /// Source ranges in the data, 1 to 256.
    pub(super) ranges: usize,
    /// Descriptor format of the ranges.
    pub(super) format: u8,
    /// Asks for protection information, which no namespace has.
    pub(super) is_protected: bool,
    /// FUA: the reply promises stable storage.
    pub(super) fua: bool,
}

/// Reservation Register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Register {
    /// RREGA; `None` if reserved.
    pub(super) action: Option<RegisterAction>,
    /// CPTPL; `None` if reserved.
    pub(super) persist: Option<PersistChange>,
    /// IEKEY.
    pub(super) ignore_existing: bool,
}

/// Reservation Acquire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acquire {
    /// RACQA; `None` if reserved.
    pub(super) action: Option<AcquireAction>,
    /// RTYPE; `None` if not a defined type.
    pub(super) kind: Option<ReservationType>,
    /// IEKEY, which must be zero.
    pub(super) ignore_existing: bool,
}

/// Reservation Release.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    /// RRELA; `None` if reserved.
    pub(super) action: Option<ReleaseAction>,
    /// RTYPE; `None` if not a defined type.
    pub(super) kind: Option<ReservationType>,
    /// IEKEY, which must be zero.
    pub(super) ignore_existing: bool,
}

/// Bits of CDW12 that ask for protection information.
const PROTECTION: IoFlags = IoFlags::STORAGE_TAG_CHECK
    .union(IoFlags::PRCHK_REFERENCE)
    .union(IoFlags::PRCHK_APPLICATION)
    .union(IoFlags::PRCHK_GUARD)
    .union(IoFlags::PRACT);

/// PRINFOR and PRINFOW of Copy: bits of CDW12.
const COPY_PROTECTION: u32 = 0xf << 12 | 0xf << 26;

/// DTYPE of Write: bits of CDW12.
const DIRECTIVE: u32 = 0xf << 20;

impl Blocks {
    #[inline]
    fn from_sqe(sqe: &Sqe) -> Blocks {
        let flags = sqe.io_flags();
        Blocks {
            slba: sqe.slba(),
            count: sqe.block_count(),
            is_protected: flags.intersects(PROTECTION),
            is_directed: sqe.cdw12.get() & DIRECTIVE != 0,
            fua: flags.contains(IoFlags::FUA),
            deallocate: flags.contains(IoFlags::DEALLOCATE),
        }
    }
}

impl FabricsRequest {
    /// Reads the fields of a submission queue entry.
    pub(super) fn from_sqe(sqe: &Sqe) -> FabricsRequest {
        match sqe.fabrics_type() {
            fabrics::CONNECT => FabricsRequest::Connect(Connect::from_sqe(sqe)),
            fabrics::PROPERTY_GET => FabricsRequest::PropertyGet(Property::from_sqe(sqe)),
            fabrics::PROPERTY_SET => FabricsRequest::PropertySet(Property::from_sqe(sqe)),
            fabrics::DISCONNECT => FabricsRequest::Disconnect {
                record_format: disconnect_record_format(sqe),
            },
            _ => FabricsRequest::Unknown,
        }
    }
}

impl AdminRequest {
    /// Reads the fields of a submission queue entry.
    pub(super) fn from_sqe(sqe: &Sqe) -> AdminRequest {
        match sqe.opcode {
            admin::GET_LOG_PAGE => AdminRequest::GetLogPage(GetLogPage::from_sqe(sqe)),
            admin::IDENTIFY => AdminRequest::Identify(Identify {
                cns: sqe.identify_cns(),
                csi: sqe.identify_csi(),
                cntid: sqe.identify_cntid(),
            }),
            admin::ABORT => AdminRequest::Abort {
                sqid: sqe.cdw10.get() as u16,
                cid: Cid((sqe.cdw10.get() >> 16) as u16),
            },
            admin::SET_FEATURES => AdminRequest::SetFeatures(SetFeatures {
                feature: sqe.feature_id(),
                save: sqe.feature_save(),
                value: sqe.cdw11.get(),
            }),
            admin::GET_FEATURES => AdminRequest::GetFeatures(GetFeatures {
                feature: sqe.feature_id(),
                select: sqe.feature_select(),
                cdw11: sqe.cdw11.get(),
            }),
            admin::ASYNC_EVENT_REQUEST => AdminRequest::AsyncEvent,
            admin::KEEP_ALIVE => AdminRequest::KeepAlive,
            _ => AdminRequest::Unknown,
        }
    }
}

impl IoRequest {
    /// Reads the fields of a submission queue entry.
    #[inline]
    pub(super) fn from_sqe(sqe: &Sqe) -> IoRequest {
        match sqe.opcode {
            nvm::READ => IoRequest::Read(Blocks::from_sqe(sqe)),
            nvm::WRITE => IoRequest::Write(Blocks::from_sqe(sqe)),
            nvm::COMPARE => IoRequest::Compare(Blocks::from_sqe(sqe)),
            nvm::VERIFY => IoRequest::Verify(Blocks::from_sqe(sqe)),
            nvm::WRITE_ZEROES => IoRequest::WriteZeroes(Blocks::from_sqe(sqe)),
            nvm::FLUSH => IoRequest::Flush,
            nvm::DATASET_MANAGEMENT => IoRequest::DatasetManagement {
                ranges: dsm::range_count(sqe),
                deallocate: dsm::attributes(sqe).contains(DsmAttributes::DEALLOCATE),
            },
            nvm::COPY => IoRequest::Copy(Copy {
                destination: sqe.slba(),
                ranges: copy::range_count(sqe),
                format: copy::descriptor_format(sqe),
                is_protected: sqe.cdw12.get() & COPY_PROTECTION != 0,
                fua: sqe.io_flags().contains(IoFlags::FUA),
            }),
            nvm::RESERVATION_REGISTER => IoRequest::ReservationRegister(Register {
                action: RegisterAction::from_sqe(sqe),
                persist: sqe.persist_change(),
                ignore_existing: sqe.ignores_existing_key(),
            }),
            nvm::RESERVATION_ACQUIRE => IoRequest::ReservationAcquire(Acquire {
                action: AcquireAction::from_sqe(sqe),
                kind: sqe.reservation_type(),
                ignore_existing: sqe.ignores_existing_key(),
            }),
            nvm::RESERVATION_RELEASE => IoRequest::ReservationRelease(Release {
                action: ReleaseAction::from_sqe(sqe),
                kind: sqe.reservation_type(),
                ignore_existing: sqe.ignores_existing_key(),
            }),
            nvm::RESERVATION_REPORT => IoRequest::ReservationReport {
                len: sqe.report_len(),
                extended: sqe.report_is_extended(),
            },
            _ => IoRequest::Unknown,
        }
    }

    /// The kind that its latency is counted under.
    #[inline]
    pub(super) fn kind(&self) -> CommandKind {
        match self {
            IoRequest::Read(_) => CommandKind::Read,
            IoRequest::Write(_) => CommandKind::Write,
            IoRequest::Flush => CommandKind::Flush,
            _ => CommandKind::Other,
        }
    }
}
