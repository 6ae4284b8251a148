//! `wirepool bench` as a user runs it, against `wirepool serve`.

use clap::Parser;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const NQN: &str = "nqn.2026-01.org.example:bench";
const IQN: &str = "iqn.2026-01.org.example:bench";

fn wirepool(args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_wirepool"));
    c.args(args);
    c
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

/// A server that is killed with this value.
struct Server {
    child: Child,
    address: String,
    /// Address of its other disk.
    unit: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(dir: &Path) -> Server {
    let config = dir.join("wirepool.toml");
    let at = |name: &str| dir.join(name).display().to_string();
    let (control, state, disk) = (at("control"), at("state"), at("disk"));
    let written = format!(
        "[server]\nshards = 1\ncongestion = \"reno\"\ncontrol = {control:?}\nstate_dir = {state:?}\n\
         [nvmf]\nlisten = [\"127.0.0.1:0\"]\ndiscovery = [\"127.0.0.1:0\"]\n\
         [iscsi]\nlisten = [\"127.0.0.1:0\"]\n\
         [[disk]]\nname = \"m\"\nkind = \"mem\"\nsize = \"16M\"\n\
         [[target]]\niqn = {IQN:?}\ninitiators = [\"any\"]\n[[target.lun]]\nlun = 0\ndisk = \"m\"\n\
         [[disk]]\nname = \"d\"\nkind = \"file\"\npath = {disk:?}\nsize = \"16M\"\n\
         [[subsystem]]\nnqn = {NQN:?}\nhosts = [\"any\"]\n[[subsystem.namespace]]\nnsid = 1\ndisk = \"d\"\n"
    );
    std::fs::write(&config, written).expect("written");
    let mut c = wirepool(&["serve", "--print-ready", "--config"]);
    let mut child = c
        .arg(&config)
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawned");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let (mut nvme, mut iscsi) = (None, None);
    for line in lines.map_while(Result::ok) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ready", "io", address] => nvme = Some(address.to_owned()),
            ["ready", "iscsi", address] => iscsi = Some(address.to_owned()),
            ["ready"] => break,
            _ => {}
        }
    }
    let address = format!(
        "nvme-tcp://{}/{NQN}?ns=1",
        nvme.expect("it says where NVMe/TCP is")
    );
    let iscsi = iscsi.expect("it says where iSCSI is");
    Server {
        child,
        address,
        unit: format!("iscsi://{iscsi}/{IQN}/0?medium=ram"),
    }
}

/// It ended in "Input/output error (os error 5)".
#[test]
fn a_new_file_is_made_for_a_reading_workload() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = format!("file:{}", dir.path().join("new").display());
    let run = |more: &[&str]| {
        let mut args = vec!["bench", "run", &file, "--create", "8M", "-t", "100ms"];
        args.extend_from_slice(more);
        wirepool(&args).output().expect("run")
    };
    let out = run(&["--rounds", "1"]);
    assert!(out.status.success(), "{}", text(&out));
    let said = text(&out);
    for word in ["n/a", "holes", "one-round", "working-set"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    let out = run(&["--rounds", "1", "--json"]);
    let json = String::from_utf8(out.stdout).expect("text");
    assert!(json.contains("\"spread_percent\": null"), "{json}");
}

/// The smallest run of the suite with these arguments.
fn suite(dir: &Path, args: &[&str]) -> lab::Result<String> {
    let mut words = vec![
        "suite",
        "--quick",
        "--wirepool",
        env!("CARGO_BIN_EXE_wirepool"),
    ];
    words.extend(args);
    let dir = dir.display().to_string();
    words.extend(["--dir", &dir]);
    suite::measure(suite::Extent::parse_from(words))
}

/// Runs the whole suite in its smallest size with every commit, because users run it rarely.
#[test]
fn the_suite_measures_every_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let table = suite(dir.path(), &[]).expect("measured");
    for row in [
        "RAM 4K randread Q128",
        "disk 128K write Q8",
        "100 idle connections",
        "memory under load",
        "two connections",
        "Iscsi row",
        "disk 4K randwrite Q32",
        "NFS list",
        "remote 4K randread Q32",
        "16 TiB against 1 GiB",
    ] {
        assert!(table.contains(row), "{row} is not in\n{table}");
    }
    let left = std::fs::read_dir(dir.path()).expect("there");
    assert_eq!(left.count(), 0, "it cleans up");
}

#[test]
fn a_row_of_the_suite_is_measured_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let row = "snapshots under load";
    let table = suite(dir.path(), &["--row", row]).expect("measured");
    assert!(table.contains("snapshots came and went"), "{table}");
    for other in ["record cache", "Iscsi row", "wirepool mem"] {
        assert!(!table.contains(other), "{other} is in\n{table}");
    }
    let row = "4K randwrite async Q32, page cache";
    let table = suite(dir.path(), &["--row", row]).expect("measured");
    let both = table.matches("CPU").count() >= 2;
    assert!(both && table.contains(" x "), "{table}");
}

/// It was said after all files were filled and all servers had run.
#[test]
fn a_row_that_the_suite_does_not_have_is_refused_at_once() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let dir = file.path().join("nothing can be made here");
    let refused = suite(&dir, &["--row", "nothing of the kind"]);
    let Err(e @ lab::Error::Usage { .. }) = refused else {
        panic!("not refused: {refused:?}");
    };
    let said = e.to_string();
    for row in [
        "RAM 4K randread Q1",
        "two shards",
        "NFS LOOKUP Q32",
        "a full pool",
    ] {
        assert!(said.contains(row), "{row} is not in\n{said}");
    }
}

#[test]
fn what_was_durable_survives_the_death_of_the_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("run.state");
    let mut server = serve(dir.path());
    let mut c = wirepool(&[
        "bench",
        "verify",
        &server.address,
        "--overwrite",
        "--region",
        "4M",
        "-t",
        "600s",
        "--state",
    ]);
    let mut client = c
        .arg(&state)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("spawned");
    // Each block once takes 24 bytes twice for each of 1024 blocks: beyond that it writes at random.
    while std::fs::metadata(&state).map_or(0, |m| m.len()) < 100_000 {
        assert!(
            client.try_wait().expect("ours").is_none(),
            "the client ended early"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    server.child.kill().expect("alive");
    client.kill().expect("alive");
    client.wait().expect("ours");
    drop(server);
    let server = serve(dir.path());
    let out = wirepool(&["bench", "verify", "--at", &server.address, "--state"])
        .arg(&state)
        .output()
        .expect("run");
    assert!(out.status.success(), "{}", text(&out));
    assert!(
        text(&out).contains("1024 blocks checked, 0 never written durably"),
        "{}",
        text(&out)
    );
}

#[test]
fn a_remote_target_is_measured_and_what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path());
    let run = [
        "bench",
        "run",
        &server.address,
        "--rounds",
        "1",
        "-t",
        "200ms",
        "--ramp",
        "0ms",
        "--depth",
        "4",
    ];
    let out = wirepool(&run).arg("--json").output().expect("run");
    assert!(out.status.success(), "{}", text(&out));
    let json = String::from_utf8_lossy(&out.stdout);
    assert!(
        json.contains("\"server_cpu_us_per_io\"") && json.contains("\"congestion\": \"cubic\""),
        "{json}"
    );
    assert!(
        json.contains("\"server_congestion\": \"reno\""),
        "the server's end is not under what its configuration says: {json}"
    );
    let out = wirepool(&run)
        .args(["--rw", "randwrite"])
        .output()
        .expect("run");
    assert_eq!(
        out.status.code(),
        Some(2),
        "writing must be meant: {}",
        text(&out)
    );
    let out = wirepool(&["bench", "run", "nvme-tcp://127.0.0.1:1/nqn.x"])
        .output()
        .expect("run");
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
}

#[test]
fn both_protocols_are_compared_and_verified() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path());
    let digests = format!("{}&hdgst=1&ddgst=1", server.unit);
    let out = wirepool(&["bench", "compare", &server.address, &server.unit, &digests])
        .args(["--rw", "randrw", "--depth", "4", "--rounds", "1"])
        .args(["-t", "200ms", "--ramp", "0ms", "--overwrite"])
        .output()
        .expect("run");
    assert!(out.status.success(), "{}", text(&out));
    let table = text(&out);
    assert!(table.contains("header and data digests"), "{table}");
    let out = wirepool(&["bench", "verify", &server.unit, "--overwrite"])
        .args(["--region", "4M", "-t", "500ms", "--depth", "8"])
        .output()
        .expect("run");
    assert!(out.status.success(), "{}", text(&out));
    assert!(text(&out).contains("everything is as it must be"));
}
