//! Live changes of exports over NFS, while clients have them mounted.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of all changes (see [`crate::change`]); a change of
//! rights drops no client.

use super::api::{AllowNfs, DenyNfs, ExportNfs, ListNfs, NfsExport, RemoveNfs};
use super::config::{ClientRule, Clients, ExportConfig, ExportEdit, default_path};
use super::rule::security;
use crate::api::Done;
use crate::control::route::routes;
use crate::protocols::protocol::FilesystemExports;
use crate::server::Server;
use crate::{Error, Result};
use ::nfs::export::Security;
use std::rc::Rc;

routes! {
    /// Exports over NFS.
    pub(crate) fn routes, "nfs";

    Get "/v1/nfs" ListNfs => Vec<NfsExport>, VIEW, control |c, _| c.status().await.map(|s| s.exports.nfs.nfs_exports);
    Post "/v1/nfs/export" ExportNfs => NfsExport, CHANGE, shard |s, r| s.export_nfs(r).await;
    Post "/v1/nfs/remove" RemoveNfs => Done, CHANGE, shard |s, r| s.remove_nfs(r).await.map(|()| Done {});
    Post "/v1/nfs/allow" AllowNfs => NfsExport, CHANGE, shard |s, r| s.allow_nfs(r).await;
    Post "/v1/nfs/deny" DenyNfs => NfsExport, CHANGE, shard |s, r| s.deny_nfs(r).await;
}

fn rule(text: &str) -> Result<ClientRule> {
    ClientRule::parse(text).map_err(|e| Error::Invalid(format!("the client {text:?}: {e}")))
}

/// The protection that a word of `xprtsec` demands.
fn demanded(word: &str) -> Result<Security> {
    security(word).ok_or_else(|| {
        Error::Invalid(format!(
            "expected xprtsec none, tls or mtls, found {word:?}"
        ))
    })
}

/// The rules with other rules: those for the same clients are replaced.
fn merged(mut now: Vec<ClientRule>, new: Vec<ClientRule>) -> Vec<ClientRule> {
    for rule in new {
        match now.iter_mut().find(|o| o.clients == rule.clients) {
            Some(old) => *old = rule,
            None => now.push(rule),
        }
    }
    now
}

impl Server {
    /// See [`ExportNfs`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoFilesystem`, `Pool`, `File`; nothing has changed then. The same
    /// holds for the other changes.
    pub async fn export_nfs(self: &Rc<Self>, request: ExportNfs) -> Result<NfsExport> {
        let _turn = self.turn().await?;
        let full = &request.filesystem;
        self.filesystem_to_export(full)?;
        let demanded = request.xprtsec.as_deref().map(demanded).transpose()?;
        let mut clients: Vec<ClientRule> = Vec::new();
        for text in &request.clients {
            let mut rule = rule(text)?;
            if let Some(security) = demanded.filter(|_| !text.contains("xprtsec=")) {
                rule.security = security;
            }
            clients.push(rule);
        }
        let found = self.config().nfs.export_of(full).cloned();
        if let Some(found) = found {
            if request
                .path
                .as_ref()
                .is_some_and(|path| *path != found.path)
            {
                return Err(Error::Conflict(format!(
                    "the filesystem {full:?} is exported as {}: `wirepool export remove {}` first",
                    found.path, found.path
                )));
            }
            if let Some(security) = demanded.filter(|_| clients.is_empty()) {
                clients.clone_from(&found.clients);
                clients.iter_mut().for_each(|rule| rule.security = security);
            }
            return self.set_nfs_clients(&found, clients).await;
        }
        let export = ExportConfig {
            filesystem: full.clone(),
            path: request.path.unwrap_or_else(|| default_path(full)),
            clients: merged(Vec::new(), clients),
        };
        let new = self.edited(&[&ExportEdit::Add(export)])?;
        let user = self.use_to_export(full).await?;
        self.store(new).await?;
        // an export by property at this path ends, or becomes this one
        self.follow_shares().await;
        if !self.protocols.nfs.is_served(full) {
            self.publish_filesystem(full, Some(user)).await;
        }
        self.nfs_view(full)
    }

    /// See [`RemoveNfs`].
    pub async fn remove_nfs(self: &Rc<Self>, request: RemoveNfs) -> Result<()> {
        let _turn = self.turn().await?;
        let export = self.nfs_export(&request.export)?;
        let new = self.edited(&[&ExportEdit::Remove(export.filesystem.clone())])?;
        self.store(new).await?;
        self.follow_shares().await;
        if self.protocols.nfs.is_shared(&export.filesystem) {
            tracing::info!(path = export.path, "exported by its property from now on");
            return Ok(());
        }
        self.withdraw_filesystem(&export.filesystem);
        // an export by property may have waited for the path
        self.follow_shares().await;
        tracing::info!(path = export.path, "no longer exported");
        Ok(())
    }

    /// See [`AllowNfs`].
    pub async fn allow_nfs(&self, request: AllowNfs) -> Result<NfsExport> {
        let _turn = self.turn().await?;
        let export = self.nfs_export(&request.export)?;
        let rule = rule(&request.client)?;
        self.set_nfs_clients(&export, vec![rule]).await
    }

    /// See [`DenyNfs`].
    pub async fn deny_nfs(&self, request: DenyNfs) -> Result<NfsExport> {
        let _turn = self.turn().await?;
        let export = self.nfs_export(&request.export)?;
        let denied = rule(&request.client)?.clients;
        let mut clients = export.clients.clone();
        clients.retain(|rule| rule.clients != denied);
        if clients.len() == export.clients.len() {
            return Err(not_listed(&denied, &export));
        }
        self.replace_nfs_clients(&export, clients).await
    }

    /// Sets rights of some clients; the others keep theirs.
    async fn set_nfs_clients(
        &self,
        export: &ExportConfig,
        new: Vec<ClientRule>,
    ) -> Result<NfsExport> {
        let clients = merged(export.clients.clone(), new);
        self.replace_nfs_clients(export, clients).await
    }

    async fn replace_nfs_clients(
        &self,
        export: &ExportConfig,
        clients: Vec<ClientRule>,
    ) -> Result<NfsExport> {
        let full = &export.filesystem;
        let new = self.edited(&[&ExportEdit::SetClients(full.clone(), clients.clone())])?;
        self.store(new).await?;
        self.protocols.nfs.set_clients(full, clients).await;
        self.nfs_view(full)
    }

    /// The export with this path, or of this filesystem. Errors: `NoExport`.
    fn nfs_export(&self, name: &str) -> Result<ExportConfig> {
        let found = self.config().nfs.export_named(name).cloned();
        found.ok_or_else(|| match self.protocols.nfs.shared_by(name) {
            Some(source) => Error::Conflict(format!(
                "{name} is exported by the property sharenfs of {source}: change it with `wirepool set sharenfs=... {source}`, \
                 or export the filesystem with `wirepool export nfs`, which counts then"
            )),
            None => Error::NoExport(format!("no such NFS export {name}")),
        })
    }

    fn nfs_view(&self, full: &str) -> Result<NfsExport> {
        let mut exports = self.exports().nfs.nfs_exports.into_iter();
        let found = exports.find(|e| e.filesystem == full);
        found.ok_or_else(|| Error::NoExport(format!("no such NFS export {full}")))
    }
}

fn not_listed(clients: &Clients, export: &ExportConfig) -> Error {
    Error::Conflict(format!(
        "{clients} is not on the client list of {}",
        export.path
    ))
}
