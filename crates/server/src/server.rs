//! The server: open disks, published namespaces, listeners, drain.
//!
//! **Owns** the configuration, the state of every disk and of every export; it lives on the first shard. **Called
//! by** [`crate::process`], by simulations, and through [`Handle`] by the control API. **Invariants**: a namespace is
//! published if and only if its disk is online and the target accepted it; a disk that cannot be opened holds back
//! only its own namespace; changes are carried out one at a time (see [`crate::change`]).

use crate::api::Listen;
use crate::config::{Config, ConfigFile};
use crate::disks::{self, DiskState, OnlineDisk};
use crate::limits::{
    CALL_WAIT_MAX, CALLS_MAX, DISK_REFRESH, DISK_RETRY, DISK_WAIT_MAX, FLUSH_MAX, START_WAIT_MAX,
};
use crate::listen::{self, AcceptCounters};
use crate::pools::{self, PoolEntry};
use crate::protocols::{self, Address, Protocols};
use crate::reservations::ReservationFile;
use crate::shards::Shards;
use crate::{Error, Result};
use backend::BlockBackend;
use io::JoinHandle;
use io::net::TcpListener;
use io::sync::{Notify, Semaphore, mailbox, oneshot};
use nvmf::controller::{NamespaceConfig, NoReservationStore, ReservationStore};
use nvmf::wire::nqn::Nqn;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A running server.
pub struct Server {
    pub(crate) protocols: Arc<Protocols>,
    pub(crate) shards: Shards,
    accepts: Arc<AcceptCounters>,
    pub(crate) started: io::time::Instant,
    /// Permit for one change at a time.
    pub(crate) changing: Semaphore,
    pub(crate) state: RefCell<State>,
    calls: mailbox::Sender<Call>,
    /// Identity of this host in labels.
    pub(crate) host: pool::format::Host,
}

/// State that changes while the server runs.
pub(crate) struct State {
    pub(crate) file: ConfigFile,
    /// Disks and volumes by name; those of volumes have a slash.
    pub(crate) disks: BTreeMap<String, DiskEntry>,
    pub(crate) pools: BTreeMap<String, PoolEntry>,
    pub(crate) events: pools::Events,
    /// Result of publishing each namespace: accepted, or refused with this reason.
    pub(crate) published: BTreeMap<(Nqn, u32), std::result::Result<(), String>>,
    pub(crate) targets: protocols::iscsi::Published,
    pub(crate) listen: Vec<Listen>,
    pub(crate) draining: bool,
    listeners: Vec<JoinHandle<()>>,
}

/// A disk and its supervisor task.
pub(crate) struct DiskEntry {
    pub(crate) state: DiskState,
    /// None for a volume that is held back: its pool has one.
    pub(crate) keeper: Option<JoinHandle<()>>,
}

impl Drop for DiskEntry {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

type Call = Box<dyn FnOnce(Rc<Server>) + Send>;

/// Access to a server from other threads.
#[derive(Clone)]
pub struct Handle {
    calls: mailbox::Sender<Call>,
    protocols: Arc<Protocols>,
    accepts: Arc<AcceptCounters>,
}

impl Handle {
    /// Runs `work` on the server's shard and waits for its value. Errors: `Unavailable` when the server has ended
    /// or too many calls wait.
    pub async fn call<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> Result<T> {
        let (tx, rx) = oneshot::channel();
        let call = move |server: Rc<Server>| {
            drop(io::spawn(async move {
                match io::timeout(CALL_WAIT_MAX, work(server)).await {
                    Ok(value) => tx.send(value),
                    Err(_) => tracing::error!("a control request timed out"),
                }
            }));
        };
        self.calls.send(Box::new(call)).map_err(|e| match e {
            io::Error::Exhausted(_) => Error::Unavailable("too busy: try again"),
            _ => Error::Unavailable("ending"),
        })?;
        rx.await.ok_or(Error::Unavailable(
            "shutting down, or did not answer in time",
        ))
    }

    /// The protocols, for requests that need no shard.
    pub(crate) fn protocols(&self) -> &Arc<Protocols> {
        &self.protocols
    }

    pub(crate) fn accepts(&self) -> &AcceptCounters {
        &self.accepts
    }
}

impl Server {
    /// Starts to serve what the configuration says, on these shards. Called on the first of them. Disks are opened
    /// in their order; one that is missing or slow is held back and the others go on. Errors: `Listen`,
    /// `AddressTaken`.
    pub async fn start(
        file: ConfigFile,
        shards: Shards,
        connections_max: usize,
    ) -> Result<Rc<Server>> {
        let config = file.config().clone();
        let protocols = Protocols::new(&config, connections_max);
        let all = protocols.all().into_iter();
        let addresses = all.flat_map(|p| p.addresses(&config)).collect();
        let listeners = listen::bind(addresses).await?;

        let host = pools::host(file.is_stored()).await;
        let (calls, mailbox) = mailbox::channel(CALLS_MAX);
        let server = Rc::new(Server {
            protocols: Arc::new(protocols),
            shards,
            accepts: Arc::default(),
            started: io::time::now(),
            changing: Semaphore::new(1),
            state: RefCell::new(State {
                file,
                disks: BTreeMap::new(),
                pools: BTreeMap::new(),
                events: pools::Events::default(),
                published: BTreeMap::new(),
                targets: protocols::iscsi::Published::default(),
                listen: listeners.iter().map(|(_, a)| a.listen.clone()).collect(),
                draining: false,
                listeners: Vec::new(),
            }),
            calls,
            host,
        });
        let listening = server.listening();
        for protocol in server.protocols.all() {
            protocol.advertise(&config, &listening);
        }
        for s in &config.subsystems {
            server.add_subsystem(s);
        }
        server.apply_discovery();
        for t in &config.targets {
            server.add_target(t);
        }
        for d in &config.disks {
            let opened = server.keep(&d.name, None);
            // It continues in the background, and the next one is opened.
            let _ = io::timeout(START_WAIT_MAX, opened.notified()).await;
        }
        for p in &config.pools {
            let opened = server.keep_pool(&p.name);
            let _ = io::timeout(START_WAIT_MAX, opened.notified()).await;
        }
        server.update_holds();
        server.accept(listeners, config.server.congestion.as_deref());
        drop(io::spawn(answer(server.clone(), mailbox)));
        Ok(server)
    }

    /// Access to the server from other threads.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            calls: self.calls.clone(),
            protocols: self.protocols.clone(),
            accepts: self.accepts.clone(),
        }
    }

    /// Listening addresses, with the real ports.
    #[must_use]
    pub fn listening(&self) -> Vec<Listen> {
        self.state.borrow().listen.clone()
    }

    /// The configuration as it is now.
    #[must_use]
    pub fn config(&self) -> Config {
        self.state.borrow().file.config().clone()
    }

    fn accept(&self, listeners: Vec<(TcpListener, Address)>, congestion: Option<&str>) {
        let tasks = listeners.into_iter().map(|(listener, address)| {
            let (shards, accepts) = (self.shards.clone(), self.accepts.clone());
            let congestion = congestion.map(str::to_owned);
            io::spawn(listen::accept(
                listener,
                address.service,
                shards,
                accepts,
                congestion,
            ))
        });
        self.state.borrow_mut().listeners.extend(tasks);
    }

    pub(crate) fn add_subsystem(&self, s: &crate::config::SubsystemConfig) {
        if let Err(e) = self
            .protocols
            .nvmf
            .target
            .add_subsystem(protocols::nvmf::subsystem(s))
        {
            // The configuration has each name once, so this is not the client's fault.
            tracing::error!(nqn = %s.nqn, error = %e, "the target refused a subsystem");
        }
    }

    /// Starts the supervisor of a disk, which opens it, repeatedly if necessary, and watches its size. The answer is
    /// notified after the first opening. `backend` is the disk if it is open already.
    pub(crate) fn keep(
        self: &Rc<Self>,
        name: &str,
        backend: Option<Arc<dyn BlockBackend>>,
    ) -> Rc<Notify> {
        let opened = Rc::new(Notify::new());
        let state = match &backend {
            Some(b) => DiskState::Online(OnlineDisk::new(b.clone())),
            None => DiskState::Opening,
        };
        let keeper = Some(io::spawn(keep_disk(
            self.clone(),
            name.to_owned(),
            opened.clone(),
        )));
        self.state
            .borrow_mut()
            .disks
            .insert(name.to_owned(), DiskEntry { state, keeper });
        if backend.is_some() {
            self.publish(name);
        }
        opened
    }

    fn disk_opened(&self, name: &str, result: std::result::Result<Arc<dyn BlockBackend>, String>) {
        {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.disks.get_mut(name) else {
                return;
            };
            match result {
                Ok(backend) => {
                    tracing::info!(disk = name, "open");
                    entry.state = DiskState::Online(OnlineDisk::new(backend));
                }
                Err(reason) => {
                    let news = !matches!(&entry.state, DiskState::Held(old) if *old == reason);
                    if news {
                        tracing::warn!(
                            disk = name,
                            reason,
                            "held back, with its export; will be retried"
                        );
                    }
                    entry.state = DiskState::Held(reason);
                    return;
                }
            }
        }
        self.publish(name);
    }

    /// Publishes the export of a disk, if it has one and is online.
    pub(crate) fn publish(&self, disk: &str) {
        self.publish_namespace(disk);
        self.publish_lun(disk);
    }

    fn publish_namespace(&self, disk: &str) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some((s, n)) = state.file.config().export_of(disk) else {
            return;
        };
        let Some(DiskEntry {
            state: DiskState::Online(online),
            ..
        }) = state.disks.get(disk)
        else {
            return;
        };
        let namespace = NamespaceConfig {
            nsid: n.nsid,
            uuid: n.uuid,
            backend: online.backend.clone(),
            reservations: reservation_store(&state.file, &s.nqn, n),
        };
        let taken = self
            .protocols
            .nvmf
            .target
            .add_namespace(&s.nqn, namespace)
            .map_err(|e| e.to_string());
        match &taken {
            Ok(()) => tracing::info!(nqn = %s.nqn, nsid = n.nsid, disk, "exported"),
            Err(reason) => {
                tracing::error!(nqn = %s.nqn, nsid = n.nsid, disk, reason, "not exported")
            }
        }
        state.published.insert((s.nqn.clone(), n.nsid), taken);
    }

    /// Notifies clients if the size of a disk has changed.
    pub(crate) fn announce(&self, disk: &str) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(DiskEntry {
            state: DiskState::Online(online),
            ..
        }) = state.disks.get_mut(disk)
        else {
            return;
        };
        let generation = online.backend.generation();
        if std::mem::replace(&mut online.generation, generation) == generation {
            return;
        }
        tracing::info!(disk, size = online.size(), "has a new size");
        if let Some((s, n)) = state.file.config().export_of(disk) {
            let _ = self.protocols.nvmf.target.namespace_changed(&s.nqn, n.nsid);
        }
        state.announce_lun(disk);
    }

    async fn refresh(&self, name: &str) {
        let backend = match self.state.borrow().disks.get(name) {
            Some(DiskEntry {
                state: DiskState::Online(online),
                ..
            }) => online.backend.clone(),
            _ => return,
        };
        let looked = io::timeout(DISK_WAIT_MAX, async {
            backend.refresh().await?;
            backend.usage().await
        })
        .await;
        let result = match looked {
            Ok(Ok(usage)) => Ok(usage),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        };
        if let Some(DiskEntry {
            state: DiskState::Online(online),
            ..
        }) = self.state.borrow_mut().disks.get_mut(name)
        {
            match result {
                Ok(usage) => {
                    online.usage = Some(usage);
                    online.trouble = None;
                }
                Err(reason) => {
                    if online.trouble.as_ref() != Some(&reason) {
                        tracing::warn!(disk = name, reason, "in trouble");
                    }
                    online.trouble = Some(reason);
                }
            }
        }
        self.announce(name);
        self.check_threshold(name).await;
    }

    /// Shuts down: accepts no new connections, finishes commands in flight, flushes every disk. Returns the failures;
    /// bounded by [`DRAIN_MAX`](crate::limits::DRAIN_MAX) and [`FLUSH_MAX`].
    pub async fn drain(&self) -> Vec<String> {
        let backends: Vec<_> = {
            let mut state = self.state.borrow_mut();
            state.draining = true;
            state.listeners.drain(..).for_each(|l| l.abort());
            let online = |(name, e): (&String, &DiskEntry)| match &e.state {
                DiskState::Online(o) => Some((name.clone(), o.backend.clone())),
                _ => None,
            };
            state.disks.iter().filter_map(online).collect()
        };
        let mut failures = Vec::new();
        let drains = self.protocols.all().map(|p| io::spawn(p.drain()));
        for drain in drains {
            failures.extend(drain.await.unwrap_or_default());
        }
        let flushes: Vec<_> = backends
            .into_iter()
            .filter(|(_, b)| !b.geometry().read_only)
            .map(|(name, b)| {
                (
                    name,
                    io::spawn(async move { io::timeout(FLUSH_MAX, b.flush()).await }),
                )
            })
            .collect();
        for (name, flush) in flushes {
            match flush.await {
                Some(Ok(Ok(_durable))) => {}
                Some(Ok(Err(e))) => {
                    failures.push(format!("the disk {name:?} could not be flushed: {e}"))
                }
                Some(Err(_)) | None => {
                    failures.push(format!(
                        "the disk {name:?} was not flushed within {} s",
                        FLUSH_MAX.as_secs()
                    ));
                }
            }
        }
        let disks = std::mem::take(&mut self.state.borrow_mut().disks);
        drop(disks);
        failures.extend(self.close_pools().await);
        failures
    }
}

fn reservation_store(
    file: &ConfigFile,
    nqn: &Nqn,
    n: &crate::config::NamespaceConfig,
) -> Arc<dyn ReservationStore> {
    if file.is_stored() {
        Arc::new(ReservationFile::of(
            &file.config().server.state_dir,
            nqn,
            n.nsid,
            n.uuid,
        ))
    } else {
        Arc::new(NoReservationStore)
    }
}

async fn answer(server: Rc<Server>, calls: mailbox::Mailbox<Call>) {
    while let Some(call) = calls.recv().await {
        call(server.clone());
    }
}

/// Runs until the disk's entry is removed: opens the disk, then checks it periodically.
async fn keep_disk(server: Rc<Server>, name: String, opened: Rc<Notify>) {
    loop {
        let online = matches!(
            server.state.borrow().disks.get(&name),
            Some(DiskEntry {
                state: DiskState::Online(_),
                ..
            })
        );
        if online {
            opened.notify();
            server.refresh(&name).await;
            io::time::sleep(DISK_REFRESH).await;
            continue;
        }
        let Some(disk) = server.state.borrow().file.config().disk(&name).cloned() else {
            return;
        };
        let result = disks::open(&disk).await;
        let failed = result.is_err();
        server.disk_opened(&name, result);
        server.update_holds();
        opened.notify();
        if failed {
            io::time::sleep(DISK_RETRY).await;
        }
    }
}
