//! iSCSI targets: from the configuration's `[[target]]` to the iSCSI service and its SCSI devices.
//!
//! **Owns** the state of iSCSI exports. **Called by** [`crate::server`], the control API and the metrics.
//! **Invariants**: a logical unit is published if and only if its disk is online and the device accepted it; a target
//! whose secret is missing refuses every login. RFC 7143, SPC-4.

mod change;
mod chap;
mod metrics;
pub(super) mod routes;
mod secret;
mod session;
mod view;

pub(crate) use secret::directory;

use super::{Address, Protocol, Work};
use crate::api::{Listen, ListenRole, Session, Status};
use crate::config::{ChapNames, Config, ConfigFile, LunConfig, TargetConfig, split_volume};
use crate::disks::DiskState;
use crate::limits::{DRAIN_MAX, FLUSH_MAX};
use crate::metrics::Families;
use crate::reservations::ReservationFile;
use crate::server::{DiskEntry, Server};
use iscsi::login::{ChapPolicy, Credential};
use iscsi::portal::{self, Authentication};
use iscsi::wire::IscsiName;
use scsi::{Device, DeviceConfig, Lun, NoReservationStore, TargetPort, UnitConfig};
use secret::{Realm, SecretFile, Whose};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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

/// State of iSCSI exports.
#[derive(Default)]
pub(crate) struct Published {
    devices: BTreeMap<IscsiName, Arc<Device>>,
    /// Result of publishing each unit: accepted, or refused with this reason.
    luns: BTreeMap<(IscsiName, u16), Result<(), String>>,
    /// Targets that refuse every login, and the reason.
    locked: BTreeMap<IscsiName, String>,
    /// Why discovery refuses every login, if it does.
    discovery_locked: Option<String>,
}

/// iSCSI.
pub(crate) struct Iscsi {
    pub(crate) service: portal::Target,
}

impl Iscsi {
    /// The service, without targets. `connections_max` is what descriptors allow.
    pub(crate) fn new(connections_max: usize) -> Iscsi {
        Iscsi {
            service: portal::Target::new(portal::Config {
                connections_max,
                ..portal::Config::default()
            }),
        }
    }
}

impl Protocol for Iscsi {
    fn addresses(&self, config: &Config) -> Vec<Address> {
        let groups = config.iscsi.groups.iter();
        let all = groups.flat_map(|g| g.listen.iter().map(move |a| (*a, g.tag)));
        let address = |(address, tag)| {
            let service = self.service.clone();
            Address {
                listen: Listen {
                    address,
                    role: ListenRole::Iscsi,
                    portal_group: Some(tag),
                },
                setting: "[iscsi] listen",
                service: Arc::new(move |stream| {
                    let service = service.clone();
                    Box::pin(async move { service.serve(stream).await })
                }),
            }
        };
        all.map(address).collect()
    }

    fn advertise(&self, config: &Config, listening: &[Listen]) {
        let portals = listening.iter();
        let portals = portals.filter_map(|l| Some((l.address, l.portal_group?)));
        self.service.set_portals(portals.collect());
        let groups = config.iscsi.groups.iter();
        let advertised = groups.flat_map(|g| g.advertise.iter().map(move |a| (*a, g.tag)));
        self.service.set_advertised(advertised.collect());
    }

    fn hold(&self, config: &Config, is_opening: &dyn Fn(&str) -> bool) {
        for t in &config.targets {
            let hold = t.luns.iter().any(|l| is_opening(&l.disk));
            // It may have been removed concurrently.
            let _ = self.service.hold_logins(&t.iqn, hold);
        }
    }

    fn sessions(&self) -> Vec<Session> {
        session::sessions(&self.service)
    }

    fn end_session(&self, id: u32) -> bool {
        session::tsih(id).is_some_and(|tsih| self.service.disconnect(tsih).is_ok())
    }

    fn metrics(&self, status: &Status, out: &mut Families) -> fmt::Result {
        metrics::targets(&status.targets, out)?;
        metrics::counters(&self.service.counters(), out)
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

/// The connections that the configuration allows; 0 if iSCSI is off.
pub(super) fn connections(config: &Config) -> usize {
    match config.iscsi.groups.is_empty() {
        true => 0,
        false => config.iscsi.connections_max,
    }
}

fn lun_of(l: &LunConfig) -> Option<Lun> {
    Lun::new(l.lun)
}

fn reservation_store(
    file: &ConfigFile,
    iqn: &IscsiName,
    l: &LunConfig,
) -> Arc<dyn scsi::ReservationStore> {
    if !file.is_stored() {
        return Arc::new(NoReservationStore);
    }
    let dir = &file.config().server.state_dir;
    Arc::new(ReservationFile::of(dir, iqn, u32::from(l.lun), l.uuid))
}

/// A missing secret refuses every login.
fn authentication(policy: Result<Option<ChapPolicy>, String>) -> Authentication {
    match policy {
        Ok(None) => Authentication::None,
        Ok(Some(policy)) => Authentication::Shared(policy),
        Err(_) => Authentication::Each(BTreeMap::new()),
    }
}

impl Server {
    /// Adds a target, without its logical units, to the service.
    pub(crate) fn add_target(&self, t: &TargetConfig) {
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
        let taken = self
            .protocols
            .iscsi
            .service
            .add_target(portal::TargetConfig {
                name: t.iqn.clone(),
                alias: t.alias.clone(),
                portal_group: t.portal_group,
                relative_port: ONLY_PORT,
                acl: t.initiators.clone(),
                authentication: self.authentication(t),
                redirect: t.moved.clone(),
                device: device.clone(),
            });
        if let Err(e) = taken {
            // The configuration has each name once, so this is not the client's fault.
            tracing::error!(iqn = %t.iqn, error = %e, "the iSCSI service refused a target");
            return;
        }
        let mut state = self.state.borrow_mut();
        state.targets.devices.insert(t.iqn.clone(), device);
    }

    /// Authentication of a target's initiators. Blocks for the secrets' files.
    fn authentication(&self, t: &TargetConfig) -> Authentication {
        let mut state = self.state.borrow_mut();
        let policy = state.chap(&Realm::Target(t.iqn.clone()), t.chap.as_ref());
        match &policy {
            Ok(_) => state.targets.locked.remove(&t.iqn),
            Err(reason) => state.targets.locked.insert(t.iqn.clone(), reason.clone()),
        };
        authentication(policy)
    }

    /// Passes the CHAP settings of discovery to the service. Blocks for the secrets' files.
    pub(crate) fn apply_discovery(&self) {
        let mut state = self.state.borrow_mut();
        let names = state.file.config().iscsi.discovery_chap.clone();
        let policy = state.chap(&Realm::Discovery, names.as_ref());
        state.targets.discovery_locked = policy.as_ref().err().cloned();
        self.protocols
            .iscsi
            .service
            .set_discovery(authentication(policy));
    }

    /// Warns initiators when a logical unit's disk, or the pool of its volume, has reached the threshold.
    pub(crate) async fn check_threshold(&self, disk: &str) {
        let (device, lun, pool) = {
            let state = self.state.borrow();
            let found = state.file.config().lun_of(disk);
            let Some((t, l)) = found.filter(|(_, l)| l.threshold.is_some()) else {
                return;
            };
            let (Some(device), Some(lun)) = (state.targets.devices.get(&t.iqn), lun_of(l)) else {
                return;
            };
            let pool = split_volume(disk).and_then(|(pool, _)| state.pool_usage(pool));
            (device.clone(), lun, pool)
        };
        // It may have been removed concurrently.
        let _ = device.check_threshold(lun, pool).await;
    }

    /// Publishes the logical unit of a disk, if it has one and is online.
    pub(crate) fn publish_lun(&self, disk: &str) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some((t, l)) = state.file.config().lun_of(disk) else {
            return;
        };
        let Some(DiskEntry {
            state: DiskState::Online(online),
            ..
        }) = state.disks.get(disk)
        else {
            return;
        };
        let (Some(device), Some(lun)) = (state.targets.devices.get(&t.iqn), lun_of(l)) else {
            return;
        };
        let unit = UnitConfig {
            backend: online.backend.clone(),
            uuid: l.uuid,
            serial: l.uuid.simple().to_string(),
            read_only: l.read_only,
            reservations: reservation_store(&state.file, &t.iqn, l),
            threshold_percent: l.threshold,
        };
        let taken = device.add_unit(lun, unit).map_err(|e| e.to_string());
        match &taken {
            Ok(()) => tracing::info!(iqn = %t.iqn, lun = l.lun, disk, "exported"),
            Err(reason) => {
                tracing::error!(iqn = %t.iqn, lun = l.lun, disk, reason, "not exported");
            }
        }
        state.targets.luns.insert((t.iqn.clone(), l.lun), taken);
    }
}

impl crate::server::State {
    /// The secrets of these names. Blocks. Errors: the reason, for people.
    fn chap(&self, realm: &Realm, names: Option<&ChapNames>) -> Result<Option<ChapPolicy>, String> {
        let Some(names) = names else { return Ok(None) };
        if !self.file.is_stored() {
            return Err("nothing keeps its secret".to_owned());
        }
        let dir = &self.file.config().server.state_dir;
        let credential = |name: &String, whose| {
            SecretFile::of(dir, realm, whose)
                .read()
                .map(|secret| Credential {
                    name: name.clone(),
                    secret,
                })
        };
        let ours = names.target.as_ref().map(|n| credential(n, Whose::Ours));
        Ok(Some(ChapPolicy {
            initiator: credential(&names.initiator, Whose::Initiators)?,
            target: ours.transpose()?,
        }))
    }

    /// Notifies initiators that the size of a disk has changed.
    pub(crate) fn announce_lun(&self, disk: &str) {
        if let Some((t, l)) = self.file.config().lun_of(disk)
            && let (Some(device), Some(lun)) = (self.targets.devices.get(&t.iqn), lun_of(l))
        {
            let _ = device.unit_resized(lun);
        }
    }
}
