//! Entries of a filesystem's tree: golden bytes, round trips, refusals. `docs/format.md`, "Filesystems".

use backend::file::{Ace, AceFlags, AceKind, AceMask, Acl, FileKind, Name, Timestamp, Who};
use pool::format::filesystem::{
    CHUNK_SIZE, ChargeEntry, Dirent, FileOwner, Folding, Header, Inode, InodeFlags, KIND_DIRENT,
    Link, NameHash, ObjectRef, Orphan, Xattr, XattrValue, chunks, counted_key, decode_acl,
    decode_charge, decode_counted, decode_files, encode_acl, encode_charge, encode_counted,
    encode_files, files_key, header_key, inode_key, kind_keys, object_keys, orphan_key,
};
use pool::format::{Defect, ObjectId};
use proptest::prelude::*;

use crate::hex::hex;

fn inode() -> Inode {
    Inode {
        kind: FileKind::CharDevice,
        mode: 0o4755,
        flags: InodeFlags::ACL.with(InodeFlags::LINKS),
        uid: 0x0102_0304,
        gid: 0x0506_0708,
        links: 0x090a_0b0c,
        size: 0x1112_1314_1516_1718,
        used: 0x2122_2324_2526_2728,
        accessed: Timestamp(-2),
        modified: Timestamp(0x3132_3334_3536_3738),
        changed: Timestamp(0x4142_4344_4546_4748),
        created: Timestamp(0x5152_5354_5556_5758),
        change: 0x6162_6364_6566_6768,
        generation: 0xf172_7374_7576_7778,
        parent: ObjectId(0x0082_8384_8586_8788),
        entry: 0x0092_9394_9596_9798,
        device: 0xa1a2_a3a4_a5a6_a7a8,
        verifier: Some(0xb1b2_b3b4_b5b6_b7b8),
    }
}

fn dirent() -> Dirent {
    Dirent {
        target: ObjectRef {
            object: ObjectId(0x0002_0304_0506_0708),
            generation: 0x1112_1314_1516_1718,
        },
        kind: FileKind::Symlink,
        name: Name::new(b"name\xff").expect("a name"),
    }
}

fn header() -> Header {
    Header {
        folding: Folding::Unicode18,
        next: ObjectId(0x0102_0304),
        root: ObjectId(2),
        hash_key: *b"0123456789abcdef",
    }
}

fn xattr(value: XattrValue) -> Xattr {
    Xattr {
        name: (*b"user.a").into(),
        value,
    }
}

fn acl() -> Acl {
    let ace = |kind, flags, mask, who| Ace {
        kind,
        flags,
        mask,
        who,
    };
    Acl::new(vec![
        ace(
            AceKind::Deny,
            AceFlags::INHERITED,
            AceMask::WRITE_DATA,
            Who::User(0x0102_0304),
        ),
        ace(
            AceKind::Allow,
            AceFlags::default(),
            AceMask::ALL,
            Who::Owner,
        ),
        ace(
            AceKind::Audit,
            AceFlags::FILE_INHERIT,
            AceMask::EXECUTE,
            Who::Sid((*b"\x01\x00sid").into()),
        ),
    ])
    .expect("a list")
}

#[test]
fn golden_keys() {
    let object = ObjectId(0x11);
    assert_eq!(
        hex(&inode_key(object).encode()),
        "0000000000000011 0400000000000000"
    );
    assert_eq!(
        hex(&orphan_key(object).encode()),
        "0000000000000000 0a00000000000011"
    );
    assert_eq!(
        hex(&header_key().encode()),
        "0000000000000000 0b00000000000000"
    );
    assert_eq!(
        hex(&files_key().encode()),
        "0000000000000000 0b00000000000001"
    );
    assert_eq!(
        hex(&counted_key().encode()),
        "0000000000000000 0b00000000000002"
    );
    let (user, group) = (FileOwner::User(0x0102_0304), FileOwner::Group(0x0506_0708));
    let owners = [
        (user.space_key(), "0000000000000000 0d00000001020304"),
        (group.space_key(), "0000000000000000 0e00000005060708"),
        (user.quota_key(), "0000000000000000 0f00000001020304"),
        (group.quota_key(), "0000000000000000 1000000005060708"),
    ];
    for (key, bytes) in owners {
        assert_eq!(hex(&key.encode()), bytes);
    }
    let hash = NameHash::of(b"0123456789abcdef", b"name");
    let keys = hash.keys(object, KIND_DIRENT);
    assert_eq!(
        hex(&keys.start.encode()),
        "0000000000000011 055c1a37a36e3b00"
    );
    assert_eq!(keys.start.up_to(keys.end), 256);
    assert_eq!(hash.offset(255), keys.start.offset() + 255);
    let all = object_keys(object);
    assert!(all.contains(&inode_key(object)) && !all.contains(&inode_key(ObjectId(0x12))));
    assert_eq!(kind_keys(object, KIND_DIRENT).start.offset(), 0);
}

/// The published vectors of SipHash-2-4: `vectors.h` of <https://github.com/veorq/SipHash>, with the key 00 to 0f and the
/// message 00, 01, ... of each length. The hash of a name is the upper 48 bits.
#[test]
fn the_hash_of_names_is_the_published_siphash() {
    let key: [u8; 16] = std::array::from_fn(|n| n as u8);
    let published = [
        (0, 0x726f_db47_dd0e_0e31_u64),
        (1, 0x74f8_39c5_93dc_67fd),
        (2, 0x0d6c_8009_d9a9_4f5a),
        (7, 0xab02_00f5_8b01_d137),
        (8, 0x93f5_f579_9a93_2462),
        (15, 0xa129_ca61_49be_45e5),
    ];
    for (len, hash) in published {
        let message: Vec<u8> = (0..len).collect();
        let offset = NameHash::of(&key, &message).offset(0);
        assert_eq!(offset, hash >> 16 << 8, "{len} bytes");
    }
}

#[test]
fn golden_inode() {
    let want = "0106ed090d000000 0403020108070605 0c0b0a0900000000 1817161514131211 \
         2827262524232221 feffffffffffffff 3837363534333231 4847464544434241 \
         5857565554535251 6867666564636261 78777675747372f1 8887868584838200 \
         9897969594939200 a8a7a6a5a4a3a2a1 b8b7b6b5b4b3b2b1 0000000000000000";
    assert_eq!(hex(&inode().encode()), want);
    assert_eq!(Inode::decode(&inode().encode()), Ok(inode()));
}

#[test]
fn golden_names() {
    let want = "0103080706050403 0200181716151413 12116e616d65ff";
    assert_eq!(hex(&dirent().encode()), want);
    assert_eq!(Dirent::decode(&dirent().encode()), Ok(dirent()));
    let link = Link {
        parent: ObjectId(0x0002_0304_0506_0708),
        entry: 0x0012_1314_1516_1718,
    };
    let want = "0108070605040302 0018171615141312 00";
    assert_eq!(hex(&link.encode()), want);
    assert_eq!(Link::decode(&link.encode()), Ok(link));
}

#[test]
fn golden_header_and_orphan() {
    let want = "0101000000000000 0403020100000000 0200000000000000 3031323334353637 \
         3839616263646566";
    assert_eq!(hex(&header().encode()), want);
    assert_eq!(Header::decode(&header().encode()), Ok(header()));
    let orphan = Orphan {
        freed: 0x0102_0304_0506_0708,
    };
    assert_eq!(hex(&orphan.encode()), "0108070605040302 01");
    assert_eq!(Orphan::decode(&orphan.encode()), Ok(orphan));
    assert_eq!(hex(&encode_files(0x0102)), "0201000000000000");
    assert_eq!(decode_files(&encode_files(0x0102)), Ok(0x0102));
    assert!(decode_files(&[0; 7]).is_err() && Orphan::decode(&[1; 8]).is_err());
}

#[test]
fn golden_space_by_owner() {
    let (user, group) = (FileOwner::User(7), FileOwner::Group(u32::MAX));
    let bytes = encode_charge(0x0102_0304_0506_0708);
    assert_eq!(hex(&bytes), "0807060504030201");
    let decode = |key| decode_charge(key, &bytes);
    let value = 0x0102_0304_0506_0708;
    for owner in [user, group] {
        let space = Ok(Some(ChargeEntry::Space(owner, value)));
        assert_eq!(decode(owner.space_key()), space);
        let quota = Ok(Some(ChargeEntry::Quota(owner, value)));
        assert_eq!(decode(owner.quota_key()), quota);
        assert!(
            decode_charge(owner.space_key(), &[0; 8]).is_err(),
            "no bytes"
        );
        assert!(decode_charge(owner.space_key(), &[1; 7]).is_err(), "short");
    }
    assert_eq!(decode(header_key()), Ok(None));
    let beyond = user.space_key().after(1 << 32);
    assert!(decode(beyond).is_err(), "no number of a user");
    let counted = ObjectId(0x0012_1314_1516_1718);
    assert_eq!(hex(&encode_counted(counted)), "1817161514131200");
    assert_eq!(decode_counted(&encode_counted(counted)), Ok(counted));
    assert!(decode_counted(&[0xff; 8]).is_err());
}

#[test]
fn golden_xattr() {
    let small = xattr(XattrValue::Inline((*b"value").into()));
    let want = "0106000005000000 0000000000000000 757365722e617661 6c7565";
    assert_eq!(hex(&small.encode()), want);
    let large = xattr(XattrValue::Object {
        object: ObjectId(0x0102_0304),
        size: 0xffff,
    });
    let want = "01060000ffff0000 0403020100000000 757365722e61";
    assert_eq!(hex(&large.encode()), want);
    for value in [small, large] {
        assert_eq!(Xattr::decode(&value.encode()), Ok(value));
    }
    assert!(Xattr::is_inline(6, 994) && !Xattr::is_inline(6, 995));
}

#[test]
fn golden_acl() {
    let want = "0100030001048000 0200000004030201 00010000ff011f00 0000000002060100 \
         2000000005000000 0100736964";
    assert_eq!(hex(&encode_acl(&acl())), want);
    assert_eq!(decode_acl(&encode_acl(&acl())), Ok(acl()));
    let empty = Acl::new(Vec::new()).expect("a list");
    assert_eq!(decode_acl(&encode_acl(&empty)), Ok(empty));
}

#[test]
fn chunks_are_full_except_the_last() {
    let value = vec![7; 2 * CHUNK_SIZE + 1];
    let sizes: Vec<(u64, usize)> = chunks(&value).map(|(n, c)| (n, c.len())).collect();
    assert_eq!(sizes, [(0, CHUNK_SIZE), (1, CHUNK_SIZE), (2, 1)]);
    assert_eq!(chunks(&[]).count(), 0);
}

/// Each byte in turn with one bit changed: the result is refused, or decodes to a value that encodes to the same bytes.
fn every_byte_counts<T>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, Defect>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    for at in 0..bytes.len() {
        for bit in [0x01, 0x40, 0x80] {
            let mut other = bytes.to_vec();
            other[at] ^= bit;
            if let Ok(value) = decode(&other) {
                assert_eq!(encode(&value), other, "byte {at}");
            }
        }
        assert!(decode(&bytes[..at]).is_err() || at >= 18, "{at} bytes");
    }
    let longer = [bytes, &[0]].concat();
    assert!(decode(&longer).is_err(), "a byte more");
}

#[test]
fn other_bytes_are_refused() {
    every_byte_counts(&inode().encode(), Inode::decode, |v| v.encode().to_vec());
    every_byte_counts(&dirent().encode(), Dirent::decode, |v| v.encode().to_vec());
    every_byte_counts(&header().encode(), Header::decode, |v| v.encode().to_vec());
    every_byte_counts(&encode_acl(&acl()), decode_acl, |v| encode_acl(v).to_vec());
    let small = xattr(XattrValue::Inline((*b"value").into()));
    every_byte_counts(&small.encode(), Xattr::decode, |v| v.encode().to_vec());
    let refused = |at: usize, value: u8, what: &str| {
        let mut bytes = inode().encode().to_vec();
        bytes[at] = value;
        let defect = Inode::decode(&bytes).unwrap_err().to_string();
        assert!(defect.contains(what), "{defect}");
    };
    refused(0, 2, "version of an inode");
    refused(1, 0, "kind of an inode");
    refused(1, 8, "kind of an inode");
    refused(1, 1, "device of an inode");
    refused(3, 0x10, "mode of an inode");
    refused(4, 0x40, "flags of an inode");
    refused(4, 0, "verifier of an inode");
    refused(20, 1, "reserved bytes of an inode");
    refused(31, 0x80, "size of an inode");
    refused(39, 0x80, "space of an inode");
    refused(95, 1, "parent of an inode");
    refused(103, 1, "entry of an inode");
    refused(127, 1, "reserved bytes of an inode");
}

#[test]
fn a_value_is_stored_in_one_place_only() {
    let inline = xattr(XattrValue::Inline(vec![1; 994].into())).encode();
    assert!(Xattr::decode(&inline).is_ok());
    let longer = [&inline[..4], &995_u32.to_le_bytes(), &inline[8..], &[1]].concat();
    assert!(Xattr::decode(&longer).is_err(), "too long to be inline");
    let mut hidden = xattr(XattrValue::Object {
        object: ObjectId(99),
        size: 995,
    })
    .encode();
    hidden[4] -= 1;
    assert!(Xattr::decode(&hidden).is_err(), "short enough to be inline");
}

fn any_kind() -> impl Strategy<Value = FileKind> {
    prop::sample::select(vec![
        FileKind::File,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ])
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp)
}

fn any_inode() -> impl Strategy<Value = Inode> {
    let identity = (any_kind(), 0..=0o7777u16, any::<[u32; 3]>(), any::<u8>());
    let sizes = (0..1u64 << 63, 0..1u64 << 63, 0..1u64 << 56, 0..1u64 << 56);
    let times = (any_time(), any_time(), any_time(), any_time());
    let rest = (any::<[u64; 3]>(), any::<Option<u64>>());
    (identity, sizes, times, rest).prop_map(
        |((kind, mode, [uid, gid, links], flags), sizes, times, (numbers, verifier))| {
            let all = [InodeFlags::ACL, InodeFlags::XATTRS, InodeFlags::LINKS];
            let chosen = (0..).zip(all).filter(|(n, _)| flags >> n & 1 == 1);
            let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
            Inode {
                kind,
                mode,
                flags: chosen.fold(InodeFlags::NONE, |all, (_, f)| all.with(f)),
                uid,
                gid,
                links,
                size: sizes.0,
                used: sizes.1,
                accessed: times.0,
                modified: times.1,
                changed: times.2,
                created: times.3,
                change: numbers[0],
                generation: numbers[1],
                parent: ObjectId(sizes.2),
                entry: sizes.3,
                device: if is_device { numbers[2] } else { 0 },
                verifier,
            }
        },
    )
}

proptest! {
    #[test]
    fn inodes_decode_to_themselves(inode in any_inode()) {
        prop_assert_eq!(Inode::decode(&inode.encode()), Ok(inode));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), version in any::<bool>()) {
        let mut bytes = bytes;
        if version && let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        if let Ok(inode) = Inode::decode(&bytes) {
            prop_assert_eq!(&inode.encode()[..], &bytes[..]);
        }
        if let Ok(dirent) = Dirent::decode(&bytes) {
            prop_assert_eq!(&dirent.encode()[..], &bytes[..]);
        }
        if let Ok(xattr) = Xattr::decode(&bytes) {
            prop_assert_eq!(&xattr.encode()[..], &bytes[..]);
        }
        if let Ok(acl) = decode_acl(&bytes) {
            prop_assert_eq!(&encode_acl(&acl)[..], &bytes[..]);
        }
        if let Ok(link) = Link::decode(&bytes) {
            prop_assert_eq!(&link.encode()[..], &bytes[..]);
        }
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(&header.encode()[..], &bytes[..]);
        }
        if let Ok(orphan) = Orphan::decode(&bytes) {
            prop_assert_eq!(&orphan.encode()[..], &bytes[..]);
        }
    }
}
