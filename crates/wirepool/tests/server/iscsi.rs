//! iSCSI with other initiators: libiscsi's tools against a real server process.

use crate::common::{BASE, Place, Server};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

const ISCSI: &str = r#"
[iscsi]
listen = ["127.0.0.1:0"]
[[disk]]
name = "ram"
kind = "mem"
size = "16M"
block_size = 512
[[disk]]
name = "f"
kind = "file"
path = "f.img"
size = "16M"
"#;
const A: &str = "iqn.2026-01.org.example:a";
const B: &str = "iqn.2026-01.org.example:b";

fn tool(name: &str, args: &[&str]) -> Output {
    let run = Command::new(name).args(args).output();
    run.unwrap_or_else(|e| panic!("{name} of libiscsi-bin: {e}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn inquiry(server: &Server, user: &str, iqn: &str) -> String {
    let url = format!("iscsi://{user}{}/{iqn}/0", server.iscsi[0]);
    said(&tool("iscsi-inq", &[&url]))
}

#[test]
fn a_disk_is_exported_and_still_is_after_a_restart() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    let server = place.start();
    let told = server.ok(&["export", "iscsi", "ram", "--iqn", A, "--initiator", "any"]);
    assert!(
        told.contains(&format!("iscsiadm -m node -T {A} -p 127.0.0.1:")),
        "{told}"
    );
    let twice = server.refused(&["export", "iscsi", "ram"]);
    assert!(
        twice.contains(&format!("exported already, as {A} LUN 0")),
        "{twice}"
    );
    let used = server.refused(&["disk", "remove", "ram"]);
    assert!(
        used.contains(&format!("wirepool export remove {A} --lun 0")),
        "{used}"
    );
    let before = server.json(&["export", "list"]);
    assert_eq!(before[0]["luns"][0]["state"], "served");
    assert!(server.terminate().success());

    let server = place.start();
    assert_eq!(
        server.json(&["export", "list"])[0]["luns"],
        before[0]["luns"]
    );
    let portal = format!("iscsi://{}/", server.iscsi[0]);
    let listed = said(&tool("iscsi-ls", &["-s", &portal]));
    assert!(
        listed.contains(&format!("Target:{A}")) && listed.contains("Lun:0"),
        "{listed}"
    );
    let found = inquiry(&server, "", A);
    assert!(found.contains("WIREPOOL"), "{found}");
    server.ok(&["export", "remove", A]);
    assert!(!inquiry(&server, "", A).contains("WIREPOOL"));
    assert!(!place.text().contains("[[target]]"), "{}", place.text());
}

#[test]
fn a_secret_is_asked_for_and_kept_to_oneself() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    fs::write(place.path("s"), "twelve-bytes\n").expect("write");
    let server = place.start();
    let chap = ["--chap", "alice", "--secret-file", "s"];
    let export = ["export", "iscsi", "f", "--iqn", B, "--initiator", "any"];
    server.ok(&[&export[..], &chap].concat());
    assert!(!inquiry(&server, "", B).contains("WIREPOOL"));
    assert!(!inquiry(&server, "alice%another-secret@", B).contains("WIREPOOL"));
    assert!(inquiry(&server, "alice%twelve-bytes@", B).contains("WIREPOOL"));
    let no_terminal = server.refused(&["export", "chap", B, "bob"]);
    assert!(no_terminal.contains("--secret-file"), "{no_terminal}");
    fs::write(place.path("short"), "short").expect("write");
    let short = server.refused(&["export", "chap", B, "bob", "--secret-file", "short"]);
    assert!(short.contains("12 to 255 bytes"), "{short}");
    assert!(!place.text().contains("twelve") && !server.log().contains("twelve"));
    let files: Vec<_> = fs::read_dir(place.path("w.state/chap"))
        .expect("list")
        .map(|f| f.expect("a file").path())
        .collect();
    let mode = fs::metadata(&files[0]).expect("there").permissions().mode();
    assert_eq!((files.len(), mode & 0o777), (1, 0o600));
    server.signal("KILL");
    drop(server);

    let server = place.start();
    assert!(inquiry(&server, "alice%twelve-bytes@", B).contains("WIREPOOL"));
    assert!(server.terminate().success());
    fs::remove_file(&files[0]).expect("lost");
    let server = place.start();
    assert!(
        !inquiry(&server, "", B).contains("WIREPOOL"),
        "it is not open to all"
    );
    let warnings = server.json(&["status"])["warnings"].to_string();
    assert!(warnings.contains("its secret is missing"), "{warnings}");
    server.ok(&["export", "chap", B, "--off"]);
    assert!(inquiry(&server, "", B).contains("WIREPOOL"));
}

#[test]
fn each_direction_has_a_secret_of_its_own() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    fs::write(place.path("s"), "twelve-bytes\n").expect("write");
    fs::write(place.path("t"), "twelve-others\n").expect("write");
    let server = place.start();
    let export = ["export", "iscsi", "f", "--iqn", B, "--initiator", "any"];
    let chap = ["--chap", "alice", "--secret-file", "s", "--mutual", "disk"];
    let same = [&export[..], &chap, &["--mutual-secret-file", "s"]].concat();
    let refused = server.refused(&same);
    assert!(refused.contains("must not be the same"), "{refused}");
    let told = server.ok(&[&export[..], &chap, &["--mutual-secret-file", "t"]].concat());
    assert!(told.contains("username_in -v disk"), "{told}");
    let url = |ours: &str| {
        let portal = server.iscsi[0];
        format!("iscsi://alice%twelve-bytes@{portal}/{B}/0?target_user=disk&target_password={ours}")
    };
    let inquiry = |ours| said(&tool("iscsi-inq", &[&url(ours)]));
    assert!(inquiry("twelve-others").contains("WIREPOOL"));
    assert!(!inquiry("thirteen-more").contains("WIREPOOL"));
    let list = || fs::read_dir(place.path("w.state/chap")).expect("list");
    assert_eq!(list().count(), 2);
    server.ok(&["export", "chap", B, "bob", "--secret-file", "s"]);
    assert_eq!(list().count(), 1, "what is of no use is gone");
    assert!(!place.text().contains("chap_mutual"), "{}", place.text());
    server.ok(&["export", "remove", B]);
    assert_eq!(list().count(), 0);
}

#[test]
fn discovery_may_ask_for_a_secret() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    fs::write(place.path("s"), "twelve-bytes\n").expect("write");
    let server = place.start();
    server.ok(&["export", "iscsi", "f", "--iqn", B, "--initiator", "any"]);
    server.ok(&["export", "discovery-chap", "finder", "--secret-file", "s"]);
    let find = |server: &Server, user: &str| {
        said(&tool(
            "iscsi-ls",
            &[&format!("iscsi://{user}{}/", server.iscsi[0])],
        ))
    };
    assert!(!find(&server, "").contains(B));
    assert!(!find(&server, "finder%wrong-secret@").contains(B));
    assert!(find(&server, "finder%twelve-bytes@").contains(B));
    assert!(
        inquiry(&server, "", B).contains("WIREPOOL"),
        "targets ask for none"
    );
    assert!(server.terminate().success());
    let server = place.start();
    assert!(!find(&server, "").contains(B), "it is kept");
    assert!(find(&server, "finder%twelve-bytes@").contains(B));
    server.ok(&["export", "discovery-chap", "--off"]);
    assert!(find(&server, "").contains(B));
}

#[test]
fn initiators_are_sent_where_a_target_has_moved_to() {
    let (here, there) = (
        Place::new(&format!("{BASE}{ISCSI}")),
        Place::new(&format!("{BASE}{ISCSI}")),
    );
    let (old, new) = (here.start(), there.start());
    old.ok(&["export", "iscsi", "ram", "--iqn", A, "--initiator", "any"]);
    new.ok(&["export", "iscsi", "f", "--iqn", A, "--initiator", "any"]);
    let address = new.iscsi[0].to_string();
    let nowhere = old.refused(&["export", "move", A, "not an address"]);
    assert!(nowhere.contains("expected where it is now"), "{nowhere}");
    // libiscsi follows a temporary redirect, and not a permanent one (status 0101, not 0102).
    old.ok(&["export", "move", A, &address, "--permanently"]);
    assert_eq!(old.json(&["export", "list"])[0]["moved_permanently"], true);
    assert!(inquiry(&old, "", A).contains("moved permanently"));
    old.ok(&["export", "move", A, &address]);
    assert!(inquiry(&old, "", A).contains("WIREPOOL"), "it is followed");
    let counted = |server: &Server| {
        let list = server.json(&["export", "list"]);
        list[0]["moved_to"].clone()
    };
    assert_eq!(
        (counted(&old), counted(&new)),
        (address.as_str().into(), serde_json::Value::Null)
    );
    assert!(new.terminate().success());
    assert!(
        !inquiry(&old, "", A).contains("WIREPOOL"),
        "nobody is there"
    );
    assert!(old.terminate().success());
    let old = here.start();
    assert!(!inquiry(&old, "", A).contains("WIREPOOL"), "it is kept");
    old.ok(&["export", "move", A, "--back"]);
    assert!(inquiry(&old, "", A).contains("WIREPOOL"));
}

#[test]
fn names_and_addresses_are_what_the_administrator_says() {
    let there =
        "[iscsi]\nadvertise = [\"192.0.2.7:3260\"]\nnaming_authority = \"iqn.2026-01.org.example\"";
    let place = Place::new(&format!("{BASE}{ISCSI}").replace("[iscsi]", there));
    let server = place.start();
    let told = server.ok(&["export", "iscsi", "ram"]);
    assert!(told.contains("-p 192.0.2.7:3260 --login"), "{told}");
    let list = server.json(&["export", "list"]);
    let name = list[0]["iqn"].as_str().expect("a name");
    assert!(name.starts_with("iqn.2026-01.org.example:"), "{name}");
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    let server = place.start();
    let told = server.ok(&["export", "iscsi", "ram"]);
    assert!(told.starts_with("iqn.2024-08.internal.wirepool:"), "{told}");
    let bad = there.replace("iqn.2026-01.org.example", "iqn.2026-13.org.example");
    let place = Place::new(&format!("{BASE}{ISCSI}").replace("[iscsi]", &bad));
    assert!(place.serve_fails().contains("the domain reversed"));
}

#[test]
fn a_lun_whose_disk_is_missing_waits_and_the_others_do_not() {
    let lost =
        "[[disk]]\nname = \"late\"\nkind = \"file\"\npath = \"late.img\"\nblock_size = 512\n";
    let base = BASE.replace("shards = 2", "shards = 2\ndisk_wait_s = 0");
    let place = Place::new(&format!("{base}{ISCSI}{lost}"));
    let server = place.start();
    server.ok(&["export", "iscsi", "late", "--iqn", A, "--initiator", "any"]);
    server.ok(&["export", "iscsi", "f", "--iqn", A]);
    let portal = format!("iscsi://{}/", server.iscsi[0]);
    let listed = || said(&tool("iscsi-ls", &["-s", &portal]));
    let before = listed();
    assert!(
        before.contains("Lun:1 ") && !before.contains("Lun:0 "),
        "{before}"
    );
    let held = server.json(&["export", "list"])[0]["luns"][0].clone();
    assert_eq!(held["state"], "held");
    assert!(
        held["reason"]
            .as_str()
            .is_some_and(|r| r.contains("late.img")),
        "{held}"
    );
    let file = fs::File::create(place.path("late.img")).expect("create");
    file.set_len(1 << 20).expect("grow");
    server.wait_for(&["export", "list"], |l| {
        l[0]["luns"][0]["state"] == "served"
    });
    let after = listed();
    assert!(
        after.contains("Lun:0 ") && after.contains("Lun:1 "),
        "{after}"
    );
}

#[test]
fn a_server_under_load_ends_in_order_and_flushes() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    let server = place.start();
    server.ok(&["export", "iscsi", "f", "--iqn", A, "--initiator", "any"]);
    let url = format!("iscsi://{}/{A}/0", server.iscsi[0]);
    let mut load = Command::new("iscsi-perf")
        .arg(&url)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("iscsi-perf of libiscsi-bin");
    server.wait_for(&["session", "list"], |s| {
        s[0]["commands"].as_u64() > Some(1000)
    });
    let age = server.json(&["session", "list"])[0]["keep_alive_timeout_ms"].clone();
    assert_eq!(age, 30_000);
    assert!(server.terminate().success(), "{}", place.text());
    let _ = load.kill();
    load.wait().expect("wait");
}

#[test]
fn initiators_are_let_in_by_name() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    let server = place.start();
    server.ok(&["export", "iscsi", "ram", "--iqn", A]);
    assert!(!inquiry(&server, "", A).contains("WIREPOOL"));
    let url = format!("iscsi://{}/{A}/0", server.iscsi[0]);
    let me = "iqn.2026-01.org.example:me";
    server.ok(&["host", "allow", A, me]);
    assert!(said(&tool("iscsi-inq", &["-i", me, &url])).contains("WIREPOOL"));
    assert!(!inquiry(&server, "", A).contains("WIREPOOL"));
    server.ok(&["host", "deny", A, me]);
    assert!(!said(&tool("iscsi-inq", &["-i", me, &url])).contains("WIREPOOL"));
    let nobody = server.refused(&["host", "allow", A, "nobody"]);
    assert!(nobody.contains("does not name an initiator"), "{nobody}");
    let missing = server.refused(&["host", "allow", B, "any"]);
    assert!(
        missing.contains(&format!("no such target {B}")),
        "{missing}"
    );
}

#[test]
fn reads_and_writes_pass_the_suite_of_libiscsi() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    let server = place.start();
    server.ok(&["export", "iscsi", "ram", "--iqn", A, "--initiator", "any"]);
    let url = format!("iscsi://{}/{A}/0", server.iscsi[0]);
    for suite in ["SCSI.Read10", "SCSI.Write10", "SCSI.ReportSupportedOpcodes"] {
        let test = format!("--test={suite}");
        let told = said(&tool("iscsi-test-cu", &["--dataloss", &test, &url]));
        // The tool's exit code is always 0: compare Total, Ran, Passed, Failed, Inactive.
        let line = told.lines().find_map(|l| l.trim().strip_prefix("tests "));
        let counts: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        assert!(
            counts.len() == 5 && counts[1] != "0" && counts[3] == "0",
            "{told}"
        );
    }
}

#[test]
fn sessions_are_shown_and_ended() {
    let config =
        format!("{BASE}{ISCSI}").replace("shards = 2", "shards = 2\ncongestion = \"reno\"");
    let place = Place::new(&config);
    let server = place.start();
    server.ok(&["export", "iscsi", "ram", "--iqn", A, "--initiator", "any"]);
    let url = format!("iscsi://{}/{A}/0", server.iscsi[0]);
    let mut load = Command::new("iscsi-perf")
        .arg(&url)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("iscsi-perf of libiscsi-bin");
    let list = server.wait_for(&["session", "list"], |s| s[0]["kind"] == "io");
    assert_eq!(
        (&list[0]["protocol"], &list[0]["export"]),
        (&"iscsi".into(), &A.into())
    );
    let id = list[0]["id"].to_string();
    let shown = server.json(&["session", "show", &id]);
    assert_eq!(shown["iscsi"]["authenticated"], false);
    assert!(shown["queues"][0]["mss"].is_u64());
    assert_eq!(shown["queues"][0]["congestion"], "reno", "{shown}");
    assert!(server.ok(&["session", "show", &id]).contains("ISID"));
    server.ok(&["session", "end", &id]);
    let _ = load.kill();
    load.wait().expect("wait");
    server.wait_for(&["session", "list"], |s| {
        s.as_array().is_some_and(Vec::is_empty)
    });
}
