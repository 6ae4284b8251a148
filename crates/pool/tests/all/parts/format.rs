//! On-disk structures: golden bytes, round trips, refusals.

use crate::hex::hex;
use crate::parts::golden::{POINTER_HEX, pointer};
use io::rng::Prng;
use pool::format::{
    Address, BLOCK_PTR_SIZE, Birth, Block, BlockPtr, Checksum, ChecksumKind, Compression, Defect,
    Digest, Key, Kind, LOGICAL_SIZE_MAX, NODE_HEADER_SIZE, Node, NodeBuilder, NodeSize, OFFSET_END,
    ObjectId, TreeId, Value, ValueRef, VdevId, VdevOffset,
};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

fn leaf() -> Vec<u8> {
    let mut builder = NodeBuilder::new(0);
    let key = |offset| Key::new(ObjectId(0x11), Kind(0x22), offset);
    builder.push_value(key(0x33), &Value::Block(pointer().into()));
    builder.push_value(key(0x44), &Value::Inline((*b"hello").into()));
    builder.take_node(2, TreeId(0x55), Birth(0x0900_0000))
}

fn branch() -> Vec<u8> {
    let mut builder = NodeBuilder::new(3);
    builder.push_child(Key::new(ObjectId(1), Kind(2), 3), &pointer());
    builder.take_node(1, TreeId(0x55), Birth(0x0900_0000))
}

#[test]
fn golden_pointer() {
    assert_eq!(hex(&pointer().encode()), POINTER_HEX);
    assert_eq!(BlockPtr::decode(&pointer().encode()), Ok(pointer()));
    assert_eq!(
        BlockPtr::encode_option(None),
        [0; BLOCK_PTR_SIZE],
        "no pointer is all zero"
    );
    assert_eq!(BlockPtr::decode_option(&[0; BLOCK_PTR_SIZE]), Ok(None));
    assert_eq!(
        BlockPtr::decode_option(&BlockPtr::encode_option(Some(&pointer()))),
        Ok(Some(pointer()))
    );
}

#[test]
fn golden_checksum() {
    let at = |vdev, offset| Address {
        vdev: VdevId(vdev),
        offset: VdevOffset(offset),
    };
    let of = |at| hex(&Checksum::of(ChecksumKind::Xxh3, at, b"wirepool").0);
    assert_eq!(of(at(0, 0)), "0128fde6e22fd218 5ef52e2e9c91448b");
    assert_eq!(of(at(3, 0x1000)), "33fd0cd69cf3494a 8cc27b452b981d10");
    assert_ne!(of(at(0, 512)), of(at(0, 1024)));
    assert_ne!(of(at(1, 0)), of(at(0, 512)));
    let of = |at| hex(&Checksum::of(ChecksumKind::Blake3, at, b"wirepool").0);
    assert_eq!(of(at(0, 0)), "1679afc6c19fcaa5 8ba41d0496a2f647");
    assert_eq!(of(at(3, 0x1000)), "5d6e958465de87d9 a7a82c084fbef421");
}

/// A folded checksum is the hash of the bytes, exclusive or the XXH3-128 of address and length. XXH3 seeded with the address 0 is
/// XXH3 without a seed; the hash of no bytes is the first vector that BLAKE3 publishes.
#[test]
fn a_folded_checksum_is_the_hash_folded_with_address_and_length() {
    let at = Address {
        vdev: VdevId(3),
        offset: VdevOffset(0x1000),
    };
    let zero = Address {
        vdev: VdevId(0),
        offset: VdevOffset(0),
    };
    let xxh3 = |bytes: &[u8]| Checksum::of(ChecksumKind::Xxh3, zero, bytes).0;
    let folded = |hash: [u8; 16], len: u64| {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&((3 << 48) | 8_u64).to_le_bytes());
        place[8..].copy_from_slice(&len.to_le_bytes());
        let place = xxh3(&place);
        Checksum(std::array::from_fn(|n| hash[n] ^ place[n]))
    };
    let of = |kind, bytes: &[u8]| Checksum::of(kind, at, bytes);
    assert_eq!(
        of(ChecksumKind::FoldedXxh3, b"wirepool"),
        folded(xxh3(b"wirepool"), 8)
    );
    let blake3 = 0xaf13_49b9_f5f9_a1a6_a040_4dea_36dc_c949_u128.to_be_bytes();
    assert_eq!(of(ChecksumKind::FoldedBlake3, b""), folded(blake3, 0));
    for kind in [ChecksumKind::FoldedXxh3, ChecksumKind::FoldedBlake3] {
        let digest = Digest::of(kind, b"wirepool");
        assert_eq!(digest.at(at), of(kind, b"wirepool"));
        assert_ne!(digest.at(at), digest.at(zero), "the address counts");
        assert_ne!(
            of(kind, b"wirepool"),
            of(kind, b"wirepoom"),
            "the bytes count"
        );
        let ptr = BlockPtr::to_digest(at, digest, (Compression::Off, 8), Birth(1));
        assert_eq!(
            ptr,
            BlockPtr::to(at, b"wirepool", (Compression::Off, 8), kind, Birth(1))
        );
        assert_eq!(BlockPtr::decode(&ptr.encode()), Ok(ptr));
        assert_eq!(ptr.verify(b"wirepool"), Ok(()));
        assert_eq!(ptr.verify(b"wirepoom"), Err(Defect::Checksum));
    }
}

/// The published vectors of xxHash: `tests/sanity_test_vectors.h` of <https://github.com/Cyan4973/xxHash>, version 0.8, where
/// `XSUM_XXH3_128_testdata` has length, seed, and the low and high half of the sum. Its seeds are addresses here.
#[test]
fn xxh3_is_the_published_one() {
    const PRIME32: u64 = 0x9e37_79b1;
    const PRIME64: u64 = 0x9e37_79b1_85eb_ca8d;
    let next = |state: &u64| Some(state.wrapping_mul(PRIME64));
    let states = std::iter::successors(Some(PRIME32), next);
    let input: Vec<u8> = states.map(|state| (state >> 56) as u8).take(2367).collect();
    let published: [(usize, u64, u64, u64); 15] = [
        (0, 0, 0x6001_c324_468d_497f, 0x99aa_06d3_0147_98d8),
        (0, PRIME32, 0x5444_f786_9c67_1ab0, 0x9222_0ae5_5e14_ab50),
        (1, 0, 0xc44b_dff4_074e_ecdb, 0xa6cd_5e93_9200_0f6a),
        (1, PRIME32, 0xb53d_5557_e7f7_6f8d, 0x89b9_9554_ba22_467c),
        (6, 0, 0x3e70_39bd_da43_cfc6, 0x082a_fe0b_8162_d12a),
        (12, 0, 0x061a_1927_13f6_9ad9, 0x6e3e_fd8f_c780_2b18),
        (24, 0, 0x1e70_44d2_8b1b_901d, 0x0ce9_66e4_678d_3761),
        (48, 0, 0xf942_219a_ed80_f67b, 0xa002_ac4e_5478_227e),
        (81, PRIME32, 0x703f_bb3d_7a5f_755c, 0x2724_ec7a_dc75_0fb6),
        (222, 0, 0xf1ae_bd59_7cec_6b3a, 0x337e_0964_1b94_8717),
        (403, 0, 0xcdeb_804d_65c6_dea4, 0x1b6d_e21e_332d_d73d),
        (403, PRIME64, 0x6259_f6ec_fd64_43fd, 0xbed3_1197_1e0b_e8f2),
        (512, 0, 0x617e_4959_9013_cb6b, 0x18d2_d110_dcc9_bca1),
        (2048, 0, 0xdd59_e2c3_a5f0_38e0, 0xf736_557f_d470_73a5),
        (2367, 0, 0xcb37_aeb9_e5d3_61ed, 0xe89c_0f6f_f369_b427),
    ];
    for (len, seed, low, high) in published {
        let at = Address {
            vdev: VdevId((seed >> 48) as u16),
            offset: VdevOffset((seed & 0xffff_ffff_ffff) * 512),
        };
        let sum = Checksum::of(ChecksumKind::Xxh3, at, &input[..len]);
        let want = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        assert_eq!(hex(&sum.0), hex(&want), "{len} bytes, seed {seed:#x}");
    }
}

/// The published vectors of BLAKE3: `test_vectors/test_vectors.json` of <https://github.com/BLAKE3-team/BLAKE3>, the first 32
/// bytes of `hash` and `keyed_hash`. Its key cannot be an address, so the library's function is compared with the vectors,
/// and ours with the library's.
#[test]
fn blake3_is_the_published_one() {
    let published = |text: &str| blake3::Hash::from_hex(text).expect("a hash");
    let hashes = [
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
    ];
    for (len, hash) in hashes.into_iter().enumerate() {
        assert_eq!(blake3::hash(&[0][..len]), published(hash), "{len} bytes");
    }
    for (len, hash) in [
        (
            0,
            "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26",
        ),
        (
            1,
            "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b",
        ),
        (
            1024,
            "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4",
        ),
        (
            1025,
            "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69",
        ),
        (
            31744,
            "efa53b389ab67c593dba624d898d0f7353ab99e4ac9d42302ee64cbf9939a419",
        ),
    ] {
        let input: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let keyed = blake3::keyed_hash(b"whats the Elvish word for friend", &input);
        assert_eq!(keyed, published(hash), "{len} bytes");
        let at = Address {
            vdev: VdevId(0x0102),
            offset: VdevOffset(0x0304_0506_0708 * 512),
        };
        let mut key = [0; 32];
        key[..8].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        let sum = Checksum::of(ChecksumKind::Blake3, at, &input);
        let want = blake3::keyed_hash(&key, &input);
        assert_eq!(hex(&sum.0), hex(&want.as_bytes()[..16]), "{len} bytes");
    }
}

#[test]
fn golden_key() {
    let key = Key::new(ObjectId(0x0102_0304_0506_0708), Kind(0x09), 0x0a_0b0c);
    assert_eq!(hex(&key.encode()), "0102030405060708 09000000000a0b0c");
    assert_eq!(Key::decode(key.encode()), key);
    assert_eq!(
        (key.object().0, key.kind().0, key.offset()),
        (0x0102_0304_0506_0708, 9, 0x0a_0b0c)
    );
}

#[test]
fn golden_leaf() {
    let header = "5750746e01000200 5b00000000000000 5500000000000000 0000000900000000";
    let keys = "0000000000000011 2200000000000033 0000000000000011 2200000000000044";
    let (head, rest) = (hex(&leaf()[..64]), hex(&leaf()[64..]));
    assert_eq!(head, format!("{header} {keys}"));
    // Two ends, tag 1 and the pointer, tag 2 and the bytes.
    let mut want = vec![0x31, 0, 0x37, 0, 1];
    want.extend(pointer().encode());
    want.extend(*b"\x02hello");
    assert_eq!(rest, hex(&want));
    let node = Node::decode(leaf()).unwrap();
    assert_eq!(
        (node.level(), node.count(), node.tree()),
        (0, 2, TreeId(0x55))
    );
    assert_eq!(node.value(0), ValueRef::Block(pointer(), &[]));
    assert_eq!(node.value(1), ValueRef::Inline(b"hello"));
}

/// A block of 20 KiB, whose parts have 4 KiB, and its bytes.
fn parted() -> (Block, Vec<u8>) {
    let at = Address {
        vdev: VdevId(3),
        offset: VdevOffset(0x1000),
    };
    let bytes: Vec<u8> = (0..20u32 << 10).map(|n| (n / 4096) as u8).collect();
    let plain = (pool::format::Compression::Off, bytes.len());
    let ptr = BlockPtr::to(at, &bytes, plain, ChecksumKind::Xxh3, Birth(9));
    (Block::in_parts(ptr, &bytes), bytes)
}

/// Tag 3, the pointer, and XXH3-64 of each part, exclusive or that of the part's address and length.
#[test]
fn a_leaf_has_checksums_of_parts() {
    let (block, bytes) = parted();
    let mut builder = NodeBuilder::new(0);
    let key = Key::new(ObjectId(1), Kind(1), 0);
    builder.push_value(key, &Value::Block(block.clone()));
    let node = builder.take_node(1, TreeId(16), Birth(9));
    let mut want = vec![3];
    want.extend(block.ptr().encode());
    for (number, part) in (0..).zip(bytes.chunks(4096)) {
        let sector: u64 = (3 << 48) | ((0x1000 + number * 4096) / 512);
        let place = [sector.to_le_bytes(), 4096_u64.to_le_bytes()].concat();
        want.extend((xxh3_64(part) ^ xxh3_64(&place)).to_le_bytes());
    }
    assert_eq!(want.len(), 1 + 48 + 5 * 8);
    assert!(node.ends_with(&want));
    let decoded = Node::decode(node.clone()).unwrap();
    assert_eq!(decoded.value(0).to_value(), Value::Block(block.clone()));
    let ends_at = NODE_HEADER_SIZE + 16 + 2;
    let refused = |bytes: Vec<u8>| assert!(Node::decode(bytes).is_err());
    // compressed; a keyed checksum; too short for parts
    for (at, value) in [
        (2, &[1][..]),
        (3, &[2]),
        (4, &[0, 0x10, 0, 0, 0, 0x10, 0, 0]),
    ] {
        refused(with(node.clone(), ends_at + 1 + at, value));
    }
    assert_eq!(block.verify_parts(0, &bytes), Ok(()));
    assert_eq!(block.verify_parts(8192, &bytes[8192..12288]), Ok(()));
    let moved = block.verify_parts(4096, &bytes[8192..12288]);
    assert_eq!(moved, Err(Defect::PartChecksum { number: 1 }));
}

#[test]
fn golden_branch() {
    let header = "5750746e01030100 4000000000000000 5500000000000000 0000000900000000";
    let key = "0000000000000001 0200000000000003";
    assert_eq!(hex(&branch()), format!("{header} {key} {POINTER_HEX}"));
    let node = Node::decode(branch()).unwrap();
    assert_eq!((node.level(), node.child(0)), (3, pointer()));
}

#[test]
fn node_sizes() {
    for bytes in [4 << 10, 16 << 10, 20 << 10, 64 << 10] {
        assert_eq!(
            NodeSize::new(bytes).unwrap().capacity(),
            bytes as usize - NODE_HEADER_SIZE
        );
    }
    for bytes in [0, 2048, 5000, 68 << 10, u32::MAX] {
        assert_eq!(NodeSize::new(bytes), None);
    }
}

/// `bytes` with `value` at offset `at`.
fn with(mut bytes: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

#[test]
fn pointers_that_do_not_fit_together_are_refused() {
    let refused = |at: usize, value: &[u8], field: &str| {
        let bytes = with(pointer().encode().to_vec(), at, value);
        let defect = BlockPtr::decode(&bytes.try_into().unwrap()).unwrap_err();
        assert!(
            matches!(defect, Defect::Field { field: f, .. } if f.ends_with(field)),
            "{defect}"
        );
    };
    refused(2, &[3], "compression");
    refused(2, &[0], "physical size");
    refused(3, &[0], "kind of checksum");
    refused(3, &[5], "kind of checksum");
    for flag in [0x11, 0x41, 0x81] {
        refused(3, &[flag], "flags");
    }
    let fragment = with(pointer().encode().to_vec(), 3, &[0x21]);
    let fragment = BlockPtr::decode(&fragment.try_into().unwrap()).unwrap();
    assert!(fragment.is_fragment && !pointer().is_fragment);
    assert_eq!(fragment.encode()[3], 0x21);
    refused(4, &[0; 4], "logical size");
    refused(4, &(LOGICAL_SIZE_MAX + 1).to_le_bytes(), "logical size");
    refused(8, &[0; 4], "physical size");
    refused(8, &0x2001_u32.to_le_bytes(), "physical size");
    refused(16, &[1], "offset");
    refused(16, &OFFSET_END.to_le_bytes(), "offset");
    refused(24, &[0; 8], "birth");
    // the epoch of the placement does not fit into 64 bits
    refused(
        12,
        &[[1, 0, 0, 0].as_slice(), &[0; 8], &[0xff; 8]].concat(),
        "since its birth",
    );
}

/// A moved block has the birth of its contents and the epoch of its placement; a pointer keeps a birth for 2^32 epochs.
#[test]
fn pointers_to_moved_blocks_have_two_epochs() {
    let placed = pointer().placed;
    let moved = pointer().with_contents_of(Birth(placed.0 - 0x0102));
    assert_eq!(
        (moved.birth, moved.placed),
        (Birth(placed.0 - 0x0102), placed)
    );
    let bytes = moved.encode();
    assert_eq!(bytes[12..16], [2, 1, 0, 0]);
    assert_eq!(BlockPtr::decode(&bytes), Ok(moved));
    assert_eq!(pointer().encode()[12..16], [0; 4]);
    let far = Birth(u64::from(u32::MAX) + 1);
    assert!(BlockPtr::keeps(Birth(1), far));
    assert!(!BlockPtr::keeps(Birth(1), Birth(far.0 + 1)));
    assert!(!BlockPtr::keeps(far, Birth(1)), "older than its contents");
}

#[test]
fn nodes_that_are_malformed_are_refused() {
    let refused = |bytes: Vec<u8>, what: &str| {
        let defect = Node::decode(bytes).unwrap_err().to_string();
        assert!(defect.contains(what), "{defect}");
    };
    refused(Vec::new(), "node header: 0 bytes");
    refused(leaf()[..31].to_vec(), "node header: 31 bytes");
    refused(with(leaf(), 0, b"w"), "magic");
    refused(with(leaf(), 4, &[2]), "version");
    refused(with(leaf(), 5, &[13]), "level");
    refused(with(leaf(), 6, &[0]), "count");
    refused(with(leaf(), 6, &[3]), "entry 0: no tag");
    refused(with(leaf(), 6, &[0xff, 0xff]), "leaf entries");
    refused(with(leaf(), 6, &[1]), "entry 0");
    refused(with(leaf(), 8, &[0x5a]), "node body");
    refused(with(leaf(), 12, &[2]), "flags");
    refused(
        with(leaf(), 12, &[1]),
        "a stand-in with more than one entry",
    );
    refused(with(leaf(), 24, &[0; 8]), "birth");
    refused(with(leaf(), 24, &[1, 0, 0, 0]), "entry 0: born after");
    refused(with(leaf(), 63, &[0x33]), "entry 1: its key");
    refused(
        with(leaf(), 48, &[0xff; 16]),
        "entry 1: a key that is reserved",
    );
    refused(
        with(leaf(), 64, &[0x30]),
        "entry 0: a block pointer of another length",
    );
    refused(with(leaf(), 66, &[0x30]), "entry 1: its end");
    refused(with(leaf(), 66, &[0x31]), "entry 1: no tag");
    refused(with(leaf(), 66, &[0x36]), "leaf values");
    refused(with(leaf(), 66, &[0x38]), "entry 1: its end");
    refused(with(leaf(), 68, &[9]), "entry 0: a tag");
    refused(with(leaf(), 71, &[0xff]), "compression");
    refused([leaf(), vec![0]].concat(), "node body");
    refused(with(branch(), 6, &[2]), "node entries");
    refused(with(branch(), 24, &[1, 0, 0, 0]), "entry 0: born after");
    refused(with(branch(), 32 + 16 + 3, &[0xff]), "flags");
    let huge = [leaf(), vec![0; 64 << 10]].concat();
    let size = (huge.len() as u32 - 32).to_le_bytes();
    refused(with(huge, 8, &size), "node body");
}

#[test]
fn an_inline_value_has_a_limit() {
    let mut builder = NodeBuilder::new(0);
    let key = Key::new(ObjectId(0), Kind(0), 0);
    builder.push_value(key, &Value::Inline(vec![7; 1024].into()));
    let bytes = builder.take_node(1, TreeId(1), Birth(1));
    assert!(Node::decode(bytes.clone()).is_ok());
    let mut longer = [bytes, vec![7]].concat();
    let size = (longer.len() as u32 - 32).to_le_bytes();
    longer = with(longer, 8, &size);
    longer = with(longer, 48, &1026_u16.to_le_bytes());
    let defect = Node::decode(longer).unwrap_err().to_string();
    assert!(defect.contains("too long"), "{defect}");
}

/// Keys of volumes are dense, those of directories are not, and there are gaps between objects.
#[test]
fn a_key_is_found_however_keys_are_spread() {
    let mut rng = Prng::new(1);
    for round in 0..200 {
        let (mut keys, mut key) = (Vec::new(), u128::from(rng.u64()));
        for _ in 0..=rng.below(300) {
            keys.push(key);
            let gap = match (round % 4, rng.below(20)) {
                (0, _) | (1, 1..) => 1,
                (1, 0) => rng.u64().into(),
                (2, _) => 1 << rng.below(100),
                _ => u128::from(rng.below(1 << 20)) + 1,
            };
            key += gap;
        }
        let mut builder = NodeBuilder::new(0);
        let key_of = |n: u128| Key::decode(n.to_be_bytes());
        for key in &keys {
            builder.push_value(key_of(*key), &Value::Inline([].into()));
        }
        let node = Node::decode(builder.take_node(keys.len(), TreeId(1), Birth(1)));
        let node = node.expect("a node");
        let around = keys.iter().flat_map(|k| [k.saturating_sub(1), *k, k + 1]);
        let ends = [0, 1, u128::MAX - 1, u128::MAX];
        for key in around.chain(ends).chain([rng.u64().into()]) {
            let below = keys.iter().filter(|k| **k < key).count();
            let up_to = keys.iter().filter(|k| **k <= key).count();
            assert_eq!(node.lower_bound(key_of(key)), below, "{key} of {keys:?}");
            assert_eq!(node.upper_bound(key_of(key)), up_to, "{key} of {keys:?}");
        }
    }
}

/// Encodes the entries of `node` again.
fn encode_again(node: &Node) -> Vec<u8> {
    let mut builder = NodeBuilder::new(node.level());
    for index in 0..node.count() {
        if node.is_leaf() {
            builder.push_value(node.key(index), &node.value(index).to_value());
        } else {
            builder.push_child(node.key(index), &node.child(index));
        }
    }
    builder.take_node(node.count(), node.tree(), node.birth())
}

proptest! {
    #[test]
    fn decoded_nodes_encode_to_the_same_bytes(
        from_leaf in any::<bool>(), at in 0..127_usize, value in any::<u8>(), cut in 0..8_usize,
    ) {
        let mut bytes = if from_leaf { leaf() } else { branch() };
        let length = bytes.len();
        bytes[at % length] = value;
        bytes.truncate(length - cut.saturating_sub(4));
        if let Ok(node) = Node::decode(bytes.clone()) {
            prop_assert_eq!(encode_again(&node), bytes);
        }
    }

    #[test]
    fn keys_sort_as_their_bytes(a in any::<u128>(), b in any::<u128>()) {
        let (a, b) = (Key::decode(a.to_be_bytes()), Key::decode(b.to_be_bytes()));
        prop_assert_eq!(a.cmp(&b), a.encode().cmp(&b.encode()));
        prop_assert_eq!(Key::decode(a.encode()), a);
    }

    #[test]
    fn any_pointer_that_decodes_encodes_to_the_same(bytes in any::<[u8; 32]>(), at in 0..48_usize) {
        let mut encoded = pointer().encode();
        for (i, byte) in bytes.iter().enumerate().take(2) {
            encoded[(at + i) % 48] = *byte;
        }
        if let Ok(ptr) = BlockPtr::decode(&encoded) {
            prop_assert_eq!(ptr.encode(), encoded);
        }
    }
}
