//! The web console over HTTPS, as browsers and as strangers use it: login, sessions, origins, pages, users.

use crate::common::{BASE, Place, RAM, Server};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use tls::Connector;

pub(crate) const PASSWORD: &str = "correct horse battery";
const CONSOLE: &str = "[console]\nlisten = \"127.0.0.1:0\"\n";

/// A server with a console and the user `ann`.
pub(crate) fn start(extra: &str) -> (Place, Server) {
    let place = Place::new(&format!("{BASE}{CONSOLE}{RAM}{extra}"));
    let server = place.start();
    let said = user(&place, &["add", "ann"], PASSWORD);
    assert_eq!(said, Ok("user ann may log in to the console\n".to_owned()));
    (place, server)
}

/// `wirepool console user`, with a password in stdin; its output, or its error.
pub(crate) fn user(place: &Place, args: &[&str], password: &str) -> Result<String, String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wirepool"))
        .args(["console", "user"])
        .args(args)
        .env("WIREPOOL_CONTROL", place.path("c.sock"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run");
    let mut input = child.stdin.take().expect("piped");
    // A command that asks for no password may have ended.
    let _ = writeln!(input, "{password}\nanother line");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

/// A browser: its cookie, and the origin that it names.
struct Browser {
    address: SocketAddr,
    certificate: Vec<u8>,
    cookie: Option<String>,
    origin: String,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|l| l.split_once(": "));
        lines.find(|(n, _)| *n == name).map(|(_, value)| value)
    }
}

impl Browser {
    fn new(place: &Place, server: &Server) -> Browser {
        let address = server.console.expect("served");
        let certificate = fs::read(place.path("w.state/console/certificate.pem"));
        Browser {
            address,
            certificate: certificate.expect("made"),
            cookie: None,
            origin: format!("https://localhost:{}", address.port()),
        }
    }

    /// Sends bytes, and receives until the server closes the connection.
    fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let connector = Connector::new(&self.certificate, None, b"http/1.1").expect("usable");
        let mut engine = connector.engine("localhost").expect("a name");
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let (mut answer, mut is_sent) = (Vec::new(), false);
        loop {
            let mut out = Vec::new();
            engine.take_output(&mut out);
            stream.write_all(&out).expect("open");
            if !engine.is_handshaking() && !is_sent {
                engine.encrypt(request);
                is_sent = true;
                continue;
            }
            let mut wire = [0; 16384];
            let n = stream.read(&mut wire).unwrap_or(0);
            let mut rest = &wire[..n];
            while !rest.is_empty() && !engine.is_closed() {
                let taken = engine.decrypt(rest).expect("TLS");
                rest = &rest[taken..];
                let mut plain = [0; 16384];
                while let read @ 1.. = engine.read(&mut plain) {
                    answer.extend_from_slice(&plain[..read]);
                }
            }
            if n == 0 || engine.is_closed() {
                return answer;
            }
        }
    }

    /// Sends a request with these headers besides those of every request.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let port = self.address.port();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        if let Some(cookie) = &self.cookie {
            request += &format!("Cookie: {cookie}\r\n");
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let answer = self.exchange(format!("{request}\r\n{body}").as_bytes());
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
        let end = end.expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).expect("text");
        let status = head.split(' ').nth(1).expect("a status");
        Answer {
            status: status.parse().expect("a number"),
            body: answer[end + 4..].to_vec(),
            head,
        }
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// As the console's own script sends it.
    fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [("Origin", self.origin.as_str()), ("X-Wirepool", "person")];
        self.ask("POST", path, &headers, &body.to_string())
    }

    fn log_in(&mut self, user: &str, password: &str) -> Answer {
        let answer = self.post("/session", &json!({"user": user, "password": password}));
        if answer.status == 200 {
            let cookie = answer.header("set-cookie").expect("a cookie");
            let (pair, rest) = cookie.split_once(';').expect("attributes");
            assert_eq!(rest, " Path=/; Secure; HttpOnly; SameSite=Strict");
            assert!(pair.starts_with("__Host-wirepool="), "{pair}");
            self.cookie = Some(pair.to_owned());
        }
        answer
    }
}

#[test]
fn a_user_logs_in_works_and_logs_out() {
    let (place, server) = start("");
    let mut browser = Browser::new(&place, &server);
    assert_eq!(browser.get("/session").status, 401);
    assert_eq!(browser.log_in("ann", PASSWORD).status, 200);
    assert_eq!(
        browser.get("/session").json(),
        json!({"user": "ann", "role": "admin"})
    );
    assert_eq!(browser.get("/v1/disks").json()[0]["name"], "ram");
    let status = browser.get("/v1/status").json();
    let shown = &status["console"]["fingerprint"];
    let listed = server.ok(&["status"]);
    assert!(listed.contains(shown.as_str().expect("text")), "{listed}");
    // A change goes through the same handlers as one of the command line, and into the log.
    let pool = json!({"name": "tank", "vdevs": [{"layout": "disk", "members": [place.path("d.img")]}], "size": "96M"});
    let made = browser.post("/v1/pools/create", &pool);
    assert_eq!(made.status, 200, "{}", String::from_utf8_lossy(&made.body));
    assert_eq!(server.json(&["pool", "list"])[0]["name"], "tank");
    let log = place.wait_for_log("a request of the console");
    assert!(
        log.contains("user=\"ann\"") && !log.contains(PASSWORD),
        "{log}"
    );
    // The console shows the log, newest first, and a part of it by its words.
    let lines = browser.post("/v1/rows", &json!({"list": "log", "words": "CONSOLE ann"}));
    let lines = lines.json();
    let text = lines["rows"][0]["text"].as_str().expect("a line");
    assert!(
        text.contains("a request of the console") && log.contains(text),
        "{text}"
    );
    let refused = browser.post("/v1/pools/create", &pool);
    assert_eq!(refused.json()["code"], "conflict");
    // The history of rates is kept.
    loop {
        let rates = browser.post("/v1/rates", &json!({})).json();
        if rates[0]["time_ms"].as_u64().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(server.json(&["console", "user", "list"])[0]["sessions"], 1);
    let headers = [
        ("Origin", browser.origin.as_str()),
        ("X-Wirepool", "person"),
    ];
    let ended = browser.ask("DELETE", "/session", &headers, "");
    assert!(
        ended
            .header("set-cookie")
            .expect("one")
            .ends_with("; Max-Age=0")
    );
    assert_eq!(browser.get("/v1/disks").status, 401, "the token is dead");
    assert!(server.terminate().success());
}

#[test]
fn a_stranger_sees_the_login_and_nothing_else() {
    let (place, server) = start("");
    let mut stranger = Browser::new(&place, &server);
    let page = stranger.get("/");
    assert_eq!(page.status, 200);
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("content-type", "text/html; charset=utf-8"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
    fs::create_dir(place.path("w.state/reports")).expect("made");
    fs::write(place.path("w.state/reports/a.html"), "secret").expect("written");
    let forged = format!("__Host-wirepool={}", "0".repeat(64));
    for cookie in [None, Some(forged)] {
        stranger.cookie = cookie;
        for path in [
            "/v1/status",
            "/v1/openapi.json",
            "/v1/sessions",
            "/reports/a.html",
        ] {
            assert_eq!(stranger.get(path).status, 401, "{path}");
        }
        let post = stranger.post("/v1/pools/checkpoint", &json!({"name": "tank"}));
        assert_eq!(post.status, 401);
    }
    stranger.cookie = None;
    assert_eq!(stranger.get("/nothing").status, 404);
    assert_eq!(stranger.get("/../../etc/passwd").status, 404);
    assert_eq!(stranger.post("/", &json!({})).status, 405);
    // Plain HTTP is no TLS.
    let mut plain = TcpStream::connect(stranger.address).expect("it listens");
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("open");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"));
    assert!(server.terminate().success());
}

#[test]
fn a_page_of_another_server_can_do_nothing() {
    let (place, server) = start("");
    let mut browser = Browser::new(&place, &server);
    browser.log_in("ann", PASSWORD);
    let own = browser.origin.clone();
    let script = ("X-Wirepool", "person");
    let remove = json!({"nqn": crate::common::NQN}).to_string();
    let path = "/v1/exports/remove";
    for headers in [
        &[][..],
        &[script],
        &[("Origin", own.as_str())],
        &[("Origin", "https://evil.example"), script],
        &[("Origin", "null"), script],
        &[
            ("Origin", own.as_str()),
            script,
            ("Sec-Fetch-Site", "cross-site"),
        ],
    ] {
        let answer = browser.ask("POST", path, headers, &remove);
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let preflight = [
        ("Origin", "https://evil.example"),
        ("Access-Control-Request-Method", "POST"),
    ];
    assert_eq!(browser.ask("OPTIONS", path, &preflight, "").status, 403);
    let framed = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Dest", "iframe"),
    ];
    assert_eq!(browser.ask("GET", "/", &framed, "").status, 403);
    assert_eq!(
        server.json(&["status"])["exports"][0]["nqn"],
        crate::common::NQN
    );
    // The request that all of them tried.
    let answer = browser.post(path, &json!({"nqn": crate::common::NQN}));
    assert_eq!(answer.status, 200);
    assert!(server.terminate().success());
}

#[test]
fn users_are_managed_on_the_server_only() {
    let (place, server) = start("");
    let mut browser = Browser::new(&place, &server);
    browser.log_in("ann", PASSWORD);
    let eve = json!({"name": "eve", "password": "long enough"});
    assert_eq!(browser.post("/v1/console/users/add", &eve).status, 403);
    assert_eq!(browser.get("/v1/console/users").status, 403);
    assert!(user(&place, &["add", "bob"], "short").is_err_and(|e| e.contains("8 to 1024")));
    assert!(user(&place, &["add", "b<b>"], "long enough").is_err());
    assert!(user(&place, &["add", "ann"], "long enough").is_err_and(|e| e.contains("exists")));
    assert!(
        user(&place, &["password", "bob"], "long enough")
            .is_err_and(|e| e.contains("no such user"))
    );
    user(&place, &["password", "ann"], "something new").expect("set");
    assert_eq!(browser.get("/session").status, 401, "logged out");
    assert_eq!(browser.log_in("ann", PASSWORD).status, 401);
    assert_eq!(browser.log_in("ann", "something new").status, 200);
    let listed = server.ok(&["console", "user", "list"]);
    assert!(listed.contains("ann"), "{listed}");
    user(&place, &["remove", "ann"], "").expect("removed");
    assert_eq!(browser.get("/session").status, 401);
    // A restart keeps users and certificate, and no session.
    user(&place, &["add", "ann"], PASSWORD).expect("added");
    browser.log_in("ann", PASSWORD);
    let fingerprint = server.json(&["status"])["console"]["fingerprint"].clone();
    assert!(server.terminate().success());
    let server = place.start();
    assert_eq!(
        server.json(&["status"])["console"]["fingerprint"],
        fingerprint
    );
    browser.address = server.console.expect("served");
    browser.origin = format!("https://localhost:{}", browser.address.port());
    assert_eq!(browser.get("/session").status, 401);
    assert_eq!(browser.log_in("ann", PASSWORD).status, 200);
    assert!(server.terminate().success());
}

/// What `wirepool demo --keep` serves and prints: the user and the password that it makes are those of the console.
#[test]
fn the_demo_has_a_console_to_log_in_to() {
    let disks = vec![lab::served::ServedDisk::Memory(16 << 20)];
    let config = lab::served::ServeConfig {
        console: true,
        ..lab::served::ServeConfig::of(env!("CARGO_BIN_EXE_wirepool").into(), disks, "")
    };
    crate::common::client(async move {
        let served = lab::served::Served::start(&config)
            .await
            .expect("it serves");
        let login = served
            .add_console_user("demo")
            .expect("added")
            .expect("served");
        let mut browser = Browser {
            address: login.address,
            certificate: fs::read(&login.certificate).expect("made"),
            cookie: None,
            origin: format!("https://localhost:{}", login.address.port()),
        };
        assert_eq!(browser.log_in(&login.user, &login.password).status, 200);
        assert_eq!(browser.get("/v1/disks").json()[0]["kind"], "mem");
        served.stop().expect("it ends");
    });
}

/// Every request of the table of routes: a reader gets answers to questions, and 403 for all others.
#[test]
fn a_reader_may_ask_everything_and_change_nothing() {
    let (place, server) = start("");
    server.ok(&["pool", "create", "tank", "d.img", "--size", "96M"]);
    let said = user(&place, &["add", "eve", "--read-only"], PASSWORD);
    assert!(said.is_ok_and(|text| text.contains("only look")));
    let mut reader = Browser::new(&place, &server);
    let answer = reader.log_in("eve", PASSWORD);
    assert_eq!(answer.json(), json!({"user": "eve", "role": "reader"}));
    let before = place.text();
    let (mut questions, mut changes) = (0, 0);
    let document = server::openapi();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let (method, operation) = methods
            .as_object()
            .and_then(|m| m.iter().next())
            .expect("one");
        let is_change = operation["x-changes"].as_bool().expect("a flag");
        // `why` and the doctor take seconds, and are questions.
        if path == "/v1/why" || path == "/v1/doctor" {
            assert!(!is_change, "{path}");
            continue;
        }
        let status = match method.as_str() {
            "get" => reader.get(path).status,
            _ => {
                reader
                    .post(path, &json!({"name": "tank", "force": true}))
                    .status
            }
        };
        match is_change || path.starts_with("/v1/console/") {
            true => {
                assert_eq!(status, 403, "{method} {path}");
                changes += 1;
            }
            false => {
                assert!(
                    status == 200 || status == 400 || status == 404,
                    "{path}: {status}"
                );
                questions += 1;
            }
        }
    }
    assert!(questions > 15 && changes > 50, "{questions} {changes}");
    assert_eq!(place.text(), before);
    assert_eq!(server.json(&["pool", "list"])[0]["name"], "tank");
    // A handler that takes another form of the path gets nothing, either.
    for path in [
        "/v1/pools/destroy/",
        "//v1/pools/destroy",
        "/v1/pools/./destroy",
    ] {
        let status = reader
            .post(path, &json!({"name": "tank", "force": true}))
            .status;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    let listed = server.json(&["console", "user", "list"]);
    assert_eq!(
        (&listed[0]["role"], &listed[1]["role"]),
        (&json!("admin"), &json!("reader"))
    );
    // A new password is no way to more rights.
    user(&place, &["password", "eve"], "something new").expect("set");
    assert_eq!(
        reader.log_in("eve", "something new").json()["role"],
        "reader"
    );
    assert!(server.terminate().success());
}

#[test]
fn guessing_is_limited() {
    let (place, server) = start("");
    let mut browser = Browser::new(&place, &server);
    let mut other = Browser::new(&place, &server);
    other.log_in("ann", PASSWORD);
    for n in 0..20 {
        let name = if n % 2 == 0 { "ann" } else { "nobody" };
        let answer = browser.log_in(name, "a wrong guess");
        assert_eq!(
            (answer.status, answer.json()["message"].as_str()),
            (401, Some("user or password is wrong"))
        );
    }
    let answer = browser.log_in("ann", PASSWORD);
    assert_eq!(answer.status, 429, "even the right one");
    let wait: u64 = answer
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("s");
    assert!((1..=301).contains(&wait));
    server.refused(&["console", "user", "unlock", "nobody"]);
    server.ok(&["console", "user", "unlock", "ann"]);
    assert_eq!(browser.log_in("ann", PASSWORD).status, 200);
    assert_eq!(other.get("/session").status, 200, "a session goes on");
    for bad in ["", "{}", "[]", "{\"user\": 1, \"password\": []}", "\u{0}"] {
        let headers = [
            ("Origin", browser.origin.as_str()),
            ("X-Wirepool", "person"),
        ];
        assert_eq!(browser.ask("POST", "/session", &headers, bad).status, 400);
    }
    let long = json!({"user": "ann", "password": "x".repeat(100_000)});
    assert_eq!(other.post("/session", &long).status, 413);
    assert!(server.terminate().success());
}

#[test]
fn pages_are_compressed_and_kept() {
    let (place, server) = start("");
    let browser = Browser::new(&place, &server);
    let zipped = browser.ask("GET", "/main.js", &[("Accept-Encoding", "br, gzip")], "");
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert!(zipped.body.starts_with(&[0x1f, 0x8b]));
    let plain = browser.get("/main.js");
    assert_eq!(plain.header("content-encoding"), None);
    assert!(plain.body.starts_with(b"// The console"));
    let version = plain.header("etag").expect("a version").to_owned();
    let again = browser.ask("GET", "/main.js", &[("If-None-Match", &version)], "");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert!(server.terminate().success());
}

#[test]
fn reports_are_shown_without_scripts() {
    let (place, server) = start("");
    fs::create_dir(place.path("w.state/reports")).expect("made");
    let page = "<html><title>Drill: cable</title><script>alert(1)</script>";
    fs::write(place.path("w.state/reports/cable.html"), page).expect("written");
    fs::write(place.path("w.state/secret.html"), "secret").expect("written");
    let mut browser = Browser::new(&place, &server);
    browser.log_in("ann", PASSWORD);
    let list = browser.get("/v1/reports").json();
    assert_eq!(list[0]["title"], "Drill: cable");
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    let shown = browser.get("/reports/cable.html");
    assert_eq!(shown.body, page.as_bytes());
    let policy = shown.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("sandbox; default-src 'none'"),
        "{policy}"
    );
    for path in [
        "/reports/..%2Fsecret.html",
        "/reports/../secret.html",
        "/reports/none.html",
    ] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    assert!(server.terminate().success());
}

#[test]
fn a_certificate_that_cannot_be_used_leaves_everything_else_served() {
    let files = "certificate = \"none.pem\"\nkey = \"none.key\"\n";
    let place = Place::new(&format!("{BASE}{CONSOLE}{files}{RAM}"));
    let server = place.start();
    assert_eq!(server.console, None);
    let status = server.ok(&["status"]);
    assert!(status.contains("the console is not served"), "{status}");
    assert!(server.terminate().success());
    let alone = Place::new(&format!("{BASE}{CONSOLE}key = \"k\"\n{RAM}"));
    assert!(
        alone
            .serve_fails()
            .contains("expected `certificate` beside it")
    );
}
