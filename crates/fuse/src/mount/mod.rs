//! Mounts: a file system of ours in the kernel's tree of names.
//!
//! **Owns** [`Mount`]: the connection to the kernel from start to end. **Called by** the server and its command line, on
//! threads that may block; never on a shard. **Invariants**: all checks come before the first change; a mount that was
//! unmounted without an error has lost nothing; dropping a [`Mount`] detaches it.
//!
//! ```text
//! start --> mounted --(unmount, or another program)--> answers its last requests --> closes files, commits --> ended
//!              \--(lazy unmount)--> detached: serves open files until they are closed --/
//! ```

mod device;
mod end;
mod point;

pub use end::{EndReason, Ended};

use crate::error::{Error, Result};
use crate::front::Front;
use crate::limits::{READ_AHEAD_BYTES, SESSION_THREADS, UNMOUNT_WAIT, WRITE_BACKS_MAX};
use crate::mounted::Mounted;
use crate::notices::Notices;
use crate::operation::OperationTotals;
use crate::options::MountOptions;
use backend::file::FileBackend;
use device::Connection;
use end::End;
use fuser::{Config, Session, SessionACL};
use io::linux::UnmountMode;
use io::runtime::Shard;
use point::Found;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file system is unmounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmount {
    /// Fails with [`Error::Busy`] while it is in use.
    IfIdle,
    /// The mount point is free at once. Open files are served until they are closed; then the mount ends.
    Lazy,
    /// As `Lazy`, and every request in flight and every later one fails. Data that only the kernel has is lost: for a file
    /// system that no longer answers.
    Abort,
}

/// The state of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountState {
    /// It is at its mount point.
    Mounted,
    /// It is not at its mount point, and serves files that are still open.
    Detached,
    /// It has ended.
    Ended(Ended),
}

/// Counters of a mount since its start.
#[derive(Debug, Clone, PartialEq)]
pub struct MountTotals {
    /// Requests that were taken from the kernel and not answered.
    pub in_flight: usize,
    /// Objects that the kernel knows.
    pub known_objects: usize,
    /// Open files.
    pub open_files: usize,
    /// Operations.
    pub operations: OperationTotals,
}

/// A mounted file system.
pub struct Mount {
    at: PathBuf,
    /// The mount's device number, `major:minor`.
    device: String,
    mounted: Arc<Mounted>,
    end: End,
}

impl Mount {
    /// Mounts a file system at a directory. The shards carry out its requests, those of one object on one shard. Errors: see
    /// [`Error`]; nothing was changed then.
    pub fn start(
        files: Arc<dyn FileBackend>,
        at: &Path,
        options: &MountOptions,
        shards: &[Shard],
    ) -> Result<Mount> {
        let at = point::resolve(at)?;
        check_privileges(options)?;
        if point::check(&at, options)? == Found::Dead {
            device::disconnect(&at, UnmountMode::Detach, "")?;
            point::check(&at, options)?;
        }
        let is_read_only = options.is_read_only || files.limits().is_read_only;
        let connection = device::connect(&at, options, is_read_only)?;
        let number = match point::mounted_at(&at) {
            Ok(Some(listed)) => listed.device,
            Ok(None) | Err(_) => String::new(),
        };
        let mounted = Arc::new(Mounted::new(files, options, shards));
        let end = End::default();
        if let Err(e) = serve(connection, mounted.clone(), end.clone(), &at) {
            let _ = device::disconnect(&at, UnmountMode::Detach, &number);
            return Err(e);
        }
        device::set_read_ahead(&number, READ_AHEAD_BYTES);
        tracing::info!(at = %at.display(), source = options.source, "mounted");
        Ok(Mount {
            at,
            device: number,
            mounted,
            end,
        })
    }

    /// The mount point.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The present state. Reads the kernel's list of mounts.
    #[must_use]
    pub fn state(&self) -> MountState {
        if let Some(ended) = self.end.get() {
            return MountState::Ended(ended);
        }
        match self.is_listed() {
            true => MountState::Mounted,
            false => MountState::Detached,
        }
    }

    /// Waits for the end. Blocks the thread.
    #[must_use]
    pub fn wait(&self) -> Ended {
        self.end.wait()
    }

    /// Counters since the start.
    #[must_use]
    pub fn totals(&self) -> MountTotals {
        MountTotals {
            in_flight: self.mounted.gate.in_flight(),
            known_objects: self.mounted.nodes.len(),
            open_files: self.mounted.opened.len(),
            operations: self.mounted.operations.totals(),
        }
    }

    /// Makes every acknowledged change durable, also data that only the kernel has. Blocks the thread. Errors: `NotMounted`,
    /// `NotDurable`.
    pub fn sync(&self) -> Result<()> {
        if self.end.get().is_some() || !self.is_listed() {
            return Err(Error::NotMounted(self.at.clone()));
        }
        self.write_everything()
            .map_err(|reason| self.not_durable(reason))
    }

    /// Unmounts. Blocks the thread until every acknowledged change is durable and the mount has ended ([`Unmount::Lazy`]:
    /// until it is detached). Errors: `Busy`, `NotMounted`, `NotDurable`, `Refused`.
    pub fn unmount(&self, how: Unmount) -> Result<()> {
        if self.end.get().is_some() || !self.is_listed() {
            return Err(Error::NotMounted(self.at.clone()));
        }
        if how != Unmount::Abort {
            self.write_everything()
                .map_err(|reason| self.not_durable(reason))?;
        }
        let mode = match how {
            Unmount::IfIdle => UnmountMode::Normal,
            Unmount::Lazy => UnmountMode::Detach,
            Unmount::Abort => UnmountMode::Force,
        };
        self.end.request();
        if let Err(e) = device::disconnect(&self.at, mode, &self.device) {
            self.end.withdraw();
            return Err(e);
        }
        if how == Unmount::Lazy {
            return Ok(());
        }
        let not_durable = match self.end.wait_for(UNMOUNT_WAIT) {
            Some(ended) => ended.not_durable,
            None => {
                tracing::warn!(
                    at = %self.at.display(),
                    "unmounted, and still in use in another mount namespace"
                );
                end::commit_all(&self.mounted).err()
            }
        };
        match not_durable {
            None => Ok(()),
            Some(reason) => Err(Error::NotDurable {
                at: self.at.clone(),
                reason,
                is_mounted: false,
            }),
        }
    }

    fn not_durable(&self, reason: String) -> Error {
        Error::NotDurable {
            at: self.at.clone(),
            reason,
            is_mounted: true,
        }
    }

    /// Makes the kernel hand over its dirty data, and every acknowledged change durable. The error is the reason.
    fn write_everything(&self) -> std::result::Result<(), String> {
        let root = File::open(&self.at).map_err(|e| e.to_string())?;
        self.write_back(&root)?;
        drop(root);
        end::commit_all(&self.mounted)
    }

    /// Makes the kernel hand over its dirty data. Data that could not be written (a quota, no space) is gone from the kernel's
    /// cache; the program that wrote it gets the error at fsync(2) or close(2). syncfs(2) reports such an error of any program
    /// once, also an old one, and does not fail again after it. The error is the reason.
    fn write_back(&self, root: &File) -> std::result::Result<(), String> {
        let mut failed = String::new();
        for _ in 0..WRITE_BACKS_MAX {
            match io::linux::sync_file_system(root) {
                Ok(()) => return Ok(()),
                Err(e) => failed = e.to_string(),
            }
            let at = self.at.display();
            tracing::warn!(%at, "a program's data could not be written back: {failed}");
            // a connection that has ended fails for ever
            io::linux::ask_file_system(&self.at).map_err(|e| e.to_string())?;
        }
        Err(failed)
    }

    /// Whether the kernel lists it at its mount point.
    fn is_listed(&self) -> bool {
        let mounts = point::mounts().unwrap_or_default();
        mounts
            .iter()
            .any(|m| m.at == self.at && m.device == self.device)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.end.get().is_some() || !self.is_listed() {
            return;
        }
        self.end.request();
        if let Err(e) = device::disconnect(&self.at, UnmountMode::Detach, &self.device) {
            tracing::warn!("{e}");
        }
    }
}

/// Options that a user may not have. Errors: `NeedsRoot`, `AllowOther`.
fn check_privileges(options: &MountOptions) -> Result<()> {
    if io::linux::is_root() {
        return Ok(());
    }
    if options.suid {
        return Err(Error::NeedsRoot("suid"));
    }
    if options.devices {
        return Err(Error::NeedsRoot("devices"));
    }
    match options.allow_other && !point::may_allow_other() {
        true => Err(Error::AllowOther),
        false => Ok(()),
    }
}

/// Answers the kernel's first request, and starts the threads.
fn serve(connection: Connection, mounted: Arc<Mounted>, end: End, at: &Path) -> Result<()> {
    let mut config = Config::default();
    config.n_threads = Some(SESSION_THREADS);
    config.clone_fd = connection.can_clone;
    let front = Front::new(mounted.clone());
    // The kernel lets in whom the mount's options allow. `fuser` would refuse its own work on behalf of root, too.
    let session = Session::from_fd(front, connection.device, SessionACL::All, config);
    let session = session.map_err(|e| Error::Refused {
        at: at.to_owned(),
        reason: format!("the handshake with the kernel failed: {e}"),
    })?;
    let notices = Notices::start(session.notifier()).map_err(Error::Thread)?;
    let _ = mounted.notices.set(notices);
    let named = at.to_owned();
    let run = move || {
        let connection = session.run();
        end.finish(&mounted, connection);
        if let Some(ended) = end.get() {
            tracing::info!(at = %named.display(), ?ended, "unmounted");
        }
    };
    std::thread::Builder::new()
        .name("fuse".to_owned())
        .spawn(run)
        .map_err(Error::Thread)?;
    Ok(())
}
