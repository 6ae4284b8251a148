//! The checks.
//!
//! **Owns** their list. **Called by** `vm` and `tests/vm.rs`. **Invariants**: each has its script in `xtask/vm`, and a test.

use super::inside::Disks;
use anyhow::{Context, Result};

/// One check script and the machine that it needs.
#[derive(Debug)]
pub struct Check {
    /// `xtask/vm/NAME.sh`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Virtual processors.
    pub(super) cpus: u32,
    /// Additional words of the guest kernel's command line.
    pub(super) append: &'static str,
    /// Programs that run in addition to the guest.
    pub(super) scene: Scene,
    /// Time-out of the machine. Several times the time on an idle host, because emulation shares its processors.
    pub(super) timeout_s: u32,
}

/// The environment of a check's script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scene {
    /// A guest of ours that talks to a server on this host.
    Client,
    /// A guest of ours that talks to the NFS service in memory on this host.
    Nfs,
    /// A guest of [`super::TLS_SUITE`] that talks to the same service with TLS.
    NfsTls,
    /// The script is the first process of a machine that boots from a logical unit.
    Boot,
    /// A guest in which a server runs too, on disks whose writes the kernel logs; then the log is replayed on this host.
    Cuts {
        /// Number of members into which the script divides the logged disk.
        members: u64,
    },
    /// A guest that runs systemd, in which packages of this program are installed.
    Package,
    /// A guest in which a server runs too.
    Inside(Disks),
    /// As [`Scene::Inside`] without disks, with a built checkout of cthon04 that a variable of the environment names.
    Cthon04,
    /// Two guests on one Ethernet segment: a server in the one that runs the script, and in the other a client, which runs `NAME_host.sh`.
    Linked,
}

/// The checks that only `make soak` runs: verdicts of `why` need a machine without other work, and the others take long.
pub const SOAK_ONLY: &[&str] = &["why", "iser_peer", "nfs_rdma_peer", "nfs_cthon04"];

/// All checks, in the order they run in.
pub const CHECKS: &[Check] = &[
    Check {
        name: "connect",
        about: "discovery, nvme-cli's reports, four queues, digests, disconnect, 32 rounds without a leak",
        cpus: 4,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "filesystems",
        about: "ext4 and XFS: verified fio, fsck, fstrim down to the host's disk; write zeroes, discard",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "live",
        about: "a resize, and a namespace added and removed, under a connected host",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 600,
    },
    Check {
        name: "recovery",
        about: "the link cut for 15 s, and the server killed, under a running fio",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "pool",
        about: "a volume of a mirrored pool: ext4, snapshot, clone, trim, and the server killed under fio",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "pool_cuts",
        about: "a server on dm-log-writes: its pool opens wherever the power went; mounted disks, trim",
        cpus: 2,
        append: "",
        scene: Scene::Cuts { members: 2 },
        timeout_s: 600,
    },
    Check {
        name: "raidz",
        about: "a raidz2 under a verifying fio while disks fail, come back empty and come back whole; spare, expansion, fsck",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 900,
    },
    Check {
        name: "raidz_cuts",
        about: "a raidz1 on dm-log-writes: its pool opens wherever the power went",
        cpus: 2,
        append: "",
        scene: Scene::Cuts { members: 4 },
        timeout_s: 600,
    },
    Check {
        name: "classes",
        about: "slow disks with a special mirror, a log and a cache device, over NFS: log and cache taken away live and after SIGKILL",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 900,
    },
    Check {
        name: "rdma",
        about: "NVMe/RDMA on soft RoCE: rdma setup, discovery, ext4, verified fio, the server killed, connects and disconnects, an export for TCP only, shared receives, the device deleted",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 900,
    },
    Check {
        name: "rdma_peer",
        about: "the kernel's nvmet-rdma as the peer of our initiator, and beside our server; 100 idle queue pairs; probe, report",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 900,
    },
    Check {
        name: "rdma_link",
        about: "NVMe/RDMA between two guests: 15 s without carrier under a verifying fio",
        cpus: 2,
        append: "",
        scene: Scene::Linked,
        timeout_s: 900,
    },
    Check {
        name: "reservations",
        about: "two hosts: register, acquire, conflict, restart, preempt, release",
        cpus: 2,
        append: "nvme_core.multipath=N",
        scene: Scene::Client,
        timeout_s: 600,
    },
    Check {
        name: "iscsi",
        about: "iSCSI: discovery, CHAP both ways, digests, what the kernel finds in the disk, a live resize",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 600,
    },
    Check {
        name: "iscsi_filesystems",
        about: "iSCSI: ext4 and XFS: verified fio, fsck, fstrim down to the host's disk",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "iscsi_recovery",
        about: "iSCSI: the link cut for 15 s, and the server killed, under a running fio",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "iser",
        about: "iSCSI over RDMA between two guests: discovery, ext4, verified fio, 15 s without carrier, the server killed, logins and logouts",
        cpus: 2,
        append: "",
        scene: Scene::Linked,
        timeout_s: 1200,
    },
    Check {
        name: "nfs_rdma",
        about: "NFS over RDMA between two guests: 3, 4.1 and 4.2, verified fio, a second client with locks and recalls, 15 s without carrier, the server killed",
        cpus: 2,
        append: "",
        scene: Scene::Linked,
        timeout_s: 1500,
    },
    Check {
        name: "iser_peer",
        about: "the kernel's LIO with ib_isert as the peer of our initiator, and beside our server, also with open-iscsi",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 1500,
    },
    Check {
        name: "nfs_rdma_peer",
        about: "the kernel's knfsd over RDMA as the peer of our client, and beside our server, also with the kernel's client; iSCSI, iSER, NFS and NFS over RDMA compared",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 1500,
    },
    Check {
        name: "nfs_cthon04",
        about: "cthon04 over RDMA with NFS 4.2, 4.1 and 3: basic, general, special, lock; WIREPOOL_CTHON04 names its checkout",
        cpus: 2,
        append: "",
        scene: Scene::Cthon04,
        timeout_s: 3600,
    },
    Check {
        name: "iscsi_reservations",
        about: "iSCSI: two initiators: register, reserve, conflict, restart, preempt, release",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 600,
    },
    Check {
        name: "nfs",
        about: "NFS 4.1: files, names, permissions, mappings, locks between two clients, four connections, a cut link",
        cpus: 2,
        append: "",
        scene: Scene::Nfs,
        timeout_s: 900,
    },
    Check {
        name: "nfs_pool",
        about: "NFS 4.2, 4.1 and 3 on a pool: files, attributes, lists, holes, copies, snapshots, quotas, delegations",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "nfs_recovery",
        about: "NFS 4.2 and 3 on a pool: the server killed and the link cut under writers, locks and delegations",
        cpus: 2,
        append: "",
        scene: Scene::Client,
        timeout_s: 900,
    },
    Check {
        name: "nfs_tls",
        about: "NFS with TLS, of Linux 6.12: xprtsec=tls and mtls, versions 4.2 and 3, exports that demand it, wrong certificates",
        cpus: 2,
        append: "",
        scene: Scene::NfsTls,
        timeout_s: 900,
    },
    Check {
        name: "package",
        about: "the Debian package under systemd: setup, an upgrade under load, printed client settings, a cut link, removal",
        cpus: 2,
        append: "",
        scene: Scene::Package,
        timeout_s: 1700,
    },
    Check {
        name: "wear",
        about: "a server on NVMe disks: their own counters beside the server's, and the forecast",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::TwoNvme),
        timeout_s: 600,
    },
    Check {
        name: "why",
        about: "`wirepool why` names planted limits: depth, core, slow reads and flushes, overload, a full pool, a far and a narrow network",
        cpus: 2,
        append: "",
        scene: Scene::Inside(Disks::One),
        timeout_s: 900,
    },
    Check {
        name: "iscsi_boot",
        about: "iSCSI: QEMU boots from a LUN with its own driver, writes, and boots from it again",
        cpus: 1,
        append: "",
        scene: Scene::Boot,
        timeout_s: 300,
    },
];

/// The check called `name`.
pub fn check_named(name: &str) -> Result<&'static Check> {
    CHECKS
        .iter()
        .find(|c| c.name == name)
        .with_context(|| format!("no check is called {name}; see `cargo xtask vm --list`"))
}
