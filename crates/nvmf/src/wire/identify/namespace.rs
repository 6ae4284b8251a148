//! The Identify Namespace data structures: NVM command set (CNS 00h, NVM figure 97), its extension
//! (CNS 05h, NVM figure 100) and the part independent of the command set (CNS 08h, Base 5.17.2.8).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::IDENTIFY_LEN;
use crate::wire::{FormatError, layout, read_prefix};

/// An LBA format (NVM figure 98).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LbaFormat {
    /// MS: metadata bytes per block.
    pub metadata_size: U16,
    /// LBADS: block size as a power of two; 0 if the format is not available.
    pub data_size: u8,
    /// RP (bits 1:0): relative performance, 0 the best.
    pub relative_performance: u8,
}
layout!(LbaFormat, 4, metadata_size @ 0, data_size @ 2, relative_performance @ 3);

/// Identify Namespace, NVM command set.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// NSZE: size in blocks.
    pub nsze: U64,
    /// NCAP: capacity in blocks.
    pub ncap: U64,
    /// NUSE: utilization in blocks.
    pub nuse: U64,
    /// NSFEAT: bit 0 thin, 1 atomics of its own, 2 deallocated-block errors, 4 optimal I/O fields.
    pub nsfeat: u8,
    /// NLBAF: LBA formats, 0's based.
    pub nlbaf: u8,
    /// FLBAS: format in use, bits 3:0 and 6:5; 4 metadata interleaved.
    pub flbas: u8,
    /// MC: metadata capabilities.
    pub mc: u8,
    /// DPC: protection capabilities.
    pub dpc: u8,
    /// DPS: protection settings.
    pub dps: u8,
    /// NMIC: bit 0 shared between controllers.
    pub nmic: u8,
    /// RESCAP: reservation capabilities; bit 0 persistence, 1 to 6 the types, 7 IEKEY of 1.3.
    pub rescap: u8,
    /// FPI: format progress.
    pub fpi: u8,
    /// DLFEAT: bits 2:0 content of deallocated blocks (1 zeroes), 3 Write Zeroes may deallocate.
    pub dlfeat: u8,
    /// NAWUN: atomic write unit normal, blocks, 0's based.
    pub nawun: U16,
    /// NAWUPF: atomic write unit power fail, blocks, 0's based.
    pub nawupf: U16,
    /// NACWU: atomic compare and write unit, blocks, 0's based.
    pub nacwu: U16,
    /// NABSN: atomic boundary size normal, blocks, 0's based.
    pub nabsn: U16,
    /// NABO: atomic boundary offset.
    pub nabo: U16,
    /// NABSPF: atomic boundary size power fail, blocks, 0's based.
    pub nabspf: U16,
    /// NOIOB: optimal I/O boundary, blocks.
    pub noiob: U16,
    /// NVMCAP: size in bytes.
    pub nvmcap: [u8; 16],
    /// NPWG: preferred write granularity, blocks, 0's based.
    pub npwg: U16,
    /// NPWA: preferred write alignment, blocks, 0's based.
    pub npwa: U16,
    /// NPDG: preferred deallocate granularity, blocks, 0's based.
    pub npdg: U16,
    /// NPDA: preferred deallocate alignment, blocks, 0's based.
    pub npda: U16,
    /// NOWS: optimal write size, blocks, 0's based.
    pub nows: U16,
    /// MSSRL: most blocks of one Copy source range.
    pub mssrl: U16,
    /// MCL: most blocks of one Copy.
    pub mcl: U32,
    /// MSRC: most source ranges of one Copy, 0's based.
    pub msrc: u8,
    reserved81: [u8; 11],
    /// ANAGRPID: ANA group.
    pub anagrpid: U32,
    reserved96: [u8; 3],
    /// NSATTR: bit 0 write protected.
    pub nsattr: u8,
    /// NVMSETID: NVM set.
    pub nvmsetid: U16,
    /// ENDGID: endurance group.
    pub endgid: U16,
    /// NGUID.
    pub nguid: [u8; 16],
    /// EUI64.
    pub eui64: [u8; 8],
    /// LBAF: LBA formats.
    pub lbaf: [LbaFormat; 64],
    /// Vendor specific.
    pub vendor: [u8; 3712],
}
layout!(IdentifyNamespace, IDENTIFY_LEN,
    nsze @ 0, ncap @ 8, nuse @ 16, nsfeat @ 24, nlbaf @ 25, flbas @ 26, mc @ 27, dpc @ 28, dps @ 29, nmic @ 30,
    rescap @ 31, fpi @ 32, dlfeat @ 33, nawun @ 34, nawupf @ 36, nacwu @ 38, nabsn @ 40, nabo @ 42, nabspf @ 44,
    noiob @ 46, nvmcap @ 48, npwg @ 64, npwa @ 66, npdg @ 68, npda @ 70, nows @ 72, mssrl @ 74, mcl @ 76,
    msrc @ 80, anagrpid @ 92, nsattr @ 99, nvmsetid @ 100, endgid @ 102, nguid @ 104, eui64 @ 120, lbaf @ 128,
    vendor @ 384);

impl IdentifyNamespace {
    /// Reads the structure.
    ///
    /// # Errors
    /// [`FormatError::Short`] with fewer than 4096 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        read_prefix("identify namespace", bytes)
    }

    /// The index of the LBA format in use: FLBAS bits 3:0, with bits 6:5 above them.
    #[must_use]
    pub fn format_index(&self) -> usize {
        usize::from(self.flbas & 0xf | self.flbas >> 1 & 0x30)
    }

    /// Bytes of a logical block, if the format in use says a size from 512 to 64 KiB and no
    /// metadata.
    #[must_use]
    pub fn block_size(&self) -> Option<u32> {
        let format = self.lbaf.get(self.format_index())?;
        let plain = format.metadata_size.get() == 0 && (9..=16).contains(&format.data_size);
        plain.then(|| 1 << format.data_size)
    }
}

/// Namespace, NVM command set extension (CNS 05h, CSI 0).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IdentifyNamespaceNvm {
    /// LBSTM: logical block storage tag mask.
    pub lbstm: U64,
    /// PIC: protection information capabilities.
    pub pic: u8,
    reserved9: [u8; 3],
    /// ELBAF: extended LBA formats.
    pub elbaf: [U32; 64],
    reserved268: [u8; 3828],
}
layout!(IdentifyNamespaceNvm, IDENTIFY_LEN, lbstm @ 0, pic @ 8, elbaf @ 12);

/// Namespace, independent of the I/O command set (CNS 08h).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IdentifyNamespaceIndependent {
    /// NSFEAT: bit 4 rotational media.
    pub nsfeat: u8,
    /// NMIC: bit 0 shared between controllers.
    pub nmic: u8,
    /// RESCAP: reservation capabilities, as in [`IdentifyNamespace`].
    pub rescap: u8,
    /// FPI: format progress.
    pub fpi: u8,
    /// ANAGRPID: ANA group.
    pub anagrpid: U32,
    /// NSATTR: bit 0 write protected.
    pub nsattr: u8,
    reserved9: u8,
    /// NVMSETID: NVM set.
    pub nvmsetid: U16,
    /// ENDGID: endurance group.
    pub endgid: U16,
    /// NSTAT: bit 0 ready.
    pub nstat: u8,
    reserved15: [u8; 4081],
}
layout!(IdentifyNamespaceIndependent, IDENTIFY_LEN, nsfeat @ 0, nmic @ 1, rescap @ 2, fpi @ 3, anagrpid @ 4,
    nsattr @ 8, nvmsetid @ 10, endgid @ 12, nstat @ 14);
