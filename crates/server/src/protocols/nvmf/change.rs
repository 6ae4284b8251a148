//! Live changes of subsystems, while hosts are connected.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of all changes (see [`crate::change`]).

use super::WORDS;
use super::config::{NamespaceConfig, SubsystemEdit};
use super::limits::NSID_MAX;
use crate::api::{
    AddExport, AllowHost, DenyHost, Done, Export, ExportNvme, ListExports, RemoveExport,
    SetExportTransports, Transport,
};
use crate::config::Edit;
use crate::control::route::routes;
use crate::grouped::ConfigChange;
use crate::server::Server;
use crate::{Error, Result};
use nvmf::controller::HostPolicy;
use nvmf::wire::nqn::Nqn;
use std::collections::BTreeSet;
use uuid::Uuid;

routes! {
    /// Exports over NVMe.
    pub(crate) fn routes, "exports";

    Get "/v1/exports" ListExports => Vec<Export>, VIEW, control |c, _| c.status().await.map(|s| s.exports.nvmf.exports);
    Post "/v1/exports/nvme" ExportNvme => Export, CHANGE, shard |s, r| s.export_nvme(r).await;
    Post "/v1/exports/add" AddExport => Export, CHANGE, shard |s, r| s.add_export(r).await;
    Post "/v1/exports/transports" SetExportTransports => Export, CHANGE, shard |s, r| s.set_export_transports(r).await;
    Post "/v1/exports/remove" RemoveExport => Done, CHANGE, shard |s, r| s.remove_export(r).await.map(|()| Done {});
    Post "/v1/hosts/allow" AllowHost => Export, CHANGE, shard |s, r| s.allow_host(r).await;
    Post "/v1/hosts/deny" DenyHost => Export, CHANGE, shard |s, r| s.deny_host(r).await;
}

fn subsystem_name(text: &str) -> Result<Nqn> {
    Nqn::new(text).map_err(|e| Error::Invalid(format!("{text:?} does not name a subsystem: {e}")))
}

fn host_name(text: &str) -> Result<Nqn> {
    Nqn::new(text).map_err(|e| {
        Error::Invalid(format!(
            "{text:?} does not name a host (its NQN, or any): {e}"
        ))
    })
}

fn no_subsystem(nqn: &Nqn) -> Error {
    Error::NoExport(format!(
        "no such subsystem {nqn}: `wirepool export list` has the names, `wirepool export nvme DISK --nqn {nqn}` makes a new one"
    ))
}

/// The names on a host list; `None` for any host.
fn names(hosts: HostPolicy) -> Option<BTreeSet<Nqn>> {
    match hosts {
        HostPolicy::Any => None,
        HostPolicy::List(names) => Some(names),
    }
}

impl Server {
    /// See [`ExportNvme`]. The namespace, the transports and the hosts are one change.
    pub async fn export_nvme(&self, request: ExportNvme) -> Result<Export> {
        let nqn = match request.nqn {
            Some(nqn) => subsystem_name(&nqn)?,
            None => subsystem_name(&format!(
                "nqn.2014-08.org.nvmexpress:uuid:{}",
                self.identity_of(&request.disk)
            ))?,
        };
        let addition = Addition {
            nqn,
            disk: request.disk,
            nsid: None,
            uuid: None,
            transports: request.transports.into_iter().collect(),
            hosts: request.hosts,
            planned: None,
        };
        self.change(addition).await
    }

    /// See [`AddExport`].
    pub async fn add_export(&self, request: AddExport) -> Result<Export> {
        let addition = Addition {
            nqn: subsystem_name(&request.nqn)?,
            disk: request.disk,
            nsid: request.nsid,
            uuid: request.uuid,
            transports: request.transports.into_iter().collect(),
            hosts: Vec::new(),
            planned: None,
        };
        self.change(addition).await
    }

    /// See [`SetExportTransports`]. Errors: `Invalid` without a transport, `NoExport`.
    pub async fn set_export_transports(&self, request: SetExportTransports) -> Result<Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let wanted: BTreeSet<Transport> = request.transports.into_iter().collect();
        if wanted.is_empty() {
            let message =
                "no transport is named: tcp, rdma or both; `wirepool export remove` ends an export";
            return Err(Error::Invalid(message.to_owned()));
        }
        self.hosts_of(&nqn)?;
        let edit = SubsystemEdit::SetTransports(nqn.clone(), wanted.clone());
        let new = self.edited(&[&edit])?;
        self.store(new).await?;
        self.serve_over(&nqn, &wanted);
        self.export_view(&nqn)
    }

    /// Has the target serve a subsystem over these transports.
    fn serve_over(&self, nqn: &Nqn, wanted: &BTreeSet<Transport>) {
        let target = &self.protocols.nvmf.target;
        let _ = target.set_transports(nqn, super::transports(wanted));
    }

    /// See [`RemoveExport`].
    pub async fn remove_export(&self, request: RemoveExport) -> Result<()> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let gone: Vec<NamespaceConfig> = {
            let state = self.state.borrow();
            let s = state
                .file
                .config()
                .nvmf
                .subsystem(&nqn)
                .ok_or_else(|| no_subsystem(&nqn))?;
            match request.nsid {
                Some(nsid) => match s.namespace(nsid) {
                    Some(n) => vec![n.clone()],
                    None => {
                        let text = format!("the subsystem {nqn} has no namespace {nsid}");
                        return Err(Error::NoExport(text));
                    }
                },
                None => s.namespaces.clone(),
            }
        };
        let edit = match request.nsid {
            Some(nsid) => SubsystemEdit::RemoveNamespace(nqn.clone(), nsid),
            None => SubsystemEdit::Remove(nqn.clone()),
        };
        let new = self.edited(&[&edit])?;
        self.store(new).await?;
        let numbers = gone.iter().map(|n| (n.nsid, n.uuid)).collect();
        let nsids = gone.iter().map(|n| n.nsid);
        self.protocols
            .nvmf
            .withdraw(&nqn, nsids, request.nsid.is_none());
        self.forget_reservations(nqn.to_string(), numbers).await;
        tracing::info!(%nqn, nsid = request.nsid, "no longer exported");
        Ok(())
    }

    /// See [`AllowHost`].
    pub async fn allow_host(&self, request: AllowHost) -> Result<Export> {
        let permission = Permission {
            nqn: subsystem_name(&request.nqn)?,
            host: request.host,
            planned: None,
        };
        self.change(permission).await
    }

    /// See [`DenyHost`].
    pub async fn deny_host(&self, request: DenyHost) -> Result<Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let now = names(self.hosts_of(&nqn)?);
        let hosts = WORDS.deny(nqn.as_str(), now, &request.host, host_name)?;
        let hosts = HostPolicy::List(hosts);
        let set = SubsystemEdit::SetHosts(nqn.clone(), hosts.clone());
        let new = self.edited(&[&set])?;
        self.store(new).await?;
        let _ = self.protocols.nvmf.target.set_hosts(&nqn, hosts);
        self.export_view(&nqn)
    }

    fn hosts_of(&self, nqn: &Nqn) -> Result<HostPolicy> {
        let state = self.state.borrow();
        let found = state.file.config().nvmf.subsystem(nqn);
        found
            .map(|s| s.hosts.clone())
            .ok_or_else(|| no_subsystem(nqn))
    }

    /// Adds a subsystem that a change created to the target.
    fn ensure_subsystem(&self, nqn: &Nqn, exists: bool) {
        let state = self.state.borrow();
        if !exists && let Some(s) = state.file.config().nvmf.subsystem(nqn) {
            self.protocols.nvmf.add_subsystem(s);
        }
    }

    fn export_view(&self, nqn: &Nqn) -> Result<Export> {
        let state = self.state.borrow();
        let found = state.file.config().nvmf.subsystem(nqn);
        let s = found.ok_or_else(|| no_subsystem(nqn))?;
        Ok(self.protocols.nvmf.export(s, &state.disks))
    }
}

/// Hosts of a subsystem: the hosts of `now`, and `more`.
fn with_hosts(nqn: &Nqn, now: Option<HostPolicy>, more: &[String]) -> Result<HostPolicy> {
    let now = now.map_or(Some(BTreeSet::new()), names);
    let hosts = WORDS.allow(nqn.as_str(), now, more, host_name)?;
    Ok(hosts.map_or(HostPolicy::Any, HostPolicy::List))
}

/// The addition of a namespace, with its subsystem if there is none of this name.
struct Addition {
    nqn: Nqn,
    disk: String,
    /// By default the lowest free one.
    nsid: Option<u32>,
    uuid: Option<Uuid>,
    /// New transports of the subsystem; empty: as they are.
    transports: BTreeSet<Transport>,
    /// More hosts that may connect.
    hosts: Vec<String>,
    /// All hosts then, if there are more; and whether the subsystem was there already.
    planned: Option<(Option<HostPolicy>, bool)>,
}

impl ConfigChange for Addition {
    type Reply = Export;

    fn names(&self) -> Vec<String> {
        vec![self.nqn.to_string(), self.disk.clone()]
    }

    fn plan(&mut self, server: &Server) -> Result<Vec<Box<dyn Edit>>> {
        let (nsid, exists) = {
            let state = server.state.borrow();
            state.exportable(&self.disk)?;
            let subsystem = state.file.config().nvmf.subsystem(&self.nqn);
            let is_taken = |nsid| subsystem.is_some_and(|s| s.namespace(nsid).is_some());
            let name = self.nqn.as_str();
            let nsid = WORDS.free_number(name, self.nsid, 1..=NSID_MAX, is_taken)?;
            (nsid, subsystem.is_some())
        };
        let uuid = self.uuid.unwrap_or_else(|| server.export_uuid(&self.disk));
        let namespace = NamespaceConfig {
            nsid,
            disk: self.disk.clone(),
            uuid,
        };
        let mut edits = Vec::new();
        if !exists {
            edits.push(SubsystemEdit::Add(self.nqn.clone()));
        }
        edits.push(SubsystemEdit::AddNamespace(self.nqn.clone(), namespace));
        if !self.transports.is_empty() {
            let wanted = self.transports.clone();
            edits.push(SubsystemEdit::SetTransports(self.nqn.clone(), wanted));
        }
        let mut hosts = None;
        if !self.hosts.is_empty() {
            let all = with_hosts(&self.nqn, server.hosts_of(&self.nqn).ok(), &self.hosts)?;
            edits.push(SubsystemEdit::SetHosts(self.nqn.clone(), all.clone()));
            hosts = Some(all);
        }
        self.planned = Some((hosts, exists));
        Ok(boxed(edits))
    }

    fn take_effect(self, server: &Server) -> Result<Export> {
        let (hosts, exists) = self.planned.unwrap_or_default();
        server.ensure_subsystem(&self.nqn, exists);
        if exists && !self.transports.is_empty() {
            server.serve_over(&self.nqn, &self.transports);
        }
        if let Some(hosts) = hosts.filter(|_| exists) {
            let _ = server.protocols.nvmf.target.set_hosts(&self.nqn, hosts);
        }
        server.publish(&self.disk);
        server.export_view(&self.nqn)
    }
}

/// The permission of a host for a subsystem.
struct Permission {
    nqn: Nqn,
    host: String,
    /// All hosts then.
    planned: Option<HostPolicy>,
}

impl ConfigChange for Permission {
    type Reply = Export;

    fn names(&self) -> Vec<String> {
        vec![self.nqn.to_string()]
    }

    fn plan(&mut self, server: &Server) -> Result<Vec<Box<dyn Edit>>> {
        let now = server.hosts_of(&self.nqn)?;
        let hosts = with_hosts(&self.nqn, Some(now), std::slice::from_ref(&self.host))?;
        self.planned = Some(hosts.clone());
        Ok(boxed(vec![SubsystemEdit::SetHosts(
            self.nqn.clone(),
            hosts,
        )]))
    }

    fn take_effect(self, server: &Server) -> Result<Export> {
        if let Some(hosts) = self.planned {
            let _ = server.protocols.nvmf.target.set_hosts(&self.nqn, hosts);
        }
        server.export_view(&self.nqn)
    }
}

fn boxed(edits: Vec<SubsystemEdit>) -> Vec<Box<dyn Edit>> {
    let edits = edits.into_iter();
    edits.map(|e| Box::new(e) as Box<dyn Edit>).collect()
}
