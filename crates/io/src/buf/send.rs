//! The gather list of one send: small headers in an arena, payloads without a copy.
//!
//! **Called by** protocols, which fill one batch while the previous one is in flight.

use super::Payload;

/// An ordered list of bytes to send with one system call.
#[derive(Default)]
pub struct SendBatch {
    arena: Vec<u8>,
    parts: Vec<Part>,
    len: usize,
}

enum Part {
    /// The bytes of the arena from `start` to `end`.
    Arena {
        start: usize,
        end: usize,
    },
    Payload(Payload),
}

impl SendBatch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> SendBatch {
        SendBatch::default()
    }

    /// Appends a copy of `bytes` (headers; at most some hundred bytes).
    pub fn put(&mut self, bytes: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.len += bytes.len();
        match self.parts.last_mut() {
            Some(Part::Arena { end, .. }) if *end == start => *end = self.arena.len(),
            _ => self.parts.push(Part::Arena {
                start,
                end: self.arena.len(),
            }),
        }
    }

    /// Appends a payload without copying it.
    pub fn put_payload(&mut self, payload: Payload) {
        if !payload.is_empty() {
            self.len += payload.len();
            self.parts.push(Part::Payload(payload));
        }
    }

    /// Length, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Empties the batch and keeps its memory for reuse. Payloads are dropped.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.parts.clear();
        self.len = 0;
    }

    /// The segments in order, as (pointer, length), from byte `skip` on; at most `max` of them.
    pub(crate) fn segments(
        &self,
        skip: usize,
        max: usize,
    ) -> impl Iterator<Item = (*const u8, usize)> + '_ {
        let mut skip = skip;
        self.parts
            .iter()
            .filter_map(move |p| {
                let (ptr, len) = match p {
                    Part::Arena { start, end } => (self.arena[*start..*end].as_ptr(), end - start),
                    Part::Payload(p) => (p.as_ptr(), p.len()),
                };
                let passed = skip.min(len);
                skip -= passed;
                (passed < len).then(|| (ptr.wrapping_add(passed), len - passed))
            })
            .take(max)
    }

    /// Appends a copy of the bytes from `skip` on to `out`, at most `max` of them, for layers that change the bytes on their way (TLS).
    pub fn copy_to(&self, skip: usize, max: usize, out: &mut Vec<u8>) {
        let (mut skip, mut left) = (skip, max);
        for part in &self.parts {
            let len = match part {
                Part::Arena { start, end } => end - start,
                Part::Payload(payload) => payload.len(),
            };
            let passed = skip.min(len);
            let taken = (len - passed).min(left);
            (skip, left) = (skip - passed, left - taken);
            if taken == 0 {
                continue;
            }
            match part {
                Part::Arena { start, .. } => {
                    let from = start + passed;
                    out.extend_from_slice(&self.arena[from..from + taken]);
                }
                Part::Payload(payload) => {
                    let at = out.len();
                    out.resize(at + taken, 0);
                    payload.copy_part(passed, &mut out[at..]);
                }
            }
        }
    }

    /// Copies bytes from `skip` on, approximately `max` at most, for the simulator's network.
    #[cfg(feature = "sim")]
    pub(crate) fn copy_from(&self, skip: usize, max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut skip = skip;
        for p in &self.parts {
            let len = match p {
                Part::Arena { start, end } => end - start,
                Part::Payload(p) => p.len(),
            };
            if skip >= len {
                skip -= len;
                continue;
            }
            if out.len() >= max {
                break;
            }
            let at = out.len();
            out.resize(at + len, 0);
            match p {
                Part::Arena { start, end } => out[at..].copy_from_slice(&self.arena[*start..*end]),
                Part::Payload(p) => p.copy_to(&mut out[at..]),
            }
            out.drain(at..at + std::mem::take(&mut skip));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_copies_say_the_same_from_any_byte_on() {
        let mut b = SendBatch::new();
        b.put(b"head");
        b.put(b"er");
        b.put_payload(Payload::from(b"payload".to_vec()));
        b.put_payload(Payload::zeroes(0));
        b.put(b"tail");
        assert_eq!(b.len(), 17);
        let whole = b"headerpayloadtail";
        for skip in 0..=17 {
            assert_eq!(b.copy_from(skip, 1024), &whole[skip..]);
            let lens: usize = b.segments(skip, 1024).map(|s| s.1).sum();
            assert_eq!(lens, 17 - skip);
            for max in 0..=17 {
                let mut copy = Vec::new();
                b.copy_to(skip, max, &mut copy);
                assert_eq!(copy, &whole[skip..(skip + max).min(17)]);
            }
        }
        assert_eq!(
            b.segments(0, 1024).count(),
            3,
            "neighbours in the arena merge"
        );
    }
}
