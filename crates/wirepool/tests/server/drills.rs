//! `wirepool drill`: each kind in a short form, a server that loses acknowledged writes, refusals, and cleaning up.

use crate::common::{BASE, Place, Server, run};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_wirepool");
/// Options of a short drill.
const SHORT: [&str; 4] = ["--size", "4M", "--for", "2s"];

fn mirror(server: &Server) {
    server.ok(&[
        "pool", "create", "tank", "mirror", "a.img", "b.img", "--size", "128M",
    ]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "16M"]);
}

fn report(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {error}"))
}

/// A drill on a server of its own in a directory; its report.
fn own(dir: &Path, kind: &[&str]) -> (Value, Option<i32>) {
    let drills = dir.join("drills");
    fs::create_dir_all(&drills).expect("a directory");
    let place = drills.to_str().expect("text");
    let output = run(
        dir,
        &[&["drill"], kind, &SHORT, &["--json", "--dir", place]].concat(),
    );
    let left: Vec<_> = fs::read_dir(&drills).expect("read").collect();
    assert!(left.is_empty(), "{left:?}");
    (report(&output), output.status.code())
}

fn passed(report: &Value) {
    assert_eq!(report["passed"], true, "{report:#}");
    assert_eq!(report["bytes_lost"], 0);
    assert_eq!(report["bytes_wrong"], 0);
    assert_eq!(report["read_back"], 1024, "blocks of 4 MiB");
}

#[test]
fn the_cable_is_cut_on_a_pool_of_the_running_server() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let before = place.text();
    let cuts = ["--cut", "reset:100ms", "--cut", "silent:200ms"];
    let kind = ["drill", "cable", "tank", "--json", "--html", "page.html"];
    let output = server.run(&[&kind[..], &SHORT, &cuts].concat());
    let report = report(&output);
    passed(&report);
    assert_eq!(output.status.code(), Some(0));
    let disturbances = report["disturbances"].as_array().expect("disturbances");
    assert_eq!(disturbances.len(), 2);
    assert_eq!(
        disturbances[0]["reconnected"], true,
        "a reset ends connections"
    );
    assert!(disturbances[0]["answered_ms"].is_u64(), "{report:#}");
    let layers = report["layers"].as_array().expect("layers");
    for layer in ["initiator", "cable", "session", "pool", "device"] {
        assert!(
            layers.iter().any(|l| l["layer"] == layer),
            "{layer}: {report:#}"
        );
    }
    let page = fs::read_to_string(place.path("page.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("reset cut"));
    assert_eq!(place.text(), before, "the configuration is as it was");
    let volumes = server.json(&["volume", "list"]);
    assert_eq!(volumes.as_array().map(Vec::len), Some(1), "{volumes}");
    assert!(server.terminate().success());
}

#[test]
fn a_server_of_its_own_is_killed_and_loses_nothing() {
    let place = Place::new(BASE);
    let (report, code) = own(&place.path(""), &["kill"]);
    passed(&report);
    assert_eq!(code, Some(0));
    for disturbance in report["disturbances"].as_array().expect("disturbances") {
        assert_eq!(disturbance["name"], "SIGKILL");
        assert_eq!(disturbance["reconnected"], true, "{report:#}");
    }
    let object = report["object"].as_str().expect("text");
    assert!(object.contains("a server of the drill's own"), "{object}");
}

/// With `sync=disabled` the server confirms durable writes that it has only in memory: the judge must see it.
#[test]
fn a_server_that_lies_about_durable_writes_fails() {
    let place = Place::new(BASE);
    let (report, code) = own(&place.path(""), &["kill", "--sync-disabled"]);
    assert_eq!(
        (report["passed"].clone(), code),
        (Value::Bool(false), Some(1))
    );
    assert!(report["bytes_lost"].as_u64() > Some(0), "{report:#}");
    assert!(
        report["lost_durable_blocks"].as_u64() > Some(0),
        "{report:#}"
    );
}

#[test]
fn power_cuts_lose_nothing_that_was_promised() {
    let place = Place::new(BASE);
    let (report, code) = own(&place.path(""), &["powercut"]);
    passed(&report);
    assert_eq!(code, Some(0));
    let disturbances = report["disturbances"].as_array().expect("disturbances");
    assert!(
        disturbances.iter().all(|d| d["name"] == "power cut"),
        "{report:#}"
    );
    let (report, code) = own(&place.path(""), &["powercut", "--sync-disabled"]);
    assert_eq!(
        (report["passed"].clone(), code),
        (Value::Bool(false), Some(1))
    );
    assert!(
        report["lost_durable_blocks"].as_u64() > Some(0),
        "{report:#}"
    );
}

#[test]
fn a_slow_disk_loses_nothing() {
    let place = Place::new(BASE);
    let (report, code) = own(&place.path(""), &["slow-disk"]);
    passed(&report);
    assert_eq!(code, Some(0));
    let disturbances = report["disturbances"].as_array().expect("disturbances");
    let names: Vec<_> = disturbances
        .iter()
        .filter_map(|d| d["name"].as_str())
        .collect();
    assert!(
        names[0].starts_with("a.img slow") && names[1].starts_with("b.img slow"),
        "{names:?}"
    );
}

/// The reserved name of a drill of this process.
fn name_of_this_process() -> String {
    let stat = fs::read_to_string("/proc/self/stat").expect("read");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("fields")
        .split_whitespace()
        .collect();
    format!("wirepool-drill-{}-{}", std::process::id(), fields[19])
}

#[test]
fn refused_drills_change_nothing() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let before = (place.text(), server.json(&["volume", "list"]).to_string());
    let refusals: [(&[&str], &str); 4] = [
        (&["nope"], "the server's pools are: tank"),
        (
            &["tank", "--volume", "vm1", "--size", "4M"],
            "tank/vm1 exists",
        ),
        (
            &["tank", "--volume", "a b", "--size", "4M"],
            "names no volume",
        ),
        (&["tank", "--size", "64M"], "asks for 512 MiB"),
    ];
    for (args, text) in refusals {
        let refused = server.refused(&[&["drill", "cable"], args].concat());
        assert!(refused.contains(text), "{args:?}: {refused}");
    }
    let running = format!("tank/{}", name_of_this_process());
    server.ok(&["volume", "create", &running, "--size", "4M"]);
    let refused = server.refused(&["drill", "cable", "tank"]);
    assert!(refused.contains("another drill"), "{refused}");
    server.ok(&["volume", "destroy", "-f", &running]);
    assert_eq!(
        (place.text(), server.json(&["volume", "list"]).to_string()),
        before
    );
    for wrong in [
        &["drill"][..],
        &["drill", "cable", "--volume", "x"],
        &["drill", "cable", "tank", "--for", "0s"],
        &["drill", "cable", "tank", "--cut", "loud:1s"],
        &["drill", "kill", "tank"],
    ] {
        assert_eq!(server.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert!(server.terminate().success());
}

fn started(place: &Place) -> Child {
    let mut command = Command::new(BINARY);
    command.args(["drill", "cable", "tank", "--for", "1h", "--size", "4M"]);
    command
        .env("WIREPOOL_CONTROL", place.path("c.sock"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().expect("a drill")
}

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status();
    assert!(status.expect("kill").success());
}

fn has_sessions(sessions: &Value) -> bool {
    sessions.as_array().is_some_and(|all| !all.is_empty())
}

#[test]
fn an_interrupted_drill_removes_its_volume() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let before = place.text();
    let drill = started(&place);
    server.wait_for(&["session", "list"], has_sessions);
    signal(&drill, "INT");
    let output = drill.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("it was interrupted"), "{text}");
    assert_eq!(place.text(), before);
    assert!(server.terminate().success());
}

#[test]
fn a_killed_drill_is_cleaned_up_by_the_next_one() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let before = place.text();
    // A name that is not exactly a drill's is left alone.
    server.ok(&[
        "volume",
        "create",
        "tank/wirepool-drill-1-x",
        "--size",
        "4M",
    ]);
    let mut drill = started(&place);
    server.wait_for(&["session", "list"], has_sessions);
    drill.kill().expect("killed");
    drill.wait().expect("ended");
    assert_ne!(place.text(), before, "its export is left");
    let output = server.run(&[
        "drill", "cable", "tank", "--for", "500ms", "--size", "4M", "--json",
    ]);
    passed(&report(&output));
    assert_eq!(place.text(), before);
    let volumes = server.json(&["volume", "list"]);
    assert_eq!(volumes.as_array().map(Vec::len), Some(2), "{volumes}");
    assert!(server.terminate().success());
}

fn names(report: &Value) -> Vec<&str> {
    let disturbances = report["disturbances"].as_array().expect("disturbances");
    let names = disturbances.iter().filter_map(|d| d["name"].as_str());
    names.collect()
}

#[test]
fn members_go_offline_in_turn_and_nothing_is_lost() {
    let place = Place::new(BASE);
    let (report, code) = own(&place.path(""), &["lost-disk", "--class", "data"]);
    passed(&report);
    assert_eq!(code, Some(0));
    assert_eq!(names(&report), ["a.img offline", "b.img offline"]);
}

/// A pool with all classes loses a member of each mirror, its only log and its cache device under the load, and each comes back.
#[test]
fn a_disk_of_each_class_is_lost_in_turn_and_nothing_is_lost() {
    let place = Place::new(BASE);
    let (report, code) = own(&place.path(""), &["lost-disk"]);
    passed(&report);
    assert_eq!(code, Some(0));
    let lost = ["a.img offline", "l.img lost", "s.img offline", "k.img lost"];
    assert_eq!(names(&report), lost);
    let text = report.to_string();
    for seen in [
        "log.lost: disk-2",
        "l.img left the pool; the journal is on mirror-0",
        "l.img is a log again",
        "cache.add",
        "k.img is a cache device again",
    ] {
        assert!(text.contains(seen), "{seen}: {report:#}");
    }
}

/// A pool keeps its redundancy during a drill: only the third member of a mirror may be named.
#[test]
fn a_member_of_a_real_pool_is_taken_only_if_two_others_are_online() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let drill = ["drill", "lost-disk", "tank", "--json"];
    let named = [&drill[..], &SHORT, &["--member", "b.img"]].concat();
    let refused = server.refused(&named);
    assert!(refused.contains("would not be redundant"), "{refused}");
    let unknown = server.refused(&[&drill[..], &["--member", "x.img"]].concat());
    assert!(unknown.contains("has no disk"), "{unknown}");
    assert_eq!(
        server.run(&drill).status.code(),
        Some(2),
        "a member must be named"
    );
    server.ok(&["pool", "attach", "tank", "a.img", "c.img", "--size", "128M"]);
    let is_whole = |p: &Value| {
        let members = p[0]["vdevs"][0]["members"].as_array().map(Vec::len);
        p[0]["health"] == "online" && members == Some(3)
    };
    server.wait_for(&["pool", "status"], is_whole);
    let output = server.run(&named);
    passed(&report(&output));
    assert!(is_whole(&server.json(&["pool", "status"])));
    assert!(server.terminate().success());
}

#[test]
fn a_full_quota_or_pool_refuses_writes_and_loses_none() {
    let place = Place::new(BASE);
    let server = place.start();
    mirror(&server);
    let output = server.run(&[&["drill", "full", "tank", "--json"][..], &SHORT].concat());
    let on_quota = report(&output);
    passed(&on_quota);
    assert!(on_quota["refused"].as_u64() > Some(0), "{on_quota:#}");
    let volumes = server.json(&["volume", "list"]);
    assert_eq!(volumes.as_array().map(Vec::len), Some(1), "{volumes}");
    assert!(server.terminate().success());
    let (on_pool, code) = own(&place.path(""), &["full"]);
    passed(&on_pool);
    assert_eq!(
        (on_pool["disturbances"][0]["name"].as_str(), code),
        (Some("pool full"), Some(0))
    );
}
