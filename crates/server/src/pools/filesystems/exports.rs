//! Exported filesystems: each is open, and published over its protocols, while its pool is open.
//!
//! **Owns** for each filesystem that the configuration or its property exports its use and a supervisor. **Called by** the requests to export, the
//! opening of pools, and the end of the server. **Invariants**: an attempt has the turn for changes; an export is a user of its
//! filesystem, so that mounts and exports have the same open filesystem; the protocol knows whether an export is published.

use super::registry::{ExportState, FilesystemExport};
use super::users::FilesystemUser;
use crate::config::split_volume;
use crate::limits::EXPORT_RETRY;
use crate::pools::entry::PoolState;
use crate::server::Server;
use crate::{Error, Result};
use backend::file::FileBackend;
use io::sync::Notify;
use std::rc::Rc;
use std::sync::Arc;

impl Server {
    /// Errors: `Invalid` if there is no filesystem of this name, or it is a volume; `NoPool`, `Pool`, `NoFilesystem`.
    pub(crate) fn filesystem_to_export(&self, full: &str) -> Result<()> {
        self.filesystem_to_mount(full)
    }

    /// Adds the exported filesystems of the configuration, when the server starts.
    pub(crate) fn keep_filesystem_exports(self: &Rc<Self>) {
        let config = self.config();
        for full in config.exported_filesystems() {
            self.keep_filesystem_export(full, ExportState::Opening);
        }
    }

    fn keep_filesystem_export(self: &Rc<Self>, full: &str, state: ExportState) {
        let wake = Rc::new(Notify::new());
        let entry = FilesystemExport {
            state,
            wake: wake.clone(),
            supervisor: io::spawn(supervise(self.clone(), full.to_owned(), wake)),
        };
        let mut state = self.state.borrow_mut();
        state.filesystems.exports.insert(full.to_owned(), entry);
    }

    /// Wakes the supervisors of a pool's exported filesystems, after the pool was opened, well or not.
    pub(in crate::pools) fn wake_filesystem_exports(&self, pool: &str) {
        for (full, entry) in &self.state.borrow().filesystems.exports {
            if split_volume(full).is_some_and(|(p, _)| p == pool) {
                entry.wake.notify();
            }
        }
    }

    /// Wakes the supervisor of an exported filesystem. Returns whether there is one.
    pub(super) fn wake_filesystem_export(&self, full: &str) -> bool {
        let state = self.state.borrow();
        let entry = state.filesystems.exports.get(full);
        entry.is_some_and(|entry| {
            entry.wake.notify();
            true
        })
    }

    /// Publishes a filesystem that the stored configuration or its property exports now. `user` is its use, if it is open. The caller has the turn
    /// for changes.
    pub(crate) async fn publish_filesystem(
        self: &Rc<Self>,
        full: &str,
        user: Option<FilesystemUser>,
    ) {
        let state = match user {
            Some(user) => self.publish_open(full, user).await,
            None => ExportState::Held,
        };
        self.keep_filesystem_export(full, state);
    }

    async fn publish_open(&self, full: &str, user: FilesystemUser) -> ExportState {
        let files: Arc<dyn FileBackend> = Arc::new(user.files());
        let published: Vec<_> = {
            let state = self.state.borrow();
            let exports = self.protocols.filesystem_exports();
            exports
                .map(|e| e.publish(&state.file, full, files.clone()))
                .collect()
        };
        let mut is_accepted = true;
        for published in published {
            is_accepted &= published.await;
        }
        match is_accepted {
            true => ExportState::Online { _user: user },
            false => ExportState::Held,
        }
    }

    /// Begins to use a filesystem that is to be exported. Errors: those of [`Server::use_filesystem`].
    pub(crate) async fn use_to_export(&self, full: &str) -> Result<FilesystemUser> {
        self.use_filesystem_to_export(full).await
    }

    /// Ends the exports of a filesystem, and its use by them.
    pub(crate) fn withdraw_filesystem(&self, full: &str) {
        for exports in self.protocols.filesystem_exports() {
            exports.withdraw(full);
        }
        let entry = self.state.borrow_mut().filesystems.exports.remove(full);
        drop(entry);
    }

    /// Ends all exports of filesystems when the server ends, after the connections.
    pub(crate) fn end_filesystem_exports(&self) {
        let all: Vec<String> = {
            let state = self.state.borrow();
            state.filesystems.exports.keys().cloned().collect()
        };
        for full in all {
            self.withdraw_filesystem(&full);
        }
    }

    /// One attempt of a supervisor. Returns whether the export is published.
    async fn tend_filesystem_export(&self, full: &str) -> bool {
        let Ok(_turn) = self.turn().await else {
            return false;
        };
        {
            let state = self.state.borrow();
            match state
                .filesystems
                .exports
                .get(full)
                .map(|entry| &entry.state)
            {
                Some(ExportState::Online { .. }) => return true,
                Some(ExportState::Opening | ExportState::Held) => {}
                None => return false,
            }
            let pool = split_volume(full).and_then(|(pool, _)| state.pools.get(pool));
            if matches!(pool.map(|p| &p.state), Some(PoolState::Opening)) {
                return false;
            }
        }
        let new = match self.use_to_export(full).await {
            Ok(user) => self.publish_open(full, user).await,
            Err(e) => {
                self.hold_export_back(full, &e);
                ExportState::Held
            }
        };
        let is_online = matches!(new, ExportState::Online { .. });
        let mut state = self.state.borrow_mut();
        if let Some(entry) = state.filesystems.exports.get_mut(full) {
            let old = std::mem::replace(&mut entry.state, new);
            drop(state);
            drop(old);
        }
        is_online
    }

    pub(super) fn hold_export_back(&self, full: &str, reason: &Error) {
        let state = self.state.borrow();
        for exports in self.protocols.filesystem_exports() {
            exports.hold_back(state.file.config(), full, &reason.to_string());
        }
    }
}

async fn supervise(server: Rc<Server>, full: String, wake: Rc<Notify>) {
    loop {
        if server.tend_filesystem_export(&full).await {
            wake.notified().await;
        } else {
            let _woken = io::timeout(EXPORT_RETRY, wake.notified()).await;
        }
    }
}
