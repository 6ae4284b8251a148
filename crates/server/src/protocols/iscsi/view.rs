//! Targets as the control API shows them, and warnings about them.
//!
//! **Called by** the protocol. **Invariants**: read-only.

use super::config::{LunConfig, Settings, TargetConfig, exported_as};
use super::{Iscsi, WORDS};
use crate::api::{IscsiTarget, Listen, TargetLun, Transport};
use crate::disks::Disks;
use iscsi::portal::Acl;
use iscsi::wire::IscsiName;
use std::net::SocketAddr;

impl Iscsi {
    pub(super) fn target(
        &self,
        t: &TargetConfig,
        disks: &Disks,
        listening: &[Listen],
    ) -> IscsiTarget {
        let initiators = match &t.initiators {
            Acl::Any => vec!["any".to_owned()],
            Acl::List(names) => names.iter().map(IscsiName::to_string).collect(),
        };
        IscsiTarget {
            iqn: t.iqn.to_string(),
            alias: t.alias.clone(),
            portal_group: t.portal_group,
            portals: self.portals_of(t.portal_group, listening),
            initiators,
            chap: t.chap.as_ref().map(|c| c.initiator.clone()),
            chap_mutual: t.chap.as_ref().and_then(|c| c.target.clone()),
            moved_to: t.moved.as_ref().map(|m| m.address.clone()),
            moved_permanently: t.moved.as_ref().is_some_and(|m| m.permanently),
            sessions: 0,
            reason: self.state().locked.get(&t.iqn).cloned(),
            luns: t.luns.iter().map(|l| self.lun(t, l, disks)).collect(),
        }
    }

    fn lun(&self, t: &TargetConfig, l: &LunConfig, disks: &Disks) -> TargetLun {
        let key = (t.iqn.clone(), l.lun);
        let state = self.published.state(&key, disks.state(&l.disk));
        TargetLun {
            lun: l.lun,
            uuid: l.uuid,
            disk: l.disk.clone(),
            read_only: l.read_only || state.read_only,
            threshold: l.threshold,
            state: state.state,
            reason: state.reason,
            size: state.size,
            block_size: state.block_size,
        }
    }

    /// Warnings for the operator.
    pub(super) fn target_warnings(&self, config: &Settings) -> Vec<String> {
        let mut out = Vec::new();
        let state = self.state();
        if !config.targets.is_empty() && config.groups.is_empty() {
            out.push("iSCSI and its targets are off: [iscsi] listen has no address".to_owned());
        }
        if let Some(reason) = &state.discovery_locked {
            out.push(format!("iSCSI discovery refuses all logins: {reason}"));
        }
        for t in &config.targets {
            if let Some(reason) = state.locked.get(&t.iqn) {
                out.push(format!("{} refuses all logins: {reason}", t.iqn));
            }
            if let Some(moved) = &t.moved {
                out.push(format!(
                    "logins of {0} are redirected to {1}: `wirepool export move {0} --back` ends that",
                    t.iqn, moved.address
                ));
            }
            let has_initiators = !matches!(&t.initiators, Acl::List(names) if names.is_empty());
            out.extend(WORDS.warnings(t.iqn.as_str(), has_initiators, !t.luns.is_empty()));
            out.extend(t.luns.iter().filter_map(|l| {
                let export = exported_as(&t.iqn, l.lun);
                self.published.warning(&(t.iqn.clone(), l.lun), &export)
            }));
        }
        out
    }

    /// The addresses of a portal group that discovery over TCP returns.
    fn portals_of(&self, tag: u16, listening: &[Listen]) -> Vec<SocketAddr> {
        let state = self.state();
        let advertised = state.advertised.iter().filter(|(_, t)| *t == tag);
        let advertised: Vec<SocketAddr> = advertised.map(|(a, _)| *a).collect();
        if !advertised.is_empty() {
            return advertised;
        }
        let over_tcp = listening.iter().filter(|l| l.transport == Transport::Tcp);
        let listened = over_tcp.filter(|l| l.portal_group == Some(tag));
        listened.map(|l| l.address).collect()
    }
}
