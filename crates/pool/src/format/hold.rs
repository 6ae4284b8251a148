//! Holds: tags that keep a snapshot from being destroyed.
//!
//! **Owns** the value of a hold. **Called by** the opening and changes of a pool. **Invariants**: as for all formats, one
//! value has one encoding. `docs/format.md`, "Holds".

use super::{Defect, Key, Kind, NAME_SIZE_MAX, ObjectId, TreeId};

/// Kind of the keys of holds. The object is the snapshot, the offset is the hold's index.
pub const KIND_HOLD: Kind = Kind(7);
/// Most holds of one snapshot.
pub const HOLDS_MAX: u64 = 64;
/// Bytes before the tag: time of creation.
const CREATED_SIZE: usize = 8;

/// A hold of a snapshot. A snapshot with holds cannot be destroyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Name of the hold.
    pub tag: String,
    /// Time of creation, nanoseconds since 1970, for display.
    pub created: u64,
}

/// The key of a snapshot's hold.
///
/// # Panics
/// If `index` is not below [`HOLDS_MAX`].
#[must_use]
pub fn hold_key(snapshot: TreeId, index: u64) -> Key {
    assert!(index < HOLDS_MAX);
    Key::new(ObjectId(snapshot.0), KIND_HOLD, index)
}

impl Hold {
    /// Encodes the value in the pool's own tree.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        [&self.created.to_le_bytes(), self.tag.as_bytes()]
            .concat()
            .into()
    }

    /// Decodes a hold.
    ///
    /// # Errors
    /// An invalid length, or a tag that is not UTF-8.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let length = Defect::Length {
            what: "hold",
            got: bytes.len(),
            want: CREATED_SIZE + 1,
        };
        let (created, tag) = bytes.split_first_chunk().ok_or(length)?;
        if tag.is_empty() || tag.len() > NAME_SIZE_MAX {
            return Err(length);
        }
        let tag = std::str::from_utf8(tag).map_err(|_| Defect::Field {
            field: "first byte of a hold's tag",
            value: tag[0].into(),
        })?;
        Ok(Self {
            tag: tag.to_owned(),
            created: u64::from_le_bytes(*created),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_decode_and_other_bytes_are_refused() {
        let hold = Hold {
            tag: "backup".into(),
            created: 5,
        };
        assert_eq!(Hold::decode(&hold.encode()), Ok(hold));
        assert!(Hold::decode(&[0; 8]).is_err());
        assert!(Hold::decode(&[0xff; 9]).is_err());
        assert!(Hold::decode(&[b'a'; 8 + NAME_SIZE_MAX + 1]).is_err());
    }
}
