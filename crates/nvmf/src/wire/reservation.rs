//! Reservation commands (Base 7.2 to 7.5) and the reservation status data structures.
//!
//! Built by the initiator, read by the target, except the status, which goes the other way.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{Nsid, Sqe};
use super::nqn::HostId;
use super::opcode::io;
use super::{FormatError, layout, read_prefix};

/// A reservation type (Base figure 440).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReservationType {
    /// Write Exclusive.
    WriteExclusive = 1,
    /// Exclusive Access.
    ExclusiveAccess = 2,
    /// Write Exclusive, registrants only.
    WriteExclusiveRegistrants = 3,
    /// Exclusive Access, registrants only.
    ExclusiveAccessRegistrants = 4,
    /// Write Exclusive, all registrants.
    WriteExclusiveAllRegistrants = 5,
    /// Exclusive Access, all registrants.
    ExclusiveAccessAllRegistrants = 6,
}

impl ReservationType {
    /// The type with this code; 0 is "none".
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::WriteExclusive,
            2 => Self::ExclusiveAccess,
            3 => Self::WriteExclusiveRegistrants,
            4 => Self::ExclusiveAccessRegistrants,
            5 => Self::WriteExclusiveAllRegistrants,
            6 => Self::ExclusiveAccessAllRegistrants,
            _ => return None,
        })
    }

    /// The type, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::WriteExclusive => "write exclusive",
            Self::ExclusiveAccess => "exclusive access",
            Self::WriteExclusiveRegistrants => "write exclusive, registrants only",
            Self::ExclusiveAccessRegistrants => "exclusive access, registrants only",
            Self::WriteExclusiveAllRegistrants => "write exclusive, all registrants",
            Self::ExclusiveAccessAllRegistrants => "exclusive access, all registrants",
        }
    }
}

macro_rules! action {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* $variant = $code,)* }

        impl $name {
            /// The action in CDW10 bits 2:0, if it is defined.
            #[must_use]
            pub fn from_sqe(sqe: &Sqe) -> Option<Self> {
                match sqe.cdw10.get() as u8 & 0b111 {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

action! {
    /// RREGA of Reservation Register.
    RegisterAction {
        /// Register a key.
        Register = 0,
        /// Unregister.
        Unregister = 1,
        /// Replace the key.
        Replace = 2,
    }
}
action! {
    /// RACQA of Reservation Acquire.
    AcquireAction {
        /// Acquire.
        Acquire = 0,
        /// Preempt.
        Preempt = 1,
        /// Preempt, and abort the preempted hosts' commands.
        PreemptAndAbort = 2,
    }
}
action! {
    /// RRELA of Reservation Release.
    ReleaseAction {
        /// Release.
        Release = 0,
        /// Clear all registrations and the reservation.
        Clear = 1,
    }
}

/// CPTPL of Reservation Register: the change of persistence through power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersistChange {
    /// No change.
    Keep,
    /// Reservations are released at power on.
    Off,
    /// Reservations persist.
    On,
}

/// The current and the new, or the preempted, key: data of Register and Acquire (Base figures 441
/// and 436).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ReservationKeys {
    /// CRKEY: the host's current key.
    pub current: U64,
    /// NRKEY (Register) or PRKEY (Acquire).
    pub other: U64,
}
layout!(ReservationKeys, 16, current @ 0, other @ 8);

impl ReservationKeys {
    /// Reads the structure.
    ///
    /// # Errors
    /// [`FormatError::Short`] with fewer than 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        read_prefix("reservation keys", bytes)
    }
}

/// The data of Release: CRKEY.
///
/// # Errors
/// [`FormatError::Short`] with fewer than 8 bytes.
pub fn parse_release_key(bytes: &[u8]) -> Result<u64, FormatError> {
    read_prefix::<U64>("reservation key", bytes).map(U64::get)
}

/// Reservation Register (Base 7.3). `ignore_existing` is IEKEY.
#[must_use]
pub fn register(
    nsid: Nsid,
    action: RegisterAction,
    ignore_existing: bool,
    persist: PersistChange,
) -> Sqe {
    let cptpl = match persist {
        PersistChange::Keep => 0,
        PersistChange::Off => 0b10,
        PersistChange::On => 0b11,
    };
    let mut sqe = Sqe::new(io::RESERVATION_REGISTER, nsid);
    sqe.cdw10 = U32::new(action as u32 | u32::from(ignore_existing) << 3 | cptpl << 30);
    sqe
}

/// Reservation Acquire (Base 7.2).
#[must_use]
pub fn acquire(nsid: Nsid, action: AcquireAction, kind: ReservationType) -> Sqe {
    let mut sqe = Sqe::new(io::RESERVATION_ACQUIRE, nsid);
    sqe.cdw10 = U32::new(action as u32 | u32::from(kind as u8) << 8);
    sqe
}

/// Reservation Release (Base 7.4); `kind` must be the type held, and is ignored by Clear.
#[must_use]
pub fn release(nsid: Nsid, action: ReleaseAction, kind: Option<ReservationType>) -> Sqe {
    let mut sqe = Sqe::new(io::RESERVATION_RELEASE, nsid);
    sqe.cdw10 = U32::new(action as u32 | kind.map_or(0, |kind| u32::from(kind as u8)) << 8);
    sqe
}

/// Reservation Report (Base 7.5) of `dwords` dwords, in the extended format or the one with 64-bit
/// host identifiers.
///
/// # Panics
/// If `dwords` is 0.
#[must_use]
pub fn report(nsid: Nsid, dwords: u32, extended: bool) -> Sqe {
    assert!(dwords > 0, "a report of no dwords");
    let mut sqe = Sqe::new(io::RESERVATION_REPORT, nsid);
    sqe.cdw10 = U32::new(dwords - 1);
    sqe.cdw11 = U32::new(u32::from(extended));
    sqe
}

/// The fields of CDW10 and CDW11 that reservation commands share.
impl Sqe {
    /// IEKEY: ignore the existing key.
    #[must_use]
    pub fn ignores_existing_key(&self) -> bool {
        self.cdw10.get() & 1 << 3 != 0
    }

    /// RTYPE; `None` if not a defined type.
    #[must_use]
    pub fn reservation_type(&self) -> Option<ReservationType> {
        ReservationType::from_code((self.cdw10.get() >> 8) as u8)
    }

    /// CPTPL of Register; `None` if reserved.
    #[must_use]
    pub fn persist_change(&self) -> Option<PersistChange> {
        match self.cdw10.get() >> 30 {
            0 => Some(PersistChange::Keep),
            2 => Some(PersistChange::Off),
            3 => Some(PersistChange::On),
            _ => None,
        }
    }

    /// NUMD of Report: bytes the host wants.
    #[must_use]
    pub fn report_len(&self) -> u64 {
        (u64::from(self.cdw10.get()) + 1) * 4
    }

    /// EDS of Report: the extended data structure.
    #[must_use]
    pub fn report_is_extended(&self) -> bool {
        self.cdw11.get() & 1 != 0
    }
}

/// The reservation status header (Base figure 446), 24 bytes; followed by 40 reserved ones in the
/// extended format (figure 447).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ReservationStatusHeader {
    /// GEN: counts changes of registrations and reservations.
    pub generation: U32,
    /// RTYPE: type held, 0 for none.
    pub kind: u8,
    /// REGSTRNT: registrants, and entries that follow.
    pub registrants: U16,
    reserved7: [u8; 2],
    /// PTPLS: whether reservations persist through power loss.
    pub persist: u8,
    reserved10: [u8; 14],
}
layout!(ReservationStatusHeader, 24, generation @ 0, kind @ 4, registrants @ 5, persist @ 9);

/// Bytes of the extended status header.
pub const EXTENDED_HEADER_LEN: usize = 64;

/// CNTLID of a registrant in a subsystem with dynamic controllers.
pub const CNTLID_DYNAMIC: u16 = 0xffff;

/// A registrant with a 64-bit host identifier (Base figure 448).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Registrant {
    /// CNTLID: the registrant's controller, or [`CNTLID_DYNAMIC`].
    pub cntlid: U16,
    /// RCSTS bit 0: holds the reservation.
    pub status: u8,
    reserved3: [u8; 5],
    /// HOSTID: 64-bit host identifier.
    pub host_id: U64,
    /// RKEY: reservation key.
    pub key: U64,
}
layout!(Registrant, 24, cntlid @ 0, status @ 2, host_id @ 8, key @ 16);

/// A registrant with a 128-bit host identifier (Base figure 449).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RegistrantExtended {
    /// CNTLID: the registrant's controller, or [`CNTLID_DYNAMIC`].
    pub cntlid: U16,
    /// RCSTS bit 0: holds the reservation.
    pub status: u8,
    reserved3: [u8; 5],
    /// RKEY: reservation key.
    pub key: U64,
    /// HOSTID: 128-bit host identifier.
    pub host_id: HostId,
    reserved32: [u8; 32],
}
layout!(RegistrantExtended, 64, cntlid @ 0, status @ 2, key @ 8, host_id @ 16);

/// One registrant of a reservation status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrantStatus {
    /// The registrant's controller, or [`CNTLID_DYNAMIC`].
    pub cntlid: u16,
    /// Whether it holds the reservation.
    pub holder: bool,
    /// Its key.
    pub key: u64,
    /// Its host identifier; in the 64-bit format, the first 8 bytes.
    pub host_id: HostId,
}

/// A namespace's reservation status, in either format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationStatus {
    /// Counts changes of registrations and reservations.
    pub generation: u32,
    /// Type held, if any.
    pub kind: Option<ReservationType>,
    /// Whether reservations persist through power loss.
    pub persist: bool,
    /// The registrants. A host that asked for too few bytes sees only the first.
    pub registrants: Vec<RegistrantStatus>,
}

impl ReservationStatus {
    /// The structure's bytes in the extended or the 64-bit format; the caller cuts them to the
    /// length that the host asked for.
    #[must_use]
    pub fn to_bytes(&self, extended: bool) -> Vec<u8> {
        let header = ReservationStatusHeader {
            generation: U32::new(self.generation),
            kind: self.kind.map_or(0, |kind| kind as u8),
            registrants: U16::new(self.registrants.len().try_into().unwrap_or(u16::MAX)),
            persist: u8::from(self.persist),
            ..ReservationStatusHeader::new_zeroed()
        };
        let mut bytes = header.as_bytes().to_vec();
        if extended {
            bytes.resize(EXTENDED_HEADER_LEN, 0);
        }
        for r in &self.registrants {
            let (cntlid, status, key) = (U16::new(r.cntlid), u8::from(r.holder), U64::new(r.key));
            if extended {
                let entry = RegistrantExtended {
                    cntlid,
                    status,
                    key,
                    host_id: r.host_id,
                    ..RegistrantExtended::new_zeroed()
                };
                bytes.extend_from_slice(entry.as_bytes());
            } else {
                let mut short = [0; 8];
                short.copy_from_slice(&r.host_id.0[..8]);
                let host_id = U64::from_bytes(short);
                let entry = Registrant {
                    cntlid,
                    status,
                    key,
                    host_id,
                    ..Registrant::new_zeroed()
                };
                bytes.extend_from_slice(entry.as_bytes());
            }
        }
        bytes
    }

    /// Reads a status; as many registrants as `bytes` holds whole, at most those announced.
    ///
    /// # Errors
    /// [`FormatError::Short`] without a whole header; [`FormatError::Field`] for an undefined type.
    pub fn parse(bytes: &[u8], extended: bool) -> Result<Self, FormatError> {
        const WHAT: &str = "reservation status";
        let header: ReservationStatusHeader = read_prefix(WHAT, bytes)?;
        let kind = match header.kind {
            0 => None,
            code => Some(ReservationType::from_code(code).ok_or(FormatError::Field {
                what: WHAT,
                offset: 4,
            })?),
        };
        let (header_len, entry_len) = if extended {
            (EXTENDED_HEADER_LEN, 64)
        } else {
            (24, 24)
        };
        let registrants = bytes
            .get(header_len..)
            .unwrap_or_default()
            .chunks_exact(entry_len)
            .take(usize::from(header.registrants.get()))
            .map(|entry| parse_registrant(WHAT, entry, extended))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            generation: header.generation.get(),
            kind,
            persist: header.persist & 1 != 0,
            registrants,
        })
    }
}

fn parse_registrant(
    what: &'static str,
    entry: &[u8],
    extended: bool,
) -> Result<RegistrantStatus, FormatError> {
    if extended {
        let e: RegistrantExtended = read_prefix(what, entry)?;
        let holder = e.status & 1 != 0;
        return Ok(RegistrantStatus {
            cntlid: e.cntlid.get(),
            holder,
            key: e.key.get(),
            host_id: e.host_id,
        });
    }
    let e: Registrant = read_prefix(what, entry)?;
    let mut host_id = [0; 16];
    host_id[..8].copy_from_slice(e.host_id.as_bytes());
    let holder = e.status & 1 != 0;
    Ok(RegistrantStatus {
        cntlid: e.cntlid.get(),
        holder,
        key: e.key.get(),
        host_id: HostId(host_id),
    })
}
