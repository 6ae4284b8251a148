//! Identify (Base 5.17): the command and its data structures.
//!
//! Filled in by the target, read by the initiator. Each structure is 4096 bytes.

mod controller;
mod namespace;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use controller::{IdentifyController, PowerState};
pub use namespace::{
    IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, LbaFormat,
};

use super::command::{Nsid, Sqe};
use super::opcode::admin;
use super::{FormatError, layout};

/// Bytes of every Identify data structure.
pub const IDENTIFY_LEN: usize = 4096;
/// Entries of a namespace list.
pub const NAMESPACE_LIST_MAX: usize = 1024;
/// CSI of the NVM command set.
pub const CSI_NVM: u8 = 0;

/// CNS values: which data structure (Base figure 273).
pub mod cns {
    /// Namespace, NVM command set.
    pub const NAMESPACE: u8 = 0x00;
    /// Controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Active namespace IDs.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// Namespace identification descriptors.
    pub const NAMESPACE_DESCRIPTORS: u8 = 0x03;
    /// Namespace, by I/O command set.
    pub const NAMESPACE_CSI: u8 = 0x05;
    /// Controller, by I/O command set.
    pub const CONTROLLER_CSI: u8 = 0x06;
    /// Active namespace IDs, by I/O command set.
    pub const ACTIVE_NAMESPACES_CSI: u8 = 0x07;
    /// Namespace, independent of the I/O command set.
    pub const NAMESPACE_INDEPENDENT: u8 = 0x08;
    /// Allocated namespace IDs.
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    /// Allocated namespace.
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    /// Controllers attached to a namespace.
    pub const NAMESPACE_CONTROLLERS: u8 = 0x12;
    /// Controllers of the subsystem.
    pub const CONTROLLERS: u8 = 0x13;
    /// I/O command sets.
    pub const IO_COMMAND_SETS: u8 = 0x1c;
}

/// Identify of this CNS, namespace and command set.
#[must_use]
pub fn command(cns: u8, nsid: Nsid, csi: u8) -> Sqe {
    let mut sqe = Sqe::new(admin::IDENTIFY, nsid);
    sqe.cdw10 = U32::new(u32::from(cns));
    sqe.cdw11 = U32::new(u32::from(csi) << 24);
    sqe
}

/// The fields of Identify.
impl Sqe {
    /// CNS (CDW10 bits 7:0).
    #[must_use]
    pub fn identify_cns(&self) -> u8 {
        self.cdw10.get() as u8
    }

    /// CNTID (CDW10 bits 31:16).
    #[must_use]
    pub fn identify_cntid(&self) -> u16 {
        (self.cdw10.get() >> 16) as u16
    }

    /// CSI (CDW11 bits 31:24).
    #[must_use]
    pub fn identify_csi(&self) -> u8 {
        (self.cdw11.get() >> 24) as u8
    }
}

/// A namespace list (CNS 02h, 07h, 10h): ascending IDs, ended by a zero or by its size.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NamespaceList(pub [U32; NAMESPACE_LIST_MAX]);
layout!(NamespaceList, IDENTIFY_LEN);

impl NamespaceList {
    /// A list of the first [`NAMESPACE_LIST_MAX`] of `nsids`, which must ascend.
    pub fn new(nsids: impl IntoIterator<Item = Nsid>) -> Self {
        let mut list = [U32::ZERO; NAMESPACE_LIST_MAX];
        for (entry, nsid) in list.iter_mut().zip(nsids) {
            *entry = U32::new(nsid.0);
        }
        Self(list)
    }

    /// The IDs up to the first zero.
    pub fn iter(&self) -> impl Iterator<Item = Nsid> {
        self.0
            .iter()
            .map(|id| Nsid(id.get()))
            .take_while(|id| *id != Nsid::NONE)
    }
}

/// A namespace identification descriptor (CNS 03h, Base figure 276).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceDescriptor {
    /// NIDT 1h: EUI-64.
    Eui64([u8; 8]),
    /// NIDT 2h: NGUID.
    Nguid([u8; 16]),
    /// NIDT 3h: UUID.
    Uuid([u8; 16]),
    /// NIDT 4h: command set identifier.
    Csi(u8),
}

impl NamespaceDescriptor {
    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Eui64(id) => (1, id),
            Self::Nguid(id) => (2, id),
            Self::Uuid(id) => (3, id),
            Self::Csi(csi) => (4, std::slice::from_ref(csi)),
        }
    }
}

/// The 4096 bytes of a descriptor list.
///
/// # Panics
/// If the descriptors do not fit, which takes more than 200 of them.
#[must_use]
pub fn descriptor_list(descriptors: &[NamespaceDescriptor]) -> Box<[u8; IDENTIFY_LEN]> {
    let mut list = Box::new([0; IDENTIFY_LEN]);
    let mut at = 0;
    for descriptor in descriptors {
        let (kind, id) = descriptor.parts();
        list[at] = kind;
        list[at + 1] = id.len() as u8;
        list[at + 4..at + 4 + id.len()].copy_from_slice(id);
        at += 4 + id.len();
    }
    list
}

/// Reads a descriptor list; descriptors of types not known here are skipped.
///
/// # Errors
/// [`FormatError`] for a length that is not its type's, or that runs past the end.
pub fn parse_descriptor_list(bytes: &[u8]) -> Result<Vec<NamespaceDescriptor>, FormatError> {
    const WHAT: &str = "namespace identification descriptors";
    let bytes = &bytes[..bytes.len().min(IDENTIFY_LEN)];
    let mut descriptors = Vec::new();
    let mut at = 0;
    while let Some(&[kind, len, _, _]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        if len == 0 {
            break;
        }
        let end = at + 4 + usize::from(len);
        let id = bytes.get(at + 4..end).ok_or(FormatError::Short {
            what: WHAT,
            got: bytes.len(),
            need: end,
        })?;
        let wrong = FormatError::Field {
            what: WHAT,
            offset: at + 1,
        };
        match kind {
            1 => descriptors.push(NamespaceDescriptor::Eui64(
                id.try_into().map_err(|_| wrong)?,
            )),
            2 => descriptors.push(NamespaceDescriptor::Nguid(
                id.try_into().map_err(|_| wrong)?,
            )),
            3 => descriptors.push(NamespaceDescriptor::Uuid(id.try_into().map_err(|_| wrong)?)),
            4 => match id {
                [csi] => descriptors.push(NamespaceDescriptor::Csi(*csi)),
                _ => return Err(wrong),
            },
            _ => {}
        }
        at = end;
    }
    Ok(descriptors)
}

/// Controller, NVM command set (CNS 06h, CSI 0; NVM 4.1.5.2).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IdentifyControllerNvm {
    /// VSL: verify size limit, as a power of two of CAP.MPSMIN pages; 0 for none.
    pub verify_size_limit: u8,
    /// WZSL: write zeroes size limit, likewise.
    pub write_zeroes_size_limit: u8,
    /// WUSL: write uncorrectable size limit, likewise.
    pub write_uncorrectable_size_limit: u8,
    /// DMRL: most ranges of a Dataset Management; 0 for no limit.
    pub dsm_ranges_limit: u8,
    /// DMRSL: most blocks of one range; 0 for no limit.
    pub dsm_range_size_limit: U32,
    /// DMSL: most blocks of all ranges; 0 for no limit.
    pub dsm_size_limit: U64,
    reserved16: [u8; 4080],
}
layout!(IdentifyControllerNvm, IDENTIFY_LEN, verify_size_limit @ 0, write_zeroes_size_limit @ 1,
    write_uncorrectable_size_limit @ 2, dsm_ranges_limit @ 3, dsm_range_size_limit @ 4, dsm_size_limit @ 8);

/// I/O command sets (CNS 1Ch, Base 5.17.2.21): the combinations supported, one vector each.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IoCommandSets(pub [U64; 512]);
layout!(IoCommandSets, IDENTIFY_LEN);
