//! Deadlists: blocks that one dataset holds and the next one does not.
//!
//! **Owns** the keys and chunks of their tree. **Called by** checkpoints and offline readers. **Invariants**: a chunk has 1
//! to [`DEAD_CHUNK_MAX`] pointers, all of them valid. `docs/format.md`, "Lists of dead blocks".

use super::{
    BLOCK_PTR_SIZE, Birth, BlockPtr, Defect, INLINE_SIZE_MAX, Key, Kind, ListId, ObjectId, TreeId,
};

/// The tree of all deadlists.
pub const DEAD_TREE: TreeId = TreeId(2);
/// Kind of the keys of chunks; the object is the list.
pub const KIND_DEAD: Kind = Kind(1);
/// Most pointers in a chunk.
pub const DEAD_CHUNK_MAX: usize = INLINE_SIZE_MAX / BLOCK_PTR_SIZE;
/// Binary logarithm of the number of chunks of one list that one checkpoint may write.
pub const DEAD_CHUNK_BITS: u32 = 24;

/// The key of chunk `count` of a list, of the chunks written by the checkpoint that ends epoch `birth`.
///
/// # Panics
/// If they are too large for an offset.
#[must_use]
pub fn dead_key(list: ListId, birth: Birth, count: u64) -> Key {
    assert!(count < 1 << DEAD_CHUNK_BITS, "chunk {count}");
    let offset = birth.0 << DEAD_CHUNK_BITS | count;
    Key::new(ObjectId(list.0), KIND_DEAD, offset)
}

/// The keys of one list.
#[must_use]
pub fn dead_keys(list: ListId) -> std::ops::Range<Key> {
    let object = ObjectId(list.0);
    Key::new(object, KIND_DEAD, 0)..Key::new(object, Kind(KIND_DEAD.0 + 1), 0)
}

/// Encodes a chunk.
///
/// # Panics
/// If there are no pointers, or more than [`DEAD_CHUNK_MAX`].
#[must_use]
pub fn encode_dead(ptrs: &[BlockPtr]) -> Box<[u8]> {
    let fits = (1..=DEAD_CHUNK_MAX).contains(&ptrs.len());
    assert!(fits, "{} pointers in a chunk", ptrs.len());
    ptrs.iter().flat_map(BlockPtr::encode).collect()
}

/// Decodes the pointers in a chunk.
///
/// # Errors
/// No pointers or too many, a part of one, or a malformed one.
pub fn decode_dead(bytes: &[u8]) -> Result<Vec<BlockPtr>, Defect> {
    let (chunks, rest) = bytes.as_chunks::<BLOCK_PTR_SIZE>();
    if !rest.is_empty() || !(1..=DEAD_CHUNK_MAX).contains(&chunks.len()) {
        return Err(Defect::Length {
            what: "chunk of a list of dead blocks",
            got: bytes.len(),
            want: chunks.len().clamp(1, DEAD_CHUNK_MAX) * BLOCK_PTR_SIZE,
        });
    }
    chunks.iter().map(BlockPtr::decode).collect()
}
