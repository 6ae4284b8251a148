//! Persistent reservations of a LUN, kept while the server is away if the initiator wants that (APTPL, SPC-4 5.13.5).

use crate::common::{BASE, Place, Server, client};
use iscsi::wire::{IscsiName, Isid};
use iscsi_initiator::{Config, Error, Reconnect, Session, Unit, WriteOptions};
use std::net::SocketAddr;
use std::sync::Arc;

const DISK: &str = r#"
[iscsi]
listen = ["127.0.0.1:0"]
[[disk]]
name = "f"
kind = "file"
path = "f.img"
size = "16M"
"#;
const IQN: &str = "iqn.2026-01.org.example:a";
const KEY: [u8; 8] = *b"the key!";
const BLOCK: usize = 4096;

/// PERSISTENT RESERVE OUT service actions.
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const CLEAR: u8 = 3;
/// TYPE: write exclusive.
const WRITE_EXCLUSIVE: u8 = 1;
/// PERSISTENT RESERVE IN service actions.
const READ_KEYS: u8 = 0;
const READ_RESERVATION: u8 = 1;

/// Of two initiator ports, which differ in their ISID, the first or the second.
async fn unit(portal: SocketAddr, port: u8) -> (Session, Unit) {
    let name = |text: &str| IscsiName::new(text).expect("valid");
    let config = Config {
        isid: Isid([0x80, 0, 0, 0, 0, port]),
        reconnect: Reconnect::NEVER,
        ..Config::new(portal, name(IQN), name("iqn.2026-01.org.example:host"))
    };
    let session = Session::connect(config).await.expect("logged in");
    let unit = session.unit(0).await.expect("served");
    (session, unit)
}

/// PERSISTENT RESERVE OUT.
async fn reserve(unit: &Unit, action: u8, key: [u8; 8], new: [u8; 8], aptpl: bool) {
    let kind = if action == RESERVE {
        WRITE_EXCLUSIVE
    } else {
        0
    };
    let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
    let list = [&key[..], &new, &[0, 0, 0, 0, u8::from(aptpl), 0, 0, 0]].concat();
    unit.command_out(&cdb, &list).await.expect("reserve");
}

/// PERSISTENT RESERVE IN, behind PRGENERATION and ADDITIONAL LENGTH.
async fn reserved(unit: &Unit, action: u8) -> Vec<u8> {
    let read = unit
        .command_in(&[0x5e, action, 0, 0, 0, 0, 0, 1, 0, 0])
        .await;
    read.expect("reported")[8..].to_vec()
}

async fn write(unit: &Unit) -> Result<(), Error> {
    let mut data = io::pool().alloc(BLOCK).await;
    data.fill(7);
    unit.write(0, Arc::new(data), WriteOptions::default()).await
}

/// Registers both ports, the first of which reserves the unit.
fn take(server: &Server, aptpl: bool) {
    let portal = server.iscsi[0];
    client(async move {
        let (_first, holder) = unit(portal, 1).await;
        reserve(&holder, REGISTER, [0; 8], KEY, aptpl).await;
        reserve(&holder, RESERVE, KEY, [0; 8], aptpl).await;
        let (_second, other) = unit(portal, 2).await;
        let refused = write(&other).await;
        assert!(
            matches!(refused, Err(Error::ReservationConflict)),
            "{refused:?}"
        );
    });
}

/// The first port holds the unit, and nobody else may write.
fn is_held(server: &Server) {
    let portal = server.iscsi[0];
    client(async move {
        let (_second, other) = unit(portal, 2).await;
        assert_eq!(reserved(&other, READ_KEYS).await, KEY);
        let held = reserved(&other, READ_RESERVATION).await;
        assert_eq!((&held[..8], held[13]), (&KEY[..], WRITE_EXCLUSIVE));
        let refused = write(&other).await;
        assert!(
            matches!(refused, Err(Error::ReservationConflict)),
            "{refused:?}"
        );
        let (_first, holder) = unit(portal, 1).await;
        write(&holder).await.expect("its own");
    });
}

/// Nobody holds the unit, or is registered.
fn is_free(server: &Server) {
    let portal = server.iscsi[0];
    client(async move {
        let (_second, other) = unit(portal, 2).await;
        assert_eq!(reserved(&other, READ_KEYS).await, [0; 0]);
        assert_eq!(reserved(&other, READ_RESERVATION).await, [0; 0]);
        write(&other).await.expect("free for all");
    });
}

fn exported(place: &Place) -> Server {
    let server = place.start();
    server.ok(&["export", "iscsi", "f", "--iqn", IQN, "--initiator", "any"]);
    server
}

fn killed(place: &Place, server: Server) -> Server {
    server.signal("KILL");
    drop(server);
    place.start()
}

#[test]
fn with_aptpl_a_reservation_outlives_the_server() {
    let place = Place::new(&format!("{BASE}{DISK}"));
    let server = exported(&place);
    take(&server, true);
    let server = killed(&place, server);
    is_held(&server);
    assert!(server.terminate().success());
    let server = place.start();
    is_held(&server);
    let portal = server.iscsi[0];
    client(async move {
        let (_first, holder) = unit(portal, 1).await;
        reserve(&holder, CLEAR, KEY, [0; 8], false).await;
    });
    let server = killed(&place, server);
    is_free(&server);
}

#[test]
fn without_aptpl_a_reservation_ends_with_the_server() {
    let place = Place::new(&format!("{BASE}{DISK}"));
    let server = exported(&place);
    take(&server, false);
    let server = killed(&place, server);
    is_free(&server);
    take(&server, false);
    assert!(server.terminate().success());
    is_free(&place.start());
}

/// A host that died held the reservation, and nobody else had its key: only the removal of the export ended it.
#[test]
fn an_operator_sees_and_clears_reservations() {
    let place = Place::new(&format!("{BASE}{DISK}"));
    let server = exported(&place);
    let list = ["export", "reservations"];
    let clear = ["export", "reservations", IQN, "--clear"];
    assert_eq!(server.ok(&list), "no host is registered\n");
    take(&server, true);
    let told = server.ok(&list);
    let key = u64::from_be_bytes(KEY);
    for part in [
        IQN,
        "write exclusive",
        "yes",
        "iqn.2026-01.org.example:host,i,0x800000000001 (holder)",
        &format!("{key:#x}"),
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = server.refused(&clear);
    assert!(told.contains("add -f"), "{told}");
    let nobody = ["export", "reservations", "iqn.2026-01.org.example:none"];
    let told = server.refused(&nobody);
    assert!(told.contains("wirepool export list"), "{told}");
    is_held(&server);

    server.ok(&[&clear[..], &["-f"]].concat());
    assert_eq!(server.ok(&list), "no host is registered\n");
    let of_export = server.json(&["export", "reservations", IQN]);
    assert_eq!(
        of_export[0]["kind"],
        serde_json::Value::Null,
        "{of_export:#}"
    );
    is_free(&server);
    let server = killed(&place, server);
    is_free(&server);
}
