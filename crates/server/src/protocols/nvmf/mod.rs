//! NVMe/TCP: the NVMe target, and the configuration's `[[subsystem]]` as the target has them.
//!
//! **Called by** [`super::Protocols`] and the server. **Invariants**: the number of a session is its controller ID, which
//! has 16 bits.

mod metrics;
pub(super) mod routes;
mod session;

use super::{Address, Protocol, Work};
use crate::api::{Listen, ListenRole, Session, Status};
use crate::config::{Config, HostList, SubsystemConfig};
use crate::limits::{DRAIN_MAX, FLUSH_MAX};
use crate::metrics::Families;
use nvmf::controller::{self, HostPolicy, PortInfo, PortRole, Referral, Target, TargetConfig};
use nvmf::wire::nqn::Nqn;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Model number shown to hosts.
const MODEL: &str = "Wirepool";

/// NVMe/TCP.
pub(crate) struct Nvmf {
    pub(crate) target: Target,
}

impl Nvmf {
    /// A target without subsystems. `connections_max` is what descriptors allow.
    pub(crate) fn new(connections_max: usize) -> Nvmf {
        Nvmf {
            target: Target::new(config(connections_max)),
        }
    }
}

/// The connections that the configuration allows.
pub(super) fn connections(config: &Config) -> usize {
    config.nvmf.connections_max
}

impl Nvmf {
    fn address(&self, address: SocketAddr, role: PortRole) -> Address {
        let target = self.target.clone();
        let (listen_role, setting) = match role {
            PortRole::Io => (ListenRole::Io, "[nvmf] listen"),
            PortRole::DiscoveryOnly => (ListenRole::Discovery, "[nvmf] discovery"),
        };
        Address {
            listen: Listen {
                address,
                role: listen_role,
                portal_group: None,
            },
            setting,
            service: Arc::new(move |stream| {
                let target = target.clone();
                Box::pin(async move { target.serve(stream, role).await })
            }),
        }
    }
}

impl Protocol for Nvmf {
    fn addresses(&self, config: &Config) -> Vec<Address> {
        let nvmf = &config.nvmf;
        let io = nvmf.listen.iter().map(|a| self.address(*a, PortRole::Io));
        let discovery = nvmf.discovery.iter();
        let discovery = discovery.map(|a| self.address(*a, PortRole::DiscoveryOnly));
        io.chain(discovery).collect()
    }

    fn advertise(&self, config: &Config, listening: &[Listen]) {
        let (ports, referrals) = ports(config, listening);
        self.target.set_ports(ports);
        self.target.set_referrals(referrals);
    }

    fn hold(&self, config: &Config, is_opening: &dyn Fn(&str) -> bool) {
        for s in &config.subsystems {
            let hold = s.namespaces.iter().any(|n| is_opening(&n.disk));
            // It may have been removed concurrently.
            let _ = self.target.hold_connects(&s.nqn, hold);
        }
    }

    fn sessions(&self) -> Vec<Session> {
        self.target
            .sessions()
            .into_iter()
            .map(session::session)
            .collect()
    }

    fn end_session(&self, id: u32) -> bool {
        u16::try_from(id).is_ok_and(|cntlid| self.target.disconnect(cntlid).is_ok())
    }

    fn metrics(&self, status: &Status, out: &mut Families) -> fmt::Result {
        metrics::exports(&status.exports, out)?;
        metrics::traffic(&self.target.subsystem_totals(), out)?;
        let counters = self.target.counters();
        metrics::connections(&counters, out)?;
        metrics::commands(&counters, out)
    }

    fn drain(&self) -> Work<Vec<String>> {
        let target = self.target.clone();
        Box::pin(async move {
            match io::timeout(DRAIN_MAX + FLUSH_MAX, target.drain(DRAIN_MAX)).await {
                Ok(Ok(())) => Vec::new(),
                Ok(Err(e)) => vec![format!("a disk could not be flushed: {e}")],
                Err(_) => {
                    vec!["commands in flight or the last flush did not finish in time".to_owned()]
                }
            }
        })
    }
}

/// The target's limits. `connections_max` is what descriptors allow.
fn config(connections_max: usize) -> TargetConfig {
    TargetConfig {
        connections_max,
        ..TargetConfig::default()
    }
}

/// A subsystem without namespaces.
pub(crate) fn subsystem(s: &SubsystemConfig) -> controller::SubsystemConfig {
    controller::SubsystemConfig {
        nqn: s.nqn.clone(),
        serial: s.serial.clone(),
        model: MODEL.to_owned(),
        hosts: hosts(&s.hosts),
    }
}

/// The hosts that may connect.
pub(crate) fn hosts(list: &HostList) -> HostPolicy {
    match list {
        HostList::Any => HostPolicy::Any,
        HostList::Listed(names) => HostPolicy::List(names.clone()),
    }
}

/// The role of a port of this protocol.
fn port_role(role: ListenRole) -> Option<PortRole> {
    match role {
        ListenRole::Io => Some(PortRole::Io),
        ListenRole::Discovery => Some(PortRole::DiscoveryOnly),
        _ => None,
    }
}

/// What discovery advertises: the configured addresses, or those listened on.
fn ports(config: &Config, listening: &[Listen]) -> (Vec<PortInfo>, Vec<Referral>) {
    let advertised = config.nvmf.advertise.iter().map(|a| (*a, ListenRole::Io));
    let listened =
        |l: &&Listen| config.nvmf.advertise.is_empty() || l.role == ListenRole::Discovery;
    let listened = listening.iter().filter(listened);
    let all = advertised.chain(listened.map(|l| (l.address, l.role)));
    let roles = all.filter_map(|(addr, role)| Some((addr, port_role(role)?)));
    let ports = (1..)
        .zip(roles)
        .map(|(id, (addr, role))| PortInfo { id, addr, role })
        .collect();
    let referrals = config
        .nvmf
        .referrals
        .iter()
        .map(|a| Referral {
            addr: *a,
            nqn: Nqn::discovery(),
        })
        .collect();
    (ports, referrals)
}
