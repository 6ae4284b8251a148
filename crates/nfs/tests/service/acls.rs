//! Access control lists, and modes of new objects under an umask.

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, config, export, open, simulated};
use backend::file::memory::{MemoryFiles, MemoryOptions};
use backend::file::permission::{AclMode, AclRules};
use nfs::export::{ExportConfig, Rule};
use nfs::wire::files::{CreateHow, NewType};
use nfs::wire::{Attrs, Bitmap, Op, Stateid, Status, operation};
use nfs::xdr::Writer;
use std::sync::Arc;

const ACL: u32 = 12;
const ACLSUPPORT: u32 = 13;
const MODE: u32 = 33;
const DACL: u32 = 58;
const MODE_UMASK: u32 = 81;
const FILE: &[&str] = &["tank", "home", "f"];

/// An entry: type, flags, mask, principal.
type Ace = (u32, u32, u32, &'static str);

/// All rights but those of owners, as `nfs4_setfacl` shows them: `rxtncy`.
const READ_ALL: u32 = 0x12_00a9;

fn acl(aces: &[Ace]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.count(aces.len());
    for (kind, flags, mask, who) in aces {
        [kind, flags, mask]
            .iter()
            .for_each(|word| writer.u32(**word));
        writer.opaque(who.as_bytes());
    }
    writer.to_vec()
}

fn read_acl(results: &mut Results) -> Vec<(u32, u32, u32, String)> {
    let count = results.u32();
    let one = |_| {
        let words = (results.u32(), results.u32(), results.u32());
        let who = String::from_utf8(results.opaque()).unwrap();
        (words.0, words.1, words.2, who)
    };
    (0..count).map(one).collect()
}

fn owned(aces: &[Ace]) -> Vec<(u32, u32, u32, String)> {
    let one = |ace: &Ace| (ace.0, ace.1, ace.2, ace.3.to_string());
    aces.iter().map(one).collect()
}

/// The list and the mode of an object.
async fn show(client: &mut Client, path: &[&str]) -> (Vec<(u32, u32, u32, String)>, u32) {
    let get = Op::GetAttr(Bitmap::of(&[ACL, MODE]));
    let mut results = client.at(path, &[get]).await;
    results.ok(operation::GETATTR);
    results.bitmap();
    results.u32();
    (read_acl(&mut results), results.u32())
}

async fn set(client: &mut Client, path: &[&str], mask: &[u32], values: &[u8]) -> Results {
    let mask = Bitmap::of(mask);
    let set = Op::SetAttr {
        stateid: Stateid::ANONYMOUS,
        attributes: Attrs { mask, values },
    };
    client.at(path, &[set]).await
}

async fn client(fixture: &Fixture) -> Client {
    let mut client = fixture.client("a").await;
    client.minor = 2;
    let mode = Attrs {
        mask: Bitmap::of(&[MODE]),
        values: &0o640_u32.to_be_bytes(),
    };
    let create = open("f", Some(CreateHow::Unchecked(mode)));
    client.at(HOME, &[create]).await.open();
    client
}

#[test]
fn a_mode_is_shown_as_a_list() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let expected = [
            (0, 0, 0x16_019f, "OWNER@"),
            (0, 0x40, 0x12_0089, "GROUP@"),
            (0, 0, 0x12_0080, "EVERYONE@"),
        ];
        assert_eq!(show(&mut client, FILE).await, (owned(&expected), 0o640));
        // The same list may be set, as an editor of lists does.
        let same = acl(&expected);
        set(&mut client, FILE, &[ACL], &same)
            .await
            .ok(operation::SETATTR);
        assert_eq!(show(&mut client, FILE).await, (owned(&expected), 0o640));

        let get = [Op::GetAttr(Bitmap::of(&[0, ACL, ACLSUPPORT, DACL]))];
        let mut results = client.at(FILE, &get).await;
        results.ok(operation::GETATTR);
        assert_eq!(results.bitmap(), Bitmap::of(&[0, ACL, ACLSUPPORT, DACL]));
        results.u32();
        assert!(results.bitmap().has(ACL));
        assert_eq!(read_acl(&mut results), owned(&expected));
        assert_eq!(results.u32(), 3, "allow and deny");
        assert_eq!(results.u32(), 0, "no flag");
        assert_eq!(read_acl(&mut results), owned(&expected));
        // The pseudo file system has none.
        let mut results = client.at(&[], &get).await;
        results.ok(operation::GETATTR);
        assert_eq!(results.bitmap(), Bitmap::of(&[0, ACLSUPPORT]));
        results.u32();
        assert!(!results.bitmap().has(ACL));
        assert_eq!(results.u32(), 0);
    });
}

#[test]
fn list_and_mode_follow_each_other() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let list = [
            (1, 0, 0x2, "1000"),
            (0, 0, 0x1f_01ff, "OWNER@"),
            (0, 0x40, READ_ALL, "50"),
            (0, 0x40, READ_ALL, "GROUP@"),
        ];
        let mut results = set(&mut client, FILE, &[ACL], &acl(&list)).await;
        results.ok(operation::SETATTR);
        assert_eq!(results.bitmap(), Bitmap::of(&[ACL]));
        assert_eq!(show(&mut client, FILE).await, (owned(&list), 0o750));

        // The group may read now, and group 50 nothing more than the group.
        let mode = 0o640_u32.to_be_bytes();
        set(&mut client, FILE, &[MODE], &mode)
            .await
            .ok(operation::SETATTR);
        let (now, mode) = show(&mut client, FILE).await;
        assert_eq!(mode, 0o640);
        let of_50 = now.iter().find(|ace| ace.3 == "50").unwrap();
        assert_eq!(of_50.2 & 0x27, 0x1, "no execution");
        assert!(now.iter().any(|ace| ace.3 == "1000" && ace.0 == 1));

        // §6.4.1.3: the mode first, then the list.
        let mut both = acl(&list);
        both.extend(0o4600_u32.to_be_bytes());
        let mut results = set(&mut client, FILE, &[ACL, MODE], &both).await;
        results.ok(operation::SETATTR);
        assert_eq!(results.bitmap(), Bitmap::of(&[ACL, MODE]));
        assert_eq!(show(&mut client, FILE).await, (owned(&list), 0o4750));

        let mut dacl = 0_u32.to_be_bytes().to_vec();
        dacl.extend(acl(&list[1..2]));
        set(&mut client, FILE, &[DACL], &dacl)
            .await
            .ok(operation::SETATTR);
        assert_eq!(show(&mut client, FILE).await.0, owned(&list[1..2]));
    });
}

#[test]
fn lists_decide_about_access() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let list = [
            (1, 0, 0x2_0000, "1001"),
            (0, 0, READ_ALL, "1001"),
            (0, 0, READ_ALL, "1000"),
        ];
        set(&mut client, FILE, &[ACL], &acl(&list))
            .await
            .ok(operation::SETATTR);
        let read = [Op::Read {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            count: 1,
        }];
        for (uid, status) in [(1000, Status::Ok), (1002, Status::Access)] {
            client.uid = uid;
            client.at(FILE, &read).await.has(operation::READ, status);
        }
        // Permission to read the list, and to set it.
        let get = [Op::GetAttr(Bitmap::of(&[ACL]))];
        for (uid, status) in [(1000, Status::Ok), (1001, Status::Access)] {
            client.uid = uid;
            client.at(FILE, &get).await.has(operation::GETATTR, status);
            let mut results = set(&mut client, FILE, &[ACL], &acl(&list)).await;
            results.has(operation::SETATTR, Status::Perm);
            assert_eq!(results.bitmap(), Bitmap::default());
        }
    });
}

#[test]
fn bad_lists_are_refused() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let many = vec![(0, 0, 1, "OWNER@"); 257];
        for (list, status) in [
            (&[(2, 0x10, 1, "OWNER@")][..], Status::Attrnotsupp),
            (&[(3, 0x10, 1, "OWNER@")], Status::Attrnotsupp),
            (&[(9, 0, 1, "OWNER@")], Status::Inval),
            (&[(0, 0, 1, "ann@example.org")], Status::Badowner),
            (&[(0, 0, 1 << 30, "OWNER@")], Status::Inval),
            (&many, Status::Fbig),
        ] {
            let mut results = set(&mut client, FILE, &[ACL], &acl(list)).await;
            results.has(operation::SETATTR, status);
        }
        let mut results = set(&mut client, FILE, &[ACL], &[0, 0, 0, 1]).await;
        results.has(operation::SETATTR, Status::Badxdr);
        let mut results = set(&mut client, FILE, &[59], &[0; 8]).await;
        results.has(operation::SETATTR, Status::Attrnotsupp);
        let mut results = set(&mut client, FILE, &[MODE_UMASK], &[0; 8]).await;
        results.has(operation::SETATTR, Status::Inval);
        let rule = Rule {
            is_read_only: true,
            ..all_rights()
        };
        fixture.service.set_rules("/tank/home", vec![rule]).unwrap();
        let list = acl(&[(0, 0, 1, "OWNER@")]);
        let mut results = set(&mut client, FILE, &[ACL], &list).await;
        results.has(operation::SETATTR, Status::Rofs);
    });
}

#[test]
fn new_objects_have_their_list() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let list = [(0, 0, 0x1f_01ff, "OWNER@"), (0, 0, READ_ALL, "1000")];
        let values = acl(&list);
        let attributes = Attrs {
            mask: Bitmap::of(&[ACL]),
            values: &values,
        };
        let create = open("g", Some(CreateHow::Guarded(attributes)));
        client.at(HOME, &[create]).await.open();
        let path = ["tank", "home", "g"];
        assert_eq!(show(&mut client, &path).await, (owned(&list), 0o700));
        let create = open("h", Some(CreateHow::Exclusive41([1; 8], attributes)));
        client.at(HOME, &[create]).await.open();
        let path = ["tank", "home", "h"];
        assert_eq!(show(&mut client, &path).await, (owned(&list), 0o700));
        let create = Op::Create {
            kind: NewType::Directory,
            name: b"d",
            attributes,
        };
        client.at(HOME, &[create]).await.ok(operation::CREATE);
        let path = ["tank", "home", "d"];
        assert_eq!(show(&mut client, &path).await, (owned(&list), 0o700));
    });
}

/// The mode of a new directory with mode 0777 and umask 027.
async fn mode_under_umask(client: &mut Client, parent: &[&str]) -> u32 {
    let values = [0, 0, 0x1, 0xff, 0, 0, 0, 0x17];
    let create = Op::Create {
        kind: NewType::Directory,
        name: b"new",
        attributes: Attrs {
            mask: Bitmap::of(&[MODE_UMASK]),
            values: &values,
        },
    };
    let get = Op::GetAttr(Bitmap::of(&[MODE]));
    let mut results = client.at(parent, &[create, get]).await;
    results.ok(operation::CREATE);
    results.skip(4 + 8 + 8);
    assert_eq!(results.bitmap(), Bitmap::of(&[MODE_UMASK]));
    results.ok(operation::GETATTR);
    results.bitmap();
    results.u32();
    results.u32()
}

#[test]
fn the_umask_counts_for_what_no_inherited_entry_names() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let create = Op::Create {
            kind: NewType::Directory,
            name: b"d",
            attributes: NO_ATTRS,
        };
        client.at(HOME, &[create]).await.ok(operation::CREATE);
        let directory = ["tank", "home", "d"];
        assert_eq!(mode_under_umask(&mut client, HOME).await, 0o750);
        let list = [
            (0, 0x2, 0x1f_01ff, "OWNER@"),
            (0, 0x42, 0x1f_01ff, "GROUP@"),
            (0, 0x2, 0x1f_01ff, "EVERYONE@"),
        ];
        set(&mut client, &directory, &[ACL], &acl(&list))
            .await
            .ok(operation::SETATTR);
        assert_eq!(mode_under_umask(&mut client, &directory).await, 0o777);
        // An entry for one user, and one for the group: owner and others get the mode without the umask.
        let create = Op::Create {
            kind: NewType::Directory,
            name: b"e",
            attributes: NO_ATTRS,
        };
        client.at(HOME, &[create]).await.ok(operation::CREATE);
        let directory = ["tank", "home", "e"];
        for (list, expected) in [
            (&[(0, 0x2, 0x1f_01ff, "1002")][..], 0o750),
            (&[(0, 0x42, 0x1f_01ff, "GROUP@")], 0o770),
            (&[(0, 0x2, 0x1f_01ff, "EVERYONE@")], 0o777),
        ] {
            set(&mut client, &directory, &[ACL], &acl(list))
                .await
                .ok(operation::SETATTR);
            assert_eq!(mode_under_umask(&mut client, &directory).await, expected);
            let remove = Op::Remove { name: b"new" };
            client.at(&directory, &[remove]).await.ok(operation::REMOVE);
        }
    });
}

#[test]
fn a_mode_changes_a_list_by_the_rule_of_the_file_system() {
    for rule in [
        AclMode::Discard,
        AclMode::Groupmask,
        AclMode::Passthrough,
        AclMode::Restricted,
    ] {
        simulated(move || async move {
            let options = MemoryOptions {
                filesystem: 1,
                acl_rules: AclRules {
                    on_chmod: rule,
                    ..AclRules::STANDARD
                },
                ..MemoryOptions::default()
            };
            let export = ExportConfig {
                files: Arc::new(MemoryFiles::new(options)),
                ..export(1, "/tank/home", all_rights())
            };
            let fixture = Fixture::of(export, config()).await;
            let mut client = client(&fixture).await;
            let list = [(0, 0, 0x16_019f, "OWNER@"), (0, 0, 0x12_0187, "1234")];
            let mut done = set(&mut client, FILE, &[ACL], &acl(&list)).await;
            done.ok(operation::SETATTR);
            let (_, before) = show(&mut client, FILE).await;
            assert_eq!(before, 0o600);
            let set_mode = |mode: u32| mode.to_be_bytes();
            let mut changed = set(&mut client, FILE, &[MODE], &set_mode(0o640)).await;
            let (entries, mode) = show(&mut client, FILE).await;
            let named = entries.iter().find(|entry| entry.3.starts_with("1234"));
            let rights = named.map(|entry| entry.2 & 3);
            match rule {
                AclMode::Restricted => {
                    changed.has(operation::SETATTR, Status::Perm);
                    assert_eq!((rights, mode), (Some(3), 0o600));
                }
                AclMode::Discard => assert_eq!((rights, mode), (None, 0o640)),
                AclMode::Groupmask => assert_eq!((rights, mode), (Some(1), 0o640)),
                AclMode::Passthrough => assert_eq!((rights, mode), (Some(3), 0o640)),
            }
            // both in one request: the mode first, then the list (RFC 8881, section 6.4.1.3)
            let both = [&acl(&list)[..], &set_mode(0o644)].concat();
            let mut done = set(&mut client, FILE, &[ACL, MODE], &both).await;
            if rule == AclMode::Restricted {
                return;
            }
            done.ok(operation::SETATTR);
            assert_eq!(show(&mut client, FILE).await.1, 0o600);
        });
    }
}
