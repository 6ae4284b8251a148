//! Views of disks and subsystems.
//!
//! **Called by** the control API and the metrics, on the server's shard. **Invariants**: read-only.

use crate::api::{self, Disk, Export, Namespace, NamespaceState, ServerState};
use crate::config::{Config, DiskConfig, HostList, Medium, SubsystemConfig};
use crate::disks::DiskState;
use crate::server::{DiskEntry, Server, State};
use crate::size::ByteSize;
use crate::{Error, Result};
use nvmf::wire::nqn::Nqn;

/// The part of [`api::Status`] that the server's shard knows.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) state: ServerState,
    pub(crate) uptime_s: u64,
    pub(crate) listen: Vec<api::Listen>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) pools: Vec<api::Pool>,
    pub(crate) volumes: Vec<api::Volume>,
    pub(crate) exports: Vec<Export>,
    pub(crate) targets: Vec<api::IscsiTarget>,
    pub(crate) shards: Vec<api::ShardStatus>,
    pub(crate) warnings: Vec<String>,
}

impl Server {
    pub(crate) async fn view(&self) -> View {
        let shards = self.shards.status().await;
        let state = self.state.borrow();
        let silent = shards
            .iter()
            .filter(|s| !s.answers)
            .map(|s| format!("shard {} does not answer", s.shard));
        View {
            state: if state.draining {
                ServerState::Draining
            } else {
                ServerState::Serving
            },
            uptime_s: self.started.elapsed().as_secs(),
            listen: state.listen.clone(),
            disks: state.disks(),
            pools: state.pools(),
            volumes: state.volumes(),
            exports: state.exports(),
            targets: state.targets(),
            warnings: state.warnings().into_iter().chain(silent).collect(),
            shards,
        }
    }

    /// The present disks.
    #[must_use]
    pub fn disks(&self) -> Vec<Disk> {
        self.state.borrow().disks()
    }

    /// The present subsystems; their sessions are not counted.
    #[must_use]
    pub fn exports(&self) -> Vec<Export> {
        self.state.borrow().exports()
    }

    pub(crate) fn disk_view(&self, name: &str) -> Result<Disk> {
        let state = self.state.borrow();
        let config = state.file.config();
        config
            .disk(name)
            .map(|d| state.disk(config, d))
            .ok_or_else(|| Error::NoDisk(name.to_owned()))
    }

    pub(crate) fn export_view(&self, nqn: &Nqn) -> Result<Export> {
        let state = self.state.borrow();
        let found = state.file.config().subsystem(nqn).map(|s| state.export(s));
        found.ok_or_else(|| Error::NoSubsystem(nqn.clone()))
    }
}

impl State {
    fn disks(&self) -> Vec<Disk> {
        let config = self.file.config();
        config.disks.iter().map(|d| self.disk(config, d)).collect()
    }

    fn exports(&self) -> Vec<Export> {
        self.file
            .config()
            .subsystems
            .iter()
            .map(|s| self.export(s))
            .collect()
    }

    fn disk(&self, config: &Config, d: &DiskConfig) -> Disk {
        let (export, lun) = (config.export_of(&d.name), config.lun_of(&d.name));
        let mut disk = Disk {
            name: d.name.clone(),
            kind: d.medium.kind().to_owned(),
            path: d.medium.path().map(ToOwned::to_owned),
            state: api::DiskState::Opening,
            reason: None,
            size: 0,
            block_size: 0,
            used: None,
            read_only: d.read_only,
            nqn: export.map(|(s, _)| s.nqn.to_string()),
            nsid: export.map(|(_, n)| n.nsid),
            iqn: lun.map(|(t, _)| t.iqn.to_string()),
            lun: lun.map(|(_, l)| l.lun),
        };
        match self.disks.get(&d.name).map(|e| &e.state) {
            None | Some(DiskState::Opening) => {}
            Some(DiskState::Held(reason)) => {
                disk.state = api::DiskState::Held;
                disk.reason = Some(reason.clone());
            }
            Some(DiskState::Online(o)) => {
                disk.state = api::DiskState::Online;
                disk.reason.clone_from(&o.trouble);
                disk.size = o.size();
                disk.block_size = o.backend.geometry().block_size;
                disk.used = o.usage.map(|u| u.used);
                disk.read_only = o.backend.geometry().read_only;
            }
        }
        disk
    }

    fn export(&self, s: &SubsystemConfig) -> Export {
        let hosts = match &s.hosts {
            HostList::Any => vec!["any".to_owned()],
            HostList::Listed(names) => names.iter().map(Nqn::to_string).collect(),
        };
        let namespaces = s.namespaces.iter().map(|n| self.namespace(s, n)).collect();
        Export {
            nqn: s.nqn.to_string(),
            serial: s.serial.clone(),
            hosts,
            sessions: 0,
            namespaces,
        }
    }

    fn namespace(&self, s: &SubsystemConfig, n: &crate::config::NamespaceConfig) -> Namespace {
        let mut namespace = Namespace {
            nsid: n.nsid,
            uuid: n.uuid,
            disk: n.disk.clone(),
            state: NamespaceState::Held,
            reason: None,
            size: 0,
            block_size: 0,
        };
        let disk = self.disks.get(&n.disk).map(|e| &e.state);
        match (self.published.get(&(s.nqn.clone(), n.nsid)), disk) {
            (Some(Ok(())), Some(DiskState::Online(o))) => {
                namespace.state = NamespaceState::Served;
                namespace.size = o.size();
                namespace.block_size = o.backend.geometry().block_size;
            }
            (Some(Err(reason)), _) => namespace.reason = Some(reason.clone()),
            (_, Some(DiskState::Held(reason))) => namespace.reason = Some(reason.clone()),
            _ => namespace.reason = Some("its disk is being opened".to_owned()),
        }
        namespace
    }

    /// Warnings for the operator.
    fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        let config = self.file.config();
        for d in &config.disks {
            let exported = match config.exported_as(&d.name) {
                Some(export) => format!("; {export} waits for this disk"),
                None => String::new(),
            };
            match self.disks.get(&d.name) {
                Some(DiskEntry {
                    state: DiskState::Held(reason),
                    ..
                }) => {
                    out.push(format!(
                        "the disk {:?} is held back: {reason}{exported}",
                        d.name
                    ));
                }
                Some(DiskEntry {
                    state: DiskState::Online(o),
                    ..
                }) => {
                    if let Some(trouble) = &o.trouble {
                        out.push(format!("the disk {:?} reports errors: {trouble}", d.name));
                    }
                    if let Medium::File {
                        create: Some(size), ..
                    } = &d.medium
                        && size.0 != o.size()
                    {
                        let (real, said) = (ByteSize(o.size()).human(), size.human());
                        out.push(format!("the disk {:?} has {real}; the size {said} in the file is only for a new one", d.name));
                    }
                }
                _ => {}
            }
        }
        out.extend(self.pool_warnings());
        out.extend(self.target_warnings());
        for s in &config.subsystems {
            if matches!(&s.hosts, HostList::Listed(names) if names.is_empty()) {
                out.push(format!(
                    "{0} lets no host in: `wirepool host allow {0} any`, or a host's NQN",
                    s.nqn
                ));
            }
            if s.namespaces.is_empty() {
                out.push(format!(
                    "{0} has no namespace: `wirepool export add {0} DISK`",
                    s.nqn
                ));
            }
            for n in &s.namespaces {
                if let Some(Err(reason)) = self.published.get(&(s.nqn.clone(), n.nsid)) {
                    out.push(format!(
                        "{} namespace {} is not exported: {reason}",
                        s.nqn, n.nsid
                    ));
                }
            }
        }
        out
    }
}
