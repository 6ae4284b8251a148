//! iSCSI as other people's initiators find it: libiscsi's tools against a real server process.

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
    assert_eq!(server.json(&["export", "list"]), before);
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
        missing.contains(&format!("there is no target {B}")),
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
        // The tool ends with 0 whatever it found: Total, Ran, Passed, Failed, Inactive.
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
    let place = Place::new(&format!("{BASE}{ISCSI}"));
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
        (&list[0]["protocol"], &list[0]["nqn"]),
        (&"iscsi".into(), &A.into())
    );
    let id = list[0]["id"].to_string();
    let shown = server.json(&["session", "show", &id]);
    assert_eq!(shown["iscsi"]["authenticated"], false);
    assert!(shown["queues"][0]["mss"].is_u64());
    assert!(server.ok(&["session", "show", &id]).contains("ISID"));
    server.ok(&["session", "end", &id]);
    let _ = load.kill();
    load.wait().expect("wait");
    server.wait_for(&["session", "list"], |s| {
        s.as_array().is_some_and(Vec::is_empty)
    });
}
