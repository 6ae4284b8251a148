//! Tables, keys and drawings without a terminal, and the terminal itself under `script`.

use super::reading::Reading;
use super::rows;
use super::screen::Screen;
use super::state::{Action, Board, Mode};
use super::table::{All, Kind, Value};
use super::view::{self, CHROME};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use server::api::{SessionSummary, Status};
use std::process::Command;
use std::time::{Duration, Instant};

const HOSTILE: &str = "x\x1b[2J\u{9b}31m\nFORGED\r\u{202e}gnp\u{200b}\x07";
/// Names the place of the terminal's settings before and after a panic, for the test that runs itself.
const PANIC_IN: &str = "WIREPOOL_TEST_PANIC_IN";

/// A session, `age` readings old: each reading has 1000 commands and 4 MiB more.
fn session(id: u32, host: &str, age: u64) -> SessionSummary {
    let text = json!({
        "id": id, "protocol": "nvme", "kind": "io", "state": "ready", "client": host, "host_id": "", "export": "nqn.a",
        "peer": "10.0.0.7:1000", "transport": "tcp", "header_digest": false, "data_digest": false, "io_queues": 4,
        "depth": 128, "bytes_in": age << 22, "bytes_out": 0, "commands": age * 1000 * u64::from(id), "errors": 0,
        "rtt_us": 90, "retransmits": 0, "keep_alive_age_ms": 1500, "keep_alive_timeout_ms": 5000, "connected_at_ms": 5,
        "reconnects": 0,
    });
    serde_json::from_value(text).expect("a session")
}

fn status(age: u64) -> Status {
    let member = |guid: &str, path: &str| {
        json!({
            "guid": guid, "path": path, "state": "online", "reads": age * 200, "writes": 0, "read_errors": 0,
            "write_errors": 1, "checksum_errors": 2, "repairs": 0, "read_bytes": age << 23, "written_bytes": 0,
            "read_times": {"count": age * 200, "sum_us": age * 200 * 80, "p50_us": 0, "p99_us": 0, "max_us": 0},
        })
    };
    let vdev = json!({
        "name": "mirror-0", "layout": "mirror", "health": "online", "size": 1_u64 << 40, "members": [member("a1", "/dev/a"), member("b2", "/dev/b")],
    });
    let special = json!({
        "size": 1000, "used": 390, "freeing": 10, "free": 600, "takes_small_records": false, "spilled": [], "spilled_of_pool": 4096,
    });
    let cache = json!({
        "guid": "c3", "path": "/dev/k", "reason": null, "size": 1, "used": 1, "blocks": 1, "memory": 1, "hits": age * 300, "hit_bytes": 1,
        "misses": age * 100, "hits_of_twice": 0, "wrong": 0, "read_errors": 0, "entered": 0, "over_budget": 0, "written": 0,
        "written_today": 0, "daily": 0,
    });
    let text = json!({
        "version": "0.1.0", "state": "serving", "pid": 7, "uptime_s": 60, "config": "/c", "control": "/s", "state_dir": "/d",
        "listen": [], "metrics": null, "fd_limit": 0, "connections_max": 0, "sessions": 2, "shards": [],
        "disks": [{
            "name": "ram", "kind": "mem", "path": null, "state": "online", "reason": null, "size": 4096, "block_size": 512,
            "used": null, "read_only": false, "nqn": null, "nsid": null,
        }],
        "pools": [{
            "name": "tank", "guid": "1", "state": "online", "health": "online", "reason": null, "disks": [], "size": 1_u64 << 40,
            "special": special, "caches": [cache],
            "used": 1_u64 << 38, "freeing": 0, "free": 3_u64 << 38, "reserved": 0, "dirty": 4096, "vdevs": [vdev],
            "scrub": {
                "state": "running", "started_ms": 0, "active_ms": 1, "done": 30, "of": 90, "repaired": 0, "lost": 0,
            },
        }],
        "advertise": [],
        "exports": [{
            "nqn": "nqn.a", "serial": "1", "hosts": ["any"], "sessions": 2, "namespaces": [{
                "nsid": 1, "uuid": "5c1e6f1c-0000-4000-8000-000000000001", "disk": "tank/vm1", "state": "served", "reason": null,
                "size": 1 << 30, "block_size": 4096,
            }],
        }],
        "warnings": ["disk ram loses its data with the server"],
    });
    serde_json::from_value(text).expect("a status")
}

/// Each reading has ten reads more: 80 µs in the device and 20 µs in the queue each.
fn stages(age: u64) -> serde_json::Value {
    let stage = |name: &str, us: u64| json!({"stage": name, "sum_ns": age * 10 * us * 1000, "buckets": [[us * 1000, age * 10]]});
    json!({
        "at_ms": age * 2000,
        "exports": [{
            "protocol": "nvme", "export": "nqn.a", "slowest": [],
            "requests": [{"command": "read", "count": age * 10, "stages": [stage("queue", 20), stage("device", 80)]}],
        }],
    })
}

fn reading(at: Instant, age: u64, sessions: Vec<SessionSummary>) -> Reading {
    let facts = server::why::Reading {
        stages: serde_json::from_value(stages(age)).expect("stages"),
        status: status(age),
        sessions,
    };
    Reading { facts, at }
}

/// The tables of two readings with two seconds between them.
fn tables(hosts: &[&str]) -> All {
    let sessions = |age| {
        let hosts = hosts.iter().zip(1..);
        hosts.map(|(h, id)| session(id, h, age)).collect()
    };
    let began = Instant::now();
    let before = reading(began, 1, sessions(1));
    let now = reading(began + Duration::from_secs(2), 2, sessions(2));
    rows::all(Some(&before), &now)
}

fn cell<'a>(all: &'a All, table: usize, row: usize, key: &str) -> &'a Value {
    let table = &all.tables[table];
    let column = table.columns.iter().position(|c| c.key == key);
    &table.rows[row][column.expect("a column")]
}

fn state(hosts: &[&str]) -> Board {
    let mut state = Board::new(Duration::from_secs(2));
    state.resize(10);
    state.read(Ok(tables(hosts)));
    state
}

fn press(state: &mut Board, keys: &str) -> Action {
    let mut last = Action::Draw;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '→' => KeyCode::Right,
            '⇟' => KeyCode::PageDown,
            '⇥' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        last = state.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

/// The texts of a column in the order of the screen.
fn column(state: &Board, key: &str) -> Vec<String> {
    let table = state.table().expect("a table");
    let number = table.columns.iter().position(|c| c.key == key);
    let number = number.expect("a column");
    let rows = state.shown().iter();
    rows.map(|r| table.rows[*r][number].text(Kind::Text).into_owned())
        .collect()
}

fn screen(state: &mut Board, width: u16, height: u16) -> Vec<String> {
    state.resize(usize::from(height.saturating_sub(CHROME)));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| view::draw(frame, state))
        .expect("a drawing");
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    let lines = (0..height).map(|y| line(y).trim_end().to_owned());
    lines.collect()
}

#[test]
fn rates_are_growth_by_time() {
    let all = tables(&["a", "b"]);
    assert_eq!(all.seconds, Some(2.0));
    assert_eq!(
        cell(&all, 0, 0, "reads_per_second"),
        &Value::Number(200),
        "both members"
    );
    assert_eq!(cell(&all, 0, 0, "used_percent"), &Value::Number(25));
    assert_eq!(cell(&all, 0, 0, "job"), &"scrub 33%".into());
    assert_eq!(
        cell(&all, 1, 0, "read_bytes_per_second"),
        &Value::Number(4 << 20)
    );
    assert_eq!(cell(&all, 1, 1, "read_us"), &Value::Number(80));
    assert_eq!(cell(&all, 1, 1, "errors"), &Value::Number(3));
    let on_cache = cell(&all, 0, 0, "cache_device_hit_percent");
    assert_eq!(on_cache, &Value::Number(75));
    assert_eq!(cell(&all, 0, 0, "special_used_percent"), &Value::Number(40));
    assert_eq!(cell(&all, 0, 0, "special_spilled"), &Value::Number(4096));
    assert_eq!(cell(&all, 1, 2, "device"), &"/dev/k".into());
    assert_eq!(cell(&all, 1, 2, "vdev"), &"cache".into());
    assert_eq!(cell(&all, 1, 2, "state"), &"online".into());
    assert_eq!(cell(&all, 1, 3, "device"), &"ram".into());
    assert_eq!(cell(&all, 1, 3, "reads_per_second"), &Value::Unknown);
    assert_eq!(
        cell(&all, 2, 0, "commands_per_second"),
        &Value::Number(1500),
        "of both sessions"
    );
    assert_eq!(cell(&all, 2, 0, "mean_us"), &Value::Number(100));
    assert_eq!(cell(&all, 2, 0, "longest_stage"), &"device 80%".into());
    assert_eq!(cell(&all, 2, 0, "disks"), &"tank/vm1".into());
    assert_eq!(
        cell(&all, 3, 1, "commands_per_second"),
        &Value::Number(1000)
    );
    assert_eq!(
        cell(&all, 3, 0, "received_bytes_per_second"),
        &Value::Number(2 << 20)
    );
}

#[test]
fn rates_are_unknown_without_an_earlier_reading() {
    let began = Instant::now();
    let now = reading(began, 2, vec![session(1, "a", 2)]);
    let first = rows::all(None, &now);
    assert_eq!(first.seconds, None);
    assert_eq!(cell(&first, 0, 0, "reads_per_second"), &Value::Unknown);
    assert_eq!(cell(&first, 3, 0, "commands_per_second"), &Value::Unknown);
    // A session that came between the readings, under the number of another one.
    let mut other = session(1, "a", 1);
    other.connected_at_ms = 1;
    let before = reading(began, 1, vec![other]);
    let now = reading(began + Duration::from_secs(1), 2, vec![session(1, "a", 2)]);
    let all = rows::all(Some(&before), &now);
    assert_eq!(cell(&all, 3, 0, "commands_per_second"), &Value::Unknown);
    assert_eq!(cell(&all, 2, 0, "commands_per_second"), &Value::Unknown);
    let same = rows::all(Some(&before), &before);
    assert_eq!(
        same.seconds, None,
        "two readings at one moment have no rate"
    );
}

#[test]
fn tables_are_sorted_by_a_column_that_keys_choose() {
    let mut state = state(&["b", "c", "a"]);
    press(&mut state, "4");
    assert_eq!(column(&state, "id"), ["3", "2", "1"], "numbers fall");
    press(&mut state, "H");
    assert_eq!(column(&state, "host"), ["a", "b", "c"], "texts rise");
    press(&mut state, "r");
    assert_eq!(column(&state, "host"), ["c", "b", "a"]);
    press(&mut state, "<");
    assert_eq!(state.view().sort, 1, "the column to the left");
    press(&mut state, ">>>>C");
    assert_eq!(
        column(&state, "commands_per_second"),
        ["1500", "1000", "500"]
    );
    press(&mut state, "<<<<<<<<<<<<<<<<<<<<");
    assert_eq!(state.view().sort, 0);
    press(&mut state, ">>>>>>>>>>>>>>>>>>>>>>>>>>>>>");
    assert_eq!(state.view().sort, 14, "the last column");
    press(&mut state, "⇥");
    assert_eq!(state.view().sort, 0, "each table has its own");
    press(&mut state, "4");
    assert_eq!(state.view().sort, 14);
}

#[test]
fn letters_of_a_table_are_unique_and_no_commands() {
    let all = tables(&[]);
    for table in &all.tables {
        let mut letters: Vec<char> = table.columns.iter().filter_map(|c| c.letter).collect();
        assert!(letters.iter().all(|l| l.is_ascii_uppercase() && *l != 'G'));
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count, "{}", table.title);
    }
}

#[test]
fn a_filter_applies_while_it_is_typed() {
    let mut state = state(&["alpha", "beta", "alpine"]);
    press(&mut state, "4H/AL");
    assert_eq!(state.mode, Mode::Filter("AL".into()));
    assert_eq!(
        column(&state, "host"),
        ["alpha", "alpine"],
        "case is ignored"
    );
    press(&mut state, "P\x08\x08\x08b");
    assert_eq!(column(&state, "host"), ["beta"]);
    press(&mut state, "\n");
    assert_eq!(state.mode, Mode::Table);
    assert_eq!(column(&state, "host"), ["beta"]);
    press(&mut state, "1");
    assert_eq!(column(&state, "pool"), ["tank"], "each table has its own");
    press(&mut state, "4\x1b");
    assert_eq!(state.passing(), 3);
    press(&mut state, "/!al\n");
    assert_eq!(column(&state, "host"), ["beta"]);
    press(&mut state, "\x1b/none of them");
    assert_eq!(state.passing(), 0);
    assert_eq!(screen(&mut state, 40, 6)[5], "/none of them_");
    press(&mut state, "\x1b");
    assert_eq!(state.passing(), 3);
}

#[test]
fn scrolling_stays_within_the_rows() {
    let names: Vec<String> = (0..25).map(|i| format!("h{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = state(&names);
    press(&mut state, "4H");
    press(&mut state, "↑");
    assert_eq!(column(&state, "host")[0], "h00");
    press(&mut state, "↓j");
    assert_eq!(column(&state, "host")[0], "h02");
    press(&mut state, "k");
    assert_eq!(column(&state, "host")[0], "h01");
    press(&mut state, "⇟");
    assert_eq!(column(&state, "host")[0], "h10", "a page less a row");
    press(&mut state, "G↓");
    assert_eq!(column(&state, "host")[9], "h24");
    // Rows that go away, and a larger screen.
    state.read(Ok(tables(&names[..12])));
    assert_eq!(column(&state, "host")[9], "h11");
    state.resize(100);
    assert_eq!(column(&state, "host").len(), 12);
    press(&mut state, "g→→");
    assert_eq!(state.view().left, 2);
}

#[test]
fn intervals_are_typed_and_checked() {
    let mut state = state(&[]);
    assert_eq!(
        press(&mut state, "d0.5\n"),
        Action::Interval(Duration::from_millis(500))
    );
    assert_eq!(state.interval, Duration::from_millis(500));
    for bad in ["0", "-1", "x", "1e9", "NaN", ""] {
        assert_eq!(press(&mut state, &format!("d{bad}\n")), Action::Draw);
        assert!(state.message.is_some(), "{bad}");
    }
    assert_eq!(state.interval, Duration::from_millis(500));
    press(&mut state, "d3\x1b");
    assert_eq!(
        (state.interval, &state.mode),
        (Duration::from_millis(500), &Mode::Table)
    );
}

#[test]
fn keys_that_quit() {
    let mut state = state(&[]);
    assert_eq!(press(&mut state, "q"), Action::Quit);
    assert_eq!(
        press(&mut state, "/q"),
        Action::Draw,
        "a filter has all letters"
    );
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.press(control), Action::Quit, "also there");
    press(&mut state, "\x1b?");
    assert_eq!(press(&mut state, "q"), Action::Draw, "closes the help");
    assert_eq!(press(&mut state, "q"), Action::Quit);
}

#[test]
fn a_small_screen() {
    let mut state = state(&[
        "nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001",
        "b",
    ]);
    assert_eq!(
        screen(&mut state, 100, 7),
        [
            "wirepool 0.1.0, serving for 1 min, process 7; every 2 s",
            " 1 Pools 1   2 Devices 4   3 Exports 1   4 Sessions 2",
            "POOL▲  STATE       SIZE     ALLOC      FREE   CAP  READS/S  WRITES/S        READ     WRITTEN  CACHED",
            "tank   ONLINE     1 TiB   256 GiB   768 GiB   25%      200         0     8 MiB/s       0 B/s       -",
            "",
            "",
            "rows 1 to 1 of 1  ? help  q quit  warning: disk ram loses its data with the server",
        ]
    );
}

#[test]
fn every_size_of_the_screen_can_be_drawn() {
    let mut state = state(&["a", "日本語のホスト", HOSTILE]);
    for keys in ["1", "2", "3", "4", "→→→", "/x", "\x1bd", "\x1b?"] {
        press(&mut state, keys);
        for (width, height) in [
            (1, 1),
            (1, 5),
            (5, 1),
            (7, 2),
            (9, 3),
            (30, 4),
            (80, 24),
            (400, 90),
        ] {
            screen(&mut state, width, height);
        }
    }
    let mut waiting = Board::new(Duration::from_secs(2));
    assert_eq!(screen(&mut waiting, 30, 4)[2], "waiting for the server");
    waiting.read(Err(format!("no server {HOSTILE}")));
    assert!(screen(&mut waiting, 30, 4)[3].starts_with("no server x\\u{1b}[2J"));
}

#[test]
fn hostile_names_are_shown_as_text() {
    let is_bad = |c: char| c.is_control() || c == '\u{202e}' || c == '\u{200b}';
    let mut state = state(&[HOSTILE, "b"]);
    press(&mut state, "4");
    let lines = screen(&mut state, 200, 8);
    assert!(!lines.iter().any(|l| l.contains(is_bad)), "{lines:?}");
    assert!(
        lines[4].contains("x\\u{1b}[2J\\u{9b}31m\\nFORGED"),
        "{lines:?}"
    );
    let all = tables(&[HOSTILE]);
    let plain = all.text();
    assert!(!plain.contains(|c| c != '\n' && is_bad(c)), "{plain}");
    assert!(!plain.lines().any(|l| l.starts_with("FORGED")));
    let json = serde_json::to_value(&all).expect("JSON");
    assert_eq!(json["sessions"][0]["host"], HOSTILE, "JSON is exact");
}

#[test]
fn ten_thousand_sessions_are_formatted_only_where_they_are_shown() {
    let names: Vec<String> = (0..10_000).map(|i| format!("host{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = state(&names);
    press(&mut state, "4CG");
    let lines = screen(&mut state, 120, 24);
    assert_eq!(state.shown().len(), 20);
    assert_eq!(
        lines[23],
        "rows 9981 to 10000 of 10000  ? help  q quit  warning: disk ram loses its data with the server"
    );
    assert!(lines[22].starts_with("     1  nvme"), "{lines:?}");
}

#[test]
fn the_plain_and_json_forms_have_the_same_rows() {
    let all = tables(&["a"]);
    let text = all.text();
    assert!(
        text.starts_with("wirepool 0.1.0, serving for 1 min, process 7\nwarning: disk ram"),
        "{text}"
    );
    assert!(text.contains("\nPOOL  STATE "), "{text}");
    let json = serde_json::to_value(&all).expect("JSON");
    assert_eq!(json["seconds"], 2.0);
    assert_eq!(json["pools"][0]["used"], 1_u64 << 38);
    assert_eq!(
        json["devices"][2]["reads_per_second"],
        serde_json::Value::Null
    );
    assert_eq!(json["exports"][0]["export"], "nqn.a");
    assert_eq!(json["sessions"][0]["commands_per_second"], 500);
    let empty = rows::all(None, &reading(Instant::now(), 1, Vec::new()));
    assert!(empty.text().ends_with("\nno sessions\n"));
}

/// Runs itself on a terminal of `script`, where it panics, and compares the terminal's settings.
#[test]
fn a_panic_restores_the_terminal() {
    if let Some(dir) = std::env::var_os(PANIC_IN) {
        let _screen = Screen::enter().expect("a terminal");
        std::fs::write(std::path::Path::new(&dir).join("entered"), "").expect("written");
        panic!("on purpose");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let me = std::env::current_exe().expect("this program");
    let line = format!(
        "stty -a > before; {} --exact top::tests::a_panic_restores_the_terminal --nocapture; stty -a > after",
        me.display()
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(dir.path())
        .env(PANIC_IN, dir.path())
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("script, of Debian's bsdutils");
    let settings = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("settings");
    settings("entered");
    assert_eq!(settings("before"), settings("after"));
    let text = String::from_utf8_lossy(&output.stdout);
    let (entered, left) = (text.find("\x1b[?1049h"), text.find("\x1b[?1049l"));
    assert!(entered.is_some() && entered < left, "{text:?}");
    assert!(
        text.find("on purpose") > left,
        "the message is on the usual screen: {text:?}"
    );
}
