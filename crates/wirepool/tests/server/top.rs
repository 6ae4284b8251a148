//! `wirepool top` against a server, with and without a terminal; and the server as a service.

use crate::common::{BASE, Place, RAM, Server};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_wirepool");

#[test]
fn once_prints_every_table() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start();
    server.ok(&["pool", "create", "tank", "d.img", "--size", "128M"]);
    let text = server.ok(&["top", "--once", "-d", "0.1"]);
    let has = |word: &str| assert!(text.contains(word), "{word}: {text}");
    has("\nPOOL  STATE");
    has("\ntank  ONLINE");
    has("/d.img");
    has("nqn.2026-01.org.example:a  nvme      served");
    has("\nno sessions\n");
    let json = server.json(&["top", "--once", "-d", "0.1"]);
    assert!(json["seconds"].as_f64() >= Some(0.1), "{json}");
    assert_eq!(json["pools"][0]["pool"], "tank");
    assert_eq!(json["pools"][0]["reads_per_second"].as_u64(), Some(0));
    assert_eq!(json["devices"][0]["state"], "online");
    assert_eq!(json["exports"][0]["mean_us"], Value::Null, "no requests");
    assert_eq!(json["sessions"], Value::Array(Vec::new()));
    let refused = server.refused(&["top"]);
    assert!(refused.contains("wirepool top --once"), "{refused}");
    for wrong in [&["top", "--json"][..], &["top", "--once", "-d", "0"]] {
        assert_eq!(server.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// `wirepool top` on a terminal of `script`, and the terminal's settings before and after it.
struct OnTerminal {
    script: Child,
    stdout: ChildStdout,
    text: String,
}

impl OnTerminal {
    fn start(place: &Path) -> OnTerminal {
        let line = format!(
            "stty cols 100 rows 30; stty -a > before; sh -c 'echo $$ > pid; exec {BINARY} top --control c.sock'; \
             echo ended $?; stty -a > after"
        );
        let mut script = Command::new("script")
            .args(["-qfec", &line, "/dev/null"])
            .current_dir(place)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of Debian's bsdutils");
        let stdout = script.stdout.take().expect("piped");
        let mut top = OnTerminal {
            script,
            stdout,
            text: String::new(),
        };
        top.wait_for("Sessions");
        top
    }

    /// Reads until a word is on the screen.
    fn wait_for(&mut self, word: &str) {
        let mut bytes = [0; 4096];
        while !self.text.contains(word) {
            let len = self.stdout.read(&mut bytes).expect("output");
            assert!(len > 0, "ended: {:?}", self.text);
            self.text += &String::from_utf8_lossy(&bytes[..len]);
        }
    }

    /// The command has ended, with success, and the terminal is as before.
    fn has_ended(mut self, place: &Path) {
        self.stdout.read_to_string(&mut self.text).expect("text");
        self.script.wait().expect("script ends");
        let (entered, left) = (
            self.text.find("\x1b[?1049h"),
            self.text.rfind("\x1b[?1049l"),
        );
        assert!(entered.is_some() && entered < left, "{:?}", self.text);
        assert!(
            self.text[left.unwrap_or(0)..].contains("ended 0"),
            "{:?}",
            self.text
        );
        let settings = |name: &str| std::fs::read_to_string(place.join(name)).expect("settings");
        assert_eq!(settings("before"), settings("after"));
    }
}

#[test]
fn the_terminal_is_restored_by_q_and_by_signals() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let _server: Server = place.start();
    let dir = place.path("");
    let mut top = OnTerminal::start(&dir);
    let mut keys = top.script.stdin.take().expect("piped");
    keys.write_all(b"3/nqn\rrq").expect("keys");
    top.has_ended(&dir);
    for signal in ["TERM", "INT", "HUP"] {
        let top = OnTerminal::start(&dir);
        let pid = std::fs::read_to_string(dir.join("pid")).expect("a process");
        let line = format!("kill -s {signal} {}", pid.trim());
        let kill = Command::new("sh").args(["-c", &line]).status();
        assert!(kill.expect("kill").success());
        top.has_ended(&dir);
    }
}

#[test]
fn the_service_manager_is_notified() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let socket = place.path("notify");
    let manager = UnixDatagram::bind(&socket).expect("bound");
    let _server = place.start_after(&format!("export NOTIFY_SOCKET='{}'", socket.display()));
    let mut message = [0; 256];
    let len = manager.recv(&mut message).expect("a message");
    assert!(
        message[..len].starts_with(b"READY=1\n"),
        "{:?}",
        &message[..len]
    );
}

#[test]
fn the_packages_configuration_is_valid() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/package/wirepool.toml");
    let output = Command::new(BINARY)
        .args(["serve", "--check", "--config", config])
        .output();
    let output = output.expect("run");
    assert!(output.status.success(), "{output:?}");
}
