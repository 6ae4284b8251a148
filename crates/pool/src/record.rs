//! Contents of one record in memory, their compressed form, and the hashes of the form that is stored.
//!
//! **Owns** the bytes, and form and hashes once they are computed. **Called by** volumes, which create them; dirty maps,
//! which hold them; and the owner's commits, which store them. **Invariants**: contents never change; they are compressed at
//! most once and hashed at most once, without a lock, by the first task that needs it: the shard that took the write, for whole records.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use io::SharedBuf;

use crate::compress::{Packed, Packer};
use crate::format::{Block, Compression, Hashes};

#[derive(Debug, Clone)]
enum Bytes {
    /// Assembled in memory of our own.
    Copied(Arc<Vec<u8>>),
    /// A part of a client's buffer.
    Sent(SharedBuf),
}

/// How contents are stored, and what was computed for that. Each is computed once.
#[derive(Debug)]
struct Form {
    packer: Packer,
    /// The compressed form; `None` inside if the contents do not become smaller.
    packed: OnceLock<Option<Packed>>,
    /// Of the stored form.
    hashes: OnceLock<Hashes>,
}

/// Contents of a record: of the record size, or less in a file, where the rest is zero. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    bytes: Bytes,
    /// `None` for contents of a tree's entry.
    form: Option<Arc<Form>>,
}

impl Contents {
    /// The first of these contents: about `bytes_max` bytes, at least one of them unless `bytes_max` is 0.
    pub(crate) fn first_of<'a>(
        all: impl Iterator<Item = &'a Self>,
        bytes_max: usize,
    ) -> impl Iterator<Item = &'a Self> {
        let mut left = bytes_max;
        all.take_while(move |contents| {
            let fits = left > 0;
            left = left.saturating_sub(contents.len());
            fits
        })
    }

    fn new(bytes: Bytes, size: usize, packer: Packer) -> Self {
        let packed = match packer.packs(size) {
            true => OnceLock::new(),
            false => OnceLock::from(None),
        };
        Self {
            bytes,
            form: Some(Arc::new(Form {
                packer,
                packed,
                hashes: OnceLock::new(),
            })),
        }
    }

    pub(crate) fn copied(bytes: Vec<u8>, packer: Packer) -> Self {
        let size = bytes.len();
        Self::new(Bytes::Copied(Arc::new(bytes)), size, packer)
    }

    /// Contents that are stored in a tree.
    pub(crate) fn inline(bytes: &[u8]) -> Self {
        Self {
            bytes: Bytes::Copied(Arc::new(bytes.to_vec())),
            form: None,
        }
    }

    /// Contents of a block, which is stored as the verified bytes `stored`, and will be stored so again. They have the hashes of the
    /// block's checksums if these are of the kind that the packer wants: the bytes are not hashed again.
    pub(crate) fn of_block(bytes: Vec<u8>, block: &Block, stored: &[u8], packer: Packer) -> Self {
        let compression = block.ptr().compression;
        let wants_parts = packer.has_parts && Block::may_have_parts(block.ptr());
        let known = Hashes::of_block(block)
            .filter(|known| known.kind() == packer.checksum && known.has_parts() == wants_parts);
        let packed = (compression != Compression::Off).then(|| Packed {
            compression,
            bytes: stored.into(),
        });
        Self {
            bytes: Bytes::Copied(Arc::new(bytes)),
            form: Some(Arc::new(Form {
                packer,
                packed: OnceLock::from(packed),
                hashes: known.map_or_else(OnceLock::new, OnceLock::from),
            })),
        }
    }

    pub(crate) fn sent(bytes: SharedBuf, packer: Packer) -> Self {
        let size = bytes.len();
        Self::new(Bytes::Sent(bytes), size, packer)
    }

    /// Compresses the contents, unless this was done before. Returns whether they became smaller. May take long: do not hold
    /// a lock.
    pub(crate) fn pack(&self) -> bool {
        self.packed().is_some()
    }

    /// As [`Contents::pack`]. Also hashes the stored form, so that the owner need not.
    pub(crate) fn prepare(&self) -> bool {
        let is_smaller = self.pack();
        if let Some(form) = &self.form {
            let _hashes = form
                .hashes
                .get_or_init(|| form.packer.hashes(self.stored()));
        }
        is_smaller
    }

    /// Whether [`Contents::prepare`] has nothing left to do.
    pub(crate) fn is_prepared(&self) -> bool {
        let form = self.form.as_ref();
        form.is_none_or(|form| form.packed.get().is_some() && form.hashes.get().is_some())
    }

    fn packed(&self) -> Option<&Packed> {
        let form = self.form.as_ref()?;
        let packed = form.packed.get_or_init(|| form.packer.pack(self));
        packed.as_ref()
    }

    /// Whether [`Contents::stored`] returns without compressing.
    pub(crate) fn is_packed(&self) -> bool {
        let form = self.form.as_ref();
        form.is_none_or(|form| form.packed.get().is_some())
    }

    /// The stored form.
    pub(crate) fn stored(&self) -> (Compression, &[u8]) {
        match self.packed() {
            Some(packed) => (packed.compression, &packed.bytes),
            None => (Compression::Off, self),
        }
    }

    /// The hashes of the stored form for the checksums of `packer`: those of [`Contents::prepare`], unless the dataset's checksum is
    /// another one since. Otherwise it takes as long as reading all bytes.
    pub(crate) fn hashes(&self, packer: Packer) -> Cow<'_, Hashes> {
        let of_stored = || packer.hashes(self.stored());
        let form = self.form.as_ref();
        match form.filter(|form| form.packer.hashes_as(packer)) {
            Some(form) => Cow::Borrowed(form.hashes.get_or_init(of_stored)),
            None => Cow::Owned(of_stored()),
        }
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Copied(bytes) => bytes,
            Bytes::Sent(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Address, Birth, BlockPtr, ChecksumKind, Packing, VdevId, VdevOffset};

    fn packer(packing: Packing, checksum: ChecksumKind) -> Packer {
        Packer {
            packing,
            checksum,
            has_parts: true,
            sector: 512,
        }
    }

    /// The hashes that a shard computes are of the form that is stored, and of the kind that the owner asks for.
    #[test]
    fn hashes_are_of_the_stored_form() {
        for packing in [Packing::Off, Packing::Lz4] {
            for kind in [ChecksumKind::FoldedXxh3, ChecksumKind::FoldedBlake3] {
                let prepared = packer(packing, ChecksumKind::FoldedXxh3);
                let contents = Contents::copied(vec![7; 16 << 10], prepared);
                assert_eq!(contents.is_packed(), packing == Packing::Off);
                let is_smaller = contents.prepare();
                assert_eq!(is_smaller, packing == Packing::Lz4);
                assert!(contents.is_packed());
                let (_, stored) = contents.stored();
                let has_parts = packing == Packing::Off && kind == ChecksumKind::FoldedXxh3;
                let found = contents.hashes(packer(packing, kind));
                assert_eq!(found.has_parts(), has_parts);
                assert_eq!(*found, Hashes::of(kind, stored, has_parts));
            }
        }
    }

    /// Contents of a block have the hashes of its checksums, and get the checksums of their bytes at another address.
    #[test]
    fn a_moved_block_is_not_hashed_again() {
        let at = |offset| Address {
            vdev: VdevId(2),
            offset: VdevOffset(offset),
        };
        let bytes: Vec<u8> = (0..50_001).map(|n| (n / 13) as u8).collect();
        let form = (Compression::Off, bytes.len());
        for kind in [ChecksumKind::FoldedXxh3, ChecksumKind::FoldedBlake3] {
            let packer = packer(Packing::Off, kind);
            let hashes = Hashes::of(kind, &bytes, true);
            let block = Block::placed(at(0x7000), &hashes, form, Birth(3));
            // wrong bytes show that they are not hashed
            let contents = Contents::of_block(vec![0; bytes.len()], &block, &bytes, packer);
            assert_eq!(*contents.hashes(packer), hashes);
            let moved = Block::placed(at(0x9000), &contents.hashes(packer), form, Birth(4));
            assert_eq!(moved.ptr().verify(&bytes), Ok(()));
            assert_eq!(moved.has_parts(), kind == ChecksumKind::FoldedXxh3);
            if moved.has_parts() {
                assert_eq!(moved.verify_parts(0, &bytes), Ok(()));
            }
        }
    }

    /// A block of an older kind, or without the checksums of parts that it should have, is hashed.
    #[test]
    fn a_moved_block_of_an_older_kind_is_hashed() {
        let at = Address {
            vdev: VdevId(0),
            offset: VdevOffset(0x7000),
        };
        let bytes = vec![9; 32 << 10];
        let packer = packer(Packing::Off, ChecksumKind::FoldedXxh3);
        let form = (Compression::Off, bytes.len());
        let old = BlockPtr::to(at, &bytes, form, ChecksumKind::Xxh3, Birth(3));
        let whole = Hashes::of(ChecksumKind::FoldedXxh3, &bytes, false);
        let whole = Block::placed(at, &whole, form, Birth(3));
        for block in [Block::in_parts(old, &bytes), whole] {
            let contents = Contents::of_block(bytes.clone(), &block, &bytes, packer);
            let wanted = Hashes::of(ChecksumKind::FoldedXxh3, &bytes, true);
            assert!(wanted.has_parts());
            assert_eq!(*contents.hashes(packer), wanted);
        }
    }
}
