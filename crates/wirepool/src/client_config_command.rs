//! `wirepool client-config`: settings of a client for an export of the running server.
//!
//! **Owns** its arguments, and the search for the export. **Called by** `commands`. **Invariants**: files are printed, not
//! installed; no secret is asked for or printed.

use crate::ask::{Ask, print_columns};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use doctor::client_config::{self, Address, Export, Os, settings};
use serde::Deserialize;
use server::api::{GetStatus, IscsiRole, ListenRole, NfsRole, NvmfRole, Status, Transport};
use std::net::SocketAddr;

/// Bytes of the logical blocks that every version of ESXi takes.
const ESXI_BLOCK: u32 = 512;

const EXAMPLES: &str = "\
Examples:
  wirepool client-config nqn.2026-01.org.example:vm1 --os debian
  wirepool client-config tank/vm2 --os proxmox --address 10.0.0.1 --address 10.0.1.1   two paths
  wirepool client-config /tank/home --os rhel
  wirepool client-config tank/vm2 --os debian --transport rdma   NVMe/RDMA, iSER or NFS over RDMA

Prints files with their paths, then commands; comments have the reason of each value. Nothing is installed. With several
addresses the settings are those for multipath.";

/// Print the settings of a client for an export: modules, time-outs, udev rules, multipath, fstab.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClientConfig {
    /// The subsystem, target or NFS path; or the exported disk, volume or filesystem.
    export: String,
    /// The system of the client.
    #[arg(long, value_enum)]
    os: System,
    /// Address of this server for clients; may be given several times. Default: the addresses that it listens on.
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<String>,
    /// The transport between client and server.
    #[arg(long, value_enum, default_value_t = Transport::Tcp)]
    transport: Transport,
}

/// The system of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum System {
    /// Debian, Ubuntu.
    Debian,
    /// RHEL, Rocky, Alma, Fedora.
    Rhel,
    /// Proxmox VE.
    Proxmox,
    /// VMware ESXi.
    Esxi,
    /// Windows Server.
    Windows,
}

impl System {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            System::Debian => "debian",
            System::Rhel => "rhel",
            System::Proxmox => "proxmox",
            System::Esxi => "esxi",
            System::Windows => "windows",
        }
    }
}

/// Finds the export and prints its settings. Tabs stay tabs: Proxmox' storage.cfg needs them, and [`settings`] refuses names that
/// have any.
pub(crate) fn run(ask: &Ask, args: ClientConfig) -> Result<String> {
    let status = ask.client.ask(&GetStatus {})?;
    let Some(export) = find(&status, &args) else {
        bail!(
            "nothing is exported as {:?}: `wirepool export list` has the exports",
            args.export
        );
    };
    let os = match args.os {
        System::Debian => Os::Debian,
        System::Rhel => Os::Rhel,
        System::Proxmox => Os::Proxmox,
        System::Esxi => Os::Esxi,
        System::Windows => Os::Windows,
    };
    let transport = match args.transport {
        Transport::Tcp => client_config::ClientTransport::Tcp,
        Transport::Rdma => client_config::ClientTransport::Rdma,
    };
    let mut settings = settings(&export, os, transport)?;
    if args.os == System::Esxi {
        settings
            .notes
            .extend(long_blocks(&status, &export).map(esxi_needs_short_blocks));
    }
    print_columns(&ask.print(&settings, |s| s.text())?)?;
    Ok(String::new())
}

/// The exported disks whose logical blocks are longer than 512 bytes, with the length in bytes. Disks that are held back have none.
fn long_blocks<'s>(status: &'s Status, export: &'s Export) -> impl Iterator<Item = (&'s str, u32)> {
    let subsystems = status.exports.nvmf.exports.iter();
    let subsystems =
        subsystems.filter(|e| matches!(export, Export::Nvme { nqn, .. } if *nqn == e.nqn));
    let namespaces = subsystems.flat_map(|e| &e.namespaces);
    let targets = status.exports.iscsi.targets.iter();
    let targets = targets.filter(|t| matches!(export, Export::Iscsi { iqn, .. } if *iqn == t.iqn));
    let luns = targets.flat_map(|t| &t.luns);
    let all = namespaces.map(|n| (n.disk.as_str(), n.block_size));
    let all = all.chain(luns.map(|l| (l.disk.as_str(), l.block_size)));
    all.filter(|(_, block_size)| *block_size > ESXI_BLOCK)
}

/// The warning about a disk that ESXi refuses. A volume of a pool has `/` in its name, another disk has not.
fn esxi_needs_short_blocks((disk, block_size): (&str, u32)) -> String {
    let (kind, command) = match disk.contains('/') {
        true => (
            "volume",
            format!("wirepool volume create NAME --size SIZE --block-size {ESXI_BLOCK}"),
        ),
        false => (
            "disk",
            format!("wirepool disk add NAME ... --block-size {ESXI_BLOCK}"),
        ),
    };
    format!(
        "WARNING: {disk} has blocks of {block_size} bytes. VMware documents VMFS datastores on remote disks with blocks of {ESXI_BLOCK} bytes \
         only (vSphere 6.7, \"Device Sector Formats\"). A {kind} gets them when it is made: {command}"
    )
}

fn find(status: &Status, args: &ClientConfig) -> Option<Export> {
    nvme(status, args)
        .or_else(|| iscsi(status, args))
        .or_else(|| nfs(status, args))
}

/// The given addresses with the port of the listening ones, or else the listening ones. None if nothing listens over RDMA: an address
/// that is given does not change that.
fn addresses(args: &ClientConfig, listen: &[SocketAddr], port: u16) -> Vec<Address> {
    if listen.is_empty() && args.transport == Transport::Rdma {
        return Vec::new();
    }
    let port = listen.first().map_or(port, SocketAddr::port);
    if !args.address.is_empty() {
        let given = args.address.iter().cloned();
        return given.map(|host| Address { host, port }).collect();
    }
    let own = listen.iter().map(|a| Address {
        // An address that means every interface is a placeholder for people.
        host: match a.ip().is_unspecified() {
            true => "ADDRESS".to_owned(),
            false => a.ip().to_string(),
        },
        port: a.port(),
    });
    own.collect()
}

/// The addresses over a transport.
fn listening(
    status: &Status,
    transport: Transport,
    portal_group: Option<u16>,
    role: ListenRole,
) -> Vec<SocketAddr> {
    let listen = status.listen.iter();
    let listen = listen.filter(|l| l.role == role && l.transport == transport);
    let listen = listen.filter(|l| l.portal_group == portal_group);
    listen.map(|l| l.address).collect()
}

fn nvme(status: &Status, args: &ClientConfig) -> Option<Export> {
    let nvmf = &status.exports.nvmf;
    let mut all = nvmf.exports.iter();
    let is_it = |e: &&server::api::Export| {
        e.nqn == args.export || e.namespaces.iter().any(|n| n.disk == args.export)
    };
    let e = all.find(is_it)?;
    let listen = |role| listening(status, args.transport, None, ListenRole::Nvmf(role));
    let listen = match args.transport {
        // Each I/O address answers discovery, too; an address for discovery only is preferred.
        Transport::Tcp => [
            listen(NvmfRole::Discovery),
            nvmf.advertise.clone(),
            listen(NvmfRole::Io),
        ]
        .into_iter()
        .find(|l| !l.is_empty())
        .unwrap_or_default(),
        Transport::Rdma => listen(NvmfRole::Io),
    };
    Some(Export::Nvme {
        nqn: e.nqn.clone(),
        discovery: addresses(args, &listen, 8009),
        namespaces: e.namespaces.iter().map(|n| n.uuid.to_string()).collect(),
    })
}

fn iscsi(status: &Status, args: &ClientConfig) -> Option<Export> {
    let mut all = status.exports.iscsi.targets.iter();
    let is_it = |t: &&server::api::IscsiTarget| {
        t.iqn == args.export || t.luns.iter().any(|l| l.disk == args.export)
    };
    let t = all.find(is_it)?;
    let portals = match args.transport {
        // The addresses that discovery returns, which may be others than the server's own.
        Transport::Tcp => t.portals.clone(),
        Transport::Rdma => listening(
            status,
            Transport::Rdma,
            Some(t.portal_group),
            ListenRole::Iscsi(IscsiRole::Iscsi),
        ),
    };
    Some(Export::Iscsi {
        iqn: t.iqn.clone(),
        portals: addresses(args, &portals, 3260),
        luns: t.luns.iter().map(|l| l.lun).collect(),
        has_chap: t.chap.is_some(),
    })
}

fn nfs(status: &Status, args: &ClientConfig) -> Option<Export> {
    let mut all = status.exports.nfs.nfs_exports.iter();
    let e = all.find(|e| e.path == args.export || e.filesystem == args.export)?;
    let listen = match args.transport {
        Transport::Tcp => e.addresses.clone(),
        Transport::Rdma => listening(status, Transport::Rdma, None, ListenRole::Nfs(NfsRole::Nfs)),
    };
    Some(Export::Nfs {
        path: e.path.clone(),
        addresses: addresses(args, &listen, 2049),
        shards: status.shards.len(),
    })
}
