//! Contents of one record in memory, and their compressed form.
//!
//! **Owns** the bytes, and their compressed form once there is one. **Called by** volumes, which create them; dirty maps,
//! which hold them; and the owner's commits, which store them. **Invariants**: contents never change; they are compressed at
//! most once, without a lock, by the first task that needs it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use io::SharedBuf;

use crate::compress::{Packed, Packer};
use crate::format::Compression;

#[derive(Debug, Clone)]
enum Bytes {
    /// Assembled in memory of our own.
    Copied(Arc<Vec<u8>>),
    /// A part of a client's buffer.
    Sent(SharedBuf),
}

/// The compression to use, and its result.
#[derive(Debug)]
struct Packing {
    packer: Packer,
    packed: OnceLock<Option<Packed>>,
}

/// Contents of a record: of the record size, or less in a file, where the rest is zero. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    bytes: Bytes,
    /// `None` if it is stored uncompressed.
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

    /// Contents that are stored in a tree.
    pub(crate) fn inline(bytes: &[u8]) -> Self {
        Self {
            bytes: Bytes::Copied(Arc::new(bytes.to_vec())),
            packing: None,
        }
    }

    /// Contents that are stored as the bytes `stored` in this compression, and will be stored so again.
    pub(crate) fn of_block(
        bytes: Vec<u8>,
        compression: Compression,
        stored: &[u8],
        packer: Packer,
    ) -> Self {
        let packing = (compression != Compression::Off).then(|| {
            let bytes = stored.into();
            Arc::new(Packing {
                packer,
                packed: OnceLock::from(Some(Packed { compression, bytes })),
            })
        });
        Self {
            bytes: Bytes::Copied(Arc::new(bytes)),
            packing,
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

    fn packed(&self) -> Option<&Packed> {
        let packing = self.packing.as_ref()?;
        let packed = packing.packed.get_or_init(|| packing.packer.pack(self));
        packed.as_ref()
    }

    /// Whether [`Contents::stored`] returns without compressing.
    pub(crate) fn is_packed(&self) -> bool {
        let packing = self.packing.as_ref();
        packing.is_none_or(|packing| packing.packed.get().is_some())
    }

    /// The stored form.
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
