//! Relocations: the new addresses of blocks that were moved while their pointers stay as they are.
//!
//! **Owns** their entries in the pool's own tree. **Called by** the opening of a pool, by the owner, and by offline readers. **Invariants**:
//! an entry is of one block, which the address and the placement in its pointer name for ever; as for all formats, one value has one
//! encoding. `docs/format.md`, "Relocated blocks".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    Address, Birth, BlockPtr, COUNT_END, Defect, Key, Kind, OFFSET_END, ObjectId, SECTOR_SIZE_MIN,
    VdevId, VdevOffset, layout,
};

/// Kind of the keys of relocations. The object is the vdev in the pointer, in the upper 16 bits, and the placement; the offset is
/// the offset in the pointer in units of [`SECTOR_SIZE_MIN`].
pub const KIND_RELOCATION: Kind = Kind(17);

/// Bits of the placement in a key. Blocks that were placed later are not relocated.
const PLACED_BITS: u32 = 48;
const RELOCATION_SIZE: usize = 24;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRelocation {
    vdev: U16,
    reserved: U16,
    units: U32,
    offset: U64,
    epoch: U64,
}
layout!(RawRelocation, RELOCATION_SIZE, vdev @ 0, reserved @ 2, units @ 4, offset @ 8, epoch @ 16);

/// The name of a block for ever: the address and the placement in its pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockName {
    /// The address.
    pub at: Address,
    /// The placement.
    pub placed: Birth,
}

impl From<&BlockPtr> for BlockName {
    fn from(ptr: &BlockPtr) -> Self {
        Self {
            at: ptr.address(),
            placed: ptr.placed,
        }
    }
}

/// The place of a block that was moved while its pointer stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// The block.
    pub of: BlockName,
    /// Its present address. That of its pointer if it was moved away and back.
    pub to: Address,
    /// Bytes of the block: whole sectors.
    pub bytes: u32,
    /// The epoch in which it was written to its present address.
    pub epoch: Birth,
}

/// The key of a block's relocation.
///
/// # Panics
/// If the block's placement is too late ([`is_relocatable`]).
#[must_use]
pub fn relocation_key(of: BlockName) -> Key {
    assert!(is_relocatable(of), "{of:?}");
    let object = u64::from(of.at.vdev.0) << PLACED_BITS | of.placed.0;
    let unit = of.at.offset.0 / SECTOR_SIZE_MIN;
    Key::new(ObjectId(object), KIND_RELOCATION, unit)
}

/// Whether a key can have the name of a block.
#[must_use]
pub fn is_relocatable(of: BlockName) -> bool {
    of.placed.0 < 1 << PLACED_BITS
}

impl Relocation {
    /// Encodes the value in the pool's own tree. The key is that of [`relocation_key`].
    ///
    /// # Panics
    /// If the fields are out of their ranges.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let raw = RawRelocation {
            vdev: self.to.vdev.0.into(),
            reserved: U16::ZERO,
            units: ((u64::from(self.bytes) / SECTOR_SIZE_MIN) as u32).into(),
            offset: self.to.offset.0.into(),
            epoch: self.epoch.0.into(),
        };
        raw.as_bytes().into()
    }

    fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let is_whole = |bytes: u64| bytes.is_multiple_of(SECTOR_SIZE_MIN);
        let bytes = u64::from(self.bytes);
        if bytes == 0 || !is_whole(bytes) {
            return field("length of a relocated block", bytes);
        }
        for at in [self.of.at.offset.0, self.to.offset.0] {
            if !is_whole(at) || at >= OFFSET_END || bytes > OFFSET_END - at {
                return field("address of a relocated block", at);
            }
        }
        if self.epoch <= self.of.placed || self.epoch.0 >= COUNT_END {
            return field("epoch of a relocation", self.epoch.0);
        }
        Ok(())
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// An invalid length, or a field out of its range.
    pub fn decode(key: Key, bytes: &[u8]) -> Result<Self, Defect> {
        let length = Defect::Length {
            what: "relocation",
            got: bytes.len(),
            want: RELOCATION_SIZE,
        };
        let raw = RawRelocation::read_from_bytes(bytes).map_err(|_| length)?;
        let field = |field, value| Err(Defect::Field { field, value });
        if raw.reserved != U16::ZERO {
            return field("reserved bytes of a relocation", raw.reserved.get().into());
        }
        let units = u64::from(raw.units.get());
        let Ok(bytes) = u32::try_from(units * SECTOR_SIZE_MIN) else {
            return field("length of a relocated block", units);
        };
        let object = key.object().0;
        let relocation = Self {
            of: BlockName {
                at: Address {
                    vdev: VdevId((object >> PLACED_BITS) as u16),
                    offset: VdevOffset(key.offset().saturating_mul(SECTOR_SIZE_MIN)),
                },
                placed: Birth(object & ((1 << PLACED_BITS) - 1)),
            },
            to: Address {
                vdev: VdevId(raw.vdev.get()),
                offset: VdevOffset(raw.offset.get()),
            },
            bytes,
            epoch: Birth(raw.epoch.get()),
        };
        relocation.check()?;
        Ok(relocation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(vdev: u16, offset: u64) -> Address {
        Address {
            vdev: VdevId(vdev),
            offset: VdevOffset(offset),
        }
    }

    #[test]
    fn encoded_relocations_decode_and_other_bytes_are_refused() {
        let relocation = Relocation {
            of: BlockName {
                at: at(0xfffe, 512 * 99),
                placed: Birth((1 << 48) - 1),
            },
            to: at(1, 512 * 77),
            bytes: 131_072,
            epoch: Birth(1 << 48),
        };
        let (key, bytes) = (relocation_key(relocation.of), relocation.encode());
        assert_eq!(Relocation::decode(key, &bytes), Ok(relocation));
        for byte in 0..RELOCATION_SIZE {
            let mut other = bytes.to_vec();
            other[byte] ^= 0x80;
            if let Ok(decoded) = Relocation::decode(key, &other) {
                assert_eq!(decoded.encode()[..], other[..], "byte {byte}");
            }
        }
        assert!(Relocation::decode(key, &[0; RELOCATION_SIZE]).is_err());
        assert!(Relocation::decode(key, &[]).is_err());
        // moved before it was placed
        let of = BlockName {
            placed: Birth(9),
            ..relocation.of
        };
        let early = Relocation {
            of,
            epoch: Birth(10),
            ..relocation
        };
        assert_eq!(
            Relocation::decode(relocation_key(of), &early.encode()),
            Ok(early)
        );
        assert!(Relocation::decode(key, &early.encode()).is_err());
    }

    #[test]
    fn keys_name_blocks_by_address_and_placement() {
        let name = |vdev, offset, placed| BlockName {
            at: at(vdev, offset),
            placed: Birth(placed),
        };
        let names = [
            name(0, 4096, 7),
            name(0, 4096, 8),
            name(0, 8192, 7),
            name(1, 4096, 7),
        ];
        let keys: std::collections::BTreeSet<Key> = names.into_iter().map(relocation_key).collect();
        assert_eq!(keys.len(), names.len());
        assert!(!is_relocatable(name(0, 4096, 1 << 48)));
    }
}
