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
use crate::server::Server;
use crate::{Error, Result};
use nvmf::controller::HostPolicy;
use nvmf::wire::nqn::Nqn;
use std::collections::BTreeSet;

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
    /// See [`ExportNvme`].
    pub async fn export_nvme(&self, request: ExportNvme) -> Result<Export> {
        for host in request.hosts.iter().filter(|h| *h != "any") {
            host_name(host)?;
        }
        let nqn = match request.nqn {
            Some(nqn) => subsystem_name(&nqn)?.to_string(),
            None => format!(
                "nqn.2014-08.org.nvmexpress:uuid:{}",
                self.identity_of(&request.disk)
            ),
        };
        let add = AddExport {
            nqn: nqn.clone(),
            disk: request.disk,
            nsid: None,
            uuid: None,
            transports: request.transports,
        };
        let mut export = self.add_export(add).await?;
        for host in request.hosts {
            export = self
                .allow_host(AllowHost {
                    nqn: nqn.clone(),
                    host,
                })
                .await?;
        }
        Ok(export)
    }

    /// See [`AddExport`].
    pub async fn add_export(&self, request: AddExport) -> Result<Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let (nsid, exists) = {
            let state = self.state.borrow();
            let config = state.file.config();
            state.exportable(&request.disk)?;
            let subsystem = config.nvmf.subsystem(&nqn);
            let is_taken = |nsid| subsystem.is_some_and(|s| s.namespace(nsid).is_some());
            let name = nqn.as_str();
            let nsid = WORDS.free_number(name, request.nsid, 1..=NSID_MAX, is_taken)?;
            (nsid, subsystem.is_some())
        };
        let uuid = request
            .uuid
            .unwrap_or_else(|| self.export_uuid(&request.disk));
        let namespace = NamespaceConfig {
            nsid,
            disk: request.disk.clone(),
            uuid,
        };
        let mut edits = vec![SubsystemEdit::AddNamespace(nqn.clone(), namespace)];
        if !exists {
            edits.insert(0, SubsystemEdit::Add(nqn.clone()));
        }
        let wanted: BTreeSet<Transport> = request.transports.iter().copied().collect();
        if !wanted.is_empty() {
            edits.push(SubsystemEdit::SetTransports(nqn.clone(), wanted.clone()));
        }
        let new = self.edited(&edits.iter().map(|e| e as &dyn Edit).collect::<Vec<_>>())?;
        self.store(new).await?;
        self.ensure_subsystem(&nqn, exists);
        if exists && !wanted.is_empty() {
            self.serve_over(&nqn, &wanted);
        }
        self.publish(&request.disk);
        self.export_view(&nqn)
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
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let now = names(self.hosts_of(&nqn)?);
        let hosts = WORDS.allow(nqn.as_str(), now, &[request.host], host_name)?;
        let hosts = hosts.map_or(HostPolicy::Any, HostPolicy::List);
        self.set_hosts(&nqn, hosts).await
    }

    /// See [`DenyHost`].
    pub async fn deny_host(&self, request: DenyHost) -> Result<Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let now = names(self.hosts_of(&nqn)?);
        let hosts = WORDS.deny(nqn.as_str(), now, &request.host, host_name)?;
        self.set_hosts(&nqn, HostPolicy::List(hosts)).await
    }

    fn hosts_of(&self, nqn: &Nqn) -> Result<HostPolicy> {
        let state = self.state.borrow();
        let found = state.file.config().nvmf.subsystem(nqn);
        found
            .map(|s| s.hosts.clone())
            .ok_or_else(|| no_subsystem(nqn))
    }

    async fn set_hosts(&self, nqn: &Nqn, hosts: HostPolicy) -> Result<Export> {
        let set = SubsystemEdit::SetHosts(nqn.clone(), hosts.clone());
        let new = self.edited(&[&set as &dyn Edit])?;
        self.store(new).await?;
        let _ = self.protocols.nvmf.target.set_hosts(nqn, hosts);
        self.export_view(nqn)
    }

    /// Adds a subsystem that a change created to the target.
    fn ensure_subsystem(&self, nqn: &Nqn, exists: bool) {
        if !exists && let Some(s) = self.config().nvmf.subsystem(nqn) {
            self.protocols.nvmf.add_subsystem(s);
        }
    }

    fn export_view(&self, nqn: &Nqn) -> Result<Export> {
        let mut exports = self.exports().nvmf.exports.into_iter();
        let found = exports.find(|e| e.nqn == nqn.as_str());
        found.ok_or_else(|| no_subsystem(nqn))
    }
}
