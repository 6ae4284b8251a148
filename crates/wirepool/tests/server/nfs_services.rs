//! Services that NFS in the server uses: rpcbind, users and groups, netgroups.

use crate::common::{BASE, Place, Server, client};
use crate::nfs::{HOME, NO_ATTRS, open, read, write};
use crate::nfs_client::{Client, FORE};
use ::nfs::rpc::record::mark;
use ::nfs::rpc::{Call, Reply};
use ::nfs::wire::files::{Claim, CreateHow};
use ::nfs::wire::{Attrs, Bitmap, Op, Stateid, Status, operation};
use ::nfs::xdr::{Reader, Writer};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::iter;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

/// Numbers of attributes (RFC 8881, section 5.7).
const MODE: u32 = 33;
const OWNER: u32 = 36;
const OWNER_GROUP: u32 = 37;

/// A server with the filesystem `tank/home`, and these lines in `[nfs]`.
fn start(lines: &str) -> (Place, Server) {
    let nfs = format!("[nfs]\n{lines}\n");
    let place = Place::new(&format!("{BASE}{nfs}"));
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "256M"]);
    server.ok(&["fs", "create", "tank/home"]);
    (place, server)
}

/// Program, version, network and address.
type Entry = (u32, u32, String, String);

/// The end of rpcbind for the set and unset calls of one connection.
fn answer(mut stream: UnixStream, entries: &Mutex<BTreeSet<Entry>>) {
    let mut header = [0; 4];
    while stream.read_exact(&mut header).is_ok() {
        let len = u32::from_be_bytes(header) & 0x7fff_ffff;
        let mut record = vec![0; len as usize];
        stream.read_exact(&mut record).expect("a record");
        let mut reader = Reader::new(&record);
        let call = Call::decode(&mut reader).expect("a call");
        let (program, version) = (reader.u32().expect("a number"), reader.u32().expect("one"));
        let mut text = || String::from_utf8(reader.opaque(100).expect("text").to_vec());
        let entry = (
            program,
            version,
            text().expect("text"),
            text().expect("text"),
        );
        let mut writer = Writer::new();
        Reply::Success.encode(call.xid, &mut writer);
        let mut all = entries.lock().expect("no panic");
        writer.bool(match call.procedure {
            1 => all.insert(entry),
            2 => all.remove(&entry),
            other => panic!("procedure {other}"),
        });
        let reply = writer.to_vec();
        stream.write_all(&mark(reply.len())).expect("it waits");
        stream.write_all(&reply).expect("it waits");
    }
}

#[test]
fn the_service_is_registered_with_rpcbind_until_the_server_ends() {
    let place = Place::new(&format!(
        "{BASE}[nfs]\nlisten = [\"0.0.0.0:0\"]\nrpcbind_socket = \"rpcbind.sock\"\n"
    ));
    // no rpcbind runs
    let server = place.start();
    assert!(server.terminate().success());
    let entries = Arc::new(Mutex::new(BTreeSet::new()));
    let listener = UnixListener::bind(place.path("rpcbind.sock")).expect("a socket");
    let served = entries.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &served);
        }
    });
    let now = || entries.lock().expect("no panic").clone();
    let server = place.start();
    let log = place.wait_for_log("NFS is registered with rpcbind");
    assert!(log.contains("entries=3"), "{log}");
    let [high, low] = server.nfs[0].port().to_be_bytes();
    let entry = |(program, version)| {
        let address = format!("0.0.0.0.{high}.{low}");
        (program, version, "tcp".to_owned(), address)
    };
    let all = [(100_003, 3), (100_003, 4), (100_005, 3)].map(entry);
    assert_eq!(now(), BTreeSet::from(all));
    assert!(server.terminate().success());
    assert_eq!(now(), BTreeSet::new());

    let off = place.text().replace("[nfs]\n", "[nfs]\nrpcbind = false\n");
    fs::write(place.config(), off).expect("written");
    let server = place.start();
    assert!(server.terminate().success());
    let log = place.wait_for_log("NFS is registered");
    assert_eq!(log.matches("NFS is registered").count(), 1, "{log}");
}

/// The owner and group of the file of a handle, as text.
async fn owners(client: &mut Client, handle: &[u8]) -> (String, String) {
    let wanted = Bitmap::of(&[OWNER, OWNER_GROUP]);
    let asked = [Op::PutFh(handle), Op::GetAttr(wanted)];
    let mut results = client.run(&asked).await;
    results.ok(operation::PUTFH);
    results.ok(operation::GETATTR);
    results.bitmap();
    let values = results.opaque();
    let mut reader = Reader::new(&values);
    let mut text = || String::from_utf8(reader.opaque(100).expect("text").to_vec());
    (text().expect("text"), text().expect("text"))
}

/// Opens a file of a directory for reading and writing as a user with one further group.
async fn status_as(client: &mut Client, user: u32, group: u32, name: &str) -> Status {
    client.user = (user, user, vec![group]);
    let opened = open(Claim::Name(name.as_bytes()), None);
    let status = client.at(HOME, &[opened]).await.status;
    client.user = (0, 0, Vec::new());
    status
}

#[test]
fn users_and_groups_are_looked_up_at_the_server() {
    // no user is in this group
    const GROUP: u32 = 4_000_000_000;
    const USER: u32 = 4_000_000_001;
    let lines = "listen = [\"127.0.0.1:0\"]\ndomain = \"example.org\"\nmanage_groups = true";
    let (place, server) = start(lines);
    export_home(&server);
    let address = server.nfs[0];
    let handle = client(async move {
        let mut client = Client::with_session(address, b"asks").await;
        let handle = write(&mut client, "file", b"one").await;
        assert_eq!(
            owners(&mut client, &handle).await,
            ("root@example.org".into(), "root@example.org".into())
        );
        // only the group may write
        let mut values = Writer::new();
        values.u32(0o060);
        values.opaque(GROUP.to_string().as_bytes());
        let values = values.to_vec();
        let attrs = Attrs {
            mask: Bitmap::of(&[MODE, OWNER_GROUP]),
            values: &values,
        };
        let stateid = Stateid::ANONYMOUS;
        let set = [
            Op::PutFh(&handle),
            Op::SetAttr {
                stateid,
                attributes: attrs,
            },
        ];
        assert_eq!(client.run(&set).await.status, Status::Ok);
        let status = status_as(&mut client, USER, GROUP, "file").await;
        assert_eq!(status, Status::Access, "the list of the client counts");
        handle
    });
    assert!(server.terminate().success());

    let text = place.text().replace("manage_groups = true", "");
    fs::write(place.config(), text.replace("domain =", "#")).expect("written");
    let server = place.start();
    let address = server.nfs[0];
    client(async move {
        let mut client = Client::connect(address).await;
        client.establish(b"asks", FORE).await;
        let _ = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        assert_eq!(
            owners(&mut client, &handle).await,
            ("0".into(), GROUP.to_string())
        );
        let status = status_as(&mut client, USER, GROUP, "file").await;
        assert_eq!(status, Status::Ok, "the list of the client does not count");
    });
    assert!(server.terminate().success());
}

/// Rules know addresses of IPv6, and a client of IPv4 at a socket of IPv6 by its own address.
#[test]
fn rules_name_addresses_of_ipv6() {
    let listen = r#"listen = ["[::1]:0", "[::ffff:127.0.0.1]:0"]"#;
    let (_place, server) = start(&format!("{listen}\nlease_s = 20"));
    let (six, mapped) = (server.nfs[0], server.nfs[1]);
    // Each with another owner: a client ends its grace period once.
    let create_at = |address, owner: &'static [u8]| {
        client(async move {
            let mut client = Client::with_session(address, owner).await;
            let lookups = HOME.iter().map(|name| Op::Lookup {
                name: name.as_bytes(),
            });
            let open = open(Claim::Name(owner), Some(CreateHow::Unchecked(NO_ATTRS)));
            let all: Vec<Op<'_>> = iter::once(Op::PutRootFh)
                .chain(lookups)
                .chain([open])
                .collect();
            client.run(&all).await.status
        })
    };
    let rules = |rule| server.ok(&["export", "nfs", "tank/home", "--client", rule]);
    rules("::1:rw,squash=none,insecure");
    assert_eq!(create_at(six, b"six"), Status::Ok);
    assert_eq!(
        create_at(mapped, b"refused four"),
        Status::Noent,
        "no rule admits it"
    );
    let refused = server.json(&["session", "refused"]);
    assert_eq!(refused[0]["address"], "127.0.0.1", "{refused}");
    rules("127.0.0.1:rw,squash=none,insecure");
    server.ok(&["host", "deny", "/tank/home", "::1"]);
    assert_eq!(create_at(mapped, b"four"), Status::Ok);
    assert_eq!(
        create_at(six, b"refused six"),
        Status::Noent,
        "no rule admits it"
    );
    rules("::/64:rw,squash=none,insecure");
    assert_eq!(create_at(six, b"six again"), Status::Ok);
    let sessions = server.json(&["session", "list"]);
    assert_eq!(sessions[0]["keep_alive_timeout_ms"], 20_000, "{sessions}");
    assert!(server.terminate().success());
}

#[test]
fn a_rule_names_a_netgroup() {
    let lines = "listen = [\"127.0.0.1:0\"]\nnetgroup_file = \"netgroup\"";
    let nfs = format!("{BASE}[nfs]\n{lines}\n");
    let place = Place::new(&nfs);
    let groups = "lab (192.0.2.7,,) machines\nmachines (localhost,,)\nother (192.0.2.8,,)\n";
    fs::write(place.path("netgroup"), groups).expect("written");
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "256M"]);
    server.ok(&["fs", "create", "tank/home"]);
    let rules = [
        "--client",
        "@lab:rw,squash=none,insecure",
        "--client",
        "@other:ro,insecure",
    ];
    server.ok(&[&["export", "nfs", "tank/home"], &rules[..]].concat());
    let address = server.nfs[0];
    let server = client(async move {
        let mut client = Client::with_session(address, b"in the lab").await;
        let handle = write(&mut client, "file", b"one").await;
        server.ok(&[
            "host",
            "allow",
            "/tank/home",
            "@lab:ro,squash=none,insecure",
        ]);
        let refused = open(Claim::Name(b"other"), Some(CreateHow::Unchecked(NO_ATTRS)));
        assert_eq!(client.at(HOME, &[refused]).await.status, Status::Rofs);
        server.ok(&["host", "deny", "/tank/home", "@lab"]);
        assert_eq!(read(&mut client, &handle).await.status, Status::Stale);
        server
    });
    assert!(server.terminate().success());
}

/// Path, source of the property, and state of each export.
fn listed(exports: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let exports = exports.as_array().expect("a list").iter();
    let export = |e: &Value| (text(&e["path"]), text(&e["shared_by"]), text(&e["state"]));
    exports.map(export).collect()
}

fn export(path: &str, source: &str) -> (String, String, String) {
    (path.to_owned(), source.to_owned(), "served".to_owned())
}

/// Waits until these are the exports.
fn wait_for(server: &Server, wanted: &[(String, String, String)]) {
    server.wait_for(&["export", "list"], |exports| listed(exports) == wanted);
}

/// Exports `tank/home` to all hosts, with all rights.
fn export_home(server: &Server) {
    let to_all = "*:rw,squash=none,insecure";
    server.ok(&["export", "nfs", "tank/home", "--client", to_all]);
}

#[test]
fn filesystems_are_exported_by_their_property() {
    let (place, server) = start("listen = [\"127.0.0.1:0\"]");
    server.ok(&["set", "sharenfs=no_root_squash,insecure", "tank"]);
    let exports = server.json(&["export", "list"]);
    assert_eq!(listed(&exports), [export("/tank/home", "tank")]);
    let shown = server.ok(&["export", "list"]);
    let by = "/tank/home: by the property sharenfs of tank";
    assert!(shown.contains(by), "{shown}");
    let address = server.nfs[0];
    let (server, handle) = client(async move {
        let mut client = Client::with_session(address, b"stays").await;
        let handle = write(&mut client, "file", b"one").await;
        // filesystems come, are renamed and go, and the client keeps its state
        server.ok(&["fs", "create", "tank/home/ann"]);
        let home = export("/tank/home", "tank");
        wait_for(&server, &[home.clone(), export("/tank/home/ann", "tank")]);
        server.ok(&["fs", "rename", "tank/home/ann", "tank/home/eve"]);
        wait_for(&server, &[home.clone(), export("/tank/home/eve", "tank")]);
        server.refused(&["fs", "destroy", "tank/home/eve"]);
        assert_eq!(listed(&server.json(&["export", "list"])).len(), 2);
        server.ok(&["fs", "destroy", "-f", "tank/home/eve"]);
        wait_for(&server, &[home]);
        let own = "sharenfs=ro=@127.0.0.0/8,no_root_squash,insecure";
        server.ok(&["set", own, "tank/home"]);
        let exports = server.json(&["export", "list"]);
        assert_eq!(listed(&exports), [export("/tank/home", "tank/home")]);
        assert_eq!(
            exports[0]["clients"][0],
            "127.0.0.0/8:ro,squash=none,insecure"
        );
        let refused = open(Claim::Name(b"other"), Some(CreateHow::Unchecked(NO_ATTRS)));
        assert_eq!(client.at(HOME, &[refused]).await.status, Status::Rofs);
        // an export of the configuration counts
        export_home(&server);
        let exports = server.json(&["export", "list"]);
        assert_eq!(exports[0]["unused_property"], "tank/home");
        assert_eq!(exports[0]["clients"][0], "*:rw,squash=none,insecure");
        let own = "sharenfs=rw=127.0.0.1,no_root_squash,insecure";
        let told = server.ok(&["set", own, "tank/home"]);
        let warning = "it is exported as NFS export /tank/home, which counts, not this property";
        assert!(told.contains(warning), "{told}");
        server.ok(&["export", "remove", "/tank/home"]);
        let exports = server.json(&["export", "list"]);
        assert_eq!(listed(&exports), [export("/tank/home", "tank/home")]);
        assert_eq!(
            exports[0]["clients"][0],
            "127.0.0.1:rw,squash=none,insecure"
        );
        let told = server.refused(&["host", "allow", "/tank/home", "10.0.0.1:rw"]);
        assert!(
            told.contains("exported by the property sharenfs of tank/home"),
            "{told}"
        );
        assert_eq!(read(&mut client, &handle).await.status, Status::Ok);
        let id = server.json(&["session", "list"])[0]["id"].to_string();
        let facts = server.json(&["session", "show", &id]);
        assert_eq!(facts["nfs"]["opens"], 1, "{facts}");
        (server, handle)
    });
    for wrong in ["sharenfs=yes", "sharenfs=sec=krb5", "sharenfs=rw=a,ro=a"] {
        let told = server.refused(&["set", wrong, "tank"]);
        assert!(told.contains("sharenfs: "), "{told}");
    }
    assert!(server.terminate().success());

    let server = place.start();
    wait_for(&server, &[export("/tank/home", "tank/home")]);
    server.ok(&["fs", "create", "-o", "sharenfs=off", "tank/private"]);
    server.ok(&["fs", "create", "tank/public"]);
    let home = export("/tank/home", "tank/home");
    wait_for(&server, &[home, export("/tank/public", "tank")]);
    // the path of an export of the configuration is not taken
    server.ok(&["export", "nfs", "tank/private", "--path", "/tank/public"]);
    let told = server.ok(&["status"]);
    let reason = "/tank/public is the export of \"tank/private\" in the configuration";
    assert!(told.contains(reason), "{told}");
    server.ok(&["export", "remove", "tank/private"]);
    server.ok(&["inherit", "sharenfs", "tank/home"]);
    let all = [export("/tank/home", "tank"), export("/tank/public", "tank")];
    wait_for(&server, &all);
    let address = server.nfs[0];
    let file = handle.clone();
    let status = client(async move {
        let mut client = Client::connect(address).await;
        client.establish(b"asks", FORE).await;
        client.run(&[Op::PutFh(&file)]).await.status
    });
    assert_eq!(status, Status::Ok, "handles stay");
    server.ok(&["inherit", "sharenfs", "tank"]);
    assert_eq!(server.json(&["export", "list"]), serde_json::json!([]));
    server.ok(&["set", "sharenfs=insecure", "tank"]);
    server.ok(&["pool", "export", "tank"]);
    assert_eq!(server.json(&["export", "list"]), serde_json::json!([]));
    assert!(server.terminate().success());
    place.inspect_sound(&["a.img"]);
}
