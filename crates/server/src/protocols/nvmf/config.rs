//! NVMe over TCP and RDMA in the configuration: `[nvmf]`, and `[[subsystem]]` with its namespaces.
//!
//! **Called by** the check of the configuration, and by live changes. **Invariants**: those of the configuration.

use super::limits::{NSID_MAX, SERIAL_LEN_MAX, SUBSYSTEMS_MAX};
use crate::api::Transport;
use crate::config::UUID_SPACE;
use crate::config::checker::{Checker, RawAddresses, Result};
use crate::config::edit::{Edit, find, is, remove, set_list, tables};
use crate::config::exports::{ExportedAs, Exports, ProtocolConfig};
use io::net::Endpoint;
use nvmf::controller::HostPolicy;
use nvmf::controller::limits::{
    CONNECTIONS_REFUSED_MAX, RDMA_SHARED_RECEIVES_MAX, RDMA_SHARED_RECEIVES_MIN,
};
use nvmf::wire::nqn::Nqn;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use toml::Spanned;
use toml_edit::{Array, DocumentMut, Item, Table, value};
use uuid::Uuid;

/// The setting of addresses for I/O and discovery.
pub(super) const LISTEN: &str = "[nvmf] listen";
/// The setting of addresses for I/O and discovery over RDMA.
pub(super) const LISTEN_RDMA: &str = "[nvmf] listen_rdma";
/// The setting of addresses for discovery.
pub(super) const DISCOVERY: &str = "[nvmf] discovery";

/// `[nvmf]` and `[[subsystem]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Addresses that serve I/O and discovery.
    pub listen: Vec<SocketAddr>,
    /// Addresses that serve I/O and discovery over RDMA.
    pub listen_rdma: Vec<SocketAddr>,
    /// Addresses that serve only discovery.
    pub discovery: Vec<SocketAddr>,
    /// Addresses that discovery returns instead of `listen`.
    pub advertise: Vec<Endpoint>,
    /// Addresses that discovery returns instead of `listen_rdma`.
    pub advertise_rdma: Vec<Endpoint>,
    /// Other discovery services that discovery returns as referrals.
    pub referrals: Vec<Endpoint>,
    /// Maximum number of connections; each queue is one.
    pub connections_max: usize,
    /// Receives that connections over RDMA share, for each shard and device; 0: none are shared.
    pub rdma_shared_receives: u32,
    /// The subsystems, in the order they are exported.
    pub subsystems: Vec<SubsystemConfig>,
}

/// `[[subsystem]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its name, unique.
    pub nqn: Nqn,
    /// Its serial number.
    pub serial: String,
    /// Hosts that may connect.
    pub hosts: HostPolicy,
    /// Transports over which hosts may connect, at least one; all if the file has none.
    pub transports: BTreeSet<Transport>,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceConfig>,
}

/// `[[subsystem.namespace]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Its identifier, unique in the subsystem.
    pub nsid: u32,
    /// The name of its disk.
    pub disk: String,
    /// Its UUID. If the file has none it is made of the subsystem's name, the identifier and the disk's name.
    pub uuid: Uuid,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSection {
    listen: RawAddresses,
    listen_rdma: RawAddresses,
    discovery: RawAddresses,
    advertise: RawAddresses,
    advertise_rdma: RawAddresses,
    referrals: RawAddresses,
    connections_max: Option<Spanned<u64>>,
    rdma_shared_receives: Option<Spanned<i128>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExport {
    nqn: Spanned<String>,
    serial: Option<Spanned<String>>,
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    transports: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    namespace: Vec<Spanned<RawNamespace>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNamespace {
    nsid: Spanned<u64>,
    disk: Spanned<String>,
    uuid: Option<Spanned<String>>,
}

impl Settings {
    /// The subsystem of that name.
    #[must_use]
    pub fn subsystem(&self, nqn: &Nqn) -> Option<&SubsystemConfig> {
        self.subsystems.iter().find(|s| s.nqn == *nqn)
    }

    /// The namespace of a disk.
    #[must_use]
    pub fn export_of(&self, disk: &str) -> Option<(&SubsystemConfig, &NamespaceConfig)> {
        self.namespaces().find(|(_, n)| n.disk == disk)
    }

    fn namespaces(&self) -> impl Iterator<Item = (&SubsystemConfig, &NamespaceConfig)> {
        self.subsystems
            .iter()
            .flat_map(move |s| s.namespaces.iter().map(move |n| (s, n)))
    }
}

impl ProtocolConfig for Settings {
    fn connections(&self) -> usize {
        self.connections_max
    }

    fn refused_connections_max(&self) -> usize {
        CONNECTIONS_REFUSED_MAX
    }

    fn listening(&self) -> Vec<(&'static str, SocketAddr)> {
        let listen = self.listen.iter().map(|a| (LISTEN, *a));
        let discovery = self.discovery.iter().map(|a| (DISCOVERY, *a));
        listen.chain(discovery).collect()
    }

    fn listening_rdma(&self) -> Vec<(&'static str, SocketAddr)> {
        self.listen_rdma.iter().map(|a| (LISTEN_RDMA, *a)).collect()
    }

    /// A connection over RDMA has a channel for events and one for completions.
    fn descriptors_of_connection(&self) -> usize {
        1 + usize::from(!self.listen_rdma.is_empty())
    }

    fn told(&self) -> Vec<Endpoint> {
        [&self.advertise[..], &self.advertise_rdma, &self.referrals].concat()
    }

    fn exported_disks(&self) -> Vec<&str> {
        self.namespaces().map(|(_, n)| &*n.disk).collect()
    }

    fn exported_as(&self, disk: &str) -> Option<ExportedAs> {
        let (s, n) = self.export_of(disk)?;
        Some(exported_as(&s.nqn, n.nsid))
    }
}

impl SubsystemConfig {
    /// The namespace of that identifier.
    #[must_use]
    pub fn namespace(&self, nsid: u32) -> Option<&NamespaceConfig> {
        self.namespaces.iter().find(|n| n.nsid == nsid)
    }
}

/// The number of shared receives: 0, or enough for one whole queue.
fn shared_receives(c: &Checker<'_>, value: Option<&Spanned<i128>>) -> Result<u32> {
    let (min, max) = (RDMA_SHARED_RECEIVES_MIN, RDMA_SHARED_RECEIVES_MAX);
    let Some(value) = value else { return Ok(0) };
    let count = u32::try_from(*value.get_ref()).ok();
    let allowed = count.filter(|n| *n == 0 || (min..=max).contains(n));
    match allowed {
        Some(count) => Ok(count),
        None => c.fail(
            value.span(),
            format!(
                "expected 0 (each connection has receives of its own), or a number from {min} to {max}, found {}",
                value.get_ref()
            ),
        ),
    }
}

/// A namespace in messages.
pub(crate) fn exported_as(nqn: &Nqn, nsid: u32) -> ExportedAs {
    ExportedAs {
        name: format!("{nqn} namespace {nsid}"),
        removal: format!("wirepool export remove {nqn} --nsid {nsid}"),
    }
}

/// The checked sections.
pub(crate) fn check(
    c: &Checker<'_>,
    raw: RawSection,
    subsystems: Vec<Spanned<RawExport>>,
    exports: &mut Exports<'_>,
) -> Result<Settings> {
    let listen = match raw.listen {
        Some(list) => c.addresses(Some(list))?,
        None => vec![SocketAddr::from(([127, 0, 0, 1], 4420))],
    };
    Ok(Settings {
        listen,
        listen_rdma: c.addresses(raw.listen_rdma)?,
        discovery: c.addresses(raw.discovery)?,
        advertise: c.endpoints(raw.advertise)?,
        advertise_rdma: c.endpoints(raw.advertise_rdma)?,
        referrals: c.endpoints(raw.referrals)?,
        connections_max: c.connections(raw.connections_max.as_ref())?,
        rdma_shared_receives: shared_receives(c, raw.rdma_shared_receives.as_ref())?,
        subsystems: check_subsystems(c, subsystems, exports)?,
    })
}

fn check_subsystems(
    c: &Checker<'_>,
    raw: Vec<Spanned<RawExport>>,
    exports: &mut Exports<'_>,
) -> Result<Vec<SubsystemConfig>> {
    let mut subsystems: Vec<SubsystemConfig> = Vec::new();
    let mut named = BTreeSet::new();
    for s in raw {
        if subsystems.len() == SUBSYSTEMS_MAX {
            let message = format!("expected at most {SUBSYSTEMS_MAX} subsystems");
            return c.fail(s.span(), message);
        }
        let s = s.into_inner();
        let nqn = check_nqn(c, &s.nqn)?;
        if nqn.is_discovery() {
            return c.fail(s.nqn.span(), "this name is the discovery service's own");
        }
        if !named.insert(nqn.clone()) {
            let message = format!("there is another subsystem named {nqn}");
            return c.fail(s.nqn.span(), message);
        }
        let mut namespaces: Vec<NamespaceConfig> = Vec::new();
        for n in s.namespace {
            let n = n.into_inner();
            let nsid = c.number(Some(&n.nsid), 1, 1..=u64::from(NSID_MAX))? as u32;
            exports.check_disk(c, &n.disk)?;
            let disk = n.disk.get_ref().clone();
            let uuid = c.uuid(n.uuid.as_ref(), || format!("{nqn}\n{nsid}\n{disk}"))?;
            if namespaces.iter().any(|o| o.nsid == nsid) {
                let message = format!("the subsystem has another namespace {nsid}");
                return c.fail(n.nsid.span(), message);
            }
            exports.add(c, &n.disk, exported_as(&nqn, nsid))?;
            namespaces.push(NamespaceConfig { nsid, disk, uuid });
        }
        let hosts = c.access_list(&s.hosts, "host", |h| check_nqn(c, h))?;
        subsystems.push(SubsystemConfig {
            serial: check_serial(c, s.serial, &nqn)?,
            hosts: hosts.map_or(HostPolicy::Any, HostPolicy::List),
            transports: check_transports(c, s.transports)?,
            nqn,
            namespaces,
        });
    }
    Ok(subsystems)
}

/// The transports of an export; all if the file has none. Errors: an empty list, an unknown word, or one that is there twice.
fn check_transports(
    c: &Checker<'_>,
    raw: Option<Spanned<Vec<Spanned<String>>>>,
) -> Result<BTreeSet<Transport>> {
    let Some(raw) = raw else {
        return Ok(Transport::ALL.into());
    };
    let mut out = BTreeSet::new();
    for word in raw.get_ref() {
        let mut all = Transport::ALL.into_iter();
        let Some(transport) = all.find(|t| t.word() == word.get_ref()) else {
            let message = format!("expected \"tcp\" or \"rdma\", found {:?}", word.get_ref());
            return c.fail(word.span(), message);
        };
        if !out.insert(transport) {
            return c.fail(word.span(), format!("{} is there twice", word.get_ref()));
        }
    }
    match out.is_empty() {
        true => c.fail(
            raw.span(),
            "expected at least one of \"tcp\" and \"rdma\"; without this key hosts may use both",
        ),
        false => Ok(out),
    }
}

/// The configured serial number, or one computed from the subsystem's name.
fn check_serial(c: &Checker<'_>, serial: Option<Spanned<String>>, nqn: &Nqn) -> Result<String> {
    let Some(serial) = serial else {
        let id = Uuid::new_v5(&UUID_SPACE, nqn.as_str().as_bytes())
            .simple()
            .to_string();
        return Ok(format!("WP{}", &id.to_uppercase()[..SERIAL_LEN_MAX - 2]));
    };
    c.printable(serial, SERIAL_LEN_MAX)
}

fn check_nqn(c: &Checker<'_>, text: &Spanned<String>) -> Result<Nqn> {
    Nqn::new(text.get_ref()).or_else(|e| {
        let message = "expected a name such as \"nqn.2026-01.org.example:disk1\"";
        c.fail(text.span(), format!("{message}: {e}"))
    })
}

/// A change of a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubsystemEdit {
    /// A new subsystem without namespaces.
    Add(Nqn),
    /// A subsystem was removed with its namespaces.
    Remove(Nqn),
    /// A new namespace.
    AddNamespace(Nqn, NamespaceConfig),
    /// A namespace was removed.
    RemoveNamespace(Nqn, u32),
    /// New list of hosts.
    SetHosts(Nqn, HostPolicy),
    /// New transports.
    SetTransports(Nqn, BTreeSet<Transport>),
}

fn subsystem<'a>(document: &'a mut Table, nqn: &Nqn) -> Option<&'a mut Table> {
    tables(document, "subsystem").and_then(|t| find(t, "nqn", nqn.as_str()))
}

impl Edit for SubsystemEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let document = document.as_table_mut();
        match self {
            SubsystemEdit::Add(nqn) => {
                if let Some(subsystems) = tables(document, "subsystem") {
                    let mut table = Table::new();
                    table["nqn"] = value(nqn.as_str());
                    table["hosts"] = value(Array::new());
                    subsystems.push(table);
                }
            }
            SubsystemEdit::Remove(nqn) => {
                remove(document, "subsystem", |s| is(s, "nqn", nqn.as_str()));
            }
            SubsystemEdit::AddNamespace(nqn, namespace) => {
                let subsystem = subsystem(document, nqn);
                if let Some(namespaces) = subsystem.and_then(|s| tables(s, "namespace")) {
                    let mut table = Table::new();
                    table["nsid"] = value(i64::from(namespace.nsid));
                    table["disk"] = value(&namespace.disk);
                    table["uuid"] = value(namespace.uuid.to_string());
                    namespaces.push(table);
                }
            }
            SubsystemEdit::RemoveNamespace(nqn, nsid) => {
                if let Some(s) = subsystem(document, nqn) {
                    let nsid = Some(i64::from(*nsid));
                    remove(s, "namespace", |n| {
                        n.get("nsid").and_then(Item::as_integer) == nsid
                    });
                }
            }
            SubsystemEdit::SetHosts(nqn, hosts) => {
                if let Some(s) = subsystem(document, nqn) {
                    let wanted: Vec<&str> = match hosts {
                        HostPolicy::Any => vec!["any"],
                        HostPolicy::List(names) => names.iter().map(Nqn::as_str).collect(),
                    };
                    set_list(s, "hosts", &wanted);
                }
            }
            SubsystemEdit::SetTransports(nqn, transports) => {
                let Some(s) = subsystem(document, nqn) else {
                    return;
                };
                if transports.len() == Transport::ALL.len() {
                    s.remove("transports");
                } else {
                    let wanted: Vec<&str> = transports.iter().map(|t| t.word()).collect();
                    set_list(s, "transports", &wanted);
                }
            }
        }
    }
}
