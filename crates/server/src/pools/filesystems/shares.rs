//! Exports by properties: filesystems follow `sharenfs` as it is set, inherited and renamed.
//!
//! **Owns** the task that follows changes. **Called by** the start of the server, and by changes of filesystems, pools, exports and
//! properties. **Invariants**: exports are compared with the properties in a turn of their own, so after each change; an
//! export by property ends before its filesystem is destroyed, renamed or rolled back, or its pool closed.

use crate::pools::entry::{filesystems_of, full_name};
use crate::protocols::protocol::{ShareChange, SharedFilesystem};
use crate::server::Server;
use pool::Source;
use pool::format::TextProperty;
use std::collections::BTreeSet;
use std::rc::Rc;

impl Server {
    /// Starts the task that follows changes.
    pub(crate) fn keep_shares(self: &Rc<Self>) {
        let server = self.clone();
        drop(io::spawn(async move {
            loop {
                server.shares.notified().await;
                let Ok(_turn) = server.turn().await else {
                    return;
                };
                server.follow_shares().await;
            }
        }));
    }

    /// Filesystems or their properties may have changed: exports follow after the present turn.
    pub(in crate::pools) fn shares_changed(&self) {
        self.shares.notify();
    }

    /// Makes the exports follow the properties of all open filesystems. The caller has the turn for changes.
    pub(crate) async fn follow_shares(self: &Rc<Self>) {
        let changes: Vec<_> = {
            let (shared, closed) = self.shared();
            let state = self.state.borrow();
            let config = state.file.config();
            let is_open = |full: &str| {
                let pool = full.split_once('/').map(|(pool, _)| pool);
                pool.is_some_and(|pool| !closed.contains(pool))
            };
            let exports = self.protocols.filesystem_exports();
            exports
                .map(|e| e.follow(config, shared.clone(), &is_open))
                .collect()
        };
        for changes in changes {
            for change in changes.await {
                match change {
                    ShareChange::End(full) => self.withdraw_filesystem(&full),
                    ShareChange::Begin(full) => self.share(&full).await,
                }
            }
        }
    }

    /// Publishes an export that a property asks for.
    async fn share(self: &Rc<Self>, full: &str) {
        if self.wake_filesystem_export(full) {
            return;
        }
        let user = self.use_to_export(full).await;
        if let Err(e) = &user {
            self.hold_export_back(full, e);
        }
        self.publish_filesystem(full, user.ok()).await;
    }

    /// The property of each open filesystem, and the pools of the configuration that are not open.
    fn shared(&self) -> (Vec<SharedFilesystem>, BTreeSet<String>) {
        let state = self.state.borrow();
        let (mut shared, mut closed) = (Vec::new(), BTreeSet::new());
        for pool_name in state.pools.names() {
            let Some(pool) = state.pools.open(&pool_name) else {
                closed.insert(pool_name);
                continue;
            };
            for filesystem in filesystems_of(pool) {
                let name = filesystem.dataset().name;
                let full = full_name(&pool_name, &name);
                let found = pool.text(Some(&name), TextProperty::Sharenfs);
                let Some((text, source)) = found else {
                    continue;
                };
                let source = match source {
                    Source::Local | Source::Received | Source::Default => full.clone(),
                    Source::Inherited(above) => full_name(&pool_name, &above),
                    Source::FromPool => pool_name.clone(),
                };
                shared.push(SharedFilesystem {
                    filesystem: full,
                    text,
                    source,
                });
            }
        }
        (shared, closed)
    }

    /// Has clients return what they hold exclusively of a filesystem that is about to be rolled back, and waits for it.
    pub(in crate::pools) async fn recall_shares(&self, full: &str) {
        let exports = self.protocols.filesystem_exports();
        let recalls: Vec<_> = exports.map(|e| e.recall(full)).collect();
        for recall in recalls {
            recall.await;
        }
    }

    /// Ends the exports by property of filesystems that are about to be destroyed, renamed, rolled back or closed.
    pub(in crate::pools) fn withdraw_shares(&self, is_theirs: impl Fn(&str) -> bool) {
        let all: Vec<String> = {
            let state = self.state.borrow();
            let all = state.filesystems.exports.keys();
            all.filter(|full| is_theirs(full)).cloned().collect()
        };
        for full in all {
            let mut exports = self.protocols.filesystem_exports();
            if exports.any(|e| e.is_shared(&full)) {
                self.withdraw_filesystem(&full);
            }
        }
    }
}
