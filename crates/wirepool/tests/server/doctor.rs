//! `wirepool doctor` beside a running server, without one, and on saved facts; `wirepool client-config`.

use crate::common::{BASE, NQN, Place, RAM, client, connect, run};
use serde_json::Value;
use std::process::Output;

const OTHERS: &str = r#"
[iscsi]
listen = ["127.0.0.1:0"]
[[disk]]
name = "second"
kind = "mem"
size = "16M"
block_size = 512
"#;

fn json(output: &Output) -> Value {
    // Findings of the machine that runs the test decide between 0 and 1.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Reasons and objects of a check that was not made.
fn not_checked<'r>(report: &'r Value, check: &str) -> Vec<&'r str> {
    let all = report["not_checked"].as_array().expect("a list");
    let own = all.iter().filter(|n| n["check"] == check);
    own.map(|n| n["reason"].as_str().expect("text")).collect()
}

#[test]
fn the_doctor_examines_server_and_sessions() {
    let place = Place::new(&format!("{BASE}{RAM}"));
    let server = place.start();
    server.ok(&["pool", "create", "tank", "d1.img", "--size", "128M"]);
    let mut config = server.client();
    config.reconnect = nvmf_initiator::Reconnect::NEVER;
    client(async move {
        let _controller = connect(config).await;
        let facts = place.path("facts.json");
        let path = facts.to_str().expect("text");
        let report = json(&server.run(&["doctor", "--json", "--save", path]));
        assert!(
            not_checked(&report, "session-errors").is_empty(),
            "{report}"
        );
        assert!(report["checks"].as_u64() > Some(80));
        let text = std::fs::read_to_string(&facts).expect("saved");
        let saved: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(saved["server"]["members"][0]["pool"], "tank", "{saved}");
        assert_eq!(saved["server"]["sessions"][0]["protocol"], "nvme");
        assert!(saved["process"]["open_files"].as_u64().is_some(), "{saved}");
        let again = json(&server.run(&["doctor", "--json", "--facts", path]));
        assert_eq!(again, report, "saved facts have the same findings");
        let script = server.run(&["doctor", "--fix-script", "--facts", path]);
        assert!(script.stdout.starts_with(b"#!/bin/sh\n"), "{script:?}");
        server.terminate();
    });
}

#[test]
fn the_doctor_without_a_server_judges_the_machine() {
    let place = Place::new(BASE);
    let dir = place.path("");
    let report = json(&run(&dir, &["doctor", "--json"]));
    let reasons = not_checked(&report, "session-mss");
    assert!(
        reasons.iter().any(|r| r.contains("no running server")),
        "{reasons:?}"
    );
    let client = json(&run(&dir, &["doctor", "--json", "--client"]));
    assert!(
        not_checked(&client, "session-mss").is_empty(),
        "a check for servers"
    );
    std::fs::write(place.path("bad.json"), "{\"format\": 99}").expect("written");
    for name in ["bad.json", "missing.json"] {
        let output = run(&dir, &["doctor", "--facts", name]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            !output.stderr.is_empty() && output.stdout.is_empty(),
            "{output:?}"
        );
    }
}

/// The findings of a check: objects with their evidence.
fn found(report: &Value, check: &str) -> Vec<String> {
    let all = report["findings"].as_array().expect("a list");
    let own = all.iter().filter(|f| f["check"] == check);
    own.map(|f| format!("{} {}: {}", f["severity"], f["object"], f["evidence"]))
        .collect()
}

#[test]
fn a_server_that_does_not_answer_is_critical() {
    let place = Place::new(BASE);
    let dir = place.path("");
    let socket = place.path("silent.sock");
    // it takes connections into its queue, and never answers
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let socket = socket.to_str().expect("text");
    let report = json(&run(&dir, &["doctor", "--json", "--control", socket]));
    let silent = found(&report, "server-silent");
    assert!(
        matches!(&silent[..], [one] if one.contains("critical") && one.contains(socket)),
        "{report}"
    );
    let reasons = not_checked(&report, "pool-full");
    assert!(
        reasons.iter().any(|r| r.contains("did not answer")),
        "{reasons:?}"
    );
    let missing = place.path("missing.sock");
    let missing = missing.to_str().expect("text");
    let report = json(&run(&dir, &["doctor", "--json", "--control", missing]));
    assert!(found(&report, "server-silent").is_empty(), "{report}");
}

#[test]
fn pools_and_exports_that_clients_miss_are_critical() {
    let place = Place::new(BASE);
    let server = place.start();
    server.ok(&["pool", "create", "tank", "d1.img", "--size", "128M"]);
    server.ok(&["volume", "create", "tank/vol", "--size", "16M"]);
    server.ok(&["set", "sync=disabled", "tank/vol"]);
    server.ok(&["export", "nvme", "tank/vol", "--nqn", NQN]);
    let report = json(&server.run(&["doctor", "--json"]));
    for check in ["pool-unusable", "export-held", "pool-full", "scrub-old"] {
        assert!(found(&report, check).is_empty(), "{report}");
        assert!(not_checked(&report, check).is_empty(), "{report}");
    }
    let disabled = found(&report, "sync-disabled");
    assert!(
        matches!(&disabled[..], [one] if one.contains("tank/vol")),
        "{report}"
    );
    server.terminate();
    std::fs::rename(place.path("d1.img"), place.path("away.img")).expect("moved");
    let server = place.start();
    let report = json(&server.run(&["doctor", "--json"]));
    let unusable = found(&report, "pool-unusable");
    assert!(
        matches!(&unusable[..], [one] if one.contains("critical") && one.contains("pool tank")),
        "{report}"
    );
    let held = found(&report, "export-held");
    assert!(
        matches!(&held[..], [one] if one.contains("critical") && one.contains(NQN)),
        "{report}"
    );
    server.terminate();
}

#[test]
fn clients_get_settings_for_each_export() {
    let place = Place::new(&format!("{BASE}{RAM}{OTHERS}"));
    let server = place.start();
    let iqn = "iqn.2026-01.org.example:b";
    server.ok(&[
        "export",
        "iscsi",
        "second",
        "--iqn",
        iqn,
        "--initiator",
        "any",
    ]);
    let settings = server.json(&["client-config", NQN, "--os", "debian"]);
    assert_eq!(settings["files"][1]["path"], "/etc/nvme/discovery.conf");
    let text = settings["files"][1]["text"].as_str().expect("text");
    let port = server.io[0].port();
    assert!(
        text.contains(&format!("--traddr=127.0.0.1 --trsvcid={port} ")),
        "{text}"
    );
    let text = server.ok(&[
        "client-config",
        "second",
        "--os",
        "rhel",
        "--address",
        "10.0.0.1",
        "--address",
        "10.0.1.1",
    ]);
    assert!(
        text.contains("/etc/multipath.conf") && text.contains(iqn),
        "{text}"
    );
    // Proxmox' storage.cfg: properties of a storage begin with a tab (pve-storage, SectionConfig).
    let text = server.ok(&["client-config", iqn, "--os", "proxmox"]);
    assert!(text.contains(&format!("\n\ttarget {iqn}\n")), "{text}");
    assert!(!text.contains("\\t"), "{text}");
    // ESXi takes units with blocks of 512 bytes: the disk of the target has them, that of the subsystem has the default.
    let text = server.ok(&["client-config", NQN, "--os", "esxi"]);
    assert!(
        text.contains("ram has blocks of 4096 bytes") && text.contains("--block-size 512"),
        "{text}"
    );
    for (export, os) in [(iqn, "esxi"), (NQN, "debian")] {
        let text = server.ok(&["client-config", export, "--os", os]);
        assert!(!text.contains("--block-size"), "{text}");
    }
    let text = server.refused(&["client-config", NQN, "--os", "windows"]);
    assert!(text.contains("iSCSI"), "{text}");
    let text = server.refused(&["client-config", "nothing", "--os", "debian"]);
    assert!(text.contains("export list"), "{text}");
}

/// A tree of files with an RDMA card, and a server that systemd keeps from it.
fn card(root: &std::path::Path) {
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    for (path, text) in [
        (format!("{port}/state"), "4: ACTIVE\n"),
        (format!("{port}/phys_state"), "5: LinkUp\n"),
        (format!("{port}/link_layer"), "Ethernet\n"),
        ("sys/module/rdma_cm/x".into(), ""),
        (
            "usr/lib/systemd/system/wirepool.service".into(),
            include_str!("../../package/wirepool.service"),
        ),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text).expect("a file");
    }
}

#[test]
fn rdma_is_set_up_after_consent_only() {
    let place = Place::new(BASE);
    let dir = place.path("");
    let root = place.path("image");
    card(&root);
    let files = [
        root.join("etc/modules-load.d/wirepool-rdma.conf"),
        root.join("etc/systemd/system/wirepool.service.d/90-rdma.conf"),
    ];
    let root = root.to_str().expect("text");
    let setup = |args: &[&str]| run(&dir, &[&["rdma", "setup", "--root", root], args].concat());
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let plan = json(&setup(&["--json"]));
    assert_eq!(plan["files"].as_array().expect("a list").len(), 2, "{plan}");
    assert_eq!(
        plan["modules"],
        serde_json::json!(["ib_uverbs", "rdma_ucm"])
    );
    for args in [&[][..], &["--print"]] {
        let output = setup(args);
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output).contains("nothing was changed"), "{output:?}");
    }
    // Without a person nobody consents.
    assert_eq!(setup(&["--apply"]).status.code(), Some(1));
    assert_eq!(setup(&["--apply", "--json"]).status.code(), Some(1));
    assert_eq!(setup(&["--yes"]).status.code(), Some(2));
    assert!(files.iter().all(|f| !f.exists()), "nothing is written");
    let output = setup(&["--apply", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output);
    assert!(
        said.contains("not loaded, because --root does not run: ib_uverbs rdma_ucm"),
        "{said}"
    );
    assert!(
        said.contains("left to do:") && said.contains("systemctl restart wirepool"),
        "{said}"
    );
    let texts = || {
        files
            .each_ref()
            .map(|f| std::fs::read_to_string(f).expect("a file"))
    };
    let printed = plan["files"].as_array().expect("a list");
    let printed: Vec<&str> = printed.iter().filter_map(|f| f["text"].as_str()).collect();
    for text in texts() {
        assert!(printed.contains(&text.as_str()), "{text}: {printed:?}");
    }
    // The modules of an image are never loaded, so its plan still has their file.
    let second = setup(&["--apply", "--yes"]);
    assert!(
        text(&second).contains("unchanged: ") && !text(&second).contains("written: "),
        "{second:?}"
    );
    let before = texts();
    let own = "nvme_rdma\n";
    std::fs::write(&files[0], own).expect("an administrator's file");
    let third = setup(&["--apply", "--yes"]);
    let kept = files[0].with_extension("conf.old");
    for words in [
        "wirepool-rdma.conf has other contents",
        "(the former file is kept as",
    ] {
        assert!(text(&third).contains(words), "{third:?}");
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("kept"), own);
    assert_eq!(texts(), before);
    let directory = files[0].parent().expect("a parent");
    let names = std::fs::read_dir(directory).expect("listed").count();
    assert_eq!(names, 2, "the file and the kept one");
    let plan = json(&setup(&["--json"]));
    let drop_in = plan["files"].as_array().expect("a list");
    let drop_in = drop_in
        .iter()
        .any(|f| f["path"].as_str().is_some_and(|p| p.contains("90-rdma")));
    assert!(!drop_in, "the unit allows the devices now: {plan}");
    let client = json(&setup(&["--client", "--json"]));
    assert!(
        client["commands"].as_array().expect("a list").is_empty(),
        "a client has no unit: {client}"
    );
}
