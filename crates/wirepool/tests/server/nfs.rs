//! Filesystems over NFS: exports, rights, restarts, clients as sessions.

use crate::api::Api;
use crate::common::{BASE, Place, Server, client};
use crate::filesystems::can_mount;
use crate::metrics::scrape;
use crate::nfs_client::{Client, FORE, Results};
use ::nfs::wire::files::{Claim, CreateHow, Lock, Locker, Open};
use ::nfs::wire::{Attrs, Bitmap, Op, Owner, Stateid, Status, operation};
use std::fs;
use std::net::SocketAddr;

pub(crate) const HOME: &[&str] = &["tank", "home"];
pub(crate) const NO_ATTRS: Attrs<'static> = Attrs {
    mask: Bitmap::of(&[]),
    values: &[],
};

/// A server with the filesystem `tank/home`.
fn start() -> (Place, Server) {
    let nfs = "[nfs]\nlisten = [\"127.0.0.1:0\"]\n[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let place = Place::new(&format!("{BASE}{nfs}"));
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "256M"]);
    server.ok(&["fs", "create", "tank/home"]);
    (place, server)
}

pub(crate) fn open<'a>(claim: Claim<'a>, create: Option<CreateHow<'a>>) -> Op<'a> {
    Op::Open(Box::new(Open {
        seqid: 0,
        access: 3,
        deny: 0,
        owner: Owner {
            client: 0,
            name: b"owner",
        },
        create,
        claim,
    }))
}

/// Creates a file with this content, on stable storage. Returns its handle; it stays open.
pub(crate) async fn write(client: &mut Client, name: &str, data: &[u8]) -> Vec<u8> {
    let written = [
        open(
            Claim::Name(name.as_bytes()),
            Some(CreateHow::Unchecked(NO_ATTRS)),
        ),
        Op::Write {
            stateid: Stateid::CURRENT,
            offset: 0,
            stable: 2,
            data,
        },
        Op::GetFh,
    ];
    let mut results = client.at(HOME, &written).await;
    results.open();
    results.ok(operation::WRITE);
    assert_eq!((results.u32() as usize, results.u32()), (data.len(), 2));
    results.skip(8);
    results.ok(operation::GETFH);
    results.opaque()
}

/// Reads the file of a handle.
pub(crate) async fn read(client: &mut Client, handle: &[u8]) -> Results {
    let read = Op::Read {
        stateid: Stateid::ANONYMOUS,
        offset: 0,
        count: 100,
    };
    client.run(&[Op::PutFh(handle), read]).await
}

/// The status of PUTFH, with a new client.
fn status_of(address: SocketAddr, handle: &[u8]) -> Status {
    let handle = handle.to_vec();
    client(async move {
        let mut client = Client::connect(address).await;
        client.establish(b"asks", FORE).await;
        client.run(&[Op::PutFh(&handle)]).await.status
    })
}

/// The content of the file of a handle, with the client that wrote it: its RECLAIM_COMPLETE ends the grace period of a restart.
fn content(address: SocketAddr, handle: &[u8]) -> Vec<u8> {
    let handle = handle.to_vec();
    client(async move {
        let mut client = Client::connect(address).await;
        client.establish(b"writes", FORE).await;
        // the record may be the one from before
        let _ = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        let mut results = read(&mut client, &handle).await;
        results.ok(operation::PUTFH);
        results.ok(operation::READ);
        results.u32();
        results.opaque()
    })
}

#[test]
fn exports_survive_restarts_and_handles_those_of_their_filesystem() {
    let (place, server) = start();
    let told = server.ok(&[
        "export",
        "nfs",
        "tank/home",
        "--client",
        "127.0.0.0/8:rw,squash=none,insecure",
    ]);
    assert!(
        told.starts_with("/tank/home: filesystem tank/home, 127.0.0.0/8:rw,squash=none,insecure\n"),
        "{told}"
    );
    let line = format!(
        "mount -t nfs -o hard,rsize=1048576,wsize=1048576,nconnect=2,port={} 127.0.0.1:/tank/home /mnt\n",
        server.nfs[0].port()
    );
    assert!(told.ends_with(&line), "{told}");
    let address = server.nfs[0];
    let handle = client(async move {
        let mut client = Client::with_session(address, b"writes").await;
        write(&mut client, "file", b"one").await
    });
    assert_eq!(content(address, &handle), b"one");
    if can_mount() {
        let at = place.path("home");
        fs::create_dir(&at).expect("a mount point");
        let at = at.to_str().expect("text");
        server.ok(&["fs", "mount", "-o", "shared", "tank/home", at]);
        let seen = fs::read(format!("{at}/file")).expect("the mount has the file");
        assert_eq!(seen, b"one");
        server.ok(&["fs", "unmount", "tank/home"]);
    }

    assert!(server.terminate().success());
    let server = place.start();
    let listed = server.json(&["export", "list"]);
    assert_eq!(listed[0]["state"], "served");
    assert_eq!(content(server.nfs[0], &handle), b"one");
    server.signal("KILL");
    server.wait();
    let server = place.start();
    assert_eq!(content(server.nfs[0], &handle), b"one");

    for words in [
        &["fs", "destroy", "-rf", "tank/home"][..],
        &["fs", "rename", "tank/home", "tank/users"],
        &["pool", "export", "tank"],
    ] {
        let told = server.refused(words);
        let first = "`wirepool export remove /tank/home` first";
        assert!(told.contains(first), "{words:?}: {told}");
    }
    let told = server.ok(&["export", "remove", "/tank/home"]);
    assert_eq!(told, "/tank/home is no longer exported\n");
    assert!(!place.text().contains("[[export]]"));
    assert_eq!(status_of(server.nfs[0], &handle), Status::Stale);
    server.ok(&["export", "nfs", "tank/home", "--client", "*:rw,insecure"]);
    assert_eq!(status_of(server.nfs[0], &handle), Status::Ok);

    // another filesystem of the same name is another export
    server.ok(&["export", "remove", "tank/home"]);
    server.ok(&["fs", "destroy", "-f", "tank/home"]);
    server.ok(&["fs", "create", "tank/home"]);
    server.ok(&["export", "nfs", "tank/home", "--client", "*:rw,insecure"]);
    assert_eq!(status_of(server.nfs[0], &handle), Status::Stale);
    assert!(server.terminate().success());
}

#[test]
fn rights_change_under_connected_clients() {
    let (place, server) = start();
    let told = server.ok(&["export", "nfs", "tank/home"]);
    assert!(told.contains("no client may mount it yet"), "{told}");
    let status = server.ok(&["status"]);
    assert!(status.contains("/tank/home lets no client in"), "{status}");
    server.ok(&[
        "host",
        "allow",
        "/tank/home",
        "127.0.0.1:rw,squash=none,insecure",
    ]);
    let address = server.nfs[0];
    let (server, place) = client(async move {
        let mut client = Client::with_session(address, b"stays").await;
        let handle = write(&mut client, "file", b"one").await;
        server.ok(&[
            "host",
            "allow",
            "/tank/home",
            "127.0.0.1:ro,squash=none,insecure",
        ]);
        assert!(
            place
                .text()
                .contains("clients = [\"127.0.0.1:ro,squash=none,insecure\"]"),
            "{}",
            place.text()
        );
        let refused = open(Claim::Name(b"other"), Some(CreateHow::Unchecked(NO_ATTRS)));
        assert_eq!(client.at(HOME, &[refused]).await.status, Status::Rofs);
        assert_eq!(read(&mut client, &handle).await.status, Status::Ok);
        server.ok(&["host", "deny", "/tank/home", "127.0.0.1"]);
        assert_eq!(read(&mut client, &handle).await.status, Status::Stale);
        let told = server.refused(&["host", "deny", "/tank/home", "127.0.0.1"]);
        assert!(
            told.contains("is not on the client list of /tank/home"),
            "{told}"
        );
        server.ok(&[
            "export",
            "nfs",
            "tank/home",
            "--client",
            "*:rw,squash=none,insecure",
        ]);
        assert_eq!(read(&mut client, &handle).await.status, Status::Ok);
        (server, place)
    });
    let hosts = server.ok(&["host", "list"]);
    assert!(
        hosts.contains("/tank/home  *:rw,squash=none,insecure"),
        "{hosts}"
    );
    for (words, reason) in [
        (&["--client", "10.0.0.0/99"][..], "no number of bits"),
        (&["--client", "*:wr"], "expected ro, rw"),
        (&["--path", "/other"], "is exported as /tank/home"),
    ] {
        let told = server.refused(&[&["export", "nfs", "tank/home"], words].concat());
        assert!(told.contains(reason), "{told}");
    }
    let told = server.refused(&["export", "nfs", "tank/no"]);
    assert!(told.contains("no such filesystem"), "{told}");
    assert_eq!(place.text().matches("[[export]]").count(), 1);
    assert!(server.terminate().success());
}

#[test]
fn clients_are_sessions_that_can_be_ended() {
    let (place, server) = start();
    server.ok(&["fs", "create", "tank/closed"]);
    let elsewhere = ["export", "nfs", "tank/closed", "--client", "192.0.2.1:rw"];
    server.ok(&elsewhere);
    server.ok(&[
        "export",
        "nfs",
        "tank/home",
        "--client",
        "*:rw,squash=none,insecure",
    ]);
    let address = server.nfs[0];
    let mut api = Api::of(&place);
    let server = client(async move {
        let mut client = Client::with_session(address, b"the client").await;
        write(&mut client, "file", b"one").await;
        let listed = server.wait_for(&["session", "list"], |l| l[0]["io_queues"] == 1);
        assert_eq!(
            (&listed[0]["protocol"], &listed[0]["client"]),
            (&"nfs".into(), &"the client".into())
        );
        let id = listed[0]["id"].to_string();
        let shown = server.json(&["session", "show", &id]);
        let facts = &shown["nfs"];
        assert_eq!(
            (&facts["version"], &facts["opens"], &facts["slots"]),
            (&"4.1".into(), &1.into(), &8.into())
        );
        // The exports that it may use, and no other; each of them counts it.
        assert_eq!(facts["exports"], serde_json::json!(["/tank/home"]));
        let list = serde_json::json!({"list": "exports", "sort": "name"});
        let rows = api.post("/v1/rows", list);
        let row = |n: usize| {
            (
                rows["rows"][n]["name"].clone(),
                rows["rows"][n]["sessions"].clone(),
            )
        };
        assert_eq!(row(0), ("/tank/closed".into(), 0.into()), "{rows}");
        assert_eq!(row(1), ("/tank/home".into(), 1.into()), "{rows}");
        assert!(shown["queues"][0]["mss"].as_u64() > Some(0), "{shown}");
        assert!(shown["commands"].as_u64() >= Some(4), "{shown}");
        let text = scrape(server.metrics.expect("a metrics port"));
        for line in [
            "wirepool_nfs_export_served{export=\"/tank/home\",filesystem=\"tank/home\"} 1",
            "wirepool_nfs_operations_total{operation=\"write\"} 1",
            "wirepool_nfs_clients 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        server.ok(&["session", "end", &id]);
        assert!(client.receive().await.is_none(), "its connection is closed");
        assert_eq!(server.json(&["session", "list"]), serde_json::json!([]));
        server
    });
    let told = server.refused(&["session", "end", "131073"]);
    assert!(told.contains("no such session"), "{told}");
    assert!(server.terminate().success());
}

/// LOCK of the whole file.
fn lock<'a>(open: Stateid, is_reclaim: bool) -> Op<'a> {
    Op::Lock(Box::new(Lock {
        kind: 2,
        is_reclaim,
        offset: 0,
        length: u64::MAX,
        locker: Locker::New(
            open,
            Owner {
                client: 0,
                name: b"locker",
            },
        ),
    }))
}

#[test]
fn opens_and_locks_are_reclaimed_after_a_kill() {
    let (place, server) = start();
    server.ok(&[
        "export",
        "nfs",
        "tank/home",
        "--client",
        "*:rw,squash=none,insecure",
    ]);
    let address = server.nfs[0];
    let handle = client(async move {
        let mut idle = Client::with_session(address, b"idle").await;
        assert_eq!(idle.run(&[Op::PutRootFh]).await.status, Status::Ok);
        let mut client = Client::with_session(address, b"holds").await;
        let handle = write(&mut client, "file", b"one").await;
        let opened = [
            Op::PutFh(&handle),
            open(Claim::Handle, None),
            lock(Stateid::CURRENT, false),
        ];
        assert_eq!(client.run(&opened).await.status, Status::Ok);
        handle
    });
    server.signal("KILL");
    server.wait();

    let server = place.start();
    let log = server.log();
    assert!(
        log.contains("may reclaim their opens and locks clients=1"),
        "{log}"
    );
    let address = server.nfs[0];
    let of_client = handle.clone();
    client(async move {
        let handle = of_client;
        let mut client = Client::connect(address).await;
        client.establish(b"holds", FORE).await;
        // nobody else gets state now, and nobody reclaims state of earlier
        let mut other = Client::connect(address).await;
        other.establish(b"idle", FORE).await;
        let again = [Op::PutFh(&handle), open(Claim::Previous(0), None)];
        assert_eq!(other.run(&again).await.status, Status::ReclaimBad);
        let mut results = other.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        results.ok(operation::RECLAIM_COMPLETE);
        let opened = [Op::PutFh(&handle), open(Claim::Handle, None)];
        assert_eq!(other.run(&opened).await.status, Status::Grace);

        let again = [
            Op::PutFh(&handle),
            open(Claim::Previous(0), None),
            lock(Stateid::CURRENT, true),
        ];
        assert_eq!(client.run(&again).await.status, Status::Ok);
        let mut results = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        results.ok(operation::RECLAIM_COMPLETE);
        let opened = [
            Op::PutFh(&handle),
            open(Claim::Handle, None),
            lock(Stateid::CURRENT, false),
        ];
        assert_eq!(
            other.run(&opened).await.status,
            Status::Denied,
            "the lock is there"
        );
    });
    // both have state now; a client that ends is forgotten
    let listed = server.json(&["session", "list"]);
    let ids: Vec<String> = (0..2).map(|at| listed[at]["id"].to_string()).collect();
    for id in &ids {
        server.ok(&["session", "end", id]);
    }
    let records = place.path("w.state").join("nfs/clients");
    assert_eq!(fs::read_dir(&records).expect("a directory").count(), 2);
    assert!(server.terminate().success());
    assert_eq!(fs::read_dir(&records).expect("a directory").count(), 0);
    let server = place.start();
    assert_eq!(content(server.nfs[0], &handle), b"one");
    assert!(server.terminate().success());
}
