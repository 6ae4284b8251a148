//! A record's contents in memory, and what they are stored as.
//!
//! **Owns** the bytes, where they lie, and their compressed form once there is one. **Called by** volumes, which make them;
//! dirty maps, which hold them; and the owner's commits, which store them. **Invariants**: contents never change; they are
//! compressed once at most, without a lock, by whoever comes first.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use io::SharedBuf;

use crate::compress::{Packed, Packer};
use crate::format::Compression;

#[derive(Debug, Clone)]
enum Bytes {
    /// Put together here.
    Copied(Arc<Vec<u8>>),
    /// Part of what a client sent.
    Sent(SharedBuf),
}

/// How it is compressed, and what came of that.
#[derive(Debug)]
struct Packing {
    packer: Packer,
    packed: OnceLock<Option<Packed>>,
}

/// A record's contents: as many bytes as the volume's records have. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    bytes: Bytes,
    /// None if it is stored as it is.
    packing: Option<Arc<Packing>>,
}

impl Contents {
    fn new(bytes: Bytes, size: usize, packer: Packer) -> Self {
        let packing = packer.packs(size).then(|| {
            Arc::new(Packing {
                packer,
                packed: OnceLock::new(),
            })
        });
        Self { bytes, packing }
    }

    pub(crate) fn copied(bytes: Vec<u8>, packer: Packer) -> Self {
        let size = bytes.len();
        Self::new(Bytes::Copied(Arc::new(bytes)), size, packer)
    }

    pub(crate) fn sent(bytes: SharedBuf, packer: Packer) -> Self {
        let size = bytes.len();
        Self::new(Bytes::Sent(bytes), size, packer)
    }

    /// Compresses it, unless that has been done. It may take long: hold no lock. Whether it is smaller now.
    pub(crate) fn pack(&self) -> bool {
        self.packed().is_some()
    }

    fn packed(&self) -> Option<&Packed> {
        let packing = self.packing.as_ref()?;
        let packed = packing.packed.get_or_init(|| packing.packer.pack(self));
        packed.as_ref()
    }

    /// Whether [`Contents::stored`] returns at once.
    pub(crate) fn is_packed(&self) -> bool {
        let packing = self.packing.as_ref();
        packing.is_none_or(|packing| packing.packed.get().is_some())
    }

    /// What is stored.
    pub(crate) fn stored(&self) -> (Compression, &[u8]) {
        match self.packed() {
            Some(packed) => (packed.compression, &packed.bytes),
            None => (Compression::Off, self),
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
