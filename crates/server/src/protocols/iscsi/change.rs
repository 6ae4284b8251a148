//! Live changes of iSCSI targets, while initiators are logged in.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of all changes (see [`crate::change`]).

use super::WORDS;
use super::chap::{names, realm, target_name};
use super::config::{LunConfig, TargetChange, TargetEdit};
use super::limits::LUN_MAX;
use crate::api::{
    AllowInitiator, DenyInitiator, Done, ExportIscsi, IscsiTarget, ListTargets, MoveTarget,
    RemoveTarget, SetChap, SetDiscoveryChap,
};
use crate::config::{ConfigFile, Edit};
use crate::control::route::routes;
use crate::server::Server;
use crate::{Error, Result};
use iscsi::portal::{Acl, Redirect};
use iscsi::wire::IscsiName;
use std::collections::BTreeSet;

routes! {
    /// Exports over iSCSI.
    pub(crate) fn routes, "targets";

    Get "/v1/targets" ListTargets => Vec<IscsiTarget>, VIEW, control |c, _| c.status().await.map(|s| s.exports.iscsi.targets);
    Post "/v1/targets/export" ExportIscsi => IscsiTarget, CHANGE, shard |s, r| s.export_iscsi(r).await;
    Post "/v1/targets/remove" RemoveTarget => Done, CHANGE, shard |s, r| s.remove_target(r).await.map(|()| Done {});
    Post "/v1/targets/chap" SetChap => IscsiTarget, CHANGE, shard |s, r| s.set_chap(r).await;
    Post "/v1/targets/discovery-chap" SetDiscoveryChap => Done, CHANGE, shard |s, r| s.set_discovery_chap(r).await;
    Post "/v1/targets/move" MoveTarget => IscsiTarget, CHANGE, shard |s, r| s.move_target(r).await;
    Post "/v1/initiators/allow" AllowInitiator => IscsiTarget, CHANGE, shard |s, r| s.allow_initiator(r).await;
    Post "/v1/initiators/deny" DenyInitiator => IscsiTarget, CHANGE, shard |s, r| s.deny_initiator(r).await;
}

fn initiator_name(text: &str) -> Result<IscsiName> {
    IscsiName::new(text).map_err(|e| {
        Error::Invalid(format!(
            "{text:?} does not name an initiator (iqn.…, or any): {e}"
        ))
    })
}

fn no_target(iqn: &IscsiName) -> Error {
    Error::NoExport(format!("no such target {iqn}"))
}

/// The names on an access list; `None` for any initiator.
fn listed(acl: Acl) -> Option<BTreeSet<IscsiName>> {
    match acl {
        Acl::Any => None,
        Acl::List(names) => Some(names),
    }
}

/// The initiators that may log in after `initiators` are added.
fn allowed(iqn: &IscsiName, now: Option<&Acl>, initiators: &[String]) -> Result<Acl> {
    let now = now.map_or(Some(BTreeSet::new()), |acl| listed(acl.clone()));
    let list = WORDS.allow(iqn.as_str(), now, initiators, initiator_name)?;
    Ok(list.map_or(Acl::Any, Acl::List))
}

impl Server {
    /// See [`ExportIscsi`]. Errors: `Conflict`, `Invalid`, `NoDisk`, `NoVolume`, `File`; nothing has changed then.
    /// The same holds for the other changes.
    pub async fn export_iscsi(&self, request: ExportIscsi) -> Result<IscsiTarget> {
        let _turn = self.turn().await?;
        let iqn = match &request.iqn {
            Some(iqn) => target_name(iqn)?,
            None => target_name(&self.default_iqn(&request.disk))?,
        };
        let (edits, exists) = {
            let state = self.state.borrow();
            let config = state.file.config();
            state.exportable(&request.disk)?;
            let target = config.iscsi.target(&iqn);
            let is_taken =
                |lun| target.is_some_and(|t| t.luns.iter().any(|l| u32::from(l.lun) == lun));
            let wanted = request.lun.map(u32::from);
            let numbers = 0..=u32::from(LUN_MAX);
            let number = WORDS.free_number(iqn.as_str(), wanted, numbers, is_taken)?;
            let lun = LunConfig {
                lun: number as u16,
                disk: request.disk.clone(),
                uuid: request
                    .uuid
                    .unwrap_or_else(|| self.export_uuid(&request.disk)),
                read_only: request.read_only,
                threshold: request.threshold,
            };
            let acl = allowed(&iqn, target.map(|t| &t.initiators), &request.initiators)?;
            let mut edits = vec![TargetChange::AddLun(lun), TargetChange::SetInitiators(acl)];
            if target.is_none() {
                edits.insert(0, TargetChange::Add);
            }
            if let Some(chap) = &request.chap {
                edits.push(TargetChange::SetChap(Some(names(chap)?)));
            }
            (edits, target.is_some())
        };
        let new = self.edited_target(&iqn, edits)?;
        match &request.chap {
            Some(chap) => {
                self.store_with_secrets(&realm(&iqn), new, Some(chap))
                    .await?
            }
            None => self.store(new).await?,
        }
        if exists {
            self.apply_access(&iqn);
        } else {
            let state = self.state.borrow();
            if let Some(t) = state.file.config().iscsi.target(&iqn) {
                self.protocols.iscsi.add_target(&state.file, t);
            }
        }
        self.publish(&request.disk);
        self.target_view(&iqn)
    }

    fn default_iqn(&self, disk: &str) -> String {
        let authority = self.config().iscsi.naming_authority;
        format!("{authority}:{}", self.identity_of(disk))
    }

    pub(super) fn edited_target(
        &self,
        iqn: &IscsiName,
        edits: Vec<TargetChange>,
    ) -> Result<ConfigFile> {
        let edit = |change| TargetEdit(iqn.clone(), change);
        let edits: Vec<_> = edits.into_iter().map(edit).collect();
        let edits: Vec<_> = edits.iter().map(|e| e as &dyn Edit).collect();
        self.edited(&edits)
    }

    /// Passes the access list and the CHAP settings to the service.
    pub(super) fn apply_access(&self, iqn: &IscsiName) {
        let state = self.state.borrow();
        self.protocols.iscsi.apply_access(&state.file, iqn);
    }

    /// See [`MoveTarget`].
    pub async fn move_target(&self, request: MoveTarget) -> Result<IscsiTarget> {
        let _turn = self.turn().await?;
        let iqn = target_name(&request.iqn)?;
        self.target_view(&iqn)?;
        let moved = request.to.map(|address| Redirect {
            address,
            permanently: request.permanently,
        });
        let new = self.edited_target(&iqn, vec![TargetChange::SetMoved(moved.clone())])?;
        self.store(new).await?;
        let _ = self.protocols.iscsi.service.set_redirect(&iqn, moved);
        self.target_view(&iqn)
    }

    /// See [`RemoveTarget`].
    pub async fn remove_target(&self, request: RemoveTarget) -> Result<()> {
        let _turn = self.turn().await?;
        let iqn = target_name(&request.iqn)?;
        let gone: Vec<LunConfig> = {
            let state = self.state.borrow();
            let found = state.file.config().iscsi.target(&iqn);
            let t = found.ok_or_else(|| no_target(&iqn))?;
            match request.lun {
                Some(lun) => match t.lun(lun) {
                    Some(l) => vec![l.clone()],
                    None => {
                        let text = format!("the target {iqn} has no LUN {lun}");
                        return Err(Error::NoExport(text));
                    }
                },
                None => t.luns.clone(),
            }
        };
        let edit = match request.lun {
            Some(lun) => TargetChange::RemoveLun(lun),
            None => TargetChange::Remove,
        };
        let new = self.edited_target(&iqn, vec![edit])?;
        self.store(new).await?;
        let is_whole = request.lun.is_none();
        let luns = gone.iter().map(|l| l.lun);
        self.protocols.iscsi.withdraw(&iqn, luns, is_whole);
        if is_whole {
            self.forget_secrets(&realm(&iqn), None).await;
        }
        let numbers = gone.iter().map(|l| (u32::from(l.lun), l.uuid)).collect();
        self.forget_reservations(iqn.to_string(), numbers).await;
        tracing::info!(%iqn, lun = request.lun, "no longer exported");
        Ok(())
    }

    /// See [`AllowInitiator`].
    pub async fn allow_initiator(&self, request: AllowInitiator) -> Result<IscsiTarget> {
        let _turn = self.turn().await?;
        let iqn = target_name(&request.iqn)?;
        let now = self.initiators_of(&iqn)?;
        let acl = allowed(&iqn, Some(&now), &[request.initiator])?;
        self.set_initiators(&iqn, acl).await
    }

    /// See [`DenyInitiator`].
    pub async fn deny_initiator(&self, request: DenyInitiator) -> Result<IscsiTarget> {
        let _turn = self.turn().await?;
        let iqn = target_name(&request.iqn)?;
        let now = listed(self.initiators_of(&iqn)?);
        let list = WORDS.deny(iqn.as_str(), now, &request.initiator, initiator_name)?;
        self.set_initiators(&iqn, Acl::List(list)).await
    }

    fn initiators_of(&self, iqn: &IscsiName) -> Result<Acl> {
        let state = self.state.borrow();
        let found = state.file.config().iscsi.target(iqn);
        let acl = found.map(|t| t.initiators.clone());
        acl.ok_or_else(|| no_target(iqn))
    }

    async fn set_initiators(&self, iqn: &IscsiName, acl: Acl) -> Result<IscsiTarget> {
        let new = self.edited_target(iqn, vec![TargetChange::SetInitiators(acl)])?;
        self.store(new).await?;
        self.apply_access(iqn);
        self.target_view(iqn)
    }

    pub(super) fn target_view(&self, iqn: &IscsiName) -> Result<IscsiTarget> {
        let mut targets = self.exports().iscsi.targets.into_iter();
        let found = targets.find(|t| t.iqn == iqn.as_str());
        found.ok_or_else(|| no_target(iqn))
    }
}
