//! Extended attributes (RFC 8276).

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, open, simulated};
use nfs::export::Rule;
use nfs::wire::files::CreateHow;
use nfs::wire::minor2::{Minor2, SetOption};
use nfs::wire::{Bitmap, Op, Status, operation};

const XATTR_SUPPORT: u32 = 82;
const FILE: &[&str] = &["tank", "home", "f"];

fn op(op: Minor2<'_>) -> Op<'_> {
    Op::Minor2(Box::new(op))
}

fn set<'a>(option: SetOption, name: &'a [u8], value: &'a [u8]) -> Op<'a> {
    op(Minor2::SetXattr {
        option,
        name,
        value,
    })
}

fn list(cookie: u64, bytes_max: u32) -> Op<'static> {
    op(Minor2::ListXattrs { cookie, bytes_max })
}

/// A client, and a file.
async fn client(fixture: &Fixture) -> Client {
    let mut client = fixture.client("a").await;
    client.minor = 2;
    let create = open("f", Some(CreateHow::Unchecked(NO_ATTRS)));
    client.at(HOME, &[create]).await.open();
    client
}

/// A successful result of LISTXATTRS: the cookie, the names, and whether they end.
fn names(results: &mut Results) -> (u64, Vec<String>, bool) {
    results.ok(operation::LISTXATTRS);
    let cookie = results.u64();
    let count = results.u32();
    let names = (0..count).map(|_| String::from_utf8(results.opaque()).unwrap());
    (cookie, names.collect(), results.u32() == 1)
}

/// The two values of a change.
fn change(results: &mut Results) -> (u64, u64) {
    assert_eq!(results.u32(), 1, "atomic");
    (results.u64(), results.u64())
}

#[test]
fn attributes_are_set_read_listed_and_removed() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let get = |name| op(Minor2::GetXattr { name });
        let remove = |name| op(Minor2::RemoveXattr { name });
        let mut results = client.at(FILE, &[get(b"a")]).await;
        results.has(operation::GETXATTR, Status::Noxattr);
        for (option, value, status) in [
            (SetOption::Replace, &b"1"[..], Status::Noxattr),
            (SetOption::Create, b"2", Status::Ok),
            (SetOption::Create, b"3", Status::Exist),
            (SetOption::Replace, b"", Status::Ok),
            (SetOption::Either, b"five", Status::Ok),
        ] {
            let mut results = client.at(FILE, &[set(option, b"a", value)]).await;
            results.has(operation::SETXATTR, status);
            if status == Status::Ok {
                let (before, after) = change(&mut results);
                assert!(after > before);
                let mut results = client.at(FILE, &[get(b"a")]).await;
                results.ok(operation::GETXATTR);
                assert_eq!(results.opaque(), value);
            }
        }
        let more = [
            set(SetOption::Either, b"c", b"x"),
            set(SetOption::Either, b"user.b", b"y"),
            list(0, 1 << 20),
        ];
        let mut results = client.at(FILE, &more).await;
        for _ in 0..2 {
            results.ok(operation::SETXATTR);
            change(&mut results);
        }
        let all = ["a", "c", "user.b"].map(String::from).to_vec();
        assert_eq!(names(&mut results), (3, all, true));
        let mut results = client.at(FILE, &[remove(b"a"), remove(b"a")]).await;
        results.ok(operation::REMOVEXATTR);
        let (before, after) = change(&mut results);
        assert!(after > before);
        results.has(operation::REMOVEXATTR, Status::Noxattr);
    });
}

#[test]
fn a_list_comes_in_parts() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        for i in 0..10 {
            let name = format!("name{i}");
            let set = set(SetOption::Create, name.as_bytes(), b"v");
            client.at(FILE, &[set]).await.ok(operation::SETXATTR);
        }
        // Room for three names of five bytes.
        let room = 16 + 3 * 12;
        let (mut cookie, mut all) = (0, Vec::new());
        loop {
            let mut results = client.at(FILE, &[list(cookie, room + 11)]).await;
            let (next, some, is_end) = names(&mut results);
            assert!((1..=3).contains(&some.len()) && next > cookie);
            cookie = next;
            all.extend(some);
            if is_end {
                break;
            }
        }
        let expected: Vec<String> = (0..10).map(|i| format!("name{i}")).collect();
        assert_eq!(all, expected);
        let mut results = client.at(FILE, &[list(10, room)]).await;
        assert_eq!(names(&mut results), (10, vec![], true));
        for (cookie, bytes_max, status) in [
            (11, room, Status::BadCookie),
            (u64::MAX, room, Status::BadCookie),
            (0, 16 + 11, Status::Toosmall),
            (0, 0, Status::Toosmall),
        ] {
            let mut results = client.at(FILE, &[list(cookie, bytes_max)]).await;
            results.has(operation::LISTXATTRS, status);
        }
    });
}

#[test]
fn bad_names_and_values_are_refused() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let long = [b'n'; 251];
        let large = vec![0; (64 << 10) + 1];
        for (name, value, status) in [
            (&b""[..], &b"v"[..], Status::Inval),
            (&long, b"v", Status::Nametoolong),
            (b"nul\0", b"v", Status::Inval),
            (b"large", &large, Status::Xattr2big),
            (&long[..250], &large[1..], Status::Ok),
        ] {
            let mut results = client
                .at(FILE, &[set(SetOption::Either, name, value)])
                .await;
            results.has(operation::SETXATTR, status);
        }
        let name = &long[..250];
        let mut results = client.at(FILE, &[op(Minor2::GetXattr { name })]).await;
        results.ok(operation::GETXATTR);
        assert_eq!(results.opaque(), large[1..]);
        let above: &[(_, Status)] = &[
            (op(Minor2::GetXattr { name: b"a" }), Status::Noxattr),
            (set(SetOption::Either, b"a", b"v"), Status::Rofs),
            (op(Minor2::RemoveXattr { name: b"a" }), Status::Rofs),
        ];
        for (refused, status) in above {
            let mut results = client.at(&[], std::slice::from_ref(refused)).await;
            results.has(refused.number(), *status);
        }
        let mut results = client.at(&[], &[list(0, 100)]).await;
        assert_eq!(names(&mut results), (0, vec![], true));
    });
}

#[test]
fn access_names_the_rights() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = client(&fixture).await;
        let (read, write, list_names) = (0x40, 0x80, 0x100);
        let all = read | write | list_names;
        let access = [Op::Access(all | 1)];
        let mut results = client.at(FILE, &access).await;
        results.ok(operation::ACCESS);
        assert_eq!((results.u32(), results.u32()), (all | 1, all | 1));
        client.uid = 1000;
        let mut results = client.at(FILE, &access).await;
        results.ok(operation::ACCESS);
        assert_eq!((results.u32(), results.u32()), (all | 1, list_names));
        let mut results = client
            .at(FILE, &[op(Minor2::GetXattr { name: b"a" })])
            .await;
        results.has(operation::GETXATTR, Status::Access);
        let refused = [set(SetOption::Either, b"a", b"v")];
        let mut results = client.at(FILE, &refused).await;
        results.has(operation::SETXATTR, Status::Access);
        client.uid = 0;

        client.minor = 1;
        let mut results = client.at(FILE, &access).await;
        results.ok(operation::ACCESS);
        assert_eq!((results.u32(), results.u32()), (1, 1), "bits of 4.2");
        client.minor = 2;

        let get = [Op::GetAttr(Bitmap::of(&[XATTR_SUPPORT]))];
        for (path, expected) in [(FILE, 1), (&[][..], 0)] {
            let mut results = client.at(path, &get).await;
            results.ok(operation::GETATTR);
            assert!(results.bitmap().has(XATTR_SUPPORT));
            assert_eq!((results.u32(), results.u32()), (4, expected));
        }

        let rule = Rule {
            is_read_only: true,
            ..all_rights()
        };
        fixture.service.set_rules("/tank/home", vec![rule]).unwrap();
        let mut results = client.at(FILE, &access).await;
        results.ok(operation::ACCESS);
        let granted = (results.u32(), results.u32());
        assert_eq!(granted, (all | 1, read | list_names | 1));
        let mut results = client.at(FILE, &refused).await;
        results.has(operation::SETXATTR, Status::Rofs);
    });
}
