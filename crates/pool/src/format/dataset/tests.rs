//! Tests of the two values of a dataset: encoded values decode, and other bytes are refused or differ.

use super::*;
use crate::format::block_sizes::BLOCK_SIZES_SIZE;

fn dataset() -> Dataset {
    Dataset {
        name: "vm1".into(),
        kind: DatasetKind::Snapshot,
        sync: Sync::Always,
        compression: Packing::Zstd(7),
        checksum: ChecksumKind::Blake3,
        settings: Settings::default(),
        switches: Switches::default(),
        refquota: 0,
        autodefrag: Autodefrag::On,
        special_small_blocks: 0,
        has_fragments: true,
        has_blocks: true,
        block_size: 512,
        record_size: 16384,
        file_record_size: 128 << 10,
        size: 1 << 30,
        created: 5,
        birth: Birth(7),
        of: Some(TreeId(3)),
        previous: Some(TreeId(9)),
        origin: None,
        quota: 11,
        reservation: 13,
        guid: 17,
        list: ListId(19),
    }
}

#[test]
fn encoded_values_decode_and_other_bytes_are_refused() {
    let bytes = dataset().encode();
    assert_eq!(Dataset::decode(&bytes), Ok(dataset()));
    for at in 0..PROPERTIES_SIZE {
        let mut other = bytes.to_vec();
        other[at] ^= 0x80;
        if let Ok(decoded) = Dataset::decode(&other) {
            assert_ne!(decoded, dataset(), "byte {at}");
            assert_eq!(decoded.encode()[..], other[..], "byte {at}");
        }
    }
    assert!(Dataset::decode(&bytes[..PROPERTIES_SIZE]).is_err());
    assert!(Dataset::decode(&[]).is_err());
}

#[test]
fn roots_decode_or_are_refused() {
    let root = |logical, sizes| DatasetRoot {
        root: None,
        referenced: 77,
        logical,
        allocated: 78,
        sizes,
    };
    let mut sizes = BlockSizes::default();
    sizes.count_record(77);
    for (logical, sizes, size) in [
        (77, None, ROOT_SIZE),
        (90, None, PACKED_ROOT_SIZE),
        (77, Some(sizes), PACKED_ROOT_SIZE + BLOCK_SIZES_SIZE),
        (90, Some(sizes), PACKED_ROOT_SIZE + BLOCK_SIZES_SIZE),
    ] {
        let bytes = root(logical, sizes).encode();
        assert_eq!(bytes.len(), size);
        assert_eq!(DatasetRoot::decode(&bytes), Ok(root(logical, sizes)));
        assert!(DatasetRoot::decode(&bytes[1..]).is_err());
    }
    for logical in [77, 76, 0u64] {
        let bytes = [&root(77, None).encode()[..], &logical.to_le_bytes()].concat();
        assert!(DatasetRoot::decode(&bytes).is_err(), "{logical}");
    }
}
