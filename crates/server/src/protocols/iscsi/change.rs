//! Live changes of iSCSI targets, while initiators are logged in.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of all changes (see [`crate::change`]).

use super::chap::{names, realm};
use super::lun_of;
use crate::api::{
    AllowInitiator, DenyInitiator, ExportIscsi, IscsiTarget, MoveTarget, RemoveTarget,
};
use crate::change::not_exported;
use crate::config::{ConfigFile, Edit, LunConfig, TargetConfig, TargetEdit, random_uuid};
use crate::limits::LUN_MAX;
use crate::reservations::ReservationFile;
use crate::server::Server;
use crate::{Error, Result};
use iscsi::portal::{Acl, Redirect};
use iscsi::wire::IscsiName;
use std::collections::BTreeSet;

pub(super) fn target_name(text: &str) -> Result<IscsiName> {
    IscsiName::new(text)
        .map_err(|e| Error::Invalid(format!("{text:?} does not name a target: {e}")))
}

fn initiator_name(text: &str) -> Result<IscsiName> {
    IscsiName::new(text).map_err(|e| {
        Error::Invalid(format!(
            "{text:?} does not name an initiator (iqn.…, or any): {e}"
        ))
    })
}

/// The initiators that may log in after `initiators` are added.
fn allowed(iqn: &IscsiName, now: Option<&Acl>, initiators: &[String]) -> Result<Acl> {
    let mut names = match now {
        Some(Acl::Any) if initiators.iter().any(|i| i != "any") => {
            return Err(Error::Conflict(format!(
                "any initiator may log in to {iqn}: to name those that may, `wirepool host deny {iqn} any` first"
            )));
        }
        Some(Acl::Any) => return Ok(Acl::Any),
        Some(Acl::List(names)) => names.clone(),
        None => BTreeSet::new(),
    };
    for i in initiators.iter().filter(|i| *i != "any") {
        names.insert(initiator_name(i)?);
    }
    let any = initiators.iter().any(|i| i == "any");
    Ok(if any { Acl::Any } else { Acl::List(names) })
}

/// The requested number, if it is free, or the lowest free one.
fn free_lun(target: Option<&TargetConfig>, wanted: Option<u16>) -> Result<u16> {
    let taken = |lun: &u16| target.is_some_and(|t| t.lun(*lun).is_some());
    let name = || target.map_or(String::new(), |t| t.iqn.to_string());
    match wanted {
        Some(lun) if taken(&lun) => Err(Error::Conflict(format!(
            "the target {} has a LUN {lun} already",
            name()
        ))),
        Some(lun) => Ok(lun),
        None => (0..=LUN_MAX).find(|l| !taken(l)).ok_or_else(|| {
            Error::Conflict(format!(
                "the target {} has all {} LUNs",
                name(),
                u32::from(LUN_MAX) + 1
            ))
        }),
    }
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
            not_exported(config, &request.disk)?;
            let target = config.target(&iqn);
            let lun = LunConfig {
                lun: free_lun(target, request.lun)?,
                disk: request.disk.clone(),
                uuid: request.uuid.unwrap_or_else(random_uuid),
                read_only: request.read_only,
                threshold: request.threshold,
            };
            let acl = allowed(&iqn, target.map(|t| &t.initiators), &request.initiators)?;
            let mut edits = vec![TargetEdit::AddLun(lun), TargetEdit::SetInitiators(acl)];
            if target.is_none() {
                edits.insert(0, TargetEdit::Add);
            }
            if let Some(chap) = &request.chap {
                edits.push(TargetEdit::SetChap(Some(names(chap)?)));
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
        } else if let Some(t) = self.config().target(&iqn) {
            self.add_target(t);
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
        edits: Vec<TargetEdit>,
    ) -> Result<ConfigFile> {
        let edits: Vec<_> = edits
            .into_iter()
            .map(|e| Edit::Target(iqn.clone(), e))
            .collect();
        self.edited(&edits)
    }

    /// Passes the access list and the CHAP settings to the service.
    pub(super) fn apply_access(&self, iqn: &IscsiName) {
        if let Some(t) = self.config().target(iqn) {
            let authentication = self.authentication(t);
            let _ =
                self.protocols
                    .iscsi
                    .service
                    .set_access(iqn, t.initiators.clone(), authentication);
        }
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
        let new = self.edited_target(&iqn, vec![TargetEdit::SetMoved(moved.clone())])?;
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
            let found = state.file.config().target(&iqn);
            let t = found.ok_or_else(|| Error::NoTarget(iqn.clone()))?;
            match request.lun {
                Some(lun) => match t.lun(lun) {
                    Some(l) => vec![l.clone()],
                    None => return Err(Error::NoLun(iqn.clone(), lun)),
                },
                None => t.luns.clone(),
            }
        };
        let edit = match request.lun {
            Some(lun) => TargetEdit::RemoveLun(lun),
            None => TargetEdit::Remove,
        };
        let new = self.edited_target(&iqn, vec![edit])?;
        self.store(new).await?;
        self.withdraw(&iqn, &gone);
        if request.lun.is_none() {
            let _ = self.protocols.iscsi.service.remove_target(&iqn);
            {
                let mut state = self.state.borrow_mut();
                state.targets.devices.remove(&iqn);
                state.targets.locked.remove(&iqn);
            }
            self.forget_secrets(&realm(&iqn), None).await;
        }
        self.forget_lun_reservations(&iqn, gone).await;
        tracing::info!(%iqn, lun = request.lun, "no longer exported");
        Ok(())
    }

    fn withdraw(&self, iqn: &IscsiName, luns: &[LunConfig]) {
        let mut state = self.state.borrow_mut();
        for l in luns {
            let taken = state.targets.luns.remove(&(iqn.clone(), l.lun));
            if let (Some(Ok(())), Some(device), Some(lun)) =
                (taken, state.targets.devices.get(iqn), lun_of(l))
            {
                let _ = device.remove_unit(lun);
            }
        }
    }

    async fn forget_lun_reservations(&self, iqn: &IscsiName, gone: Vec<LunConfig>) {
        let dir = {
            let state = self.state.borrow();
            if !state.file.is_stored() {
                return;
            }
            state.file.config().server.state_dir.clone()
        };
        let name = iqn.clone();
        let removed = io::blocking(move || {
            gone.iter().try_for_each(|l| {
                ReservationFile::of(&dir, &name, u32::from(l.lun), l.uuid).remove()
            })
        });
        if let Ok(Err(e)) = removed.await {
            tracing::warn!(%iqn, error = %e, "the reservations of a removed LUN could not be deleted");
        }
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
        let any = request.initiator == "any";
        let acl = match self.initiators_of(&iqn)? {
            Acl::Any if any => Acl::List(BTreeSet::new()),
            Acl::Any => {
                return Err(Error::Conflict(format!(
                    "any initiator may log in to {iqn}: `wirepool host deny {iqn} any` first, then allow those that may"
                )));
            }
            Acl::List(mut names) => {
                if any || !names.remove(&initiator_name(&request.initiator)?) {
                    return Err(Error::Conflict(format!(
                        "{} is not on the initiator list of {iqn}",
                        request.initiator
                    )));
                }
                Acl::List(names)
            }
        };
        self.set_initiators(&iqn, acl).await
    }

    fn initiators_of(&self, iqn: &IscsiName) -> Result<Acl> {
        let state = self.state.borrow();
        let found = state.file.config().target(iqn);
        let acl = found.map(|t| t.initiators.clone());
        acl.ok_or_else(|| Error::NoTarget(iqn.clone()))
    }

    async fn set_initiators(&self, iqn: &IscsiName, acl: Acl) -> Result<IscsiTarget> {
        let new = self.edited_target(iqn, vec![TargetEdit::SetInitiators(acl)])?;
        self.store(new).await?;
        self.apply_access(iqn);
        self.target_view(iqn)
    }
}
