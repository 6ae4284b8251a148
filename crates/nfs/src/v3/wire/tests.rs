//! Golden bytes after RFC 1813, and round trips of all arguments.

use super::attributes::{Set, encode, encode_change, encode_unchanged};
use super::{Arguments, At, CreateHow, HANDLE_LEN_MAX, NewNode, Status, mount, procedure};
use crate::xdr::{Codec, Reader, Writer, XdrError};
use backend::file::{Attributes, Change, FileKind, Handle, SetAttributes, SetTime, Timestamp};
use proptest::prelude::*;

fn bytes(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.to_vec()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const OBJECT: Attributes = Attributes {
    handle: Handle {
        filesystem: 1,
        object: 2,
        generation: 3,
    },
    kind: FileKind::CharDevice,
    mode: 0o644,
    links: 4,
    uid: 5,
    gid: 6,
    size: 7,
    used: 512,
    device: 0x801,
    accessed: Timestamp(8_000_000_009),
    modified: Timestamp(-1),
    changed: Timestamp(i64::MAX),
    created: Timestamp(10),
    change: 11,
};

#[test]
fn attributes_have_the_layout_of_fattr3() {
    let expected = words(&[
        4, 0o644, 4, 5, 6, 0, 7, 0, 512, // type, mode, nlink, uid, gid, size, used
        8, 1, 0, 0x99, 0, 2, // rdev, fsid, fileid
        8, 9, 0, 0, // atime, and an mtime before 1970
    ]);
    let written = bytes(|w| encode(&OBJECT, 0x99, w));
    assert_eq!(written.len(), 84);
    assert_eq!(written[..expected.len()], expected);
    // 2^63 - 1 nanoseconds are more than 2^32 seconds.
    assert_eq!(written[76..], words(&[u32::MAX, 0]));
}

#[test]
fn a_change_has_size_and_times_before() {
    let before = Attributes {
        size: 1,
        modified: Timestamp(2_000_000_003),
        changed: Timestamp(4_000_000_005),
        ..OBJECT
    };
    let change = Change {
        before,
        after: OBJECT,
    };
    let written = bytes(|w| encode_change(&change, 0, w));
    assert_eq!(written[..32], words(&[1, 0, 1, 2, 3, 4, 5, 1]));
    assert_eq!(written.len(), 32 + 84);
    assert_eq!(bytes(|w| encode_unchanged(None, 0, w)), words(&[0, 0]));
}

#[test]
fn new_attributes_have_the_layout_of_sattr3() {
    let all = words(&[1, 0o10_0755, 1, 2, 1, 3, 1, 0, 4, 1, 2, 5, 6]);
    let set = SetAttributes {
        mode: Some(0o755),
        uid: Some(2),
        gid: Some(3),
        size: Some(4),
        accessed: SetTime::Now,
        modified: SetTime::To(Timestamp(5_000_000_006)),
        created: None,
        guard: None,
    };
    assert_eq!(Set::decode(&mut Reader::new(&all)), Ok(set));
    let none = words(&[0; 6]);
    let decoded = Set::decode(&mut Reader::new(&none));
    assert_eq!(decoded, Ok(SetAttributes::default()));
    for bad in [
        &[2, 0, 0, 0, 0, 0, 0][..],
        &[0, 0, 0, 0, 3, 0],
        &[0, 0, 0, 0, 0, 2, 1, 1_000_000_000],
    ] {
        assert_eq!(
            Set::decode(&mut Reader::new(&words(bad))),
            Err(XdrError::Value)
        );
    }
}

#[test]
fn arguments_have_the_layout_of_the_specification() {
    let handle = &[7; 4][..];
    let at = At {
        directory: handle,
        name: b"ab",
    };
    let with_at = |rest: &[u32]| {
        let mut all = words(&[4, 0x0707_0707, 2, 0x6162_0000]);
        all.extend(words(rest));
        all
    };
    let none = SetAttributes::default();
    for (arguments, expected) in [
        (Arguments::Lookup(at), with_at(&[])),
        (
            Arguments::Write {
                file: handle,
                offset: 1 << 32,
                count: 1,
                stable: 2,
                data: b"x",
            },
            words(&[4, 0x0707_0707, 1, 0, 1, 2, 1, 0x7800_0000]),
        ),
        (
            Arguments::Create {
                at,
                how: CreateHow::Exclusive([9; 8]),
            },
            with_at(&[2, 0x0909_0909, 0x0909_0909]),
        ),
        (
            Arguments::MkNod {
                at,
                node: NewNode::CharDevice(none, 8, 1),
            },
            with_at(&[4, 0, 0, 0, 0, 0, 0, 8, 1]),
        ),
        (
            Arguments::SetAttr {
                object: handle,
                set: none,
                guard: Some(Timestamp(1_000_000_002)),
            },
            words(&[4, 0x0707_0707, 0, 0, 0, 0, 0, 0, 1, 1, 2]),
        ),
        (
            Arguments::ReadDirPlus {
                directory: handle,
                cookie: 3,
                verifier: [0; 8],
                names_max: 4,
                bytes_max: 5,
            },
            words(&[4, 0x0707_0707, 0, 3, 0, 0, 4, 5]),
        ),
    ] {
        assert_eq!(
            bytes(|w| arguments.encode_fields(w)),
            expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn lengths_beyond_a_limit_are_refused() {
    let long = bytes(|w| w.opaque(&[1; HANDLE_LEN_MAX + 4]));
    let decoded = Arguments::decode_fields(procedure::GETATTR, &mut Reader::new(&long));
    assert_eq!(decoded, Err(XdrError::TooLong));
    let lies = words(&[0, 0, 0, 5, 2, 0x7fff_ffff]);
    let decoded = Arguments::decode_fields(procedure::WRITE, &mut Reader::new(&lies));
    assert_eq!(decoded, Err(XdrError::TooLong));
    let path = bytes(|w| w.opaque(&[b'/'; mount::PATH_LEN_MAX + 1]));
    let decoded = mount::Arguments::decode_fields(mount::procedure::MNT, &mut Reader::new(&path));
    assert_eq!(decoded, Err(XdrError::TooLong));
    let none = Arguments::decode_fields(procedure::COUNT, &mut Reader::new(&[]));
    assert_eq!(none, Ok(None));
    assert_eq!(
        mount::Arguments::decode_fields(6, &mut Reader::new(&[])),
        Ok(None)
    );
}

#[test]
fn every_status_has_a_number_of_its_own() {
    for status in Status::ALL {
        assert_eq!(Status::from_code(status.code()), Some(*status));
    }
}

#[derive(Debug, Clone)]
struct Values {
    handles: [Vec<u8>; 2],
    names: [Vec<u8>; 2],
    set: SetAttributes,
    numbers: (u64, u32, u32),
    stable: u32,
    verifier: [u8; 8],
    time: u32,
}

fn values() -> impl Strategy<Value = Values> {
    let handle = || prop::collection::vec(any::<u8>(), 0..=HANDLE_LEN_MAX);
    let name = || prop::collection::vec(any::<u8>(), 0..300);
    let time = prop_oneof![
        Just(SetTime::Keep),
        Just(SetTime::Now),
        (any::<u32>(), 0..1_000_000_000u32)
            .prop_map(|(s, n)| SetTime::To(Timestamp::from_parts(s.into(), n))),
    ];
    let optional = || prop::option::of(any::<u32>());
    let set = (
        prop::option::of(0..0o10000u16),
        optional(),
        optional(),
        prop::option::of(any::<u64>()),
        time,
    )
        .prop_map(|(mode, uid, gid, size, accessed)| SetAttributes {
            mode,
            uid,
            gid,
            size,
            accessed,
            ..SetAttributes::default()
        });
    (
        ([handle(), handle()], [name(), name()]),
        set,
        any::<(u64, u32, u32)>(),
        0..3u32,
        any::<([u8; 8], u32)>(),
    )
        .prop_map(
            |((handles, names), set, numbers, stable, (verifier, time))| Values {
                handles,
                names,
                set,
                numbers,
                stable,
                verifier,
                time,
            },
        )
}

impl Values {
    fn all(&self) -> Vec<Arguments<'_>> {
        let [object, other] = [&self.handles[0][..], &self.handles[1][..]];
        let at = At {
            directory: object,
            name: &self.names[0],
        };
        let to = At {
            directory: other,
            name: &self.names[1],
        };
        let (offset, count, bytes_max) = self.numbers;
        let (set, verifier) = (self.set, self.verifier);
        let guard = self
            .time
            .is_multiple_of(2)
            .then(|| Timestamp::from_parts(self.time.into(), 5));
        let data = &self.names[1][..];
        let mut all = vec![
            Arguments::Null,
            Arguments::GetAttr { object },
            Arguments::SetAttr { object, set, guard },
            Arguments::Lookup(at),
            Arguments::Access {
                object,
                wanted: count,
            },
            Arguments::ReadLink { object },
            Arguments::Read {
                file: object,
                offset,
                count,
            },
            Arguments::Write {
                file: object,
                offset,
                count,
                stable: self.stable,
                data,
            },
            Arguments::MkDir { at, set },
            Arguments::SymLink {
                at,
                set,
                path: data,
            },
            Arguments::Remove(at),
            Arguments::RmDir(at),
            Arguments::Rename { from: at, to },
            Arguments::Link { object, to },
            Arguments::ReadDir {
                directory: object,
                cookie: offset,
                verifier,
                bytes_max,
            },
            Arguments::ReadDirPlus {
                directory: object,
                cookie: offset,
                verifier,
                names_max: count,
                bytes_max,
            },
            Arguments::FsStat { object },
            Arguments::FsInfo { object },
            Arguments::PathConf { object },
            Arguments::Commit {
                file: object,
                offset,
                count,
            },
        ];
        let hows = [
            CreateHow::Unchecked(set),
            CreateHow::Guarded(set),
            CreateHow::Exclusive(verifier),
        ];
        all.extend(hows.map(|how| Arguments::Create { at, how }));
        let nodes = [
            NewNode::BlockDevice(set, count, bytes_max),
            NewNode::CharDevice(set, count, bytes_max),
            NewNode::Socket(set),
            NewNode::Fifo(set),
            NewNode::Other(1),
        ];
        all.extend(nodes.map(|node| Arguments::MkNod { at, node }));
        all
    }
}

proptest! {
    #[test]
    fn all_arguments_are_read_as_they_were_written(values in values()) {
        for arguments in values.all() {
            let written = bytes(|w| arguments.encode_fields(w));
            let mut reader = Reader::new(&written);
            let decoded = Arguments::decode_fields(arguments.number(), &mut reader);
            prop_assert_eq!(decoded, Ok(Some(arguments)));
            prop_assert!(reader.is_empty());
            // A cut request is no request.
            for len in [written.len() / 2, written.len().saturating_sub(1)] {
                let cut = Arguments::decode_fields(arguments.number(), &mut Reader::new(&written[..len]));
                prop_assert!(cut.is_err() || written.is_empty());
            }
        }
    }

    #[test]
    fn arguments_of_any_bytes_are_read_as_they_are_written_again(
        number in 0..procedure::COUNT,
        words in prop::collection::vec(prop_oneof![4 => 0..5u32, 1 => any::<u32>()], 0..40),
    ) {
        let input: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        if let Ok(Some(arguments)) = Arguments::decode_fields(number, &mut Reader::new(&input)) {
            let written = bytes(|w| arguments.encode_fields(w));
            prop_assert!(written.len() <= input.len());
            let again = Arguments::decode_fields(number, &mut Reader::new(&written));
            prop_assert_eq!(again, Ok(Some(arguments)));
        }
    }
}
