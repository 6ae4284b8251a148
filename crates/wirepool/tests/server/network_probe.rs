//! `wirepool probe` between two processes, and against peers that are none.

use crate::common::run;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A serving side, which is killed with this value.
struct Serving {
    child: Child,
    at: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(more: &[&str]) -> Serving {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirepool"))
        .args(["probe", "serve", "127.0.0.1:0"])
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .expect("run");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    let mut out = BufReader::new(out);
    out.read_line(&mut line).expect("a line");
    // Later lines are read, so that the pipe never fills.
    std::thread::spawn(move || out.lines().map_while(Result::ok).count());
    let at = line.split(' ').nth(2).expect("listening on ADDRESS");
    Serving {
        at: at.to_owned(),
        child,
    }
}

fn probe(at: &str, more: &[&str]) -> Output {
    let args = [&["probe", "run", at, "-t", "50ms"], more].concat();
    run(Path::new("."), &args)
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

#[test]
fn both_directions_are_measured_with_one_and_several_streams() {
    let serving = serve(&[]);
    let out = probe(&serving.at, &["-n", "3", "--json"]);
    assert!(out.status.success(), "{}", text(&out));
    let p: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(p["latency"]["sent"].as_u64() > Some(0), "{p}");
    let transfers = p["transfers"].as_array().expect("transfers");
    let found: Vec<(u64, bool, bool)> = transfers
        .iter()
        .map(|t| {
            let streams = t["streams"].as_u64().expect("a number");
            (
                streams,
                !t["to_server"].is_null(),
                !t["from_server"].is_null(),
            )
        })
        .collect();
    let expected = [
        (1, true, false),
        (3, true, false),
        (1, false, true),
        (3, false, true),
        (3, true, true),
    ];
    assert_eq!(found, expected);
    for t in transfers {
        for way in ["to_server", "from_server"]
            .map(|w| &t[w])
            .iter()
            .filter(|w| !w.is_null())
        {
            assert!(
                way["bytes_per_s"].as_f64() > Some(0.0) && way["mss"].as_u64() > Some(0),
                "{t}"
            );
        }
    }
    assert_eq!(p["interface"]["name"], "lo");
    let out = probe(&serving.at, &["-n", "1"]);
    let said = text(&out);
    assert!(
        said.contains("messages of 64 bytes") && said.contains("congestion control"),
        "{said}"
    );
}

#[test]
fn the_serving_member_bounds_connections_and_time() {
    let serving = serve(&["--connections", "1"]);
    let out = probe(&serving.at, &["-n", "2"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    assert!(text(&out).contains("most connections"), "{}", text(&out));
    let mut short = serve(&["--for", "1s"]);
    assert!(
        short.child.wait().expect("ours").success(),
        "it ends by itself"
    );
}

#[test]
fn a_peer_that_is_no_probe_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut s in listener.incoming().flatten() {
            // The peer may close while the answer is written or read.
            let _ = s.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2J");
            let _ = s.read(&mut [0; 256]);
        }
    });
    let out = probe(&at, &[]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    assert!(
        text(&out).contains("no Wirepool probe") && !text(&out).contains('\x1b'),
        "{}",
        text(&out)
    );
    let out = probe("127.0.0.1:1", &[]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    let out = run(Path::new("."), &["probe", "serve"]);
    assert_eq!(
        out.status.code(),
        Some(2),
        "an address must be named: {}",
        text(&out)
    );
}

#[test]
fn hostile_bytes_are_refused_and_the_next_client_is_served() {
    let serving = serve(&[]);
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"[..],
        &[0xff; 64],
        b"wp-probe\0\x02\x01\0\0\0\0\x40\0\0\0\x40\0\0\0\0",
        b"wp-probe\0\x01\x01\0\xff\xff\xff\xff\0\0\0\x40\0\0\0\0",
        b"wp",
    ] {
        let mut s = TcpStream::connect(&serving.at).expect("connected");
        s.write_all(bytes).expect("sent");
        s.shutdown(std::net::Shutdown::Write).expect("open");
        let mut answer = Vec::new();
        // A connection with unread bytes is reset.
        let _ = s.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"wp-probe"),
            "{answer:?}"
        );
        assert!(answer.get(10) != Some(&0), "not accepted: {answer:?}");
    }
    let out = probe(&serving.at, &["-n", "1"]);
    assert!(out.status.success(), "{}", text(&out));
}
