//! On-disk structures: golden bytes, round trips, refusals.

use std::fmt::Write as _;

use pool::format::{
    Address, BLOCK_PTR_SIZE, Birth, BlockPtr, Checksum, ChecksumKind, Compression, Defect, Key,
    Kind, LOGICAL_SIZE_MAX, NODE_HEADER_SIZE, Node, NodeBuilder, NodeSize, OFFSET_END, ObjectId,
    TreeId, Value, ValueRef, VdevId, VdevOffset,
};
use proptest::prelude::*;

fn pointer() -> BlockPtr {
    BlockPtr {
        vdev: VdevId(0x0102),
        offset: VdevOffset(0x1122_3344_5600),
        logical_size: 0x2000,
        physical_size: 0x1234,
        compression: Compression::Lz4,
        checksum_kind: ChecksumKind::Xxh3,
        birth: Birth(0x0807_0605),
        checksum: Checksum(*b"0123456789abcdef"),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        let gap = if i > 0 && i % 8 == 0 { " " } else { "" };
        write!(text, "{gap}{byte:02x}").expect("a string takes all");
    }
    text
}

const POINTER_HEX: &str = "0201010100200000 3412000000000000 0056443322110000 0506070800000000 \
     3031323334353637 3839616263646566";

fn leaf() -> Vec<u8> {
    let mut builder = NodeBuilder::new(0);
    let key = |offset| Key::new(ObjectId(0x11), Kind(0x22), offset);
    builder.push_value(key(0x33), &Value::Block(pointer()));
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
    // two ends, tag 1 and the pointer, tag 2 and the bytes
    let mut want = vec![0x31, 0, 0x37, 0, 1];
    want.extend(pointer().encode());
    want.extend(*b"\x02hello");
    assert_eq!(rest, hex(&want));
    let node = Node::decode(leaf()).unwrap();
    assert_eq!(
        (node.level(), node.count(), node.tree()),
        (0, 2, TreeId(0x55))
    );
    assert_eq!(node.value(0), ValueRef::Block(pointer()));
    assert_eq!(node.value(1), ValueRef::Inline(b"hello"));
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

/// `bytes` with `value` at `at`.
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
    refused(3, &[3], "kind of checksum");
    refused(3, &[0x11], "flags");
    refused(4, &[0; 4], "logical size");
    refused(4, &(LOGICAL_SIZE_MAX + 1).to_le_bytes(), "logical size");
    refused(8, &[0; 4], "physical size");
    refused(8, &0x2001_u32.to_le_bytes(), "physical size");
    refused(12, &[1], "reserved bytes");
    refused(16, &[1], "offset");
    refused(16, &OFFSET_END.to_le_bytes(), "offset");
    refused(24, &[0; 8], "birth");
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
    refused(with(leaf(), 12, &[1]), "reserved");
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

/// The bytes that the entries of `node` encode to.
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
    fn what_is_decoded_encodes_to_the_same(
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
