//! Holds: who wants a snapshot kept.
//!
//! **Owns** the value of a hold. **Called by** whoever opens or changes a pool. **Invariants**: as for all formats, one
//! value has one encoding. `docs/format.md`, "Holds".

use super::{Defect, Key, Kind, NAME_SIZE_MAX, ObjectId, TreeId};

/// Kind of the keys under which holds lie; the object is the snapshot, the offset counts.
pub const KIND_HOLD: Kind = Kind(7);
/// Holds of one snapshot at most.
pub const HOLDS_MAX: u64 = 64;
/// Bytes before the tag: when it was made.
const CREATED_SIZE: usize = 8;

/// A hold of a snapshot: as long as it is there, the snapshot is not destroyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Who or what holds it.
    pub tag: String,
    /// Nanoseconds since 1970, for people.
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
    /// The value in the pool's tree.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        [&self.created.to_le_bytes(), self.tag.as_bytes()]
            .concat()
            .into()
    }

    /// The hold that `bytes` encode.
    ///
    /// # Errors
    /// Its length, or a tag that is no text.
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
    fn what_is_encoded_comes_back_and_nothing_else() {
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
