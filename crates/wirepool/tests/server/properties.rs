//! Properties and names of datasets on the command line: sources, inheritance, renames, and refusals.

use crate::common::{BASE, NQN, Place, Server};
use serde_json::Value;

fn started(place: &Place) -> Server {
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "64M"]);
    server
}

fn create(server: &Server, name: &str, options: &[&str]) {
    let create = ["volume", "create", name, "--size", "16M"];
    server.ok(&[&create[..], options].concat());
}

/// Value, source, and the dataset that the value is inherited from.
fn get(server: &Server, property: &str, name: &str) -> (String, String, Option<String>) {
    let found = server.json(&["get", property, name])[0].clone();
    let text = |field: &str| found[field].as_str().map(str::to_owned);
    let value = text("value").expect("a value");
    (
        value,
        text("source").expect("a source"),
        text("inherited_from"),
    )
}

fn expect(server: &Server, property: &str, name: &str, value: &str, source: &str) {
    let found = get(server, property, name);
    assert_eq!(
        (found.0.as_str(), found.1.as_str()),
        (value, source),
        "{property} {name}"
    );
}

#[test]
fn a_property_tells_where_its_value_comes_from() {
    let place = Place::new(BASE);
    let server = started(&place);
    create(&server, "tank/heir", &[]);
    create(&server, "tank/own", &["--compression", "lz4"]);
    expect(&server, "compression", "tank/heir", "lz4", "default");
    expect(&server, "compression", "tank/own", "lz4", "local");
    expect(&server, "volsize", "tank/heir", "16777216", "local");
    expect(&server, "quota", "tank/heir", "none", "default");
    expect(&server, "used", "tank/heir", "0", "none");
    expect(&server, "autotrim", "tank", "off", "default");

    let told = server.ok(&["set", "compression=zstd-3", "tank"]);
    assert!(told.contains("local"), "{told}");
    let inherited = ("zstd-3".into(), "inherited".into(), Some("tank".into()));
    assert_eq!(get(&server, "compression", "tank/heir"), inherited);
    expect(&server, "compression", "tank/own", "lz4", "local");
    let told = server.ok(&["get", "compression", "tank/heir"]);
    assert!(told.contains("inherited from tank"), "{told}");
    create(&server, "tank/new", &[]);
    assert_eq!(get(&server, "compression", "tank/new"), inherited);
    for limit in ["quota", "refquota", "reservation"] {
        server.ok(&["set", &format!("{limit}=32M"), "tank/heir"]);
        expect(&server, limit, "tank/heir", "33554432", "local");
        let told = server.ok(&["get", limit, "tank/heir"]);
        assert!(told.contains("32 MiB"), "{told}");
        server.ok(&["set", &format!("{limit}=none"), "tank/heir"]);
        expect(&server, limit, "tank/heir", "none", "default");
    }
    let told = server.ok(&["inherit", "compression", "tank/own"]);
    assert!(told.contains("inherited from tank"), "{told}");
    server.ok(&["set", "sync=always", "tank"]);
    server.ok(&["set", "sync=standard", "tank/own"]);
    assert!(server.terminate().success());

    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[0]["state"] == "online");
    for name in ["tank/heir", "tank/own", "tank/new"] {
        assert_eq!(get(&server, "compression", name), inherited, "{name}");
    }
    expect(&server, "sync", "tank/heir", "always", "inherited");
    expect(&server, "sync", "tank/own", "standard", "local");
    let told = server.ok(&["inherit", "compression", "tank"]);
    assert!(told.contains("default"), "{told}");
    expect(&server, "compression", "tank/heir", "lz4", "default");
    // a renamed or cloned volume keeps the values of its own
    server.ok(&["volume", "rename", "tank/own", "tank/renamed"]);
    expect(&server, "sync", "tank/renamed", "standard", "local");
    server.ok(&["snapshot", "create", "tank/renamed@s"]);
    server.ok(&["clone", "tank/renamed@s", "tank/clone"]);
    expect(&server, "sync", "tank/clone", "standard", "local");
    expect(&server, "checksum", "tank/clone", "xxh3", "default");
    assert!(server.terminate().success());
}

#[test]
fn properties_that_cannot_be_are_refused() {
    let place = Place::new(BASE);
    let server = started(&place);
    create(&server, "tank/vm1", &[]);
    let before = server.json(&["get", "all"]);
    let refused = |args: &[&str], reason: &str| {
        let told = server.refused(args);
        assert!(told.contains(reason), "{args:?}: {told}");
    };
    refused(&["get", "colour", "tank/vm1"], "no such property");
    refused(&["set", "colour=red", "tank/vm1"], "cannot be set");
    refused(&["set", "used=7", "tank/vm1"], "cannot be set");
    refused(&["set", "compression=", "tank"], "compression is off, lz4");
    refused(&["set", "sync=on", "tank"], "sync is standard, always");
    refused(&["set", "quota=1G", "tank"], "names no volume");
    refused(&["set", "sync=always", "tank/none"], "tank/none");
    refused(&["set", "sync=always", "none"], "none");
    refused(&["inherit", "quota", "tank/vm1"], "is not inherited");
    refused(&["inherit", "colour", "tank/vm1"], "is not inherited");
    refused(&["inherit", "sync", "tank/none"], "tank/none");
    let without = |all: &Value| {
        let all = all.as_array().expect("a list").iter();
        let kept = all.filter(|p| p["settable"] == true);
        kept.cloned().collect::<Vec<_>>()
    };
    let now = server.json(&["get", "all"]);
    assert_eq!(without(&now), without(&before), "nothing has changed");
    assert!(server.terminate().success());
}

/// A value on a filesystem is its own, and that of those below it.
#[test]
fn properties_of_filesystems_are_inherited_and_set_at_creation() {
    let place = Place::new(BASE);
    let server = started(&place);
    server.ok(&["set", "atime=off", "tank"]);
    let options = ["-o", "snapdir=visible", "-o", "casesensitivity=insensitive"];
    let more = [
        "-o",
        "quota=32M",
        "-o",
        "recordsize=64K",
        "-o",
        "refquota=16M",
    ];
    let create = ["fs", "create", "-p", "tank/home/ann/mail"];
    server.ok(&[&create[..], &options, &more].concat());
    // it is there, which is no error with -p
    server.ok(&["fs", "create", "-p", "tank/home/ann"]);
    server.refused(&["fs", "create", "tank/home/ann"]);
    let mail = "tank/home/ann/mail";
    expect(&server, "snapdir", mail, "visible", "local");
    expect(&server, "snapdir", "tank/home/ann", "hidden", "default");
    expect(&server, "casesensitivity", mail, "insensitive", "none");
    expect(&server, "casesensitivity", "tank/home", "sensitive", "none");
    expect(&server, "quota", mail, "33554432", "local");
    expect(&server, "refquota", mail, "16777216", "local");
    expect(&server, "recordsize", mail, "65536", "local");
    expect(&server, "recordsize", "tank/home", "131072", "default");
    expect(&server, "atime", mail, "off", "inherited");
    server.ok(&["set", "atime=on", "tank/home"]);
    server.ok(&["set", "xattr=off", "tank/home/ann"]);
    server.ok(&["set", "readonly=on", "tank/home/ann"]);
    let from = |dataset: &str| Some(dataset.to_owned());
    assert_eq!(
        get(&server, "atime", mail),
        ("on".into(), "inherited".into(), from("tank/home"))
    );
    assert_eq!(
        get(&server, "readonly", mail),
        ("on".into(), "inherited".into(), from("tank/home/ann"))
    );
    assert!(server.terminate().success());

    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[0]["state"] == "online");
    expect(&server, "xattr", mail, "off", "inherited");
    expect(&server, "snapdir", mail, "visible", "local");
    expect(&server, "refquota", mail, "16777216", "local");
    expect(&server, "recordsize", mail, "65536", "local");
    server.ok(&["set", "recordsize=16K", "tank/home"]);
    expect(&server, "recordsize", "tank/home/ann", "16384", "inherited");
    server.ok(&["inherit", "recordsize", mail]);
    expect(&server, "recordsize", mail, "16384", "inherited");
    server.ok(&["set", "recordsize=8K", mail]);
    expect(&server, "recordsize", mail, "8192", "local");
    server.ok(&["inherit", "snapdir", mail]);
    expect(&server, "snapdir", mail, "hidden", "default");
    let refused = |args: &[&str], reason: &str| {
        let told = server.refused(args);
        assert!(told.contains(reason), "{args:?}: {told}");
    };
    server.ok(&["set", "aclmode=discard", "tank/home"]);
    expect(&server, "aclmode", mail, "discard", "inherited");
    expect(&server, "aclinherit", mail, "restricted", "default");
    server.ok(&["set", "aclinherit=passthrough-x", mail]);
    expect(&server, "aclinherit", mail, "passthrough-x", "local");
    refused(
        &["set", "aclmode=on", mail],
        "aclmode is discard, groupmask",
    );
    refused(&["set", "snapdir=on", mail], "snapdir is hidden or visible");
    refused(&["set", "casesensitivity=sensitive", mail], "is created");
    refused(&["set", "recordsize=5000", mail], "a power of two from 4K");
    refused(&["set", "recordsize=2K", "tank"], "a power of two from 4K");
    refused(&["set", "readonly=on", "tank"], "cannot be set on a pool");
    refused(&["set", "refquota=1G", "tank"], "cannot be set on a pool");
    refused(&["inherit", "refquota", mail], "is not inherited");
    refused(
        &["fs", "create", "-o", "colour=red", "tank/x"],
        "cannot be set",
    );
    refused(
        &["fs", "create", "-o", "atime=1", "tank/x"],
        "atime is on or off",
    );
    create_volume_below(&server);
    assert!(server.terminate().success());
    place.inspect_sound(&["a.img"]);
}

/// A volume has no property of filesystems, although it is below one.
fn create_volume_below(server: &Server) {
    create(server, "tank/home/disk", &[]);
    let told = server.refused(&["set", "atime=off", "tank/home/disk"]);
    assert!(told.contains("atime"), "{told}");
    let all = server.json(&["get", "all", "tank/home/disk"]);
    let all = all.as_array().expect("a list").iter();
    assert!(all.into_iter().all(|p| p["property"] != "atime"));
}

#[test]
fn names_that_cannot_be_are_refused() {
    let place = Place::new(BASE);
    let server = started(&place);
    create(&server, "tank/vm1", &[]);
    create(&server, "tank/other", &[]);
    server.ok(&["snapshot", "create", "tank/vm1@s"]);
    let long = format!("tank/{}", "x".repeat(256));
    let deep = format!("tank/vm1/{}", "x".repeat(252));
    for (name, reason) in [
        ("tank/vm1/child", "which is a volume"),
        ("tank/none/child", "does not exist"),
        ("tank//vm2", "empty part"),
        ("tank/vm2/", "empty part"),
        ("/vm2", "empty part"),
        ("tank/vm 2", "names no volume"),
        ("tank/-vm2", "names no volume"),
        ("tank/vm1/..", "names no volume"),
        (long.as_str(), "too long"),
        (deep.as_str(), "too long"),
    ] {
        for args in [
            &["volume", "create", name, "--size", "16M"][..],
            &["volume", "rename", "tank/other", name],
            &["clone", "tank/vm1@s", name],
        ] {
            let told = server.refused(args);
            assert!(told.contains(reason), "{args:?}: {told}");
        }
    }
    let itself = server.refused(&["volume", "rename", "tank/vm1", "tank/vm1/vm1"]);
    assert!(itself.contains("below its own"), "{itself}");
    let volumes = server.json(&["volume", "list"]);
    let names: Vec<_> = volumes
        .as_array()
        .expect("a list")
        .iter()
        .map(|v| &v["name"])
        .collect();
    assert_eq!(names, ["tank/other", "tank/vm1"]);
    assert!(server.terminate().success());
}

#[test]
fn a_volume_is_destroyed_with_its_snapshots_if_asked() {
    let place = Place::new(BASE);
    let server = started(&place);
    create(&server, "tank/vm1", &[]);
    for snapshot in ["tank/vm1@one", "tank/vm1@two"] {
        server.ok(&["snapshot", "create", snapshot]);
    }
    let told = server.refused(&["volume", "destroy", "-f", "tank/vm1"]);
    assert!(
        told.contains("tank/vm1@one, tank/vm1@two") && told.contains("with -r"),
        "{told}"
    );
    let told = server.refused(&["volume", "destroy", "-r", "tank/vm1"]);
    assert!(told.contains("use -f"), "{told}");
    let destroy = ["volume", "destroy", "-rf", "tank/vm1"];
    server.ok(&["snapshot", "hold", "backup", "tank/vm1@one"]);
    let told = server.refused(&destroy);
    assert!(told.contains("backup"), "{told}");
    server.ok(&["snapshot", "release", "backup", "tank/vm1@one"]);
    server.ok(&["clone", "tank/vm1@two", "tank/clone"]);
    let told = server.refused(&destroy);
    assert!(told.contains("clone"), "{told}");
    server.ok(&["volume", "destroy", "-f", "tank/clone"]);
    server.ok(&["export", "nvme", "tank/vm1", "--nqn", NQN]);
    let told = server.refused(&destroy);
    assert!(told.contains("exported"), "{told}");
    server.ok(&["export", "remove", NQN]);
    let snapshots = server.json(&["snapshot", "list"]);
    assert_eq!(
        snapshots.as_array().map(Vec::len),
        Some(2),
        "nothing is gone"
    );
    server.ok(&destroy);
    for list in ["volume", "snapshot"] {
        assert_eq!(server.json(&[list, "list"]), Value::Array(Vec::new()));
    }
    assert!(server.terminate().success());
}
