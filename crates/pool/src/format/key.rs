//! Keys of trees: object, kind, offset.
//!
//! **Owns** their encoding. **Called by** nodes and all code above trees. **Invariant**: the order of keys is that of their
//! bytes on disk. `docs/format.md`, "Key".

use std::fmt;

/// Length of a key on disk, bytes.
pub const KEY_SIZE: usize = 16;

/// An object of a dataset: a volume's blocks, a file, a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectId(pub u64);

/// Kind of an entry of an object: one byte, whose meaning the layer above the trees defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

/// A key of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u128);

impl Key {
    /// The lowest key.
    pub const START: Key = Key(0);
    /// Above every key that a tree may have; used only as the end of ranges.
    pub const END: Key = Key(u128::MAX);
    /// Exclusive upper bound of offsets.
    pub const OFFSET_END: u64 = 1 << 56;

    /// Creates a key.
    ///
    /// # Panics
    /// If the offset does not fit into 56 bits.
    #[must_use]
    pub fn new(object: ObjectId, kind: Kind, offset: u64) -> Self {
        assert!(offset < Self::OFFSET_END, "offset {offset:#x}");
        Self(u128::from(object.0) << 64 | u128::from(kind.0) << 56 | u128::from(offset))
    }

    /// The object.
    #[must_use]
    pub fn object(self) -> ObjectId {
        ObjectId((self.0 >> 64) as u64)
    }

    /// The kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        Kind((self.0 >> 56) as u8)
    }

    /// The offset.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.0 as u64 & (Self::OFFSET_END - 1)
    }

    /// The next key.
    ///
    /// # Panics
    /// For [`Key::END`].
    #[must_use]
    pub fn next(self) -> Self {
        assert!(self != Self::END, "nothing is above the end");
        Self(self.0 + 1)
    }

    /// The key that is `keys` higher, at most [`Key::END`].
    #[must_use]
    pub fn after(self, keys: u128) -> Self {
        Self(self.0.saturating_add(keys))
    }

    /// Number of keys from this one to `end`, exclusive.
    #[must_use]
    pub fn up_to(self, end: Self) -> u128 {
        end.0.saturating_sub(self.0)
    }

    /// The previous key; `None` for [`Key::START`].
    #[must_use]
    pub fn prev(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    /// Encodes the key.
    #[must_use]
    pub fn encode(self) -> [u8; KEY_SIZE] {
        self.0.to_be_bytes()
    }

    /// Decodes a key; all 16 bytes are valid keys.
    #[must_use]
    pub fn decode(bytes: [u8; KEY_SIZE]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:x}:{:x}:{:x}",
            self.object().0,
            self.kind().0,
            self.offset()
        )
    }
}
