//! Procedures on names and attributes.

use super::client::{at, mode, with_mount};
use backend::file::{SetAttributes, SetTime, Timestamp};
use nfs::v3::wire::{Arguments, CreateHow, NewNode, Status};

#[test]
fn creations_return_handles_attributes_and_the_change_of_the_directory() {
    with_mount(|_fixture, mut client, root| async move {
        let before = client.attributes_v3(&root).await;
        let mkdir = Arguments::MkDir {
            at: at(&root, "d"),
            set: mode(0o750),
        };
        let (directory, object, change) = client.v3(&mkdir).await.created();
        assert_eq!((object.kind, object.mode, object.links), (2, 0o750, 2));
        let state = (before.size, before.modified, before.changed);
        assert_eq!(change.before, Some(state), "the state before the change");
        assert_eq!(change.after, Some(client.attributes_v3(&root).await));
        let path = b"../elsewhere";
        let symlink = Arguments::SymLink {
            at: at(&directory, "s"),
            set: mode(0o777),
            path,
        };
        let (link, object, _) = client.v3(&symlink).await.created();
        assert_eq!((object.kind, object.size), (5, path.len() as u64));
        let mut results = client.v3(&Arguments::ReadLink { object: &link }).await;
        assert_eq!(results.after().map(|of| of.kind), Some(5));
        assert_eq!(results.opaque(), path);
        for (name, node, kind, device) in [
            ("block", NewNode::BlockDevice(mode(0o600), 8, 1), 3, (8, 1)),
            (
                "char",
                NewNode::CharDevice(mode(0o600), 5, 300),
                4,
                (5, 300),
            ),
            ("socket", NewNode::Socket(mode(0o600)), 6, (0, 0)),
            ("fifo", NewNode::Fifo(mode(0o600)), 7, (0, 0)),
        ] {
            let mknod = Arguments::MkNod {
                at: at(&directory, name),
                node,
            };
            let (_, object, _) = client.v3(&mknod).await.created();
            assert_eq!((object.kind, object.device), (kind, device));
        }
        let regular = Arguments::MkNod {
            at: at(&directory, "f"),
            node: NewNode::Other(1),
        };
        assert_eq!(client.refused(&regular).await, Status::Badtype);
    });
}

#[test]
fn creations_of_existing_names_do_as_they_are_told() {
    with_mount(|_fixture, mut client, root| async move {
        let at = at(&root, "f");
        let create = |how| Arguments::Create { at, how };
        let exclusive = |byte| create(CreateHow::Exclusive([byte; 8]));
        let (file, ..) = client.v3(&exclusive(1)).await.created();
        let (again, ..) = client.v3(&exclusive(1)).await.created();
        assert_eq!(again, file);
        assert_eq!(client.refused(&exclusive(2)).await, Status::Exist);
        let guarded = create(CreateHow::Guarded(mode(0o600)));
        assert_eq!(client.refused(&guarded).await, Status::Exist);
        let sized = |size| SetAttributes {
            size: Some(size),
            ..mode(0o444)
        };
        let (_, object, _) = client
            .v3(&create(CreateHow::Unchecked(sized(9))))
            .await
            .created();
        assert_eq!(
            (object.size, object.mode),
            (9, 0o600),
            "only the size is set"
        );
        let (_, object, _) = client
            .v3(&create(CreateHow::Unchecked(mode(0o444))))
            .await
            .created();
        assert_eq!((object.size, object.mode), (9, 0o600));
        client
            .v3(&Arguments::MkDir {
                at: super::client::at(&root, "d"),
                set: mode(0o700),
            })
            .await
            .created();
        let over = Arguments::Create {
            at: super::client::at(&root, "d"),
            how: CreateHow::Unchecked(sized(0)),
        };
        assert_eq!(client.refused(&over).await, Status::Exist);
    });
}

#[test]
fn names_are_looked_up_renamed_linked_and_removed() {
    with_mount(|_fixture, mut client, root| async move {
        let file = client.create_v3(&root, "f").await;
        let mkdir = Arguments::MkDir {
            at: at(&root, "d"),
            set: mode(0o755),
        };
        let (directory, ..) = client.v3(&mkdir).await.created();
        assert_eq!(client.lookup_v3(&root, "f").await.0, file);
        assert_eq!(client.lookup_v3(&directory, ".").await.0, directory);
        assert_eq!(client.lookup_v3(&directory, "..").await.0, root);
        assert_eq!(
            client.lookup_v3(&root, "..").await.0,
            root,
            "nothing is above an export"
        );

        let link = Arguments::Link {
            object: &file,
            to: at(&directory, "g"),
        };
        let mut results = client.v3(&link).await;
        assert_eq!(results.after().map(|of| of.links), Some(2));
        let change = results.change();
        assert!(change.before.is_some() && change.after.is_some());
        results.ended();

        let rename = Arguments::Rename {
            from: at(&directory, "g"),
            to: at(&root, "h"),
        };
        let mut results = client.v3(&rename).await;
        let (from, to) = (results.change(), results.change());
        assert_eq!(
            from.after.map(|of| of.number),
            Some(client.attributes_v3(&directory).await.number)
        );
        assert_eq!(to.after, Some(client.attributes_v3(&root).await));
        results.ended();
        assert_eq!(client.refused(&rename).await, Status::Noent);

        let mut results = client.v3(&Arguments::Remove(at(&root, "f"))).await;
        assert!(results.change().before.is_some());
        assert_eq!(client.attributes_v3(&file).await.links, 1);
        assert_eq!(
            client.refused(&Arguments::Remove(at(&root, "d"))).await,
            Status::Isdir
        );
        assert_eq!(
            client.refused(&Arguments::RmDir(at(&root, "h"))).await,
            Status::Notdir
        );
        let rename = Arguments::Rename {
            from: at(&root, "h"),
            to: at(&directory, "h"),
        };
        assert_eq!(client.v3(&rename).await.status, Status::Ok);
        assert_eq!(
            client.refused(&Arguments::RmDir(at(&root, "d"))).await,
            Status::Notempty
        );
        assert_eq!(
            client
                .v3(&Arguments::Remove(at(&directory, "h")))
                .await
                .status,
            Status::Ok
        );
        assert_eq!(
            client.refused(&Arguments::GetAttr { object: &file }).await,
            Status::Stale
        );
        assert_eq!(
            client.v3(&Arguments::RmDir(at(&root, "d"))).await.status,
            Status::Ok
        );
    });
}

#[test]
fn a_guard_holds_changes_of_attributes_back() {
    with_mount(|_fixture, mut client, root| async move {
        let file = client.create_v3(&root, "f").await;
        let before = client.attributes_v3(&file).await;
        let set = SetAttributes {
            mode: Some(0o640),
            uid: Some(7),
            gid: Some(8),
            size: Some(100),
            accessed: SetTime::To(Timestamp(1_000_000_001)),
            modified: SetTime::To(Timestamp(2_000_000_002)),
            ..SetAttributes::default()
        };
        let stale = Arguments::SetAttr {
            object: &file,
            set,
            guard: Some(Timestamp(5)),
        };
        let mut results = client.v3(&stale).await;
        assert_eq!(results.status, Status::NotSync);
        let change = results.change();
        assert_eq!((change.before, change.after), (None, Some(before)));
        let guard = Some(Timestamp(before.changed as i64));
        let mut results = client
            .v3(&Arguments::SetAttr {
                object: &file,
                set,
                guard,
            })
            .await;
        assert_eq!(results.status, Status::Ok);
        let change = results.change();
        assert_eq!(change.before, Some((0, before.modified, before.changed)));
        let after = change.after.expect("attributes");
        assert_eq!((after.mode, after.owner, after.size), (0o640, (7, 8), 100));
        assert_eq!(
            (after.accessed, after.modified),
            (1_000_000_001, 2_000_000_002)
        );
    });
}

#[test]
fn access_and_limits_are_those_of_the_file_system() {
    with_mount(|_fixture, mut client, root| async move {
        let file = client.create_v3(&root, "f").await;
        client.uid = 1000;
        for (object, granted) in [(&file, 1), (&root, 1 | 2)] {
            let mut results = client.v3(&Arguments::Access { object, wanted: 63 }).await;
            assert!(results.after().is_some());
            assert_eq!(results.u32(), granted);
        }
        let mut results = client.v3(&Arguments::FsInfo { object: &root }).await;
        assert!(results.after().is_some());
        let sizes: Vec<u32> = (0..7).map(|_| results.u32()).collect();
        assert_eq!(sizes[0], nfs::limits::TRANSFER_MAX);
        assert!(sizes.iter().all(|size| *size >= 4096));
        assert_eq!(
            (results.u64(), results.u32(), results.u32()),
            (i64::MAX as u64, 0, 1)
        );
        assert_eq!(results.u32(), 0x1b);
        results.ended();
        let mut results = client.v3(&Arguments::FsStat { object: &root }).await;
        assert!(results.after().is_some());
        let space: Vec<u64> = (0..6).map(|_| results.u64()).collect();
        assert!(space[0] >= space[1] && space[1] > 0 && space[3] >= space[4]);
        assert_eq!(results.u32(), 0);
        results.ended();
        let mut results = client.v3(&Arguments::PathConf { object: &root }).await;
        assert!(results.after().is_some());
        assert!(results.u32() > 1);
        assert_eq!(results.u32(), 255);
        let flags = [
            results.bool(),
            results.bool(),
            results.bool(),
            results.bool(),
        ];
        assert_eq!(flags, [true, true, false, true]);
        results.ended();
    });
}
