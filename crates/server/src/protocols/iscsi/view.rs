//! Views of iSCSI targets.
//!
//! **Called by** the control API. **Invariants**: read-only.

use crate::api::{IscsiTarget, NamespaceState, TargetLun};
use crate::config::{LunConfig, TargetConfig};
use crate::disks::DiskState;
use crate::server::{Server, State};
use crate::{Error, Result};
use iscsi::portal::Acl;
use iscsi::wire::IscsiName;
use std::net::SocketAddr;

impl Server {
    /// The present iSCSI targets; their sessions are not counted.
    #[must_use]
    pub fn targets(&self) -> Vec<IscsiTarget> {
        self.state.borrow().targets()
    }

    pub(super) fn target_view(&self, iqn: &IscsiName) -> Result<IscsiTarget> {
        let state = self.state.borrow();
        let found = state.file.config().target(iqn).map(|t| state.target(t));
        found.ok_or_else(|| Error::NoTarget(iqn.clone()))
    }
}

impl State {
    pub(crate) fn targets(&self) -> Vec<IscsiTarget> {
        let all = self.file.config().targets.iter();
        all.map(|t| self.target(t)).collect()
    }

    fn target(&self, t: &TargetConfig) -> IscsiTarget {
        let initiators = match &t.initiators {
            Acl::Any => vec!["any".to_owned()],
            Acl::List(names) => names.iter().map(IscsiName::to_string).collect(),
        };
        IscsiTarget {
            iqn: t.iqn.to_string(),
            alias: t.alias.clone(),
            portal_group: t.portal_group,
            portals: self.portals_of(t.portal_group),
            initiators,
            chap: t.chap.as_ref().map(|c| c.initiator.clone()),
            chap_mutual: t.chap.as_ref().and_then(|c| c.target.clone()),
            moved_to: t.moved.as_ref().map(|m| m.address.clone()),
            moved_permanently: t.moved.as_ref().is_some_and(|m| m.permanently),
            sessions: 0,
            reason: self.targets.locked.get(&t.iqn).cloned(),
            luns: t.luns.iter().map(|l| self.lun(t, l)).collect(),
        }
    }

    /// The addresses of a portal group that discovery returns.
    fn portals_of(&self, tag: u16) -> Vec<SocketAddr> {
        let groups = &self.file.config().iscsi.groups;
        match groups.iter().find(|g| g.tag == tag) {
            Some(g) if !g.advertise.is_empty() => g.advertise.clone(),
            _ => self
                .listen
                .iter()
                .filter(|l| l.portal_group == Some(tag))
                .map(|l| l.address)
                .collect(),
        }
    }

    fn lun(&self, t: &TargetConfig, l: &LunConfig) -> TargetLun {
        let mut lun = TargetLun {
            lun: l.lun,
            uuid: l.uuid,
            disk: l.disk.clone(),
            read_only: l.read_only,
            threshold: l.threshold,
            state: NamespaceState::Held,
            reason: None,
            size: 0,
            block_size: 0,
        };
        let disk = self.disks.get(&l.disk).map(|e| &e.state);
        match (self.targets.luns.get(&(t.iqn.clone(), l.lun)), disk) {
            (Some(Ok(())), Some(DiskState::Online(o))) => {
                let geometry = o.backend.geometry();
                lun.state = NamespaceState::Served;
                lun.size = o.size();
                lun.block_size = geometry.block_size;
                lun.read_only |= geometry.read_only;
            }
            (Some(Err(reason)), _) => lun.reason = Some(reason.clone()),
            (_, Some(DiskState::Held(reason))) => lun.reason = Some(reason.clone()),
            _ => lun.reason = Some("its disk is being opened".to_owned()),
        }
        lun
    }

    /// Warnings for the operator.
    pub(crate) fn target_warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        let config = self.file.config();
        if !config.targets.is_empty() && config.iscsi.groups.is_empty() {
            out.push("iSCSI and its targets are off: [iscsi] listen has no address".to_owned());
        }
        if let Some(reason) = &self.targets.discovery_locked {
            out.push(format!("iSCSI discovery refuses all logins: {reason}"));
        }
        for t in &config.targets {
            if let Some(reason) = self.targets.locked.get(&t.iqn) {
                out.push(format!("{} refuses all logins: {reason}", t.iqn));
            }
            if let Some(moved) = &t.moved {
                out.push(format!(
                    "logins of {0} are redirected to {1}: `wirepool export move {0} --back` ends that",
                    t.iqn, moved.address
                ));
            }
            if matches!(&t.initiators, Acl::List(names) if names.is_empty()) {
                out.push(format!(
                    "{0} lets no initiator in: `wirepool host allow {0} any`, or an initiator's name",
                    t.iqn
                ));
            }
            if t.luns.is_empty() {
                out.push(format!(
                    "{0} has no LUN: `wirepool export iscsi DISK --iqn {0}`",
                    t.iqn
                ));
            }
            for l in &t.luns {
                if let Some(Err(reason)) = self.targets.luns.get(&(t.iqn.clone(), l.lun)) {
                    out.push(format!("{} LUN {} is not exported: {reason}", t.iqn, l.lun));
                }
            }
        }
        out
    }
}
