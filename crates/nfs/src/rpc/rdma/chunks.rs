//! Chunks: memory of the requester that a message names (RFC 8166, section 4.3).
//!
//! **Owns** [`Chunks`], the three lists of a header. **Called by** [`super::RdmaHeader`]. **Invariants**: segments are counted before they are kept;
//! the position of a read chunk is a multiple of four, and behind the end of the chunk before it; a chunk of several segments is one item.

use super::SEGMENTS_MAX;
use crate::xdr::{Reader, Writer, XdrError};
use thiserror::Error;

/// Memory of the requester under one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The key (steering tag).
    pub key: u32,
    /// Length, bytes.
    pub len: u32,
    /// Address in the requester's terms.
    pub address: u64,
}

/// A part of a call that the responder reads from the requester's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadChunk {
    /// Its offset in the whole call, bytes. 0: the chunk is the call itself.
    pub position: u32,
    /// Its memory, in order.
    pub segments: Vec<Segment>,
}

/// The chunks of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunks {
    /// Parts of a call, by position.
    pub reads: Vec<ReadChunk>,
    /// Memory for items of the reply, in their order. In a reply: the bytes that were written.
    pub writes: Vec<Vec<Segment>>,
    /// Memory for a reply that is too long for a message. In a reply: the bytes that were written.
    pub reply: Option<Vec<Segment>>,
}

/// Why lists of chunks cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The message ends within the lists.
    #[error("lists of chunks that end with their message")]
    Short,
    /// There are more segments than [`SEGMENTS_MAX`].
    #[error("lists of chunks with more than {SEGMENTS_MAX} segments")]
    TooMany,
    /// The word before an item is neither 0 nor 1.
    #[error("lists of chunks with a number that is no truth value")]
    Value,
    /// The position of a read chunk is no multiple of four.
    #[error("a read chunk whose position is no multiple of four")]
    Position,
    /// A read chunk begins before the one before it ends.
    #[error("read chunks that overlap")]
    Overlap,
    /// A read chunk begins behind the end of the call.
    #[error("a read chunk behind the end of its call")]
    Beyond,
    /// The call is in a chunk and in the message.
    #[error("a call in a chunk and in a message")]
    TwoMessages,
}

impl From<XdrError> for ChunkError {
    fn from(error: XdrError) -> Self {
        match error {
            XdrError::Value => ChunkError::Value,
            XdrError::Short | XdrError::TooLong => ChunkError::Short,
        }
    }
}

impl Segment {
    fn decode(reader: &mut Reader<'_>) -> Result<Segment, ChunkError> {
        Ok(Segment {
            key: reader.u32()?,
            len: reader.u32()?,
            address: reader.u64()?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.key);
        writer.u32(self.len);
        writer.u64(self.address);
    }
}

/// Bytes of a chunk.
#[must_use]
pub fn len_of(segments: &[Segment]) -> usize {
    segments.iter().map(|s| s.len as usize).sum()
}

/// The chunk that says how many of the bytes of `segments` were written, in their order.
#[must_use]
pub fn written(segments: &[Segment], mut len: usize) -> Vec<Segment> {
    let part = |segment: &Segment| {
        let used = len.min(segment.len as usize);
        len -= used;
        Segment {
            len: used as u32,
            ..*segment
        }
    };
    segments.iter().map(part).collect()
}

fn decode_segments(reader: &mut Reader<'_>, left: &mut usize) -> Result<Vec<Segment>, ChunkError> {
    let count = reader.u32()? as usize;
    *left = left.checked_sub(count).ok_or(ChunkError::TooMany)?;
    (0..count).map(|_| Segment::decode(reader)).collect()
}

fn encode_segments(segments: &[Segment], writer: &mut Writer) {
    writer.count(segments.len());
    segments.iter().for_each(|segment| segment.encode(writer));
}

impl Chunks {
    /// Whether the call itself is in a chunk.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.reads.first().is_some_and(|chunk| chunk.position == 0)
    }

    /// Whether no memory is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.reply.is_none()
    }

    /// The only key of all chunks; `None` if there are several, or none.
    #[must_use]
    pub fn only_key(&self) -> Option<u32> {
        let reads = self.reads.iter().map(|chunk| &chunk.segments);
        let chunks = reads.chain(&self.writes).chain(&self.reply);
        let mut keys = chunks.flatten().map(|segment| segment.key);
        let first = keys.next()?;
        keys.all(|key| key == first).then_some(first)
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Chunks, ChunkError> {
        let mut left = SEGMENTS_MAX;
        let reads = decode_reads(reader, &mut left)?;
        let mut writes = Vec::new();
        while reader.bool()? {
            // A chunk without segments counts, too, so that the list is bounded.
            left = left.checked_sub(1).ok_or(ChunkError::TooMany)?;
            writes.push(decode_segments(reader, &mut left)?);
        }
        let has_reply = reader.bool()?;
        let reply = has_reply.then(|| decode_segments(reader, &mut left));
        Ok(Chunks {
            reads,
            writes,
            reply: reply.transpose()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        for chunk in &self.reads {
            for segment in &chunk.segments {
                writer.bool(true);
                writer.u32(chunk.position);
                segment.encode(writer);
            }
        }
        writer.bool(false);
        for chunk in &self.writes {
            writer.bool(true);
            encode_segments(chunk, writer);
        }
        writer.bool(false);
        writer.bool(self.reply.is_some());
        if let Some(chunk) = &self.reply {
            encode_segments(chunk, writer);
        }
    }
}

/// The read list: consecutive segments with one position are one chunk.
fn decode_reads(reader: &mut Reader<'_>, left: &mut usize) -> Result<Vec<ReadChunk>, ChunkError> {
    let mut chunks: Vec<ReadChunk> = Vec::new();
    while reader.bool()? {
        *left = left.checked_sub(1).ok_or(ChunkError::TooMany)?;
        let position = reader.u32()?;
        let segment = Segment::decode(reader)?;
        if position % 4 != 0 {
            return Err(ChunkError::Position);
        }
        match chunks.last_mut() {
            Some(last) if last.position == position => last.segments.push(segment),
            Some(last) => {
                // The chunk with the call itself has the bytes between the others.
                let len = match last.position {
                    0 => 1,
                    _ => len_of(&last.segments),
                };
                if (position as usize) < last.position as usize + len {
                    return Err(ChunkError::Overlap);
                }
                chunks.push(ReadChunk {
                    position,
                    segments: vec![segment],
                });
            }
            None => chunks.push(ReadChunk {
                position,
                segments: vec![segment],
            }),
        }
    }
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(words: &[u32]) -> Result<Chunks, ChunkError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Chunks::decode(&mut Reader::new(&bytes))
    }

    fn read(position: u32, len: u32) -> [u32; 6] {
        [1, position, 5, len, 0, 9]
    }

    #[test]
    fn segments_with_one_position_are_one_chunk() {
        let all = [&read(8, 4)[..], &read(8, 4), &read(16, 4), &[0, 0, 0]].concat();
        let chunks = lists(&all).unwrap();
        assert_eq!(chunks.reads.len(), 2);
        assert_eq!(len_of(&chunks.reads[0].segments), 8);
        assert_eq!(chunks.only_key(), Some(5));
    }

    #[test]
    fn lists_that_lie_are_refused() {
        let all = |parts: &[&[u32]]| lists(&parts.concat());
        let unaligned = all(&[&read(6, 4), &[0, 0, 0]]);
        assert_eq!(unaligned, Err(ChunkError::Position));
        let overlapping = all(&[&read(8, 5), &read(12, 4), &[0, 0, 0]]);
        assert_eq!(overlapping, Err(ChunkError::Overlap));
        let unordered = all(&[&read(8, 4), &read(4, 4), &[0, 0, 0]]);
        assert_eq!(unordered, Err(ChunkError::Overlap));
        let huge = all(&[&read(8, u32::MAX), &read(u32::MAX - 3, 4), &[0, 0, 0]]);
        assert_eq!(huge, Err(ChunkError::Overlap));
        assert_eq!(lists(&[2, 0, 0]), Err(ChunkError::Value));
        assert_eq!(lists(&[0, 0]), Err(ChunkError::Short));
        assert_eq!(lists(&[0, 1, u32::MAX]), Err(ChunkError::TooMany));
        assert_eq!(lists(&[0, 1, 3, 1, 2, 3]), Err(ChunkError::Short));
        assert_eq!(lists(&[0, 0, 1, 65]), Err(ChunkError::TooMany));
    }

    #[test]
    fn lists_are_bounded() {
        let many = |count: usize| {
            let all: Vec<u32> = (0..count).flat_map(|_| read(4, 1)).collect();
            lists(&[&all[..], &[0, 0, 0]].concat())
        };
        assert!(many(SEGMENTS_MAX).is_ok());
        assert_eq!(many(SEGMENTS_MAX + 1), Err(ChunkError::TooMany));
        let empty: Vec<u32> = (0..=SEGMENTS_MAX).flat_map(|_| [1, 0]).collect();
        let endless = lists(&[&[0][..], &empty, &[0, 0]].concat());
        assert_eq!(endless, Err(ChunkError::TooMany));
    }

    #[test]
    fn written_bytes_fill_the_segments_in_order() {
        let segment = |len| Segment {
            key: 1,
            len,
            address: 2,
        };
        let used = |len| {
            let all = written(&[segment(4), segment(0), segment(8)], len);
            all.iter().map(|s| s.len).collect::<Vec<_>>()
        };
        assert_eq!(used(0), [0, 0, 0]);
        assert_eq!(used(3), [3, 0, 0]);
        assert_eq!(used(5), [4, 0, 1]);
        assert_eq!(used(12), [4, 0, 8]);
    }
}
