//! Addresses as clients and operators see them: discovery, sessions, log, configuration (decision 0344).

use crate::common::{BASE, HOST, Place, RAM, client, connect};
use iscsi::wire::IscsiName;
use iscsi_initiator::discover as discover_iscsi;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Transport, discover as discover_nvme};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

const TARGET: &str = r#"
[iscsi]
listen = ["[::]:0"]
[[disk]]
name = "other"
kind = "mem"
size = "16M"
[[target]]
iqn = "iqn.2026-01.org.example:a"
initiators = ["any"]
[[target.lun]]
lun = 0
disk = "other"
"#;

/// The addresses that NVMe discovery and SendTargets tell to one who comes to these ports of 127.0.0.1.
fn told(nvme: u16, iscsi: u16) -> (Vec<String>, Vec<String>) {
    client(async move {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let host: Nqn = HOST.parse().expect("valid");
        let service = (Transport::Tcp, at(nvme));
        let paths = discover_nvme(service, &host, HostId([7; 16])).await;
        let paths = paths.expect("a discovery log").into_iter();
        let initiator = IscsiName::new("iqn.2026-01.org.example:host").expect("valid");
        let limit = Duration::from_secs(60);
        let targets = discover_iscsi(at(iscsi), &initiator, None, limit).await;
        let targets = targets.expect("targets").into_iter();
        let portals = targets.flat_map(|t| t.addresses);
        let portals = portals.map(|p| p.trim_end_matches(",1").to_owned());
        (
            paths.map(|p| p.addr.to_string()).collect(),
            portals.collect(),
        )
    })
}

/// Regression: on `[::]`, hosts with IPv4 were told portals such as `[::ffff:127.0.0.1]:3260`, and `session list` and the log showed
/// such addresses.
#[test]
fn on_every_address_ipv4_hosts_see_and_have_ipv4_addresses() {
    let base = BASE.replace("127.0.0.1:0", "[::]:0");
    let place = Place::new(&format!("{base}{RAM}{TARGET}"));
    let server = place.start();
    let (nvme, iscsi) = (server.io[0].port(), server.iscsi[0].port());
    let (paths, portals) = told(nvme, iscsi);
    assert_eq!(paths, [format!("127.0.0.1:{nvme}")]);
    assert_eq!(portals, [format!("127.0.0.1:{iscsi}")]);

    let mut config = server.client();
    config.addr = SocketAddr::from(([127, 0, 0, 1], nvme));
    let server = client(async move {
        let controller = connect(config).await;
        let sessions = server.json(&["session", "list"]);
        let text = |key: &str| sessions[0][key].as_str().expect("an address").to_owned();
        assert!(text("peer").starts_with("127.0.0.1:"), "{sessions}");
        controller.shutdown().await;
        server
    });
    assert!(!server.log().contains("::ffff:"), "{}", server.log());
    assert!(server.terminate().success());
}

/// Regression: names in `advertise` were refused, so that a server behind a name with a changing address could not be discovered.
#[test]
fn discovery_tells_the_addresses_of_names() {
    let base = BASE.replace(
        "127.0.0.1:0\"]",
        "127.0.0.1:0\"]\nadvertise = [\"LOCALHOST:4499\"]\nreferrals = [\"no-such-host.invalid:8009\"]",
    );
    let target = TARGET.replace(
        "[::]:0\"]",
        "127.0.0.1:0\"]\nadvertise = [\"localhost:3299\", \"192.0.2.7:3299\"]",
    );
    let place = Place::new(&format!("{base}{RAM}{target}"));
    let server = place.start();
    let resolved = |list: &Value| list.to_string().contains("127.0.0.1:3299");
    server.wait_for(&["export", "list"], resolved);
    let (paths, portals) = told(server.io[0].port(), server.iscsi[0].port());
    assert!(paths.contains(&"127.0.0.1:4499".to_owned()), "{paths:?}");
    assert!(paths.iter().all(|p| p.ends_with(":4499")), "{paths:?}");
    for portal in ["127.0.0.1:3299", "192.0.2.7:3299"] {
        assert!(portals.contains(&portal.to_owned()), "{portals:?}");
    }
    let names_it = |s: &Value| s["warnings"].to_string().contains("no-such-host.invalid");
    server.wait_for(&["status"], names_it);
    assert!(server.terminate().success());
}

/// Regression: mistyped addresses were taken for names of hosts, and zones by name for neither.
#[test]
fn the_configuration_says_what_is_wrong_with_an_address() {
    for (listen, reason) in [
        ("127.1:0", "\"127.1\" is no address"),
        ("010.0.0.1:4420", "\"010.0.0.1\" is no address"),
        ("10.0.0.256:4420", "\"10.0.0.256\" is no address"),
        (
            "[fe80::1%no-such0]:4420",
            "no network interface \"no-such0\"",
        ),
        ("localhost:4420", "expected an address and a port"),
    ] {
        let text = BASE.replace("127.0.0.1:0", listen);
        let said = Place::new(&text).serve_fails();
        assert!(said.contains(reason), "{listen}: {said}");
    }
    let advertised = BASE.replace(
        "127.0.0.1:0\"]",
        "127.0.0.1:0\"]\nadvertise = [\"192.168.1:4420\"]",
    );
    let said = Place::new(&advertised).serve_fails();
    assert!(said.contains("\"192.168.1\" is no address"), "{said}");
}
