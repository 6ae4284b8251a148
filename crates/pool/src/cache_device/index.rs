//! Index of a cache device: the place of each block, by the hash of its name.
//!
//! A place and 24 bits of the hash take seven bytes. Other bits of the hash choose a bucket, which is sorted, and grows by a sixteenth.
//!
//! **Owns** the entries. **Called by** a cache device, under its lock. **Invariants**: at most one place for each hash; at most eight bytes for a
//! block, if a bucket has at least 32; a wrong answer is possible (two names may have the same bits), so the contents are verified.

use std::mem::size_of;

/// Most bytes of the device for one bucket: in 4 KiB blocks, a sorted list that is still changed in microseconds.
const BUCKET_BYTES: u64 = 16 << 20;
/// Divisor of a bucket's length for its growth.
const GROWTH_DIVISOR: usize = 16;
/// Bytes of a bucket besides its entries: its vector, and the allocator's header.
const BUCKET_OVERHEAD: usize = size_of::<Vec<Entry>>() + 16;

/// Three bytes of the hash and four of the place, so that entries are sorted by hash.
type Entry = [u8; 7];

fn entry(hash: u64, place: u32) -> Entry {
    let [.., a, b, c] = hash.to_be_bytes();
    let [d, e, f, g] = place.to_be_bytes();
    [a, b, c, d, e, f, g]
}

fn place_of(entry: &Entry) -> u32 {
    let [.., d, e, f, g] = *entry;
    u32::from_be_bytes([d, e, f, g])
}

/// The part of `count` that the upper bits of a hash choose.
pub(super) fn slot(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// See the module header.
pub(super) struct Index {
    buckets: Vec<Vec<Entry>>,
    len: usize,
}

impl Index {
    /// An empty index of a device with `size` bytes for blocks.
    pub(super) fn new(size: u64) -> Self {
        let buckets = size.div_ceil(BUCKET_BYTES).max(1) as usize;
        Self {
            buckets: vec![Vec::new(); buckets],
            len: 0,
        }
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bucket of a hash, and the position of its entry: `Err` if there is none.
    fn find(&self, hash: u64) -> (usize, Result<usize, usize>) {
        let bucket = slot(hash, self.buckets.len());
        let entries = &self.buckets[bucket];
        let at = entries.partition_point(|e| *e < entry(hash, 0));
        let is_it = entries
            .get(at)
            .is_some_and(|e| e[..3] == entry(hash, 0)[..3]);
        (bucket, if is_it { Ok(at) } else { Err(at) })
    }

    /// The place of a block.
    pub(super) fn get(&self, hash: u64) -> Option<u32> {
        let (bucket, at) = self.find(hash);
        at.ok().map(|at| place_of(&self.buckets[bucket][at]))
    }

    /// Sets the place of a block.
    pub(super) fn insert(&mut self, hash: u64, place: u32) {
        let (bucket, at) = self.find(hash);
        let entries = &mut self.buckets[bucket];
        match at {
            Ok(at) => entries[at] = entry(hash, place),
            Err(at) => {
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(entries.len() / GROWTH_DIVISOR + 1);
                }
                entries.insert(at, entry(hash, place));
                self.len += 1;
            }
        }
    }

    /// Removes a block if it is at this place. Returns whether it was.
    pub(super) fn remove(&mut self, hash: u64, place: u32) -> bool {
        let (bucket, Ok(at)) = self.find(hash) else {
            return false;
        };
        let is_there = place_of(&self.buckets[bucket][at]) == place;
        if is_there {
            self.buckets[bucket].remove(at);
            self.len -= 1;
        }
        is_there
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let of_bucket = |b: &Vec<Entry>| b.capacity() * size_of::<Entry>() + BUCKET_OVERHEAD;
        self.buckets.iter().map(of_bucket).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::rng::Prng;
    use std::collections::HashMap;

    #[test]
    fn it_agrees_with_a_map_and_takes_eight_bytes_a_block() {
        let mut rng = Prng::new(5);
        let mut index = Index::new(256 << 20);
        let mut model = HashMap::new();
        for round in 0..60_000u32 {
            let hash = rng.u64();
            index.insert(hash, round);
            model.insert(hash, round);
        }
        assert!(index.memory() <= 8 * index.len(), "{}", index.memory());
        // two of these names may have the same bits: that is a wrong answer, which the checksum of the contents finds
        let right = model
            .iter()
            .filter(|(hash, place)| index.get(**hash) == Some(**place));
        assert!(right.count() > 59_900);
        let absent = (0..60_000)
            .filter(|_| index.get(rng.u64()).is_some())
            .count();
        assert!(absent < 60, "{absent} wrong answers");
        let (hash, place) = model.iter().next().expect("many");
        assert!(!index.remove(*hash, place.wrapping_add(1)));
        assert!(index.remove(*hash, *place) && index.get(*hash).is_none());
        assert!(!index.remove(*hash, *place));
        index.insert(*hash, 7);
        index.insert(*hash, 8);
        assert_eq!(index.get(*hash), Some(8));
    }
}
