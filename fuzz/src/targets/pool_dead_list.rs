//! Chunks of deadlists: a decoded chunk encodes to the same bytes.

use pool::format::{DEAD_CHUNK_MAX, decode_dead, encode_dead};

pub fn run(input: &[u8]) {
    let Ok(ptrs) = decode_dead(input) else { return };
    assert!((1..=DEAD_CHUNK_MAX).contains(&ptrs.len()));
    assert!(encode_dead(&ptrs)[..] == *input);
}
