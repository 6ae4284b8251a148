//! Settings of clients, against golden files, and refusals.

use doctor::client_config::{
    Address, ClientSettings, ClientTransport, Export, Os, Unsupported, settings,
};
use std::path::PathBuf;

const SYSTEMS: &[(&str, Os)] = &[
    ("debian", Os::Debian),
    ("rhel", Os::Rhel),
    ("proxmox", Os::Proxmox),
    ("esxi", Os::Esxi),
    ("windows", Os::Windows),
];

fn address(host: &str, port: u16) -> Address {
    Address {
        host: host.into(),
        port,
    }
}

fn nvme(paths: &[&str]) -> Export {
    Export::Nvme {
        nqn: "nqn.2026-01.org.example:vm1".into(),
        discovery: paths.iter().map(|h| address(h, 8009)).collect(),
        namespaces: vec!["5c1e6f1c-0000-4000-8000-000000000001".into()],
    }
}

fn iscsi(paths: &[&str], has_chap: bool) -> Export {
    Export::Iscsi {
        iqn: "iqn.2026-01.org.example:vm2".into(),
        portals: paths.iter().map(|h| address(h, 3260)).collect(),
        luns: vec![0, 1],
        has_chap,
    }
}

fn nfs(host: &str, port: u16) -> Export {
    Export::Nfs {
        path: "/tank/home".into(),
        addresses: vec![address(host, port)],
        shards: 8,
    }
}

/// Settings over TCP.
fn over_tcp(export: &Export, os: Os) -> Result<ClientSettings, Unsupported> {
    settings(export, os, ClientTransport::Tcp)
}

fn golden(name: &str, text: &str) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/client_config");
    let path = directory.join(format!("{name}.txt"));
    if std::env::var_os("WIREPOOL_BLESS").is_some() {
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(&path, text).expect("written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{name} has changed: run this test with WIREPOOL_BLESS=1 and read the difference"
    );
}

#[test]
fn settings_are_the_golden_ones() {
    let exports = [
        ("nvme", nvme(&["10.0.0.1"])),
        ("nvme-paths", nvme(&["10.0.0.1", "10.0.1.1"])),
        ("iscsi", iscsi(&["10.0.0.1"], false)),
        ("iscsi-paths-chap", iscsi(&["10.0.0.1", "10.0.1.1"], true)),
        ("nfs", nfs("10.0.0.1", 2049)),
        ("nfs-v6-port", nfs("fd00::1", 12049)),
    ];
    for (name, export) in &exports {
        for (system, os) in SYSTEMS {
            let text = match over_tcp(export, *os) {
                Ok(s) => s.text(),
                Err(e) => format!("{e}\n"),
            };
            golden(&format!("{name}-{system}"), &text);
        }
    }
}

#[test]
fn settings_over_rdma_are_the_golden_ones() {
    let exports = [
        ("nvme", {
            let mut export = nvme(&[]);
            if let Export::Nvme { discovery, .. } = &mut export {
                discovery.push(address("10.0.0.1", 4420));
            }
            export
        }),
        ("iscsi", iscsi(&["10.0.0.1"], false)),
        ("nfs", nfs("10.0.0.1", 20049)),
    ];
    for (name, export) in &exports {
        for (system, os) in &SYSTEMS[..3] {
            let settings = settings(export, *os, ClientTransport::Rdma).expect("settings");
            golden(&format!("{name}-rdma-{system}"), &settings.text());
        }
        for (_, os) in &SYSTEMS[3..] {
            let refused = settings(export, *os, ClientTransport::Rdma);
            assert!(matches!(refused, Err(Unsupported::NoClient(_))));
        }
    }
}

#[test]
fn an_export_without_an_address_is_refused() {
    assert_eq!(
        over_tcp(&nvme(&[]), Os::Debian),
        Err(Unsupported::NoAddress(ClientTransport::Tcp))
    );
}

#[test]
fn a_name_that_would_change_a_file_is_refused() {
    for bad in [
        "nqn.2026-01.x:a\"b",
        "nqn.x:a\nb",
        "nqn.x:$(reboot)",
        "",
        "nqn.x:a b",
        "nqn.x:\u{202e}a",
    ] {
        for (_, os) in SYSTEMS {
            let export = Export::Nvme {
                nqn: bad.into(),
                discovery: vec![address("10.0.0.1", 4420)],
                namespaces: vec![],
            };
            assert_eq!(over_tcp(&export, *os), Err(Unsupported::Name(bad.into())));
        }
    }
    let export = nfs("10.0.0.1;reboot", 2049);
    assert!(matches!(
        over_tcp(&export, Os::Debian),
        Err(Unsupported::Name(_))
    ));
}

#[test]
fn the_settings_satisfy_the_checks_of_clients() {
    // The checks ask for 60 s at least, and for 30 s at most with multipath.
    let text = over_tcp(&iscsi(&["10.0.0.1"], false), Os::Debian)
        .expect("settings")
        .text();
    assert!(text.contains("replacement_timeout = 600"), "{text}");
    let text = over_tcp(&iscsi(&["10.0.0.1", "10.0.1.1"], false), Os::Debian);
    let text = text.expect("settings").text();
    assert!(text.contains("replacement_timeout = 15"), "{text}");
    assert!(text.contains("no_path_retry 120"), "{text}");
    let text = over_tcp(&nvme(&["10.0.0.1"]), Os::Rhel)
        .expect("settings")
        .text();
    assert!(
        text.contains("--ctrl-loss-tmo=600") && !text.contains("iopolicy"),
        "{text}"
    );
}
