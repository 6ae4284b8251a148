//! The submission queue entry (Base 3.3.3.1) with its one SGL descriptor (Base 4.1.2), and the
//! fields that NVM I/O commands share (NVM 3.2).
//!
//! Built by the initiator, read by the controller. Fabrics commands use SGLs only, and on NVMe/TCP
//! exactly one descriptor, in the entry itself (TCP 3.2). NVMe/RDMA announces one as well (MSDBD).

use std::fmt;

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout;

/// Bytes of a submission queue entry.
pub const SQE_LEN: usize = 64;

/// A command identifier: names one outstanding command of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cid(pub u16);

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}h", self.0)
    }
}

/// A namespace identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nsid(pub u32);

impl Nsid {
    /// No namespace.
    pub const NONE: Self = Self(0);
    /// The broadcast value: every namespace.
    pub const ALL: Self = Self(0xffff_ffff);
}

impl fmt::Display for Nsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A submission queue entry, as it lies in a command capsule.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Sqe {
    /// OPC: the opcode.
    pub opcode: u8,
    /// FUSE (bits 1:0) and PSDT (bits 7:6).
    pub flags: u8,
    /// CID: the command identifier.
    pub cid: U16,
    /// NSID. In a fabrics command, byte 4 is the fabrics command type and the rest is reserved.
    pub nsid: U32,
    /// Command dword 2.
    pub cdw2: U32,
    /// Command dword 3.
    pub cdw3: U32,
    /// MPTR: the metadata pointer; reserved in fabrics.
    pub mptr: U64,
    /// DPTR: SGL descriptor 1.
    pub sgl: SglDescriptor,
    /// Command dword 10.
    pub cdw10: U32,
    /// Command dword 11.
    pub cdw11: U32,
    /// Command dword 12.
    pub cdw12: U32,
    /// Command dword 13.
    pub cdw13: U32,
    /// Command dword 14.
    pub cdw14: U32,
    /// Command dword 15.
    pub cdw15: U32,
}
layout!(Sqe, 64, opcode @ 0, flags @ 1, cid @ 2, nsid @ 4, cdw2 @ 8, cdw3 @ 12, mptr @ 16, sgl @ 24,
    cdw10 @ 40, cdw11 @ 44, cdw12 @ 48, cdw13 @ 52, cdw14 @ 56, cdw15 @ 60);

/// The role of a command in a fused operation (FUSE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fuse {
    /// Not part of a fused operation.
    Normal,
    /// The first command of a pair.
    First,
    /// The second command of a pair.
    Second,
    /// 11b.
    Reserved,
}

/// How a command names its data (PSDT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Psdt {
    /// PRPs, which fabrics does not use.
    Prp,
    /// SGL, metadata in a contiguous buffer; used by fabrics commands.
    Sgl,
    /// SGL, metadata by an SGL segment too.
    SglMetadataSgl,
    /// 11b.
    Reserved,
}

/// PSDT value 01b in the flags byte.
const FLAGS_SGL: u8 = 0b01 << 6;

impl Sqe {
    /// A command with the given opcode, SGL data and no data; its CID is for the queue to set.
    #[must_use]
    pub fn new(opcode: u8, nsid: Nsid) -> Self {
        Self {
            opcode,
            flags: FLAGS_SGL,
            nsid: U32::new(nsid.0),
            ..Self::new_zeroed()
        }
    }

    /// The command identifier.
    #[must_use]
    pub fn cid(&self) -> Cid {
        Cid(self.cid.get())
    }

    /// The namespace identifier.
    #[must_use]
    pub fn nsid(&self) -> Nsid {
        Nsid(self.nsid.get())
    }

    /// The fabrics command type: byte 4.
    #[must_use]
    pub fn fabrics_type(&self) -> u8 {
        self.nsid.get() as u8
    }

    /// The role in a fused operation.
    #[must_use]
    pub fn fuse(&self) -> Fuse {
        match self.flags & 0b11 {
            0 => Fuse::Normal,
            1 => Fuse::First,
            2 => Fuse::Second,
            _ => Fuse::Reserved,
        }
    }

    /// Sets the role in a fused operation.
    #[must_use]
    pub fn with_fuse(mut self, fuse: Fuse) -> Self {
        let bits = match fuse {
            Fuse::Normal => 0,
            Fuse::First => 1,
            Fuse::Second => 2,
            Fuse::Reserved => 3,
        };
        self.flags = self.flags & !0b11 | bits;
        self
    }

    /// How the command names its data.
    #[must_use]
    pub fn psdt(&self) -> Psdt {
        match self.flags >> 6 {
            0 => Psdt::Prp,
            1 => Psdt::Sgl,
            2 => Psdt::SglMetadataSgl,
            _ => Psdt::Reserved,
        }
    }

    /// CDW11:CDW10 as one value: the starting LBA of an I/O command.
    #[must_use]
    pub fn slba(&self) -> u64 {
        u64::from(self.cdw11.get()) << 32 | u64::from(self.cdw10.get())
    }

    /// Sets the starting LBA in CDW11:CDW10.
    pub fn set_slba(&mut self, slba: u64) {
        self.cdw10 = U32::new(slba as u32);
        self.cdw11 = U32::new((slba >> 32) as u32);
    }

    /// The number of logical blocks of an I/O command: NLB, which is 0's based on the wire.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        (self.cdw12.get() & 0xffff) + 1
    }

    /// The flags of a Read, Write, Compare, Verify, Write Zeroes or Copy command.
    #[must_use]
    pub fn io_flags(&self) -> IoFlags {
        IoFlags::from_bits_truncate(self.cdw12.get())
    }
}

impl fmt::Debug for Sqe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Sqe {{ opcode: {:02x}h, flags: {:02x}h, cid: {}, nsid: {:x}h, sgl: {:?}, cdw10..15: {:x?} }}",
            self.opcode,
            self.flags,
            self.cid(),
            self.nsid.get(),
            self.sgl,
            [
                self.cdw10, self.cdw11, self.cdw12, self.cdw13, self.cdw14, self.cdw15
            ]
            .map(U32::get),
        )
    }
}

bitflags! {
    /// Bits of CDW12 of the NVM I/O commands (NVM 3.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct IoFlags: u32 {
        /// STC: storage tag check.
        const STORAGE_TAG_CHECK = 1 << 24;
        /// DEAC (Write Zeroes): the blocks may be deallocated.
        const DEALLOCATE = 1 << 25;
        /// PRINFO: check the reference tag.
        const PRCHK_REFERENCE = 1 << 26;
        /// PRINFO: check the application tag.
        const PRCHK_APPLICATION = 1 << 27;
        /// PRINFO: check the guard.
        const PRCHK_GUARD = 1 << 28;
        /// PRINFO: protection information action.
        const PRACT = 1 << 29;
        /// FUA: force unit access.
        const FUA = 1 << 30;
        /// LR: limited retry.
        const LIMITED_RETRY = 1 << 31;
    }
}

/// An SGL descriptor (Base 4.1.2): 16 bytes whose last names type and sub type.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SglDescriptor {
    /// Address, or offset, by type.
    pub address: U64,
    /// Bytes of data.
    pub length: U32,
    /// Of a keyed data block, a part of the key; else reserved.
    reserved: [u8; 3],
    /// Sub type (bits 3:0) and type (bits 7:4).
    pub identifier: u8,
}
layout!(SglDescriptor, 16, address @ 0, length @ 8, identifier @ 15);

/// Type 0h (data block), sub type 1h (offset): data within the capsule.
const SGL_IN_CAPSULE: u8 = 0x01;
/// Type 4h (keyed data block), sub type 0h (address): the host's memory by its key.
const SGL_KEYED: u8 = 0x40;
/// Type 4h (keyed data block), sub type Fh (NVMe transport specific: the key is to be invalidated with the reply).
const SGL_KEYED_INVALIDATE: u8 = 0x4f;
/// Type 5h (transport data block), sub type Ah (transport specific).
const SGL_TRANSPORT: u8 = 0x5a;

/// Longest keyed data block, bytes.
pub const KEYED_LENGTH_MAX: u32 = 0x00ff_ffff;

/// The typed form of an SGL descriptor (Base 4.1.2, TCP 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sgl {
    /// Data in the command capsule, `offset` bytes after the capsule's in-capsule data begins.
    InCapsule {
        /// Bytes from the beginning of the in-capsule data.
        offset: u64,
        /// Bytes of data.
        length: u32,
    },
    /// Data by H2CData or C2HData PDUs.
    Transport {
        /// Bytes of data.
        length: u32,
    },
    /// Data in the host's memory, by RDMA. Hosts send one without bytes with commands that transfer no data.
    Keyed {
        /// Address in the host's terms.
        address: u64,
        /// Bytes of memory; 24 bits.
        length: u32,
        /// The key to it.
        key: u32,
        /// The host wants the key to be invalidated with the reply.
        invalidate: bool,
    },
    /// All zero: a data block of no bytes at address 0, which hosts send with commands that
    /// transfer no data.
    Empty,
    /// Any other type, which fabrics does not allow.
    Unsupported {
        /// The type and sub type byte.
        identifier: u8,
    },
}

impl SglDescriptor {
    /// The descriptor's bytes for `sgl`. [`Sgl::Unsupported`] keeps only its identifier.
    #[must_use]
    pub fn new(sgl: Sgl) -> Self {
        let (address, length, identifier) = match sgl {
            Sgl::Keyed {
                address,
                length,
                key,
                invalidate,
            } => return Self::keyed(address, length, key, invalidate),
            Sgl::InCapsule { offset, length } => (offset, length, SGL_IN_CAPSULE),
            Sgl::Transport { length } => (0, length, SGL_TRANSPORT),
            Sgl::Empty => (0, 0, 0),
            Sgl::Unsupported { identifier } => (0, 0, identifier),
        };
        Self {
            address: U64::new(address),
            length: U32::new(length),
            reserved: [0; 3],
            identifier,
        }
    }

    /// A keyed data block (Base 4.1.2.1): bytes 8 to 10 are the length, 11 to 14 the key.
    fn keyed(address: u64, length: u32, key: u32, invalidate: bool) -> Self {
        let [key0, rest @ ..] = key.to_le_bytes();
        Self {
            address: U64::new(address),
            length: U32::new(length & KEYED_LENGTH_MAX | u32::from(key0) << 24),
            reserved: rest,
            identifier: match invalidate {
                true => SGL_KEYED_INVALIDATE,
                false => SGL_KEYED,
            },
        }
    }

    /// The typed form of the descriptor.
    #[must_use]
    pub fn parse(&self) -> Sgl {
        let length = self.length.get();
        match self.identifier {
            identifier @ (SGL_KEYED | SGL_KEYED_INVALIDATE) => {
                let [b1, b2, b3] = self.reserved;
                Sgl::Keyed {
                    address: self.address.get(),
                    length: length & KEYED_LENGTH_MAX,
                    key: u32::from_le_bytes([(length >> 24) as u8, b1, b2, b3]),
                    invalidate: identifier == SGL_KEYED_INVALIDATE,
                }
            }
            SGL_IN_CAPSULE => Sgl::InCapsule {
                offset: self.address.get(),
                length,
            },
            SGL_TRANSPORT => Sgl::Transport { length },
            0 if length == 0 => Sgl::Empty,
            identifier => Sgl::Unsupported { identifier },
        }
    }
}

impl fmt::Debug for SglDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parse().fmt(f)
    }
}
