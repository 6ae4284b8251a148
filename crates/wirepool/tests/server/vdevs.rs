//! A pool that grows, on the command line.

use crate::common::{BASE, Place, Server};
use std::fs;

const SIZE: &str = "96M";

#[test]
fn a_pool_grows_by_a_mirror_and_keeps_it() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", SIZE]);
    let before = server.json(&["pool", "list"])[0]["size"].as_u64();
    server.ok(&[
        "pool", "add", "tank", "mirror", "b.img", "c.img", "--size", SIZE,
    ]);
    let pools = server.json(&["pool", "status"]);
    assert_eq!(pools[0]["vdevs"][1]["name"], "mirror-1", "{pools}");
    assert!(pools[0]["size"].as_u64() > before.map(|size| size * 19 / 10));
    let history = server.ok(&["pool", "history", "tank"]);
    assert!(history.contains("pool add"), "{history}");
    let events = server.ok(&["pool", "events", "tank"]);
    assert!(events.contains("vdev 1, mirror of"), "{events}");
    let text = server.refused(&["pool", "add", "tank", "c.img"]);
    assert!(text.contains("c.img"), "{text}");
    let text = server.refused(&["pool", "add", "tank", "missing.img"]);
    assert!(text.contains("use --size to create a file"), "{text}");
    assert!(!place.text().contains("missing.img"), "{}", place.text());
    assert!(server.terminate().success());
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["health"] == "online");
    assert_eq!(pools[0]["vdevs"].as_array().map(Vec::len), Some(2));
    assert!(server.terminate().success());
}

fn files(names: &str) -> Vec<String> {
    names.chars().map(|c| format!("{c}.img")).collect()
}

/// Runs a command with the names of files between its words.
fn with_files<'a>(before: &[&'a str], files: &'a [String], after: &[&'a str]) -> Vec<&'a str> {
    let files = files.iter().map(String::as_str);
    before
        .iter()
        .copied()
        .chain(files)
        .chain(after.iter().copied())
        .collect()
}

#[test]
fn a_raidz_is_created_and_opens_without_as_many_disks_as_it_has_parity() {
    let place = Place::new(BASE);
    let server = place.start();
    let five = files("abcde");
    let create = with_files(
        &["pool", "create", "tank", "raidz2"],
        &five,
        &["--size", SIZE],
    );
    let said = server.ok(&create);
    assert!(said.contains("raidz2-0"), "{said}");
    let pools = server.json(&["pool", "status"]);
    assert_eq!(pools[0]["vdevs"][0]["layout"], "raidz2", "{pools}");
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
    let six = files("fghijk");
    let lower = with_files(
        &["pool", "add", "tank", "raidz1"],
        &six[..3],
        &["--size", SIZE],
    );
    let refused = server.refused(&lower);
    assert!(
        refused.contains("a raidz1 of 3 disks beside a raidz2 of 5 disks"),
        "{refused}"
    );
    let add = with_files(&["pool", "add", "tank", "raidz2"], &six, &["--size", SIZE]);
    server.ok(&add);
    let refused = server.refused(&["pool", "attach", "tank", "a.img", "x.img", "--size", SIZE]);
    assert!(refused.contains("pool attach tank raidz2-0"), "{refused}");
    let refused = server.refused(&["pool", "detach", "tank", "a.img"]);
    assert!(refused.contains("raidz"), "{refused}");
    assert!(server.terminate().success());
    for name in ["a.img", "b.img", "f.img"] {
        fs::rename(place.path(name), place.path(&format!("{name}.away"))).expect("renamed");
    }
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["health"] == "degraded");
    assert_eq!(pools[0]["vdevs"][1]["name"], "raidz2-1", "{pools}");
    server.ok(&["volume", "create", "tank/vm2", "--size", "1G"]);
    let named = place.path("a.img");
    let named = named.to_str().expect("text");
    server.ok(&["pool", "replace", "tank", named, "x.img", "--size", SIZE]);
    server.wait_for(&["pool", "status"], |p| {
        let members = p[0]["vdevs"][0]["members"].as_array().expect("members");
        members.iter().filter(|m| m["state"] == "online").count() == 4
    });
    assert!(!place.text().contains("a.img"), "{}", place.text());
    assert!(server.terminate().success());
}

/// A pool `tank` with a raidz1 of `a.img`, `b.img` and `c.img`.
fn create_raidz1(server: &Server) {
    let three = files("abc");
    let words = ["pool", "create", "tank", "raidz1"];
    server.ok(&with_files(&words, &three, &["--size", SIZE]));
}

#[test]
fn a_raidz_with_too_few_disks_is_held_back_and_they_are_named() {
    let place = Place::new(BASE);
    let server = place.start();
    create_raidz1(&server);
    assert!(server.terminate().success());
    for name in ["a.img", "b.img"] {
        fs::remove_file(place.path(name)).expect("removed");
    }
    let server = place.start();
    let pools = server.wait_for(&["pool", "status"], |p| p[0]["reason"].is_string());
    let reason = pools[0]["reason"].as_str().expect("text");
    assert!(
        reason.contains("a.img") && reason.contains("b.img"),
        "{reason}"
    );
    assert!(server.terminate().success());
}

#[test]
fn disks_of_different_sizes_make_a_raidz_only_with_force() {
    let place = Place::new(BASE);
    let server = place.start();
    for (name, size) in [("a.img", 96), ("b.img", 96), ("c.img", 128)] {
        let file = fs::File::create(place.path(name)).expect("a file");
        file.set_len(size << 20).expect("its size");
    }
    let create = [
        "pool", "create", "tank", "raidz1", "a.img", "b.img", "c.img",
    ];
    let refused = server.refused(&create);
    assert!(refused.contains("c.img has 128 MiB"), "{refused}");
    server.ok(&[&create[..], &["-f"]].concat());
    assert!(server.terminate().success());
}

/// A raidz is expanded by a disk, also over a restart of the server.
#[test]
fn a_raidz_is_expanded_by_the_name_of_its_vdev() {
    let place = Place::new(BASE);
    let server = place.start();
    create_raidz1(&server);
    let before = server.json(&["pool", "list"])[0]["size"].as_u64();
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
    server.ok(&[
        "pool", "attach", "tank", "raidz1-0", "d.img", "--size", SIZE,
    ]);
    let refused = server.refused(&["pool", "attach", "tank", "raidz1-0", "d.img"]);
    assert!(refused.contains("d.img"), "{refused}");
    assert!(server.terminate().success());
    let server = place.start();
    server.wait_for(&["pool", "status"], |p| {
        p[0]["health"] == "online" && p[0]["vdevs"][0]["expansion"].is_null()
    });
    let after = server.json(&["pool", "list"])[0]["size"].as_u64();
    assert!(after > before.map(|size| size * 13 / 10), "{after:?}");
    assert!(server.terminate().success());
}
