//! NVMe over TCP and RDMA on Linux.
//!
//! **Called by** [`super`].

use super::settings::{ClientSettings, Export, Os};
use super::timeouts::{NVME_KEEP_ALIVE_S, NVME_LOSS_S, NVME_QUEUE_ENTRIES, NVME_RECONNECT_S};
use std::fmt::Write;

pub(super) fn linux(export: &Export, s: &mut ClientSettings) {
    let Export::Nvme {
        nqn,
        discovery,
        namespaces,
    } = export
    else {
        return;
    };
    let transport = s.transport.word();
    s.file(
        "/etc/modules-load.d/wirepool-nvme.conf",
        format!("# nvme-cli does not load the transport's module at boot.\nnvme-{transport}\n"),
    );
    let mut text = format!(
        "# Read by `nvme connect-all` at boot (nvmf-autoconnect.service). It connects to each subsystem that this host may use.\n\
         # keep-alive-tmo={NVME_KEEP_ALIVE_S}: a silent cut is noticed within {} s.\n\
         # reconnect-delay={NVME_RECONNECT_S}: a server that is back is used again after {NVME_RECONNECT_S} s; the kernel's own value is 10.\n\
         # ctrl-loss-tmo={NVME_LOSS_S}: I/O waits so long for a server that restarts; then it fails.\n\
         # queue-size={NVME_QUEUE_ENTRIES}: commands in flight on each queue.\n",
        2 * NVME_KEEP_ALIVE_S
    );
    for a in discovery {
        let _ = writeln!(
            text,
            "--transport={transport} --traddr={} --trsvcid={} --keep-alive-tmo={NVME_KEEP_ALIVE_S} \
             --reconnect-delay={NVME_RECONNECT_S} --ctrl-loss-tmo={NVME_LOSS_S} --queue-size={NVME_QUEUE_ENTRIES}",
            a.host, a.port
        );
    }
    s.file("/etc/nvme/discovery.conf", text);
    let mut rules = String::from(
        "# The server orders requests itself: a scheduler here costs time for each request.\n\
         ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNEL==\"nvme*n*\", \
         ATTRS{model}==\"Wirepool*\", ATTR{queue/scheduler}=\"none\"\n",
    );
    if export.has_paths() {
        let _ = writeln!(
            rules,
            "# Use all paths; the kernel's own policy (numa) uses one until it fails.\n\
             ACTION==\"add|change\", SUBSYSTEM==\"nvme-subsystem\", ATTR{{subsysnqn}}==\"{nqn}\", \
             ATTR{{iopolicy}}=\"round-robin\""
        );
    }
    s.file("/etc/udev/rules.d/90-wirepool-nvme.rules", rules);
    if let Os::Proxmox = s.os {
        s.note("Proxmox has no storage type for NVMe over a network: make an LVM volume group on /dev/disk/by-id/nvme-uuid.… and add it as shared LVM");
    } else {
        fstab(namespaces, s);
    }
    s.package("nvme-cli", "nvme-cli");
    s.needs_rdma();
    s.command(format!("modprobe nvme-{transport}"));
    s.command("udevadm control --reload");
    s.command("systemctl enable nvmf-autoconnect.service");
    s.command("nvme connect-all");
    s.note(
        "the host's NQN is in /etc/nvme/hostnqn; on the server: wirepool host allow NQN HOSTNQN",
    );
    s.note("multipath is the kernel's own (nvme_core.multipath=Y); multipath-tools must leave NVMe disks alone");
}

fn fstab(namespaces: &[String], s: &mut ClientSettings) {
    let mut text = String::from(
        "# _netdev: mounted after the network. nofail: a server that is away does not stop the boot. The unit connects first.\n\
         # Give directory and kind of file system.\n",
    );
    for uuid in namespaces {
        let _ = writeln!(
            text,
            "#/dev/disk/by-id/nvme-uuid.{uuid} /mnt ext4 _netdev,nofail,x-systemd.requires=nvmf-autoconnect.service 0 2"
        );
    }
    s.lines("/etc/fstab", text);
}
