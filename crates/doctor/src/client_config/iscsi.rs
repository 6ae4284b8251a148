//! iSCSI over TCP and RDMA (iSER) on Linux.
//!
//! **Called by** [`super`].

use super::settings::{Address, ClientSettings, ClientTransport, Export, Os};
use super::timeouts::{
    ISCSI_NOOP_S, ISCSI_QUEUE_DEPTH, ISCSI_REPLACEMENT_MULTIPATH_S, ISCSI_REPLACEMENT_S,
    ISCSI_SESSION_COMMANDS, SCSI_COMMAND_S,
};
use std::fmt::Write;

pub(super) fn linux(export: &Export, s: &mut ClientSettings) {
    let Export::Iscsi {
        iqn,
        portals,
        luns,
        has_chap,
    } = export
    else {
        return;
    };
    s.file("/etc/iscsi/iscsid.conf", iscsid(export, s, *has_chap));
    s.file(
        "/etc/udev/rules.d/90-wirepool-iscsi.rules",
        format!(
            "# A command may wait for a server that restarts; the kernel's own 30 s would reset the session meanwhile.\n\
             ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ATTRS{{vendor}}==\"WIREPOOL\", \
             ATTR{{device/timeout}}=\"{SCSI_COMMAND_S}\"\n\
             # The server orders requests itself: a scheduler here costs time for each request.\n\
             ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ATTRS{{vendor}}==\"WIREPOOL\", \
             ATTR{{queue/scheduler}}=\"none\"\n"
        ),
    );
    if export.has_paths() {
        s.file("/etc/multipath.conf", multipath());
    }
    match s.os {
        Os::Proxmox => storage(iqn, &portals[0], s),
        _ => fstab(export, iqn, portals, luns, s),
    }
    s.package("open-iscsi", "iscsi-initiator-utils");
    if export.has_paths() {
        s.package("multipath-tools", "device-mapper-multipath");
        s.command("systemctl enable --now multipathd");
    }
    s.needs_rdma();
    s.command("udevadm control --reload");
    // The interface `iser` is built into open-iscsi; records of a discovery with it have its transport.
    let interface = match s.transport {
        ClientTransport::Tcp => "",
        ClientTransport::Rdma => {
            s.file(
                "/etc/modules-load.d/wirepool-iser.conf",
                "# iscsid does not load the transport's module at boot.\nib_iser\n".into(),
            );
            s.command("modprobe ib_iser");
            " -I iser"
        }
    };
    s.command("systemctl enable --now iscsid");
    for portal in portals {
        s.command(format!(
            "iscsiadm -m discovery -t sendtargets -p {}{interface}",
            portal.portal()
        ));
    }
    s.command(format!("iscsiadm -m node -T {iqn} --login"));
    if *has_chap {
        s.note("replace USER and SECRET in iscsid.conf before the discovery; the file must be readable by root only");
    }
    s.note("the initiator's name is in /etc/iscsi/initiatorname.iscsi; on the server: wirepool host allow IQN NAME");
}

/// How data of writes travels.
fn data_of_writes(transport: ClientTransport) -> &'static str {
    match transport {
        ClientTransport::Tcp => {
            "# Small writes go out with their command, without a round trip.\n\
             node.session.iscsi.InitialR2T = No\n\
             node.session.iscsi.ImmediateData = Yes\n\
             node.session.iscsi.FirstBurstLength = 262144\n\
             node.session.iscsi.MaxBurstLength = 16776192\n\
             node.conn[0].iscsi.MaxRecvDataSegmentLength = 262144\n"
        }
        ClientTransport::Rdma => {
            "# Small writes go out with their command; the server reads the rest by RDMA.\n\
             node.session.iscsi.InitialR2T = Yes\n\
             node.session.iscsi.ImmediateData = Yes\n"
        }
    }
}

fn iscsid(export: &Export, s: &ClientSettings, has_chap: bool) -> String {
    let (wait, reason) = match export.has_paths() {
        true => (
            ISCSI_REPLACEMENT_MULTIPATH_S,
            "With multipath: I/O moves to another path after this time. multipath.conf lets it wait when no path is left.",
        ),
        false => (
            ISCSI_REPLACEMENT_S,
            "I/O waits so long for a server that restarts; then it fails. open-iscsi's own 120 s is short for a reboot.",
        ),
    };
    let startup = match s.os {
        Os::Rhel => "/bin/systemctl start iscsid.socket iscsiuio.socket",
        _ => "/bin/systemctl start iscsid.socket",
    };
    let mut text = format!(
        "iscsid.startup = {startup}\n\
         # Sessions come back at boot.\n\
         node.startup = automatic\n\
         # {reason}\n\
         node.session.timeo.replacement_timeout = {wait}\n\
         # A silent cut is noticed within {} s.\n\
         node.conn[0].timeo.noop_out_interval = {ISCSI_NOOP_S}\n\
         node.conn[0].timeo.noop_out_timeout = {ISCSI_NOOP_S}\n\
         # Commands in flight of the session and of a disk; the own values (128 and 32) do not fill a fast network.\n\
         node.session.cmds_max = {ISCSI_SESSION_COMMANDS}\n\
         node.session.queue_depth = {ISCSI_QUEUE_DEPTH}\n\
         {}\
         # One session for each portal.\n\
         node.session.nr_sessions = 1\n",
        2 * ISCSI_NOOP_S,
        data_of_writes(s.transport)
    );
    if has_chap {
        text += "node.session.auth.authmethod = CHAP\n\
                 node.session.auth.username = USER\n\
                 node.session.auth.password = SECRET\n";
    }
    text
}

fn multipath() -> String {
    "# Both portals lead to the same units. All paths are used; a failed path is tried again every 5 s.\n\
     defaults {\n    \
         find_multipaths yes\n    \
         polling_interval 5\n\
     }\n\
     devices {\n    \
         device {\n        \
             vendor \"WIREPOOL\"\n        \
             product \".*\"\n        \
             path_grouping_policy multibus\n        \
             path_selector \"service-time 0\"\n        \
             # 120 tries of 5 s: I/O waits 600 s for a server that restarts, then it fails.\n        \
             no_path_retry 120\n    \
         }\n\
     }\n"
    .to_owned()
}

fn fstab(export: &Export, iqn: &str, portals: &[Address], luns: &[u16], s: &mut ClientSettings) {
    let mut text = String::from(
        "# _netdev: mounted after the network and iscsid. nofail: a server that is away does not stop the boot.\n\
         # Give directory and kind of file system.\n",
    );
    if export.has_paths() {
        text += "#/dev/mapper/WWID /mnt ext4 _netdev,nofail 0 2\n";
    } else {
        for lun in luns {
            let _ = writeln!(
                text,
                "#/dev/disk/by-path/ip-{}-iscsi-{iqn}-lun-{lun} /mnt ext4 _netdev,nofail 0 2",
                portals[0].portal()
            );
        }
    }
    s.lines("/etc/fstab", text);
}

fn storage(iqn: &str, portal: &Address, s: &mut ClientSettings) {
    let name = iqn.rsplit(':').next().unwrap_or(iqn);
    s.lines(
        "/etc/pve/storage.cfg",
        format!(
            "# The whole units are not used as disks (content none): make an LVM volume group on them, and add it as shared LVM.\n\
             iscsi: wirepool-{name}\n\tportal {}\n\ttarget {iqn}\n\tcontent none\n",
            portal.in_path()
        ),
    );
}
