//! iSCSI targets over TCP and RDMA (iSER): from the configuration's `[[target]]` to the iSCSI service and its SCSI devices.
//!
//! **Owns** the state of iSCSI exports. **Called by** the server, as a [`Protocol`]. **Invariants**: a target whose secret
//! is missing refuses every login. RFC 7143, SPC-4.

pub(crate) mod api;
pub(crate) mod change;
mod chap;
pub mod config;
mod limits;
pub(crate) mod metrics;
mod secret;
mod session;
mod view;

use self::api::IscsiRole as Role;
use self::config::{LunConfig, PortalGroup, TargetConfig, exported_as};
use self::secret::Realm;
use super::access::Words;
use super::protocol::{
    Address, AddressState, ConnectionService, DiskExports, Protocol, Work, off_the_shard,
    refused_hosts, sessions_of,
};
use super::published::Published;
use crate::api::{
    ExportPart, ExportReservations, ExportRow, ExportStages, ExportedAs, Exports, IscsiTarget,
    Listen, ListenRole, RefusedHost, Session, TargetLun, Transport,
};
use crate::config::{Config, ConfigFile};
use crate::disks::Disks;
use crate::limits::{DRAIN_MAX, FLUSH_MAX};
use crate::metrics::families::Families;
use crate::reservations;
use ::session::refused::{self, RefusalTotals};
use ::session::stages::StageCounters;
use backend::{BlockBackend, Usage};
use io::sync::lock;
use io::time::Instant;
use iscsi::login::ChapPolicy;
use iscsi::portal::{self, Authentication, Portal};
use iscsi::wire::IscsiName;
use scsi::{Device, DeviceConfig, Lun, TargetPort, UnitConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// Vendor in INQUIRY data.
const VENDOR: &str = "WIREPOOL";
const PRODUCT: &str = "Virtual disk";
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);
/// A target is served by one portal group, which is its only port.
const ONLY_PORT: u16 = 1;

/// The protocol in the API.
const WORD: &str = "iscsi";

const WORDS: Words = Words {
    export: "target",
    client: "initiator",
    client_name: "an initiator's name",
    verb: "log in to",
    unit: "LUN",
    add_unit: |iqn| format!("wirepool export iscsi DISK --iqn {iqn}"),
};

/// State of targets.
#[derive(Default)]
struct Targets {
    devices: BTreeMap<IscsiName, Arc<Device>>,
    /// Targets that refuse every login, and the reason.
    locked: BTreeMap<IscsiName, String>,
    /// Why discovery refuses every login, if it does.
    discovery_locked: Option<String>,
    /// The addresses that discovery tells instead of the listening ones, with their portal group.
    advertised: Vec<(SocketAddr, u16)>,
}

/// iSCSI.
pub(crate) struct Iscsi {
    service: portal::Target,
    /// By target and number.
    published: Published<(IscsiName, u16)>,
    targets: Mutex<Targets>,
}

impl Iscsi {
    /// The service, without targets. `connections_max` is what descriptors allow.
    pub(crate) fn new(_file: &ConfigFile, connections_max: usize) -> crate::Result<Iscsi> {
        Ok(Iscsi {
            service: portal::Target::new(portal::Config {
                connections_max,
                ..portal::Config::default()
            }),
            published: Published::default(),
            targets: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, Targets> {
        lock(&self.targets)
    }

    /// A listening address of a portal group.
    fn address(&self, (address, transport): (SocketAddr, Transport), tag: u16) -> Address {
        let of = &self.service;
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
                role: ListenRole::Iscsi(Role::Iscsi),
                portal_group: Some(tag),
                transport,
            },
            setting,
            service,
        }
    }

    /// The device of a target, and the number of a unit in it.
    fn unit(&self, t: &TargetConfig, l: &LunConfig) -> Option<(Arc<Device>, Lun)> {
        let device = self.state().devices.get(&t.iqn).cloned();
        device.zip(Lun::new(l.lun))
    }

    /// Adds a target, without its logical units, to the service.
    fn add_target(&self, file: &ConfigFile, t: &TargetConfig) {
        let device = Device::new(DeviceConfig {
            name: t.iqn.to_string(),
            vendor: VENDOR.into(),
            product: PRODUCT.into(),
            revision: REVISION.into(),
            ports: vec![TargetPort {
                relative: ONLY_PORT,
                portal_group: t.portal_group,
                group: t.portal_group,
            }],
        });
        let device = match device {
            Ok(device) => device,
            Err(e) => {
                tracing::error!(iqn = %t.iqn, error = %e, "the iSCSI service refused a target");
                return;
            }
        };
        let taken = self.service.add_target(portal::TargetConfig {
            name: t.iqn.clone(),
            alias: t.alias.clone(),
            portal_group: t.portal_group,
            relative_port: ONLY_PORT,
            acl: t.initiators.clone(),
            authentication: self.authentication(file, t),
            redirect: t.moved.clone(),
            device: device.clone(),
        });
        if let Err(e) = taken {
            // The configuration has each name once, so this is not the client's fault.
            tracing::error!(iqn = %t.iqn, error = %e, "the iSCSI service refused a target");
            return;
        }
        self.state().devices.insert(t.iqn.clone(), device);
    }

    /// Removes logical units that were published, and the target if it `is_whole`.
    fn withdraw(&self, iqn: &IscsiName, luns: impl Iterator<Item = u16>, is_whole: bool) {
        let mut state = self.state();
        for lun in luns {
            let was_accepted = self.published.remove(&(iqn.clone(), lun));
            if let (true, Some(device), Some(lun)) =
                (was_accepted, state.devices.get(iqn), Lun::new(lun))
            {
                let _ = device.remove_unit(lun);
            }
        }
        if is_whole {
            let _ = self.service.remove_target(iqn);
            state.devices.remove(iqn);
            state.locked.remove(iqn);
        }
    }

    /// Authentication of a target's initiators. Blocks for the secrets' files.
    fn authentication(&self, file: &ConfigFile, t: &TargetConfig) -> Authentication {
        let policy = secret::policy(file, &Realm::Target(t.iqn.clone()), t.chap.as_ref());
        let mut state = self.state();
        match &policy {
            Ok(_) => state.locked.remove(&t.iqn),
            Err(reason) => state.locked.insert(t.iqn.clone(), reason.clone()),
        };
        authentication(policy)
    }

    /// Passes the access list and the CHAP settings of a target to the service. Blocks for the secrets' files.
    fn apply_access(&self, file: &ConfigFile, iqn: &IscsiName) {
        if let Some(t) = file.config().iscsi.target(iqn) {
            let authentication = self.authentication(file, t);
            let _ = self
                .service
                .set_access(iqn, t.initiators.clone(), authentication);
        }
    }

    /// Passes the CHAP settings of discovery to the service. Blocks for the secrets' files.
    fn apply_discovery(&self, file: &ConfigFile) {
        let names = file.config().iscsi.discovery_chap.as_ref();
        let policy = secret::policy(file, &Realm::Discovery, names);
        self.state().discovery_locked = policy.as_ref().err().cloned();
        self.service.set_discovery(authentication(policy));
    }
}

/// A missing secret refuses every login.
fn authentication(policy: Result<Option<ChapPolicy>, String>) -> Authentication {
    match policy {
        Ok(None) => Authentication::None,
        Ok(Some(policy)) => Authentication::Shared(policy),
        Err(_) => Authentication::Each(BTreeMap::new()),
    }
}

impl Protocol for Iscsi {
    fn addresses(&self, config: &Config) -> Vec<Address> {
        let groups = config.iscsi.groups.iter();
        let of_group = |g: &PortalGroup| {
            let tcp = g.listen.iter().map(|a| (*a, Transport::Tcp));
            let rdma = g.listen_rdma.iter().map(|a| (*a, Transport::Rdma));
            let all = tcp.chain(rdma);
            all.map(|a| self.address(a, g.tag)).collect::<Vec<_>>()
        };
        groups.flat_map(of_group).collect()
    }

    fn advertise(&self, config: &Config, served: &AddressState<'_>) {
        let (listening, names) = (served.listening, served.names);
        let portals = listening.iter().filter_map(|l| {
            Some(Portal {
                address: l.address,
                group: l.portal_group?,
                transport: match l.transport {
                    Transport::Tcp => portal::IscsiTransport::Tcp,
                    Transport::Rdma => portal::IscsiTransport::Iser,
                },
            })
        });
        self.service.set_portals(portals.collect());
        let groups = config.iscsi.groups.iter();
        let of_group = |g: &PortalGroup| {
            let addresses = names.addresses(&g.advertise).into_iter();
            addresses.map(|a| (a, g.tag)).collect::<Vec<_>>()
        };
        let advertised: Vec<(SocketAddr, u16)> = groups.flat_map(of_group).collect();
        self.service.set_advertised(advertised.clone());
        self.state().advertised = advertised;
    }

    fn disk_exports(&self) -> Option<&dyn DiskExports> {
        Some(self)
    }

    fn describe(&self, config: &Config, disks: &Disks, listening: &[Listen], out: &mut Exports) {
        let all = config.iscsi.targets.iter();
        let target = |t| self.target(t, disks, listening);
        out.iscsi.targets = all.map(target).collect();
    }

    fn count_sessions(&self, sessions: &[Session], out: &mut Exports) {
        for t in &mut out.iscsi.targets {
            t.sessions = sessions_of(sessions, &t.iqn);
        }
    }

    fn rows(&self, exports: &Exports) -> Vec<ExportRow> {
        let part = |l: &TargetLun| ExportPart {
            number: Some(l.lun.into()),
            disk: l.disk.clone(),
            state: l.state,
            reason: l.reason.clone(),
        };
        let chap = |t: &IscsiTarget| {
            let user = t.chap.as_ref()?;
            let mutual = if t.chap_mutual.is_some() {
                ", mutual"
            } else {
                ""
            };
            Some(format!("CHAP {user}{mutual}"))
        };
        let row = |t: &IscsiTarget| ExportRow {
            protocol: WORD.to_owned(),
            name: t.iqn.clone(),
            clients: t.initiators.clone(),
            sessions: t.sessions,
            parts: t.luns.iter().map(part).collect(),
            protection: chap(t),
            shared_by: None,
        };
        exports.iscsi.targets.iter().map(row).collect()
    }

    fn warnings(&self, config: &Config) -> Vec<String> {
        self.target_warnings(&config.iscsi)
    }

    fn refused(&self) -> Vec<RefusedHost> {
        let allow =
            |h: &refused::RefusedHost, _| format!("wirepool host allow {} {}", h.export, h.name);
        refused_hosts(WORD, self.service.refused().0, allow)
    }

    fn refusals(&self) -> (&'static str, RefusalTotals) {
        (WORD, self.service.refused().1)
    }

    fn sessions(&self) -> Vec<Session> {
        session::sessions(&self.service)
    }

    fn stages(&self, now: Instant) -> Vec<ExportStages> {
        let all = self.service.stages().into_iter();
        let read = |(name, counters): (IscsiName, Arc<StageCounters>)| {
            ExportStages::read(WORD, name.to_string(), &counters, now)
        };
        all.map(read).collect()
    }

    fn traffic(&self) -> (u64, u64) {
        let c = self.service.counters();
        (c.bytes_in, c.bytes_out)
    }

    fn end_session(&self, id: u32) -> bool {
        session::tsih(id).is_some_and(|tsih| self.service.disconnect(tsih).is_ok())
    }

    fn metrics(&self, exports: &Exports, out: &mut Families) -> fmt::Result {
        metrics::exports(&exports.iscsi.targets, out)?;
        metrics::counters(&[self.service.counters()], out)
    }

    fn drain(&self) -> Work<Vec<String>> {
        let service = self.service.clone();
        Box::pin(async move {
            match io::timeout(DRAIN_MAX + FLUSH_MAX, service.drain(DRAIN_MAX)).await {
                Ok(()) => Vec::new(),
                Err(_) => vec!["commands over iSCSI did not finish in time".to_owned()],
            }
        })
    }
}

impl DiskExports for Iscsi {
    fn add_exports(&self, file: &ConfigFile) {
        self.apply_discovery(file);
        for t in &file.config().iscsi.targets {
            self.add_target(file, t);
        }
    }

    fn publish(&self, file: &ConfigFile, disk: &str, backend: Arc<dyn BlockBackend>) {
        let Some((t, l)) = file.config().iscsi.lun_of(disk) else {
            return;
        };
        let Some((device, lun)) = self.unit(t, l) else {
            return;
        };
        let unit = UnitConfig {
            backend,
            uuid: l.uuid,
            serial: l.uuid.simple().to_string(),
            read_only: l.read_only,
            reservations: reservations::store(file, &t.iqn, u32::from(l.lun), l.uuid),
            threshold_percent: l.threshold,
        };
        let result = device.add_unit(lun, unit);
        let export = exported_as(&t.iqn, l.lun);
        self.published
            .insert((t.iqn.clone(), l.lun), &export, disk, result);
    }

    fn announce(&self, config: &Config, disk: &str) {
        let found = config.iscsi.lun_of(disk);
        if let Some((device, lun)) = found.and_then(|(t, l)| self.unit(t, l)) {
            let _ = device.unit_resized(lun);
        }
    }

    fn check_space(
        &self,
        config: &Config,
        disk: &str,
        pool: &dyn Fn() -> Option<Usage>,
    ) -> Option<Work<()>> {
        let (t, l) = config.iscsi.lun_of(disk)?;
        l.threshold?;
        let (device, lun) = self.unit(t, l)?;
        let pool = pool();
        Some(Box::pin(async move {
            // It may have been removed concurrently.
            let _ = device.check_threshold(lun, pool).await;
        }))
    }

    fn hold_hosts(&self, config: &Config, is_awaited: &dyn Fn(&str) -> bool) {
        for t in &config.iscsi.targets {
            let hold = t.luns.iter().any(|l| is_awaited(&l.disk));
            // It may have been removed concurrently.
            let _ = self.service.hold_logins(&t.iqn, hold);
        }
    }

    fn reservations(&self, config: &Config) -> Vec<ExportReservations> {
        let all = config.iscsi.targets.iter();
        let all = all.flat_map(|t| t.luns.iter().map(move |l| (t, l)));
        let found = all.filter_map(|(t, l)| {
            let (device, lun) = self.unit(t, l)?;
            let reserved = device.reservations(lun).ok()?;
            let export = (t.iqn.to_string(), u32::from(l.lun), l.disk.as_str());
            Some(ExportReservations::of(WORD, export, reserved))
        });
        found.collect()
    }

    fn clear_reservations(&self, of: &ExportReservations) -> Option<Work<Result<(), String>>> {
        if of.protocol != WORD {
            return None;
        }
        let name = IscsiName::new(&of.export).ok();
        let device = name.and_then(|iqn| self.state().devices.get(&iqn).cloned());
        let lun = u16::try_from(of.number).ok().and_then(Lun::new);
        let unit = device.zip(lun);
        Some(off_the_shard(move || match unit {
            Some((device, lun)) => device.clear_reservations(lun).map_err(|e| e.to_string()),
            None => Err("it was removed".to_owned()),
        }))
    }

    fn exported_as(&self, config: &Config, disk: &str, out: &mut ExportedAs) {
        if let Some((t, l)) = config.iscsi.lun_of(disk) {
            out.iscsi.iqn = Some(t.iqn.to_string());
            out.iscsi.lun = Some(l.lun);
        }
    }
}
