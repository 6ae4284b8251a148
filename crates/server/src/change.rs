//! Live changes of disks, while clients are connected.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: changes are carried out one at a time, each
//! in three steps: the steps that can fail, without visible effect; the durable write of the configuration; the
//! effect, which cannot fail. A failure before the end of the second step has no effect.

use crate::api::{self, AddDisk, NewMedium, RemoveDisk, ResizeDisk};
use crate::config::{ConfigFile, DiskConfig, DiskEdit, Edit, Medium};
use crate::disks;
use crate::reservations::ReservationFile;
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use backend::BlockBackend;
use io::sync::Permit;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use uuid::Uuid;

impl Server {
    /// Waits until no other change runs. Errors: `Unavailable` while the server shuts down.
    pub(crate) async fn turn(&self) -> Result<Permit> {
        let permit = self.changing.acquire(1).await;
        if self.state.borrow().draining {
            return Err(Error::Unavailable("shutting down and accepts no changes"));
        }
        Ok(permit)
    }

    pub(crate) fn edited(&self, edits: &[&dyn Edit]) -> Result<ConfigFile> {
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
        self.config_writes.set(self.config_writes.get() + 1);
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
        let new = self.edited(&[&DiskEdit::Add(to_keep)])?;
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

    /// See [`RemoveDisk`]. Errors: `NoDisk`; `Conflict` if it is exported, or cannot be flushed without force.
    pub async fn remove_disk(&self, request: RemoveDisk) -> Result<()> {
        let _turn = self.turn().await?;
        let RemoveDisk { name, force } = request;
        let backend = {
            let state = self.state.borrow();
            let config = state.file.config();
            if config.disk(&name).is_none() {
                return Err(Error::NoDisk(name));
            }
            if let Some(export) = config.exported_as(&name) {
                return Err(Error::Conflict(format!(
                    "the disk {name:?} is exported: `{}` first",
                    export.removal
                )));
            }
            let online = state.disks.online(&name);
            online.map(|disk| disk.backend.clone())
        };
        let new = self.edited(&[&DiskEdit::Remove(name.clone())])?;
        if let Some(backend) = backend {
            match disks::flush(&*backend).await {
                Err(reason) if !force => {
                    return Err(Error::Conflict(format!(
                        "the disk {name:?} {reason}: its last writes may be lost; use -f to remove it nevertheless"
                    )));
                }
                Err(reason) => tracing::warn!(disk = name, reason, "removed by force"),
                Ok(()) => {}
            }
        }
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
            match state.disks.online(&name) {
                Some(o) => (o.backend.clone(), has_size),
                None => {
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
            let resize = DiskEdit::Resize(name.clone(), size);
            let new = self.edited(&[&resize])?;
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

    /// Deletes the reservations of exports that were removed: their numbers and UUIDs in the subsystem or target `name`.
    pub(crate) async fn forget_reservations(&self, name: String, gone: Vec<(u32, Uuid)>) {
        let Some(dir) = self.state_dir() else { return };
        let of = name.clone();
        let removed = io::blocking(move || {
            gone.iter().try_for_each(|(number, uuid)| {
                ReservationFile::of(&dir, &of, *number, *uuid).remove()
            })
        });
        if let Ok(Err(e)) = removed.await {
            tracing::warn!(name, error = %e, "the reservations of a removed export could not be deleted");
        }
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
