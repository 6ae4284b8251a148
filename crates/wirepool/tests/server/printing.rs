//! Hostile names from peers and disks: no command prints what a terminal obeys, and none prints a line of their making.

use crate::common::{BASE, NQN, Place, Server, client, connect, run};
use iscsi::wire::request::LoginRequest;
use iscsi::wire::text::Text;
use iscsi::wire::{Isid, Itt, Sn};
use nvmf::wire::nqn::Nqn;
use nvmf_initiator::Reconnect;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;

const ISCSI: &str = r#"
[iscsi]
listen = ["127.0.0.1:0"]
[[disk]]
name = "ram"
kind = "mem"
size = "16M"
"#;
const IQN: &str = "iqn.2026-01.org.example:a";
/// Clears the screen, forges a line, reverses text, hides text; and markup, which a terminal shows as it is.
const HOSTILE: &str = "x\x1b[2J\u{9b}31m\nFORGED everything is fine\r\u{202e}gnp\u{2066}\u{200b}\x07<b onload=1>&amp;";
/// Hostile as a path: no slash, and less than a file name may have.
const FILE: &str = "d\x1b[31m\nFORGED \u{202e}.img";

/// What NQNs may have: no control characters, but everything else.
fn hostile_nqn() -> Nqn {
    Nqn::new("nqn.2026-01.org.example:\u{202e}tsoh\u{2066}\u{200b}<b>").expect("a valid name")
}

/// Logs in to the target under an alias, and keeps the session.
fn log_in(server: &Server, alias: &str) -> TcpStream {
    let mut text = Text::new();
    text.put("InitiatorName", "iqn.2026-01.org.example:host");
    text.put("TargetName", IQN);
    text.put("InitiatorAlias", alias);
    let data = text.into_bytes();
    let request = LoginRequest {
        transit: true,
        more: false,
        csg: 1,
        nsg: 3,
        version_min: 0,
        isid: Isid([0x80, 0, 0, 0, 0, 1]),
        tsih: 0,
        itt: Itt(1),
        cid: 0,
        cmd_sn: Sn(1),
        exp_stat_sn: Sn(0),
    };
    let mut bhs = request.build();
    bhs.set_data_len(data.len() as u32);
    let mut bytes = bhs.0.to_vec();
    bytes.extend(&data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut stream = TcpStream::connect(server.iscsi[0]).expect("the server listens");
    stream.write_all(&bytes).expect("sent");
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[36..38], [0, 0], "logged in");
    stream
}

fn is_deceptive(c: char) -> bool {
    c != '\n' && c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Nothing of what was printed moves the cursor, reorders text, or begins with a forged line.
fn harmless(what: &str, text: &str) {
    if let Some(c) = text.chars().find(|c| is_deceptive(*c)) {
        panic!("{what} prints {c:?}:\n{text:?}");
    }
    let forged = text.lines().any(|l| l.trim_start().starts_with("FORGED"));
    assert!(!forged, "{what} prints a forged line:\n{text}");
}

fn both(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
        + &String::from_utf8(output.stderr.clone()).expect("text")
}

/// Runs a command as text and as JSON.
fn check(server: &Server, args: &[&str]) -> String {
    let output = server.run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    let text = both(&output);
    harmless(&args.join(" "), &text);
    let json = server.ok(&[args, &["--json"]].concat());
    harmless(&format!("{args:?} --json"), &json);
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
    text
}

#[test]
fn hostile_names_are_printed_by_every_command_as_text() {
    let place = Place::new(&format!("{BASE}{ISCSI}"));
    let server = place.start();
    server.ok(&["export", "iscsi", "ram", "--iqn", IQN, "--initiator", "any"]);
    server.ok(&["pool", "create", "tank", FILE, "--size", "128M"]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "64M"]);
    server.ok(&["snapshot", "create", "tank/vm1@s1"]);
    let host = hostile_nqn();
    let export = ["export", "nvme", "tank/vm1", "--nqn", NQN, "--host"];
    server.ok(&[&export[..], &[host.as_str()]].concat());
    let _session = log_in(&server, HOSTILE);
    let mut config = server.client();
    config.hostnqn = hostile_nqn();
    config.reconnect = Reconnect::NEVER;
    client(async move {
        let _controller = connect(config).await;
        commands(&server);
        server.refused(&["volume", "destroy", "tank/vm1"]);
        harmless("the log", &server.log());
        server.terminate();
    });
    offline(&place);
}

/// Every command that shows something, with sessions of hostile peers and a pool on a hostile disk.
fn commands(server: &Server) {
    for args in [
        &["status"][..],
        &["disk", "list"],
        &["export", "list"],
        &["host", "list"],
        &["pool", "list"],
        &["pool", "status", "-v"],
        &["pool", "history", "tank"],
        &["pool", "events"],
        &["pool", "iostat", "-v"],
        &["volume", "list"],
        &["snapshot", "list"],
        &["get", "all", "tank/vm1"],
        &["session", "list"],
        &["top", "--once", "-d", "0.1"],
    ] {
        check(server, args);
    }
    let sessions = server.json(&["session", "list"]);
    let sessions = sessions.as_array().expect("a list");
    assert_eq!(sessions.len(), 2);
    for s in sessions {
        let id = s["id"].to_string();
        let text = check(server, &["session", "show", &id]);
        let exact = server.json(&["session", "show", &id]);
        if s["protocol"] == "iscsi" {
            assert_eq!(exact["iscsi"]["alias"], HOSTILE, "JSON is exact");
            let shown = "x\\u{1b}[2J\\u{9b}31m\\nFORGED everything is fine\\r\\u{202e}gnp";
            assert!(text.contains(shown), "{text}");
            assert!(text.contains("<b onload=1>&amp;"), "{text}");
        } else {
            assert_eq!(exact["client"], hostile_nqn().as_str());
        }
    }
    let pools = server.json(&["pool", "status"]);
    assert!(pools.to_string().contains("FORGED"), "{pools}");
    let unknown = server.run(&["pool", "status", HOSTILE]);
    harmless("an error", &both(&unknown));
}

/// The same disk without a server, and on its way into another.
fn offline(place: &Place) {
    let dir = place.path("");
    for view in [
        "labels",
        "uberblocks",
        "journal",
        "trees",
        "space",
        "volumes",
        "snapshots",
        "verify",
    ] {
        let output = run(&dir, &["inspect", view, FILE]);
        assert!(output.status.success(), "{view}: {output:?}");
        harmless(view, &both(&output));
        let output = run(&dir, &["inspect", view, FILE, "--json"]);
        harmless(view, &both(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON");
    }
    let other = Place::new(BASE);
    let server = other.start();
    let disk = place.path(FILE);
    let disk = disk.to_str().expect("text");
    check(&server, &["pool", "import", "-d", disk]);
    check(&server, &["pool", "import", "tank", "-n", "-f", "-d", disk]);
    let imported = server.run(&["pool", "import", "tank", "-f", "-d", disk]);
    assert!(imported.status.success(), "{imported:?}");
    harmless("pool import", &both(&imported));
    harmless("the log", &server.log());
    let gone = server.run(&["pool", "import", "tank", "-d", HOSTILE]);
    harmless("an error", &both(&gone));
}
