//! `wirepool inspect` on the files of a pool that a server made.

use crate::common::{BASE, Place};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

const DISKS: [&str; 2] = ["a.img", "b.img"];

/// Exit code, stdout, stderr.
fn inspect(place: &Place, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_wirepool"))
        .arg("inspect")
        .args(args)
        .current_dir(place.path(""))
        .output()
        .expect("run");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("it ended by itself");
    (code, text(output.stdout), text(output.stderr))
}

fn json(place: &Place, view: &str) -> Value {
    let (code, out, err) = inspect(place, &[&[view, "--json"], &DISKS[..]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn a_pool_is_inspected_without_its_server() {
    let place = Place::new(BASE);
    let server = place.start();
    let create = ["pool", "create", "tank", "mirror"];
    let spare = ["spare", "s.img"];
    server.ok(&[&create[..], &DISKS, &spare, &["--size", "128M"]].concat());
    server.ok(&["volume", "create", "tank/vm1", "--size", "1G"]);
    server.ok(&["snapshot", "create", "tank/vm1@monday"]);
    server.ok(&["snapshot", "hold", "backup", "tank/vm1@monday"]);
    server.ok(&["set", "quota=8M", "tank/vm1"]);
    server.ok(&["set", "compression=zstd-3", "tank"]);
    server.ok(&["set", "sync=standard", "tank/vm1"]);

    let verify = [&["verify"], &DISKS[..]].concat();
    let (code, out, err) = inspect(&place, &verify);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("a.img is in use") && err.contains("pool export"),
        "{err}"
    );

    server.ok(&["pool", "export", "tank"]);
    let (code, out, err) = inspect(&place, &verify);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("nothing is wrong"), "{out}");
    let labels = json(&place, "labels");
    assert_eq!(
        (&labels["pool"], &labels["state"]),
        (&"tank".into(), &"exported".into())
    );
    assert_eq!(labels["copies"].as_array().map(Vec::len), Some(8));
    assert_eq!(labels["spares"].as_array().map(Vec::len), Some(0));
    let (code, out, _) = inspect(&place, &[&["labels"], &DISKS[..], &["s.img"]].concat());
    assert!(code == 0 && out.contains(" of pool tank\n"), "{out}");
    let volumes = json(&place, "volumes");
    let vm1 = &volumes["datasets"][0];
    assert_eq!(volumes["settings"]["compression"]["value"], "zstd-3");
    assert_eq!(vm1["settings"]["sync"]["source"], "local");
    assert!(vm1["settings"]["compression"].is_null(), "{vm1}");
    assert_eq!(
        (&vm1["name"], &vm1["quota"]),
        (&"vm1".into(), &(8 << 20).into())
    );
    let snapshots = json(&place, "snapshots");
    let monday = &snapshots["datasets"][0];
    assert_eq!(monday["name"], "vm1@monday");
    assert_eq!(monday["holds"][0]["tag"], "backup");
    assert_eq!(json(&place, "trees")["trees"][0]["name"], "pool");
    assert!(json(&place, "journal")["batches"].is_array());
    let space = json(&place, "space");
    assert_eq!(space["leaked"], 0);
    assert!(space["spares"][0]["size"].is_u64() && space["spares"][0]["member"].is_null());
    assert!(space["freeing"].is_array() && space["list_sizes"].is_array());
    assert_eq!(space["datasets"][1]["quota"], 8 << 20);
    let known = json(&place, "uberblocks");
    assert_eq!(known["uberblocks"][0]["copies"], 8);
    let absent = [&verify[..], &["--uberblock", "9999"]].concat();
    let (code, _, err) = inspect(&place, &absent);
    assert!(code == 1 && err.contains("no uberblock 9999"), "{err}");

    let file = File::options().write(true).open(place.path("a.img"));
    let file = file.expect("it is there");
    for copy in [0, 256 << 10] {
        file.write_all_at(b"damage", copy + 100).expect("written");
    }
    drop(file);
    let (code, out, _) = inspect(&place, &verify);
    assert_eq!(code, 1);
    let lines: Vec<_> = out
        .lines()
        .filter(|l| l.starts_with("label on a.img: copy"))
        .collect();
    assert_eq!(lines.len(), 2, "{out}");
    let (code, _, err) = inspect(&place, &["verify", "w.toml"]);
    assert!(
        code == 1 && err.contains("none of these disks has a readable label"),
        "{err}"
    );
    assert_eq!(inspect(&place, &["nothing", "a.img"]).0, 2);
}
