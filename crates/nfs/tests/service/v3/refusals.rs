//! Handles, names and rights that are refused; calls that are none.

use super::client::{at, mode, mounted, with_mount};
use crate::client::Client;
use crate::fixture::{Fixture, all_rights, config, export, simulated};
use nfs::export::{NOBODY, Rule, Squash};
use nfs::rpc::Reply;
use nfs::service::ServiceConfig;
use nfs::v3::wire::{Arguments, CreateHow, Status, mount, procedure};
use nfs::wire::{Op, PROGRAM, operation};

#[test]
fn forged_and_stale_handles_name_nothing() {
    with_mount(|fixture, mut client, root| async move {
        let getattr = |object| Arguments::GetAttr { object };
        let mut forged = root.clone();
        forged[20] ^= 1;
        for bytes in [&forged[..], &root[..47], &[], &[1; 64]] {
            assert_eq!(client.refused(&getattr(bytes)).await, Status::Badhandle);
        }
        // A directory of the pseudo file system, from version 4.
        let mut other = fixture.client("a").await;
        let mut results = other.at(&[], &[Op::GetFh]).await;
        results.ok(operation::GETFH);
        let pseudo = results.opaque();
        assert_eq!(client.refused(&getattr(&pseudo)).await, Status::Stale);
        // A handle is one in both versions.
        let mut results = other.run(&[Op::PutFh(&root), Op::GetFh]).await;
        results.ok(operation::PUTFH);
        results.ok(operation::GETFH);
        assert_eq!(results.opaque(), root);
        fixture
            .service
            .remove_export("/tank/home")
            .expect("it is there");
        assert_eq!(client.refused(&getattr(&root)).await, Status::Stale);
        // The results of failures have their full length.
        let mut results = client.v3(&Arguments::Lookup(at(&root, "x"))).await;
        assert_eq!((results.status, results.after()), (Status::Stale, None));
        results.ended();
        let rename = Arguments::Rename {
            from: at(&root, "x"),
            to: at(&root, "y"),
        };
        let mut results = client.v3(&rename).await;
        for change in [results.change(), results.change()] {
            assert_eq!((change.before, change.after), (None, None));
        }
        results.ended();
    });
}

#[test]
fn names_that_cannot_be_are_refused() {
    with_mount(|_fixture, mut client, root| async move {
        let long = "x".repeat(256);
        for (name, looked_up, created, removed) in [
            ("", Status::Access, Status::Access, Status::Access),
            (".", Status::Ok, Status::Exist, Status::Inval),
            ("..", Status::Ok, Status::Exist, Status::Inval),
            ("a/b", Status::Inval, Status::Inval, Status::Inval),
            (
                &long,
                Status::Nametoolong,
                Status::Nametoolong,
                Status::Nametoolong,
            ),
        ] {
            let at = at(&root, name);
            assert_eq!(
                client.v3(&Arguments::Lookup(at)).await.status,
                looked_up,
                "{name}"
            );
            let mkdir = Arguments::MkDir {
                at,
                set: mode(0o700),
            };
            assert_eq!(client.refused(&mkdir).await, created, "{name}");
            assert_eq!(
                client.refused(&Arguments::RmDir(at)).await,
                removed,
                "{name}"
            );
            let rename = Arguments::Rename { from: at, to: at };
            assert_eq!(client.refused(&rename).await, removed, "{name}");
        }
    });
}

#[test]
fn a_read_only_export_refuses_every_change() {
    with_mount(|fixture, mut client, root| async move {
        let file = client.create_v3(&root, "f").await;
        let rule = Rule {
            is_read_only: true,
            ..all_rights()
        };
        fixture
            .service
            .set_rules("/tank/home", vec![rule])
            .expect("it is there");
        let (at, set, object) = (at(&root, "g"), mode(0o600), &file[..]);
        for arguments in [
            Arguments::SetAttr {
                object,
                set,
                guard: None,
            },
            Arguments::Write {
                file: object,
                offset: 0,
                count: 1,
                stable: 0,
                data: b"x",
            },
            Arguments::Create {
                at,
                how: CreateHow::Unchecked(set),
            },
            Arguments::MkDir { at, set },
            Arguments::SymLink {
                at,
                set,
                path: b"x",
            },
            Arguments::MkNod {
                at,
                node: nfs::v3::wire::NewNode::Fifo(set),
            },
            Arguments::Remove(at),
            Arguments::RmDir(at),
            Arguments::Rename { from: at, to: at },
            Arguments::Link { object, to: at },
        ] {
            assert_eq!(
                client.refused(&arguments).await,
                Status::Rofs,
                "{arguments:?}"
            );
        }
        let mut results = client.v3(&Arguments::Access { object, wanted: 63 }).await;
        results.after();
        assert_eq!(results.u32() & (4 | 8 | 16), 0);
        let read = Arguments::Read {
            file: object,
            offset: 0,
            count: 1,
        };
        assert_eq!(client.v3(&read).await.status, Status::Ok);
    });
}

#[test]
fn squashed_users_own_their_files_as_nobody() {
    with_mount(|fixture, mut client, root| async move {
        let open = Arguments::SetAttr {
            object: &root,
            set: mode(0o777),
            guard: None,
        };
        assert_eq!(client.v3(&open).await.status, Status::Ok);
        for (squash, uid, owner) in [
            (Squash::Root, 0, NOBODY),
            (Squash::Root, 5, 5),
            (Squash::All, 5, NOBODY),
        ] {
            let rule = Rule {
                squash,
                ..all_rights()
            };
            fixture
                .service
                .set_rules("/tank/home", vec![rule])
                .expect("it is there");
            client.uid = uid;
            let name = format!("{squash:?}-{uid}");
            let how = CreateHow::Guarded(mode(0o600));
            let create = Arguments::Create {
                at: at(&root, &name),
                how,
            };
            let (_, object, _) = client.v3(&create).await.created();
            assert_eq!(object.owner.0, owner);
        }
    });
}

#[test]
fn handles_do_not_cross_to_exports_of_other_hosts() {
    with_mount(|fixture, mut client, root| async move {
        fixture
            .service
            .add_export(export(2, "/other", all_rights()))
            .expect("new");
        let other = client.mounted("/other").await.expect("an export");
        let rule = Rule::read_write(nfs::export::Hosts::Network([192, 0, 2, 1].into(), 32));
        fixture
            .service
            .set_rules("/other", vec![rule])
            .expect("it is there");
        assert_eq!(
            client.refused(&Arguments::GetAttr { object: &other }).await,
            Status::Stale
        );
        assert_eq!(client.mounted("/other").await, Err(2));
        assert_eq!(client.attributes_v3(&root).await.kind, 2);
    });
}

#[test]
fn calls_that_do_not_exist_or_cannot_be_read_are_refused() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        for (program, version, procedure, reply) in [
            (PROGRAM, 3, procedure::NULL, Reply::Success),
            (PROGRAM, 3, procedure::COUNT, Reply::ProcedureUnavailable),
            (PROGRAM, 3, procedure::GETATTR, Reply::GarbageArguments),
            (PROGRAM, 3, procedure::WRITE, Reply::GarbageArguments),
            (PROGRAM, 2, 0, Reply::ProgramMismatch(3, 4)),
            (mount::PROGRAM, 3, 0, Reply::Success),
            (mount::PROGRAM, 3, 1, Reply::GarbageArguments),
            (mount::PROGRAM, 3, 6, Reply::ProcedureUnavailable),
            (mount::PROGRAM, 1, 0, Reply::ProgramMismatch(3, 3)),
        ] {
            let record = client.call(program, version, procedure).to_vec();
            assert_eq!(client.reply_to(record).await.0, reply);
        }
    });
}

#[test]
fn data_waits_for_the_end_of_the_grace_period() {
    simulated(|| async {
        let reclaimers = vec![b"old".to_vec()];
        let fixture = Fixture::with(ServiceConfig {
            reclaimers,
            ..config()
        })
        .await;
        let (mut client, root) = mounted(&fixture).await;
        let file = client.create_v3(&root, "f").await;
        let read = Arguments::Read {
            file: &file,
            offset: 0,
            count: 1,
        };
        assert_eq!(client.refused(&read).await, Status::Jukebox);
        client.attributes_v3(&file).await;
        io::time::sleep(config().grace).await;
        assert_eq!(client.v3(&read).await.status, Status::Ok);
    });
}

#[test]
fn a_connection_is_kept_once_a_handle_was_used() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut client, root) = mounted(&fixture).await;
        client.attributes_v3(&root).await;
        let mut other = Client::connect(fixture.addr).await;
        other.mounted("/tank/home").await.expect("an export");
        io::time::sleep(config().establish_timeout * 2).await;
        client.attributes_v3(&root).await;
        assert!(
            other.receive().await.is_none(),
            "it only asked for a handle"
        );
    });
}
