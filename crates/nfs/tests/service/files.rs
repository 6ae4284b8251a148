//! Operations on files and directories.

use crate::fixture::{Fixture, HOME, NO_ATTRS, open, simulated};
use nfs::wire::files::{CreateHow, NewType, ReadDir};
use nfs::wire::{Attrs, Bitmap, Op, Stateid, Status, operation};
use std::collections::BTreeSet;

const SIZE: u32 = 4;
const OWNER_GROUP: u32 = 37;
const MODE: u32 = 33;

#[test]
fn data_is_read_as_it_was_written() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        for (name, len) in [("small", 10), ("medium", 40_000), ("large", 1 << 20)] {
            let data: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            let written = [
                open(name, create),
                Op::Write {
                    stateid: Stateid::CURRENT,
                    offset: 5,
                    stable: 0,
                    data: &data,
                },
                Op::Commit {
                    offset: 0,
                    count: 0,
                },
                Op::GetAttr(Bitmap::of(&[SIZE])),
                Op::Read {
                    stateid: Stateid::CURRENT,
                    offset: 5,
                    count: 100,
                },
                Op::Close {
                    stateid: Stateid::CURRENT,
                },
            ];
            let mut results = client.at(HOME, &written).await;
            results.open();
            results.ok(operation::WRITE);
            assert_eq!(results.u32() as usize, len);
            assert_eq!(results.u32(), 2, "memory is as stable as it gets");
            let verifier = results.u64();
            results.ok(operation::COMMIT);
            assert_eq!(results.u64(), verifier);
            results.ok(operation::GETATTR);
            assert!(results.bitmap().has(SIZE));
            assert_eq!((results.u32(), results.u64()), (8, len as u64 + 5));
            results.ok(operation::READ);
            results.u32();
            assert_eq!(results.opaque(), data[..len.min(100)]);
            results.ok(operation::CLOSE);

            let path = [HOME[0], HOME[1], name];
            let read = Op::Read {
                stateid: Stateid::ANONYMOUS,
                offset: 0,
                count: 2 << 20,
            };
            let mut results = client.at(&path, &[read]).await;
            results.ok(operation::READ);
            let is_end = results.u32() == 1;
            let bytes = results.opaque();
            let most = (len + 5).min(1 << 20);
            assert_eq!((bytes.len(), is_end), (most, most == len + 5));
            assert_eq!((&bytes[..5], &bytes[5..]), (&[0; 5][..], &data[..most - 5]));
        }
        assert_eq!(fixture.service.state_counts().3, 0, "everything was closed");
    });
}

#[test]
fn an_exclusive_creation_may_be_repeated() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let mode = Attrs {
            mask: Bitmap::of(&[MODE]),
            values: &[0, 0, 1, 0xa4],
        };
        let first = open("x", Some(CreateHow::Exclusive41([1; 8], mode)));
        for _ in 0..2 {
            let mut results = client.at(HOME, &[first.clone(), Op::GetFh]).await;
            results.open();
            results.ok(operation::GETFH);
        }
        // Regression: a crash between the creation and its attributes left a file without them, and the repeated request, whose
        // verifier matches, said that they were set.
        let group = Attrs {
            mask: Bitmap::of(&[OWNER_GROUP]),
            values: &[0, 0, 0, 2, b'7', b'7', 0, 0],
        };
        let verifier = backend::file::IfExists::SameVerifier(u64::from_be_bytes([3; 8]));
        let new = backend::file::NewFile {
            kind: backend::file::NewKind::File,
            mode: 0o600,
            umask: None,
            acl: None,
        };
        let at = backend::file::Name::new(b"z").expect("a name");
        let (caller, files) = (backend::file::Caller::root(), &fixture.files);
        let cached = backend::file::Stability::Cached;
        let created = files.create(&caller, files.root(), &at, new, verifier, cached);
        let created = created.await.expect("a new file").value.object;
        let repeated = open("z", Some(CreateHow::Exclusive41([3; 8], group)));
        client.at(HOME, &[repeated]).await.open();
        let now = files.attributes(created.handle).await.expect("it is there");
        assert_eq!(now.gid, 77);
        let other = open("x", Some(CreateHow::Exclusive41([2; 8], mode)));
        client
            .at(HOME, &[other])
            .await
            .has(operation::OPEN, Status::Exist);
        let guarded = open("x", Some(CreateHow::Guarded(NO_ATTRS)));
        client
            .at(HOME, &[guarded])
            .await
            .has(operation::OPEN, Status::Exist);
        let size = Attrs {
            mask: Bitmap::of(&[SIZE]),
            values: &[0; 8],
        };
        let invalid = open("y", Some(CreateHow::Exclusive41([1; 8], size)));
        client
            .at(HOME, &[invalid])
            .await
            .has(operation::OPEN, Status::Inval);
    });
}

#[test]
fn an_unchecked_creation_truncates() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let size = Attrs {
            mask: Bitmap::of(&[SIZE]),
            values: &[0; 8],
        };
        let create = open("f", Some(CreateHow::Unchecked(size)));
        let write = Op::Write {
            stateid: Stateid::CURRENT,
            offset: 0,
            stable: 2,
            data: b"abc",
        };
        let mut results = client.at(HOME, &[create.clone(), write]).await;
        results.open();
        results.ok(operation::WRITE);
        let look = Op::GetAttr(Bitmap::of(&[SIZE]));
        let mut results = client.at(HOME, &[create, look]).await;
        results.open();
        results.ok(operation::GETATTR);
        results.bitmap();
        results.u32();
        assert_eq!(results.u64(), 0);
    });
}

#[test]
fn names_are_created_renamed_linked_and_removed() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let create = |kind, name| Op::Create {
            kind,
            name,
            attributes: NO_ATTRS,
        };
        let mut results = client
            .at(
                HOME,
                &[
                    create(NewType::Directory, b"d"),
                    Op::LookupP,
                    create(NewType::Symlink(b"d/f"), b"l"),
                    Op::ReadLink,
                ],
            )
            .await;
        results.ok(operation::CREATE);
        results.skip(20);
        results.bitmap();
        results.ok(operation::LOOKUPP);
        results.ok(operation::CREATE);
        results.skip(20);
        results.bitmap();
        results.ok(operation::READLINK);
        assert_eq!(results.opaque(), b"d/f");

        let inside = [HOME[0], HOME[1], "d"];
        let made = open("f", Some(CreateHow::Guarded(NO_ATTRS)));
        let mut results = client
            .at(
                &inside,
                &[
                    made,
                    Op::Close {
                        stateid: Stateid::CURRENT,
                    },
                    Op::SaveFh,
                ],
            )
            .await;
        results.open();
        assert_eq!(results.status, Status::Ok);
        let rename = [
            Op::SaveFh,
            Op::LookupP,
            Op::Rename {
                old: b"f",
                new: b"g",
            },
        ];
        assert_eq!(client.at(&inside, &rename).await.status, Status::Ok);
        let link = [Op::SaveFh, Op::LookupP, Op::Link { name: b"h" }];
        assert_eq!(
            client.at(&[HOME[0], HOME[1], "g"], &link).await.status,
            Status::Notdir,
            "no parent of a file"
        );
        let link = [
            Op::Lookup { name: b"g" },
            Op::SaveFh,
            Op::PutRootFh,
            Op::Lookup { name: b"tank" },
            Op::Lookup { name: b"home" },
            Op::Link { name: b"h" },
        ];
        assert_eq!(client.at(HOME, &link).await.status, Status::Ok);
        for name in [&b"g"[..], b"h", b"d", b"l"] {
            assert_eq!(
                client.at(HOME, &[Op::Remove { name }]).await.status,
                Status::Ok
            );
        }
        let gone = client.at(HOME, &[Op::Remove { name: b"g" }]).await.status;
        assert_eq!(gone, Status::Noent);
        for (name, status) in [
            (&b""[..], Status::Inval),
            (b".", Status::Badname),
            (b"a/b", Status::Badchar),
            (&[b'x'; 256], Status::Nametoolong),
        ] {
            assert_eq!(client.at(HOME, &[Op::Lookup { name }]).await.status, status);
        }
    });
}

#[test]
fn a_listing_in_pieces_has_every_name_once() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let names: BTreeSet<String> = (0..300).map(|i| format!("file-{i}")).collect();
        for name in &names {
            let kind = NewType::Fifo;
            let op = Op::Create {
                kind,
                name: name.as_bytes(),
                attributes: NO_ATTRS,
            };
            assert_eq!(client.at(HOME, &[op]).await.status, Status::Ok);
        }
        let list = |cookie, bytes_max| {
            let attributes = Bitmap::of(&[1, 19, 20]);
            Op::ReadDir(ReadDir {
                cookie,
                verifier: [0; 8],
                names_max: 0,
                bytes_max,
                attributes,
            })
        };
        let (mut cookie, mut seen) = (0, BTreeSet::new());
        loop {
            let mut results = client.at(HOME, &[list(cookie, 2000)]).await;
            results.ok(operation::READDIR);
            results.skip(8);
            while results.u32() == 1 {
                cookie = results.u64();
                let name = String::from_utf8(results.opaque()).unwrap();
                assert!(seen.insert(name.clone()), "{name} twice");
                results.bitmap();
                results.opaque();
            }
            if results.u32() == 1 {
                break;
            }
        }
        assert_eq!(seen, names);
        for (cookie, bytes_max, status) in [(0, 40, Status::Toosmall), (1, 2000, Status::BadCookie)]
        {
            let results = client.at(HOME, &[list(cookie, bytes_max)]).await;
            assert_eq!(results.status, status);
        }
    });
}

#[test]
fn attributes_are_verified() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let directory = Attrs {
            mask: Bitmap::of(&[1]),
            values: &[0, 0, 0, 2],
        };
        let link = Attrs {
            mask: Bitmap::of(&[1]),
            values: &[0, 0, 0, 5],
        };
        for (op, status) in [
            (Op::Verify(directory), Status::Ok),
            (Op::Verify(link), Status::NotSame),
            (Op::NVerify(directory), Status::Same),
            (Op::NVerify(link), Status::Ok),
            (Op::GetAttr(Bitmap::of(&[48])), Status::Inval),
        ] {
            assert_eq!(client.at(HOME, &[op]).await.status, status);
        }
        let read_only = Op::SetAttr {
            stateid: Stateid::ANONYMOUS,
            attributes: directory,
        };
        let mut results = client.at(HOME, &[read_only]).await;
        results.has(operation::SETATTR, Status::Inval);
        assert!(results.bitmap().is_empty());
    });
}

#[test]
fn the_mode_of_a_symbolic_link_is_ignored() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let create = Op::Create {
            kind: NewType::Symlink(b"x"),
            name: b"l",
            attributes: NO_ATTRS,
        };
        assert_eq!(client.at(HOME, &[create]).await.status, Status::Ok);
        // mode and owner
        let both = Op::SetAttr {
            stateid: Stateid::ANONYMOUS,
            attributes: Attrs {
                mask: Bitmap::of(&[33, 36]),
                values: b"\0\0\x01\xed\0\0\0\x017\0\0\0",
            },
        };
        let owner = Op::GetAttr(Bitmap::of(&[36]));
        let link = [HOME[0], HOME[1], "l"];
        let mut results = client.at(&link, &[both, owner]).await;
        results.ok(operation::SETATTR);
        assert_eq!(results.bitmap(), Bitmap::of(&[36]), "only the owner is set");
        results.ok(operation::GETATTR);
        results.bitmap();
        assert_eq!(results.opaque(), b"\0\0\0\x017\0\0\0");
    });
}
