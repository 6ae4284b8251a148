//! Assembly: where the bytes of a call come from, some from its message and some from chunks (RFC 8166, sections 3.4 and 3.5).
//!
//! **Owns** [`Assembly`]. **Called by** the responder, before it reserves memory. **Invariants**: every byte of the call comes from one place; the
//! padding behind a chunk is made here, since chunks come without it; nothing is reserved or copied here.

use super::chunks::{ChunkError, Chunks, Segment};
use crate::xdr::padding;

/// A part of a call that is copied from the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    /// Its offset in the bytes behind the header.
    pub from: usize,
    /// Its offset in the call.
    pub at: usize,
    /// Its length, bytes.
    pub len: usize,
}

/// The parts of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assembly {
    /// Bytes of the call.
    pub len: usize,
    /// Parts that are copied from the message.
    pub inline: Vec<Inline>,
    /// Parts that are read from the requester's memory, with their offset in the call. None is empty.
    pub reads: Vec<(usize, Segment)>,
    /// Zeroes behind chunks: offset in the call, and length.
    pub pads: Vec<(usize, usize)>,
}

/// The bytes between the chunks.
enum Base<'a> {
    /// They are in the message: offset, and bytes left.
    Message(usize, usize),
    /// They are in a chunk: its segments that were not used up.
    Chunk(Vec<Segment>, &'a [Segment]),
}

impl Assembly {
    /// The parts of a call whose message has `inline` bytes behind the header. Errors: `Beyond`, `Overlap`.
    pub fn of(chunks: &Chunks, inline: usize) -> Result<Assembly, ChunkError> {
        let mut call = Assembly::default();
        let (mut base, parts) = match chunks.reads.split_first() {
            Some((first, parts)) if first.position == 0 => {
                (Base::Chunk(Vec::new(), &first.segments), parts)
            }
            _ => (Base::Message(0, inline), &chunks.reads[..]),
        };
        for chunk in parts {
            let gap = (chunk.position as usize).checked_sub(call.len);
            call.take(&mut base, gap.ok_or(ChunkError::Overlap)?)?;
            for segment in &chunk.segments {
                call.read(*segment);
            }
            let pad = padding(call.len);
            if pad > 0 {
                call.pads.push((call.len, pad));
                call.len += pad;
            }
        }
        call.take_rest(base);
        Ok(call)
    }

    fn read(&mut self, segment: Segment) {
        if segment.len > 0 {
            self.reads.push((self.len, segment));
            self.len += segment.len as usize;
        }
    }

    fn copy(&mut self, from: usize, len: usize) {
        if len > 0 {
            let at = self.len;
            self.inline.push(Inline { from, at, len });
            self.len += len;
        }
    }

    /// The next `len` bytes come from between the chunks.
    fn take(&mut self, base: &mut Base<'_>, mut len: usize) -> Result<(), ChunkError> {
        match base {
            Base::Message(from, left) => {
                *left = left.checked_sub(len).ok_or(ChunkError::Beyond)?;
                self.copy(*from, len);
                *from += len;
            }
            Base::Chunk(begun, segments) => {
                while len > 0 {
                    let segment = match begun.pop() {
                        Some(rest) => rest,
                        None => {
                            let (first, rest) = segments.split_first().ok_or(ChunkError::Beyond)?;
                            *segments = rest;
                            *first
                        }
                    };
                    let used = len.min(segment.len as usize) as u32;
                    self.read(Segment {
                        len: used,
                        ..segment
                    });
                    begun.push(Segment {
                        len: segment.len - used,
                        address: segment.address.wrapping_add(used.into()),
                        ..segment
                    });
                    begun.retain(|rest| rest.len > 0);
                    len -= used as usize;
                }
            }
        }
        Ok(())
    }

    fn take_rest(&mut self, base: Base<'_>) {
        match base {
            Base::Message(from, left) => self.copy(from, left),
            Base::Chunk(begun, segments) => {
                let rest = begun.iter().chain(segments);
                rest.for_each(|segment| self.read(*segment));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunks::ReadChunk;
    use super::*;

    fn segment(len: u32, address: u64) -> Segment {
        Segment {
            key: 1,
            len,
            address,
        }
    }

    fn chunks(reads: &[(u32, &[Segment])]) -> Chunks {
        let chunk = |(position, segments): &(u32, &[Segment])| ReadChunk {
            position: *position,
            segments: segments.to_vec(),
        };
        Chunks {
            reads: reads.iter().map(chunk).collect(),
            ..Chunks::default()
        }
    }

    /// Every byte of the call comes from one place.
    fn check(call: &Assembly) {
        let copied = call.inline.iter().map(|part| (part.at, part.len));
        let read = call.reads.iter().map(|(at, s)| (*at, s.len as usize));
        let mut all: Vec<_> = copied.chain(read).chain(call.pads.clone()).collect();
        all.sort_unstable();
        let end = all.iter().fold(0, |end, (at, len)| {
            assert_eq!(*at, end);
            end + len
        });
        assert_eq!(end, call.len);
    }

    #[test]
    fn a_chunk_lies_at_its_position_with_padding() {
        let call = Assembly::of(&chunks(&[(40, &[segment(4, 0), segment(3, 99)])]), 60).unwrap();
        check(&call);
        assert_eq!(call.len, 60 + 8);
        let parts: Vec<_> = call.inline.iter().map(|p| (p.from, p.at, p.len)).collect();
        assert_eq!(parts, [(0, 0, 40), (40, 48, 20)]);
        assert_eq!(call.reads, [(40, segment(4, 0)), (44, segment(3, 99))]);
        assert_eq!(call.pads, [(47, 1)]);
        let beyond = Assembly::of(&chunks(&[(64, &[segment(4, 0)])]), 60);
        assert_eq!(beyond, Err(ChunkError::Beyond));
    }

    #[test]
    fn a_call_in_a_chunk_has_others_within() {
        let whole: &[Segment] = &[segment(10, 0), segment(20, 100)];
        let call = Assembly::of(&chunks(&[(0, whole)]), 0).unwrap();
        check(&call);
        assert_eq!((call.len, call.reads.len()), (30, 2));
        let call = Assembly::of(&chunks(&[(0, whole), (12, &[segment(5, 500)])]), 0).unwrap();
        check(&call);
        assert_eq!(call.len, 30 + 8);
        let expected = [
            (0, segment(10, 0)),
            (10, segment(2, 100)),
            (12, segment(5, 500)),
            (20, segment(18, 102)),
        ];
        assert_eq!(call.reads, expected);
        let beyond = Assembly::of(&chunks(&[(0, whole), (32, &[segment(5, 500)])]), 0);
        assert_eq!(beyond, Err(ChunkError::Beyond));
    }

    #[test]
    fn positions_count_the_chunks_before() {
        let two = chunks(&[(8, &[segment(5, 0)]), (20, &[segment(4, 50)])]);
        let call = Assembly::of(&two, 20).unwrap();
        check(&call);
        assert_eq!(call.len, 20 + 8 + 4);
        let within_padding = chunks(&[(8, &[segment(5, 0)]), (12, &[segment(4, 50)])]);
        assert_eq!(Assembly::of(&within_padding, 20), Err(ChunkError::Overlap));
    }
}
