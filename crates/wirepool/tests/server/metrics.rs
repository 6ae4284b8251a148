//! Metrics as Prometheus reads them.

use crate::common::{BASE, Place, RAM, client, connect};
use nvmf::wire::command::Nsid;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

pub(crate) fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("ask");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    body.to_owned()
}

/// The value of every series; panics at what does not parse, comes twice or was not announced.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut series = BTreeMap::new();
    let (mut typed, mut helped) = (BTreeSet::new(), BTreeSet::new());
    assert!(text.ends_with("# EOF\n"), "it is whole");
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (word, name, rest) = (
                words.next(),
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            match word {
                Some("HELP") => assert!(helped.insert(name.to_owned()) && rest.len() > 8, "{line}"),
                Some("TYPE") => assert!(
                    typed.insert(name.to_owned())
                        && ["counter", "gauge", "histogram"].contains(&rest),
                    "{line}"
                ),
                Some("EOF") => {}
                _ => panic!("what is {line:?}?"),
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').expect("a name and a value");
        let name = key.split('{').next().expect("a name");
        assert!(name.starts_with("wirepool_"), "{line}");
        let family = ["_total", "_bucket", "_count", "_sum"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        assert!(typed.contains(family) && helped.contains(family), "{line}");
        assert!(
            key.matches('{').count() == usize::from(key.ends_with('}')),
            "{line}"
        );
        assert!(
            series
                .insert(key.to_owned(), value.parse().expect(line))
                .is_none(),
            "twice: {line}"
        );
    }
    series
}

/// The names of all metrics in the page of the documentation.
fn documented() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("docs/metrics.md");
    let rows = page.lines().filter_map(|l| l.strip_prefix("| `wirepool_"));
    let names = rows.filter_map(|row| row.split_once('`'));
    names.map(|(name, _)| format!("wirepool_{name}")).collect()
}

/// The names of all metrics of a scrape, also of those without a series.
fn scraped(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let names = types.map(|line| match line.strip_suffix(" counter") {
        Some(name) => format!("{name}_total"),
        None => line.split(' ').next().unwrap_or_default().to_owned(),
    });
    names.collect()
}

#[test]
fn metrics_parse_and_count() {
    let odd = r#"nqn.2026-01.org.example:"quoted"\odd"#;
    let config = format!(
        "{BASE}[metrics]\nlisten = \"127.0.0.1:0\"\n{RAM}\n[[subsystem]]\nnqn = '{odd}'\nhosts = [\"any\"]\n[[disk]]\nname = \"lost\"\nkind = \"file\"\npath = \"lost\"\n"
    );
    let place = Place::new(&config);
    let server = place.start();
    let address = server.metrics.expect("served");
    let text = scrape(address);
    assert_eq!(scraped(&text), documented(), "docs/metrics.md");
    let before = parse(&text);
    assert_eq!(
        before[r#"wirepool_subsystem_sessions{subsystem="nqn.2026-01.org.example:\"quoted\"\\odd"}"#],
        0.0
    );
    assert_eq!(
        before[r#"wirepool_disk_online{disk="ram",kind="mem"}"#],
        1.0
    );
    assert_eq!(
        before[r#"wirepool_disk_online{disk="lost",kind="file"}"#],
        0.0
    );
    assert_eq!(
        before[r#"wirepool_namespace_served{subsystem="nqn.2026-01.org.example:a",nsid="1",disk="ram"}"#],
        1.0
    );
    assert_eq!(before["wirepool_sessions"], 0.0);
    for protocol in ["nvme", "iscsi", "nfs"] {
        let refused =
            format!(r#"wirepool_hosts_refused_total{{protocol="{protocol}",reason="not_listed"}}"#);
        assert_eq!(before[&refused], 0.0);
    }
    let config = server.client();
    let during = client(async move {
        let controller = connect(config).await;
        let namespace = controller.namespace(Nsid(1)).await.expect("served");
        for block in 0..10 {
            let (read, _) = namespace.read(block, io::pool().alloc(4096).await).await;
            read.expect("read");
        }
        // A block beyond the end: refused, and counted by its status.
        let (beyond, _) = namespace.read(1 << 40, io::pool().alloc(4096).await).await;
        assert!(beyond.is_err());
        loop {
            let now = parse(&scrape(address));
            if now.get(r#"wirepool_io_commands_total{opcode="read"}"#) >= Some(&11.0) {
                return now;
            }
        }
    });
    assert_eq!(during["wirepool_sessions"], 1.0);
    assert_eq!(during[r#"wirepool_connections{state="io"}"#], 1.0);
    assert!(during["wirepool_sent_bytes_total"] > 40_960.0);
    assert!(
        during
            .iter()
            .any(|(k, v)| k.starts_with("wirepool_command_errors_total{status=\"LBA") && *v == 1.0),
        "{during:?}"
    );
    assert!(
        during
            .keys()
            .any(|k| k.starts_with("wirepool_session_latency_seconds{")),
        "{during:?}"
    );
    let export = r#"subsystem="nqn.2026-01.org.example:a""#;
    assert_eq!(
        during[&format!("wirepool_subsystem_read_bytes_total{{{export}}}")],
        40_960.0
    );
    let reads = format!(r#"{{{export},command="read"}}"#);
    assert_eq!(
        during[&format!("wirepool_subsystem_command_seconds_count{reads}")],
        11.0
    );
    let all = format!(r#"{{le="+Inf",{export},command="read"}}"#);
    assert_eq!(
        during[&format!("wirepool_subsystem_command_seconds_bucket{all}")],
        11.0
    );
    let elsewhere = TcpStream::connect(address).and_then(|mut s| {
        s.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        s.read_to_string(&mut answer)?;
        Ok(answer)
    });
    assert!(elsewhere.expect("an answer").starts_with("HTTP/1.1 404"));
}

/// Most series of an export over NVMe that had no command, and of its RAM disk.
const IDLE_SERIES_MAX: usize = 9;

/// Regression: a thousand exports without a client had 104,000 series (15 MB a scrape), nearly all of them empty buckets.
#[test]
fn a_thousand_idle_exports_have_few_series() {
    let exports = |count: usize| {
        let one = |n: usize| {
            format!(
                "[[disk]]\nname = \"d{n}\"\nkind = \"mem\"\nsize = \"1M\"\n\
                 [[subsystem]]\nnqn = \"nqn.2026-01.org.example:d{n}\"\nhosts = [\"any\"]\n\
                 [[subsystem.namespace]]\nnsid = 1\ndisk = \"d{n}\"\n"
            )
        };
        let all: String = (0..count).map(one).collect();
        let place = Place::new(&format!("{BASE}[metrics]\nlisten = \"127.0.0.1:0\"\n{all}"));
        let server = place.start();
        let text = scrape(server.metrics.expect("served"));
        assert!(server.terminate().success());
        (parse(&text).len(), text.len())
    };
    let (none, _) = exports(0);
    let (all, bytes) = exports(1000);
    let of_exports = all - none;
    println!("a thousand idle exports have {of_exports} series, the scrape {bytes} bytes");
    assert!(of_exports > 1000, "they are in the scrape");
    assert!(of_exports <= 1000 * IDLE_SERIES_MAX, "{of_exports}");
}

/// Debian's promtool finds nothing wrong with names, units and help texts.
#[test]
fn prometheus_finds_nothing_wrong() {
    let config = format!("{BASE}[metrics]\nlisten = \"127.0.0.1:0\"\n{RAM}");
    let place = Place::new(&config);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "a.img", "--size", "96M"]);
    server.ok(&["volume", "create", "tank/vm1", "--size", "64M"]);
    server.ok(&["fs", "create", "tank/home"]);
    let mut stream = TcpStream::connect(server.metrics.expect("served")).expect("connect");
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("ask");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    for series in [
        "wirepool_pool_member_class_written_bytes_total{pool=\"tank\"",
        "wirepool_dataset_client_written_bytes_total{dataset=\"tank/vm1\"} 0",
        "wirepool_pool_journal_size_bytes{pool=\"tank\"}",
    ] {
        assert!(text.contains(series), "{series} is missing");
    }
    let unknown = "wirepool_pool_member_endurance_left_seconds{";
    assert!(!text.contains(unknown), "a file has no wear");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs: `xtask/install.sh test` installs Debian's prometheus");
    let mut input = promtool.stdin.take().expect("piped");
    input.write_all(text.as_bytes()).expect("read");
    drop(input);
    let output = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(server.terminate().success());
}
