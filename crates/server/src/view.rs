//! Views of disks and exports.
//!
//! **Called by** the control API and the metrics, on the server's shard. **Invariants**: read-only.

use crate::absent::warning_of;
use crate::api::{self, Disk, ExportedAs, Exports, ServerState};
use crate::config::{Config, DiskConfig, Medium};
use crate::disks::DiskState;
use crate::server::{Holdings, Server};
use crate::size::ByteSize;
use crate::{Error, Result};

/// The part of [`api::Status`] that the server's shard knows.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) state: ServerState,
    pub(crate) uptime_s: u64,
    pub(crate) listen: Vec<api::Listen>,
    pub(crate) not_listening: Vec<api::NotListening>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) pools: Vec<api::Pool>,
    pub(crate) volumes: Vec<api::Volume>,
    pub(crate) filesystems: Vec<api::Filesystem>,
    pub(crate) exports: Exports,
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
            state: state.server_state(),
            uptime_s: self.started.elapsed().as_secs(),
            listen: state.listening.addresses().to_vec(),
            not_listening: state.listening.missing(),
            disks: self.disks(),
            pools: state.pools(),
            volumes: self.volumes(),
            filesystems: self.filesystems(),
            exports: self.exports(),
            warnings: self.warnings(&state).into_iter().chain(silent).collect(),
            shards,
        }
    }

    /// The present disks.
    #[must_use]
    pub fn disks(&self) -> Vec<Disk> {
        let state = self.state.borrow();
        let all = state.file.config().disks.iter();
        all.map(|d| self.disk(&state, d)).collect()
    }

    /// The present exports; their sessions are not counted.
    #[must_use]
    pub fn exports(&self) -> Exports {
        let state = self.state.borrow();
        let mut out = Exports::default();
        for protocol in self.protocols.all() {
            let listening = state.listening.addresses();
            protocol.describe(state.file.config(), &state.disks, listening, &mut out);
        }
        out
    }

    /// Every session, over all protocols.
    #[must_use]
    pub fn sessions(&self) -> Vec<api::Session> {
        self.protocols.sessions()
    }

    /// The export of a disk or volume.
    pub(crate) fn exported_as(&self, config: &Config, disk: &str) -> ExportedAs {
        let mut out = ExportedAs::default();
        for exports in self.protocols.disk_exports() {
            exports.exported_as(config, disk, &mut out);
        }
        out
    }

    pub(crate) fn disk_view(&self, name: &str) -> Result<Disk> {
        let state = self.state.borrow();
        let config = state.file.config();
        config
            .disk(name)
            .map(|d| self.disk(&state, d))
            .ok_or_else(|| Error::NoDisk(name.to_owned()))
    }

    fn disk(&self, state: &Holdings, d: &DiskConfig) -> Disk {
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
            exported_as: self.exported_as(state.file.config(), &d.name),
        };
        match state.disks.state(&d.name) {
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

    /// Warnings for the operator.
    pub(crate) fn warnings(&self, state: &Holdings) -> Vec<String> {
        let mut out = Vec::new();
        let config = state.file.config();
        for d in &config.disks {
            let exported = match config.exported_as(&d.name) {
                Some(export) => format!("; {export} waits for this disk"),
                None => String::new(),
            };
            match state.disks.state(&d.name) {
                Some(DiskState::Held(reason)) => {
                    out.push(format!(
                        "the disk {:?} is held back: {reason}{exported}",
                        d.name
                    ));
                }
                Some(DiskState::Online(o)) => {
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
        out.extend(state.listening.missing().iter().map(warning_of));
        out.extend(self.host_names.warnings());
        out.extend(state.pool_warnings());
        out.extend(state.mount_warnings());
        for protocol in self.protocols.all() {
            out.extend(protocol.warnings(config));
        }
        out
    }
}

impl Holdings {
    /// Whether the server takes connections, or finishes.
    pub(crate) fn server_state(&self) -> ServerState {
        match self.draining {
            true => ServerState::Draining,
            false => ServerState::Serving,
        }
    }
}
