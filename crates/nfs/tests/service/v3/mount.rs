//! MOUNT: handles by path, the lists of mounts and exports.

use super::client::{at, mode, with_mount};
use crate::client::Client;
use crate::fixture::{all_rights, export};
use nfs::export::{Hosts, Rule};
use nfs::v3::wire::mount::Arguments as Mount;
use nfs::v3::wire::{Arguments, Status};

const NOENT: u32 = 2;
const ACCESS: u32 = 13;
const NOTDIR: u32 = 20;
const NAMETOOLONG: u32 = 63;

fn hidden() -> Rule {
    Rule::read_write(Hosts::Network([192, 0, 2, 1].into(), 32))
}

#[test]
fn exports_and_directories_below_them_are_mounted() {
    with_mount(|fixture, mut client, root| async move {
        let (directory, ..) = client
            .v3(&Arguments::MkDir {
                at: at(&root, "d"),
                set: mode(0o755),
            })
            .await
            .created();
        client
            .v3(&Arguments::MkDir {
                at: at(&root, "secret"),
                set: mode(0o700),
            })
            .await
            .created();
        let (secret, _) = client.lookup_v3(&root, "secret").await;
        client
            .v3(&Arguments::MkDir {
                at: at(&secret, "e"),
                set: mode(0o777),
            })
            .await
            .created();
        client.create_v3(&root, "f").await;
        let symlink = Arguments::SymLink {
            at: at(&root, "s"),
            set: mode(0o777),
            path: b"d",
        };
        client.v3(&symlink).await.created();
        assert_eq!(client.mounted("//tank/./home/d/").await, Ok(directory));
        let long = format!("/tank/home/{}", "x".repeat(256));
        for (path, status) in [
            ("/", NOENT),
            ("/tank", NOENT),
            ("tank/home", NOENT),
            ("/tank/home/none", NOENT),
            ("/tank/home/d/..", NOENT),
            ("/tank/home/f", NOTDIR),
            ("/tank/home/s", NOTDIR),
            ("/tank/home/f/x", NOTDIR),
            (&long, NAMETOOLONG),
        ] {
            assert_eq!(client.mounted(path).await, Err(status), "{path}");
        }
        client.uid = 1000;
        assert_eq!(client.mounted("/tank/home/secret/e").await, Err(ACCESS));
        fixture
            .service
            .add_export(export(2, "/tank/home/secret", hidden()))
            .expect("new");
        client.uid = 0;
        assert_eq!(
            client.mounted("/tank/home/secret").await,
            Ok(secret),
            "another host's export is not there"
        );
    });
}

#[test]
fn an_export_below_another_one_is_mounted_on_its_own() {
    with_mount(|fixture, mut client, root| async move {
        fixture
            .service
            .add_export(export(2, "/tank/home/ann", all_rights()))
            .expect("new");
        let missing = Arguments::Lookup(at(&root, "ann"));
        assert_eq!(
            client.refused(&missing).await,
            Status::Noent,
            "nothing is crossed"
        );
        // The directory where a client may mount it.
        let mkdir = Arguments::MkDir {
            at: at(&root, "ann"),
            set: mode(0o755),
        };
        let (directory, above, _) = client.v3(&mkdir).await.created();
        let nested = client.mounted("/tank/home/ann").await.expect("an export");
        assert_ne!(nested, directory);
        assert_ne!(client.attributes_v3(&nested).await.fsid, above.fsid);
        client.create_v3(&nested, "f").await;
        let crossing = Arguments::Rename {
            from: at(&nested, "f"),
            to: at(&root, "f"),
        };
        assert_eq!(client.refused(&crossing).await, Status::Xdev);
        let (file, _) = client.lookup_v3(&nested, "f").await;
        let crossing = Arguments::Link {
            object: &file,
            to: at(&root, "f"),
        };
        assert_eq!(client.refused(&crossing).await, Status::Xdev);
    });
}

#[test]
fn lists_of_exports_and_mounts_show_what_the_host_may_use() {
    with_mount(|fixture, mut client, _root| async move {
        let service = &fixture.service;
        service
            .add_export(export(2, "/other", hidden()))
            .expect("new");
        let lists = Rule {
            hosts: Hosts::Network([10, 0, 0, 0].into(), 8),
            ..all_rights()
        };
        let mut listed = export(3, "/listed", lists);
        listed.rules.push(all_rights());
        service.add_export(listed).expect("new");
        let mut results = client.mount(&Mount::Export).await;
        let mut exports = Vec::new();
        while results.bool() {
            let path = String::from_utf8(results.opaque()).expect("text");
            let mut hosts = Vec::new();
            while results.bool() {
                hosts.push(String::from_utf8(results.opaque()).expect("text"));
            }
            exports.push((path, hosts));
        }
        results.ended();
        let expected = [
            ("/tank/home".to_string(), vec!["*".to_string()]),
            ("/listed".into(), vec!["10.0.0.0/8".into(), "*".into()]),
        ];
        assert_eq!(exports, expected);

        client.mounted("/listed").await.expect("an export");
        client.mounted("/listed").await.expect("an export");
        client.mounted("/other").await.expect_err("hidden");
        assert_eq!(mounts(&mut client).await, ["/tank/home", "/listed"]);
        client.mount(&Mount::Unmount(b"/tank/home")).await.ended();
        assert_eq!(mounts(&mut client).await, ["/listed"]);
        assert_eq!(service.mounts().len(), 1);
        service.remove_export("/listed").expect("it is there");
        assert!(mounts(&mut client).await.is_empty(), "the export is gone");
        client.mount(&Mount::UnmountAll).await.ended();
        client.mount(&Mount::Null).await.ended();
        assert!(service.mounts().is_empty());
        let counted: Vec<u32> = service
            .counters()
            .mounts
            .iter()
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(counted, [0, 1, 2, 3, 4, 5]);
    });
}

async fn mounts(client: &mut Client) -> Vec<String> {
    let mut results = client.mount(&Mount::Dump).await;
    let mut paths = Vec::new();
    while results.bool() {
        assert!(!results.opaque().is_empty());
        paths.push(String::from_utf8(results.opaque()).expect("text"));
    }
    results.ended();
    paths
}
