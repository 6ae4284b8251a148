//! `wirepool ping` and `wirepool ioping` against real servers, and against peers that are none.

use crate::common::{BASE, NQN, Place, RAM, Server, run};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::thread::JoinHandle;

const IQN: &str = "iqn.2026-01.org.example:r";
const ALL: &str = r#"
[iscsi]
listen = ["127.0.0.1:0"]
[nfs]
listen = ["127.0.0.1:0"]
[[disk]]
name = "unit"
kind = "mem"
size = "16M"
[[target]]
iqn = "iqn.2026-01.org.example:r"
initiators = ["any"]
[[target.lun]]
lun = 0
disk = "unit"
"#;

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(out)))
}

/// A short ping as JSON.
fn ping(dir: &Path, target: &str) -> (Option<i32>, Value) {
    let out = run(
        dir,
        &[
            "ping", target, "-c", "3", "-i", "1ms", "-W", "20s", "--json",
        ],
    );
    (out.status.code(), json(&out))
}

fn served() -> (Place, Server) {
    let place = Place::new(&format!("{BASE}{RAM}{ALL}"));
    let server = place.start();
    (place, server)
}

#[test]
fn each_protocol_is_measured_rung_by_rung() {
    let (place, server) = served();
    let dir = place.path("");
    server.ok(&["pool", "create", "tank", "a.img", "--size", "256M"]);
    server.ok(&["fs", "create", "tank/home"]);
    server.ok(&[
        "export",
        "nfs",
        "tank/home",
        "--client",
        "*:rw,squash=none,insecure",
    ]);
    let file = format!("nfs://{}/tank/home/d.img", server.nfs[0]);
    server.ok(&[
        "bench",
        "run",
        &file,
        "--create",
        "4M",
        "--precondition",
        "--overwrite",
        "--rounds",
        "1",
        "-t",
        "10ms",
    ]);
    let targets = [
        (format!("nvme-tcp://{}/{NQN}", server.io[0]), "Keep Alive"),
        (format!("iscsi://{}/{IQN}/0", server.iscsi[0]), "NOP-Out"),
        (file, "SEQUENCE"),
    ];
    for (target, keep_alive) in targets {
        let (code, p) = ping(&dir, &target);
        assert_eq!(code, Some(0), "{p}");
        assert_eq!(p["keep_alive_name"], keep_alive);
        for rung in ["tcp", "keep_alive", "read"] {
            assert_eq!(
                (&p[rung]["sent"], &p[rung]["lost"]),
                (&3.into(), &0.into()),
                "{p}"
            );
            let bars = p[rung]["histogram"].as_array().expect("bars");
            let counted: u64 = bars.iter().filter_map(|b| b["count"].as_u64()).sum();
            assert_eq!(counted, 3, "{p}");
        }
        assert!(p["connection"]["mss"].as_u64() > Some(0), "{p}");
        let shown = server.ok(&["ping", &target, "-c", "2", "-i", "1ms", "-W", "20s"]);
        for word in [
            "   2: TCP connect",
            keep_alive,
            "read of 4096 bytes",
            "p99",
            "storage",
        ] {
            assert!(shown.contains(word), "{word} is not in\n{shown}");
        }
        let single = server.json(&["ioping", &target, "-c", "2", "-i", "1ms"]);
        assert_eq!(
            (&single["way"], &single["requests"]["sent"]),
            (&"remote".into(), &2.into())
        );
    }
}

#[test]
fn a_refused_session_is_told_apart_from_a_closed_port() {
    let (place, server) = served();
    let dir = place.path("");
    let other = format!("nvme-tcp://{}/nqn.2026-01.org.example:none", server.io[0]);
    let (code, p) = ping(&dir, &other);
    assert_eq!(
        (code, &p["verdict"]["limit"]),
        (Some(1), &"refused".into()),
        "{p}"
    );
    assert_eq!(p["tcp"]["lost"], 0);
    // Nothing listens on port 1.
    let (code, p) = ping(&dir, &format!("nvme-tcp://127.0.0.1:1/{NQN}"));
    assert_eq!(
        (code, &p["verdict"]["limit"]),
        (Some(1), &"unreachable".into()),
        "{p}"
    );
    for wrong in ["mem:1M", "/etc/hostname"] {
        let out = run(&dir, &["ping", wrong]);
        assert_eq!(out.status.code(), Some(2), "{}", text(&out));
        assert!(text(&out).contains("wirepool ioping"), "{}", text(&out));
    }
}

/// A peer that treats each connection with `handle` and never ends.
fn peer(handle: impl Fn(TcpStream) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || listener.incoming().flatten().for_each(&handle));
    (at, thread)
}

#[test]
fn peers_that_are_no_servers_have_a_verdict() {
    let dir = tempfile::tempdir().expect("a directory");
    let held = std::sync::Mutex::new(Vec::new());
    let (silent, _) = peer(move |s| held.lock().expect("not poisoned").push(s));
    let (closing, _) = peer(drop);
    let (wrong, _) = peer(|mut s| {
        // The peer may close while the answer is written or read.
        let _ = s.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n<h1>\x1b[2J</h1>");
        let _ = s.read(&mut [0; 256]);
    });
    for (at, why) in [(silent, "no session within"), (closing, ""), (wrong, "")] {
        for target in [
            format!("nvme-tcp://{at}/{NQN}"),
            format!("iscsi://{at}/{IQN}/0"),
            format!("nfs://{at}/tank/home/d.img"),
        ] {
            let out = run(
                dir.path(),
                &["ping", &target, "-c", "2", "-i", "1ms", "-W", "300ms"],
            );
            let said = text(&out);
            assert_eq!(out.status.code(), Some(1), "{said}");
            assert!(said.contains("refused: ") && said.contains(why), "{said}");
            assert!(!said.contains('\x1b'), "{said:?}");
        }
    }
}

#[test]
fn names_cannot_control_the_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    let name = "nvme-tcp://127.0.0.1:1/nqn.x:\x1b[2J\u{202e}";
    let out = run(dir.path(), &["ping", name, "-c", "1"]);
    let said = text(&out);
    assert!(!said.contains(['\x1b', '\u{202e}']), "{said:?}");
    let evil = dir.path().join("evil\x1b[2J");
    std::fs::write(&evil, vec![1; 1 << 20]).expect("written");
    for more in [&[][..], &["--json"]] {
        let mut args = vec!["ioping", evil.to_str().expect("text"), "-c", "1"];
        args.extend(more);
        let out = run(dir.path(), &args);
        assert!(
            out.status.success() && !text(&out).contains('\x1b'),
            "{:?}",
            text(&out)
        );
    }
}

#[test]
fn a_scratch_file_is_used_in_a_directory_and_nothing_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().to_str().expect("text");
    for more in [&[][..], &["--cached"], &["--write"], &["--write", "--sync"]] {
        let mut args = vec![
            "ioping",
            place,
            "-c",
            "3",
            "-i",
            "1ms",
            "--scratch",
            "1M",
            "--json",
        ];
        args.extend(more);
        let out = run(dir.path(), &args);
        let r = json(&out);
        assert!(out.status.success(), "{r}");
        assert_eq!(
            (&r["is_scratch"], &r["requests"]["sent"]),
            (&true.into(), &3.into()),
            "{r}"
        );
        if more.contains(&"--cached") {
            assert!(
                ["page_cache", "memory"].contains(&r["way"].as_str().expect("a way")),
                "{r}"
            );
        }
    }
    let left = std::fs::read_dir(dir.path()).expect("there").count();
    assert_eq!(left, 0, "it cleans up");
}

#[test]
fn existing_data_is_only_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("data");
    let before = vec![0x5a; 1 << 20];
    std::fs::write(&file, &before).expect("written");
    let name = file.to_str().expect("text");
    let out = run(dir.path(), &["ioping", name, "-c", "2", "-i", "1ms"]);
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert!(
        said.contains("page cache") || said.contains("memory"),
        "the way is named: {said}"
    );
    let out = run(
        dir.path(),
        &["ioping", "data", "-c", "2", "-i", "1ms", "--quiet"],
    );
    assert!(
        out.status.success(),
        "a name without a directory: {}",
        text(&out)
    );
    for target in [name, "mem:1M"] {
        let out = run(dir.path(), &["ioping", target, "--write", "-c", "1"]);
        assert_eq!(out.status.code(), Some(2), "{}", text(&out));
        assert!(
            text(&out).contains("only a scratch file is written"),
            "{}",
            text(&out)
        );
    }
    assert_eq!(std::fs::read(&file).expect("there"), before);
    let out = run(dir.path(), &["ioping", "missing", "-c", "1"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));
}

/// Ctrl-C ends an endless ping, and the summary is printed.
#[test]
fn an_interruption_prints_the_summary() {
    let (place, server) = served();
    let target = format!("nvme-tcp://{}/{NQN}", server.io[0]);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_wirepool"))
        .args(["ping", &target, "-c", "0", "-i", "1ms"])
        .current_dir(place.path(""))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("run");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut first = String::new();
    std::io::BufRead::read_line(&mut out, &mut first).expect("a line");
    let interrupt = format!("kill -INT {}", child.id());
    let sent = std::process::Command::new("sh")
        .args(["-c", &interrupt])
        .status();
    assert!(sent.expect("kill").success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(child.wait().expect("ours").success(), "{first}{rest}");
    assert!(
        rest.contains("rounds in") && rest.contains("Keep Alive"),
        "{rest}"
    );
}

#[test]
fn a_report_has_the_stored_results_and_the_servers_stages() {
    let (place, server) = served();
    let target = format!("nvme-tcp://{}/{NQN}", server.io[0]);
    let store = |name: &str, args: &[&str]| {
        let text = server.ok(&[args, &["--json"]].concat());
        std::fs::write(place.path(name), text).expect("written");
    };
    store(
        "ping.json",
        &["ping", &target, "-c", "3", "-i", "1ms", "-W", "20s"],
    );
    let compare = [
        "bench", "compare", "mem:16M", &target, "--rounds", "1", "-t", "10ms", "--ramp", "0ms",
    ];
    store("compare.json", &compare);
    server.ok(&["bench", "report", "ping.json", "compare.json"]);
    let page = std::fs::read_to_string(place.path("report.html")).expect("a page");
    for word in [
        "Keep Alive",
        "4K randread Q1T1",
        "share of the local rate",
        "checks",
        "iser-nvme-4k-randwrite",
    ] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    let only = ["bench", "report", "--stored-only", "--html", "only.html"];
    server.ok(&only);
    let page = std::fs::read_to_string(place.path("only.html")).expect("a page");
    assert_eq!(page.matches("No input").count(), 5, "{page}");
    std::fs::write(place.path("other.json"), "{\"a\": 1}").expect("written");
    let refused = server.refused(&[&only[..], &["other.json"]].concat());
    assert!(
        refused.contains("expected the JSON of wirepool ping"),
        "{refused}"
    );
}
