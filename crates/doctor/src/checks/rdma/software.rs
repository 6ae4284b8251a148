//! Checks of the software of RDMA: modules, rdma-core, device files, the server's unit, addresses.
//!
//! **Owns** the files that `wirepool rdma setup` writes. **Called by** [`super::super`] and [`crate::rdma_setup`]. **Invariants**: those of
//! [`super`]; all findings about one file have the same contents for it.

use super::{Package, active, install, ports};
use crate::check::{Check, Judge, Side};
use crate::facts::{DeviceNode, Facts, PORT_ACTIVE, RdmaPort, Unit};
use crate::report::Severity;
use crate::step::Step;
use std::net::IpAddr;

/// Modules that RDMA programs need.
const MODULES: &[&str] = &["ib_uverbs", "rdma_cm", "rdma_ucm"];
/// The module that gives InfiniBand ports IP addresses, by which connections are made.
const IPOIB: &str = "ib_ipoib";
/// Modules to load at boot.
pub(crate) const MODULES_FILE: &str = "/etc/modules-load.d/wirepool-rdma.conf";
/// Directory of drop-ins of the server's unit.
pub(crate) const UNIT_DIRECTORY: &str = "/etc/systemd/system/wirepool.service.d";
/// Drop-in with the limits and devices that RDMA needs.
pub(crate) const UNIT_FILE: &str = "/etc/systemd/system/wirepool.service.d/90-rdma.conf";
/// Locked memory that is enough while the server's buffers are not known, bytes.
const MEMLOCK_MIN: u64 = 512 << 20;
/// Drivers of network cards, and the module that makes them RDMA devices.
const RDMA_MODULES: &[(&str, &str)] = &[
    ("mlx4_core", "mlx4_ib"),
    ("mlx4_en", "mlx4_ib"),
    ("mlx5_core", "mlx5_ib"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("qede", "qedr"),
    ("cxgb4", "iw_cxgb4"),
    ("hns3", "hns_roce_hw_v2"),
];
/// Drivers of RDMA devices, and their providers in rdma-core.
const PROVIDERS: &[(&str, &str)] = &[
    ("mlx4_core", "mlx4"),
    ("mlx5_core", "mlx5"),
    ("bnxt_en", "bnxt_re"),
    ("ice", "irdma"),
    ("i40e", "irdma"),
    ("qede", "qedr"),
    ("cxgb4", "cxgb4"),
    ("hns3", "hns"),
    ("efa", "efa"),
    ("hfi1", "hfi1verbs"),
    ("vmw_pvrdma", "vmw_pvrdma"),
    ("mana", "mana"),
    ("rxe", "rxe"),
    ("siw", "siw"),
];

pub(in crate::checks) const CHECKS: &[Check] = &[
    Check {
        id: "rdma-driver",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a network card that can do RDMA, but whose RDMA module is not loaded",
        why: "The machine has no RDMA device then, and storage goes over TCP.",
        risk: "None. Without use for RDMA nothing has to be done.",
        judge: driver,
    },
    Check {
        id: "rdma-modules",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an RDMA device without the modules that programs need (ib_uverbs, rdma_cm, rdma_ucm; on InfiniBand ib_ipoib)",
        why: "RDMA connections fail, and clients fall back to TCP without a word.",
        risk: "None.",
        judge: modules,
    },
    Check {
        id: "rdma-modules-boot",
        side: Side::Both,
        severity: Severity::Note,
        finds: "loaded RDMA modules that nothing loads at boot",
        why: "After the next boot RDMA connections fail, and clients fall back to TCP.",
        risk: "None.",
        judge: modules_boot,
    },
    Check {
        id: "rdma-nvme-module",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "an RDMA device, but a kernel without the module nvme_rdma",
        why: "`nvme connect -t rdma` fails; disks are reached over TCP only.",
        risk: "None.",
        judge: nvme_module,
    },
    Check {
        id: "rdma-libraries",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "an RDMA device without libibverbs.so.1 or librdmacm.so.1",
        why: "The server loads them when it starts; without them it has no RDMA.",
        risk: "None. The server has to be restarted; clients wait and reconnect.",
        judge: libraries,
    },
    Check {
        id: "rdma-provider",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "an RDMA device for whose driver rdma-core has no provider",
        why: "libibverbs then shows no such device to programs, although the kernel has it.",
        risk: "None. The server has to be restarted; clients wait and reconnect.",
        judge: provider,
    },
    Check {
        id: "rdma-device-files",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "device files in /dev/infiniband that are missing, or that the server's user may not open",
        why: "The server reaches RDMA devices through uverbs files and rdma_cm, for reading and writing.",
        risk: "Every user who may open them can use the network card directly.",
        judge: device_files,
    },
    Check {
        id: "rdma-unit-devices",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a unit of systemd that keeps the server from RDMA devices (DevicePolicy=, DeviceAllow=, PrivateDevices=)",
        why: "Opening a device fails there, although its permissions allow it; the server goes on with TCP.",
        risk: "The server has to be restarted; clients wait and reconnect.",
        judge: unit_devices,
    },
    Check {
        id: "rdma-memlock",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a unit of systemd whose limit of locked memory is below the server's buffers (512 MiB if no server runs)",
        why: "RDMA registers all buffers, which locks them. Registration fails above the limit.",
        risk: "The server has to be restarted; clients wait and reconnect.",
        judge: memlock,
    },
    Check {
        id: "rdma-listen",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a server that listens on no address of an active RDMA port",
        why: "Clients reach it through other cards only: RDMA cannot be used, and the fast network idles.",
        risk: "None.",
        judge: listen,
    },
];

fn driver(facts: &Facts, j: &mut Judge) {
    let (Some(ports), Some(nics), Some(loaded)) = (
        j.know("", &facts.rdma.ports),
        j.know("", &facts.nics),
        j.know("", &facts.kernel.modules),
    ) else {
        return;
    };
    for nic in nics {
        let Some((_, module)) = RDMA_MODULES
            .iter()
            .find(|(driver, _)| *driver == nic.driver)
        else {
            continue;
        };
        let has_port = ports.iter().any(|p| p.netdev == nic.name);
        if !has_port && !loaded.iter().any(|l| l == module) {
            let steps = vec![
                Step::run(&["modprobe", "-a", module]),
                Step::advice(
                    "if the module is missing: it is in linux-modules-extra (Ubuntu) or kernel-modules-extra (Fedora, RHEL)",
                ),
            ];
            let evidence = format!("driver {}, module {module} not loaded", nic.driver);
            j.find(&nic.name, evidence, steps);
        }
    }
}

/// Modules that these ports need; none without ports.
fn needed(ports: &[(String, &RdmaPort)]) -> Vec<&'static str> {
    let mut needed = Vec::new();
    if !ports.is_empty() {
        needed.extend(MODULES);
    }
    if ports.iter().any(|(_, p)| p.is_infiniband() == Some(true)) {
        needed.push(IPOIB);
    }
    needed
}

fn modules(facts: &Facts, j: &mut Judge) {
    let needed = needed(&ports(facts, j));
    if needed.is_empty() {
        return;
    }
    let Some(loaded) = j.know("", &facts.kernel.modules) else {
        return;
    };
    let is_missing = |m: &&&str| !loaded.iter().any(|l| l == **m);
    let missing: Vec<&str> = needed.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        let mut argv = vec!["modprobe", "-a"];
        argv.extend(&missing);
        let steps = vec![Step::run(&argv), Step::file(MODULES_FILE, &needed)];
        j.find("RDMA", format!("not loaded: {}", missing.join(" ")), steps);
    }
}

fn modules_boot(facts: &Facts, j: &mut Judge) {
    let needed = needed(&ports(facts, j));
    if needed.is_empty() {
        return;
    }
    let (Some(loaded), Some(boot)) = (
        j.know("", &facts.kernel.modules),
        j.know("", &facts.kernel.boot_modules),
    ) else {
        return;
    };
    let is_missing = |m: &&&str| loaded.iter().any(|l| l == **m) && !boot.iter().any(|b| b == **m);
    let missing: Vec<&str> = needed.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        let evidence = format!("in no modules-load.d: {}", missing.join(" "));
        j.find("RDMA", evidence, vec![Step::file(MODULES_FILE, &needed)]);
    }
}

fn nvme_module(facts: &Facts, j: &mut Judge) {
    if !ports(facts, j).is_empty() && j.know("", &facts.rdma.has_nvme_rdma) == Some(&false) {
        let text = "install the kernel's further modules: linux-modules-extra (Ubuntu) or kernel-modules-extra (Fedora, RHEL); then \
                    modprobe nvme_rdma";
        let evidence = "the module nvme_rdma is neither loaded nor installed";
        j.find("RDMA", evidence, vec![Step::advice(text)]);
    }
}

fn libraries(facts: &Facts, j: &mut Judge) {
    if ports(facts, j).is_empty() {
        return;
    }
    let Some(found) = j.know("", &facts.rdma.libraries) else {
        return;
    };
    let is_missing = |l: &&&str| !found.iter().any(|f| f == **l);
    let needed = ["libibverbs.so.1", "librdmacm.so.1"];
    let missing: Vec<&str> = needed.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        let steps = vec![install(facts, Package::Core), Step::restart_server()];
        let evidence = format!("not in the loader's directories: {}", missing.join(" "));
        j.find("rdma-core", evidence, steps);
    }
}

fn provider(facts: &Facts, j: &mut Judge) {
    let mut seen = Vec::new();
    for (name, p) in ports(facts, j) {
        let Some(installed) = j.know(&name, &facts.rdma.providers) else {
            continue;
        };
        let Some((_, provider)) = PROVIDERS.iter().find(|(driver, _)| *driver == p.driver) else {
            let reason = format!("the provider of driver {:?} is not known", p.driver);
            j.know::<()>(&name, &crate::Known::unknown(reason));
            continue;
        };
        // Without libibverbs there is a finding of its own.
        let has_verbs = facts.rdma.libraries.value().is_none_or(|l| !l.is_empty());
        if has_verbs && !installed.iter().any(|i| i == provider) && !seen.contains(provider) {
            seen.push(*provider);
            let steps = vec![install(facts, Package::Core), Step::restart_server()];
            let evidence = format!(
                "no libibverbs/lib{provider}-rdmav*.so for driver {}",
                p.driver
            );
            j.find(&p.device, evidence, steps);
        }
    }
}

/// Whether a user with these groups may read and write a file.
fn may_use(node: &DeviceNode, uid: u32, gids: &[u32]) -> bool {
    let bits = if node.uid == uid {
        node.mode >> 6
    } else if gids.contains(&node.gid) {
        node.mode >> 3
    } else {
        node.mode
    };
    uid == 0 || bits & 6 == 6
}

fn device_files(facts: &Facts, j: &mut Judge) {
    if ports(facts, j).is_empty() {
        return;
    }
    let Some(nodes) = j.know("", &facts.rdma.nodes) else {
        return;
    };
    let is_missing = |(name, _): &&(&str, &str)| !nodes.iter().any(|n| n.path.contains(name));
    let missing = [("uverbs", "ib_uverbs"), ("rdma_cm", "rdma_ucm")];
    let missing: Vec<&(&str, &str)> = missing.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
        let mut argv = vec!["modprobe", "-a"];
        argv.extend(missing.iter().map(|(_, module)| *module));
        let steps = vec![
            Step::run(&argv),
            Step::advice(
                "if they are still missing: udevadm trigger --subsystem-match=infiniband_verbs",
            ),
        ];
        let evidence = format!("no {}", names.join(" and no "));
        j.find("/dev/infiniband", evidence, steps);
    }
    let (Some(uid), Some(gids)) = (
        j.know("", &facts.service.uid),
        j.know("", &facts.service.gids),
    ) else {
        return;
    };
    for node in nodes.iter().filter(|n| !may_use(n, *uid, gids)) {
        let steps = vec![
            Step::file(
                "/etc/udev/rules.d/90-wirepool-rdma.rules",
                &[
                    "SUBSYSTEM==\"infiniband_verbs\", KERNEL==\"uverbs*\", MODE=\"0666\"",
                    "SUBSYSTEM==\"misc\", KERNEL==\"rdma_cm\", MODE=\"0666\"",
                ],
            ),
            Step::run(&["udevadm", "control", "--reload"]),
            Step::run(&["udevadm", "trigger"]),
        ];
        let evidence = format!(
            "mode {:o}, owner {}, group {}; the server's user is {uid}",
            node.mode, node.uid, node.gid
        );
        j.find(&node.path, evidence, steps);
    }
}

/// The drop-in of the unit: all that RDMA needs, whichever part is missing.
fn drop_in() -> Vec<Step> {
    vec![
        Step::run(&["mkdir", "-p", UNIT_DIRECTORY]),
        Step::file(
            UNIT_FILE,
            &[
                "[Service]",
                "LimitMEMLOCK=infinity",
                "PrivateDevices=no",
                "DeviceAllow=char-infiniband_verbs rw",
                "DeviceAllow=/dev/infiniband/rdma_cm rw",
            ],
        ),
        Step::run(&["systemctl", "daemon-reload"]),
        Step::restart_server(),
    ]
}

/// Devices of RDMA that a unit does not allow.
fn denied(unit: &Unit) -> Vec<&'static str> {
    let is_open = unit.device_policy == "auto" && unit.device_allow.is_empty();
    if is_open && !unit.has_private_devices {
        return Vec::new();
    }
    let allows = |devices: &[&str]| {
        unit.device_allow.iter().any(|entry| {
            let mut words = entry.split_whitespace();
            let device = words.next().unwrap_or_default();
            // Without letters everything is allowed.
            let letters = words.next().unwrap_or("rwm");
            devices.contains(&device) && letters.contains('r') && letters.contains('w')
        })
    };
    let verbs: &[&str] = &[
        "char-infiniband_verbs",
        "char-infiniband*",
        "char-*",
        "/dev/infiniband/uverbs0",
    ];
    let manager: &[&str] = &["/dev/infiniband/rdma_cm", "char-misc", "char-*"];
    let wanted = [("uverbs", verbs), ("rdma_cm", manager)];
    let is_denied = |devices: &[&str]| unit.has_private_devices || !allows(devices);
    let denied = wanted.iter().filter(|(_, devices)| is_denied(devices));
    denied.map(|(name, _)| *name).collect()
}

fn unit_devices(facts: &Facts, j: &mut Judge) {
    if ports(facts, j).is_empty() {
        return;
    }
    let Some(unit) = j.know_if_any("", &facts.service.unit) else {
        return;
    };
    let denied = denied(unit);
    if !denied.is_empty() {
        let policy = match unit.has_private_devices {
            true => "PrivateDevices=yes".to_owned(),
            false => format!(
                "DevicePolicy={}, DeviceAllow={}",
                unit.device_policy,
                unit.device_allow.join(", ")
            ),
        };
        let evidence = format!("{policy}: without {}", denied.join(" and "));
        j.find("wirepool.service", evidence, drop_in());
    }
}

fn memlock(facts: &Facts, j: &mut Judge) {
    if ports(facts, j).is_empty() {
        return;
    }
    let Some(unit) = j.know_if_any("", &facts.service.unit) else {
        return;
    };
    // A server that does not run has no known buffers, and the unit is judged all the same.
    let buffers = facts.server.value().map_or(MEMLOCK_MIN, |s| s.buffer_limit);
    if let Some(limit) = unit.memlock.filter(|l| *l < buffers) {
        let evidence = format!(
            "LimitMEMLOCK {} KiB, needed {} MiB",
            limit >> 10,
            buffers >> 20
        );
        j.find("wirepool.service", evidence, drop_in());
    }
}

/// Addresses of the interfaces of active ports; `None` if one is not known.
fn addresses(facts: &Facts, j: &mut Judge) -> Option<Vec<IpAddr>> {
    let nics = j.know("", &facts.nics)?;
    let mut own = Vec::new();
    for (name, p) in ports(facts, j) {
        if j.know(&name, &p.state)? != PORT_ACTIVE {
            continue;
        }
        let gids = j.know(&name, &p.gids)?;
        let mut netdevs: Vec<&str> = gids.iter().map(|g| g.netdev.as_str()).collect();
        netdevs.push(&p.netdev);
        for nic in nics.iter().filter(|n| netdevs.contains(&n.name.as_str())) {
            own.extend(j.know(&name, &nic.addresses)?);
        }
    }
    Some(own)
}

fn listen(facts: &Facts, j: &mut Judge) {
    if active(facts, j).is_empty() {
        return;
    }
    let (Some(server), Some(own)) = (j.know("", &facts.server), addresses(facts, j)) else {
        return;
    };
    let is_served = server.listen.iter().any(|l| match l.ip().is_unspecified() {
        true => !own.is_empty(),
        false => own.contains(&l.ip()),
    });
    if !is_served && !server.listen.is_empty() {
        let texts = |all: Vec<String>| match all.is_empty() {
            true => "none".to_owned(),
            false => all.join(", "),
        };
        let evidence = format!(
            "listens on {}; addresses of RDMA ports: {}",
            texts(server.listen.iter().map(ToString::to_string).collect()),
            texts(own.iter().map(ToString::to_string).collect())
        );
        let text = match own.is_empty() {
            true => {
                "give the interface of an RDMA port an address in the clients' network, then add it to `listen` of the protocol"
            }
            false => {
                "add an address of an RDMA port to `listen` of the protocol in the configuration, and restart the server"
            }
        };
        j.find("server", evidence, vec![Step::advice(text)]);
    }
}
