//! Operations of minor version 2: versions, space and holes, copies.

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, export, open, open_with, simulated};
use nfs::export::Rule;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::minor2::{Copy, Minor2, Span};
use nfs::wire::{Bitmap, Op, Stateid, Status, operation};

const SIZE: u32 = 4;
const SPACE_USED: u32 = 45;
const CHANGE_ATTR_TYPE: u32 = 79;
/// Unit of holes of the file system in memory.
const BLOCK: u64 = 4096;

fn op(op: Minor2<'static>) -> Op<'static> {
    Op::Minor2(Box::new(op))
}

fn span(offset: u64, length: u64) -> Span {
    Span {
        stateid: Stateid::ANONYMOUS,
        offset,
        length,
    }
}

fn seek(offset: u64, what: u32) -> Op<'static> {
    op(Minor2::Seek {
        stateid: Stateid::ANONYMOUS,
        offset,
        what,
    })
}

async fn client(fixture: &Fixture) -> Client {
    let mut client = fixture.client("a").await;
    client.minor = 2;
    client
}

/// Creates a file with these contents.
async fn write(client: &mut Client, name: &str, offset: u64, data: &[u8]) {
    let write = Op::Write {
        stateid: Stateid::CURRENT,
        offset,
        stable: 2,
        data,
    };
    let close = Op::Close {
        stateid: Stateid::CURRENT,
    };
    let create = open(name, Some(CreateHow::Unchecked(NO_ATTRS)));
    let mut results = client.at(HOME, &[create, write, close]).await;
    results.open();
    results.ok(operation::WRITE);
    assert_eq!(results.status, Status::Ok);
}

fn path(name: &str) -> [&str; 3] {
    [HOME[0], HOME[1], name]
}

async fn contents(client: &mut Client, name: &str) -> Vec<u8> {
    let read = Op::Read {
        stateid: Stateid::ANONYMOUS,
        offset: 0,
        count: 1 << 20,
    };
    let mut results = client.at(&path(name), &[read]).await;
    results.ok(operation::READ);
    results.u32();
    results.opaque()
}

/// Size and used space.
async fn extent(client: &mut Client, name: &str) -> (u64, u64) {
    let get = Op::GetAttr(Bitmap::of(&[SIZE, SPACE_USED]));
    let mut results = client.at(&path(name), &[get]).await;
    results.ok(operation::GETATTR);
    results.bitmap();
    results.u32();
    (results.u64(), results.u64())
}

#[test]
fn operations_belong_to_their_minor_version() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        for number in operation::ALLOCATE..=operation::REMOVEXATTR {
            client.minor = 1;
            let mut results = client.at(HOME, &[Op::Unsupported(number)]).await;
            results.has(operation::ILLEGAL, Status::OpIllegal);
        }
        client.minor = 2;
        for number in [
            operation::CLONE,
            operation::COPY_NOTIFY,
            operation::LAYOUTERROR,
            operation::LAYOUTSTATS,
            operation::OFFLOAD_CANCEL,
            operation::OFFLOAD_STATUS,
            operation::WRITE_SAME,
        ] {
            let mut results = client.at(HOME, &[Op::Unsupported(number)]).await;
            results.has(number, Status::Notsupp);
        }
        let mut results = client.at(HOME, &[Op::Illegal(76)]).await;
        results.has(operation::ILLEGAL, Status::OpIllegal);
        let record = client.encoded(3, &[Op::PutRootFh]);
        let results = client.results_of(record).await;
        assert_eq!(
            (results.status, results.count),
            (Status::MinorVersMismatch, 0)
        );
    });
}

#[test]
fn attributes_belong_to_their_minor_version() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        for (minor, has_it) in [(1, false), (2, true)] {
            client.minor = minor;
            let get = Op::GetAttr(Bitmap::of(&[0, CHANGE_ATTR_TYPE]));
            let mut results = client.at(HOME, &[get]).await;
            results.ok(operation::GETATTR);
            assert_eq!(results.bitmap().has(CHANGE_ATTR_TYPE), has_it);
            results.u32();
            assert_eq!(results.bitmap().has(CHANGE_ATTR_TYPE), has_it);
            if has_it {
                assert_eq!(results.u32(), 4, "undefined");
            }
        }
    });
}

#[test]
fn space_is_allocated_and_freed() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        write(&mut client, "f", 0, &[7; 3 * BLOCK as usize]).await;
        let file = path("f");

        let allocate = op(Minor2::Allocate(span(BLOCK, 9 * BLOCK)));
        client.at(&file, &[allocate]).await.ok(operation::ALLOCATE);
        assert_eq!(extent(&mut client, "f").await, (10 * BLOCK, 3 * BLOCK));

        let punch = op(Minor2::Deallocate(span(BLOCK, BLOCK)));
        client.at(&file, &[punch]).await.ok(operation::DEALLOCATE);
        let punch = op(Minor2::Deallocate(span(
            2 * BLOCK + 1,
            u64::MAX - 3 * BLOCK,
        )));
        client.at(&file, &[punch]).await.ok(operation::DEALLOCATE);
        assert_eq!(extent(&mut client, "f").await, (10 * BLOCK, 2 * BLOCK));
        let mut expected = vec![0; 10 * BLOCK as usize];
        expected[..BLOCK as usize].fill(7);
        expected[2 * BLOCK as usize] = 7;
        assert_eq!(contents(&mut client, "f").await, expected);

        for (offset, length, status) in [
            (0, 0, Status::Inval),
            (2, u64::MAX, Status::Inval),
            (0, 1 << 62, Status::Nospc),
        ] {
            let refused = op(Minor2::Allocate(span(offset, length)));
            let mut results = client.at(&file, &[refused]).await;
            results.has(operation::ALLOCATE, status);
        }
        let directory = op(Minor2::Allocate(span(0, 1)));
        let mut results = client.at(HOME, &[directory]).await;
        results.has(operation::ALLOCATE, Status::Isdir);
        let mut results = client.at(&[], &[op(Minor2::Deallocate(span(0, 1)))]).await;
        results.has(operation::DEALLOCATE, Status::Isdir);
    });
}

#[test]
fn changes_need_rights_and_a_state_for_writing() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        write(&mut client, "f", 0, b"abc").await;
        let file = path("f");
        let claim = Claim::Name(b"f");
        let mut results = client.at(HOME, &[open_with(claim, None, 1, 0)]).await;
        let stateid = results.open();
        let with = |stateid| Span {
            stateid,
            offset: 0,
            length: 1,
        };
        let punch = |stateid| op(Minor2::Deallocate(with(stateid)));
        let mut results = client.at(&file, &[punch(stateid)]).await;
        results.has(operation::DEALLOCATE, Status::Openmode);
        let unknown = Stateid {
            seqid: 1,
            other: [9; 12],
        };
        let mut results = client.at(&file, &[punch(unknown)]).await;
        results.has(operation::DEALLOCATE, Status::StaleStateid);
        let advise = |stateid| {
            op(Minor2::IoAdvise {
                span: with(stateid),
                hints: 2,
            })
        };
        let mut results = client.at(&file, &[advise(stateid)]).await;
        results.ok(operation::IO_ADVISE);
        assert_eq!(results.bitmap(), Bitmap::default(), "no hint is followed");
        let mut results = client.at(&file, &[advise(unknown)]).await;
        results.has(operation::IO_ADVISE, Status::StaleStateid);

        client.uid = 1000;
        for refused in [
            op(Minor2::Allocate(span(0, 1))),
            punch(Stateid::ANONYMOUS),
            seek(0, 0),
        ] {
            let number = refused.number();
            client
                .at(&file, &[refused])
                .await
                .has(number, Status::Access);
        }
        client.uid = 0;
        let rule = Rule {
            is_read_only: true,
            ..crate::fixture::all_rights()
        };
        fixture.service.set_rules("/tank/home", vec![rule]).unwrap();
        for refused in [op(Minor2::Allocate(span(0, 1))), punch(stateid)] {
            let number = refused.number();
            client.at(&file, &[refused]).await.has(number, Status::Rofs);
        }
        assert_eq!(contents(&mut client, "f").await, b"abc");
    });
}

#[test]
fn seeks_find_data_and_holes() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        write(&mut client, "f", 2 * BLOCK, &[1; BLOCK as usize]).await;
        let file = path("f");
        let allocate = op(Minor2::Allocate(span(0, 5 * BLOCK)));
        client.at(&file, &[allocate]).await.ok(operation::ALLOCATE);
        for (offset, what, expected) in [
            (0, 0, (0, 2 * BLOCK)),
            (0, 1, (0, 0)),
            (2 * BLOCK + 5, 0, (0, 2 * BLOCK + 5)),
            (2 * BLOCK + 5, 1, (0, 3 * BLOCK)),
            (3 * BLOCK, 0, (1, 5 * BLOCK)),
        ] {
            let mut results = client.at(&file, &[seek(offset, what)]).await;
            results.ok(operation::SEEK);
            assert_eq!((results.u32(), results.u64()), expected, "{offset} {what}");
        }
        write(&mut client, "dense", 0, &[1; 10]).await;
        let mut results = client.at(&path("dense"), &[seek(3, 1)]).await;
        results.ok(operation::SEEK);
        assert_eq!((results.u32(), results.u64()), (1, 10), "the end is a hole");
        for (name, offset, what, status) in [
            ("dense", 10, 1, Status::Nxio),
            ("dense", 11, 0, Status::Nxio),
            ("dense", 0, 2, Status::UnionNotsupp),
        ] {
            let mut results = client.at(&path(name), &[seek(offset, what)]).await;
            results.has(operation::SEEK, status);
        }
    });
}

/// The result of READ_PLUS: the end of the file, and stretches of data (with the first byte's value) and holes.
fn stretches(results: &mut Results) -> (bool, Vec<(u64, u64, Option<u8>)>) {
    results.ok(operation::READ_PLUS);
    let is_end = results.u32() == 1;
    let count = results.u32();
    let all = (0..count).map(|_| match results.u32() {
        0 => {
            let offset = results.u64();
            let data = results.opaque();
            (offset, data.len() as u64, data.first().copied())
        }
        _ => (results.u64(), results.u64(), None),
    });
    (is_end, all.collect())
}

#[test]
fn reading_names_holes() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        write(&mut client, "f", 2 * BLOCK, &[5; BLOCK as usize]).await;
        write(&mut client, "f", 4 * BLOCK, &[6; 10]).await;
        let file = path("f");
        let allocate = op(Minor2::Allocate(span(0, 8 * BLOCK)));
        client.at(&file, &[allocate]).await.ok(operation::ALLOCATE);
        let read = |offset, count| {
            op(Minor2::ReadPlus {
                stateid: Stateid::ANONYMOUS,
                offset,
                count,
            })
        };
        let all = vec![
            (0, 2 * BLOCK, None),
            (2 * BLOCK, BLOCK, Some(5)),
            (3 * BLOCK, BLOCK, None),
            (4 * BLOCK, BLOCK, Some(6)),
            (5 * BLOCK, 3 * BLOCK, None),
        ];
        for (offset, count, expected) in [
            (0, 1 << 20, (true, all)),
            (2 * BLOCK + 1, 9, (false, vec![(2 * BLOCK + 1, 9, Some(5))])),
            (BLOCK, 5, (false, vec![(BLOCK, 5, None)])),
            (8 * BLOCK, 5, (true, vec![])),
            (u64::MAX, 5, (true, vec![])),
            (0, 0, (false, vec![])),
        ] {
            let mut results = client.at(&file, &[read(offset, count)]).await;
            assert_eq!(stretches(&mut results), expected, "{count} from {offset}");
        }
        let mut results = client.at(HOME, &[read(0, 5)]).await;
        results.has(operation::READ_PLUS, Status::Isdir);
    });
}

#[test]
fn a_reply_of_reading_has_a_bounded_number_of_stretches() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let blocks = 200;
        for block in (0..blocks).step_by(2) {
            write(&mut client, "f", block * BLOCK, &[block as u8 + 1]).await;
        }
        let (mut at, mut found) = (0, Vec::new());
        loop {
            let read = op(Minor2::ReadPlus {
                stateid: Stateid::ANONYMOUS,
                offset: at,
                count: 1 << 20,
            });
            let mut results = client.at(&path("f"), &[read]).await;
            let (is_end, all) = stretches(&mut results);
            assert!((1..=64).contains(&all.len()));
            for (offset, len, value) in all {
                assert_eq!(offset, at, "without a gap");
                at += len;
                found.extend(value);
            }
            if is_end {
                break;
            }
        }
        assert_eq!(at, (blocks - 2) * BLOCK + 1);
        let expected = (0..blocks).step_by(2).map(|block| block as u8 + 1);
        assert_eq!(found, expected.collect::<Vec<_>>());
    });
}

fn copy(from: u64, to: u64, count: u64) -> Copy {
    Copy {
        source: Stateid::ANONYMOUS,
        target: Stateid::ANONYMOUS,
        source_offset: from,
        target_offset: to,
        count,
        is_consecutive: false,
        is_synchronous: true,
        servers: 0,
    }
}

/// Looks up a path from the root.
fn lookups<'a>(path: &[&'a str]) -> Vec<Op<'a>> {
    let lookup = |name: &&'a str| Op::Lookup {
        name: name.as_bytes(),
    };
    let root = std::iter::once(Op::PutRootFh);
    root.chain(path.iter().map(lookup)).collect()
}

/// Copies between two files; the result of COPY is the next one.
async fn copied_between(client: &mut Client, from: &[&str], to: &[&str], args: Copy) -> Results {
    let mut all = lookups(from);
    all.push(Op::SaveFh);
    all.extend(lookups(to));
    let before: Vec<u32> = all.iter().map(Op::number).collect();
    all.push(op(Minor2::Copy(args)));
    let mut results = client.run(&all).await;
    before.into_iter().for_each(|number| results.ok(number));
    results
}

async fn copied(client: &mut Client, from: &str, to: &str, args: Copy) -> Results {
    copied_between(client, &path(from), &path(to), args).await
}

/// A successful result of COPY: the bytes.
fn count(mut results: Results) -> u64 {
    results.ok(operation::COPY);
    assert_eq!(results.u32(), 0, "no callback follows");
    let count = results.u64();
    assert_eq!(results.u32(), 0, "UNSTABLE4");
    results.skip(8);
    assert_eq!((results.u32(), results.u32()), (1, 1));
    count
}

#[test]
fn files_are_copied_by_the_server() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let data: Vec<u8> = (0..10_000).map(|i| (i % 251) as u8).collect();
        write(&mut client, "from", 0, &data).await;
        write(&mut client, "to", 0, b"xyz").await;

        let done = copied(&mut client, "from", "to", copy(100, 1, 500)).await;
        assert_eq!(count(done), 500);
        let mut expected = b"x".to_vec();
        expected.extend(&data[100..600]);
        assert_eq!(contents(&mut client, "to").await, expected);

        let done = copied(&mut client, "from", "to", copy(9_000, 0, 0)).await;
        assert_eq!(count(done), 1000, "0 stands for the rest");
        assert_eq!(contents(&mut client, "to").await, data[9_000..]);
        let done = copied(&mut client, "from", "from", copy(0, 10_000, 10_000)).await;
        assert_eq!(count(done), 10_000);
        assert_eq!(extent(&mut client, "from").await.0, 20_000);

        for (from, to, args, status) in [
            ("from", "to", copy(20_001, 0, 0), Status::Inval),
            ("from", "to", copy(0, 0, 20_001), Status::Inval),
            ("from", "to", copy(0, u64::MAX, 5), Status::Inval),
            ("from", "to", copy(0, 1 << 63, 5), Status::Fbig),
            ("from", "from", copy(0, 9_999, 10_000), Status::Inval),
        ] {
            let mut results = copied(&mut client, from, to, args).await;
            results.has(operation::COPY, status);
        }
        let remote = Copy {
            servers: 1,
            ..copy(0, 0, 1)
        };
        let mut results = copied(&mut client, "from", "to", remote).await;
        results.has(operation::COPY, Status::Notsupp);
        client.uid = 1000;
        let mut results = copied(&mut client, "from", "to", copy(0, 0, 1)).await;
        results.has(operation::COPY, Status::Access);
    });
}

#[test]
fn a_large_copy_is_answered_in_parts() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let size = 40 << 20;
        write(&mut client, "from", size - 1, b"z").await;
        write(&mut client, "to", 0, b"a").await;
        let mut at = 0;
        let mut parts = 0;
        while at < size {
            let args = copy(at, at, size - at);
            let part = count(copied(&mut client, "from", "to", args).await);
            assert!((1..=16 << 20).contains(&part));
            at += part;
            parts += 1;
        }
        assert_eq!((at, parts), (size, 3));
        assert_eq!(extent(&mut client, "to").await.0, size);
    });
}

#[test]
fn copies_need_two_files_of_one_export() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let other = export(2, "/tank/other", crate::fixture::all_rights());
        fixture.service.add_export(other).unwrap();
        let mut client = client(&fixture).await;
        write(&mut client, "f", 0, b"abc").await;
        let no_saved = op(Minor2::Copy(copy(0, 0, 1)));
        let mut results = client.at(&path("f"), &[no_saved]).await;
        results.has(operation::COPY, Status::Nofilehandle);
        let elsewhere = ["tank", "other", "g"];
        let create = open("g", Some(CreateHow::Unchecked(NO_ATTRS)));
        client.at(&elsewhere[..2], &[create]).await.open();
        let file = path("f");
        for (from, to, status) in [
            (HOME, &file[..], Status::Isdir),
            (&file[..], HOME, Status::Isdir),
            (&file[..], &[][..], Status::Isdir),
            (&file[..], &elsewhere[..], Status::Xdev),
        ] {
            let mut results = copied_between(&mut client, from, to, copy(0, 0, 1)).await;
            results.has(operation::COPY, status);
        }
        let rule = Rule {
            is_read_only: true,
            ..crate::fixture::all_rights()
        };
        fixture.service.set_rules("/tank/home", vec![rule]).unwrap();
        let mut results = copied(&mut client, "f", "f", copy(0, 5, 1)).await;
        results.has(operation::COPY, Status::Rofs);
    });
}
