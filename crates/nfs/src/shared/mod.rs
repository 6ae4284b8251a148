//! State that all connections share: exports, clients, opens and locks.
//!
//! **Owns** [`Shared`]. **Called by** operations on any shard, and by the control calls of [`crate::service::Service`]. **Invariants**:
//! states may be locked while clients are, never the other way round; the data path (SEQUENCE, READ, WRITE and others with a stateid) locks a
//! part of the sessions and the shard of its file, and nothing that all clients share, but for reading the exports; locks are held for moments only, never across an await; files of removed
//! states are closed after the lock was released.

pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod peers;
pub(crate) mod records;
mod withdrawal;

use crate::callback;
use crate::client::{ClientInfo, Clients, Grace, Session, Sessions};
use crate::export::{ExportConfig, ExportError, Standing, Tree};
use crate::handle::HandleKey;
use crate::identity::Identity;
use crate::rpcbind::Registry;
use crate::v3::{Duplicates, Hosts, Mounts};
use crate::wire::{Stateid, Status};
use backend::file::{Caller, FileBackend, Handle, Name, RenameMode, Timestamp};
use config::ServiceConfig;
use counters::{CloseReason, ConnectionState, CounterSet};
use filestate::{Refused, States};
use io::sync::lock;
use io::time::Instant;
use peers::Peers;
use records::{RecordChange, Records};
use session::connections::Connections;
use session::refused::{RefusalReason, RefusedHost};
use session::stages::StageCounters;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;
use tls::Acceptor;

/// A change of a file, of any version or by a user that is no client: no delegation of the file is granted while it lasts.
pub(crate) struct Changing {
    shared: Arc<Shared>,
    file: Handle,
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.shared
            .states
            .of_file(self.file)
            .changed_file(self.file);
    }
}

/// The begin of a change of the object of a name.
pub(crate) enum NameChange {
    Begun(#[expect(dead_code, reason = "it lasts as long as this value")] Changing),
    /// The name has no object, or none that the caller can look up: the operation itself finds the error.
    NoObject,
    /// Delegations of other clients exclude it and are being recalled, or other operations change the name.
    Excluded,
}

impl NameChange {
    /// How a rename to this name treats an object there: one that was not announced must stay.
    pub(crate) fn rename_mode(&self) -> RenameMode {
        match self {
            NameChange::Begun(_) => RenameMode::Replace,
            NameChange::NoObject | NameChange::Excluded => RenameMode::NoReplace,
        }
    }
}

/// Time between two looks for the return of a delegation.
pub(crate) const RECALL_PAUSE: Duration = Duration::from_millis(20);
/// The present, as the times of files count it.
pub(crate) fn wall_clock() -> Timestamp {
    let nanoseconds = io::time::wall_clock_ms().saturating_mul(1_000_000);
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// How often a name is looked up whose object changes meanwhile.
const NAME_LOOKS_MAX: usize = 4;

/// The state of a service.
pub(crate) struct Shared {
    pub(crate) config: ServiceConfig,
    pub(crate) handles: HandleKey,
    pub(crate) identity: Identity,
    pub(crate) connections: Connections<ConnectionState, CloseReason>,
    pub(crate) counters: CounterSet,
    pub(crate) peers: Peers,
    /// Time of requests by stage, of all exports together.
    pub(crate) stages: Arc<StageCounters>,
    records: Arc<Records>,
    /// The start, and the same point in time in milliseconds since 1970.
    started: (Instant, u64),
    clients: Mutex<Clients>,
    grace: Mutex<Grace>,
    /// All sessions, which [`Clients`] adds and removes.
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) states: States,
    /// Whether locks were freed that clients wait for.
    locks_freed: Arc<AtomicBool>,
    duplicates: Mutex<Duplicates>,
    mounts: Mutex<Mounts>,
    hosts: Mutex<Hosts>,
    registry: Mutex<Registry>,
    tree: RwLock<Arc<Tree>>,
    tls: Mutex<Option<Acceptor>>,
}

impl Shared {
    pub(crate) fn new(config: ServiceConfig) -> Self {
        let instance = io::rng::u64() as u32;
        let grace = Grace::new(config.reclaimers.clone(), io::time::now() + config.grace);
        let tree = Tree::new(Vec::new(), 1).expect("no exports conflict");
        let mut key = [0; 16];
        io::rng::fill(&mut key);
        let states = States::new(instance, key);
        let clients = Clients::new(config.bounds());
        states.limit_delegations(config.delegations_max);
        states.limit_states(config.states_max);
        Self {
            handles: HandleKey::new(config.handle_key),
            identity: Identity::new(config.identity.clone()),
            connections: Connections::new(config.admission()),
            counters: CounterSet::default(),
            peers: Peers::default(),
            stages: Arc::default(),
            started: (io::time::now(), io::time::wall_clock_ms()),
            records: Arc::new(Records::new(config.records.clone())),
            sessions: clients.sessions(),
            clients: Mutex::new(clients),
            grace: Mutex::new(grace),
            locks_freed: states.freed(),
            states,
            duplicates: Mutex::default(),
            mounts: Mutex::default(),
            hosts: Mutex::default(),
            registry: Mutex::default(),
            tree: RwLock::new(Arc::new(tree)),
            tls: Mutex::default(),
            config,
        }
    }

    pub(crate) fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.clients)
    }

    pub(crate) fn grace(&self) -> MutexGuard<'_, Grace> {
        lock(&self.grace)
    }

    /// Requests of version 3 that may be repeated.
    pub(crate) fn duplicates(&self) -> MutexGuard<'_, Duplicates> {
        lock(&self.duplicates)
    }

    /// The list of mounts of version 3.
    pub(crate) fn mounts(&self) -> MutexGuard<'_, Mounts> {
        lock(&self.mounts)
    }

    /// Hosts that use version 3.
    pub(crate) fn hosts(&self) -> MutexGuard<'_, Hosts> {
        lock(&self.hosts)
    }

    /// The entries in rpcbind.
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// What TLS handshakes need; `None` if there is no TLS.
    pub(crate) fn tls(&self) -> Option<Acceptor> {
        lock(&self.tls).clone()
    }

    /// Replaces what later TLS handshakes need.
    pub(crate) fn set_tls(&self, tls: Option<Acceptor>) {
        *lock(&self.tls) = tls;
    }

    /// The exports now.
    pub(crate) fn tree(&self) -> Arc<Tree> {
        io::sync::read(&self.tree).clone()
    }

    /// Replaces the exports.
    pub(crate) fn change_exports(
        &self,
        change: impl FnOnce(&mut Vec<(ExportConfig, [u8; 8])>) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut tree = io::sync::write(&self.tree);
        let mut configs = tree.configs();
        change(&mut configs)?;
        let now = io::time::wall_clock_ms().saturating_mul(1_000_000);
        let next = Tree::new(configs, now.max(tree.change + 1))?;
        let has_lists = next.lists_hosts();
        self.connections.admission.set_reserving(has_lists);
        let next = Arc::new(next);
        *tree = next.clone();
        drop(tree);
        let is_admitted = |peer| next.standing(peer) > Standing::Stranger;
        let admitted = self.clients().forget_strangers(&is_admitted);
        self.forget(&admitted);
        Ok(())
    }

    /// An operation granted state to the client of this session. Returns when its record is on stable storage. Errors:
    /// `Delay` if that fails, `Badsession`.
    pub(crate) async fn granted(&self, session: &Session) -> Result<(), Status> {
        if !session.is_recorded() {
            let mut clients = self.clients();
            if let Some(owner) = clients.record(session.client()).ok_or(Status::Badsession)? {
                self.records.push(RecordChange::Keep(owner));
            }
        }
        self.store_records().await
    }

    /// Returns when the records of all clients that lost their state are gone from stable storage. Errors: `Delay` if that fails.
    pub(crate) async fn store_records(&self) -> Result<(), Status> {
        let late = self.grace().take_late(io::time::now());
        if !late.is_empty() {
            let clients = self.clients();
            let lost = late.into_iter().filter(|owner| !clients.is_recorded(owner));
            lost.for_each(|owner| self.records.push(RecordChange::Forget(owner)));
        }
        self.records.store().await
    }

    /// A client has reclaimed everything (§18.51).
    pub(crate) fn reclaimed(&self, owner: &[u8]) {
        let was_waiting = self.grace().completed(owner);
        if was_waiting && !self.clients().is_recorded(owner) {
            self.records.push(RecordChange::Forget(owner.to_vec()));
        }
    }

    /// A host that no export admits asked for this path, or for a client ID without one: it is logged and remembered.
    pub(crate) fn note_refused(&self, address: IpAddr, path: String) {
        if self.connections.counters.log.may_log(io::time::now()) {
            tracing::warn!(%address, path, "an NFS client is in no rule of an export");
        }
        let host = RefusedHost {
            name: String::new(),
            address,
            export: path,
        };
        let refused = &self.connections.refused;
        refused.note(host, RefusalReason::NotListed);
    }

    /// A host asked for this export from a port that is not privileged, against its rule: it is logged and remembered.
    pub(crate) fn note_unprivileged(&self, address: IpAddr, path: String, is_read_only: bool) {
        if self.connections.counters.log.may_log(io::time::now()) {
            let rights = if is_read_only { "ro" } else { "rw" };
            tracing::warn!(
                %address,
                path,
                "an NFS client uses a port above 1023, which every user of its machine may do; mount without noresvport, or let it in: \
                 `wirepool host allow {path} {address}:{rights},insecure`"
            );
        }
        let host = RefusedHost {
            name: String::new(),
            address,
            export: path,
        };
        let refused = &self.connections.refused;
        refused.note(host, RefusalReason::UnprivilegedPort);
    }

    /// Closes everything of clients that were removed.
    pub(crate) fn forget(&self, clients: &[u64]) {
        {
            let mut all = self.clients();
            for owner in all.take_forgotten() {
                self.records.push(RecordChange::Forget(owner));
            }
        }
        for client in clients {
            let holds = self.states.forget(*client);
            drop(holds);
        }
    }

    /// Removes a client with its state and closes its connections. Returns whether there was one.
    pub(crate) fn end(&self, client: u64) -> bool {
        let is_ended = self.clients().end(client);
        if is_ended {
            self.forget(&[client]);
            self.peers.close(client);
        }
        is_ended
    }

    /// All clients with a confirmed record.
    pub(crate) fn client_infos(&self) -> Vec<ClientInfo> {
        let mut infos = self.clients().infos(io::time::now(), self.started);
        for info in &mut infos {
            (info.opens, info.locks, info.delegations) = self.states.count_of(info.id);
            (info.connections, info.latency, info.minor) = self.peers.infos(info.id);
        }
        infos
    }

    /// Delegations exclude a use of a file: recalls them. `client` uses it, or a user that is no client.
    pub(crate) fn recall(self: &Arc<Self>, file: Handle, client: Option<u64>, is_change: bool) {
        let now = io::time::now();
        let begun = self
            .states
            .of_file(file)
            .recall(file, client, is_change, now);
        for recall in begun {
            self.counters.recalls.fetch_add(1, Ordering::Relaxed);
            let shared = self.clone();
            drop(io::spawn(async move {
                callback::recall(&shared, recall).await;
            }));
        }
    }

    /// Tells lock owners that wait that their locks are free, if locks were freed.
    pub(crate) fn wake_lockers(self: &Arc<Self>) {
        if !self.locks_freed.load(Ordering::Acquire) {
            return;
        }
        let due = self.states.due_waiters(io::time::now());
        for waiter in due {
            let shared = self.clone();
            drop(io::spawn(async move {
                callback::notify_lock(&shared, waiter).await;
            }));
        }
    }

    /// A change of a file begins, by a client or by a user that is none. `None` while delegations exclude it: they are recalled.
    pub(crate) fn change(self: &Arc<Self>, file: Handle, client: Option<u64>) -> Option<Changing> {
        if self.states.of_file(file).change_file(file, client) {
            let shared = self.clone();
            return Some(Changing { shared, file });
        }
        self.recall(file, client, true);
        None
    }

    /// As [`Shared::change`], for a part of an operation that began already: waits until the delegations are returned or revoked.
    pub(crate) async fn change_soon(
        self: &Arc<Self>,
        file: Handle,
        client: Option<u64>,
    ) -> Changing {
        loop {
            if let Some(changing) = self.change(file, client) {
                return changing;
            }
            io::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// A change of the object of a name begins. The object still has the name when its change has begun. `NoObject` if there is no
    /// object of this name, so that the operation must not replace one that appears meanwhile.
    pub(crate) async fn change_name(
        self: &Arc<Self>,
        files: &dyn FileBackend,
        (caller, directory, name): (&Caller, Handle, &Name),
        client: Option<u64>,
    ) -> NameChange {
        for _ in 0..NAME_LOOKS_MAX {
            let Ok(found) = files.lookup(caller, directory, name).await else {
                return NameChange::NoObject;
            };
            let Some(changing) = self.change(found.handle, client) else {
                return NameChange::Excluded;
            };
            let again = files.lookup(caller, directory, name).await;
            if again.is_ok_and(|again| again.handle == found.handle) {
                return NameChange::Begun(changing);
            }
        }
        NameChange::Excluded
    }

    /// Revokes a delegation whose client did not return it in time.
    pub(crate) fn revoke(&self, id: u64, client: u64) {
        let hold = self.states.of_state(id).revoke(id);
        if hold.is_some() {
            tracing::warn!(
                client,
                "an NFS client did not return a delegation in time: it was revoked"
            );
            self.counters.revocations.fetch_add(1, Ordering::Relaxed);
            self.show_revoked(client);
        }
        drop(hold);
    }

    /// Makes SEQUENCE show whether a client has revoked stateids.
    pub(crate) fn show_revoked(&self, client: u64) {
        let clients = self.clients();
        let revoked = self.states.has_revoked(client);
        clients.set_revoked(client, revoked);
    }

    /// State of this client is in the way: removes the client if its lease has expired. Returns whether it was removed.
    pub(crate) fn expire(&self, client: u64, now: Instant) -> bool {
        let is_expired = self.clients().expire(client, now);
        if is_expired {
            tracing::info!(client, "an NFS client whose lease expired lost its state");
            self.forget(&[client]);
        }
        is_expired
    }

    /// A limit of states is reached, of the locks of a file or of all: ends the expired client that was silent for longest. Returns
    /// whether there was one.
    pub(crate) fn make_state_room(&self, file: Option<Handle>) -> bool {
        let lockers = file.map(|file| self.states.of_file(file).lockers_of(file));
        let gone = {
            let may_go = |id: u64| match &lockers {
                Some(lockers) => lockers.contains(&id),
                None => self.states.has_state(id),
            };
            self.clients().evict_expired(io::time::now(), may_go)
        };
        if let Some(client) = gone {
            tracing::info!(
                client,
                "an NFS client whose lease expired lost its state to others"
            );
            self.forget(&[client]);
        }
        gone.is_some()
    }

    /// Whether data of a file may be read or written with this stateid of a client; clients without state (NFS 3) use
    /// [`Stateid::ANONYMOUS`] of no client. An expired client whose share reservation is in the way loses its state. Errors:
    /// [`filestate::Table::check_io`].
    pub(crate) fn check_io(
        self: &Arc<Self>,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        is_write: bool,
    ) -> Result<(), Refused> {
        loop {
            let checked = self
                .states
                .of_file(file)
                .check_io(client, stateid, file, is_write);
            match checked {
                Err(Refused::Share(other)) if self.expire(other, io::time::now()) => {}
                Err(Refused::Delegation) => {
                    self.recall(file, Some(client), is_write);
                    return Err(Refused::Delegation);
                }
                checked => return checked,
            }
        }
    }
}
