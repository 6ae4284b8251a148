//! Pending destroys: destroyed datasets whose blocks are not all free yet.
//!
//! **Owns** the value that describes the remaining blocks. **Called by** checkpoints, which free a bounded part each, and by
//! the opening of a pool. **Invariants**: as for all formats, one value has one encoding. `docs/format.md`, "What is being
//! freed".

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    BLOCK_PTR_SIZE, Birth, BlockPtr, COUNT_END, Defect, KEY_SIZE, Key, Kind, ListId, ObjectId,
    PrevSnapshot, layout,
};

/// Kind of their keys. The object is the number of the pending destroy, the offset 0.
pub const KIND_FREEING: Kind = Kind(5);

const FREEING_SIZE: usize = 104;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFreeing {
    version: u8,
    class: u8,
    reserved: [u8; 6],
    root: [u8; BLOCK_PTR_SIZE],
    floor: U64,
    from: [u8; KEY_SIZE],
    left: U64,
    list: U64,
    to: U64,
}
layout!(RawFreeing, FREEING_SIZE, version @ 0, class @ 1, reserved @ 2, root @ 8, floor @ 56, from @ 64, left @ 80,
    list @ 88, to @ 96);

/// The remaining blocks of a pending destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freeing {
    /// The tree of a destroyed dataset.
    Tree {
        /// Its root.
        root: BlockPtr,
        /// Blocks born up to this epoch are held by other datasets.
        floor: Birth,
        /// Entries below this key, and nodes with only such entries, are freed.
        from: Key,
        /// Approximate number of bytes left.
        left: u64,
    },
    /// The deadlist of a destroyed snapshot. Blocks that the previous snapshot holds go to the list of that one.
    List {
        /// The list.
        list: ListId,
        /// The previous snapshot.
        prev: PrevSnapshot,
    },
}

/// The key of pending destroy `number`.
#[must_use]
pub fn freeing_key(number: u64) -> Key {
    Key::new(ObjectId(number), KIND_FREEING, 0)
}

impl Freeing {
    /// Encodes the value in the pool's own tree.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let (class, root, floor, from, left, list, to) = match *self {
            Freeing::Tree {
                root,
                floor,
                from,
                left,
            } => (1, Some(root), floor, from, left, 0, 0),
            Freeing::List { list, prev } => {
                let to = prev.list.map_or(0, |list| list.0);
                (2, None, prev.floor, Key::START, 0, list.0, to)
            }
        };
        let raw = RawFreeing {
            version: 1,
            class,
            reserved: [0; 6],
            root: BlockPtr::encode_option(root.as_ref()),
            floor: U64::new(floor.0),
            from: from.encode(),
            left: U64::new(left),
            list: U64::new(list),
            to: U64::new(to),
        };
        raw.as_bytes().into()
    }

    /// Decodes a pending destroy.
    ///
    /// # Errors
    /// The first field that is malformed, or reserved and not zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let field = |field, value: u64| Err(Defect::Field { field, value });
        let Ok(raw) = RawFreeing::read_from_bytes(bytes) else {
            return Err(Defect::Length {
                what: "what is being freed",
                got: bytes.len(),
                want: FREEING_SIZE,
            });
        };
        if raw.version != 1 {
            return field("version of what is being freed", raw.version.into());
        }
        if raw.reserved != [0; 6] {
            return field("reserved bytes of what is being freed", 1);
        }
        if raw.floor.get() >= COUNT_END {
            return field("floor of what is being freed", raw.floor.get());
        }
        let floor = Birth(raw.floor.get());
        let from = Key::decode(raw.from);
        let (left, list, to) = (raw.left.get(), raw.list.get(), raw.to.get());
        let root = BlockPtr::decode_option(&raw.root)?;
        match (raw.class, root) {
            (1, Some(root)) if list == 0 && to == 0 => Ok(Freeing::Tree {
                root,
                floor,
                from,
                left,
            }),
            (2, None) if list != 0 && left == 0 && from == Key::START => {
                let to = (to != 0).then_some(ListId(to));
                let prev = PrevSnapshot { floor, list: to };
                let list = ListId(list);
                Ok(Freeing::List { list, prev })
            }
            (class, _) => field("class of what is being freed", class.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_decode_and_other_bytes_are_refused() {
        for to in [None, Some(ListId(5))] {
            let floor = Birth(7);
            let prev = PrevSnapshot { floor, list: to };
            let list = ListId(3);
            let freeing = Freeing::List { list, prev };
            let bytes = freeing.encode();
            assert_eq!(Freeing::decode(&bytes), Ok(freeing));
            for at in 0..FREEING_SIZE {
                let mut other = bytes.to_vec();
                other[at] ^= 0x40;
                if let Ok(decoded) = Freeing::decode(&other) {
                    assert_eq!(decoded.encode()[..], other[..], "byte {at}");
                }
            }
        }
        assert!(Freeing::decode(&[0; FREEING_SIZE]).is_err());
        assert!(Freeing::decode(&[]).is_err());
    }
}
