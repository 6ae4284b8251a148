//! NFS in the configuration: `[nfs]`, `[nfs.tls]`, and `[[export]]`.
//!
//! **Called by** the check of the configuration, and by live changes. **Invariants**: those of the configuration.

use super::limits::{CLIENTS_MAX, EXPORTS_MAX, LEASE_S_RANGE};
use super::rule::is_name;
pub use super::rule::{ClientRule, Clients};
use super::tls::Certificates;
pub use super::tls::TlsFiles;
use crate::config::checker::{Checker, RawAddresses, Result};
use crate::config::edit::{Edit, find, is, remove, set_list, tables};
use crate::config::exports::{ExportedAs, Exports, ProtocolConfig};
use ::nfs::export::Security;
use ::nfs::rpcbind;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml_edit::{Array, DocumentMut, Table, value};

/// The setting of listening addresses.
pub(super) const LISTEN: &str = "[nfs] listen";
/// The setting of listening addresses over RDMA.
pub(super) const LISTEN_RDMA: &str = "[nfs] listen_rdma";
/// The directory of the service in the state directory.
pub(super) const STATE: &str = "nfs";
/// The directory of client records in the state directory.
pub(super) const RECORDS: &str = "nfs/clients";
/// The file with netgroups, by default.
const NETGROUPS: &str = "/etc/netgroup";
/// Default of `nfs.lease_s`.
const LEASE_S_DEFAULT: u64 = 90;
/// Longest path of an export, bytes.
const PATH_LEN_MAX: usize = 1024;

/// `[nfs]` and `[[export]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Addresses that serve NFS over TCP.
    pub listen: Vec<SocketAddr>,
    /// Addresses that serve NFS over RDMA.
    pub listen_rdma: Vec<SocketAddr>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// The lease of clients, which is the grace period after a start, too.
    pub lease: Duration,
    /// The files of TLS, if there is TLS.
    pub tls: Option<TlsFiles>,
    /// The socket of the rpcbind with which the service is registered; none if it is not to be.
    pub rpcbind: Option<PathBuf>,
    /// The domain of the names of users and groups; without one they are numbers.
    pub domain: Option<String>,
    /// Whether the groups of a user come from this machine, not from the request.
    pub manage_groups: bool,
    /// The file with netgroups.
    pub netgroup_file: PathBuf,
    /// The exports.
    pub exports: Vec<ExportConfig>,
}

/// `[[export]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// The filesystem, such as `tank/home`; it has one export.
    pub filesystem: String,
    /// The path that clients mount, unique.
    pub path: String,
    /// The clients and their rights.
    pub clients: Vec<ClientRule>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSection {
    listen: RawAddresses,
    listen_rdma: RawAddresses,
    connections_max: Option<Spanned<u64>>,
    lease_s: Option<Spanned<u64>>,
    tls: Option<RawTls>,
    rpcbind: Option<bool>,
    rpcbind_socket: Option<PathBuf>,
    domain: Option<Spanned<String>>,
    #[serde(default)]
    manage_groups: bool,
    netgroup_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExport {
    filesystem: Spanned<String>,
    path: Option<Spanned<String>>,
    #[serde(default)]
    clients: Vec<Spanned<String>>,
}

impl Settings {
    /// Whether there is an address to listen on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !(self.listen.is_empty() && self.listen_rdma.is_empty())
    }

    /// The export of a filesystem.
    #[must_use]
    pub fn export_of(&self, filesystem: &str) -> Option<&ExportConfig> {
        self.exports.iter().find(|e| e.filesystem == filesystem)
    }

    /// The export with this path, or of this filesystem.
    #[must_use]
    pub fn export_named(&self, name: &str) -> Option<&ExportConfig> {
        let by_path = self.exports.iter().find(|e| e.path == name);
        by_path.or_else(|| self.export_of(name))
    }
}

impl ProtocolConfig for Settings {
    fn connections(&self) -> usize {
        match self.is_on() {
            true => self.connections_max,
            false => 0,
        }
    }

    /// A connection over RDMA has a channel for events and one for completions.
    fn descriptors_of_connection(&self) -> usize {
        1 + usize::from(!self.listen_rdma.is_empty())
    }

    fn listening_rdma(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = self.listen_rdma.iter();
        all.map(|a| (LISTEN_RDMA, *a)).collect()
    }

    fn listening(&self) -> Vec<(&'static str, SocketAddr)> {
        self.listen.iter().map(|a| (LISTEN, *a)).collect()
    }

    fn unusable_files(&self) -> Vec<String> {
        let certificates = Certificates::new(self.tls.clone());
        certificates.load();
        certificates.failure().into_iter().collect()
    }

    fn directories(&self) -> &'static [&'static str] {
        &[STATE, RECORDS]
    }

    fn exported_filesystems(&self) -> Vec<&str> {
        self.exports.iter().map(|e| &*e.filesystem).collect()
    }

    fn exported_as(&self, filesystem: &str) -> Option<ExportedAs> {
        self.export_of(filesystem).map(|e| exported_as(&e.path))
    }
}

/// An export in messages.
pub(super) fn exported_as(path: &str) -> ExportedAs {
    ExportedAs {
        name: format!("NFS export {path}"),
        removal: format!("wirepool export remove {path}"),
    }
}

/// The path of a filesystem whose export names none.
pub(super) fn default_path(filesystem: &str) -> String {
    format!("/{filesystem}")
}

/// Whether clients can look a path up: absolute, without empty, `.` and `..` components, and printable.
pub(super) fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    let parts = path.strip_prefix('/');
    parts.is_some_and(|parts| parts.split('/').all(is_part))
        && path.len() <= PATH_LEN_MAX
        && !path.contains(char::is_control)
}

/// The checked sections.
pub(crate) fn check(
    c: &Checker<'_>,
    raw: RawSection,
    raw_exports: Vec<Spanned<RawExport>>,
    exports: &mut Exports<'_>,
) -> Result<Settings> {
    let mut checked: Vec<ExportConfig> = Vec::new();
    for e in raw_exports {
        if checked.len() == EXPORTS_MAX {
            return c.fail(e.span(), format!("expected at most {EXPORTS_MAX} exports"));
        }
        let e = e.into_inner();
        exports.check_filesystem(c, &e.filesystem)?;
        let filesystem = e.filesystem.get_ref().clone();
        if checked.iter().any(|o| o.filesystem == filesystem) {
            let message = format!("the filesystem {filesystem:?} has an export already");
            return c.fail(e.filesystem.span(), message);
        }
        let (path, span) = match &e.path {
            Some(path) => (path.get_ref().clone(), path.span()),
            None => (default_path(&filesystem), e.filesystem.span()),
        };
        if !is_path(&path) {
            let message = "expected an absolute path without empty parts, such as \"/tank/home\"";
            return c.fail(span, format!("{message}, found {path:?}"));
        }
        if let Some(other) = checked.iter().find(|o| o.path == path) {
            let message = format!("{path} is the export of {:?} already", other.filesystem);
            return c.fail(span, message);
        }
        checked.push(ExportConfig {
            filesystem,
            path,
            clients: check_clients(c, &e.clients, raw.tls.as_ref())?,
        });
    }
    let path = |path: Option<PathBuf>, default: &str| {
        path.map_or(PathBuf::from(default), |path| c.resolve(&path))
    };
    let socket = path(raw.rpcbind_socket, rpcbind::SOCKET);
    let lease_s = c.number(raw.lease_s.as_ref(), LEASE_S_DEFAULT, LEASE_S_RANGE)?;
    Ok(Settings {
        listen: c.addresses(raw.listen)?,
        listen_rdma: c.addresses(raw.listen_rdma)?,
        connections_max: c.connections(raw.connections_max.as_ref())?,
        lease: Duration::from_secs(lease_s),
        tls: raw.tls.map(|tls| TlsFiles {
            certificate: c.resolve(&tls.certificate),
            key: c.resolve(&tls.key),
            client_ca: tls.client_ca.map(|path| c.resolve(&path)),
        }),
        rpcbind: raw.rpcbind.unwrap_or(true).then_some(socket),
        domain: raw.domain.map(|d| check_domain(c, d)).transpose()?,
        manage_groups: raw.manage_groups,
        netgroup_file: path(raw.netgroup_file, NETGROUPS),
        exports: checked,
    })
}

fn check_domain(c: &Checker<'_>, domain: Spanned<String>) -> Result<String> {
    if !is_name(domain.get_ref()) {
        let message = "expected a domain such as \"example.org\"";
        return c.fail(
            domain.span(),
            format!("{message}, found {:?}", domain.get_ref()),
        );
    }
    Ok(domain.into_inner())
}

/// The missing setting that a rule needs, for people.
fn missing(security: Security, tls: Option<&RawTls>) -> Option<&'static str> {
    match (security, tls) {
        (Security::Tls, None) => Some(
            "xprtsec=tls needs certificates: add the section [nfs.tls] with certificate and key",
        ),
        (Security::MutualTls, None) => Some(
            "xprtsec=mtls needs certificates: add the section [nfs.tls] with certificate, key and client_ca",
        ),
        (
            Security::MutualTls,
            Some(RawTls {
                client_ca: None, ..
            }),
        ) => Some(
            "xprtsec=mtls needs an authority of the clients' certificates: give [nfs.tls] a client_ca",
        ),
        _ => None,
    }
}

fn check_clients(
    c: &Checker<'_>,
    raw: &[Spanned<String>],
    tls: Option<&RawTls>,
) -> Result<Vec<ClientRule>> {
    let mut clients: Vec<ClientRule> = Vec::new();
    for text in raw {
        if clients.len() == CLIENTS_MAX {
            let message = format!("expected at most {CLIENTS_MAX} clients");
            return c.fail(text.span(), message);
        }
        let rule = ClientRule::parse(text.get_ref()).or_else(|e| c.fail(text.span(), e))?;
        if clients.iter().any(|o| o.clients == rule.clients) {
            return c.fail(text.span(), format!("{} is there twice", rule.clients));
        }
        if let Some(message) = missing(rule.security, tls) {
            return c.fail(text.span(), message);
        }
        clients.push(rule);
    }
    Ok(clients)
}

/// A change of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportEdit {
    /// A new export.
    Add(ExportConfig),
    /// The export of a filesystem was removed.
    Remove(String),
    /// New clients of the export of a filesystem.
    SetClients(String, Vec<ClientRule>),
}

fn set_clients(table: &mut Table, clients: &[ClientRule]) {
    let texts: Vec<String> = clients.iter().map(ClientRule::to_string).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    set_list(table, "clients", &texts);
}

impl Edit for ExportEdit {
    fn apply(&self, document: &mut DocumentMut) {
        let document = document.as_table_mut();
        match self {
            ExportEdit::Add(export) => {
                if let Some(exports) = tables(document, "export") {
                    let mut table = Table::new();
                    table["filesystem"] = value(&export.filesystem);
                    if export.path != default_path(&export.filesystem) {
                        table["path"] = value(&export.path);
                    }
                    table["clients"] = value(Array::new());
                    set_clients(&mut table, &export.clients);
                    exports.push(table);
                }
            }
            ExportEdit::Remove(name) => remove(document, "export", |e| is(e, "filesystem", name)),
            ExportEdit::SetClients(name, clients) => {
                let export = tables(document, "export").and_then(|t| find(t, "filesystem", name));
                if let Some(export) = export {
                    set_clients(export, clients);
                }
            }
        }
    }
}
