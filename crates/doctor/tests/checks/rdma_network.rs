//! From files to findings: ports, modes, RoCE, InfiniBand.

use crate::rdma_machine::{DEVICE, PCI, finds, infiniband, port, remove, roce, setup};
use doctor::Severity;

#[test]
fn infiniband_without_a_subnet_manager() {
    let machine = infiniband();
    finds(&machine, &[], "");
    port(
        &machine,
        &[("ports/1/sm_lid", "0x0\n"), ("ports/1/state", "2: INIT\n")],
    );
    let expected = [
        ("rdma-subnet-manager", Severity::Critical),
        ("rdma-port-down", Severity::Warning),
    ];
    finds(&machine, &expected, "systemctl enable --now opensm");
    finds(&machine, &expected, "apt-get install -y opensm");
    let setup = setup(&machine);
    assert_eq!(setup.packages, ["apt-get install -y opensm"]);
    assert!(
        !setup.is_applicable(),
        "opensm belongs on one machine of the fabric: {setup:?}"
    );
    assert!(
        setup
            .by_hand
            .iter()
            .any(|w| w.steps.iter().any(|s| s.contains("opensm -B -g")))
    );
}

#[test]
fn a_port_without_cable_has_no_subnet_to_be_managed() {
    let machine = infiniband();
    port(
        &machine,
        &[
            ("hca_type", "MT4113\n"),
            ("ports/1/sm_lid", "0x0\n"),
            ("ports/1/state", "1: DOWN\n"),
            ("ports/1/phys_state", "2: Polling\n"),
        ],
    );
    finds(
        &machine,
        &[("rdma-port-down", Severity::Warning)],
        "check cable",
    );
}

#[test]
fn a_spare_port_that_is_down_is_a_note() {
    let machine = roce();
    let other = "/sys/devices/pci0000:40/0000:41:00.1";
    let device = "/sys/class/infiniband/mlx5_1";
    machine.link(&format!("{device}/device"), other);
    machine.link(&format!("{other}/driver"), "/sys/bus/pci/drivers/mlx5_core");
    machine.files(&[
        (&format!("{device}/node_type"), "1: CA\n"),
        (&format!("{device}/ports/1/state"), "1: DOWN\n"),
        (&format!("{device}/ports/1/phys_state"), "3: Disabled\n"),
        (&format!("{device}/ports/1/link_layer"), "Ethernet\n"),
        (&format!("{other}/net/ens2/mtu"), "1500\n"),
    ]);
    finds(
        &machine,
        &[("rdma-port-down", Severity::Note)],
        "ip link set ens2 up",
    );
    port(
        &machine,
        &[
            ("ports/1/state", "1: DOWN\n"),
            ("ports/1/phys_state", "3: Disabled\n"),
        ],
    );
    let both = ("rdma-port-down", Severity::Warning);
    finds(&machine, &[both, both], "mlx5_0/1");
}

#[test]
fn roce_of_version_1_only() {
    let machine = roce();
    port(
        &machine,
        &[
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
            ("ports/1/gid_attrs/types/1", "IB/RoCE v1\n"),
        ],
    );
    let found = [("rdma-gids", Severity::Warning)];
    finds(&machine, &found, "2 GIDs, all of RoCE v1");
    // Without an address nothing says which versions the card has.
    remove(&machine, &format!("{DEVICE}/ports/1/gids/1"));
    finds(&machine, &found, "ip address add ADDRESS/24 dev ens1");
    let machine = roce();
    machine.file(
        "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode",
        b"IB/RoCE v1\n",
    );
    let found = [("rdma-cm-mode", Severity::Warning)];
    finds(
        &machine,
        &found,
        "echo 'RoCE v2' > /sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode",
    );
}

#[test]
fn flow_control_for_a_priority_that_is_not_used() {
    let mut machine = roce();
    let found = [("rdma-traffic-class", Severity::Note)];
    machine.file(
        "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
        b"0\n",
    );
    finds(&machine, &found, "echo 96 > ");
    remove(&machine, "/sys/kernel/config/rdma_cm/mlx5_0");
    finds(
        &machine,
        &found,
        "mkdir -p /sys/kernel/config/rdma_cm/mlx5_0",
    );
    // A default that cannot be read is reported as not known.
    remove(&machine, "/sys/kernel/config/rdma_cm");
    finds(
        &machine,
        &[],
        "configfs is not mounted: rdma-cm-mode (mlx5_0/1), rdma-traffic-class (mlx5_0/1)",
    );
    machine.program("dcb -j pfc show dev ens1", r#"{"prio-pfc":["off","off"]}"#);
    finds(
        &machine,
        &[("rdma-flow-control", Severity::Warning)],
        "dcb pfc set dev ens1 prio-pfc 3:on",
    );
    machine.file("/sys/class/net/ens1/ecn/roce_np/enable/3", b"0\n");
    let expected = [
        ("rdma-flow-control", Severity::Warning),
        ("rdma-ecn", Severity::Note),
    ];
    finds(
        &machine,
        &expected,
        "echo 1 > /sys/class/net/ens1/ecn/roce_rp/enable/3",
    );
    remove(&machine, "/sys/class/net/ens1/ecn");
    finds(
        &machine,
        &expected[..1],
        "the driver does not show its ECN settings",
    );
}

#[test]
fn a_vpi_port_in_the_wrong_mode() {
    let machine = infiniband();
    port(
        &machine,
        &[
            ("ports/1/state", "1: DOWN\n"),
            ("ports/1/phys_state", "2: Polling\n"),
        ],
    );
    let expected = [
        ("rdma-port-down", Severity::Warning),
        ("rdma-port-mode", Severity::Note),
    ];
    finds(
        &machine,
        &expected,
        "mstconfig -d 0000:41:00.0 set LINK_TYPE_P1=2",
    );
    // The older driver has a file for it.
    machine.file("/sys/bus/pci/drivers/mlx4_core/bind", b"");
    remove(&machine, &format!("{PCI}/driver"));
    machine.link(&format!("{PCI}/driver"), "/sys/bus/pci/drivers/mlx4_core");
    machine.files(&[
        (&format!("{PCI}/mlx4_port1"), "auto (ib)\n"),
        (
            "/usr/lib/x86_64-linux-gnu/libibverbs/libmlx4-rdmav34.so",
            "",
        ),
    ]);
    finds(&machine, &expected, "mlx4_port1 is auto (ib)");
    finds(
        &machine,
        &expected,
        "echo eth > /sys/bus/pci/devices/0000:41:00.0/mlx4_port1",
    );
}

#[test]
fn ipoib_in_connected_mode_with_a_small_mtu() {
    let machine = infiniband();
    machine.file("/sys/class/net/ib0/mtu", b"2044\n");
    let found = [("rdma-ipoib-mode", Severity::Note)];
    finds(&machine, &found, "connected mode, MTU 2044");
    finds(&machine, &found, "ip link set ib0 mtu 65520");
    machine.file("/sys/class/net/ib0/mode", b"datagram\n");
    finds(&machine, &found, "echo connected > /sys/class/net/ib0/mode");
}

#[test]
fn virtual_functions_without_a_guid() {
    let machine = infiniband();
    machine.files(&[
        (&format!("{PCI}/sriov_numvfs"), "2\n"),
        (&format!("{PCI}/sriov/0/port"), "b8:ce:f6:03:00:11:22:34\n"),
        (&format!("{PCI}/sriov/1/port"), "00:00:00:00:00:00:00:00\n"),
    ]);
    let found = [("rdma-sriov-guid", Severity::Warning)];
    finds(
        &machine,
        &found,
        "2 of at most 8 virtual functions; without a GUID: 1",
    );
    // The same from inside of the function.
    let machine = infiniband();
    machine.link(
        &format!("{PCI}/physfn"),
        "/sys/devices/pci0000:40/0000:40:00.0",
    );
    machine.file(
        "/sys/devices/pci0000:40/0000:40:00.0/sriov_totalvfs",
        b"8\n",
    );
    finds(&machine, &[], "");
    port(&machine, &[("node_guid", "0000:0000:0000:0000\n")]);
    finds(&machine, &found, "node GUID 0000:0000:0000:0000");
}

#[test]
fn links_that_are_slower_than_the_port() {
    let machine = infiniband();
    machine.file(&format!("{PCI}/current_link_width"), b"4\n");
    let found = [("rdma-pcie", Severity::Warning)];
    finds(
        &machine,
        &found,
        "port 56 Gb/s; PCIe 8 GT/s x4 carries 32 Gb/s, the card can have 8 GT/s x8",
    );
    let machine = infiniband();
    port(&machine, &[("ports/1/rate", "14 Gb/sec (1X FDR)\n")]);
    finds(
        &machine,
        &[("rdma-link-width", Severity::Warning)],
        "1 lane, 14 Gb/s",
    );
    port(&machine, &[("ports/1/rate", "fast\n")]);
    finds(&machine, &[], "ports/1/rate has no valid value");
}
