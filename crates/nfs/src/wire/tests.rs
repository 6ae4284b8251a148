//! Tests of the encoding of operations: a round trip of every one, and bytes that lie.

use super::channel::{
    BackchannelCtl, BindConnection, CallbackSecurity, Channel, CreateSession, ExchangeId, Sequence,
    StateProtection,
};
use super::files::{Claim, CreateHow, Lock, Locker, NewType, Open, ReadDir};
use super::minor2::{Copy, Minor2, SetOption, Span};
use super::{Attrs, Bitmap, Op, Owner, Stateid, Status, operation};
use crate::rpc::AuthSys;
use crate::xdr::{Reader, Writer, Xdr, XdrError};
use proptest::prelude::*;

const STATEID: Stateid = Stateid {
    seqid: 7,
    other: [3; 12],
};
const OWNER: Owner<'static> = Owner {
    client: 9,
    name: b"owner",
};
const ATTRS: Attrs<'static> = Attrs {
    mask: Bitmap::of(&[4, 33]),
    values: &[0; 12],
};
const CHANNEL: Channel = Channel {
    header_padding: 0,
    request_max: 1,
    reply_max: 2,
    cached_max: 3,
    operations_max: 4,
    slots: 5,
};

fn bytes(op: &Op<'_>) -> Vec<u8> {
    let mut writer = Writer::new();
    op.encode(&mut writer);
    writer.to_vec()
}

fn opens() -> Vec<Op<'static>> {
    let creations = [
        None,
        Some(CreateHow::Unchecked(ATTRS)),
        Some(CreateHow::Guarded(ATTRS)),
        Some(CreateHow::Exclusive([1; 8])),
        Some(CreateHow::Exclusive41([1; 8], ATTRS)),
    ];
    let claims = [
        Claim::Name(b"name"),
        Claim::Previous(1),
        Claim::DelegateCurrent(STATEID, b"name"),
        Claim::DelegatePrevious(b"name"),
        Claim::Handle,
        Claim::DelegateCurrentHandle(STATEID),
        Claim::DelegatePreviousHandle,
    ];
    let open = |create, claim| {
        Op::Open(Box::new(Open {
            seqid: 0,
            access: 3,
            deny: 1,
            owner: OWNER,
            create,
            claim,
        }))
    };
    let all = claims.into_iter();
    all.flat_map(|claim| creations.map(|create| open(create, claim)))
        .collect()
}

fn security() -> Vec<CallbackSecurity> {
    let sys = AuthSys {
        stamp: 1,
        machine: b"client".to_vec(),
        uid: 2,
        gid: 3,
        groups: vec![4],
    };
    vec![
        CallbackSecurity::None,
        CallbackSecurity::Sys(sys),
        CallbackSecurity::Gss,
    ]
}

fn channel_operations() -> Vec<Op<'static>> {
    let protections = [
        StateProtection::None,
        StateProtection::MachineCredential,
        StateProtection::Secret,
    ];
    let exchange = |protection| {
        Op::ExchangeId(Box::new(ExchangeId {
            verifier: [4; 8],
            owner: b"client",
            flags: 1,
            protection,
            implementation: Some((b"example.org", b"client")),
        }))
    };
    let mut all: Vec<Op<'static>> = protections.map(exchange).into();
    all.extend([
        Op::CreateSession(Box::new(CreateSession {
            client: 1,
            sequence: 2,
            flags: 3,
            fore: CHANNEL,
            back: CHANNEL,
            callback_program: 0x4000_0000,
            security: security(),
        })),
        Op::BackchannelCtl(BackchannelCtl {
            program: 7,
            security: security(),
        }),
        Op::BindConnection(BindConnection {
            session: [1; 16],
            direction: 3,
            use_rdma: false,
        }),
        Op::DelegReturn { stateid: STATEID },
        Op::DestroyClientId(5),
        Op::DestroySession([1; 16]),
        Op::ReclaimComplete { one_fs: false },
        Op::Sequence(Sequence {
            session: [1; 16],
            sequence: 1,
            slot: 2,
            highest_slot: 3,
            cache_this: true,
        }),
    ]);
    all
}

fn file_operations() -> Vec<Op<'static>> {
    let create = |kind| Op::Create {
        kind,
        name: b"name",
        attributes: ATTRS,
    };
    let lock = |locker| {
        Op::Lock(Box::new(Lock {
            kind: 2,
            is_reclaim: true,
            offset: 1,
            length: u64::MAX,
            locker,
        }))
    };
    vec![
        Op::Access(63),
        Op::Close { stateid: STATEID },
        Op::Commit {
            offset: 1,
            count: 2,
        },
        create(NewType::Directory),
        create(NewType::Symlink(b"target")),
        create(NewType::Socket),
        create(NewType::Fifo),
        create(NewType::CharDevice(1, 2)),
        create(NewType::BlockDevice(1, 2)),
        create(NewType::Other(1)),
        Op::FreeStateid(STATEID),
        Op::GetAttr(Bitmap::of(&[0, 1, 75])),
        Op::GetFh,
        Op::Link { name: b"name" },
        lock(Locker::New(STATEID, OWNER)),
        lock(Locker::Existing(STATEID)),
        Op::LockT {
            kind: 1,
            offset: 2,
            length: 3,
            owner: OWNER,
        },
        Op::LockU {
            stateid: STATEID,
            offset: 2,
            length: 3,
        },
        Op::Lookup { name: b"name" },
        Op::LookupP,
        Op::NVerify(ATTRS),
        Op::OpenDowngrade {
            stateid: STATEID,
            access: 1,
            deny: 0,
        },
        Op::PutFh(&[1; 128]),
        Op::PutPubFh,
        Op::PutRootFh,
        Op::Read {
            stateid: STATEID,
            offset: 1,
            count: 2,
        },
        Op::ReadDir(ReadDir {
            cookie: 1,
            verifier: [2; 8],
            names_max: 3,
            bytes_max: 4,
            attributes: Bitmap::of(&[11]),
        }),
        Op::ReadLink,
        Op::Remove { name: b"name" },
        Op::Rename {
            old: b"old",
            new: b"new",
        },
        Op::RestoreFh,
        Op::SaveFh,
        Op::SecInfo { name: b"name" },
        Op::SecInfoNoName { style: 1 },
        Op::SetAttr {
            stateid: STATEID,
            attributes: ATTRS,
        },
        Op::TestStateid(vec![STATEID; 3]),
        Op::Verify(ATTRS),
        Op::Write {
            stateid: STATEID,
            offset: 1,
            stable: 2,
            data: b"data!",
        },
        Op::Unsupported(operation::LAYOUTGET),
        Op::Illegal(99),
    ]
}

const SPAN: Span = Span {
    stateid: STATEID,
    offset: 1,
    length: 2,
};

fn minor2_operations() -> Vec<Op<'static>> {
    let copy = |servers| {
        Minor2::Copy(Copy {
            source: STATEID,
            target: Stateid::CURRENT,
            source_offset: 1,
            target_offset: 2,
            count: 3,
            is_consecutive: true,
            is_synchronous: false,
            servers,
        })
    };
    let set = |option| Minor2::SetXattr {
        option,
        name: b"name",
        value: b"value",
    };
    let all = vec![
        Minor2::GetXattr { name: b"name" },
        Minor2::ListXattrs {
            cookie: 1,
            bytes_max: 2,
        },
        Minor2::RemoveXattr { name: b"name" },
        set(SetOption::Either),
        set(SetOption::Create),
        set(SetOption::Replace),
        Minor2::Allocate(SPAN),
        Minor2::Deallocate(SPAN),
        Minor2::IoAdvise {
            span: SPAN,
            hints: 18,
        },
        copy(0),
        copy(2),
        Minor2::ReadPlus {
            stateid: STATEID,
            offset: 1,
            count: 2,
        },
        Minor2::Seek {
            stateid: STATEID,
            offset: 1,
            what: 1,
        },
    ];
    all.into_iter().map(|op| Op::Minor2(Box::new(op))).collect()
}

fn every_operation() -> Vec<Op<'static>> {
    let mut all = file_operations();
    all.extend(minor2_operations());
    all.extend(channel_operations());
    all.extend(opens());
    all
}

#[test]
fn every_operation_is_read_as_it_was_written() {
    for op in every_operation() {
        let bytes = bytes(&op);
        let mut reader = Reader::new(&bytes);
        let decoded = Op::decode(&mut reader);
        assert_eq!(decoded, Ok((op.number(), Ok(op))));
        assert!(reader.is_empty());
    }
}

#[test]
fn operations_of_minor_version_2_have_their_bytes() {
    let seek = Minor2::Seek {
        stateid: STATEID,
        offset: 0x0102,
        what: 1,
    };
    let mut golden = vec![0, 0, 0, 69, 0, 0, 0, 7];
    golden.extend([3; 12]);
    golden.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1]);
    assert_eq!(bytes(&Op::Minor2(Box::new(seek))), golden);

    let set = Minor2::SetXattr {
        option: SetOption::Replace,
        name: b"a",
        value: b"12345",
    };
    let mut golden = vec![0, 0, 0, 73, 0, 0, 0, 2, 0, 0, 0, 1, b'a', 0, 0, 0];
    golden.extend(*b"\0\0\0\x0512345\0\0\0");
    assert_eq!(bytes(&Op::Minor2(Box::new(set))), golden);

    // COPY with a source server of each kind.
    let mut writer = Writer::new();
    writer.u32(60);
    STATEID.encode(&mut writer);
    STATEID.encode(&mut writer);
    [1, 2, 3].iter().for_each(|value| writer.u64(*value));
    [1, 0, 3].iter().for_each(|word| writer.u32(*word));
    writer.u32(1);
    writer.opaque(b"server");
    writer.u32(2);
    writer.opaque(b"nfs://server/");
    writer.u32(3);
    writer.opaque(b"tcp");
    writer.opaque(b"192.0.2.1.8.1");
    let copy = writer.to_vec();
    let mut reader = Reader::new(&copy);
    let (_, decoded) = Op::decode(&mut reader).unwrap();
    let Ok(Op::Minor2(op)) = decoded else {
        panic!("{decoded:?}");
    };
    let Minor2::Copy(args) = *op else {
        panic!("{op:?}");
    };
    assert!(reader.is_empty() && args.is_consecutive && !args.is_synchronous);
    assert_eq!((args.source_offset, args.target_offset), (1, 2));
    assert_eq!((args.count, args.servers), (3, 3));
}

#[test]
fn an_operation_that_is_cut_off_is_refused_at_every_byte() {
    for op in every_operation() {
        let bytes = bytes(&op);
        for len in 4..bytes.len() {
            let decoded = Op::decode(&mut Reader::new(&bytes[..len]));
            let (_, arguments) = decoded.expect("the number is there");
            assert_eq!(arguments, Err(XdrError::Short), "{op:?} of {len} bytes");
        }
    }
}

#[test]
fn lists_longer_than_their_limit_are_refused() {
    let mut writer = Writer::new();
    writer.u32(operation::TEST_STATEID);
    writer.u32(u32::MAX);
    writer.fixed(&[0; 64]);
    let bytes = writer.to_vec();
    let decoded = Op::decode(&mut Reader::new(&bytes));
    assert_eq!(
        decoded,
        Ok((operation::TEST_STATEID, Err(XdrError::TooLong)))
    );
    let handle = bytes_of_handle(129);
    let decoded = Op::decode(&mut Reader::new(&handle));
    assert_eq!(decoded, Ok((operation::PUTFH, Err(XdrError::TooLong))));
}

fn bytes_of_handle(len: usize) -> Vec<u8> {
    bytes(&Op::PutFh(&vec![0; len]))
}

#[test]
fn attributes_without_a_number_are_noticed() {
    let mut writer = Writer::new();
    [5, 1, 0, 0, 0, 1].iter().for_each(|word| writer.u32(*word));
    let bytes = writer.to_vec();
    let bitmap = Bitmap::decode(&mut Reader::new(&bytes)).unwrap();
    assert!(bitmap.has(0) && bitmap.has_unknown());
    assert!(!bitmap.is_within(&Bitmap::of(&[0])));
    assert_eq!(bitmap.iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn every_status_has_its_number() {
    for status in Status::ALL {
        assert_eq!(Status::from_code(status.code()), Some(*status));
    }
    assert_eq!(Status::from_code(3), None);
}

proptest! {
    #[test]
    fn bytes_decode_to_an_operation_that_encodes_to_the_same_value(
        number in operation::FIRST..=operation::LAST + 1,
        arguments in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..400),
    ) {
        let mut input = number.to_be_bytes().to_vec();
        input.extend(arguments);
        if let Ok((_, Ok(op))) = Op::decode(&mut Reader::new(&input)) {
            let again = bytes(&op);
            let decoded = Op::decode(&mut Reader::new(&again));
            let names_unknown = format!("{op:?}").contains("has_unknown: true");
            prop_assert!(names_unknown || decoded == Ok((op.number(), Ok(op))));
        }
    }
}
