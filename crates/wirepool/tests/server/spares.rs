//! Hot spares on the command line: files as disks, restarts, a lost configuration.

use crate::common::{BASE, Place, Server};
use serde_json::Value;
use std::fs;

const SIZE: &str = "96M";

/// Sets the time after which a spare is taken.
fn hurry(place: &Place) {
    let text = place
        .text()
        .replace("[[pool]]", "[[pool]]\nspare_after_s = 1");
    fs::write(place.config(), text).expect("written");
}

fn spare<'a>(pools: &'a Value, name: &str) -> &'a Value {
    let spares = pools[0]["spares"].as_array().expect("spares");
    let is_it = |s: &&Value| s["path"].as_str().is_some_and(|p| p.ends_with(name));
    spares.iter().find(is_it).unwrap_or(&Value::Null)
}

fn is(pools: &Value, name: &str, state: &str) -> bool {
    spare(pools, name)["state"] == state
}

fn create(server: &Server, words: &[&str]) -> String {
    let command = ["pool", "create", "tank"];
    server.ok(&[&command, words, &["--size", SIZE]].concat())
}

#[test]
fn a_spare_takes_the_place_of_a_disk_that_is_gone() {
    for layout in ["mirror", "raidz1"] {
        let place = Place::new(BASE);
        let server = place.start();
        let said = create(
            &server,
            &[layout, "a.img", "b.img", "c.img", "spare", "s.img"],
        );
        assert!(said.contains("spares") && said.contains("AVAIL"), "{said}");
        server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
        assert!(server.terminate().success());
        fs::rename(place.path("b.img"), place.path("b.away")).expect("renamed");
        hurry(&place);
        let server = place.start();
        let taken = |p: &Value| {
            let members = p[0]["vdevs"][0]["members"].as_array();
            let is_in = |m: &Value| m["spare"] == true && m["state"] == "online";
            is(p, "s.img", "inuse") && members.is_some_and(|m| m.iter().any(is_in))
        };
        server.wait_for(&["pool", "status"], taken);
        let text = server.ok(&["pool", "status"]);
        assert!(
            text.contains("INUSE (for ") && text.contains("b.img)"),
            "{text}"
        );
        assert!(text.contains("s.img (spare)"), "{text}");
        let text = server.ok(&["status"]);
        assert!(
            text.contains("stands in for") && text.contains("no spare left"),
            "{text}"
        );
        let text = server.ok(&["pool", "events", "tank"]);
        assert!(text.contains("spare.taken"), "{text}");
        let refused = server.refused(&["pool", "remove", "tank", "s.img"]);
        assert!(refused.contains("in use"), "{refused}");
        // after a restart it is still in use
        assert!(server.terminate().success());
        let server = place.start();
        server.wait_for(&["pool", "status"], taken);
        let old = place.path("b.img");
        let old = old.to_str().expect("text");
        server.ok(&["pool", "replace", "tank", old, "n.img", "--size", SIZE]);
        server.wait_for(&["pool", "status"], |p| {
            is(p, "s.img", "avail") && p[0]["health"] == "online"
        });
        assert!(!place.text().contains("b.img"), "{}", place.text());
        server.ok(&["pool", "remove", "tank", "s.img"]);
        assert!(!place.text().contains("s.img"), "{}", place.text());
        assert_eq!(
            server.json(&["pool", "status"])[0]["spares"],
            Value::Array(Vec::new())
        );
        let add = ["pool", "add", "tank", "spare", "s.img", "-f"];
        let said = server.ok(&add);
        assert!(said.contains("AVAIL"), "{said}");
        assert!(server.terminate().success());
    }
}

/// The configuration and the state of the server are lost: an import finds the spares by their labels, also under other names.
#[test]
fn an_import_finds_the_spares() {
    let place = Place::new(BASE);
    let server = place.start();
    create(
        &server,
        &["mirror", "a.img", "b.img", "spare", "s.img", "t.img"],
    );
    server.ok(&["pool", "export", "tank"]);
    let disks = place.path("disks");
    fs::create_dir(&disks).expect("a directory");
    for (old, new) in [("a", "one"), ("b", "two"), ("s", "three"), ("t", "four")] {
        let old = place.path(&format!("{old}.img"));
        fs::rename(old, disks.join(new)).expect("renamed");
    }
    let directory = disks.to_str().expect("text");
    server.ok(&["pool", "import", "tank", "-d", directory]);
    let pools = server.wait_for(&["pool", "status"], |p| is(p, "three", "avail"));
    assert!(is(&pools, "four", "avail"), "{pools}");
    assert_eq!(
        pools[0]["vdevs"][0]["members"].as_array().map(Vec::len),
        Some(2)
    );
    // a disk of another pool, one that is too small, and a spare of this pool
    for (words, said) in [
        (vec!["spare", "disks/three"], "spare of this pool already"),
        (vec!["spare", "disks/one"], "belongs to the pool"),
        (
            vec!["spare", "x.img", "x.img", "--size", SIZE],
            "named twice",
        ),
        (
            vec!["spare", "small.img", "--size", "80M"],
            "can stand in for no disk",
        ),
        (
            vec!["mirror", "disks/three", "y.img", "--size", SIZE],
            "is a spare of the pool",
        ),
    ] {
        let words = [&["pool", "add", "tank"], &words[..]].concat();
        let refused = server.refused(&words);
        assert!(refused.contains(said), "{words:?}: {refused}");
        for name in ["x.img", "y.img", "small.img"] {
            assert!(!place.path(name).exists(), "{words:?} left {name}");
        }
    }
    let wrong = server.run(&["pool", "add", "tank", "spare"]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.contains("needs at least one disk"), "{said}");
    server.ok(&["pool", "destroy", "tank", "-f"]);
    create(&server, &["mirror", "disks/three", "disks/four"]);
    assert!(server.terminate().success());
}

/// A file that holds something is no spare without a question.
#[test]
fn a_spare_overwrites_nothing_without_force() {
    let place = Place::new(BASE);
    let server = place.start();
    let bytes = vec![7; 96 << 20];
    fs::write(place.path("full.img"), &bytes).expect("written");
    let words = [
        "mirror", "a.img", "b.img", "spare", "full.img", "--size", SIZE,
    ];
    let refused = server.refused(&[&["pool", "create", "tank"], &words[..]].concat());
    assert!(
        refused.contains("full.img") && refused.contains("-f"),
        "{refused}"
    );
    assert!(!place.text().contains("[[pool]]"), "{}", place.text());
    assert!(!place.path("a.img").exists(), "nothing is left of it");
    create(&server, &["mirror", "a.img", "b.img"]);
    let refused = server.refused(&["pool", "add", "tank", "spare", "full.img"]);
    assert!(
        refused.contains("full.img") && refused.contains("-f"),
        "{refused}"
    );
    assert_eq!(fs::read(place.path("full.img")).expect("read"), bytes);
    let said = server.ok(&["pool", "add", "tank", "spare", "full.img", "-f"]);
    assert!(said.contains("AVAIL"), "{said}");
    assert!(server.terminate().success());
}
