//! Positions of resilvers: the blocks that a stale member has already.
//!
//! **Owns** the value of a position. **Called by** the opening and changes of a pool. **Invariants**: as for all formats, one
//! value has one encoding. `docs/format.md`, "Resilvers".

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Birth, Defect, Key, Kind, MemberGuid, OFFSET_END, ObjectId, VdevOffset, layout};

/// Kind of their keys. The object is the member's GUID, the offset 0.
pub const KIND_RESILVER: Kind = Kind(10);

const POSITION_SIZE: usize = 24;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPosition {
    held: U64,
    up_to: U64,
    next: U64,
}
layout!(RawPosition, POSITION_SIZE, held @ 0, up_to @ 8, next @ 16);

/// The position of an interrupted resilver. Of the blocks placed after `held` and up to `up_to`, the member has those below `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResilverPosition {
    /// The epoch up to which the member had all blocks when the resilver began.
    pub held: Birth,
    /// The epoch of the checkpoint with which it began.
    pub up_to: Birth,
    /// Offset on the vdev: the member has the blocks that begin below it.
    pub next: u64,
}

/// The key of the position of a member's resilver.
#[must_use]
pub fn resilver_key(member: MemberGuid) -> Key {
    Key::new(ObjectId(member.0), KIND_RESILVER, 0)
}

impl ResilverPosition {
    /// Whether a member that has every block placed up to `held` also has a block that was placed at this offset of its vdev.
    #[must_use]
    pub fn has(&self, held: Birth, (placed, offset): (Birth, VdevOffset)) -> bool {
        self.held <= held && placed <= self.up_to && offset.0 < self.next
    }

    /// Encodes the value in the pool's own tree.
    ///
    /// # Panics
    /// If the fields are out of their ranges.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let raw = RawPosition {
            held: self.held.0.into(),
            up_to: self.up_to.0.into(),
            next: self.next.into(),
        };
        raw.as_bytes().into()
    }

    fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        if self.up_to < self.held {
            return field("last epoch of a resilver", self.up_to.0);
        }
        match self.next {
            1..OFFSET_END => Ok(()),
            next => field("position of a resilver", next),
        }
    }

    /// Decodes a position.
    ///
    /// # Errors
    /// An invalid length, or a field out of its range.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let length = Defect::Length {
            what: "position of a resilver",
            got: bytes.len(),
            want: POSITION_SIZE,
        };
        let raw = RawPosition::read_from_bytes(bytes).map_err(|_| length)?;
        let position = Self {
            held: Birth(raw.held.get()),
            up_to: Birth(raw.up_to.get()),
            next: raw.next.get(),
        };
        position.check()?;
        Ok(position)
    }
}
