//! The pseudo file system, rules of hosts, handles.

use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, export, open, open_with, simulated};
use nfs::export::{Hosts, Rule};
use nfs::wire::files::{Claim, CreateHow, NewType, ReadDir};
use nfs::wire::{Attrs, Bitmap, Op, Status, operation};

const FSID: u32 = 8;

fn hidden() -> Rule {
    Rule::read_write(Hosts::Network([192, 0, 2, 1].into(), 32))
}

#[test]
fn the_way_to_an_export_is_a_file_system_of_its_own() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let look = || Op::GetAttr(Bitmap::of(&[FSID]));
        let mut fsids = Vec::new();
        for path in [&[][..], &HOME[..1], HOME] {
            let mut results = client.at(path, &[look()]).await;
            results.ok(operation::GETATTR);
            results.bitmap();
            results.u32();
            fsids.push((results.u64(), results.u64()));
        }
        assert_eq!(fsids[0], (0, 0));
        assert!(fsids[0] == fsids[1] && fsids[1] != fsids[2]);
        let up = client
            .at(HOME, &[Op::LookupP, Op::LookupP, Op::LookupP])
            .await;
        assert_eq!(up.status, Status::Noent, "nothing is above the root");
        let create = Op::Create {
            kind: NewType::Directory,
            name: b"d",
            attributes: NO_ATTRS,
        };
        assert_eq!(client.at(&[], &[create]).await.status, Status::Rofs);
        assert_eq!(
            client.at(&["tank"], &[open("f", None)]).await.status,
            Status::Isdir
        );
    });
}

#[test]
fn an_export_below_another_one_is_listed_and_entered() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        fixture
            .service
            .add_export(export(2, "/tank/home/ann", all_rights()))
            .unwrap();
        let mut client = fixture.client("a").await;
        for name in [&b"ann"[..], b"bob"] {
            let create = Op::Create {
                kind: NewType::Directory,
                name,
                attributes: NO_ATTRS,
            };
            let status = client.at(HOME, &[create]).await.status;
            assert_eq!(
                status,
                if name == b"ann" {
                    Status::Exist
                } else {
                    Status::Ok
                }
            );
        }
        let attributes = Bitmap::of(&[]);
        let list = Op::ReadDir(ReadDir {
            cookie: 0,
            verifier: [0; 8],
            names_max: 0,
            bytes_max: 4096,
            attributes,
        });
        let mut results = client.at(HOME, &[list]).await;
        results.ok(operation::READDIR);
        results.skip(8);
        let mut names = Vec::new();
        while results.u32() == 1 {
            results.u64();
            names.push(results.opaque());
            results.bitmap();
            results.opaque();
        }
        assert_eq!(names, [b"bob".to_vec(), b"ann".to_vec()]);
        let up = [Op::LookupP, Op::Lookup { name: b"bob" }];
        assert_eq!(
            client.at(&["tank", "home", "ann"], &up).await.status,
            Status::Ok
        );
        let remove = Op::Remove { name: b"ann" };
        assert_eq!(client.at(HOME, &[remove]).await.status, Status::Access);
    });
}

#[test]
fn hidden_exports_do_not_exist_and_handles_do_not_cross() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let mut results = client.at(HOME, &[Op::GetFh]).await;
        results.ok(operation::GETFH);
        let handle = results.opaque();
        assert_eq!(client.run(&[Op::PutFh(&handle)]).await.status, Status::Ok);
        let mut forged = handle.clone();
        forged[7] ^= 1;
        assert_eq!(
            client.run(&[Op::PutFh(&forged)]).await.status,
            Status::Badhandle
        );
        fixture
            .service
            .set_rules("/tank/home", vec![hidden()])
            .unwrap();
        assert_eq!(
            client.run(&[Op::PutFh(&handle)]).await.status,
            Status::Stale
        );
        let lookup = [Op::PutRootFh, Op::Lookup { name: b"tank" }];
        assert_eq!(client.run(&lookup).await.status, Status::Noent);
        fixture.service.remove_export("/tank/home").unwrap();
        assert_eq!(
            client.run(&[Op::PutFh(&handle)]).await.status,
            Status::Stale
        );
    });
}

#[test]
fn a_read_only_export_refuses_changes() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut rule = all_rights();
        rule.is_read_only = true;
        fixture.service.set_rules("/tank/home", vec![rule]).unwrap();
        let mut client = fixture.client("a").await;
        let create = open("f", Some(CreateHow::Unchecked(NO_ATTRS)));
        for op in [create, Op::Remove { name: b"x" }] {
            assert_eq!(client.at(HOME, &[op]).await.status, Status::Rofs);
        }
        let mut results = client.at(HOME, &[Op::Access(63)]).await;
        results.ok(operation::ACCESS);
        assert_eq!((results.u32(), results.u32()), (31, 3), "read and look up");
    });
}

#[test]
fn the_superuser_is_squashed() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let rule = Rule::read_write(Hosts::Any);
        fixture.service.set_rules("/tank/home", vec![rule]).unwrap();
        let mut client = fixture.client("a").await;
        let create = open("f", Some(CreateHow::Unchecked(NO_ATTRS)));
        assert_eq!(client.at(HOME, &[create]).await.status, Status::Access);
    });
}

/// Regression: open(2) with O_CREAT and O_RDONLY of a file that exists failed on a read-only export, although nothing would change.
#[test]
fn a_file_of_a_read_only_export_is_opened_for_reading() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let create = |name, attributes| {
            let create = Some(CreateHow::Unchecked(attributes));
            open_with(Claim::Name(name), create, 1 | 0x400, 0)
        };
        let mut client = fixture.client("a").await;
        let made = client.at(HOME, &[create(b"f", NO_ATTRS)]).await;
        assert_eq!(made.status, Status::Ok);
        let read_only = Rule {
            is_read_only: true,
            ..all_rights()
        };
        let set = fixture.service.set_rules("/tank/home", vec![read_only]);
        set.expect("it is there");
        let size = Attrs {
            mask: Bitmap::of(&[4]),
            values: &[0; 8],
        };
        let guarded = Some(CreateHow::Guarded(NO_ATTRS));
        for (op, status) in [
            (create(b"f", NO_ATTRS), Status::Ok),
            (create(b"f", size), Status::Rofs),
            (create(b"g", NO_ATTRS), Status::Rofs),
            (open_with(Claim::Name(b"f"), guarded, 1, 0), Status::Rofs),
        ] {
            assert_eq!(client.at(HOME, &[op]).await.status, status);
        }
    });
}
