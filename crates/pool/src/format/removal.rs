//! Removal of vdevs: the copies of a vdev's blocks on other vdevs, and the state of the removal.
//!
//! **Owns** their entries in the pool's own tree. **Called by** the opening and the removal of a vdev, and by offline readers.
//! **Invariants**: a run of copies does not cross the end of a region of the old vdev; as for all formats, one value has one
//! encoding. `docs/format.md`, "Removed vdevs".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    Address, Birth, Defect, Key, Kind, OFFSET_END, ObjectId, SECTOR_SIZE_MIN, VdevId, VdevOffset,
    layout,
};

/// Kind of the keys of copies. The object is the old vdev, the offset the old address in units of [`SECTOR_SIZE_MIN`].
pub const KIND_COPY: Kind = Kind(15);
/// Kind of the keys of removals. The object is the vdev, the offset 0.
pub const KIND_REMOVAL: Kind = Kind(16);

const COPY_SIZE: usize = 16;
const REMOVAL_SIZE: usize = 16;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawCopy {
    vdev: U16,
    reserved: U16,
    units: U32,
    offset: U64,
}
layout!(RawCopy, COPY_SIZE, vdev @ 0, reserved @ 2, units @ 4, offset @ 8);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRemoval {
    state: u8,
    reserved: [u8; 7],
    up_to: U64,
}
layout!(RawRemoval, REMOVAL_SIZE, state @ 0, reserved @ 1, up_to @ 8);

/// Adjacent blocks of a vdev that is being removed, or was removed, and the place of their copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedRun {
    /// The address that block pointers have.
    pub from: Address,
    /// The address of the copies.
    pub to: Address,
    /// Bytes of the run: whole sectors.
    pub bytes: u64,
}

/// The key of the copies of a run that begins at an address of the old vdev.
#[must_use]
pub fn copy_key(from: Address) -> Key {
    let unit = from.offset.0 / SECTOR_SIZE_MIN;
    Key::new(ObjectId(from.vdev.0.into()), KIND_COPY, unit)
}

impl CopiedRun {
    /// Encodes the value in the pool's own tree. The key is that of [`copy_key`].
    ///
    /// # Panics
    /// If the fields are out of their ranges.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let raw = RawCopy {
            vdev: self.to.vdev.0.into(),
            reserved: U16::ZERO,
            units: ((self.bytes / SECTOR_SIZE_MIN) as u32).into(),
            offset: self.to.offset.0.into(),
        };
        raw.as_bytes().into()
    }

    fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let units = self.bytes / SECTOR_SIZE_MIN;
        if units == 0 || u32::try_from(units).is_err() {
            return field("length of a run of copies", self.bytes);
        }
        if self.to.vdev == self.from.vdev {
            return field("vdev of a run of copies", self.to.vdev.0.into());
        }
        for at in [self.from.offset.0, self.to.offset.0] {
            let is_whole = at.is_multiple_of(SECTOR_SIZE_MIN);
            if !is_whole || at >= OFFSET_END || self.bytes > OFFSET_END - at {
                return field("address of a run of copies", at);
            }
        }
        Ok(())
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// An invalid length, or a field out of its range.
    pub fn decode(key: Key, bytes: &[u8]) -> Result<Self, Defect> {
        let length = Defect::Length {
            what: "run of copies",
            got: bytes.len(),
            want: COPY_SIZE,
        };
        let raw = RawCopy::read_from_bytes(bytes).map_err(|_| length)?;
        let field = |field, value| Err(Defect::Field { field, value });
        if raw.reserved != U16::ZERO {
            return field(
                "reserved bytes of a run of copies",
                raw.reserved.get().into(),
            );
        }
        let Ok(vdev) = u16::try_from(key.object().0) else {
            return field("vdev whose blocks were copied", key.object().0);
        };
        let run = Self {
            from: Address {
                vdev: VdevId(vdev),
                offset: VdevOffset(key.offset().saturating_mul(SECTOR_SIZE_MIN)),
            },
            to: Address {
                vdev: VdevId(raw.vdev.get()),
                offset: VdevOffset(raw.offset.get()),
            },
            bytes: u64::from(raw.units.get()) * SECTOR_SIZE_MIN,
        };
        run.check()?;
        Ok(run)
    }
}

/// The step of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalStep {
    /// Blocks are copied.
    Copying,
    /// All blocks have copies: labels may say that the vdev is removed.
    Copied,
    /// The removal was given up: the copies are being freed.
    Stopping,
}

/// The state of a vdev's removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalEntry {
    /// Its step.
    pub step: RemovalStep,
    /// No copy was written after this epoch; zero without copies.
    pub up_to: Birth,
}

/// The key of the state of a vdev's removal.
#[must_use]
pub fn removal_key(vdev: VdevId) -> Key {
    Key::new(ObjectId(vdev.0.into()), KIND_REMOVAL, 0)
}

impl RemovalEntry {
    /// Encodes the value in the pool's own tree.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let raw = RawRemoval {
            state: match self.step {
                RemovalStep::Copying => 1,
                RemovalStep::Stopping => 2,
                RemovalStep::Copied => 3,
            },
            reserved: [0; 7],
            up_to: self.up_to.0.into(),
        };
        raw.as_bytes().into()
    }

    /// Decodes a state.
    ///
    /// # Errors
    /// An invalid length, or an unknown step.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let length = Defect::Length {
            what: "state of a removal",
            got: bytes.len(),
            want: REMOVAL_SIZE,
        };
        let raw = RawRemoval::read_from_bytes(bytes).map_err(|_| length)?;
        let field = |field, value| Err(Defect::Field { field, value });
        if raw.reserved != [0; 7] {
            return field("reserved bytes of a removal", raw.reserved[0].into());
        }
        let step = match raw.state {
            1 => RemovalStep::Copying,
            2 => RemovalStep::Stopping,
            3 => RemovalStep::Copied,
            other => return field("step of a removal", other.into()),
        };
        let up_to = Birth(raw.up_to.get());
        Ok(Self { step, up_to })
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
    fn encoded_runs_decode_and_other_bytes_are_refused() {
        let run = CopiedRun {
            from: at(3, 40960),
            to: at(1, 512 * 77),
            bytes: 131_072,
        };
        let (key, bytes) = (copy_key(run.from), run.encode());
        assert_eq!(CopiedRun::decode(key, &bytes), Ok(run));
        for byte in 0..COPY_SIZE {
            let mut other = bytes.to_vec();
            other[byte] ^= 0x80;
            if let Ok(decoded) = CopiedRun::decode(key, &other) {
                assert_eq!(decoded.encode()[..], other[..], "byte {byte}");
            }
        }
        assert!(CopiedRun::decode(key, &[0; COPY_SIZE]).is_err());
        assert!(CopiedRun::decode(key, &[]).is_err());
        // a run on its own vdev
        assert!(CopiedRun::decode(copy_key(at(1, 40960)), &bytes).is_err());
    }

    #[test]
    fn encoded_removals_decode_and_other_bytes_are_refused() {
        for step in [
            RemovalStep::Copying,
            RemovalStep::Stopping,
            RemovalStep::Copied,
        ] {
            let entry = RemovalEntry {
                step,
                up_to: Birth(9),
            };
            assert_eq!(RemovalEntry::decode(&entry.encode()), Ok(entry));
        }
        assert!(RemovalEntry::decode(&[0; REMOVAL_SIZE]).is_err());
        assert!(RemovalEntry::decode(&[1; REMOVAL_SIZE]).is_err());
        assert!(RemovalEntry::decode(&[]).is_err());
    }
}
