//! From files to findings: modules, rdma-core, device files, the unit; and the plan of a setup.

use crate::capture::Machine;
use crate::rdma_machine::{
    DEVICE, GOOD_UNIT, UNIT, finds, found, permit, port, remove, roce, setup,
};
use doctor::capture::capture;
use doctor::checks::judge;
use doctor::facts::{Facts, Known, Server};
use doctor::{Report, Severity};

#[test]
fn healthy_roce_has_no_finding() {
    let machine = roce();
    finds(&machine, &[], "");
    let facts = machine.capture();
    let report = judge(&facts, false);
    let own = report.not_checked.iter();
    let own = own.filter(|n| n.check.starts_with("rdma-"));
    let own: Vec<&str> = own.map(|n| n.check.as_str()).collect();
    assert_eq!(own, ["rdma-listen"], "without a server: {}", report.text());
    let port = &facts.rdma.ports.value().expect("ports")[0];
    assert_eq!(
        (port.driver.as_str(), port.hca_type.as_str()),
        ("mlx5_core", "MT4117")
    );
    assert_eq!(port.firmware, "14.32.1010");
    assert_eq!(
        facts.rdma.version.value(),
        Some(&Some("44.0".to_owned())),
        "the library's name has it"
    );
    assert_eq!(port.gids.value().expect("GIDs").len(), 2);
    assert_eq!(
        facts.rdma.nodes.value().expect("nodes").len(),
        2,
        "umad is not used"
    );
    assert_eq!(facts.service.uid.value(), Some(&4_000_990));
    assert_eq!(
        facts.service.gids.value().expect("groups"),
        &[4_000_007, 4_000_990, 4_000_006]
    );
    let setup = setup(&machine);
    assert!(setup.is_complete() && !setup.is_applicable(), "{setup:?}");
    assert!(setup.text().contains(
        "mlx5_0/1: Ethernet, ACTIVE, link LinkUp, 25 Gb/s, interface ens1, GIDs RoCE v2"
    ));
    assert!(
        setup.text().contains("nothing has to be set up"),
        "{}",
        setup.text()
    );
}

#[test]
fn a_machine_without_devices_has_one_quiet_line() {
    let machine = Machine::new();
    machine.file("/sys/class/net/lo/mtu", b"65536");
    let (own, report) = found(&machine.capture());
    assert!(own.is_empty(), "{}", report.text());
    let lines: Vec<&str> = report.remarks.iter().map(String::as_str).collect();
    assert_eq!(lines.len(), 1);
    assert!(report.text().contains(lines[0]), "{}", report.text());
    let own = report.not_checked.iter();
    let own: Vec<_> = own.filter(|n| n.check.starts_with("rdma-")).collect();
    // The modules that are loaded cannot be read in this tree.
    assert!(own.iter().all(|n| n.check == "rdma-driver"), "{own:?}");
}

#[test]
fn a_small_limit_of_locked_memory() {
    let machine = roce();
    let found = [("rdma-memlock", Severity::Warning)];
    let unit = |line: &str| GOOD_UNIT.replace("LimitMEMLOCK=infinity", line);
    machine.file(UNIT, unit("LimitMEMLOCK=64M").as_bytes());
    finds(&machine, &found, "LimitMEMLOCK 65536 KiB, needed 512 MiB");
    machine.file(UNIT, unit("").as_bytes());
    finds(&machine, &found, "LimitMEMLOCK 8192 KiB");
    machine.file(
        "/etc/systemd/system.conf",
        b"[Manager]\nDefaultLimitMEMLOCK=16M:1G\n",
    );
    finds(&machine, &found, "LimitMEMLOCK 16384 KiB");
    // A drop-in in /etc hides one of the same name in /usr.
    let drop_in = "wirepool.service.d/50-memory.conf";
    machine.files(&[
        (
            &format!("/usr/lib/systemd/system/{drop_in}"),
            "[Service]\nLimitMEMLOCK=1K\n",
        ),
        (
            &format!("/etc/systemd/system/{drop_in}"),
            "[Service]\n# text\nLimitMEMLOCK=1G\n",
        ),
    ]);
    finds(&machine, &[], "");
    // The running server's buffers count.
    let server = Server {
        pid: 7,
        buffer_limit: 2 << 30,
        listen: vec!["10.0.0.1:4420".parse().expect("an address")],
        ..Server::default()
    };
    machine.files(&[
        (
            "/proc/7/limits",
            "Max locked memory  8388608  8388608  bytes\n",
        ),
        (
            "/proc/7/status",
            "Uid:\t990\t990\t990\t990\nGid:\t990\t990\t990\t990\nGroups:\t6 7\n",
        ),
    ]);
    let facts = capture(&machine, Known::Value(server));
    let (own, report) = found_and_memlock(&facts);
    assert_eq!(own, ["memlock", "rdma-memlock"], "{}", report.text());
    assert!(
        report.text().contains("needed 2048 MiB"),
        "{}",
        report.text()
    );
    assert_eq!(facts.service.uid.value(), Some(&990));
}

/// Names of the checks of RDMA and of locked memory with findings, sorted.
fn found_and_memlock(facts: &Facts) -> (Vec<String>, Report) {
    let report = judge(facts, false);
    let own = report.findings.iter().map(|f| f.check.clone());
    let mut own: Vec<String> = own
        .filter(|c| c.contains("memlock") || c.starts_with("rdma-"))
        .collect();
    own.sort();
    (own, report)
}

#[test]
fn the_packaged_unit_keeps_the_server_from_the_devices() {
    let machine = roce();
    let packaged = include_str!("../../../wirepool/package/wirepool.service");
    machine.file(UNIT, packaged.as_bytes());
    let found = [("rdma-unit-devices", Severity::Warning)];
    finds(
        &machine,
        &found,
        "DevicePolicy=closed, DeviceAllow=block-* rw: without uverbs and rdma_cm",
    );
    let setup = setup(&machine);
    let file = &setup.files[0];
    assert_eq!(
        file.path,
        "/etc/systemd/system/wirepool.service.d/90-rdma.conf"
    );
    assert_eq!(
        setup.commands,
        ["systemctl daemon-reload", "systemctl restart wirepool"]
    );
    machine.file(&file.path, file.text.as_bytes());
    finds(&machine, &[], "");
}

#[test]
fn one_drop_in_has_the_lines_of_all_findings() {
    let machine = roce();
    machine.file(
        UNIT,
        b"[Service]\nUser=wirepool\nPrivateDevices=yes\nLimitMEMLOCK=8M\n",
    );
    let expected = [
        ("rdma-unit-devices", Severity::Warning),
        ("rdma-memlock", Severity::Warning),
    ];
    finds(&machine, &expected, "PrivateDevices=yes");
    let setup = setup(&machine);
    assert_eq!(setup.files.len(), 1, "{setup:?}");
    assert!(setup.files[0].text.contains("LimitMEMLOCK=infinity\n"));
    machine.file(&setup.files[0].path, setup.files[0].text.as_bytes());
    finds(&machine, &[], "");
}

#[test]
fn without_rdma_core() {
    let machine = roce();
    remove(&machine, "/usr/lib/x86_64-linux-gnu");
    machine.file("/usr/lib/x86_64-linux-gnu/libc.so.6", b"");
    let found = [("rdma-libraries", Severity::Warning)];
    finds(
        &machine,
        &found,
        "apt-get install -y rdma-core libibverbs1 librdmacm1 ibverbs-providers",
    );
    machine.file(
        "/etc/os-release",
        b"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
    );
    finds(
        &machine,
        &found,
        "dnf install -y rdma-core libibverbs librdmacm",
    );
    machine.file("/etc/os-release", b"ID=plan9\n");
    finds(&machine, &found, "install rdma-core");
    // The server is restarted after everything else.
    machine.file("/etc/os-release", b"ID=debian\n");
    machine.file(UNIT, b"[Service]\nUser=wirepool\n");
    let plan = setup(&machine);
    assert_eq!(plan.packages.len(), 1, "{plan:?}");
    assert_eq!(
        plan.commands,
        ["systemctl daemon-reload", "systemctl restart wirepool"]
    );
    machine.file(UNIT, GOOD_UNIT.as_bytes());
    // A directory that only the loader's configuration names.
    machine.files(&[
        ("/etc/ld.so.conf.d/a.conf", "# text\n/opt/rdma/lib\n"),
        ("/opt/rdma/lib/libibverbs.so.1", ""),
        ("/opt/rdma/lib/librdmacm.so.1", ""),
    ]);
    let found = [("rdma-provider", Severity::Warning)];
    finds(&machine, &found, "libmlx5-rdmav*.so");
    machine.file("/opt/rdma/lib/libibverbs/libmlx5-rdmav25.so", b"");
    finds(&machine, &[], "");
}

#[test]
fn modules_are_loaded_now_and_at_boot() {
    let machine = roce();
    remove(&machine, "/etc/modules-load.d/rdma.conf");
    let found = [("rdma-modules-boot", Severity::Note)];
    finds(
        &machine,
        &found,
        "in no modules-load.d: ib_uverbs rdma_cm rdma_ucm",
    );
    machine.file("/usr/lib/modules-load.d/b.conf", b"ib_uverbs\nrdma_cm\n");
    finds(&machine, &found, "in no modules-load.d: rdma_ucm");
    remove(&machine, "/sys/module/rdma_ucm");
    remove(&machine, "/dev/infiniband/rdma_cm");
    let expected = [
        ("rdma-modules", Severity::Warning),
        ("rdma-device-files", Severity::Warning),
    ];
    finds(&machine, &expected, "modprobe -a rdma_ucm");
    let setup = setup(&machine);
    assert_eq!(setup.modules, ["rdma_ucm"]);
    let file = &setup.files[0];
    assert_eq!(file.path, "/etc/modules-load.d/wirepool-rdma.conf");
    let lines: Vec<&str> = file.text.lines().skip(1).collect();
    assert_eq!(lines, ["ib_uverbs", "rdma_cm", "rdma_ucm"]);
}

#[test]
fn a_card_whose_module_is_missing() {
    let machine = roce();
    remove(&machine, DEVICE);
    remove(&machine, "/sys/module/mlx5_ib");
    finds(
        &machine,
        &[("rdma-driver", Severity::Note)],
        "modprobe -a mlx5_ib",
    );
    let setup = setup(&machine);
    assert_eq!(setup.modules, ["mlx5_ib"]);
    assert!(
        setup.text().contains("run `wirepool rdma setup` again"),
        "{setup:?}"
    );
    machine.file("/sys/module/mlx5_ib/x", b"");
    finds(&machine, &[], "no RDMA device");
}

#[test]
fn device_files_that_the_service_may_not_open() {
    let machine = roce();
    permit(&machine, "/dev/infiniband/uverbs0", 0o600);
    let found = [("rdma-device-files", Severity::Warning)];
    finds(&machine, &found, "mode 600");
    finds(&machine, &found, "the server's user is 4000990");
    machine.file(
        UNIT,
        GOOD_UNIT.replace("User=wirepool", "User=root").as_bytes(),
    );
    finds(&machine, &[], "");
}

#[test]
fn soft_roce_is_told_from_the_card_below() {
    let machine = roce();
    port(
        &machine,
        &[
            ("parent", "ens1\n"),
            ("ports/1/rate", "100 Gb/sec (4X EDR)\n"),
        ],
    );
    let found = [("rdma-provider", Severity::Warning)];
    finds(&machine, &found, "librxe-rdmav*.so for driver rxe");
}

#[test]
fn the_server_listens_on_an_address_of_a_port() {
    let machine = roce();
    let listening = |address: &str| Server {
        listen: vec![address.parse().expect("an address")],
        ..Server::default()
    };
    for (address, is_found) in [
        ("10.0.0.1:4420", false),
        ("0.0.0.0:4420", false),
        ("192.0.2.1:4420", true),
    ] {
        let facts = capture(&machine, Known::Value(listening(address)));
        let report = judge(&facts, false);
        let has = report.findings.iter().any(|f| f.check == "rdma-listen");
        assert_eq!(has, is_found, "{address}: {}", report.text());
    }
}
