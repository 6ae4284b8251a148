//! NVMe over TCP and RDMA: the NVMe target, and the configuration's `[[subsystem]]` as the target has them.
//!
//! **Owns** the subsystems and which of their namespaces are published. **Called by** the server, as a [`Protocol`].
//! **Invariants**: the number of a session is its controller ID, which has 16 bits.

pub(crate) mod api;
pub(crate) mod change;
pub mod config;
mod limits;
pub(crate) mod metrics;
mod session;

use self::api::NvmfRole as Role;
use self::config::{SubsystemConfig, exported_as};
use super::access::Words;
use super::protocol::{
    Address, AddressState, ConnectionService, DiskExports, Protocol, Work, off_the_shard,
    refused_hosts, sessions_of,
};
use super::published::Published;
use crate::api::{
    Export, ExportPart, ExportReservations, ExportRow, ExportStages, ExportedAs, Exports, Listen,
    ListenRole, Namespace, RefusedHost, Session, Transport,
};
use crate::config::exports::ProtocolConfig;
use crate::config::{Config, ConfigFile};
use crate::disks::Disks;
use crate::limits::{DRAIN_MAX, FLUSH_MAX};
use crate::metrics::families::Families;
use crate::reservations;
use ::session::refused::{self, RefusalReason, RefusalTotals};
use ::session::stages::StageCounters;
use backend::BlockBackend;
use io::sync::lock;
use io::time::Instant;
use nvmf::controller::{
    self, HostPolicy, NamespaceConfig, PortInfo, PortRole, Referral, Target, TargetConfig,
    Transports,
};
use nvmf::wire::nqn::Nqn;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Model number shown to hosts.
const MODEL: &str = "Wirepool";

/// The protocol in the API.
const WORD: &str = "nvme";

const WORDS: Words = Words {
    export: "subsystem",
    client: "host",
    client_name: "a host's NQN",
    verb: "connect to",
    unit: "namespace",
    add_unit: |nqn| format!("wirepool export add {nqn} DISK"),
};

/// NVMe over TCP and RDMA.
pub(crate) struct Nvmf {
    target: Target,
    /// By subsystem and identifier.
    published: Published<(Nqn, u32)>,
    /// The addresses that discovery tells instead of the listening ones, over TCP and over RDMA.
    advertised: Mutex<(Vec<SocketAddr>, Vec<SocketAddr>)>,
}

impl Nvmf {
    /// A target without subsystems. `connections_max` is what descriptors allow.
    pub(crate) fn new(file: &ConfigFile, connections_max: usize) -> crate::Result<Nvmf> {
        Ok(Nvmf {
            target: Target::new(TargetConfig {
                connections_max,
                rdma_shared_receives: file.config().nvmf.rdma_shared_receives,
                ..TargetConfig::default()
            }),
            published: Published::default(),
            advertised: Mutex::default(),
        })
    }

    /// Adds a subsystem without namespaces.
    fn add_subsystem(&self, s: &SubsystemConfig) {
        let added = self.target.add_subsystem(controller::SubsystemConfig {
            nqn: s.nqn.clone(),
            serial: s.serial.clone(),
            model: MODEL.to_owned(),
            hosts: s.hosts.clone(),
            transports: transports(&s.transports),
        });
        if let Err(e) = added {
            // The configuration has each name once, so this is not the client's fault.
            tracing::error!(nqn = %s.nqn, error = %e, "the target refused a subsystem");
        }
    }

    /// Removes namespaces that were published, and the subsystem if it `is_whole`.
    fn withdraw(&self, nqn: &Nqn, nsids: impl Iterator<Item = u32>, is_whole: bool) {
        for nsid in nsids {
            if self.published.remove(&(nqn.clone(), nsid)) {
                let _ = self.target.remove_namespace(nqn, nsid);
            }
        }
        if is_whole {
            let _ = self.target.remove_subsystem(nqn);
        }
    }

    fn export(&self, s: &SubsystemConfig, disks: &Disks) -> Export {
        let hosts = match &s.hosts {
            HostPolicy::Any => vec!["any".to_owned()],
            HostPolicy::List(names) => names.iter().map(Nqn::to_string).collect(),
        };
        let namespace = |n: &config::NamespaceConfig| {
            let key = (s.nqn.clone(), n.nsid);
            let state = self.published.state(&key, disks.state(&n.disk));
            Namespace {
                nsid: n.nsid,
                uuid: n.uuid,
                disk: n.disk.clone(),
                state: state.state,
                reason: state.reason,
                size: state.size,
                block_size: state.block_size,
            }
        };
        Export {
            nqn: s.nqn.to_string(),
            serial: s.serial.clone(),
            hosts,
            transports: s.transports.iter().copied().collect(),
            sessions: 0,
            namespaces: s.namespaces.iter().map(namespace).collect(),
        }
    }

    fn address(&self, (setting, address): (&'static str, SocketAddr)) -> Address {
        let target = &self.target;
        let (listen_role, role) = match setting {
            config::DISCOVERY => (Role::Discovery, PortRole::DiscoveryOnly),
            _ => (Role::Io, PortRole::Io),
        };
        let (transport, service) = match setting {
            config::LISTEN_RDMA => {
                let serve = async move |of: Target, incoming| of.serve_rdma(incoming, role).await;
                (Transport::Rdma, ConnectionService::rdma(target, serve))
            }
            _ => {
                let serve = async move |of: Target, stream| of.serve(stream, role).await;
                (Transport::Tcp, ConnectionService::tcp(target, serve))
            }
        };
        Address {
            listen: Listen {
                address,
                role: ListenRole::Nvmf(listen_role),
                portal_group: None,
                transport,
            },
            setting,
            service,
        }
    }
}

impl Protocol for Nvmf {
    fn addresses(&self, config: &Config) -> Vec<Address> {
        let over_tcp = config.nvmf.listening().into_iter();
        let all = over_tcp.chain(config.nvmf.listening_rdma());
        all.map(|wanted| self.address(wanted)).collect()
    }

    fn advertise(&self, config: &Config, served: &AddressState<'_>) {
        let names = served.names;
        let advertised = (
            names.addresses(&config.nvmf.advertise),
            names.addresses(&config.nvmf.advertise_rdma),
        );
        self.target.set_ports(ports(&advertised, served.listening));
        let referrals = names.addresses(&config.nvmf.referrals).into_iter();
        let nqn = Nqn::discovery();
        let referral = |addr| Referral {
            addr,
            nqn: nqn.clone(),
        };
        self.target.set_referrals(referrals.map(referral).collect());
        *lock(&self.advertised) = advertised;
    }

    fn disk_exports(&self) -> Option<&dyn DiskExports> {
        Some(self)
    }

    fn describe(&self, config: &Config, disks: &Disks, _listening: &[Listen], out: &mut Exports) {
        let (advertise, advertise_rdma) = lock(&self.advertised).clone();
        (out.nvmf.advertise, out.nvmf.advertise_rdma) = (advertise, advertise_rdma);
        let all = config.nvmf.subsystems.iter();
        out.nvmf.exports = all.map(|s| self.export(s, disks)).collect();
    }

    fn count_sessions(&self, sessions: &[Session], out: &mut Exports) {
        for e in &mut out.nvmf.exports {
            e.sessions = sessions_of(sessions, &e.nqn);
        }
    }

    fn told(&self) -> Vec<Listen> {
        let told = |transport| {
            move |address: &SocketAddr| Listen {
                address: *address,
                role: ListenRole::Nvmf(Role::Io),
                portal_group: None,
                transport,
            }
        };
        let (tcp, rdma) = &*lock(&self.advertised);
        let over_rdma = rdma.iter().map(told(Transport::Rdma));
        tcp.iter()
            .map(told(Transport::Tcp))
            .chain(over_rdma)
            .collect()
    }

    fn rows(&self, exports: &Exports) -> Vec<ExportRow> {
        let part = |n: &Namespace| ExportPart {
            number: Some(n.nsid),
            disk: n.disk.clone(),
            state: n.state,
            reason: n.reason.clone(),
        };
        let row = |e: &Export| ExportRow {
            protocol: WORD.to_owned(),
            name: e.nqn.clone(),
            clients: e.hosts.clone(),
            sessions: e.sessions,
            parts: e.namespaces.iter().map(part).collect(),
            protection: None,
            shared_by: None,
        };
        exports.nvmf.exports.iter().map(row).collect()
    }

    fn warnings(&self, config: &Config) -> Vec<String> {
        let mut out = Vec::new();
        for s in &config.nvmf.subsystems {
            let has_hosts = !matches!(&s.hosts, HostPolicy::List(names) if names.is_empty());
            let has_namespaces = !s.namespaces.is_empty();
            out.extend(WORDS.warnings(s.nqn.as_str(), has_hosts, has_namespaces));
            if config.nvmf.listen_rdma.is_empty() && !s.transports.contains(&Transport::Tcp) {
                out.push(format!(
                    "{} is served over RDMA only, and the server does not listen for RDMA: set [nvmf] listen_rdma, or `wirepool export transport {} tcp,rdma`",
                    s.nqn, s.nqn
                ));
            }
            out.extend(s.namespaces.iter().filter_map(|n| {
                let export = exported_as(&s.nqn, n.nsid);
                self.published.warning(&(s.nqn.clone(), n.nsid), &export)
            }));
        }
        out
    }

    fn refused(&self) -> Vec<RefusedHost> {
        let allow = |h: &refused::RefusedHost, reason| match reason {
            RefusalReason::Transport => {
                format!("wirepool export transport {} tcp,rdma", h.export)
            }
            _ => format!("wirepool host allow {} {}", h.export, h.name),
        };
        refused_hosts(WORD, self.target.refused().0, allow)
    }

    fn refusals(&self) -> (&'static str, RefusalTotals) {
        (WORD, self.target.refused().1)
    }

    fn sessions(&self) -> Vec<Session> {
        let all = self.target.sessions().into_iter();
        all.map(session::session).collect()
    }

    fn stages(&self, now: Instant) -> Vec<ExportStages> {
        let all = self.target.stages().into_iter();
        let read = |(nqn, counters): (Nqn, Arc<StageCounters>)| {
            ExportStages::read(WORD, nqn.to_string(), &counters, now)
        };
        all.map(read).collect()
    }

    fn traffic(&self) -> (u64, u64) {
        let c = self.target.counters();
        (c.bytes_in, c.bytes_out)
    }

    fn end_session(&self, id: u32) -> bool {
        u16::try_from(id).is_ok_and(|cntlid| self.target.disconnect(cntlid).is_ok())
    }

    fn metrics(&self, exports: &Exports, out: &mut Families) -> fmt::Result {
        metrics::exports(&exports.nvmf.exports, out)?;
        metrics::traffic(&self.target.subsystem_totals(), out)?;
        metrics::counters(&[self.target.counters()], out)
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

impl DiskExports for Nvmf {
    fn add_exports(&self, file: &ConfigFile) {
        for s in &file.config().nvmf.subsystems {
            self.add_subsystem(s);
        }
    }

    fn publish(&self, file: &ConfigFile, disk: &str, backend: Arc<dyn BlockBackend>) {
        let Some((s, n)) = file.config().nvmf.export_of(disk) else {
            return;
        };
        let namespace = NamespaceConfig {
            nsid: n.nsid,
            uuid: n.uuid,
            backend,
            reservations: reservations::store(file, &s.nqn, n.nsid, n.uuid),
        };
        let result = self.target.add_namespace(&s.nqn, namespace);
        let export = exported_as(&s.nqn, n.nsid);
        self.published
            .insert((s.nqn.clone(), n.nsid), &export, disk, result);
    }

    fn announce(&self, config: &Config, disk: &str) {
        if let Some((s, n)) = config.nvmf.export_of(disk) {
            let _ = self.target.namespace_changed(&s.nqn, n.nsid);
        }
    }

    fn hold_hosts(&self, config: &Config, is_awaited: &dyn Fn(&str) -> bool) {
        for s in &config.nvmf.subsystems {
            let hold = s.namespaces.iter().any(|n| is_awaited(&n.disk));
            // It may have been removed concurrently.
            let _ = self.target.hold_connects(&s.nqn, hold);
        }
    }

    fn reservations(&self, config: &Config) -> Vec<ExportReservations> {
        let all = config.nvmf.subsystems.iter();
        let all = all.flat_map(|s| s.namespaces.iter().map(move |n| (s, n)));
        let found = all.filter_map(|(s, n)| {
            let reserved = self.target.reservations(&s.nqn, n.nsid).ok()?;
            let export = (s.nqn.to_string(), n.nsid, n.disk.as_str());
            Some(ExportReservations::of(WORD, export, reserved))
        });
        found.collect()
    }

    fn clear_reservations(&self, of: &ExportReservations) -> Option<Work<Result<(), String>>> {
        if of.protocol != WORD {
            return None;
        }
        let (target, number) = (self.target.clone(), of.number);
        let name = Nqn::new(&of.export);
        Some(off_the_shard(move || match name {
            Ok(nqn) => target
                .clear_reservations(&nqn, number)
                .map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        }))
    }

    fn exported_as(&self, config: &Config, disk: &str, out: &mut ExportedAs) {
        if let Some((s, n)) = config.nvmf.export_of(disk) {
            out.nvmf.nqn = Some(s.nqn.to_string());
            out.nvmf.nsid = Some(n.nsid);
        }
    }
}

/// Transports of the configuration as the target has them.
fn transports(of: &BTreeSet<Transport>) -> Transports {
    of.iter().copied().map(transport).collect()
}

fn transport(of: Transport) -> controller::Transport {
    match of {
        Transport::Tcp => controller::Transport::Tcp,
        Transport::Rdma => controller::Transport::Rdma,
    }
}

/// The ports that discovery tells: for each transport that is listened on the advertised addresses, or those listened on. Names that never
/// had an answer are no addresses, and then the latter are better than nothing.
fn ports(
    (advertised, advertised_rdma): &(Vec<SocketAddr>, Vec<SocketAddr>),
    listening: &[Listen],
) -> Vec<PortInfo> {
    let listened = |role: Role, on: Transport| {
        let all = listening.iter();
        let all = all.filter(move |l| l.role == ListenRole::Nvmf(role) && l.transport == on);
        all.map(|l| l.address).collect::<Vec<_>>()
    };
    let io = |advertised: &[SocketAddr], on| match listened(Role::Io, on) {
        // Nothing would answer there.
        none if none.is_empty() && on == Transport::Rdma => none,
        listened if advertised.is_empty() => listened,
        _ => advertised.to_vec(),
    };
    let (tcp, rdma) = (Transport::Tcp, Transport::Rdma);
    let groups = [
        (io(advertised, tcp), tcp, PortRole::Io),
        (io(advertised_rdma, rdma), rdma, PortRole::Io),
        (listened(Role::Discovery, tcp), tcp, PortRole::DiscoveryOnly),
    ];
    let all = groups.into_iter().flat_map(|(addresses, on, role)| {
        addresses
            .into_iter()
            .map(move |addr| (transport(on), addr, role))
    });
    let port = |(id, (transport, addr, role))| PortInfo {
        id,
        transport,
        addr,
        role,
    };
    (1..).zip(all).map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: &str, role: Role, transport: Transport) -> Listen {
        Listen {
            address: address.parse().expect("an address"),
            role: ListenRole::Nvmf(role),
            portal_group: None,
            transport,
        }
    }

    fn told(advertised: [&[&str]; 2], listening: &[Listen]) -> Vec<(u16, &'static str, String)> {
        let parse = |all: &[&str]| {
            let all = all.iter().map(|a| a.parse().expect("an address"));
            all.collect::<Vec<SocketAddr>>()
        };
        let [tcp, rdma] = advertised.map(parse);
        let all = ports(&(tcp, rdma), listening).into_iter();
        all.map(|p| (p.id, p.transport.name(), p.addr.to_string()))
            .collect()
    }

    #[test]
    fn discovery_tells_the_ports_of_each_transport() {
        let tcp = listen("10.0.0.1:4420", Role::Io, Transport::Tcp);
        let rdma = listen("10.0.0.1:4420", Role::Io, Transport::Rdma);
        let discovery = listen("10.0.0.1:8009", Role::Discovery, Transport::Tcp);
        let (one, two) = ("10.0.0.1:4420".to_owned(), "192.0.2.1:4420");
        let last = "10.0.0.1:8009".to_owned();
        let both = [tcp.clone(), discovery.clone(), rdma];
        assert_eq!(
            told([&[], &[]], &both),
            [
                (1, "TCP", one.clone()),
                (2, "RDMA", one.clone()),
                (3, "TCP", last.clone())
            ]
        );
        assert_eq!(
            told([&[two], &[]], &both),
            [
                (1, "TCP", two.to_owned()),
                (2, "RDMA", one.clone()),
                (3, "TCP", last.clone())
            ]
        );
        assert_eq!(told([&[], &[two]], &both)[1].2, two);
        // Nothing listens for RDMA: its advertised address is of no use.
        assert_eq!(
            told([&[], &[two]], &[tcp, discovery]),
            [(1, "TCP", one), (2, "TCP", last)]
        );
    }
}
