//! The Discovery log page (Base 5.16.1.23, TCP 3.1.1 for the transport specific part).

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire::nqn::NqnField;
use crate::wire::{FormatError, layout, read_prefix};

/// TRTYPE: a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TransportType {
    /// RDMA.
    Rdma = 1,
    /// Fibre Channel.
    FibreChannel = 2,
    /// TCP.
    Tcp = 3,
    /// Within one host.
    IntraHost = 254,
}

/// ADRFAM: an address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AddressFamily {
    /// IPv4.
    Ipv4 = 1,
    /// IPv6.
    Ipv6 = 2,
    /// InfiniBand.
    InfiniBand = 3,
    /// Fibre Channel.
    FibreChannel = 4,
    /// Within one host.
    IntraHost = 254,
}

/// SUBTYPE: the kind of subsystem that an entry leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SubsystemType {
    /// Another discovery service.
    Referral = 1,
    /// A subsystem with namespaces.
    Nvm = 2,
    /// This discovery subsystem itself.
    CurrentDiscovery = 3,
}

bitflags! {
    /// EFLAGS of an entry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct DiscoveryFlags: u16 {
        /// DUPRETINFO: every path returns the same information.
        const DUPLICATE_INFO = 1 << 0;
        /// EPCSD: explicit persistent connections are supported.
        const PERSISTENT = 1 << 1;
        /// NCC: no discovery controller is connected to a central one.
        const NO_CENTRAL = 1 << 2;
    }
}

/// TREQ: a secure channel is required (bits 1:0 = 1).
pub const TREQ_SECURE_REQUIRED: u8 = 1;
/// TREQ: a secure channel is not required (bits 1:0 = 2).
pub const TREQ_SECURE_NOT_REQUIRED: u8 = 2;
/// TREQ bit 2: the controller can do without SQ flow control.
pub const TREQ_NO_SQ_FLOW_CONTROL: u8 = 1 << 2;
/// RDMA_QPTYPE, byte 0 of TSAS: reliable connected queue pairs.
pub const RDMA_QPTYPE_CONNECTED: u8 = 1;
/// RDMA_PRTYPE, byte 1 of TSAS: any provider.
pub const RDMA_PRTYPE_UNSPECIFIED: u8 = 1;
/// RDMA_CMS, byte 2 of TSAS: the connection manager with IP addresses.
pub const RDMA_CMS_IP: u8 = 1;
/// The value of CNTLID in entries of the dynamic controller model.
pub const CNTLID_DYNAMIC: u16 = 0xffff;

/// The page's header (Base figure 264).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// GENCTR: counts changes of the page.
    pub generation: U64,
    /// NUMREC: entries that follow.
    pub record_count: U64,
    /// RECFMT: 0.
    pub record_format: U16,
    reserved18: [u8; 1006],
}
layout!(DiscoveryHeader, 1024, generation @ 0, record_count @ 8, record_format @ 16);

impl DiscoveryHeader {
    /// A header for `record_count` entries.
    #[must_use]
    pub fn new(generation: u64, record_count: u64) -> Self {
        Self {
            generation: U64::new(generation),
            record_count: U64::new(record_count),
            ..Self::new_zeroed()
        }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`FormatError::Short`] with fewer than 1024 bytes; [`FormatError::Field`] for a record
    /// format other than 0.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        const WHAT: &str = "discovery log page";
        let header: Self = read_prefix(WHAT, bytes)?;
        if header.record_format.get() != 0 {
            return Err(FormatError::Field {
                what: WHAT,
                offset: 16,
            });
        }
        Ok(header)
    }
}

/// An entry (Base figure 265).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DiscoveryEntry {
    /// TRTYPE; see [`TransportType`].
    pub trtype: u8,
    /// ADRFAM; see [`AddressFamily`].
    pub adrfam: u8,
    /// SUBTYPE; see [`SubsystemType`].
    pub subtype: u8,
    /// TREQ: transport requirements.
    pub treq: u8,
    /// PORTID: the port of the subsystem.
    pub portid: U16,
    /// CNTLID: the controller, or [`CNTLID_DYNAMIC`].
    pub cntlid: U16,
    /// ASQSZ: most entries of the admin submission queue, at least 32.
    pub asqsz: U16,
    /// EFLAGS; see [`DiscoveryFlags`].
    pub eflags: U16,
    reserved12: [u8; 20],
    /// TRSVCID: for TCP the port in decimal, ASCII.
    pub trsvcid: [u8; 32],
    reserved64: [u8; 192],
    /// SUBNQN.
    pub subnqn: NqnField,
    /// TRADDR: for TCP an IP address, ASCII.
    pub traddr: [u8; 256],
    /// TSAS: for TCP byte 0 is SECTYPE: 0 none, 1 TLS 1.2, 2 TLS 1.3.
    pub tsas: [u8; 256],
}
layout!(DiscoveryEntry, 1024, trtype @ 0, adrfam @ 1, subtype @ 2, treq @ 3, portid @ 4, cntlid @ 6, asqsz @ 8,
    eflags @ 10, trsvcid @ 32, subnqn @ 256, traddr @ 512, tsas @ 768);

/// A page, or as much of it as was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryLog {
    /// GENCTR.
    pub generation: u64,
    /// The entries read.
    pub entries: Vec<DiscoveryEntry>,
}

impl DiscoveryLog {
    /// The page's bytes; the caller cuts them to the length that the host asked for.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = DiscoveryHeader::new(self.generation, self.entries.len() as u64);
        [header.as_bytes(), self.entries.as_bytes()].concat()
    }

    /// Reads a whole page.
    ///
    /// # Errors
    /// [`FormatError`] as [`DiscoveryHeader::parse`], and if an announced entry is missing.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let header = DiscoveryHeader::parse(bytes)?;
        let records = &bytes[size_of::<DiscoveryHeader>()..];
        let announced = usize::try_from(header.record_count.get()).unwrap_or(usize::MAX);
        let (entries, _) = <[DiscoveryEntry]>::ref_from_prefix_with_elems(records, announced)
            .map_err(|_| {
                let need = announced.saturating_add(1).saturating_mul(1024);
                FormatError::Short {
                    what: "discovery log page",
                    got: bytes.len(),
                    need,
                }
            })?;
        Ok(Self {
            generation: header.generation.get(),
            entries: entries.to_vec(),
        })
    }
}
