//! READ, WRITE, COMMIT.

use super::client::{at, mode, with_mount};
use crate::client::Client;
use crate::fixture::{HOME, NO_ATTRS, open_with};
use nfs::v3::wire::{Arguments, CreateHow, Status};
use nfs::wire::files::{Claim, CreateHow as Create4};

fn write<'a>(file: &'a [u8], offset: u64, stable: u32, data: &'a [u8]) -> Arguments<'a> {
    let count = data.len() as u32;
    Arguments::Write {
        file,
        offset,
        count,
        stable,
        data,
    }
}

/// Reads, and returns the bytes and whether the file ends with them.
async fn read(client: &mut Client, file: &[u8], offset: u64, count: u32) -> (Vec<u8>, bool) {
    let mut results = client
        .v3(&Arguments::Read {
            file,
            offset,
            count,
        })
        .await;
    assert_eq!(results.status, Status::Ok);
    assert!(results.after().is_some());
    let (len, is_end) = (results.u32(), results.bool());
    let data = results.opaque();
    assert_eq!(data.len(), len as usize);
    results.ended();
    (data, is_end)
}

#[test]
fn data_is_read_as_it_was_written() {
    with_mount(|_fixture, mut client, root| async move {
        let file = client.create_v3(&root, "f").await;
        let data: Vec<u8> = (0..100_001u32).map(|i| (i * 7) as u8).collect();
        let before = client.attributes_v3(&file).await;
        let mut results = client.v3(&write(&file, 3, 0, &data)).await;
        assert_eq!(results.status, Status::Ok);
        let change = results.change();
        assert_eq!(change.before, Some((0, before.modified, before.changed)));
        assert_eq!(change.after.map(|of| of.size), Some(100_004));
        assert_eq!(results.u32(), 100_001);
        let committed = results.u32();
        assert!(
            committed == 0 || committed == 2,
            "the promise of the medium"
        );
        let verifier = results.verifier();
        results.ended();
        let mut results = client
            .v3(&Arguments::Commit {
                file: &file,
                offset: 0,
                count: 0,
            })
            .await;
        assert_eq!(results.status, Status::Ok);
        assert_eq!(results.change().after.map(|of| of.size), Some(100_004));
        assert_eq!(results.verifier(), verifier);
        for stable in [1, 2] {
            let mut results = client.v3(&write(&file, 0, stable, b"abc")).await;
            results.change();
            assert_eq!((results.u32(), results.u32()), (3, 2), "FILE_SYNC");
        }
        assert_eq!(
            read(&mut client, &file, 0, 5).await.0,
            [b'a', b'b', b'c', 0, 7]
        );
        let (all, is_end) = read(&mut client, &file, 3, 1 << 20).await;
        assert!(all == data && is_end);
        assert_eq!(read(&mut client, &file, 1 << 40, 10).await, (vec![], true));
        assert_eq!(read(&mut client, &file, 0, 0).await.0, []);
        let mut results = client.v3(&write(&file, 9, 2, b"")).await;
        let change = results.change();
        assert_eq!(
            (change.before, results.u32()),
            (None, 0),
            "nothing was written"
        );
    });
}

#[test]
fn the_mode_of_a_symbolic_link_is_ignored() {
    with_mount(|_fixture, mut client, root| async move {
        let symlink = Arguments::SymLink {
            at: at(&root, "s"),
            set: mode(0o777),
            path: b"x",
        };
        let (link, before, _) = client.v3(&symlink).await.created();
        let set = Arguments::SetAttr {
            object: &link,
            set: backend::file::SetAttributes {
                uid: Some(7),
                ..mode(0o600)
            },
            guard: None,
        };
        let mut results = client.v3(&set).await;
        results.change();
        let after = client.attributes_v3(&link).await;
        assert_eq!((after.mode, after.owner.0), (before.mode, 7));
    });
}

#[test]
fn only_files_have_data() {
    with_mount(|_fixture, mut client, root| async move {
        let symlink = Arguments::SymLink {
            at: at(&root, "s"),
            set: mode(0o777),
            path: b"x",
        };
        let (link, ..) = client.v3(&symlink).await.created();
        for (object, status) in [(&root, Status::Isdir), (&link, Status::Inval)] {
            let file = &object[..];
            for arguments in [
                Arguments::Read {
                    file,
                    offset: 0,
                    count: 1,
                },
                write(file, 0, 2, b"x"),
                write(file, 0, 2, b""),
                Arguments::Commit {
                    file,
                    offset: 0,
                    count: 0,
                },
            ] {
                assert_eq!(client.refused(&arguments).await, status, "{arguments:?}");
            }
        }
        let file = client.create_v3(&root, "f").await;
        assert_eq!(
            client.refused(&Arguments::ReadLink { object: &file }).await,
            Status::Inval
        );
        let lies = Arguments::Write {
            file: &file,
            offset: 0,
            count: 2,
            stable: 0,
            data: b"x",
        };
        assert_eq!(client.refused(&lies).await, Status::Inval);
    });
}

#[test]
fn the_owner_of_a_file_writes_without_permission_and_others_do_not() {
    with_mount(|_fixture, mut client, root| async move {
        let set = Arguments::SetAttr {
            object: &root,
            set: mode(0o777),
            guard: None,
        };
        client.v3(&set).await;
        client.uid = 1000;
        let create = Arguments::Create {
            at: at(&root, "f"),
            how: CreateHow::Guarded(mode(0o000)),
        };
        let (file, ..) = client.v3(&create).await.created();
        // The file was created without permissions, and is open at the client.
        assert_eq!(
            client.v3(&write(&file, 0, 2, b"abc")).await.status,
            Status::Ok
        );
        assert_eq!(read(&mut client, &file, 0, 9).await.0, b"abc");
        let truncate = backend::file::SetAttributes {
            size: Some(1),
            ..Default::default()
        };
        let truncate = Arguments::SetAttr {
            object: &file,
            set: truncate,
            guard: None,
        };
        assert_eq!(client.v3(&truncate).await.status, Status::Ok);
        client.uid = 1001;
        for arguments in [
            write(&file, 0, 2, b"x"),
            Arguments::Read {
                file: &file,
                offset: 0,
                count: 1,
            },
            truncate,
        ] {
            assert_eq!(
                client.refused(&arguments).await,
                Status::Access,
                "{arguments:?}"
            );
        }
    });
}

#[test]
fn share_reservations_of_version_4_hold() {
    with_mount(|fixture, mut client, root| async move {
        let mut other = fixture.client("a").await;
        let create = Some(Create4::Unchecked(NO_ATTRS));
        // Denies writing.
        let open = open_with(Claim::Name(b"f"), create, 1, 2);
        let stateid = other.at(HOME, &[open]).await.open();
        let (file, _) = client.lookup_v3(&root, "f").await;
        let truncate = backend::file::SetAttributes {
            size: Some(1),
            ..Default::default()
        };
        let truncate = Arguments::SetAttr {
            object: &file,
            set: truncate,
            guard: None,
        };
        for arguments in [write(&file, 0, 2, b"x"), truncate] {
            assert_eq!(client.refused(&arguments).await, Status::Access);
        }
        read(&mut client, &file, 0, 1).await;
        let path = [HOME[0], HOME[1], "f"];
        other.at(&path, &[nfs::wire::Op::Close { stateid }]).await;
        assert_eq!(
            client.v3(&write(&file, 0, 2, b"x")).await.status,
            Status::Ok
        );
    });
}
