//! Capture against a directory that stands for a machine, with hostile contents too.

use doctor::capture::capture;
use doctor::facts::{Facts, Known, Member, Server};
use doctor::source::{Host, Read1, Source, Stat, Unread};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A directory as a machine, with outputs of programs.
pub(crate) struct Machine {
    host: Host,
    programs: BTreeMap<String, String>,
    pub(crate) dir: tempfile::TempDir,
}

impl Source for Machine {
    fn read(&self, path: &str) -> Read1<String> {
        self.host.read(path)
    }
    fn list(&self, path: &str) -> Read1<Vec<String>> {
        self.host.list(path)
    }
    fn resolve(&self, path: &str) -> Read1<String> {
        self.host.resolve(path)
    }
    fn stat(&self, path: &str) -> Read1<Stat> {
        self.host.stat(path)
    }
    fn run(&self, program: &str, args: &[&str]) -> Read1<String> {
        let key = format!("{program} {}", args.join(" "));
        match self.programs.get(&key) {
            Some(text) => Ok(text.clone()),
            None => Err(Unread::Missing(format!("{program} is not installed"))),
        }
    }
}

impl Machine {
    pub(crate) fn new() -> Machine {
        let dir = tempfile::tempdir().expect("a directory");
        Machine {
            host: Host::below(dir.path()),
            programs: BTreeMap::new(),
            dir,
        }
    }

    pub(crate) fn file(&self, path: &str, text: &[u8]) {
        let path = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn files(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.file(path, text.as_bytes());
        }
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        symlink(self.dir.path().join(target.trim_start_matches('/')), path).expect("a link");
    }

    pub(crate) fn program(&mut self, line: &str, output: &str) {
        self.programs.insert(line.to_owned(), output.to_owned());
    }

    pub(crate) fn capture(&self) -> Facts {
        capture(self, Known::unknown("no server runs"))
    }
}

pub(crate) fn value<T: std::fmt::Debug>(fact: &Known<T>) -> &T {
    fact.value().unwrap_or_else(|| panic!("{fact:?} is known"))
}

#[test]
fn an_empty_machine_is_unknown_and_not_good() {
    let facts = Machine::new().capture();
    assert!(facts.nics.value().is_none() && facts.disks.value().is_none());
    let report = doctor::checks::judge(&facts, false);
    assert!(report.findings.is_empty(), "{}", report.text());
    assert!(report.not_checked.len() > 40);
}

#[test]
fn kernel_and_processors_are_read() {
    let machine = Machine::new();
    machine.files(&[
        ("/proc/sys/kernel/osrelease", "6.1.0-26-amd64\n"),
        ("/etc/modules-load.d/a.conf", "# c\nnvme-tcp\n\n rdma_ucm\n"),
        ("/etc/modules-load.d/a.txt", "no\n"),
        ("/sys/devices/system/cpu/online", "0-1\n"),
        (
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "powersave\n",
        ),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n"),
        (
            "/sys/devices/system/cpu/cpu0/cpuidle/state1/latency",
            "133\n",
        ),
        ("/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
        ("/sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("/proc/stat", "cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1\n"),
        (
            "/proc/meminfo",
            "MemTotal: 1000 kB\nMemAvailable:  500 kB\n",
        ),
        ("/proc/sys/vm/dirty_bytes", "0"),
        ("/proc/sys/vm/dirty_ratio", "20"),
    ]);
    let facts = machine.capture();
    assert_eq!(value(&facts.kernel.boot_modules), &["nvme_tcp", "rdma_ucm"]);
    assert_eq!(
        value(&facts.kernel.io_uring_disabled),
        &0,
        "a kernel without the setting"
    );
    assert_eq!(value(&facts.kernel.zfs), &None);
    assert_eq!(value(&facts.cpu.online), &[0, 1]);
    let frequency = value(&facts.cpu.frequency);
    assert_eq!((frequency.len(), frequency[0].cpu), (1, 1));
    assert!(frequency[0].max_khz.value().is_none());
    assert_eq!(value(&facts.cpu.idle)[0].latency_us, 133);
    assert_eq!(value(&facts.cpu.steal_percent), &10.0);
    assert_eq!(value(&facts.memory.dirty_max), &(10_240 * 20));
}

#[test]
fn an_interface_is_read() {
    let mut machine = Machine::new();
    let pci = "/sys/devices/pci0000:40/0000:41:00.0";
    machine.link("/sys/class/net/eth0/device", pci);
    machine.files(&[
        ("/sys/class/net/lo/mtu", "65536"),
        ("/sys/class/net/veth1/mtu", "1500"),
        ("/sys/class/net/eth0/operstate", "up\n"),
        ("/sys/class/net/eth0/mtu", "9000\n"),
        ("/sys/class/net/eth0/speed", "25000\n"),
        ("/sys/class/net/eth0/statistics/rx_packets", "7\n"),
        (
            "/sys/class/net/br0/uevent",
            "DEVTYPE=bridge\nINTERFACE=br0\n",
        ),
        ("/sys/class/net/br0/lower_eth0/mtu", "x"),
        ("/sys/devices/pci0000:40/0000:41:00.0/numa_node", "1\n"),
        (
            "/sys/devices/pci0000:40/0000:41:00.0/current_link_speed",
            "8.0 GT/s PCIe\n",
        ),
        (
            "/sys/devices/pci0000:40/0000:41:00.0/max_link_speed",
            "16.0 GT/s PCIe\n",
        ),
        (
            "/sys/devices/pci0000:40/0000:41:00.0/current_link_width",
            "8\n",
        ),
        ("/sys/devices/pci0000:40/0000:41:00.0/max_link_width", "8\n"),
        ("/sys/devices/pci0000:40/0000:41:00.0/msi_irqs/44", ""),
        ("/proc/irq/44/effective_affinity_list", "3\n"),
        (
            "/proc/interrupts",
            "      CPU0  CPU1\n 44:   10   20  PCI-MSI 5-edge  eth0-0\n",
        ),
    ]);
    machine.program(
        "ip -j addr",
        r#"[{"ifname":"eth0","addr_info":[{"local":"10.0.0.1"},{"local":"x"}]}]"#,
    );
    machine.program(
        "ethtool -g eth0",
        "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\nTX:\t\t8192\n\
         Current hardware settings:\nRX:\t\t512\nTX:\t\t1024\n",
    );
    machine.program(
        "ethtool -c eth0",
        "Adaptive RX: off  TX: off\nrx-usecs:\t100\nrx-frames: n/a\n",
    );
    machine.program(
        "ethtool -k eth0",
        "Features for eth0:\nrx-checksumming: on\ntx-checksumming: off\nrx-fcs: off [fixed]\n",
    );
    machine.program("ethtool eth0", "\tSupported link modes:   1000baseT/Full\n\t 25000baseCR/Full\n\tSupported pause frame use: No\n");
    machine.program(
        "dcb -j pfc show dev eth0",
        r#"{"prio-pfc":["off","off","off","on"]}"#,
    );
    let facts = machine.capture();
    let nics = value(&facts.nics);
    assert_eq!(
        nics.len(),
        2,
        "neither lo nor a container's interface: {nics:?}"
    );
    assert_eq!(
        (nics[0].name.as_str(), nics[0].driver.as_str()),
        ("br0", "bridge")
    );
    assert_eq!(nics[0].lowers, ["eth0"]);
    let nic = &nics[1];
    assert_eq!(value(&nic.node), &Some(1));
    assert_eq!(value(&nic.speed_max_mbps), &Some(25_000));
    let ring = value(&nic.ring).as_ref().expect("rings");
    assert_eq!((ring.rx, ring.rx_max), (512, 8192));
    assert_eq!(value(&nic.coalesce).as_ref().expect("set").rx_usecs, 100);
    let offloads = value(&nic.offloads);
    assert_eq!((offloads.len(), offloads["tx-checksumming"]), (2, false));
    assert_eq!(value(&nic.pfc), &Some(vec![3]));
    let irqs = value(&nic.irqs);
    assert_eq!(
        (irqs[0].irq, irqs[0].count, irqs[0].cpus.as_slice()),
        (44, 30, &[3][..])
    );
    let pcie = value(&nic.pcie).as_ref().expect("a link");
    assert_eq!((pcie.address.as_str(), pcie.speed), ("0000:41:00.0", 8.0));
    let addresses = value(&nic.addresses);
    assert_eq!(addresses.len(), 1);
    assert!(nic.channels.value().is_none(), "ethtool -l has no answer");
}

#[test]
fn disks_are_read() {
    let mut machine = Machine::new();
    let nvme = "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0";
    machine.link("/sys/class/nvme/nvme0", nvme);
    machine.link("/sys/block/nvme0n1", &format!("{nvme}/nvme0n1"));
    machine.link(
        "/sys/class/block/nvme0n1p2",
        &format!("{nvme}/nvme0n1/nvme0n1p2"),
    );
    machine.files(&[
        ("/sys/block/zram0/size", "1"),
        (&format!("{nvme}/transport"), "pcie\n"),
        (&format!("{nvme}/model"), "SAMSUNG X   \n"),
        (
            &format!("{nvme}/nvme0n1/queue/scheduler"),
            "[none] mq-deadline\n",
        ),
        (&format!("{nvme}/nvme0n1/queue/rotational"), "0\n"),
        (&format!("{nvme}/nvme0n1/nvme0n1p2/partition"), "2\n"),
    ]);
    machine.link(&format!("{nvme}/nvme0n1/device"), nvme);
    machine.program("nvme id-ctrl /dev/nvme0 -o json", r#"{"vwc": 7}"#);
    machine.program(
        "nvme id-ns /dev/nvme0n1 -o json",
        r#"{"flbas": 0, "lbafs": [{"ms":0,"ds":9,"rp":2},{"ms":0,"ds":12,"rp":0},{"ms":0,"ds":99,"rp":0}]}"#,
    );
    machine.program(
        "smartctl --json -a /dev/nvme0n1",
        r#"{"smart_status":{"passed":true},"temperature":{"current":41},
            "nvme_smart_health_information_log":{"percentage_used":12,"available_spare":99,"media_errors":0}}"#,
    );
    let member = |path: &str| Member {
        path: path.into(),
        ..Member::default()
    };
    let server = Server {
        members: vec![member("/dev/nvme0n1p2"), member("/srv/d.img")],
        ..Server::default()
    };
    machine.file("/proc/self/mountinfo", b"1 0 0:5 / / rw - tmpfs none rw\n");
    let facts = capture(&machine, Known::Value(server));
    let disks = value(&facts.disks);
    assert_eq!(disks.len(), 1, "{disks:?}");
    let disk = &disks[0];
    assert_eq!(
        (disk.transport.as_str(), value(&disk.model).as_str()),
        ("nvme", "SAMSUNG X")
    );
    assert_eq!(value(&disk.scheduler), "none");
    assert!(value(&disk.claims_volatile_cache));
    let formats = value(&disk.formats).as_ref().expect("formats");
    assert_eq!(
        (formats.len(), formats[1].block, formats[0].is_current),
        (2, 4096, true)
    );
    let smart = value(&disk.smart).as_ref().expect("a report");
    assert_eq!(value(&smart.wear_percent), &Some(12));
    let members = &value(&facts.server).members;
    assert_eq!(value(&members[0].disk), "nvme0n1");
    assert!(members[1].disk.value().is_none());
}

#[test]
fn the_servers_process_is_read() {
    let machine = Machine::new();
    machine.files(&[
        ("/proc/7/limits", "Limit  Soft Limit\nMax open files            1024     4096     files\nMax locked memory         unlimited  unlimited bytes\n"),
        ("/proc/7/status", "Name:\tx\nVmSwap:\t      12 kB\nCpus_allowed_list:\t0-1,4\nCapEff:\t0000000000200000\n"),
        ("/proc/7/cgroup", "0::/system.slice/wirepool.service\n"),
        ("/sys/fs/cgroup/system.slice/memory.max", "1000000\n"),
        ("/sys/fs/cgroup/system.slice/wirepool.service/memory.max", "max\n"),
        ("/sys/fs/cgroup/system.slice/wirepool.service/cpu.max", "150000 100000\n"),
        ("/sys/fs/cgroup/system.slice/wirepool.service/cpu.stat", "usage_usec 1\nnr_throttled 3\n"),
    ]);
    let server = Server {
        pid: 7,
        ..Server::default()
    };
    let facts = capture(&machine, Known::Value(server));
    let process = value(&facts.process);
    assert_eq!(
        (value(&process.open_files), value(&process.memlock)),
        (&1024, &None)
    );
    assert_eq!(value(&process.swapped), &(12 << 10));
    assert_eq!(value(&process.cpus), &[0, 1, 4]);
    assert!(value(&process.is_privileged));
    assert_eq!(value(&process.cgroup.memory_max), &Some(1_000_000));
    assert_eq!(value(&process.cgroup.cpu_max), &Some(1.5));
    assert_eq!(value(&process.cgroup.throttled), &3);
}

#[test]
fn a_client_is_read() {
    let machine = Machine::new();
    machine.files(&[
        ("/proc/self/mountinfo", "36 28 0:53 / /mnt/a\\040b rw,relatime shared:1 - nfs4 srv:/t rw,vers=4.2,hard,rsize=1048576\nshort\n - \n"),
        ("/proc/self/mountstats", "device srv:/t mounted on /mnt/a b with fstype nfs4 statvers=1.1\n\tper-op statistics\n\t        NULL: 1 1 0 44 24\n\t        READ: 10 12 0 1 1\n\ndevice x mounted on /y with fstype ext4\n\tREAD: 99 999\n"),
        ("/sys/class/bdi/0:53/read_ahead_kb", "128\n"),
        ("/sys/class/nvme/nvme1/transport", "tcp\n"),
        ("/sys/class/nvme/nvme1/ctrl_loss_tmo", "off\n"),
        ("/sys/class/nvme/nvme1/queue_count", "5\n"),
        ("/sys/class/nvme/nvme2/transport", "tcp\n"),
        ("/sys/class/nvme/nvme2/subsysnqn", "nqn.2014-08.org.nvmexpress.discovery\n"),
        ("/sys/class/nvme-subsystem/nvme-subsys1/nvme1/x", ""),
        ("/sys/class/nvme-subsystem/nvme-subsys1/iopolicy", "numa\n"),
        ("/etc/nvme/discovery.conf", "# nothing\n"),
        ("/sys/class/iscsi_session/session3/recovery_tmo", "120\n"),
        ("/sys/class/iscsi_connection/connection3:0/recv_tmo", "5\n"),
        ("/sys/class/iscsi_session/session3/device/target2:0:0/2:0:0:1/block/sdb/size", "1"),
        ("/sys/class/iscsi_session/session3/device/target2:0:0/2:0:0:1/timeout", "30\n"),
        ("/sys/block/sdb/holders/dm-0/x", ""),
    ]);
    let facts = machine.capture();
    let mount = &value(&facts.nfs_mounts)[0];
    assert_eq!(
        (mount.target.as_str(), mount.options["rsize"].as_str()),
        ("/mnt/a b", "1048576")
    );
    assert_eq!(
        (value(&mount.requests), value(&mount.retransmissions)),
        (&11, &2)
    );
    assert_eq!(value(&mount.read_ahead_kib), &128);
    let controllers = value(&facts.nvme_controllers);
    assert_eq!(controllers.len(), 1, "discovery has no disks");
    assert_eq!(value(&controllers[0].loss_timeout_s), &None);
    assert_eq!(value(&controllers[0].io_queues), &4);
    assert_eq!(value(&controllers[0].io_policy).as_deref(), Some("numa"));
    assert_eq!(value(&facts.nvme_boot), &false);
    let session = &value(&facts.iscsi_sessions)[0];
    assert_eq!(
        (value(&session.recovery_s), value(&session.noop_interval_s)),
        (&120, &5)
    );
    let disk = &value(&session.disks)[0];
    assert!(disk.is_multipath && disk.name == "sdb");
}

/// Contents that no kernel would write.
const HOSTILE: &[&[u8]] = &[
    b"",
    b"\0\xff\xfe",
    b"-1",
    b"99999999999999999999999999",
    b"0-4294967295,0-4294967295",
    b"[",
    b"a: b: c\n: \n\x1b[2J",
    b"{\"a\":",
    b"NaN GT/s",
    b" - \n - - -\n1 2 3 4 5 6 7 - 8",
];

#[test]
fn hostile_contents_become_unknown() {
    let files = [
        "/proc/sys/kernel/osrelease",
        "/proc/stat",
        "/proc/meminfo",
        "/proc/interrupts",
        "/proc/net/netstat",
        "/proc/net/softnet_stat",
        "/proc/self/mountinfo",
        "/proc/self/mountstats",
        "/proc/7/limits",
        "/proc/7/status",
        "/proc/7/cgroup",
        "/proc/sys/net/ipv4/tcp_rmem",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/node/node0/cpulist",
        "/sys/class/net/eth0/device/numa_node",
        "/sys/class/net/eth0/mtu",
        "/sys/class/net/eth0/uevent",
        "/sys/class/infiniband/mlx5_0/ports/1/state",
        "/sys/class/infiniband/mlx5_0/ports/1/sm_lid",
        "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
        "/sys/class/infiniband/mlx5_0/ports/1/rate",
        "/sys/class/infiniband/mlx5_0/device/sriov_totalvfs",
        "/sys/class/infiniband/mlx5_0/device/sriov_numvfs",
        "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
        "/etc/systemd/system/wirepool.service",
        "/etc/systemd/system/wirepool.service.d/a.conf",
        "/etc/passwd",
        "/etc/os-release",
        "/sys/class/nvme/nvme0/transport",
        "/sys/class/nvme/nvme0/ctrl_loss_tmo",
        "/sys/block/sda/queue/scheduler",
        "/sys/block/nvme0n1/size",
        "/etc/modules",
    ];
    for contents in HOSTILE {
        let mut machine = Machine::new();
        for file in files {
            machine.file(file, contents);
        }
        let text = String::from_utf8_lossy(contents).into_owned();
        for program in [
            "ip -j addr",
            "ethtool eth0",
            "ethtool -g eth0",
            "ethtool -k eth0",
            "dcb -j pfc show dev eth0",
            "nvme id-ns /dev/nvme0n1 -o json",
            "smartctl --json -a /dev/sda",
            "timedatectl show -p NTPSynchronized --value",
        ] {
            machine.program(program, &text);
        }
        let server = Server {
            pid: 7,
            ..Server::default()
        };
        let facts = capture(&machine, Known::Value(server));
        for is_client in [false, true] {
            let report = doctor::checks::judge(&facts, is_client);
            let text = report.text();
            assert!(!text.contains('\u{1b}'), "{text}");
        }
    }
}

#[test]
fn links_do_not_leave_the_tree() {
    let machine = Machine::new();
    machine.file("/sys/class/net/eth0/mtu", b"1500");
    let link = machine.dir.path().join("sys/class/net/eth0/device");
    symlink(Path::new("/"), link).expect("a link");
    assert!(machine.resolve("/sys/class/net/eth0/device").is_err());
    assert!(machine.resolve("/../../etc").is_err());
    machine.capture();
}

#[test]
fn a_path_that_loses_large_packets_is_measured() {
    let mut machine = Machine::new();
    machine.file("/sys/class/net/eth0/mtu", b"9000\n");
    machine.program("ip -j route get 10.0.0.7", r#"[{"dev":"eth0"}]"#);
    let ping = |size: u32| format!("ping -n -q -c 2 -i 0.2 -W 0.5 -M do -s {size} 10.0.0.7");
    let lost = "2 packets transmitted, 0 received, 100% packet loss";
    machine.program(
        &ping(56),
        "2 packets transmitted, 2 received, 0% packet loss",
    );
    machine.program(
        &ping(1472),
        "2 packets transmitted, 1 received, 50% packet loss",
    );
    for size in [8972, 8164, 4068, 2016] {
        machine.program(&ping(size), lost);
    }
    let address = "10.0.0.7".parse().expect("an address");
    let probe = doctor::capture::probe::path(&machine, address);
    assert_eq!(
        (value(&probe.link_mtu), value(&probe.path_mtu)),
        (&9000, &1500)
    );
    machine.program(&ping(56), lost);
    assert!(
        doctor::capture::probe::path(&machine, address)
            .path_mtu
            .value()
            .is_none()
    );
}
