//! What happens to the state of clients when an export ends, comes back, or is denied to a host.
//!
//! **Owns** no data. **Called by** the control calls of the service. **Invariants**: no state ends without a word: it goes on, or its stateid tells
//! that it was revoked and SEQUENCE shows the flag (§8.5, §18.46.3).

use super::{RECALL_PAUSE, Shared};
use backend::file::{Access, Caller, FileBackend, Handle};
use std::sync::Arc;

impl Shared {
    /// A file system is not exported any more. Its states wait for a lease to be exported again.
    pub(crate) fn withdraw_files(&self, filesystem: u64) {
        let holds = self.states.withdraw(filesystem, io::time::now());
        drop(holds);
    }

    /// A file system is exported again: the states that clients had there go on, if their files exist.
    pub(crate) fn restore_files(self: &Arc<Self>, files: &Arc<dyn FileBackend>) {
        let lacking = self.states.restore(files.root().filesystem);
        if lacking.is_empty() {
            return;
        }
        let (shared, files) = (self.clone(), files.clone());
        drop(io::spawn(async move {
            for (id, file) in lacking {
                match files.open(&Caller::root(), file, Access::NONE).await {
                    Ok(hold) => drop(shared.states.of_state(id).give_hold(id, hold)),
                    Err(_) => shared.revoke_states(|state, _, _| state == id),
                }
            }
        }));
    }

    /// Revokes the states of file systems that were not exported again in time.
    pub(crate) fn revoke_withdrawn(self: &Arc<Self>) {
        let now = io::time::now();
        let since_start = now.since(self.started.0);
        if since_start < self.config.lease {
            return;
        }
        let at = self.started.0 + (since_start - self.config.lease);
        let overdue = self.states.take_overdue(at);
        if !overdue.is_empty() {
            self.revoke_states(|_, _, file| overdue.contains(&file.filesystem));
        }
    }

    /// Revokes states, given their number, client and file.
    pub(crate) fn revoke_states(self: &Arc<Self>, is_theirs: impl Fn(u64, u64, Handle) -> bool) {
        let (holds, clients) = self.states.revoke_all(is_theirs);
        drop(holds);
        for client in clients {
            tracing::warn!(
                client,
                "state of an NFS client was revoked: its export is gone or denied"
            );
            self.show_revoked(client);
        }
        self.wake_lockers();
    }

    /// Recalls all delegations of a file system and waits until they are returned or revoked. None is granted until the file system
    /// is exported again.
    pub(crate) async fn recall_files(self: &Arc<Self>, filesystem: u64) {
        let files = self.states.freeze(filesystem);
        for file in &files {
            self.recall(*file, None, true);
        }
        for file in files {
            while self.states.of_file(file).is_delegated(file, None, true) {
                io::time::sleep(RECALL_PAUSE).await;
            }
        }
    }

    /// The rules of an export changed: hosts that no rule admits any more lose their state there.
    pub(crate) fn end_denied(self: &Arc<Self>, path: &str) {
        let tree = self.tree();
        let export = tree.exports().find(|export| export.config.path == path);
        let Some(export) = export else { return };
        let clients = self.clients().clients_at(|address| export.denies(address));
        if clients.is_empty() {
            return;
        }
        let filesystem = export.files().root().filesystem;
        self.revoke_states(|_, client, file| {
            file.filesystem == filesystem && clients.contains(&client)
        });
    }
}
