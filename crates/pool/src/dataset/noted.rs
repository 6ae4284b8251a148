//! Clients' requests are noted, for advice.
//!
//! **Owns** the judgement which requests are short. **Called by** reads and acknowledged writes of clients. **Invariant**: nothing
//! but counters depends on it.

use xxhash_rust::xxh3::xxh3_64;

use super::OpenDataset;
use super::read::{Location, Piece};
use crate::accesses::SHORT_PART;
use crate::block_reads::Caching;
use crate::format::ObjectId;

impl Piece {
    /// Whether a short part of a record is read from devices.
    fn is_short(&self) -> bool {
        match &self.location {
            Location::Parts(..) => true,
            Location::Block(block) => self.len * SHORT_PART <= block.ptr().logical_size as usize,
            _ => false,
        }
    }
}

impl OpenDataset {
    /// Notes a read of `len` bytes, once the parts to be read are chosen.
    pub(super) fn note_read(&self, pieces: &[Piece], len: usize, caching: Caching) {
        self.accesses.read(len, pieces.iter().any(Piece::is_short));
        if !caching.in_memory && !caching.on_devices {
            return;
        }
        let reuse = &self.shared.reuse;
        for piece in pieces {
            match &piece.location {
                Location::Block(block) => {
                    let ptr = block.ptr();
                    reuse.note(ptr.name_hash(), ptr.physical_size);
                }
                Location::Parts(block, bytes) => {
                    let (ptr, size) = (block.ptr(), block.part_size());
                    for start in bytes.clone().step_by(size) {
                        reuse.note(ptr.part_name_hash(start), size as u32);
                    }
                }
                // those in memory were noted when they were found
                _ => {}
            }
        }
    }

    /// Notes an acknowledged write of `len` bytes from byte `at` of an object on, which had `size` bytes before.
    pub(crate) fn note_write(&self, object: ObjectId, at: u64, len: usize, size: u64) {
        self.counters.acknowledged(len);
        let place = |at: u64| {
            let of = [self.id.0, object.0, at].map(u64::to_le_bytes);
            xxh3_64(of.as_flattened())
        };
        let ends = &self.shared.write_ends;
        let continues = ends.has(place(at));
        ends.note(place(at + len as u64));
        let record = self.settings.record_size_of(object) as usize;
        let is_short = len * SHORT_PART <= record && at < size && !continues;
        self.accesses.wrote(len, is_short);
    }
}
