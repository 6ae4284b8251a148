//! The choice between a long record and its parts.
//!
//! **Owns** the choice, for each record of a request. **Called by** requests, before they read. **Invariant**: only speed depends on
//! it. `docs/decisions/0177`.

use std::ops::Range;

use super::OpenDataset;
use super::read::{Location, Piece};
use crate::block_reads::Caching;
use crate::format::{Block, BlockPtr};

/// Longer requests, in bytes, read whole records.
const REQUEST_MAX: usize = 64 << 10;
/// Divisor of a record: a request that needs more of it reads the whole record.
const PART_OF_RECORD: usize = 2;

/// A range of one record that pieces of a request need.
struct Need {
    ptr: BlockPtr,
    bytes: Range<usize>,
}

impl OpenDataset {
    /// Chooses the records of a request of `len` bytes of which only parts are read: short requests, unless they continue another
    /// one and the record cache can have the record.
    pub(super) fn choose_parts(&self, pieces: &mut [Piece], len: usize, caching: Caching) {
        if len > REQUEST_MAX {
            return;
        }
        // blocks that win over a record lie between the pieces of the record
        let mut needs: Vec<Need> = Vec::new();
        for piece in pieces.iter() {
            let Location::Block(block) = &piece.location else {
                continue;
            };
            let end = piece.skip + piece.len;
            match needs.last_mut() {
                Some(need) if need.ptr == *block.ptr() => need.bytes.end = end,
                _ if block.has_parts() => needs.push(Need {
                    ptr: *block.ptr(),
                    bytes: piece.skip..end,
                }),
                _ => {}
            }
        }
        let mut chosen = None;
        let mut needs = needs.into_iter().peekable();
        for piece in pieces {
            let Location::Block(block) = &piece.location else {
                continue;
            };
            if let Some(need) = needs.next_if(|need| need.ptr == *block.ptr()) {
                let parts = self.parts_for(block, &need.bytes, caching);
                chosen = parts.map(|parts| (need.ptr, parts));
            }
            if let Some((ptr, parts)) = &chosen
                && ptr == block.ptr()
            {
                piece.location = Location::Parts(block.clone(), parts.clone());
            }
        }
    }

    /// The bytes of the parts to be read for these bytes of a record. `None` if the whole record is to be read.
    fn parts_for(
        &self,
        block: &Block,
        bytes: &Range<usize>,
        caching: Caching,
    ) -> Option<Range<usize>> {
        let parts = block.parts_of(bytes)?;
        let ptr = block.ptr();
        if parts.len() * PART_OF_RECORD > ptr.logical_size as usize {
            return None;
        }
        if caching.in_memory {
            let ends = &self.shared.part_ends;
            let place = |at| ptr.address().behind(at).name_hash(ptr.placed);
            let continues = ends.has(place(parts.start));
            ends.note(place(parts.end));
            if continues {
                return None;
            }
        }
        Some(parts)
    }
}
