//! Directories that stand for machines with RDMA.

use crate::capture::Machine;
use doctor::checks::judge;
use doctor::facts::Facts;
use doctor::rdma_setup::{RdmaSetup, plan};
use doctor::{Report, Severity};
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(crate) const DEVICE: &str = "/sys/class/infiniband/mlx5_0";
pub(crate) const PCI: &str = "/sys/devices/pci0000:40/0000:41:00.0";
pub(crate) const UNIT: &str = "/usr/lib/systemd/system/wirepool.service";

/// The packaged unit with room for RDMA.
pub(crate) const GOOD_UNIT: &str = "[Unit]\nLimitMEMLOCK=1\n[Service]\nUser=wirepool\nSupplementaryGroups=disk\nLimitMEMLOCK=infinity\n\
                         DevicePolicy=closed\nDeviceAllow=block-* rw\nDeviceAllow=char-infiniband_verbs rw\n\
                         DeviceAllow=/dev/infiniband/rdma_cm rw\n";

pub(crate) fn remove(machine: &Machine, path: &str) {
    let path = machine.dir.path().join(path.trim_start_matches('/'));
    match path.is_dir() {
        true => fs::remove_dir_all(path).expect("removed"),
        false => fs::remove_file(path).expect("removed"),
    }
}

pub(crate) fn permit(machine: &Machine, path: &str, mode: u32) {
    let path = machine.dir.path().join(path.trim_start_matches('/'));
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

/// Files of a port, relative to its device.
pub(crate) fn port(machine: &Machine, files: &[(&str, &str)]) {
    for (path, text) in files {
        machine.file(&format!("{DEVICE}/{path}"), text.as_bytes());
    }
}

/// Answers of the programs that show addresses and flow control.
fn programs(machine: &mut Machine) {
    machine.program(
        "ip -j addr",
        r#"[{"ifname":"ens1","addr_info":[{"local":"10.0.0.1"}]}]"#,
    );
    machine.program("ethtool -a ens1", "RX:\toff\nTX:\toff\n");
    machine.program(
        "dcb -j pfc show dev ens1",
        r#"{"prio-pfc":["off","off","off","on"]}"#,
    );
}

/// A machine with one Ethernet card of type ConnectX-4 Lx, RoCE and all that it needs.
pub(crate) fn roce() -> Machine {
    let mut machine = Machine::new();
    machine.link(&format!("{DEVICE}/device"), PCI);
    machine.file("/sys/bus/pci/drivers/mlx5_core/bind", b"");
    machine.link(&format!("{PCI}/driver"), "/sys/bus/pci/drivers/mlx5_core");
    machine.link("/sys/class/net/ens1/device", PCI);
    for (file, text) in [
        ("current_link_speed", "8.0 GT/s PCIe\n"),
        ("max_link_speed", "8.0 GT/s PCIe\n"),
        ("current_link_width", "8\n"),
        ("max_link_width", "8\n"),
        ("sriov_totalvfs", "8\n"),
        ("sriov_numvfs", "0\n"),
    ] {
        machine.file(&format!("{PCI}/{file}"), text.as_bytes());
    }
    port(
        &machine,
        &[
            ("node_type", "1: CA\n"),
            ("hca_type", "MT4117\n"),
            ("fw_ver", "14.32.1010\n"),
            ("node_guid", "b8ce:f603:0011:2233\n"),
            ("ports/1/state", "4: ACTIVE\n"),
            ("ports/1/phys_state", "5: LinkUp\n"),
            ("ports/1/rate", "25 Gb/sec (1X EDR)\n"),
            ("ports/1/link_layer", "Ethernet\n"),
            ("ports/1/sm_lid", "0x0\n"),
            ("ports/1/counters/symbol_error", "0\n"),
            (
                "ports/1/gids/0",
                "fe80:0000:0000:0000:bace:f6ff:fe11:2233\n",
            ),
            ("ports/1/gid_attrs/types/0", "RoCE v2\n"),
            ("ports/1/gid_attrs/ndevs/0", "ens1\n"),
            (
                "ports/1/gids/1",
                "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
            ),
            ("ports/1/gid_attrs/types/1", "RoCE v2\n"),
            ("ports/1/gid_attrs/ndevs/1", "ens1\n"),
            (
                "ports/1/gids/2",
                "0000:0000:0000:0000:0000:0000:0000:0000\n",
            ),
        ],
    );
    machine.files(&[
        ("/sys/class/net/ens1/type", "1\n"),
        ("/sys/class/net/ens1/mtu", "9000\n"),
        ("/sys/class/net/ens1/operstate", "up\n"),
        ("/sys/class/net/ens1/ecn/roce_np/enable/3", "1\n"),
        ("/sys/module/ib_uverbs/x", ""),
        ("/sys/module/rdma_cm/x", ""),
        ("/sys/module/rdma_ucm/x", ""),
        ("/sys/module/mlx5_ib/x", ""),
        ("/sys/module/nvme_rdma/x", ""),
        (
            "/etc/modules-load.d/rdma.conf",
            "ib_uverbs\nrdma-cm\nrdma_ucm\n",
        ),
        ("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0", ""),
        ("/usr/lib/x86_64-linux-gnu/librdmacm.so.1", ""),
        (
            "/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so",
            "",
        ),
        ("/dev/infiniband/uverbs0", ""),
        ("/dev/infiniband/rdma_cm", ""),
        ("/dev/infiniband/umad0", ""),
        (
            "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode",
            "RoCE v2\n",
        ),
        (
            "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
            "96\n",
        ),
        (
            "/etc/passwd",
            "root:x:0:0::/:/bin/sh\nwirepool:x:4000990:4000990::/:/bin/false\n",
        ),
        (
            "/etc/group",
            "disk:x:4000006:\nwirepool:x:4000990:\nrdma:x:4000007:other,wirepool\n",
        ),
        ("/etc/os-release", "NAME=x\nID=ubuntu\nID_LIKE=\"debian\"\n"),
        (UNIT, GOOD_UNIT),
    ]);
    permit(&machine, "/dev/infiniband/uverbs0", 0o666);
    permit(&machine, "/dev/infiniband/rdma_cm", 0o666);
    programs(&mut machine);
    machine.link(
        "/usr/lib/x86_64-linux-gnu/libibverbs.so.1",
        "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0",
    );
    machine
}

/// The same card as InfiniBand, with an interface `ib0`.
pub(crate) fn infiniband() -> Machine {
    let machine = roce();
    remove(&machine, "/sys/class/net/ens1");
    remove(&machine, &format!("{DEVICE}/ports/1/gids"));
    remove(&machine, &format!("{DEVICE}/ports/1/gid_attrs"));
    machine.link("/sys/class/net/ib0/device", PCI);
    machine.file(&format!("{PCI}/net/ib0/mtu"), b"65520\n");
    port(
        &machine,
        &[
            ("hca_type", "MT4115\n"),
            ("ports/1/link_layer", "InfiniBand\n"),
            ("ports/1/rate", "56 Gb/sec (4X FDR)\n"),
            ("ports/1/sm_lid", "0x1\n"),
            (
                "ports/1/gids/0",
                "fe80:0000:0000:0000:b8ce:f603:0011:2233\n",
            ),
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
        ],
    );
    machine.files(&[
        ("/sys/class/net/ib0/type", "32\n"),
        ("/sys/class/net/ib0/mode", "connected\n"),
        ("/sys/class/net/ib0/mtu", "65520\n"),
        ("/sys/module/ib_ipoib/x", ""),
        ("/etc/modules-load.d/ipoib.conf", "ib_ipoib\n"),
    ]);
    machine
}

/// Findings of RDMA as checks and severities.
pub(crate) fn found(facts: &Facts) -> (Vec<(String, Severity)>, Report) {
    let report = judge(facts, false);
    let own = report.findings.iter();
    let own = own.filter(|f| f.check.starts_with("rdma-"));
    let own = own.map(|f| (f.check.clone(), f.severity)).collect();
    (own, report)
}

/// The machine has exactly these findings of RDMA, and its report has this text.
#[track_caller]
pub(crate) fn finds(machine: &Machine, expected: &[(&str, Severity)], text: &str) {
    let (own, report) = found(&machine.capture());
    let own: Vec<_> = own.iter().map(|(c, s)| (c.as_str(), *s)).collect();
    assert_eq!(own, expected, "{}", report.text());
    assert!(report.text().contains(text), "{text}: {}", report.text());
}

pub(crate) fn setup(machine: &Machine) -> RdmaSetup {
    plan(&machine.capture(), false)
}
