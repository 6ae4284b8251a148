//! Shared by tests of golden bytes: a block pointer, and bytes as text.

use pool::format::{Birth, BlockPtr, Checksum, ChecksumKind, Compression, VdevId, VdevOffset};

pub(crate) fn pointer() -> BlockPtr {
    BlockPtr {
        vdev: VdevId(0x0102),
        offset: VdevOffset(0x1122_3344_5600),
        logical_size: 0x2000,
        physical_size: 0x1234,
        compression: Compression::Lz4,
        checksum_kind: ChecksumKind::Xxh3,
        is_fragment: false,
        birth: Birth(0x0807_0605),
        placed: Birth(0x0807_0605),
        checksum: Checksum(*b"0123456789abcdef"),
    }
}

/// The bytes of [`pointer`].
pub(crate) const POINTER_HEX: &str = "0201010100200000 3412000000000000 0056443322110000 0506070800000000 \
     3031323334353637 3839616263646566";
