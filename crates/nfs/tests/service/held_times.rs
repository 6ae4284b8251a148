//! RFC 9754: arguments of OPEN that the server knows, times that a delegation's holder keeps, and OPEN's either an open or a delegation.

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, open_with, simulated};
use nfs::wire::attribute::*;
use nfs::wire::callback::CallbackOp;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::{Attrs, Bitmap, Op, Stateid, Status, operation};
use nfs::xdr::Writer;
use nfs::xdr::Xdr;
use std::time::Duration;

const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];
/// Any delegation, with times; and that, or an open.
const TIMES: u32 = 0x10_0300;
const EITHER: u32 = 0x20_0300;
const HELD: Bitmap = Bitmap::of(&[TIME_DELEG_ACCESS, TIME_DELEG_MODIFY]);
const SHOWN: Bitmap = Bitmap::of(&[CHANGE, SIZE, TIME_ACCESS, TIME_METADATA, TIME_MODIFY]);

/// A time: seconds and nanoseconds.
type Time = (i64, u32);

/// The result of OPEN, which is read: the stateid, the flags, and the delegation's type and stateid.
fn opened(results: &mut Results) -> (Stateid, u32, u32, Option<Stateid>) {
    results.ok(operation::OPEN);
    let stateid = results.stateid();
    results.skip(4 + 8 + 8);
    let flags = results.u32();
    results.bitmap();
    let kind = results.u32();
    let delegation = matches!(kind, 1 | 2 | 4 | 5).then(|| results.stateid());
    (stateid, flags, kind, delegation)
}

fn open<'a>(name: &'a str, access: u32, deny: u32) -> Op<'a> {
    let create = Some(CreateHow::Unchecked(NO_ATTRS));
    open_with(Claim::Name(name.as_bytes()), create, access, deny)
}

/// A client of minor version 2 with a delegation of "f" and its times.
async fn holder(fixture: &Fixture, name: &str, access: u32) -> (Client, Stateid) {
    let mut client = Client::with_back_channel_of(fixture, name, 2).await;
    let mut results = client.at(HOME, &[open("f", access | TIMES, 0)]).await;
    let (_, _, kind, delegation) = opened(&mut results);
    assert_eq!(kind, access.min(2) + 3, "a delegation with times");
    (client, delegation.expect("a delegation"))
}

/// Reported times, encoded.
fn reported(times: &[Time]) -> Vec<u8> {
    let mut writer = Writer::new();
    for (seconds, nanoseconds) in times {
        writer.i64(*seconds);
        writer.u32(*nanoseconds);
    }
    writer.to_vec()
}

fn set<'a>(stateid: Stateid, mask: Bitmap, values: &'a [u8]) -> Op<'a> {
    let attributes = Attrs { mask, values };
    Op::SetAttr {
        stateid,
        attributes,
    }
}

/// The attributes of [`SHOWN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    change: u64,
    size: u64,
    accessed: Time,
    changed: Time,
    modified: Time,
}

fn shown(mut results: Results) -> Shown {
    results.ok(operation::GETATTR);
    assert_eq!(results.bitmap(), SHOWN);
    results.u32();
    let (change, size) = (results.u64(), results.u64());
    let mut time = || (results.u64() as i64, results.u32());
    Shown {
        change,
        size,
        accessed: time(),
        changed: time(),
        modified: time(),
    }
}

async fn look(client: &mut Client) -> Shown {
    shown(client.at(&PATH, &[Op::GetAttr(SHOWN)]).await)
}

#[test]
fn the_arguments_of_open_that_are_known_are_named() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let wanted = Bitmap::of(&[SUPPORTED_ATTRS, OPEN_ARGUMENTS]);
        for minor in [1, 2] {
            client.minor = minor;
            for path in [&[][..], HOME] {
                let mut results = client.at(path, &[Op::GetAttr(wanted)]).await;
                results.ok(operation::GETATTR);
                assert_eq!(results.bitmap().has(OPEN_ARGUMENTS), minor == 2);
                results.u32();
                let supported = results.bitmap();
                for attribute in [TIME_DELEG_ACCESS, TIME_DELEG_MODIFY, OPEN_ARGUMENTS] {
                    assert_eq!(supported.has(attribute), minor == 2);
                }
                if minor == 2 {
                    let [access, deny, wishes, claims, ways] = [(); 5].map(|()| {
                        assert_eq!(results.u32(), 1);
                        results.u32()
                    });
                    assert_eq!((access, deny, ways), (0b1110, 0b1111, 0b1111));
                    assert_eq!(wishes, 0x30_0038);
                    assert_eq!(claims, 0b11_0111);
                }
            }
            // In minor version 1 these wishes do not exist.
            let mut results = client.at(HOME, &[open("g", 3 | EITHER | TIMES, 0)]).await;
            match minor {
                1 => results.has(operation::OPEN, Status::Inval),
                _ => assert_eq!(
                    opened(&mut results).1 & 0x10,
                    0,
                    "no delegation, so an open"
                ),
            }
        }
    });
}

#[test]
fn times_are_set_with_the_stateid_of_the_delegation() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut client, stateid) = holder(&fixture, "a", 3).await;
        let before = look(&mut client).await;
        io::time::sleep(Duration::from_secs(100)).await;
        let (seconds, nanoseconds) = before.modified;
        // An access alone changes nothing else.
        let access = reported(&[(seconds + 7, 5)]);
        let op = set(stateid, Bitmap::of(&[TIME_DELEG_ACCESS]), &access);
        assert_eq!(client.at(&PATH, &[op]).await.status, Status::Ok);
        let accessed = (seconds + 7, 5);
        assert_eq!(look(&mut client).await, Shown { accessed, ..before });
        // The known access time changes nothing; the last change follows the modification.
        let times = reported(&[accessed, (seconds + 50, nanoseconds)]);
        let op = set(stateid, HELD, &times);
        assert_eq!(client.at(&PATH, &[op]).await.status, Status::Ok);
        let after = look(&mut client).await;
        let modified = (seconds + 50, nanoseconds);
        assert_eq!((after.accessed, after.modified), (accessed, modified));
        assert_eq!(after.changed, modified);
        assert!(after.change > before.change);
        let known = reported(&[accessed, modified]);
        let op = set(stateid, HELD, &known);
        assert_eq!(client.at(&PATH, &[op]).await.status, Status::Ok);
        assert_eq!(look(&mut client).await, after);
        // The future becomes the present; in one COMPOUND with the return.
        let times = reported(&[(seconds + 1_000_000, 0), (seconds + 1_000_000, 0)]);
        let give = [set(stateid, HELD, &times), Op::DelegReturn { stateid }];
        assert_eq!(client.at(&PATH, &give).await.status, Status::Ok);
        let after = look(&mut client).await;
        for time in [after.accessed, after.modified, after.changed] {
            assert!((seconds + 100..seconds + 200).contains(&time.0));
        }
    });
}

/// Data that a client wrote back moved the modification to the present, so that the time that the client had shown its programs, and
/// reported afterwards, was "before the one here".
#[test]
fn a_time_of_before_the_write_back_counts() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut client, stateid) = holder(&fixture, "a", 3).await;
        let (seconds, _) = look(&mut client).await.modified;
        io::time::sleep(Duration::from_secs(30)).await;
        let write = Op::Write {
            stateid,
            offset: 0,
            stable: 2,
            data: b"abc",
        };
        assert_eq!(client.at(&PATH, &[write]).await.status, Status::Ok);
        let written = look(&mut client).await;
        assert!(written.modified.0 >= seconds + 30);
        let times = reported(&[(seconds + 10, 0)]);
        let op = set(stateid, Bitmap::of(&[TIME_DELEG_MODIFY]), &times);
        assert_eq!(client.at(&PATH, &[op]).await.status, Status::Ok);
        let after = look(&mut client).await;
        assert_eq!(after.modified, (seconds + 10, 0));
        assert_eq!(
            after.changed, written.changed,
            "the last change never goes back"
        );
    });
}

/// Linux keeps times that a program sets (utimensat(2): `rsync -a`, `cp -p`) as delegated ones. They were ignored if they were before
/// those at the grant: the file had the time of its copy as soon as the delegation was returned.
#[test]
fn a_time_of_before_the_grant_counts() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut client, stateid) = holder(&fixture, "a", 3).await;
        let before = look(&mut client).await;
        let (accessed, modified) = ((1_000_000_000, 1), (1_000_000_000, 2));
        let values = reported(&[accessed, modified]);
        let give = [set(stateid, HELD, &values), Op::DelegReturn { stateid }];
        assert_eq!(client.at(&PATH, &give).await.status, Status::Ok);
        let after = look(&mut client).await;
        assert_eq!((after.accessed, after.modified), (accessed, modified));
        assert_eq!(
            after.changed, before.changed,
            "the last change never goes back"
        );
        assert!(after.change > before.change);
    });
}

#[test]
fn times_belong_to_the_holder_of_a_delegation() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut client, stateid) = holder(&fixture, "a", 1).await;
        let (mut reader, of_reader) = holder(&fixture, "b", 1).await;
        let (seconds, _) = look(&mut client).await.modified;
        io::time::sleep(Duration::from_secs(9)).await;
        let times = reported(&[(seconds + 5, 0)]);
        let access = Bitmap::of(&[TIME_DELEG_ACCESS]);
        let modify = Bitmap::of(&[TIME_DELEG_MODIFY]);
        for (stateid, mask, wanted) in [
            (stateid, access, Status::Ok),
            (stateid, modify, Status::Openmode),
            (of_reader, access, Status::BadStateid),
            (Stateid::ANONYMOUS, access, Status::BadStateid),
        ] {
            let op = set(stateid, mask, &times);
            assert_eq!(client.at(&PATH, &[op]).await.status, wanted);
        }
        assert!(reader.is_left_alone().await, "an access recalls nothing");
        assert_eq!(look(&mut reader).await.accessed, (seconds + 5, 0));
        // They have no value, and are nothing for a new object.
        let get = Op::GetAttr(HELD);
        assert_eq!(client.at(&PATH, &[get]).await.status, Status::Inval);
        let attributes = Attrs {
            mask: access,
            values: &times,
        };
        let create = Some(CreateHow::Unchecked(attributes));
        let op = open_with(Claim::Name(b"new"), create, 1, 0);
        assert_eq!(client.at(HOME, &[op]).await.status, Status::Inval);
        // A delegation without times does not allow them.
        let mut plain = Client::with_back_channel_of(&fixture, "c", 2).await;
        let mut results = plain.at(HOME, &[open("f", 0x101, 0)]).await;
        let (_, _, kind, delegation) = opened(&mut results);
        assert_eq!(kind, 1);
        let op = set(delegation.unwrap(), access, &times);
        assert_eq!(plain.at(&PATH, &[op]).await.status, Status::BadStateid);
    });
}

#[test]
fn others_see_the_times_that_the_holder_tells() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut client, stateid) = holder(&fixture, "a", 3).await;
        let mut other = fixture.client("b").await;
        let before = look(&mut client).await;
        io::time::sleep(Duration::from_secs(20)).await;
        let only_times = Op::GetAttr(Bitmap::of(&[TIME_MODIFY]));
        assert_eq!(other.at(&PATH, &[only_times]).await.status, Status::Delay);
        let callback = client.callback().await;
        let CallbackOp::GetAttr { wanted, .. } = callback.op() else {
            panic!("CB_GETATTR, not {:?}", callback.op());
        };
        let all = Bitmap::of(&[CHANGE, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY]);
        assert_eq!(wanted, all);
        let (seconds, _) = before.modified;
        let mut body = Writer::new();
        all.encode(&mut body);
        body.u32(16 + 24);
        body.u64(before.change + 1);
        body.u64(77);
        body.fixed(&reported(&[before.accessed, (seconds + 3, 4)]));
        client.answer(&callback, Status::Ok, &body.to_vec()).await;
        let seen = look(&mut other).await;
        let time = (seconds + 3, 4);
        let wanted = Shown {
            change: before.change + 1,
            size: 77,
            modified: time,
            changed: time,
            ..before
        };
        assert_eq!(seen, wanted);
        let give = [Op::DelegReturn { stateid }];
        assert_eq!(client.at(&PATH, &give).await.status, Status::Ok);
        assert_eq!(look(&mut other).await.size, 0);
    });
}

#[test]
fn either_an_open_or_a_delegation_is_returned() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::with_back_channel_of(&fixture, "a", 2).await;
        let mut results = client.at(HOME, &[open("f", 3 | EITHER, 0)]).await;
        let (open_id, flags, kind, delegation) = opened(&mut results);
        assert_eq!((open_id, flags & 0x10, kind), (Stateid::ANONYMOUS, 0x10, 2));
        let stateid = delegation.expect("a delegation");
        let write = Op::Write {
            stateid,
            offset: 0,
            stable: 2,
            data: b"abc",
        };
        assert_eq!(client.at(&PATH, &[write]).await.status, Status::Ok);
        let give = [Op::DelegReturn { stateid }];
        assert_eq!(client.at(&PATH, &give).await.status, Status::Ok);
        // Nothing is left of the open: a reservation of another client does not meet it.
        let mut other = fixture.client("b").await;
        let mut results = other.at(HOME, &[open("f", 3, 3)]).await;
        let close = Op::Close {
            stateid: opened(&mut results).0,
        };
        assert_eq!(other.at(&PATH, &[close]).await.status, Status::Ok);
        // A reservation needs an open.
        let mut results = client.at(HOME, &[open("g", 3 | EITHER, 3)]).await;
        let (open_id, flags, kind, _) = opened(&mut results);
        assert_ne!(open_id, Stateid::ANONYMOUS);
        assert_eq!((flags & 0x10, kind), (0, 3));
    });
}
