//! NFS: from the configuration's `[[export]]` to the NFS service.
//!
//! **Owns** the service and which of its exports are published. **Called by** the server, as a [`Protocol`]. **Invariants**: a
//! filesystem has the same number in file handles for ever; clients keep their state when the rules of an export change. RFC 8881.

pub(crate) mod api;
pub(crate) mod change;
pub mod config;
mod identity;
mod limits;
pub(crate) mod metrics;
mod names;
mod netgroup;
mod records;
mod registration;
mod resolve;
mod rule;
mod session;
mod share;
mod tls;

use self::api::{NfsExport, NfsRole as Role};
use self::config::{ExportConfig, Settings, exported_as};
use self::identity::{Identity, Numbers};
use self::limits::{ACCOUNTS_KEPT, LOOKUP_WAIT_MAX, NAMES_RETRY, RECALL_MAX, UPKEEP_EVERY};
use self::names::Names;
use self::registration::Registration;
use self::rule::{ClientRule, Clients, security_word};
use self::share::Shares;
use self::tls::Certificates;
use super::protocol::{
    Address, AddressState, ConnectionService, FilesystemExports, Protocol, ShareChange,
    SharedFilesystem, Work, refused_hosts,
};
use super::published::Published;
use crate::api::{
    ExportPart, ExportRow, ExportStages, Exports, Listen, ListenRole, NamespaceState, RefusedHost,
    Session, Transport,
};
use crate::config::{Config, ConfigFile};
use crate::disks::Disks;
use crate::limits::{DRAIN_MAX, FLUSH_MAX};
use crate::metrics::families::Families;
use crate::{Error, Result};
use ::nfs::export::{Hosts, Rule, Security};
use ::nfs::identity::{IdentityConfig, SystemAccounts};
use ::nfs::limits::TRANSFER_MAX;
use ::nfs::service::{NfsTransport, Service, ServiceConfig};
use ::session::refused::{self, RefusalReason, RefusalTotals};
use backend::file::FileBackend;
use io::sync::lock;
use io::time::Instant;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// NFS.
pub(crate) struct Nfs(Arc<Inner>);

struct Inner {
    service: Service,
    numbers: Mutex<Numbers>,
    /// By filesystem.
    published: Published<String>,
    /// The exports of the service, by filesystem.
    served: Mutex<BTreeMap<String, Served>>,
    shares: Mutex<Shares>,
    certificates: Certificates,
    registration: Registration,
    /// Why the service is held back: a damaged file of its state.
    damage: Option<String>,
    /// Whether the configuration has a file; a simulated server has none.
    is_stored: bool,
    names: Arc<Names>,
}

/// An export of the service.
struct Served {
    path: String,
    clients: Vec<ClientRule>,
    /// The rights by address that the clients stand for.
    rules: Vec<Rule>,
}

/// The lookup of users and groups, if the configuration wants one.
fn accounts(settings: &Settings) -> Option<IdentityConfig> {
    let is_wanted = settings.domain.is_some() || settings.manage_groups;
    is_wanted.then(|| IdentityConfig {
        accounts: Arc::new(SystemAccounts),
        domain: settings.domain.clone(),
        manages_groups: settings.manage_groups,
        kept_for: ACCOUNTS_KEPT,
    })
}

/// The highest protection that rules demand.
fn strictest(clients: &[ClientRule]) -> Security {
    let all = clients.iter().map(|rule| rule.security);
    all.max().unwrap_or_default()
}

fn has_names(clients: &[ClientRule]) -> bool {
    let is_name =
        |rule: &ClientRule| matches!(rule.clients, Clients::Host(_) | Clients::Netgroup(_));
    clients.iter().any(is_name)
}

impl Nfs {
    /// The service, without exports. `connections_max` is what descriptors allow. Blocks for files of the state directory. With a damaged
    /// one it has no addresses, and a warning.
    pub(crate) fn new(file: &ConfigFile, connections_max: usize) -> Result<Nfs> {
        let is_on = file.config().nfs.is_on();
        let mut damage = None;
        let mut note = |e: Error| damage = Some(e.to_string());
        let identity = match is_on {
            true => Identity::load(file).map_err(&mut note).ok(),
            false => None,
        };
        let identity = identity.unwrap_or_else(Identity::random);
        let numbers = Numbers::load(file).map_err(&mut note).unwrap_or_default();
        if let Some(reason) = &damage {
            tracing::error!("NFS is held back, and everything else is served: {reason}");
        }
        let is_on = is_on && damage.is_none();
        let (records, reclaimers) = records::load(file);
        if is_on && !reclaimers.is_empty() {
            let clients = reclaimers.len();
            tracing::info!(clients, "NFS clients may reclaim their opens and locks");
        }
        let lease = file.config().nfs.lease;
        let service = Service::new(ServiceConfig {
            lease,
            grace: lease,
            recall_timeout: lease.min(RECALL_MAX),
            handle_key: identity.handle_key,
            server: identity.server.to_string(),
            connections_max,
            records,
            reclaimers,
            identity: accounts(&file.config().nfs),
            ..ServiceConfig::default()
        });
        let stored = identity::path_of(file, "names");
        let names = Names::load(stored, file.config().nfs.netgroup_file.clone());
        let inner = Arc::new(Inner {
            service,
            numbers: Mutex::new(numbers),
            published: Published::default(),
            served: Mutex::default(),
            shares: Mutex::default(),
            certificates: Certificates::new(file.config().nfs.tls.clone()),
            registration: Registration::default(),
            damage,
            is_stored: file.is_stored(),
            names: Arc::new(names),
        });
        if is_on {
            if let Some(acceptor) = inner.certificates.load() {
                inner.service.set_tls(Some(acceptor));
            }
            drop(io::spawn(upkeep(inner.clone())));
            drop(io::spawn(follow_names(inner.clone())));
        }
        Ok(Nfs(inner))
    }

    /// A listening address.
    fn address(&self, (address, transport): (SocketAddr, Transport)) -> Address {
        let of = &self.0.service;
        let (setting, service) = match transport {
            Transport::Tcp => (
                config::LISTEN,
                ConnectionService::tcp(of, async |of, stream| of.serve(stream).await),
            ),
            Transport::Rdma => (
                config::LISTEN_RDMA,
                ConnectionService::rdma(of, async |of, incoming| of.serve_rdma(incoming).await),
            ),
        };
        Address {
            listen: Listen {
                address,
                role: ListenRole::Nfs(Role::Nfs),
                portal_group: None,
                transport,
            },
            setting,
            service,
        }
    }

    fn export(&self, e: &ExportConfig, shares: &Shares, addresses: &[SocketAddr]) -> NfsExport {
        let (state, reason) = match self.0.published.result(&e.filesystem) {
            _ if self.0.damage.is_some() => (NamespaceState::Held, self.0.damage.clone()),
            Some(Ok(())) => (NamespaceState::Served, None),
            Some(Err(reason)) => (NamespaceState::Held, Some(reason)),
            None => (
                NamespaceState::Held,
                Some("its pool is being opened".to_owned()),
            ),
        };
        NfsExport {
            filesystem: e.filesystem.clone(),
            path: e.path.clone(),
            clients: e.clients.iter().map(ClientRule::to_string).collect(),
            state,
            reason,
            addresses: addresses.to_vec(),
            transfer_max: TRANSFER_MAX,
            shared_by: None,
            unused_property: shares.unused.get(&e.filesystem).cloned(),
            xprtsec: security_word(strictest(&e.clients)).to_owned(),
        }
    }

    /// Whether the service has the export of a filesystem.
    fn is_served(&self, filesystem: &str) -> bool {
        lock(&self.0.served).contains_key(filesystem)
    }

    /// The source of the property that exports a filesystem, which is named by its name or the path of its export.
    fn shared_by(&self, name: &str) -> Option<String> {
        let shares = lock(&self.0.shares);
        let mut all = shares.exports.iter();
        let found = all.find(|(full, _)| *full == name || config::default_path(full) == name);
        found.map(|(_, share)| share.source.clone())
    }

    /// The exports by property.
    fn shared(&self, shares: &Shares, addresses: &[SocketAddr]) -> Vec<NfsExport> {
        let view = |(name, share): (&String, &share::Share)| {
            let shared_by = Some(share.source.clone());
            let reason = match &share.export {
                Ok(export) => {
                    let view = self.export(export, shares, addresses);
                    return NfsExport { shared_by, ..view };
                }
                Err(reason) => reason.clone(),
            };
            let nothing = ExportConfig {
                filesystem: name.clone(),
                path: config::default_path(name),
                clients: Vec::new(),
            };
            NfsExport {
                shared_by,
                state: NamespaceState::Held,
                reason: Some(reason),
                ..self.export(&nothing, shares, addresses)
            }
        };
        shares.exports.iter().map(view).collect()
    }

    /// Replaces the clients of an export, if it is published. Clients keep their state.
    fn set_clients(&self, filesystem: &str, clients: Vec<ClientRule>) -> Work<()> {
        let (inner, filesystem) = (self.0.clone(), filesystem.to_owned());
        Box::pin(async move {
            let rules = inner.resolve(clients.clone()).await;
            inner.apply(&filesystem, clients, rules);
        })
    }
}

impl Inner {
    /// The export of a filesystem, by the configuration or by its property.
    fn export_of(&self, config: &Config, filesystem: &str) -> Option<ExportConfig> {
        let explicit = config.nfs.export_of(filesystem).cloned();
        explicit.or_else(|| lock(&self.shares).export_of(filesystem).cloned())
    }

    /// The rights by address that clients stand for, also by name.
    async fn resolve(&self, clients: Vec<ClientRule>) -> Vec<Rule> {
        if has_names(&clients) {
            let (names, clients) = (self.names.clone(), clients.clone());
            let refreshed = io::blocking(move || names.refresh(&clients));
            // A slow answer counts later; until then, the last one is in force.
            let _ = io::timeout(LOOKUP_WAIT_MAX, refreshed).await;
        }
        resolve::resolve(&clients, &self.names)
    }

    /// The served exports whose clients have names.
    fn named(&self) -> Vec<(String, Vec<ClientRule>)> {
        let served = lock(&self.served);
        let named = served.iter().filter(|(_, e)| has_names(&e.clients));
        let named = named.map(|(name, e)| (name.clone(), e.clients.clone()));
        named.collect()
    }

    /// Whether a name has no answer, or an export waits for one.
    fn lacks_answers(&self) -> bool {
        let is_unresolved = |rule: &Rule| rule.hosts == Hosts::Unresolved;
        let served = lock(&self.served);
        let waits = served.values().any(|e| e.rules.iter().any(is_unresolved));
        waits || self.names.failures() != (0, 0)
    }

    /// Sets the rights of an export, if it is published and they differ.
    fn apply(&self, filesystem: &str, clients: Vec<ClientRule>, rules: Vec<Rule>) {
        let mut served = lock(&self.served);
        if let Some(export) = served.get_mut(filesystem) {
            export.clients = clients;
            if export.rules != rules {
                export.rules.clone_from(&rules);
                // It is in the service as long as it is on the list.
                let _ = self.service.set_rules(&export.path, rules);
            }
        }
    }

    async fn publish(
        &self,
        export: &ExportConfig,
        files: Arc<dyn FileBackend>,
    ) -> std::result::Result<(), String> {
        let guid = files.root().filesystem;
        // The file is small, and a new filesystem is rare.
        let id = lock(&self.numbers).of(guid).map_err(|e| e.to_string())?;
        let rules = self.resolve(export.clients.clone()).await;
        let mut served = lock(&self.served);
        let added = self.service.add_export(::nfs::export::ExportConfig {
            id,
            path: export.path.clone(),
            files,
            rules: rules.clone(),
        });
        added.map_err(|e| e.to_string())?;
        let new = Served {
            path: export.path.clone(),
            clients: export.clients.clone(),
            rules,
        };
        served.insert(export.filesystem.clone(), new);
        Ok(())
    }
}

/// Removes clients whose courtesy is over, and reads certificates again, without end.
async fn upkeep(inner: Arc<Inner>) {
    loop {
        io::time::sleep(UPKEEP_EVERY.min(inner.service.lease())).await;
        inner.service.sweep().await;
        let reader = inner.clone();
        let loaded = io::blocking(move || reader.certificates.load()).await;
        if let Ok(Some(acceptor)) = loaded {
            inner.service.set_tls(Some(acceptor));
        }
    }
}

/// Resolves names again, without end: soon after a failure, else from time to time.
async fn follow_names(inner: Arc<Inner>) {
    loop {
        let is_urgent = inner.lacks_answers();
        io::time::sleep(if is_urgent { NAMES_RETRY } else { UPKEEP_EVERY }).await;
        let named = inner.named();
        let all: Vec<ClientRule> = named.iter().flat_map(|(_, c)| c.clone()).collect();
        inner.names.keep_failures_of(&all);
        if named.is_empty() {
            continue;
        }
        let names = inner.names.clone();
        if let Err(e) = io::blocking(move || names.refresh(&all)).await {
            tracing::error!(error = %e, "clients of NFS exports cannot be resolved");
        }
        for (filesystem, clients) in named {
            let rules = resolve::resolve(&clients, &inner.names);
            let is_same = lock(&inner.served)
                .get(&filesystem)
                .is_some_and(|e| e.clients == clients);
            if is_same {
                inner.apply(&filesystem, clients, rules);
            }
        }
    }
}

impl Protocol for Nfs {
    fn addresses(&self, config: &Config) -> Vec<Address> {
        if self.0.damage.is_some() {
            return Vec::new();
        }
        let tcp = config.nfs.listen.iter().map(|a| (*a, Transport::Tcp));
        let rdma = config.nfs.listen_rdma.iter();
        let rdma = rdma.map(|a| (*a, Transport::Rdma));
        tcp.chain(rdma).map(|a| self.address(a)).collect()
    }

    /// Clients find the service by rpcbind.
    fn advertise(&self, config: &Config, served: &AddressState<'_>) {
        let ours = served.listening.iter();
        let ours = ours.filter(|l| l.role == ListenRole::Nfs(Role::Nfs));
        let over = |transport| match transport {
            Transport::Tcp => NfsTransport::Tcp,
            Transport::Rdma => NfsTransport::Rdma,
        };
        let addresses = ours.map(|l| (l.address, over(l.transport))).collect();
        if let (Some(socket), true) = (&config.nfs.rpcbind, self.0.is_stored) {
            let (service, socket) = (self.0.service.clone(), socket.clone());
            self.0.registration.begin(service, socket, addresses);
        }
    }

    fn filesystem_exports(&self) -> Option<&dyn FilesystemExports> {
        Some(self)
    }

    fn describe(&self, config: &Config, _disks: &Disks, listening: &[Listen], out: &mut Exports) {
        let ours = listening.iter();
        // Clients without an option for another transport use TCP.
        let ours =
            ours.filter(|l| l.role == ListenRole::Nfs(Role::Nfs) && l.transport == Transport::Tcp);
        let addresses: Vec<SocketAddr> = ours.map(|l| l.address).collect();
        let all = config.nfs.exports.iter();
        let shares = lock(&self.0.shares);
        let all = all.map(|e| self.export(e, &shares, &addresses));
        let shared = self.shared(&shares, &addresses);
        out.nfs.nfs_exports = all.chain(shared).collect();
    }

    /// A client is not a client of one export.
    fn count_sessions(&self, _sessions: &[Session], _out: &mut Exports) {}

    fn rows(&self, exports: &Exports) -> Vec<ExportRow> {
        // A client is not one of a single export: it counts for each that its address may use.
        let service = &self.0.service;
        let hosts = service.clients().into_iter();
        let hosts = hosts.filter_map(|c| c.connections.first().map(|c| c.peer.ip()));
        let hosts = hosts.chain(service.hosts().into_iter().map(|h| h.host));
        let mut users: BTreeMap<String, usize> = BTreeMap::new();
        for path in hosts.flat_map(|host| service.exports_for(host)) {
            *users.entry(path).or_default() += 1;
        }
        let row = |e: &NfsExport| ExportRow {
            protocol: "nfs".to_owned(),
            name: e.path.clone(),
            clients: e.clients.clone(),
            sessions: users.get(&e.path).copied().unwrap_or(0),
            parts: vec![ExportPart {
                number: None,
                disk: e.filesystem.clone(),
                state: e.state,
                reason: e.reason.clone(),
            }],
            protection: (e.xprtsec != "none").then(|| format!("xprtsec={}", e.xprtsec)),
            shared_by: e.shared_by.clone(),
        };
        exports.nfs.nfs_exports.iter().map(row).collect()
    }

    fn warnings(&self, config: &Config) -> Vec<String> {
        let mut out = Vec::new();
        if !config.nfs.is_on() && !config.nfs.exports.is_empty() {
            out.push("NFS is off: give [nfs] listen an address and restart the server".to_owned());
        }
        if let Some(reason) = &self.0.damage {
            out.push(format!(
                "NFS is held back: {reason}; then restart the server"
            ));
        }
        let certificates = &self.0.certificates;
        if let Some(reason) = certificates.failure() {
            out.push(format!("the certificates of NFS cannot be used: {reason}"));
        }
        out.extend(self.0.names.warnings());
        for e in &config.nfs.exports {
            let path = &e.path;
            if e.clients.is_empty() {
                out.push(format!(
                    "{path} lets no client in: `wirepool host allow {path} '*:rw'`, or a client such as 10.0.0.0/24:rw"
                ));
            }
            let warning = self.0.published.warning(&e.filesystem, &exported_as(path));
            out.extend(warning);
        }
        for (name, share) in &lock(&self.0.shares).exports {
            let shown = exported_as(&config::default_path(name));
            match &share.export {
                Ok(_) => out.extend(self.0.published.warning(name, &shown)),
                Err(reason) => out.push(format!("{shown} is not exported: {reason}")),
            }
        }
        out
    }

    fn refused(&self) -> Vec<RefusedHost> {
        let exports: Vec<String> = {
            let served = lock(&self.0.served);
            served.values().map(|e| e.path.clone()).collect()
        };
        let allow = |h: &refused::RefusedHost, reason| {
            let asked = exports.iter().find(|path| **path == h.export);
            let export = asked.or_else(|| exports.first().filter(|_| exports.len() == 1));
            let export = export.map_or("EXPORT", String::as_str);
            let port = match reason {
                RefusalReason::UnprivilegedPort => ",insecure",
                RefusalReason::NotListed | RefusalReason::NoSecret | RefusalReason::Transport => "",
            };
            format!("wirepool host allow {export} {}:rw{port}", h.address)
        };
        refused_hosts("nfs", self.0.service.refused().0, allow)
    }

    fn refusals(&self) -> (&'static str, RefusalTotals) {
        ("nfs", self.0.service.refused().1)
    }

    fn sessions(&self) -> Vec<Session> {
        session::sessions(&self.0.service)
    }

    fn stages(&self, now: Instant) -> Vec<ExportStages> {
        let counters = self.0.service.stages();
        vec![ExportStages::read("nfs", "nfs".into(), &counters, now)]
    }

    fn traffic(&self) -> (u64, u64) {
        let c = self.0.service.counters().connections;
        (c.bytes_in, c.bytes_out)
    }

    fn end_session(&self, id: u32) -> bool {
        session::client(&self.0.service, id).is_some_and(|client| self.0.service.end_client(client))
    }

    fn metrics(&self, exports: &Exports, out: &mut Families) -> fmt::Result {
        metrics::exports(&exports.nfs.nfs_exports, out)?;
        metrics::states(&[metrics::StateCounts::of(&self.0.service)], out)?;
        metrics::hosts(&self.0.service.hosts(), out)?;
        let (kept, unresolved) = self.0.names.failures();
        metrics::names(&[metrics::NameCounts { kept, unresolved }], out)?;
        metrics::counters(&[self.0.service.counters()], out)
    }

    fn drain(&self) -> Work<Vec<String>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let service = &inner.service;
            let of_rpcbind = inner.clone();
            let ended = io::spawn(async move {
                of_rpcbind.registration.end(&of_rpcbind.service).await;
            });
            let drained = io::timeout(DRAIN_MAX + FLUSH_MAX, service.drain(DRAIN_MAX)).await;
            ended.await;
            match drained {
                Ok(()) => Vec::new(),
                Err(_) => vec!["requests over NFS did not finish in time".to_owned()],
            }
        })
    }
}

impl FilesystemExports for Nfs {
    fn check_share(&self, text: &str) -> std::result::Result<(), String> {
        share::parse(text).map(drop)
    }

    fn follow(
        &self,
        config: &Config,
        shared: Vec<SharedFilesystem>,
        is_open: &dyn Fn(&str) -> bool,
    ) -> Work<Vec<ShareChange>> {
        let (changes, others) = {
            let mut shares = lock(&self.0.shares);
            let new = Shares::new(&config.nfs, shared, &shares, is_open);
            let served = lock(&self.0.served);
            let path = |name: &str| served.get(name).map(|e| e.path.clone());
            let changes = new.changes(&shares, &config.nfs, &path);
            *shares = new;
            changes
        };
        let inner = self.0.clone();
        Box::pin(async move {
            for ExportConfig {
                filesystem,
                clients,
                ..
            } in others
            {
                let rules = inner.resolve(clients.clone()).await;
                inner.apply(&filesystem, clients, rules);
            }
            changes
        })
    }

    fn is_shared(&self, filesystem: &str) -> bool {
        lock(&self.0.shares).exports.contains_key(filesystem)
    }

    fn publish(
        &self,
        file: &ConfigFile,
        filesystem: &str,
        files: Arc<dyn FileBackend>,
    ) -> Work<bool> {
        let export = self.0.export_of(file.config(), filesystem);
        let inner = self.0.clone();
        Box::pin(async move {
            let Some(export) = export else { return true };
            let result = inner.publish(&export, files).await;
            let is_accepted = result.is_ok();
            let (shown, name) = (exported_as(&export.path), &export.filesystem);
            inner.published.insert(name.clone(), &shown, name, result);
            is_accepted
        })
    }

    fn hold_back(&self, config: &Config, filesystem: &str, reason: &str) {
        let Some(export) = self.0.export_of(config, filesystem) else {
            return;
        };
        let (shown, name) = (exported_as(&export.path), &export.filesystem);
        let result = Err(reason.to_owned());
        if self.0.published.result(name).as_ref() != Some(&result) {
            self.0.published.insert(name.clone(), &shown, name, result);
        }
    }

    fn recall(&self, filesystem: &str) -> Work<()> {
        let served = lock(&self.0.served);
        let path = served.get(filesystem).map(|export| export.path.clone());
        let service = self.0.service.clone();
        Box::pin(async move {
            if let Some(path) = path {
                service.recall_export(&path).await;
            }
        })
    }

    fn withdraw(&self, filesystem: &str) {
        self.0.published.remove(&filesystem.to_owned());
        let gone = lock(&self.0.served).remove(filesystem);
        if let Some(export) = gone {
            // It is in the service as long as it is on the list.
            let _ = self.0.service.remove_export(&export.path);
        }
    }

    fn guarded(&self, files: Arc<dyn FileBackend>) -> Arc<dyn FileBackend> {
        self.0.service.guarded(files)
    }
}
