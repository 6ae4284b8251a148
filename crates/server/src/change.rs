//! Live changes of disks, exports and hosts, while clients are connected.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: changes are carried out one at a time, each
//! in three steps: the steps that can fail, without visible effect; the durable write of the configuration; the
//! effect, which cannot fail. A failure before the end of the second step has no effect.

use crate::api::{
    self, AddDisk, AddExport, AllowHost, DenyHost, NewMedium, RemoveDisk, RemoveExport, ResizeDisk,
};
use crate::config::{
    Config, ConfigFile, DiskConfig, Edit, HostList, Medium, NamespaceConfig, SubsystemConfig,
    random_uuid,
};
use crate::disks::{self, DiskState};
use crate::limits::NSID_MAX;
use crate::protocols::nvmf::hosts as policy;
use crate::reservations::ReservationFile;
use crate::server::{DiskEntry, Server};
use crate::size::ByteSize;
use crate::{Error, Result};
use backend::BlockBackend;
use io::sync::Permit;
use nvmf::wire::nqn::Nqn;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

impl Server {
    /// Waits until no other change runs. Errors: `Unavailable` while the server shuts down.
    pub(crate) async fn turn(&self) -> Result<Permit> {
        let permit = self.changing.acquire(1).await;
        if self.state.borrow().draining {
            return Err(Error::Unavailable("shutting down and accepts no changes"));
        }
        Ok(permit)
    }

    pub(crate) fn edited(&self, edits: &[Edit]) -> Result<ConfigFile> {
        match self.state.borrow().file.edited(edits) {
            // The position refers to a text that the client has not seen.
            Err(Error::Config(e)) => Err(Error::Invalid(e.message)),
            other => other,
        }
    }

    /// Writes the new configuration and puts it into effect.
    pub(crate) async fn store(&self, new: ConfigFile) -> Result<()> {
        let old = self.state.borrow().file.clone();
        let written = new.clone();
        io::blocking(move || written.store(&old))
            .await
            .map_err(|source| Error::Start {
                what: "a helper thread",
                source,
            })??;
        self.state.borrow_mut().file = new;
        Ok(())
    }

    /// See [`AddDisk`]. Errors: `Conflict`, `Invalid`, `Disk` if it cannot be opened, `File` if the configuration
    /// cannot be written; nothing has changed then. The same holds for the other changes.
    pub async fn add_disk(self: &Rc<Self>, request: AddDisk) -> Result<api::Disk> {
        let _turn = self.turn().await?;
        let name = request.name.clone();
        if self.state.borrow().file.config().disk(&name).is_some() {
            return Err(Error::Conflict(format!(
                "there is a disk named {name:?} already"
            )));
        }
        let (to_open, to_keep) = disk_configs(request)?;
        let new = self.edited(&[Edit::AddDisk(to_keep)])?;
        let created = missing_file(&to_open).await;
        let undo = |reason| Error::Disk {
            name: name.clone(),
            reason,
        };
        let backend = disks::open(&to_open).await.map_err(undo)?;
        let stored = match same_size(&to_open, &*backend) {
            Ok(()) => self.store(new).await,
            Err(e) => Err(e),
        };
        if let Err(e) = stored {
            drop(backend);
            if let Some(path) = created {
                // A file that was created for a refused disk.
                let _ = io::blocking(move || std::fs::remove_file(path)).await;
            }
            return Err(e);
        }
        self.keep(&name, Some(backend));
        self.disk_view(&name)
    }

    /// See [`RemoveDisk`].
    pub async fn remove_disk(&self, request: RemoveDisk) -> Result<()> {
        let _turn = self.turn().await?;
        let name = request.name;
        {
            let state = self.state.borrow();
            let config = state.file.config();
            if config.disk(&name).is_none() {
                return Err(Error::NoDisk(name));
            }
            if let Some(export) = config.exported_as(&name) {
                return Err(Error::Conflict(format!(
                    "the disk {name:?} is exported: `{}` first",
                    export.removal()
                )));
            }
        }
        let new = self.edited(&[Edit::RemoveDisk(name.clone())])?;
        self.store(new).await?;
        let gone = self.state.borrow_mut().disks.remove(&name);
        drop(gone);
        tracing::info!(disk = name, "removed");
        Ok(())
    }

    /// See [`ResizeDisk`].
    pub async fn resize_disk(&self, request: ResizeDisk) -> Result<api::Disk> {
        let _turn = self.turn().await?;
        let ResizeDisk { name, size, shrink } = request;
        let (backend, has_size) = {
            let state = self.state.borrow();
            let Some(disk) = state.file.config().disk(&name) else {
                return Err(Error::NoDisk(name));
            };
            let has_size = !matches!(
                disk.medium,
                Medium::Block { .. } | Medium::File { create: None, .. }
            );
            match state.disks.get(&name) {
                Some(DiskEntry {
                    state: DiskState::Online(o),
                    ..
                }) => (o.backend.clone(), has_size),
                _ => {
                    return Err(Error::Conflict(format!(
                        "the disk {name:?} is held back: see `wirepool status`"
                    )));
                }
            }
        };
        let g = backend.geometry();
        let block = u64::from(g.block_size);
        if g.read_only {
            return Err(Error::Conflict(format!("the disk {name:?} is read-only")));
        }
        if size.0 == 0 || !size.0.is_multiple_of(block) {
            let text = format!(
                "the size of the disk {name:?} must be a multiple of its block size ({block}) above 0"
            );
            return Err(Error::Invalid(text));
        }
        let now = ByteSize(g.blocks * block);
        if size < now && !shrink {
            return Err(Error::Conflict(format!(
                "the disk {name:?} has {}: what lies beyond {size} would be lost; --shrink does it nevertheless",
                now.human()
            )));
        }
        let old = self.state.borrow().file.clone();
        if has_size {
            let new = self.edited(&[Edit::ResizeDisk(name.clone(), size)])?;
            self.store(new).await?;
        }
        if let Err(e) = backend.resize(size.0 / block).await {
            if has_size {
                self.store(old).await?;
            }
            return Err(Error::Disk {
                name,
                reason: format!("cannot be resized: {e}"),
            });
        }
        self.announce(&name);
        self.disk_view(&name)
    }

    /// See [`AddExport`].
    pub async fn add_export(&self, request: AddExport) -> Result<api::Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let (nsid, exists) = {
            let state = self.state.borrow();
            let config = state.file.config();
            state.exportable(&request.disk)?;
            not_exported(config, &request.disk)?;
            (
                free_nsid(config.subsystem(&nqn), request.nsid)?,
                config.subsystem(&nqn).is_some(),
            )
        };
        let uuid = request.uuid.unwrap_or_else(random_uuid);
        let namespace = NamespaceConfig {
            nsid,
            disk: request.disk.clone(),
            uuid,
        };
        let mut edits = vec![Edit::AddNamespace(nqn.clone(), namespace)];
        if !exists {
            edits.insert(0, Edit::AddSubsystem(nqn.clone()));
        }
        let new = self.edited(&edits)?;
        self.store(new).await?;
        self.ensure_subsystem(&nqn, exists);
        self.publish(&request.disk);
        self.export_view(&nqn)
    }

    /// See [`RemoveExport`].
    pub async fn remove_export(&self, request: RemoveExport) -> Result<()> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let gone: Vec<NamespaceConfig> = {
            let state = self.state.borrow();
            let s = state
                .file
                .config()
                .subsystem(&nqn)
                .ok_or_else(|| Error::NoSubsystem(nqn.clone()))?;
            match request.nsid {
                Some(nsid) => match s.namespace(nsid) {
                    Some(n) => vec![n.clone()],
                    None => return Err(Error::NoNamespace(nqn.clone(), nsid)),
                },
                None => s.namespaces.clone(),
            }
        };
        let edit = match request.nsid {
            Some(nsid) => Edit::RemoveNamespace(nqn.clone(), nsid),
            None => Edit::RemoveSubsystem(nqn.clone()),
        };
        let new = self.edited(&[edit])?;
        self.store(new).await?;
        for n in &gone {
            if let Some(Ok(())) = self
                .state
                .borrow_mut()
                .published
                .remove(&(nqn.clone(), n.nsid))
            {
                let _ = self.protocols.nvmf.target.remove_namespace(&nqn, n.nsid);
            }
        }
        if request.nsid.is_none() {
            let _ = self.protocols.nvmf.target.remove_subsystem(&nqn);
        }
        self.forget_reservations(&nqn, gone).await;
        tracing::info!(%nqn, nsid = request.nsid, "no longer exported");
        Ok(())
    }

    async fn forget_reservations(&self, nqn: &Nqn, gone: Vec<NamespaceConfig>) {
        let (stored, dir) = {
            let state = self.state.borrow();
            (
                state.file.is_stored(),
                state.file.config().server.state_dir.clone(),
            )
        };
        if !stored {
            return;
        }
        let name = nqn.clone();
        let removed = io::blocking(move || {
            gone.iter()
                .try_for_each(|n| ReservationFile::of(&dir, &name, n.nsid, n.uuid).remove())
        });
        if let Ok(Err(e)) = removed.await {
            tracing::warn!(%nqn, error = %e, "the reservations of a removed namespace could not be deleted");
        }
    }

    /// See [`AllowHost`].
    pub async fn allow_host(&self, request: AllowHost) -> Result<api::Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let now = self.hosts_of(&nqn);
        let exists = now.is_ok();
        let mut names = match now {
            Ok(HostList::Any) if request.host != "any" => {
                return Err(Error::Conflict(format!(
                    "any host may connect to {nqn}: to name those that may, `wirepool host deny {nqn} any` first"
                )));
            }
            Ok(HostList::Listed(names)) => names,
            Ok(HostList::Any) | Err(_) => BTreeSet::new(),
        };
        let hosts = if request.host == "any" {
            HostList::Any
        } else {
            names.insert(host_name(&request.host)?);
            HostList::Listed(names)
        };
        self.set_hosts(&nqn, hosts, exists).await
    }

    /// See [`DenyHost`].
    pub async fn deny_host(&self, request: DenyHost) -> Result<api::Export> {
        let _turn = self.turn().await?;
        let nqn = subsystem_name(&request.nqn)?;
        let hosts = match self.hosts_of(&nqn)? {
            HostList::Any if request.host == "any" => HostList::Listed(BTreeSet::new()),
            HostList::Any => {
                return Err(Error::Conflict(format!(
                    "any host may connect to {nqn}: `wirepool host deny {nqn} any` first, then allow those that may"
                )));
            }
            HostList::Listed(mut names) => {
                if request.host == "any" || !names.remove(&host_name(&request.host)?) {
                    let text = format!("{} is not on the host list of {nqn}", request.host);
                    return Err(Error::Conflict(text));
                }
                HostList::Listed(names)
            }
        };
        self.set_hosts(&nqn, hosts, true).await
    }

    fn hosts_of(&self, nqn: &Nqn) -> Result<HostList> {
        let state = self.state.borrow();
        let found = state.file.config().subsystem(nqn).map(|s| s.hosts.clone());
        found.ok_or_else(|| Error::NoSubsystem(nqn.clone()))
    }

    async fn set_hosts(&self, nqn: &Nqn, hosts: HostList, exists: bool) -> Result<api::Export> {
        let mut edits = vec![Edit::SetHosts(nqn.clone(), hosts.clone())];
        if !exists {
            edits.insert(0, Edit::AddSubsystem(nqn.clone()));
        }
        let new = self.edited(&edits)?;
        self.store(new).await?;
        self.ensure_subsystem(nqn, exists);
        let _ = self.protocols.nvmf.target.set_hosts(nqn, policy(&hosts));
        self.export_view(nqn)
    }

    /// Adds a subsystem that a change created to the target.
    fn ensure_subsystem(&self, nqn: &Nqn, exists: bool) {
        if !exists && let Some(s) = self.config().subsystem(nqn) {
            self.add_subsystem(s);
        }
    }
}

/// Errors: `Conflict` if the disk has an export.
pub(crate) fn not_exported(config: &Config, disk: &str) -> Result<()> {
    match config.exported_as(disk) {
        None => Ok(()),
        Some(export) => Err(Error::Conflict(format!(
            "the disk {disk:?} is exported already, as {export}"
        ))),
    }
}

pub(crate) fn subsystem_name(text: &str) -> Result<Nqn> {
    Nqn::new(text).map_err(|e| Error::Invalid(format!("{text:?} does not name a subsystem: {e}")))
}

pub(crate) fn host_name(text: &str) -> Result<Nqn> {
    Nqn::new(text).map_err(|e| {
        Error::Invalid(format!(
            "{text:?} does not name a host (its NQN, or any): {e}"
        ))
    })
}

/// The requested identifier, if it is free, or the lowest free one.
fn free_nsid(subsystem: Option<&SubsystemConfig>, wanted: Option<u32>) -> Result<u32> {
    let taken = |nsid: &u32| subsystem.is_some_and(|s| s.namespace(*nsid).is_some());
    let name = || subsystem.map_or(String::new(), |s| s.nqn.to_string());
    match wanted {
        Some(nsid) if taken(&nsid) => Err(Error::Conflict(format!(
            "the subsystem {} has a namespace {nsid} already",
            name()
        ))),
        Some(nsid) => Ok(nsid),
        None => (1..=NSID_MAX).find(|n| !taken(n)).ok_or_else(|| {
            Error::Conflict(format!(
                "the subsystem {} has all {NSID_MAX} namespaces",
                name()
            ))
        }),
    }
}

/// A new disk as it is opened now, and as the configuration stores it. A file is created once: the configuration has
/// no size for it, so that a file that is lost later is held back and not replaced by an empty one.
fn disk_configs(request: AddDisk) -> Result<(DiskConfig, DiskConfig)> {
    let absolute = |path: &Path| {
        if path.is_absolute() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "the path {} is not absolute",
            path.display()
        )))
    };
    let medium = match request.medium {
        NewMedium::File {
            path,
            size,
            buffered,
        } => {
            absolute(&path)?;
            Medium::File {
                path,
                create: size,
                buffered,
            }
        }
        NewMedium::Block { path } => {
            absolute(&path)?;
            Medium::Block { path }
        }
        NewMedium::Mem { size } => Medium::Memory { size },
        NewMedium::Null { size } => Medium::Null { size },
    };
    if medium.path().is_some_and(|p| p.to_str().is_none()) {
        return Err(Error::Invalid(
            "the path is not UTF-8, which the configuration is written in".into(),
        ));
    }
    let open = DiskConfig {
        name: request.name,
        medium,
        block_size: request.block_size,
        read_only: request.read_only,
    };
    let mut keep = open.clone();
    if let Medium::File { create, .. } = &mut keep.medium {
        *create = None;
    }
    Ok((open, keep))
}

/// The path of a file that opening this disk will create.
async fn missing_file(disk: &DiskConfig) -> Option<PathBuf> {
    let Medium::File {
        path,
        create: Some(_),
        ..
    } = &disk.medium
    else {
        return None;
    };
    let path = path.clone();
    io::blocking(move || (!path.exists()).then_some(path))
        .await
        .ok()
        .flatten()
}

/// Errors: `Conflict` if the file existed before, with a size other than the requested one.
fn same_size(disk: &DiskConfig, backend: &dyn BlockBackend) -> Result<()> {
    let Medium::File {
        path,
        create: Some(wanted),
        ..
    } = &disk.medium
    else {
        return Ok(());
    };
    let g = backend.geometry();
    let size = g.blocks * u64::from(g.block_size);
    if size == wanted.0 / u64::from(g.block_size) * u64::from(g.block_size) {
        return Ok(());
    }
    Err(Error::Conflict(format!(
        "{} exists already and has {}: omit --size, and use `wirepool disk resize {} {wanted}` afterwards",
        path.display(),
        ByteSize(size).human(),
        disk.name
    )))
}
