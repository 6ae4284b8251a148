//! The web console in Debian's Chromium, driven by playwright-core and judged by axe-core: `tests/browser/console.mjs`.
//!
//! **Invariants**: `xtask/install.sh test` puts the npm packages into `target/browser`; nothing is fetched. With
//! `WIREPOOL_BLESS=1` the screenshots of `docs/console.md` are written.

use crate::api::Api;
use crate::common::{HOST, Server, client, connect};
use crate::console::{PASSWORD, start, user};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Config, WriteOptions};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A host and a subsystem with markup in their names.
const ODD_HOST: &str = "nqn.2026-01.org.example:host<img/src=x/onerror=alert(1)>";
const ODD_NQN: &str = "nqn.2026-01.org.example:z<img/src=x/onerror=alert(1)>";
const NQN: &str = "nqn.2026-01.org.example:vm1";
const REPORT: &str = "<!doctype html><html><head><title>Drill: &lt;b&gt;cable&lt;/b&gt;</title></head>\
    <body><p id=\"verdict\">passed</p><script>alert('report')</script></body></html>";

fn packages() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_wirepool")).ancestors().nth(2);
    let dir = target
        .expect("a target directory")
        .join("browser/node_modules");
    assert!(
        dir.join("playwright-core").is_dir(),
        "`xtask/install.sh test` installs the browser and its driver"
    );
    dir
}

/// Volumes of a large server, each with an export.
const MANY: usize = 1000;
/// Clients that export them.
const EXPORTERS: usize = 25;

/// A browser that runs a script of `tests/browser` against the console; its output goes to `log`.
fn browser(script: &str, server: &Server, (disks, shots): (&Path, &Path), log: &File) -> Child {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let url = format!("https://{}/", server.console.expect("served"));
    Command::new("node")
        .arg(scripts.join(script))
        .env("NODE_PATH", packages())
        .env("WIREPOOL_URL", url)
        .env("WIREPOOL_PASSWORD", PASSWORD)
        .env("WIREPOOL_DISKS", disks)
        .env("WIREPOOL_SHOTS", shots)
        .stdin(Stdio::null())
        .stderr(log.try_clone().expect("a log"))
        .stdout(log.try_clone().expect("a log"))
        .spawn()
        .expect("node runs: `xtask/install.sh test` installs it")
}

/// Regression: with a thousand volumes, the console asked for 636 KB every two seconds.
#[test]
fn a_poll_of_a_large_server_is_small() {
    let (place, server) = start("");
    server.ok(&["pool", "create", "tank", "d1.img", "--size", "800M"]);
    let mut api = Api::of(&place);
    for n in 1..=MANY {
        let name = format!("tank/v{n}");
        api.post("/v1/volumes/create", json!({"name": name, "size": "1M"}));
    }
    // Together, as an orchestrator does: they share writes of the configuration.
    std::thread::scope(|scope| {
        for first in 1..=EXPORTERS {
            let mut api = Api::of(&place);
            scope.spawn(move || {
                for n in (first..=MANY).step_by(EXPORTERS) {
                    let export = json!({"disk": format!("tank/v{n}"), "hosts": ["any"]});
                    api.post("/v1/exports/nvme", export);
                }
            });
        }
    });
    let (dir, said) = (place.path(""), place.path("browser.log"));
    let log = File::create(&said).expect("a log");
    let mut child = browser("polls.mjs", &server, (&dir, &dir), &log);
    let status = child.wait().expect("a child");
    let said = fs::read_to_string(said).expect("a log");
    println!("{said}");
    assert!(status.success(), "{said}\n{}", server.log());
    assert!(server.terminate().success());
}

#[test]
fn the_console_works_in_a_browser() {
    let (place, server) = start("");
    fs::create_dir(place.path("w.state/reports")).expect("made");
    fs::write(place.path("w.state/reports/cable.html"), REPORT).expect("written");
    let disks = ["mirror", "d1.img", "d2.img", "--size", "160M"];
    server.ok(&[&["pool", "create", "tank"], &disks[..]].concat());
    let classes = "c.img special s.img log l.img cache k.img --size 128M";
    let classes: Vec<&str> = classes.split(' ').collect();
    server.ok(&[&["pool", "create", "classes"], &classes[..]].concat());
    server.ok(&["volume", "create", "tank/vm1", "--size", "64M"]);
    server.ok(&["fs", "create", "tank/home"]);
    server.ok(&["snapshot", "create", "tank/vm1@monday"]);
    server.ok(&["volume", "create", "tank/vm2", "--size", "64M"]);
    for (nqn, volume) in [(NQN, "tank/vm1"), (ODD_NQN, "tank/vm2")] {
        server.ok(&["export", "add", nqn, volume]);
        server.ok(&["host", "allow", nqn, "any"]);
    }

    let mut foreign = vec![0; 128 << 20];
    foreign[..15].copy_from_slice(b"something dear.");
    fs::write(place.path("foreign.img"), foreign).expect("written");
    let reader = user(&place, &["add", "eve", "--read-only"], PASSWORD);
    assert!(reader.is_ok(), "{reader:?}");

    let bless = std::env::var_os("WIREPOOL_BLESS").is_some();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let shots = if bless { docs } else { place.path("shots") };
    fs::create_dir_all(&shots).expect("made");
    let said = place.path("browser.log");
    let log = File::create(&said).expect("a log");
    let mut browser = browser("console.mjs", &server, (&place.path(""), &shots), &log);

    // Two sessions with some load, while the browser looks.
    let name = |text: &str| text.parse::<Nqn>().expect("valid");
    let of = |nqn, host, id| Config::new(server.io[0], name(nqn), name(host), HostId([id; 16]));
    let configs = [of(NQN, HOST, 7), of(ODD_NQN, ODD_HOST, 8)];
    let status = client(async move {
        let [plain, odd] = configs.map(connect);
        let controllers = [plain.await, odd.await];
        let mut block = 0;
        loop {
            for controller in &controllers {
                let namespace = controller.namespace(Nsid(1)).await.expect("served");
                let buffer = io::pool().alloc(4096).await;
                let done = match block % 4 {
                    0 => {
                        namespace
                            .write(block, Arc::new(buffer), WriteOptions { fua: true })
                            .await
                    }
                    _ => namespace.read(block, buffer).await.0,
                };
                done.expect("done");
            }
            block = (block + 1) % 1024;
            if let Some(status) = browser.try_wait().expect("a child") {
                return status;
            }
            io::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let said = fs::read_to_string(said).expect("a log");
    println!("{said}");
    assert!(status.success(), "{said}\n{}", server.log());
    assert!(server.terminate().success());
}
