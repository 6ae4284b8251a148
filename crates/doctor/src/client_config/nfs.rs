//! NFS on Linux.
//!
//! **Called by** [`super`].

use super::settings::{ClientSettings, ClientTransport, Export, Os};
use super::timeouts::{NFS_CONNECTIONS, NFS_TIMEO};

/// The port of NFS over TCP, which needs no option.
const PORT: u16 = 2049;

/// Reads ahead of NFS mounts: the kernel's own 128 KiB wait for each round trip. awk looks whether the device is an NFS mount.
const READ_AHEAD: &str = "\
# Sequential reads of one program: 4 MiB ahead instead of the kernel's 128 KiB.
SUBSYSTEM==\"bdi\", ACTION==\"add\", PROGRAM=\"/usr/bin/awk -v bdi=$kernel 'BEGIN{ret=1} {if ($4 == bdi) {ret=0}} END{exit ret}' \
/proc/fs/nfsfs/volumes\", ATTR{read_ahead_kb}=\"4096\"
";

pub(super) fn linux(export: &Export, s: &mut ClientSettings) {
    let Export::Nfs {
        path,
        addresses,
        shards,
    } = export
    else {
        return;
    };
    let mut options = format!(
        "vers=4.2,proto={},hard,timeo={NFS_TIMEO},retrans=2",
        s.transport.word()
    );
    let connections = match s.transport {
        ClientTransport::Tcp => NFS_CONNECTIONS.min(*shards as u64),
        ClientTransport::Rdma => 1,
    };
    if connections > 1 {
        options += &format!(",nconnect={connections}");
    }
    let address = &addresses[0];
    if address.port != PORT || s.transport == ClientTransport::Rdma {
        options += &format!(",port={}", address.port);
    }
    s.file("/etc/udev/rules.d/90-wirepool-nfs.rules", READ_AHEAD.into());
    let seconds = NFS_TIMEO / 10;
    let of_transport = match s.transport {
        ClientTransport::Tcp => format!(
            "TCP repeats what is lost, so a request is\n\
             # sent again after {seconds} s only. nconnect: connections are spread over processors here and shards of the server."
        ),
        ClientTransport::Rdma => format!(
            "the card repeats lost packets, so a\n\
             # request is sent again after {seconds} s only. port: older kernels have no default for RDMA."
        ),
    };
    let reasons = format!(
        "# hard: programs wait for a server that is away; soft would fail writes. timeo: {of_transport} Sizes of reads\n\
         # and writes are left out: client and server agree on the longest. vers=4.2: locks survive a restart of the server.\n",
    );
    match s.os {
        Os::Proxmox => {
            let name = path.rsplit('/').next().unwrap_or("nfs");
            let text = format!(
                "{reasons}nfs: wirepool-{name}\n\tpath /mnt/pve/wirepool-{name}\n\tserver {}\n\texport {path}\n\toptions {options}\n\t\
                 content images,iso,backup\n",
                address.host
            );
            s.lines("/etc/pve/storage.cfg", text);
        }
        _ => {
            let text = format!(
                "{reasons}# _netdev, nofail: after the network; a server that is away does not stop the boot.\n\
                 {}:{path} /mnt nfs {options},_netdev,nofail 0 0\n",
                address.in_path()
            );
            s.lines("/etc/fstab", text);
        }
    }
    s.package("nfs-common", "nfs-utils");
    if s.transport == ClientTransport::Rdma {
        s.file(
            "/etc/modules-load.d/wirepool-nfs.conf",
            "# The transport's module is there before the first mount.\nrpcrdma\n".into(),
        );
        s.needs_rdma();
        s.command("modprobe rpcrdma");
    }
    s.command("udevadm control --reload");
    if s.os != Os::Proxmox {
        s.command("mount /mnt");
        s.note("/mnt is an example: give the directory");
    }
    if addresses.len() > 1 {
        s.note("the first of the server's addresses is used; clients may use different ones to spread the load");
    }
    s.note(format!(
        "on the server: wirepool host allow {path} CLIENT:rw (CLIENT:rw,insecure behind NAT that changes ports, or with noresvport)"
    ));
}
