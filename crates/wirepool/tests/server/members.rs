//! Changes of a pool's disks on the command line: attach, detach, replace, online, offline.

use crate::common::{BASE, Place, Server};
use serde_json::Value;
use std::fs;

const SIZE: &str = "96M";

fn mirror(server: &Server) {
    server.ok(&[
        "pool", "create", "tank", "mirror", "a.img", "b.img", "--size", SIZE,
    ]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
}

fn members(pools: &Value) -> &Vec<Value> {
    pools[0]["vdevs"][0]["members"].as_array().expect("members")
}

fn is_whole(pools: &Value, count: usize) -> bool {
    pools[0]["health"] == "online" && members(pools).len() == count
}

#[test]
fn a_disk_is_attached_and_detached() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", SIZE]);
    server.ok(&["pool", "attach", "tank", "a.img", "b.img", "--size", SIZE]);
    server.wait_for(&["pool", "status"], |p| is_whole(p, 2));
    assert!(place.text().contains("b.img"), "{}", place.text());
    server.ok(&["pool", "detach", "tank", "a.img"]);
    let pools = server.json(&["pool", "status"]);
    assert!(is_whole(&pools, 1), "{pools}");
    assert!(!place.text().contains("a.img"), "{}", place.text());
    assert!(server.terminate().success());
    fs::remove_file(place.path("a.img")).expect("it is nobody's");
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| is_whole(p, 1));
    assert!(server.terminate().success());
}

#[test]
fn a_disk_is_replaced() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.ok(&["pool", "replace", "tank", "a.img", "c.img", "--size", SIZE]);
    // the configuration forgets the old disk after the pool did
    let pools = server.wait_for(&["pool", "status"], |p| {
        is_whole(p, 2) && !place.text().contains("a.img")
    });
    let paths: Vec<_> = members(&pools)
        .iter()
        .map(|s| s["path"].to_string())
        .collect();
    assert!(paths[1].contains("c.img"), "{paths:?}");
    assert!(server.terminate().success());
}

/// The server ends after the new disk was attached and before the old one was detached.
#[test]
fn a_replacement_is_finished_after_a_restart() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.ok(&["pool", "attach", "tank", "a.img", "c.img", "--size", SIZE]);
    let pools = server.wait_for(&["pool", "status"], |p| is_whole(p, 3));
    let guid = |n: usize| {
        let text = members(&pools)[n]["guid"].as_str().expect("a GUID");
        u64::from_str_radix(text, 16).expect("hexadecimal")
    };
    assert!(server.terminate().success());
    let notes = fs::read_dir(place.path("w.state/pools")).expect("notes");
    let notes = notes
        .filter_map(|e| Some(e.ok()?.path()))
        .find(|p| p.extension().is_some_and(|e| e == "json"))
        .expect("notes on the pool");
    let text = fs::read(&notes).expect("read");
    let mut kept: Value = serde_json::from_slice(&text).expect("JSON");
    kept["replacing"] = serde_json::json!([{"old": guid(0), "new": guid(2)}]);
    fs::write(&notes, kept.to_string()).expect("write");
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| {
        p[0]["health"] == "online" && members(p).len() == 2
    });
    let left: Vec<_> = members(&pools)
        .iter()
        .map(|s| s["path"].to_string())
        .collect();
    assert!(left.iter().all(|p| !p.contains("a.img")), "{left:?}");
    assert!(server.terminate().success());
}

#[test]
fn a_disk_goes_offline_and_comes_back() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.ok(&["pool", "offline", "tank", "b.img"]);
    let pools = server.json(&["pool", "status"]);
    assert_eq!(pools[0]["health"], "degraded");
    assert_eq!(members(&pools)[1]["state"], "offline");
    let last = server.refused(&["pool", "offline", "tank", "a.img"]);
    assert!(last.contains("lack data"), "{last}");
    server.refused(&["pool", "detach", "tank", "a.img"]);
    server.ok(&["volume", "create", "tank/vm2", "--size", "1G"]);
    server.ok(&["pool", "online", "tank", "b.img"]);
    server.wait_for(&["pool", "status"], |p| is_whole(p, 2));
    assert!(server.terminate().success());
}

#[test]
fn a_refused_change_of_disks_changes_nothing() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.ok(&["pool", "create", "other", "o.img", "--size", SIZE]);
    let (before, text) = (server.json(&["pool", "status"]), place.text());
    for (args, said) in [
        (&["attach", "nope", "a.img", "c.img"][..], "no such pool"),
        (&["attach", "tank", "x.img", "c.img"], "has no disk"),
        (
            &["attach", "tank", "a.img", "c.img"],
            "use --size to create a file",
        ),
        (
            &["attach", "tank", "a.img", "c.img", "--size", "64M"],
            "shorter",
        ),
        (&["attach", "tank", "a.img", "c.img", "--size", "0"], ""),
        (&["attach", "tank", "a.img", "b.img"], "use"),
        (&["attach", "tank", "a.img", "o.img"], "other"),
        (&["attach", "tank", "a.img", "o.img", "-f"], "other"),
        (&["detach", "tank", "0123456789abcdef"], "has no disk"),
        (&["replace", "tank", "x.img", "c.img"], "has no disk"),
        (&["replace", "tank", "a.img", "a.img"], "use"),
        (&["replace", "tank", "a.img"], "use"),
        (&["online", "tank", "x.img"], "has no disk"),
        (&["offline", "tank", ""], ""),
    ] {
        let output = server.run(&[&["pool"], args].concat());
        assert!(!output.status.success(), "{args:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains(said), "{args:?}: {told}");
        assert!(!place.path("c.img").exists(), "{args:?}");
        assert_eq!(place.text(), text, "{args:?}");
    }
    let after = server.json(&["pool", "status"]);
    assert_eq!(members(&after).len(), members(&before).len());
    assert_eq!(after[0]["health"], "online");
    assert!(server.terminate().success());
}

#[test]
fn a_scrub_is_paused_resumed_and_goes_on_after_a_restart() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.refused(&["pool", "scrub", "-p", "tank"]);
    server.refused(&["pool", "scrub", "-s", "tank"]);
    server.refused(&["pool", "scrub", "nope"]);
    server.ok(&["pool", "scrub", "tank"]);
    let finished = |p: &Value| p[0]["scrub"]["state"] == "finished";
    let pools = server.wait_for(&["pool", "status"], finished);
    assert_eq!(pools[0]["scrub"]["lost"], 0);
    assert!(pools[0]["scrub"]["done"].as_u64() > Some(0), "{pools}");
    // So slow that it does not end by itself.
    server.ok(&["pool", "scrub", "tank", "--rate", "1"]);
    server.refused(&["pool", "scrub", "tank"]);
    server.ok(&["pool", "scrub", "-p", "tank"]);
    let state = |server: &Server| server.json(&["pool", "status"])[0]["scrub"]["state"].clone();
    assert_eq!(state(&server), "paused");
    server.ok(&["pool", "scrub", "tank"]);
    assert_eq!(state(&server), "running");
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| p[0]["scrub"]["state"] == "running");
    assert!(server.ok(&["pool", "status"]).contains("at most 1 B/s"));
    server.ok(&["pool", "scrub", "tank", "--rate", "0"]);
    server.wait_for(&["pool", "status"], finished);
    server.ok(&["pool", "scrub", "tank", "--rate", "1"]);
    server.ok(&["pool", "scrub", "-s", "tank"]);
    assert_eq!(state(&server), "stopped");
    assert!(server.terminate().success());
}

/// What another version had noted of a scrub said nothing to this one, which called it finished.
#[test]
fn a_scrub_whose_place_is_not_understood_begins_again() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let finished = |p: &Value| p[0]["scrub"]["state"] == "finished";
    server.ok(&["pool", "scrub", "tank"]);
    let whole = server.wait_for(&["pool", "status"], finished);
    server.ok(&["pool", "scrub", "tank", "--rate", "1"]);
    assert!(server.terminate().success());
    let notes = std::fs::read_dir(place.path("w.state").join("pools")).expect("a directory");
    let notes = notes.map(|entry| entry.expect("an entry").path());
    let notes: Vec<_> = notes
        .filter(|path| path.extension() == Some("json".as_ref()))
        .collect();
    let [notes] = &notes[..] else {
        panic!("one pool: {notes:?}");
    };
    let text = std::fs::read(notes).expect("read");
    let mut kept: Value = serde_json::from_slice(&text).expect("JSON");
    kept["scrub_at"] = serde_json::json!([1, 2, 3]);
    kept["scrub"]["done"] = 0.into();
    kept["scrub"]["rate_max"] = Value::Null;
    std::fs::write(notes, kept.to_string()).expect("written");
    let server = place.start();
    let again = server.wait_for(&["pool", "status"], finished);
    let done = |pools: &Value| pools[0]["scrub"]["done"].as_u64().expect("a number");
    assert!(done(&again) >= done(&whole) / 2, "{again} after {whole}");
    assert!(server.terminate().success());
}

/// The server is killed, and one member of the mirror is gone when it starts again; later it is back.
#[test]
fn a_mirror_without_a_member_opens_by_itself_and_takes_it_back() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.signal("KILL");
    drop(server);
    fs::rename(place.path("b.img"), place.path("away")).expect("taken away");
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["state"] == "online");
    assert_eq!(pools[0]["health"], "degraded");
    assert_eq!(members(&pools)[1]["state"], "missing");
    assert!(members(&pools)[1]["was"].to_string().contains("b.img"));
    server.ok(&["volume", "create", "tank/vm2", "--size", "1G"]);
    fs::rename(place.path("away"), place.path("b.img")).expect("put back");
    server.wait_for(&["pool", "status"], |p| is_whole(p, 2));
    assert!(server.terminate().success());
}

/// What this server knows is older than the labels: the missing member may have what the other lacks.
#[test]
fn without_evidence_a_mirror_waits_for_its_member() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let epoch = fs::read_dir(place.path("w.state/pools")).expect("notes");
    let epoch = epoch
        .filter_map(|e| Some(e.ok()?.path()))
        .find(|p| p.extension().is_some_and(|e| e == "epoch"))
        .expect("the epoch of its labels");
    server.signal("KILL");
    drop(server);
    fs::rename(place.path("b.img"), place.path("away")).expect("taken away");
    let known: u64 = fs::read_to_string(&epoch)
        .expect("read")
        .trim()
        .parse()
        .expect("a number");
    for text in [(known + 1).to_string(), (known - 1).to_string(), "x".into()] {
        fs::write(&epoch, text).expect("write");
        let server = place.start();
        let pools = server.wait_for(&["pool", "status"], |p| p[0]["state"] != "opening");
        assert_eq!(pools[0]["state"], "held", "{pools}");
        assert!(pools[0]["reason"].to_string().contains("lacks"), "{pools}");
        assert!(server.terminate().success());
    }
    let server = place.start();
    let name = ["pool", "import", "tank", "-d", "a.img", "b.img"];
    server.refused(&name);
    server.ok(&[&name[..], &["--without-missing"]].concat());
    assert!(server.terminate().success());
}

#[test]
fn a_pool_is_imported_for_reading_only_and_rewound() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.ok(&["pool", "checkpoint", "tank"]);
    server.ok(&["volume", "create", "tank/vm2", "--size", "1G"]);
    server.ok(&["pool", "checkpoint", "tank"]);
    server.ok(&["pool", "export", "tank"]);
    fn import<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["pool", "import", "tank"], more, &["-d", "a.img", "b.img"]].concat()
    }
    let text = place.text();
    let trial = server.json(&import(&["-n"]));
    let volumes = |v: &Value| v["volumes"].as_array().map_or(0, Vec::len);
    assert_eq!(volumes(&trial), 2);
    assert!(server.ok(&import(&["-n"])).contains("CHECKPOINT"));
    let newest = trial["sequence"].as_u64().expect("a number");
    let rewound = (1..newest)
        .rev()
        .map(|n| n.to_string())
        .find(|n| volumes(&server.json(&import(&["-n", "--rewind", n]))) == 1)
        .expect("a checkpoint with one volume");
    assert_eq!(place.text(), text, "a trial changes nothing");
    server.refused(&import(&["--rewind", "999999"]));
    server.refused(&import(&["--rewind", &rewound, "--read-only"]));
    server.ok(&import(&["--read-only"]));
    let changes: [&[&str]; 5] = [
        &["volume", "create", "tank/vm3", "--size", "1G"],
        &["pool", "scrub", "tank"],
        &["pool", "offline", "tank", "a.img"],
        &["snapshot", "create", "tank/vm1@a"],
        &["pool", "destroy", "tank", "-f"],
    ];
    for change in changes {
        let told = server.refused(change);
        assert!(told.contains("reading only"), "{change:?}: {told}");
    }
    assert_eq!(
        server.json(&["volume", "list"]).as_array().map(Vec::len),
        Some(2)
    );
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| {
        p[0]["read_only"] == true && p[0]["state"] == "online"
    });
    server.ok(&["pool", "export", "tank"]);
    server.ok(&import(&["--rewind", &rewound]));
    assert_eq!(
        server.json(&["volume", "list"]).as_array().map(Vec::len),
        Some(1)
    );
    server.ok(&["pool", "export", "tank"]);
    server.ok(&import(&[]));
    assert_eq!(
        server.json(&["volume", "list"]).as_array().map(Vec::len),
        Some(1)
    );
    assert!(server.terminate().success());
}

#[test]
fn what_was_done_and_what_happened_is_told() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    server.ok(&["pool", "offline", "tank", "b.img"]);
    server.ok(&["pool", "online", "tank", "b.img"]);
    server.wait_for(&["pool", "status"], |p| is_whole(p, 2));
    server.ok(&["set", "sync=always", "tank/vm1"]);
    let followed = |class: &'static str| {
        move |events: &Value| {
            let mut events = events.as_array().expect("events").iter();
            events.any(|e| e["class"] == class)
        }
    };
    server.wait_for(&["pool", "events", "tank"], followed("resilver.finish"));
    assert!(server.ok(&["pool", "events"]).contains("pool.open"));
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "list"], |p| p[0]["state"] == "online");
    let history = server.json(&["pool", "history", "tank"]);
    let done: Vec<_> = history
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|e| e["what"].as_str())
        .collect();
    let begins = [
        "pool create",
        "volume create",
        "pool offline",
        "pool online",
        "property set",
    ];
    assert_eq!(done.len(), begins.len(), "{done:?}");
    for (what, begin) in done.iter().zip(begins) {
        assert!(what.starts_with(begin), "{what}");
    }
    server.refused(&["pool", "history", "nope"]);
    assert!(server.terminate().success());
}

#[test]
fn properties_are_shown_and_set() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let get = |name: &str, of: &str| server.json(&["get", name, of])[0]["value"].clone();
    assert_eq!(get("sync", "tank/vm1"), "standard");
    server.ok(&["set", "sync=always", "tank/vm1"]);
    assert_eq!(get("sync", "tank/vm1"), "always");
    server.ok(&["set", "volsize=2G", "tank/vm1"]);
    assert_eq!(get("volsize", "tank/vm1"), (2u64 << 30).to_string());
    assert_eq!(get("health", "tank"), "online");
    assert!(server.ok(&["get", "all"]).contains("recordsize"));
    for (assignment, name) in [
        ("sync=never", "tank/vm1"),
        ("volsize=1G", "tank/vm1"),
        ("volsize=0", "tank/vm1"),
        ("volsize=x", "tank/vm1"),
        ("recordsize=8K", "tank/vm1"),
        ("sync=always", "tank/nope"),
        ("sync=always", "nope"),
        ("volsize=1G", "tank"),
    ] {
        server.refused(&["set", assignment, name]);
    }
    server.refused(&["get", "nope", "tank"]);
    server.refused(&["get", "all", "nope"]);
    assert_eq!(
        server.run(&["set", "sync", "tank/vm1"]).status.code(),
        Some(2)
    );
    assert!(server.terminate().success());
}

#[test]
fn the_load_of_disks_is_told() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let all = server.json(&["pool", "iostat", "-v", "tank"]);
    assert!(all["pools"][0]["writes"].as_u64() > Some(0), "{all}");
    assert_eq!(all["pools"][0]["disks"].as_array().map(Vec::len), Some(2));
    let parts = server.ok(&["pool", "iostat", "0.01", "3"]);
    assert_eq!(parts.matches("tank").count(), 3, "{parts}");
    assert!(server.ok(&["pool", "iostat", "-v"]).contains("FLUSH WAIT"));
    server.refused(&["pool", "iostat", "nope"]);
    for wrong in [["0", "1"], ["1", "0"], ["1", "x"], ["-1", "1"]] {
        let output = server.run(&[&["pool", "iostat"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    assert!(server.terminate().success());
}

#[test]
fn a_pool_grows_with_its_disks() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let size = |server: &Server| server.json(&["pool", "list"])[0]["size"].as_u64();
    let before = size(&server);
    let import = ["pool", "import", "tank", "-d", "a.img", "b.img"];
    for disk in ["a.img", "b.img"] {
        server.ok(&["pool", "export", "tank"]);
        let file = fs::File::options().write(true).open(place.path(disk));
        file.expect("there").set_len(192 << 20).expect("longer");
        server.ok(&[&import[..], &["--expand"]].concat());
        let is_larger = size(&server) > before;
        assert_eq!(
            is_larger,
            disk == "b.img",
            "all disks of a vdev are to be larger"
        );
    }
    server.ok(&["pool", "scrub", "tank"]);
    server.wait_for(&["pool", "status"], |p| {
        p[0]["scrub"]["state"] == "finished"
    });
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| is_whole(p, 2));
    assert!(size(&server) > before);
    assert!(server.terminate().success());
}

/// Regression: nodes in /dev that had other names after a restart held their pools back, although every disk was present.
/// An import is told where to look: a directory with disks of several pools, or none at all, which means the configured directories.
#[test]
fn an_import_looks_for_disks_in_directories() {
    let place = Place::new(&BASE.replace("[server]", "[server]\ndisk_directories = [\"by-id\"]"));
    let by_id = place.path("by-id");
    fs::create_dir(&by_id).expect("a directory");
    let server = place.start();
    mirror(&server);
    let create = |name: &str, disk: &str| {
        server.ok(&["pool", "create", name, disk, "--size", SIZE]);
    };
    create("other", "by-id/c.img");
    create("open", "by-id/d.img");
    fs::write(by_id.join("stranger"), "no label").expect("written");
    server.ok(&["pool", "export", "tank"]);
    server.ok(&["pool", "export", "other"]);
    for name in ["a.img", "b.img"] {
        fs::rename(place.path(name), by_id.join(name)).expect("moved");
    }
    let by_id = by_id.to_str().expect("UTF-8");
    // without a name: the pools there, but for the one that is open
    let listed = server.ok(&["pool", "import"]);
    assert!(
        listed.contains("tank") && listed.contains("other"),
        "{listed}"
    );
    assert!(!listed.contains("open"), "{listed}");
    server.ok(&["pool", "import", "tank", "-d", by_id]);
    let status = server.json(&["pool", "status", "tank"]);
    let expected: Vec<_> = ["a.img", "b.img"].map(|d| format!("{by_id}/{d}")).into();
    assert_eq!(
        status[0]["disks"],
        serde_json::json!(expected),
        "only its own disks"
    );
    server.ok(&["pool", "import", "other"]);
    // nothing is left there
    let refused = server.refused(&["pool", "import", "-d", by_id]);
    assert!(
        refused.contains(by_id) && refused.contains("no disk of a pool"),
        "{refused}"
    );
    assert!(server.terminate().success());
}

#[test]
fn disks_are_found_at_other_paths() {
    let place = Place::new(&BASE.replace("[server]", "[server]\ndisk_directories = [\"by-id\"]"));
    let by_id = place.path("by-id");
    fs::create_dir(&by_id).expect("a directory");
    let server = place.start();
    mirror(&server);
    let other = [
        "pool", "create", "other", "mirror", "c.img", "d.img", "--size", SIZE,
    ];
    server.ok(&other);
    assert!(server.terminate().success());
    let rename = |from: &str, to: &str| {
        fs::rename(place.path(from), place.path(to)).expect("renamed");
    };
    rename("a.img", "x");
    rename("c.img", "a.img");
    rename("x", "c.img");
    rename("b.img", "by-id/b");
    // a file of the same name that belongs to no pool of this server
    fs::write(by_id.join("stranger"), "no label").expect("written");
    let is_at = |pool: &Value, path: &str| {
        let members = pool["vdevs"][0]["members"].as_array().expect("members");
        let path = place.path(path);
        members
            .iter()
            .any(|s| s["path"] == path.to_str().expect("UTF-8"))
    };
    let both = |p: &Value| {
        let [tank, other] = [&p[0], &p[1]];
        tank["health"] == "online"
            && other["health"] == "online"
            && is_at(tank, "c.img")
            && is_at(tank, "by-id/b")
            && is_at(other, "a.img")
    };
    let server = place.start();
    server.wait_for(&["pool", "status"], both);
    // the configuration follows
    server.wait_for(&["pool", "status"], |p| {
        let lists = |pool: &Value, path: &str| {
            let disks = pool["disks"].as_array().expect("a list");
            disks
                .iter()
                .any(|d| d == place.path(path).to_str().expect("UTF-8"))
        };
        lists(&p[0], "c.img") && lists(&p[0], "by-id/b") && lists(&p[1], "a.img")
    });
    assert!(server.terminate().success());
    // a disk that was away when the pool opened, and comes back under another name
    rename("by-id/b", "b.img");
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| p[0]["health"] == "degraded");
    rename("b.img", "by-id/new");
    server.wait_for(&["pool", "status"], |p| {
        p[0]["health"] == "online" && is_at(&p[0], "by-id/new")
    });
    assert!(server.terminate().success());
}
