//! Mounts of filesystems in the kernel of this machine.
//!
//! **Owns** the present mounts and their supervisors. **Called by** the requests to mount and unmount, the opening of pools, and the
//! end of the server. **Invariants**: each mount of the configuration has an entry, mounted or not; an attempt has the turn for
//! changes; a mount that another program unmounted is not mounted again before the next start or request; a mount is a user of
//! its filesystem until its last open file is closed.

use super::registry::{MountEntry, MountState, Mounted};
use crate::config::{MountConfig, split_volume};
use crate::limits::{FLUSH_MAX, MOUNT_BUSY_MAX, MOUNT_CHECK, MOUNT_ENDING_MAX, MOUNT_ENDING_POLL};
use crate::pools::entry::PoolState;
use crate::server::Server;
use crate::{Error, Result};
use backend::file::FileBackend;
use fuse::{EndReason, Mount, MountOptions, Permissions, Unmount};
use io::sync::Notify;
use pool::format::{DatasetProperty, Switches};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Runs a call that blocks on a helper thread.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    io::blocking(call).await.map_err(|source| Error::Start {
        what: "a helper thread",
        source,
    })
}

/// The server's error for one of a mount.
pub(super) fn mount_failed(full: &str, e: fuse::Error) -> Error {
    use fuse::Error as Fuse;
    match e {
        Fuse::Missing(_) | Fuse::NotDirectory(_) | Fuse::AllowOther | Fuse::NeedsRoot(_) => {
            Error::Invalid(e.to_string())
        }
        Fuse::NotEmpty(_)
        | Fuse::InUse { .. }
        | Fuse::Dead(_)
        | Fuse::Busy(_)
        | Fuse::NotMounted(_) => Error::Conflict(e.to_string()),
        Fuse::Examine { .. }
        | Fuse::NoDevice
        | Fuse::NoHelper
        | Fuse::Refused { .. }
        | Fuse::NotDurable { .. }
        | Fuse::Thread(_) => Error::Mount {
            name: full.to_owned(),
            source: e,
        },
    }
}

/// Mounts, and removes a dead mount of an earlier server first. Returns whether there was one. Blocks.
fn start(
    files: &Arc<dyn FileBackend>,
    config: &MountConfig,
    options: &MountOptions,
    shards: &[io::runtime::Shard],
) -> (fuse::Result<Mount>, bool) {
    match Mount::start(files.clone(), &config.at, options, shards) {
        Err(fuse::Error::Dead(_)) => {
            let options = MountOptions {
                replace_dead: true,
                ..options.clone()
            };
            let again = Mount::start(files.clone(), &config.at, &options, shards);
            (again, true)
        }
        result => (result, false),
    }
}

impl Server {
    /// Adds an entry and its supervisor.
    pub(super) fn keep_mount(self: &Rc<Self>, full: &str, state: MountState) {
        let wake = Rc::new(Notify::new());
        let supervisor = supervise(self.clone(), full.to_owned(), wake.clone());
        let entry = MountEntry {
            state,
            wake,
            supervisor: io::spawn(supervisor),
        };
        let mut state = self.state.borrow_mut();
        state.filesystems.mounts.insert(full.to_owned(), entry);
    }

    /// Adds the mounts of the configuration, when the server starts.
    pub(crate) fn keep_mounts(self: &Rc<Self>) {
        let mounts = self.state.borrow().file.config().mounts.clone();
        for mount in mounts {
            self.keep_mount(&mount.filesystem, MountState::Opening);
        }
    }

    /// Wakes the supervisors of a pool's mounts, after the pool was opened, well or not.
    pub(in crate::pools) fn wake_mounts(&self, pool: &str) {
        for (full, entry) in &self.state.borrow().filesystems.mounts {
            if split_volume(full).is_some_and(|(p, _)| p == pool) {
                entry.wake.notify();
            }
        }
    }

    /// Mounts a filesystem. The caller has the turn for changes. Errors: `Invalid`, `Conflict`, `Mount`, those of
    /// [`Server::use_filesystem`].
    pub(super) async fn mount_now(&self, config: &MountConfig) -> Result<Mounted> {
        let full = &config.filesystem;
        if self.state_dir().is_none() {
            return Err(Error::Invalid("a simulated machine has no FUSE".into()));
        }
        let words = format!("mounted at {}", config.at.display());
        self.forget_detached().await;
        let user = match config.options.shared {
            true => self.use_filesystem(full, words).await?,
            false => self.use_filesystem_alone(full, words).await?,
        };
        let options = options_of(config, &user.switches());
        let mut files: Arc<dyn FileBackend> = Arc::new(user.files());
        if config.options.shared {
            for exports in self.protocols.filesystem_exports() {
                files = exports.guarded(files);
            }
        }
        let since = io::time::now();
        loop {
            let (files, config) = (files.clone(), config.clone());
            let (options, shards) = (options.clone(), self.shards.all());
            let (started, was_dead) =
                blocking(move || start(&files, &config, &options, &shards)).await?;
            if was_dead && started.is_ok() {
                self.mount_event(
                    full,
                    "mount.cleaned",
                    "removed a dead mount of an earlier server",
                );
            }
            match started {
                Ok(mount) => {
                    return Ok(Mounted {
                        mount: Arc::new(mount),
                        _user: user,
                    });
                }
                // the process of an earlier server is still ending
                Err(fuse::Error::InUse { source_name, .. })
                    if source_name == *full && since.elapsed() < MOUNT_ENDING_MAX =>
                {
                    io::time::sleep(MOUNT_ENDING_POLL).await;
                }
                Err(e) => return Err(mount_failed(full, e)),
            }
        }
    }

    pub(super) fn mount_event(&self, full: &str, class: &str, text: &str) {
        let pool = split_volume(full).map_or(full, |(pool, _)| pool);
        self.event(pool, class, format!("{full}: {text}"));
    }

    /// The mount of a filesystem, if it is mounted.
    pub(super) fn mounted(&self, full: &str) -> Option<Arc<Mount>> {
        match &self.state.borrow().filesystems.mounts.get(full)?.state {
            MountState::Mounted(mounted) => Some(mounted.mount.clone()),
            MountState::Opening | MountState::Held { .. } => None,
        }
    }

    /// Sets the state of an entry, if it is still there.
    pub(super) fn set_mount(&self, full: &str, new: MountState) {
        let mut state = self.state.borrow_mut();
        if let Some(entry) = state.filesystems.mounts.get_mut(full) {
            let old = std::mem::replace(&mut entry.state, new);
            drop(state);
            drop(old);
        }
    }

    fn hold_mount(&self, full: &str, reason: String, is_retried: bool) {
        let is_news = match self
            .state
            .borrow()
            .filesystems
            .mounts
            .get(full)
            .map(|e| &e.state)
        {
            Some(MountState::Held { reason: old, .. }) => *old != reason,
            _ => true,
        };
        if is_news {
            self.mount_event(full, "mount.held", &format!("not mounted: {reason}"));
        }
        self.set_mount(full, MountState::Held { reason, is_retried });
    }

    /// Makes everything durable that was written to a mounted filesystem, also data that only the kernel has. Errors: `Mount`.
    pub(in crate::pools) async fn sync_mount(&self, full: &str) -> Result<()> {
        let Some(mount) = self.mounted(full) else {
            return Ok(());
        };
        match blocking(move || mount.sync()).await? {
            Ok(()) | Err(fuse::Error::NotMounted(_)) => Ok(()),
            Err(e) => Err(mount_failed(full, e)),
        }
    }

    /// Drops detached mounts whose last file was closed.
    pub(super) async fn forget_detached(&self) {
        let detached = std::mem::take(&mut self.state.borrow_mut().filesystems.detached);
        for mounted in detached {
            let mount = mounted.mount.clone();
            let is_ended = blocking(move || is_ended(&mount)).await.unwrap_or(false);
            if !is_ended {
                self.state.borrow_mut().filesystems.detached.push(mounted);
            }
        }
    }

    /// One round of a mount's supervisor.
    async fn tend_mount(&self, full: &str) {
        let Ok(_turn) = self.turn().await else { return };
        if let Some(mount) = self.mounted(full) {
            let ended = blocking(move || match mount.state() {
                fuse::MountState::Ended(ended) => Some(ended),
                fuse::MountState::Mounted | fuse::MountState::Detached => None,
            });
            if let Ok(Some(ended)) = ended.await {
                let reason = match ended.reason {
                    EndReason::Requested | EndReason::ByOthers => {
                        format!("another program unmounted it: `wirepool fs mount {full}`")
                    }
                    EndReason::Failed(e) => {
                        format!(
                            "its connection to the kernel failed: {e}: `wirepool fs mount {full}`"
                        )
                    }
                };
                self.hold_mount(full, reason, false);
            }
            return;
        }
        let config = {
            let state = self.state.borrow();
            match state.filesystems.mounts.get(full).map(|entry| &entry.state) {
                Some(MountState::Opening)
                | Some(MountState::Held {
                    is_retried: true, ..
                }) => {}
                _ => return,
            }
            let pool = split_volume(full).and_then(|(pool, _)| state.pools.get(pool));
            if matches!(pool.map(|p| &p.state), Some(PoolState::Opening)) {
                return;
            }
            state.file.config().mount_of(full).cloned()
        };
        let Some(config) = config else { return };
        match self.mount_now(&config).await {
            Ok(mounted) => {
                self.mount_event(full, "mount.mounted", &mounted_words(&config));
                self.set_mount(full, MountState::Mounted(mounted));
            }
            Err(e) => self.hold_mount(full, e.to_string(), true),
        }
    }

    /// Unmounts everything when the server ends. Returns the failures.
    pub(crate) async fn end_mounts(&self) -> Vec<String> {
        // A change in progress may be mounting.
        let turn = io::timeout(FLUSH_MAX, self.changing.acquire(1)).await;
        let (mounts, detached) = {
            let mut state = self.state.borrow_mut();
            let mounts = std::mem::take(&mut state.filesystems.mounts);
            (mounts, std::mem::take(&mut state.filesystems.detached))
        };
        let mut ending = Vec::new();
        for (full, mut entry) in mounts {
            if let MountState::Mounted(mounted) =
                std::mem::replace(&mut entry.state, MountState::Opening)
            {
                ending.push((full, io::spawn(end(mounted))));
            }
        }
        let mut failures = Vec::new();
        for (full, task) in ending {
            if let Some(Err(reason)) = task.await {
                failures.push(format!("the filesystem {full:?}: {reason}"));
            }
        }
        drop(detached);
        drop(turn);
        failures
    }
}

/// The options of a mount. A server that runs as root lets all users in.
/// The options of a mount: those of the command, and the filesystem's properties.
fn options_of(config: &MountConfig, switches: &Switches) -> MountOptions {
    let flags = config.options;
    let is_on = |property| switches.has(property);
    let is_root = io::linux::is_root();
    MountOptions {
        source: config.filesystem.clone(),
        permissions: match flags.acl {
            true => Permissions::FileSystem,
            false => Permissions::Kernel,
        },
        allow_other: flags.allow_other || is_root,
        is_read_only: flags.read_only,
        is_shared: flags.shared,
        suid: flags.suid || is_root && is_on(DatasetProperty::Setuid),
        devices: flags.devices || is_root && is_on(DatasetProperty::Devices),
        exec: !flags.no_exec && is_on(DatasetProperty::Exec),
        ..MountOptions::default()
    }
}

pub(super) fn mounted_words(config: &MountConfig) -> String {
    format!("mounted at {}", config.at.display())
}

fn is_ended(mount: &Mount) -> bool {
    matches!(mount.state(), fuse::MountState::Ended(_))
}

/// Unmounts when the server ends. A mount that stays in use is detached after all of its changes are durable. Errors: the reason,
/// if later changes of open files may be lost.
async fn end(mounted: Mounted) -> std::result::Result<(), String> {
    let mount = mounted.mount.clone();
    let since = io::time::now();
    loop {
        let unmounting = mount.clone();
        let done = blocking(move || unmounting.unmount(Unmount::IfIdle)).await;
        match done.map_err(|e| e.to_string())? {
            Ok(()) | Err(fuse::Error::NotMounted(_)) => return Ok(()),
            Err(fuse::Error::Busy(_)) if since.elapsed() < MOUNT_BUSY_MAX => {
                io::time::sleep(MOUNT_ENDING_POLL).await;
            }
            Err(fuse::Error::Busy(_)) => break,
            Err(e) => return Err(e.to_string()),
        }
    }
    let detaching = mount.clone();
    let detached = blocking(move || detaching.unmount(Unmount::Lazy)).await;
    detached
        .map_err(|e| e.to_string())?
        .map_err(|e| e.to_string())?;
    let at = PathBuf::from(mount.at());
    while since.elapsed() < 2 * MOUNT_BUSY_MAX {
        if is_ended(&mount) {
            return Ok(());
        }
        io::time::sleep(MOUNT_ENDING_POLL).await;
    }
    let files = mount.totals().open_files;
    if files == 0 {
        tracing::warn!(at = %at.display(), "a directory of the mount is in use; nothing is lost");
        return Ok(());
    }
    Err(format!(
        "{} was detached with {files} open files: what is written to them from now on fails",
        at.display()
    ))
}

async fn supervise(server: Rc<Server>, full: String, wake: Rc<Notify>) {
    loop {
        server.tend_mount(&full).await;
        let _woken = io::timeout(MOUNT_CHECK, wake.notified()).await;
    }
}
