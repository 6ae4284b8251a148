//! Requests to mount and unmount filesystems.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; a mount is stored in the
//! configuration after it is there, and removed from it after it is gone.

use super::mounts::{blocking, mount_failed, mounted_words};
use super::registry::{MountState, Mounted};
use crate::api::{self, MountFilesystem, UnmountFilesystem};
use crate::config::{MountConfig, MountEdit};
use crate::server::Server;
use crate::{Error, Result};
use fuse::Unmount;
use std::path::Path;
use std::rc::Rc;

impl Server {
    /// See [`MountFilesystem`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoFilesystem`, `Pool`, `Mount`, `File`.
    pub async fn mount_filesystem(
        self: &Rc<Self>,
        request: MountFilesystem,
    ) -> Result<api::Filesystem> {
        let _turn = self.turn().await?;
        let full = request.name.clone();
        self.filesystem_to_mount(&full)?;
        let stored = self.state.borrow().file.config().mount_of(&full).cloned();
        if let (Some(stored), Some(_)) = (&stored, self.mounted(&full)) {
            return Err(Error::Conflict(format!(
                "the filesystem {full:?} is mounted already, at {}",
                stored.at.display()
            )));
        }
        let (config, edit) = match stored {
            Some(stored) => (same_place(stored, &request)?, None),
            None => {
                let config = new_mount(request)?;
                let edit = MountEdit::Add(config.clone());
                (config, Some(edit))
            }
        };
        let new = edit.map(|edit| self.edited(&[&edit])).transpose()?;
        let mounted = self.mount_now(&config).await?;
        if let Some(new) = new
            && let Err(e) = self.store(new).await
        {
            let mount = mounted.mount.clone();
            let _undone = blocking(move || mount.unmount(Unmount::IfIdle)).await;
            return Err(e);
        }
        self.mount_event(&full, "mount.mounted", &mounted_words(&config));
        self.keep_mount(&full, MountState::Mounted(mounted));
        self.filesystem_view(&full)
    }

    /// Errors: those of [`Server::filesystem_named`], but a read-only pool is none.
    pub(super) fn filesystem_to_mount(&self, full: &str) -> Result<()> {
        match self.filesystem_named(full) {
            Err(Error::Conflict(_)) => self.filesystem_view(full).map(drop),
            other => other.map(drop),
        }
    }

    /// The filesystem with this name or mount point. Errors: `Invalid`, `Conflict` if it is not mounted, `NoFilesystem`, `NoPool`.
    fn mount_named(&self, name: &str) -> Result<String> {
        let found = {
            let state = self.state.borrow();
            let mounts = &state.file.config().mounts;
            let is_it = |m: &&MountConfig| m.filesystem == name || m.at == Path::new(name);
            mounts.iter().find(is_it).map(|m| m.filesystem.clone())
        };
        match found {
            Some(full) => Ok(full),
            None if name.starts_with('/') => Err(Error::Conflict(format!(
                "no filesystem is mounted at {name}: see `wirepool fs list`"
            ))),
            None => {
                self.filesystem_to_mount(name)?;
                Err(Error::Conflict(format!(
                    "the filesystem {name:?} is not mounted"
                )))
            }
        }
    }

    /// See [`UnmountFilesystem`]. Errors: `Conflict` if it is in use or not mounted, `Mount` if changes cannot be made durable,
    /// `Invalid`, `NoPool`, `NoFilesystem`, `File`.
    pub async fn unmount_filesystem(&self, request: UnmountFilesystem) -> Result<()> {
        let _turn = self.turn().await?;
        let full = self.mount_named(&request.name)?;
        let new = self.edited(&[&MountEdit::Remove(full.clone())])?;
        let how = match (request.force, request.lazy) {
            (true, _) => Unmount::Abort,
            (false, true) => Unmount::Lazy,
            (false, false) => Unmount::IfIdle,
        };
        let mut lost = None;
        if let Some(mount) = self.mounted(&full) {
            match blocking(move || mount.unmount(how)).await? {
                Ok(()) | Err(fuse::Error::NotMounted(_)) => {}
                Err(
                    e @ fuse::Error::NotDurable {
                        is_mounted: false, ..
                    },
                ) => lost = Some(mount_failed(&full, e)),
                Err(e) => return Err(mount_failed(&full, e)),
            }
        }
        if let Err(e) = self.store(new).await {
            let reason = "unmounted; the configuration still has the mount".to_owned();
            let held = MountState::Held {
                reason,
                is_retried: false,
            };
            self.set_mount(&full, held);
            return Err(e);
        }
        let entry = self.state.borrow_mut().filesystems.mounts.remove(&full);
        if let Some(mut entry) = entry
            && let MountState::Mounted(mounted) =
                std::mem::replace(&mut entry.state, MountState::Opening)
        {
            self.keep_detached(mounted).await;
        }
        self.mount_event(&full, "mount.unmounted", "unmounted");
        lost.map_or(Ok(()), Err)
    }

    /// Keeps a mount that was unmounted until its last file is closed.
    async fn keep_detached(&self, mounted: Mounted) {
        self.state.borrow_mut().filesystems.detached.push(mounted);
        self.forget_detached().await;
    }
}

/// The stored mount, if the request asks for no other. Errors: `Conflict`.
fn same_place(stored: MountConfig, request: &MountFilesystem) -> Result<MountConfig> {
    let is_same = request.at.as_ref().is_none_or(|at| *at == stored.at);
    if is_same {
        return Ok(stored);
    }
    let name = &stored.filesystem;
    Err(Error::Conflict(format!(
        "the configuration has a mount of {name:?} at {}: `wirepool fs unmount {name}` first",
        stored.at.display()
    )))
}

fn new_mount(request: MountFilesystem) -> Result<MountConfig> {
    let Some(at) = request.at else {
        let text = format!(
            "the mount point is missing: `wirepool fs mount {} DIRECTORY`",
            request.name
        );
        return Err(Error::Invalid(text));
    };
    if !at.is_absolute() || at.to_str().is_none() {
        return Err(Error::Invalid(format!(
            "the mount point {} is not absolute, or not UTF-8",
            at.display()
        )));
    }
    Ok(MountConfig {
        filesystem: request.name,
        at,
        options: request.options,
    })
}
